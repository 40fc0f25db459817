"""Requests and responses as recordings show them: fields by name, bytes by what they hold.

An API may declare how its messages are shown (`Api.recorded`): those that move data by partition, those of groups with their
subscriptions and assignments decoded. All others have the fields of the message in its version. A topic always has its name,
also where the version names it by its id.
"""

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any

from coordinator.api.declaration import Fields
from coordinator.api.payloads import error_name
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import Message
from coordinator.protocol.schema import Definition, Field, Structure

if TYPE_CHECKING:
    from coordinator.rules.matching import Seen

_NO_ID = bytes(16)
_UUID_PADDING = 2


def summarize_request(seen: "Seen") -> Fields:
    """The request of an entry."""
    recorded = seen.exchange.route.api.recorded
    if seen.request is None:
        return {}
    return fields(seen, seen.request) if recorded is None else recorded.request(seen, seen.request)


def summarize_response(seen: "Seen", message: Any) -> Fields:
    """The response of an entry."""
    recorded = seen.exchange.route.api.recorded
    return fields(seen, message) if recorded is None else recorded.response(seen, message)


def fields(seen: "Seen", message: Message) -> Fields:
    """The fields of any message."""
    route = seen.exchange.route
    definition = Codec.of(route.dialect).definition(type(message).__name__)
    return _structure(seen, definition, definition.root, message, route.version)


def _structure(seen: "Seen", definition: Definition, structure: Structure, message: Any, version: int) -> Fields:
    """The fields that the version has, by their names."""
    shown: Fields = {}
    for field in structure.fields:
        if version not in field.versions and version not in field.tagged:
            continue
        value = getattr(message, field.attribute)
        name = field.attribute
        if name.endswith("error_code"):
            shown[name.removesuffix("_code")] = error_name(value)
        elif field.type.name == "uuid":
            shown[name] = _uuids(value)
            if name == "topic_id" and "topic" not in shown:
                shown["topic"] = seen.server.topics.topic_name(value)
        else:
            shown[name] = _value(seen, definition, field, value, version)
    return shown


def _value(seen: "Seen", definition: Definition, field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.type.is_struct:
        structure = definition.structures[field.type.name]
        if field.type.is_array:
            return [_structure(seen, definition, structure, each, version) for each in value]
        return _structure(seen, definition, structure, value, version)
    if field.type.name in {"bytes", "records"}:
        return {"bytes": len(value)}
    return value


def _uuids(value: Any) -> Any:
    return [_uuid(each) for each in value] if isinstance(value, list) else _uuid(value)


def _uuid(value: bytes) -> str | None:
    """As Kafka writes ids; None for none."""
    return None if value == _NO_ID else urlsafe_b64encode(value).decode()[:-_UUID_PADDING]
