"""The events of one group as they are in its event log, for a replay."""

from typing import Any, NamedTuple

from coordinator.groups.events import EVENT_KEYS
from coordinator.log.batch import BatchHeader, key_values
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import EventLogOpenedValue
from coordinator.runtime.serde import Serde

Events = list[Any]
"""Values of events, such as MemberJoinedValue, in the order of the log."""


class Window(NamedTuple):
    """The time that is measured (wall clock, ms)."""

    from_ms: int
    to_ms: int


class Recording:
    """Collects the events of a group from batches."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._serde = Serde(Codec.of(), EVENT_KEYS)
        self._found: list[tuple[int, Any]] = []
        self.last_ms: int | None = None

    def batch(self, data: bytes, position: int, header: BatchHeader) -> None:
        """Takes the events of a batch. Leaves out those that an EventLogOpened declares undone (docs/events.md)."""
        self.last_ms = header.max_timestamp
        for offset, key, value in key_values(data, position, header):
            record = self._serde.decode(key or b"", value)
            if record is None or record.value is None:
                continue
            event: Any = record.value
            if isinstance(event, EventLogOpenedValue) and event.undone_from_offset >= 0:
                self._found = [each for each in self._found if each[0] < event.undone_from_offset]
            if getattr(record.key, "group", None) == self._group_id:
                self._found.append((offset, event))

    @property
    def events(self) -> Events:
        return [event for _, event in self._found]

    def window(self, last_ms: int) -> Window | None:
        """The time before the end of the log, as far as there are events of the group; None if there are none."""
        if not self._found or self.last_ms is None:
            return None
        return Window(max(self._found[0][1].time_ms, self.last_ms - last_ms), self.last_ms)
