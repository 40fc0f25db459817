"""Gives out producer ids that were never given before, over all restarts (Kafka's ProducerIdControlManager).

Ids are reserved in blocks of `producer.id.block.size`, one record of the metadata log each. The rest of a block is
lost at a restart.
"""

from collections import deque
from collections.abc import Callable

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ProducerIdsRecord
from coordinator.topics.metadata_log import MetadataLog
from coordinator.topics.registry import Registry

Done = Callable[[ErrorCode, int], None]


class ProducerIdBlocks:
    """The block in use, and the requests that wait for the next one."""

    def __init__(self, metadata: MetadataLog, registry: Registry, *, node_id: int, block_size: int) -> None:
        self.minimum = 0
        """No smaller id is given out: logs that were taken over from a Kafka cluster have producers with ids of its own."""
        self._metadata = metadata
        self._registry = registry
        self._node_id = node_id
        self._block_size = block_size
        self._block = range(0)
        self._waiting: deque[Done] = deque()

    def next_id(self, done: Done) -> None:
        """Calls `done` with NONE and an id, or with an error and -1; possibly before this returns."""
        if self._block:
            producer_id, self._block = self._block[0], self._block[1:]
            done(ErrorCode.NONE, producer_id)
            return
        self._waiting.append(done)
        if len(self._waiting) > 1:
            return
        self._metadata.when_leading(self._reserve)

    def _reserve(self) -> None:
        first = max(self._registry.next_producer_id, self.minimum)
        block = range(first, first + self._block_size)

        def on_reserved(error: ErrorCode) -> None:
            waiting, self._waiting = self._waiting, deque()
            if error is ErrorCode.NONE:
                self._block = block
            for go_on in waiting:
                if error is ErrorCode.NONE:
                    self.next_id(go_on)
                else:
                    go_on(error, -1)

        self._metadata.commit([ProducerIdsRecord(broker_id=self._node_id, next_producer_id=block.stop)], on_reserved)
