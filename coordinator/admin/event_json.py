"""Events of the event log as JSON: the fields of docs/events.md in snake_case, with names for error codes and kinds of groups.

Batches are decoded in threads, so nothing here touches the server.
"""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from coordinator.groups.events import EVENT_KEYS
from coordinator.groups.kinds import LABELS
from coordinator.log.batch import key_values, split
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import message_class
from coordinator.runtime.serde import Serde

_KINDS = frozenset({"group_kind", "from_kind", "to_kind"})
_UNDECLARED = -1
MEMBERS_MAX = 100_000
"""Members of a client that a search remembers."""
TYPES = {cast(int, message_class(name).API_KEY).to_bytes(2): name.removesuffix("Key") for name in EVENT_KEYS}
"""What the key of an event begins with -> its type."""


class Entry(NamedTuple):
    """An event that is ready to be sent."""

    time_ms: int
    offset: int
    """Its offset in the event log; the number of a fault that acted."""
    json: bytes


class Wanted:
    """Which events somebody asks for, beside those of a group."""

    def __init__(self, types: Collection[str] = (), member: str = "", client: str = "", since_ms: int = 0) -> None:
        """`types`: none means all. `member`, `client`: a part of the id of a member, or of its client id or host."""
        self.types = frozenset(types)
        self.member = member
        self.client = client
        self.since_ms = since_ms
        self.keys = {key for key, name in TYPES.items() if name in self.types or (client and name == "MemberJoined")}
        """What the keys of events begin with that must be decoded; none: all."""
        self._members: dict[str, None] = {}
        """Members of the clients, as far as their joins were read: most events name the member alone."""

    def takes(self, event: Mapping[str, Any]) -> bool:
        """Whether it is asked for. Called with events in the order of the log."""
        member = event.get("member_id") or ""
        if self.client:
            named = (event.get("client_id"), event.get("client_host"), member)
            if any(self.client in each for each in named if each):
                if member and len(self._members) < MEMBERS_MAX:
                    self._members[member] = None
            elif member not in self._members:
                return False
        if self.types and event["type"] not in self.types:
            return False
        return event["time_ms"] >= self.since_ms and self.member in member


ALL = Wanted()


def decoded(
    shard: int, data: bytes, from_offset: int, group: str | None, wanted: Wanted = ALL
) -> tuple[list[Entry], int]:
    """The events in these batches from an offset on, and the offset behind them. `group` leaves out those of other groups.

    A group's events include the `EventLogOpened` that says which of them never took effect.
    Raises CorruptBatch, DecodeError, UnknownRecordVersion.
    """
    serde = Serde(Codec.of(None), EVENT_KEYS)
    head = None if group is None else _group_head(group)
    entries, next_offset = [], from_offset
    for position, header in split(data):
        next_offset = header.next_offset
        for offset, key, value in key_values(data, position, header):
            if offset < from_offset or key is None or value is None:
                continue
            if head is not None and key[2:] != head and len(key) > 2:
                continue
            if wanted.types and key[:2] not in wanted.keys:
                continue
            record = serde.decode(key, value)
            if record is None:
                continue
            message: Any = record.value
            if head is not None and len(key) == 2 and getattr(message, "undone_from_offset", _UNDECLARED) < 0:
                continue
            fields = _fields(message)
            if fields["state_end_offset"] == _UNDECLARED:
                del fields["state_end_offset"]
            event = {
                "shard": shard,
                "offset": offset,
                "type": message.NAME.removesuffix("Value"),
                "time_ms": fields.pop("time_ms"),
                "group": getattr(record.key, "group", None),
                **fields,
            }
            if wanted.takes(event):
                entries.append(Entry(event["time_ms"], offset, msgspec.json.encode(event)))
    return entries, next_offset


def _group_head(group: str) -> bytes:
    """The key of a group's event behind its type."""
    name = group.encode()
    return len(name).to_bytes(2) + name


def _fields(message: Any) -> dict[str, Any]:
    return {name: _value(name, getattr(message, name)) for name in message.__slots__}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_value(name, each) for each in value]
    if isinstance(value, bytes):
        return urlsafe_b64encode(value).decode().rstrip("=") if name == "topic_id" else b64encode(value).decode()
    if hasattr(value, "__slots__") and not isinstance(value, str | int):
        return _fields(value)
    if name == "error_code":
        return _error_name(value)
    return LABELS[value] if name in _KINDS and 0 <= value < len(LABELS) else value


def _error_name(code: int) -> str | None:
    """Kafka's name; None for NONE."""
    try:
        return ErrorCode(code).name if code else None
    except ValueError:
        return f"CODE_{code}"
