"""Where in a segment to start looking for an offset or a time.

A sparse index: an entry each few kilobytes, in memory, made while batches are appended and made anew from the batch
headers when an old segment is first looked into. Kafka keeps the same in `.index` and `.timeindex` files and rebuilds
them when they are missing; files would have to be kept in step with the log through every crash, for the sake of a scan
that reads 61 bytes per batch and happens once. Kafka's tools read the `.log` file alone.
"""

from array import array
from bisect import bisect_left, bisect_right


class SparseIndex:
    """Entries ascend in offset, position and `time_before`: the highest timestamp of all batches before the entry."""

    __slots__ = ("_interval_bytes", "_next_position", "_offsets", "_positions", "_times_before")

    def __init__(self, interval_bytes: int) -> None:
        self._interval_bytes = interval_bytes
        self._next_position = 0
        self._offsets = array("q")
        self._positions = array("q")
        self._times_before = array("q")

    def add(self, offset: int, position: int, time_before: int) -> None:
        """Takes note of a batch, if the last entry is far enough behind."""
        if position >= self._next_position:
            self._offsets.append(offset)
            self._positions.append(position)
            self._times_before.append(time_before)
            self._next_position = position + self._interval_bytes

    def position_of(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`."""
        entry = bisect_right(self._offsets, offset) - 1
        return self._positions[entry] if entry >= 0 else 0

    def position_of_time(self, timestamp: int) -> int:
        """A position at or before the first batch with a record of `timestamp` or later."""
        entry = bisect_left(self._times_before, timestamp) - 1
        return self._positions[entry] if entry >= 0 else 0

    def last_position(self, position_max: int, offset_max: int) -> int:
        """The last entry that lies at or before a position and whose batch begins at or before an offset; 0 if none."""
        entry = min(bisect_right(self._positions, position_max), bisect_right(self._offsets, offset_max)) - 1
        return self._positions[entry] if entry >= 0 else 0

    def offset_behind(self, offset: int, size_bytes: int) -> int | None:
        """Of the first entry that lies behind so many bytes from the batch that holds `offset`; None if there is none."""
        after = bisect_right(self._offsets, offset)
        if after == len(self._offsets):
            return None
        entry = bisect_left(self._positions, self._positions[after] + size_bytes)
        return self._offsets[entry] if entry < len(self._offsets) else None
