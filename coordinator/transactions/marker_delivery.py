"""Delivers the end of a transaction to every partition that took part in it (Kafka's TransactionMarkerChannelManager).

The coordinator decides and makes its decision durable. Then each partition's log gets a control batch, the marker, from
which readers learn the outcome. Data partitions are written through the data plane, partitions of `__consumer_offsets` through
their group shard.

A marker may be written twice (after a crash, or when an outcome was lost): the second one finds nothing open and does no
harm. A marker must never be missing. So `MarkerWriter.write` retries until every partition has it or can never need it:

    UNKNOWN_TOPIC_OR_PARTITION    the topic was deleted together with its data
    INVALID_PRODUCER_EPOCH        the partition has seen a later epoch of this producer: this transaction is closed there

Kafka gives up on the latter and leaves the transaction in its prepared state until a restart; here it completes.

TRANSACTION_COORDINATOR_FENCED means that the partition has markers of a later coordinator epoch. If this server's coordinator
never moves, such a log was taken over from a Kafka cluster: the marker is written again with a higher epoch. If it moves
between workers, another one has the transaction now and delivers its markers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import InternalRequest
from coordinator.runtime.result import Fact, Marker
from coordinator.runtime.router import Router
from coordinator.runtime.shard import Operation, Status
from coordinator.transactions.complete import Completion, complete
from coordinator.transactions.machine import TransactionMachine
from coordinator.transactions.transaction import Partition
from coordinator.world.schedule import Handle, Schedule

RETRY_MS_FIRST = 50
RETRY_MS_MAX = 1_000

_NEVER_NEEDED = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH})
_EPOCH_MAX = 2**31 - 1


class DataPlane(Protocol):
    """Writes to data partitions (topics/engine.py)."""

    def write_marker(self, topic: str, partition: int, marker: Marker, done: Callable[[ErrorCode], None]) -> None: ...


@dataclass(eq=False)
class _Waiting:
    """A write that failed, until it is repeated."""

    write: Callable[[int], None]
    """Takes the pause before the next time, in ms."""
    timer: Handle | None = None


WriteOnce = Callable[[Marker, str, int, Callable[[ErrorCode], None]], None]
"""As `MarkerWriter.write_once`."""


class MarkerWriter:
    """Writes markers to data partitions and to the shards of `groups_topic`."""

    def __init__(
        self,
        topics: DataPlane,
        groups: Router[Any],
        groups_topic: str,
        write_to_groups: Operation[Any, Marker],
        *,
        schedule: Schedule,
        on_fact: Callable[[Fact], None],
    ) -> None:
        """`write_to_groups(groups, marker, context, now_ms)`: the operation that writes a marker to a group shard."""
        self._topics = topics
        self._groups = groups
        self._groups_topic = groups_topic
        self._write_to_groups = write_to_groups
        self._schedule = schedule
        self._on_fact = on_fact
        self.stopped = False
        self.elsewhere: WriteOnce | None = None
        """Writes to a shard of groups that another worker has; None: all are here, and the coordinator never moves."""
        self.is_data_elsewhere = False
        """Whether another worker has the records of topics."""
        self._waiting: dict[Partition, dict[_Waiting, None]] = {}

    def stop(self) -> None:
        """Ends all retries. Deliveries that are not complete start again after the next start."""
        self.stopped = True

    def write_once(self, marker: Marker, topic: str, partition: int, done: Callable[[ErrorCode], None]) -> None:
        """Writes to one partition. `done` gets NONE when the marker is durable, else the error."""
        if topic != self._groups_topic:
            self._topics.write_marker(topic, partition, marker, done)
            return
        shards = self._groups.shards
        if not 0 <= partition < len(shards):
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return

        def on_outcome(outcome: Any) -> None:
            done(outcome.code if isinstance(outcome, KafkaError) else ErrorCode.NONE)

        shards[partition].submit(self._write_to_groups, InternalRequest(marker, on_outcome))

    def write(self, marker: Marker, remaining: set[Partition], done: Callable[[], None]) -> None:
        """Writes to every partition of `remaining`, and removes each from it when it has the marker or cannot need it.

        Calls `done` when the set is empty.
        """
        if not remaining:
            done()
            return
        for partition in sorted(remaining):
            self._write(marker, partition, RETRY_MS_FIRST, remaining, done)

    def _write(
        self, marker: Marker, partition: Partition, retry_ms: int, remaining: set[Partition], done: Callable[[], None]
    ) -> None:
        def again(next_ms: int) -> None:
            self._write(marker, partition, next_ms, remaining, done)

        def on_written(error: ErrorCode) -> None:
            is_fenced = error is ErrorCode.TRANSACTION_COORDINATOR_FENCED
            if is_fenced and self.elsewhere is None and marker.coordinator_epoch < _EPOCH_MAX:
                higher = marker._replace(coordinator_epoch=2 * marker.coordinator_epoch + 1)
                self._write(higher, partition, retry_ms, remaining, done)
                return
            if error is not ErrorCode.NONE:
                never_needed = error in _NEVER_NEEDED or is_fenced
                if never_needed or retry_ms < RETRY_MS_MAX:  # a permanent failure must not fill the server's log
                    self._report(marker, partition, error, never_needed=never_needed)
                if not never_needed:
                    if not self.stopped:
                        self._wait(partition, retry_ms, again)
                    return
            remaining.discard(partition)
            if not remaining:
                done()

        self._write_where_it_is(marker, *partition, on_written)

    def _write_where_it_is(self, marker: Marker, topic: str, index: int, done: Callable[[ErrorCode], None]) -> None:
        if self.elsewhere is not None and self._is_elsewhere(topic, index):
            self.elsewhere(marker, topic, index, done)
        else:
            self.write_once(marker, topic, index, done)

    def _is_elsewhere(self, topic: str, index: int) -> bool:
        if topic != self._groups_topic:
            return self.is_data_elsewhere
        shards = self._groups.shards
        return 0 <= index < len(shards) and shards[index].status is Status.ELSEWHERE

    def _wait(self, partition: Partition, retry_ms: int, write: Callable[[int], None]) -> None:
        def retry() -> None:
            waiting = self._waiting[partition]
            del waiting[entry]
            if not waiting:
                del self._waiting[partition]
            if not self.stopped:
                write(min(retry_ms * 2, RETRY_MS_MAX))

        entry = _Waiting(write)
        self._waiting.setdefault(partition, {})[entry] = None
        entry.timer = self._schedule(retry_ms, retry)

    def on_moved(self, topic: str, index: int) -> None:
        """Repeats at once what waits for a partition that another worker, or this one, has taken over."""
        for entry in self._waiting.pop((topic, index), {}):
            if entry.timer is not None:
                entry.timer.cancel()
            if not self.stopped:
                entry.write(RETRY_MS_FIRST)

    def _report(self, marker: Marker, partition: Partition, error: ErrorCode, *, never_needed: bool) -> None:
        name = "marker_not_needed" if never_needed else "marker_failed"
        topic, index = partition
        fields = {"topic": topic, "partition": index, "producer_id": marker.producer_id, "error": error.name}
        self._on_fact(Fact(name, fields))


class MarkerDelivery:
    """Carries out the decisions of the transaction shards: the marker to every partition, then the completion."""

    def __init__(self, markers: MarkerWriter, schedule: Schedule) -> None:
        self.transactions: Router[TransactionMachine] | None = None
        """The transaction shards. They are made with `deliver`, so they are set afterwards."""
        self._markers = markers
        self._schedule = schedule
        self.in_progress: set[Completion] = set()
        """The deliveries that are not complete."""

    def deliver(self, transactional_id: str, marker: Marker, remaining: set[Partition]) -> None:
        """Starts a delivery unless it is in progress: a shard asks again for all of its decisions after a reload."""
        completion = Completion(transactional_id, marker.producer_id, marker.producer_epoch, marker.coordinator_epoch)
        if completion not in self.in_progress and not self._markers.stopped:
            self.in_progress.add(completion)
            self._markers.write(marker, remaining, lambda: self._complete(completion))

    def _complete(self, completion: Completion) -> None:
        assert self.transactions is not None
        shard = self.transactions.shard_of(completion.transactional_id)

        def on_outcome(outcome: Any) -> None:
            is_over = shard.status in (Status.FAILED, Status.ELSEWHERE) or self._markers.stopped
            if isinstance(outcome, KafkaError) and not is_over:
                self._schedule(RETRY_MS_MAX, lambda: self._retry(completion))
            else:
                self.in_progress.discard(completion)

        shard.submit(complete, InternalRequest(completion, on_outcome))

    def _retry(self, completion: Completion) -> None:
        if not self._markers.stopped:
            self._complete(completion)
