"""Decodes the records of a log: those of internal topics as messages, those of other topics as text.

The topic determines how records are decoded. `__consumer_offsets` of a real Kafka can have records that this server does not
write, such as those of share groups, and `__share_group_state` the state of their partitions; they are decoded, too. Records of
an unknown type or version are shown as bytes and called unknown. It is an error only if the bytes do not match the definition.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from coordinator.config.security import HIDDEN
from coordinator.log.batch import CorruptBatch
from coordinator.log.end_transaction_marker import read_end_transaction
from coordinator.log.record import LogRecord, raw_varint
from coordinator.operations.json_values import bytes_as_json, message_as_json
from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.messages import Message
from coordinator.protocol.subscription import parse_assignment, parse_subscription
from coordinator.topics import metadata_records
from coordinator.transactions.transaction import NAMES as STATE_NAMES

OFFSETS, TRANSACTIONS, SHARE_STATE, METADATA, PLAIN = "offsets", "transactions", "share-state", "metadata", "plain"
KINDS = (OFFSETS, TRANSACTIONS, SHARE_STATE, METADATA, PLAIN)
"""The ways to decode the records of a log."""
_KIND_OF_TOPIC = {
    "__consumer_offsets": OFFSETS,
    "__coordinator_events": OFFSETS,
    "__transaction_state": TRANSACTIONS,
    "__share_group_state": SHARE_STATE,
    "__cluster_metadata": METADATA,
}
_CONTROL_NAMES = {
    0: "abort",
    1: "commit",
    2: "leader change",
    3: "snapshot header",
    4: "snapshot footer",
    5: "KRaft version",
    6: "KRaft voters",
}
_KEYS_OF = {TRANSACTIONS: ("TransactionLogKey",), SHARE_STATE: ("ShareSnapshotKey", "ShareUpdateKey")}
"""The key messages of the coordinators that have few types of records; all others are those of groups."""
_CLASSIC_GROUPS = ("GroupMetadata", "ClassicGroupGeneration")
_HIDDEN_FIELDS = ("salt", "stored_key", "server_key")
"""Fields of a metadata record with which passwords can be guessed."""


class ShownRecord(NamedTuple):
    """A decoded record. `type` is the name of the message without Key or Value, "unknown ..." or "" for plain bytes."""

    type: str
    key: Any
    value: Any


def kind_of(topic: str) -> str:
    """The way to decode the records of a topic."""
    return _KIND_OF_TOPIC.get(topic, PLAIN)


def record_decoder(kind: str) -> Callable[[LogRecord], ShownRecord]:
    """The function that decodes a record. It raises DecodeError if the bytes do not match the definition."""
    return {
        OFFSETS: _coordinator,
        TRANSACTIONS: _transaction,
        SHARE_STATE: _share_state,
        METADATA: _metadata,
        PLAIN: _plain,
    }[kind]


def show_control(record: LogRecord) -> ShownRecord:
    """Decodes a control record, whose key is int16 version and int16 type. Raises DecodeError."""
    key = record.key or b""
    number = int.from_bytes(key[2:4], signed=True) if len(key) >= 4 else -1
    name = _CONTROL_NAMES.get(number, f"type {number}")
    try:
        end = read_end_transaction(record.key, record.value)
    except CorruptBatch as error:
        raise DecodeError(str(error)) from error
    value = bytes_as_json(record.value) if end is None else {"coordinator_epoch": end[1]}
    return ShownRecord(f"control: {name}", None, value)


def _plain(record: LogRecord) -> ShownRecord:
    return ShownRecord("", bytes_as_json(record.key), bytes_as_json(record.value))


@cache
def _key_names(kind: str) -> dict[int, str]:
    """Record type -> name of the key message, in the logs of one coordinator."""
    codec = Codec.of()
    names = _KEYS_OF.get(kind)
    if names is None:
        others = {name for keys in _KEYS_OF.values() for name in keys}
        names = tuple(name for name in codec.schemas.names if name.endswith("Key") and name not in others)
    found = {}
    for name in names:
        api_key = codec.definition(name).api_key
        assert api_key is not None
        found[api_key] = name
    return found


def _coordinator(record: LogRecord) -> ShownRecord:
    shown = _keyed(record, _key_names(OFFSETS))
    if shown.type in _CLASSIC_GROUPS and isinstance(shown.value, dict):
        _open_members(shown.value)
    return shown


def _transaction(record: LogRecord) -> ShownRecord:
    shown = _keyed(record, _key_names(TRANSACTIONS))
    if isinstance(shown.value, dict) and "transaction_status" in shown.value:
        status = shown.value["transaction_status"]
        shown.value["state"] = STATE_NAMES.get(status, f"unknown state {status}")
    return shown


def _share_state(record: LogRecord) -> ShownRecord:
    return _keyed(record, _key_names(SHARE_STATE))


def _keyed(record: LogRecord, key_names: dict[int, str]) -> ShownRecord:
    """Decodes a record of a coordinator: the key is int16 type + message, the value int16 version + message."""
    key, value = record.key, record.value
    if key is None or len(key) < 2:
        raise DecodeError("the key of a coordinator record has fewer than two bytes")
    number = int.from_bytes(key[:2], signed=True)
    name = key_names.get(number)
    if name is None:
        return ShownRecord(f"unknown type {number}", _base64(key), _base64(value))
    key_message = _whole(name, 0, key, 2)
    kind = name.removesuffix("Key")
    shown_key = message_as_json(key_message, Codec.of().definition(name), 0)
    if value is None:
        return ShownRecord(kind, shown_key, None)
    if len(value) < 2:
        raise DecodeError(f"the value for {name} has no version")
    version = int.from_bytes(value[:2], signed=True)
    value_name = f"{kind}Value"
    if value_name not in Codec.of().schemas.names or version not in Codec.of().versions(value_name):
        return ShownRecord(f"{kind} of unknown version {version}", shown_key, _base64(value))
    value_message = _whole(value_name, version, value, 2)
    return ShownRecord(
        kind,
        shown_key,
        {"version": version, **message_as_json(value_message, Codec.of().definition(value_name), version)},
    )


def _metadata(record: LogRecord) -> ShownRecord:
    """Decodes a metadata record. The value is frame version, type and version as unsigned varints, and the message."""
    value = record.value
    if value is None:
        return _plain(record)
    try:
        frame_version, position = raw_varint(value, 0)
        api_key, position = raw_varint(value, position)
        version, position = raw_varint(value, position)
    except (IndexError, ValueError) as error:
        raise DecodeError(f"the frame of a metadata record is incomplete: {error}") from error
    name = metadata_records.NAMES.get(api_key) if frame_version == 1 else None
    if name is None or version not in Codec.of().versions(name):
        return ShownRecord(f"unknown type {api_key} version {version}", bytes_as_json(record.key), _base64(value))
    message = _whole(name, version, value, position)
    shown = {"version": version, **message_as_json(message, Codec.of().definition(name), version)}
    shown |= {field: HIDDEN for field in _HIDDEN_FIELDS if field in shown}
    return ShownRecord(name.removesuffix("Record"), bytes_as_json(record.key), shown)


def _whole(name: str, version: int, data: bytes, position: int) -> Message:
    message, end = Codec.of().decoder(name, version)(data, position)
    if end != len(data):
        raise DecodeError(f"{len(data) - end} bytes after {name}")
    return message


def _open_members(value: dict[str, Any]) -> None:
    """Adds topics and partitions to the members of a group of consumers, if their bytes can be decoded.

    A generation that is not assigned yet has no assignments.
    """
    if value.get("protocol_type") != "consumer":
        return
    for member in value.get("members", ()):
        try:
            subscription = parse_subscription(b64decode(member["subscription"]))
            assignment = parse_assignment(b64decode(member["assignment"])) if "assignment" in member else None
        except DecodeError:
            continue
        member["subscribed_topics"] = list(subscription.topics)
        if assignment is not None:
            member["assigned_partitions"] = {topic: list(which) for topic, which in assignment.partitions.items()}


def _base64(content: bytes | None) -> Any:
    return None if content is None else {"base64": b64encode(content).decode()}
