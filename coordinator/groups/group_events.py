"""The events of one group, from batches of its event log, as `rebalance_causes` reads them."""

from typing import Any, NamedTuple, cast

from coordinator.groups.rebalance_causes import (
    DELIVERY_TYPES,
    REWOUND,
    TYPES,
    Client,
    Findings,
    GroupEvent,
    Step,
    find_causes,
)
from coordinator.log.batch import BatchHeader, key_values
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import message_class


class Found(NamedTuple):
    """The events of a group in the order of the log."""

    events: list[GroupEvent]
    first_ms: int | None
    """The time of the first event in the log, of whatever group; None if there is none."""
    last_ms: int | None
    known: dict[str, Client] | None
    """Member id -> client of the members that are in the group now; None if there is no group, or the source cannot say."""

    def findings(self, group_id: str, to_ms: int, last_ms: int) -> Findings:
        """Why the group rebalanced in the time before `to_ms`, as far as the log goes back."""
        # A batch is later than the events in it, and the first one may have the first join.
        times = [each for each in (self.first_ms, *(event.time_ms for event in self.events[:1])) if each is not None]
        from_ms = max(to_ms - last_ms, min((*times, to_ms)))
        return find_causes(group_id, self.events, from_ms, to_ms, self.known)


class EventReader:
    """Collects the events of a group from batches."""

    def __init__(self, group_id: str) -> None:
        name = group_id.encode()
        keys = [(name_of, message_class(f"{name_of}Key").API_KEY) for name_of in (*TYPES, *DELIVERY_TYPES)]
        head = len(name).to_bytes(2) + name
        self._types = {
            cast(int, number).to_bytes(2) + (b"" if name_of == TYPES[0] else head): name_of for name_of, number in keys
        }
        self.events: list[GroupEvent] = []
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    def batch(self, data: bytes, position: int, header: BatchHeader) -> None:
        if self.first_ms is None:
            self.first_ms = header.base_timestamp
        self.last_ms = header.max_timestamp
        for offset, key, value in key_values(data, position, header):
            kind = self._types.get(key or b"")
            if kind is not None and value is not None:
                self.events.append(group_event(kind, offset, value))

    def found(self, known: dict[str, Client] | None) -> Found:
        return Found(self.events, self.first_ms, self.last_ms, known)


def group_event(kind: str, offset: int, value: bytes) -> GroupEvent:
    """An event from the value of its record. `kind`: the name of its type."""
    message: Any
    message, _ = Codec.of().decoder(f"{kind}Value", int.from_bytes(value[:2], signed=True))(value, 2)
    fields = {
        name: getattr(message, attribute)
        for name, attribute in _FIELDS
        if getattr(message, attribute, None) is not None
    }
    waited = getattr(message, "waited_for", ())
    steps = [
        Step(topic.topic_name, each.partition, each.previous_offset, each.committed_offset, each.owner_id or "")
        for topic in (message.topics if kind == REWOUND else ())
        for each in topic.partitions
    ]
    return GroupEvent(
        type=kind,
        offset=offset,
        waited_for=[(each.member_id, each.waited_ms) for each in waited],
        steps=steps,
        ranges=[(each.first_offset, each.last_offset, each.delivery_count) for each in getattr(message, "ranges", ())],
        **fields,
    )


_FIELDS = (
    *((name, name) for name in ("time_ms", "member_id", "client_id", "client_host", "epoch", "cause", "reason")),
    *((name, name) for name in ("duration_ms", "delay_ms", "timeout", "timeout_ms", "undone_from_offset")),
    ("members", "members"),
    ("instance_id", "group_instance_id"),
    ("port", "client_port"),
    ("connection_end", "connection_end"),
    ("principal", "principal"),
    ("previous_ms", "previous_time_ms"),
    ("topic", "topic_name"),
    *((name, name) for name in ("partition", "records")),
)
