"""Brings the end of a transaction to every partition that took part in it.

The coordinator decides and makes its decision durable; then each partition's log gets a control batch, the marker, by which
readers know. A data partition takes it through the data plane, a partition of `__consumer_offsets` through its group shard.
A marker may be written twice (a crash, a lost outcome): the second one ends nothing that is open and harms nobody. It must
not be missing. So `write` repeats until every partition has it, or can never need it:

    UNKNOWN_TOPIC_OR_PARTITION    the topic is gone, and what was written to it
    INVALID_PRODUCER_EPOCH        the partition has seen a later epoch of this producer: this transaction is no longer open

Kafka stops at the latter and leaves the transaction in its prepared state until a restart; here it completes.

A partition that answers TRANSACTION_COORDINATOR_FENCED has markers from a coordinator of a later epoch. There is but one here,
which never moves: the log came from a Kafka cluster. So the marker is written again with a later epoch still.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import InternalRequest
from coordinator.runtime.result import Fact, Marker
from coordinator.runtime.router import Router
from coordinator.runtime.shard import Operation, Status
from coordinator.runtime.timers import Schedule
from coordinator.transactions.complete import Completion, complete
from coordinator.transactions.transactions import Transactions

RETRY_MS_FIRST = 50
RETRY_MS_MAX = 1_000

_NEVER_NEEDED = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH})
_EPOCH_MAX = 2**31 - 1


class DataPlane(Protocol):
    """Where data partitions are (topics/engine.py)."""

    def write_marker(self, topic: str, partition: int, marker: Marker, done: Callable[[ErrorCode], None]) -> None: ...


class Markers:
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
        """`write_to_groups(groups, marker, call, now_ms)`: what a group shard does with a marker."""
        self._topics = topics
        self._groups = groups
        self._groups_topic = groups_topic
        self._write_to_groups = write_to_groups
        self._schedule = schedule
        self._on_fact = on_fact
        self.stopped = False

    def stop(self) -> None:
        """Nothing is tried again; what is not done yet is done after the next start."""
        self.stopped = True

    def write_once(self, marker: Marker, topic: str, partition: int, done: Callable[[ErrorCode], None]) -> None:
        """Writes to one partition; `done` with NONE when the marker is durable, else with the reason why it is not."""
        if topic != self._groups_topic:
            self._topics.write_marker(topic, partition, marker, done)
            return
        shards = self._groups.shards
        if not 0 <= partition < len(shards):
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return

        def answered(outcome: Any) -> None:
            done(outcome.code if isinstance(outcome, KafkaError) else ErrorCode.NONE)

        shards[partition].submit(self._write_to_groups, InternalRequest(marker, answered))

    def write(self, marker: Marker, partitions: set[tuple[str, int]], done: Callable[[], None]) -> None:
        """Writes to all; `done` when none of them needs the marker any more. Takes out of `partitions` those that have it."""
        if not partitions:
            done()
            return
        for topic, partition in sorted(partitions):
            self._write(marker, topic, partition, RETRY_MS_FIRST, partitions, done)

    def _write(
        self,
        marker: Marker,
        topic: str,
        partition: int,
        retry_ms: int,
        left: set[tuple[str, int]],
        done: Callable[[], None],
    ) -> None:
        def written(error: ErrorCode) -> None:
            if error is ErrorCode.TRANSACTION_COORDINATOR_FENCED and marker.coordinator_epoch < _EPOCH_MAX:
                later = marker._replace(coordinator_epoch=2 * marker.coordinator_epoch + 1)
                self._write(later, topic, partition, retry_ms, left, done)
                return
            if error is not ErrorCode.NONE:
                never = error in _NEVER_NEEDED
                if never or retry_ms < RETRY_MS_MAX:  # one that fails for good would fill the server's log
                    self._tell(marker, topic, partition, error, never)
                if not never:
                    again = partial(self._again, marker, topic, partition, min(retry_ms * 2, RETRY_MS_MAX), left, done)
                    if not self.stopped:
                        self._schedule(retry_ms, again)
                    return
            left.discard((topic, partition))
            if not left:
                done()

        self.write_once(marker, topic, partition, written)

    def _again(self, *arguments: Any) -> None:
        if not self.stopped:
            self._write(*arguments)

    def _tell(self, marker: Marker, topic: str, partition: int, error: ErrorCode, never: bool) -> None:
        name = "marker_not_needed" if never else "marker_failed"
        fields = {"topic": topic, "partition": partition, "producer_id": marker.producer_id, "error": error.name}
        self._on_fact(Fact(name, fields))


class Deliveries:
    """Carries the decisions of the transactions' shards through: markers everywhere, then the completion."""

    def __init__(self, markers: Markers, schedule: Schedule) -> None:
        self.transactions: Router[Transactions] | None = None
        """Set when the shards are there; they are made with `deliver`."""
        self._markers = markers
        self._schedule = schedule
        self._under_way: set[Completion] = set()

    def deliver(self, transactional_id: str, marker: Marker, partitions: set[tuple[str, int]]) -> None:
        """Begins, unless it is under way: a shard that was loaded anew asks for all its decisions again."""
        completion = Completion(transactional_id, marker.producer_id, marker.producer_epoch)
        if completion not in self._under_way and not self._markers.stopped:
            self._under_way.add(completion)
            self._markers.write(marker, partitions, lambda: self._complete(completion))

    def _complete(self, completion: Completion) -> None:
        assert self.transactions is not None
        shard = self.transactions.shard_of(completion.transactional_id)

        def answered(outcome: Any) -> None:
            if isinstance(outcome, KafkaError) and shard.status is not Status.FAILED and not self._markers.stopped:
                self._schedule(RETRY_MS_MAX, lambda: self._again(completion))
            else:
                self._under_way.discard(completion)

        shard.submit(complete, InternalRequest(completion, answered))

    def _again(self, completion: Completion) -> None:
        if not self._markers.stopped:
            self._complete(completion)
