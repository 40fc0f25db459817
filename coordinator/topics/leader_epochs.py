"""The leader epochs of a partition, and where in its log each began (KIP-101; Kafka's LeaderEpochFileCache)."""

from bisect import bisect_right

from coordinator.protocol.errors import ErrorCode

LEADER_EPOCH = 0
"""The epoch of the only leader that a partition has on one node."""
UNDEFINED = -1


class LeaderEpochs:
    """The epochs in ascending order, at least one: each began at the end of the log that the one before left."""

    __slots__ = ("_epochs", "_starts", "current")

    def __init__(self) -> None:
        self.current = LEADER_EPOCH
        """The epoch of the leader."""
        self._epochs, self._starts = [LEADER_EPOCH], [0]

    def begin(self, epoch: int, end_offset: int) -> None:
        """Begins a later epoch. One without records leaves no trace in the log, and goes."""
        while self._starts and self._starts[-1] >= end_offset:
            del self._epochs[-1], self._starts[-1]
        self._epochs.append(epoch)
        self._starts.append(end_offset)
        self.current = epoch

    def check(self, epoch: int) -> ErrorCode:
        """Whether a client knows the current epoch, or none: NONE, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH."""
        if epoch == self.current:  # by itself, as it is the frequent case
            return ErrorCode.NONE
        if epoch == UNDEFINED:
            return ErrorCode.NONE
        return ErrorCode.UNKNOWN_LEADER_EPOCH if epoch > self.current else ErrorCode.FENCED_LEADER_EPOCH

    def at(self, offset: int) -> int:
        """The epoch of an offset."""
        return self._epochs[max(0, bisect_right(self._starts, offset) - 1)]

    def end_of(self, epoch: int, start_offset: int, end_offset: int) -> tuple[int, int]:
        """The largest epoch that is not later, and where it ends; (-1, -1) for an unknown one. The offsets: the log's.

        An epoch before the first one ends where the log begins.
        """
        position = bisect_right(self._epochs, epoch)
        if epoch == UNDEFINED or (position == len(self._epochs) and epoch != self.current):
            return UNDEFINED, UNDEFINED
        if position == len(self._epochs):
            return epoch, end_offset
        found = epoch if position == 0 else self._epochs[position - 1]
        return found, max(self._starts[position], start_offset)


FROM_THE_START = LeaderEpochs()
"""Those of a partition whose leader never changes: all have this one."""
