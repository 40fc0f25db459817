"""A shard's log as consumers see it: a partition of `__consumer_offsets` that can be read and not written to.

Monitoring tools read that topic. What they get is what is durable, as from any other partition.
"""

from coordinator.log.log import Log
from coordinator.topics.partition import Reader, State


class InternalPartition:
    """A shard's log as consumers see it: read-only, up to what is durable."""

    __slots__ = ("_syncs", "index", "log", "readers")

    def __init__(self, index: int, log: Log, *, syncs: bool) -> None:
        self.index = index
        self.log = log
        self.readers: dict[Reader, None] = {}
        self._syncs = syncs

    @property
    def state(self) -> State:
        return State.ACTIVE

    @property
    def start_offset(self) -> int:
        return self.log.start_offset

    @property
    def high_watermark(self) -> int:
        return self.log.synced_offset if self._syncs else self.log.end_offset
