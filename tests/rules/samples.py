"""A request of every API in every version that names one group, topic, partition and member, made from its definition."""

from typing import Any

from coordinator import requests
from coordinator.api.declaration import supported_apis
from coordinator.protocol import messages
from coordinator.protocol.codec import Codec
from coordinator.protocol.schema import Definition, Field, Structure

APIS = {api.name: api for api in supported_apis(requests).values()}
VERSIONS = [(name, version) for name, api in APIS.items() for version in range(api.versions[0], api.versions[1] + 1)]
GROUP, TOPIC, MEMBER, TRANSACTIONAL_ID = "the-group", "orders", "the-member", "the-transaction"

_TEXTS = {
    "group_id": GROUP, "groups": GROUP, "groups_names": GROUP, "group_ids": GROUP, "key": GROUP, "coordinator_keys": GROUP,
    "name": TOPIC, "topic": TOPIC, "topic_name": TOPIC, "topic_names": TOPIC, "resource_name": TOPIC,
    "subscribed_topic_names": TOPIC, "member_id": MEMBER, "transactional_id": TRANSACTIONAL_ID,
    "v3_and_below_transactional_id": TRANSACTIONAL_ID, "transactional_ids": TRANSACTIONAL_ID,
    "principal": "User:alice", "host": "*", "client_software_name": "a-client", "client_software_version": "1",
}  # fmt: skip
_ARRAYS = {
    "topic_data", "partition_data", "topics", "partitions", "partition_indexes", "groups", "members", "transactions",
    "v3_and_below_topics", "markers", "resources", "dirs", "topic_partitions", "coordinator_keys", "groups_names", "group_ids",
    "transactional_ids", "topic_names", "subscribed_topic_names", "deletions", "creations", "filters", "entries",
}  # fmt: skip
_NUMBERS = {
    "acks": -1, "resource_type": 2, "endpoint_type": 1, "max_wait_ms": 60_000, "min_bytes": 1_000, "count": 8,
    "resource_type_filter": 2, "pattern_type_filter": 3, "resource_pattern_type": 3, "operation": 3, "permission_type": 3,
}  # fmt: skip


def sample(api: str, version: int, topic_id: bytes) -> Any:
    """The request; `topic_id` is that of `TOPIC`."""
    definition = Codec.of().definition(f"{api}Request")
    return _structure(definition, definition.root, getattr(messages, f"{api}Request"), version, topic_id)


def _structure(definition: Definition, structure: Structure, cls: Any, version: int, topic_id: bytes) -> Any:
    message = cls()
    for field in structure.fields:
        if version in field.versions:
            value = _value(definition, field, cls, version, topic_id)
            if value is not None:
                setattr(message, field.attribute, value)
    return message


def _value(definition: Definition, field: Field, cls: Any, version: int, topic_id: bytes) -> Any:
    """None: the default."""
    name = field.attribute
    if field.type.is_array and name not in _ARRAYS:
        return None
    if field.type.is_struct:
        if not field.type.is_array:
            return None
        top = getattr(messages, definition.name)
        element = _structure(
            definition, definition.structures[field.type.name], getattr(top, field.type.name), version, topic_id
        )
        return [element]
    value: Any = _TEXTS.get(name)
    if field.type.name == "uuid" and name == "topic_id":
        value = topic_id
    elif field.type.name.startswith("int"):
        value = _NUMBERS.get(name, 0 if field.type.is_array else None)
    elif field.type.name != "string":
        value = None
    return [value] if field.type.is_array and value is not None else value


def error_codes(message: Any) -> list[int]:
    """All error codes of a response other than NONE, at any depth."""
    found = []
    for attribute in type(message).__slots__:
        value = getattr(message, attribute)
        if attribute.endswith("error_code") and value:
            found.append(value)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, messages.Message):
                found += error_codes(each)
    return found
