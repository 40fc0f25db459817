"""A sparse index of a segment: where to start searching for an offset or a timestamp.

It has an entry every few kilobytes and lives in memory. Appends extend it, and it is rebuilt from the batch headers when an
old segment is first searched. Kafka keeps the same data in files (`OffsetIndex`, `TimeIndex`) and rebuilds missing ones.
Files would have to be kept consistent with the log through every crash, only to save one scan that reads 61 bytes per
batch. Kafka's tools need the `.log` file only.
"""

from array import array
from bisect import bisect_left, bisect_right


class SparseIndex:
    """Entries ascend in offset, position and `time_before`, the highest timestamp (ms) of all batches before the entry."""

    __slots__ = ("_interval_bytes", "_offsets", "_positions", "_times_before", "next_position")

    def __init__(self, interval_bytes: int) -> None:
        self._interval_bytes = interval_bytes
        self.next_position = 0
        """A batch before this position, which is `interval_bytes` after the last entry, gets none."""
        self._offsets = array("q")
        self._positions = array("q")
        self._times_before = array("q")

    def add(self, offset: int, position: int, time_before: int) -> None:
        """Adds an entry for a batch at `next_position` or later."""
        self._offsets.append(offset)
        self._positions.append(position)
        self._times_before.append(time_before)
        self.next_position = position + self._interval_bytes

    def last_offsets(self, count: int) -> list[int]:
        """The offsets of the last entries, in order."""
        return self._offsets[-count:].tolist()

    def cut(self, position: int) -> None:
        """Removes the entries at or after a position."""
        count = bisect_left(self._positions, position)
        del self._offsets[count:], self._positions[count:], self._times_before[count:]
        self.next_position = self._positions[-1] + self._interval_bytes if count else 0

    def position_of(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`."""
        entry = bisect_right(self._offsets, offset) - 1
        return self._positions[entry] if entry >= 0 else 0

    def position_of_time(self, timestamp: int) -> int:
        """A position at or before the first batch with a record of `timestamp` or later."""
        entry = bisect_left(self._times_before, timestamp) - 1
        return self._positions[entry] if entry >= 0 else 0

    def last_position(self, position_max: int, offset_max: int) -> int:
        """Position of the last entry at or before `position_max` whose batch begins at or before `offset_max`; 0 if none."""
        entry = min(bisect_right(self._positions, position_max), bisect_right(self._offsets, offset_max)) - 1
        return self._positions[entry] if entry >= 0 else 0

    def offset_behind(self, offset: int, size_bytes: int) -> int | None:
        """Offset of the first entry at least `size_bytes` after the first entry beyond `offset`; None if there is none."""
        after = bisect_right(self._offsets, offset)
        if after == len(self._offsets):
            return None
        entry = bisect_left(self._positions, self._positions[after] + size_bytes)
        return self._offsets[entry] if entry < len(self._offsets) else None
