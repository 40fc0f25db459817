"""Random histories of transactions over offsets, on a shard with a log and a disk, beside a naive model of Kafka's rule.

nothing is fetched that was not committed, and nothing that was committed is lost
`require_stable` waits for what is undecided, and for nothing else
a kill, a power cut and a compaction change nothing that was acknowledged: a load is what the log means  (I1, I2, I10)
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinator.groups.delete_groups import delete_groups
from coordinator.groups.offsets.commit import commit
from coordinator.groups.offsets.commit_in_transaction import ANSWERS, VerifiedCommit, commit_in_transaction
from coordinator.groups.offsets.delete import delete
from coordinator.groups.offsets.fetch import fetch
from coordinator.groups.offsets.partial_commit import PartialCommit
from coordinator.groups.offsets.write_marker import write_marker
from coordinator.log.log import LogSettings
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from coordinator.runtime.cleaner import Cleaner
from coordinator.runtime.result import Marker
from tests.runtime.shard_world import TOPIC_ID, ReplyTarget, ShardWorld

PARTITIONS = range(2)
PRODUCERS = (1, 2, 3)
BUMPS = {1: False, 2: True, 3: True}
"""Whether a producer's transactions end with a higher epoch (transaction.version 2)."""

some_partitions = st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=2, unique=True)
producers = st.sampled_from(PRODUCERS)
STEPS = st.one_of(
    *[st.tuples(st.just("stage"), producers, some_partitions)] * 5,
    *[st.tuples(st.just("end"), producers, st.booleans())] * 3,
    *[st.tuples(st.just("plain"), some_partitions)] * 3,
    st.tuples(st.just("commit_of_the_transaction_before"), st.sampled_from([2, 3]), some_partitions),
    st.tuples(st.just("marker_again"), producers, st.booleans()),
    st.tuples(st.just("take_back"), some_partitions),
    st.tuples(st.sampled_from(["delete_group", "turn", "settle", "clean", "clean", "kill"])),
    st.tuples(st.just("cut_the_power"), st.integers(0, 99)),
)


@dataclass
class Decided:
    """A decision of the shard, and how many records it wrote."""

    target: ReplyTarget
    records: int
    verb: str
    arguments: tuple[Any, ...]


class Meaning:
    """The meaning of a log by Kafka's rule: every offset has the place of its record, and the later record wins."""

    def __init__(self) -> None:
        self.place = 0
        self.committed: dict[int, tuple[int, int]] = {}
        self.pending: dict[int, dict[int, tuple[int, int]]] = {}
        self.markers: dict[int, int] = {}
        """Producer -> the epoch of its last marker."""

    def take(self, verb: str, arguments: tuple[Any, ...]) -> None:
        getattr(self, verb)(*arguments)
        self.place += 1

    def plain(self, partitions: list[int], offset: int) -> None:
        self.committed.update(dict.fromkeys(partitions, (self.place, offset)))

    def stage(self, producer: int, partitions: list[int], offset: int) -> None:
        self.pending.setdefault(producer, {}).update(dict.fromkeys(partitions, (self.place, offset)))

    def end(self, producer: int, epoch: int, commits: bool) -> None:
        for partition, staged in self.pending.pop(producer, {}).items():
            if commits and staged > self.committed.get(partition, (-1, 0)):
                self.committed[partition] = staged
        self.markers[producer] = epoch

    def take_back(self, partitions: list[int]) -> None:
        for partition in partitions:
            self.committed.pop(partition, None)
            for staged in self.pending.values():
                staged.pop(partition, None)

    @property
    def unstable(self) -> set[int]:
        return {partition for staged in self.pending.values() for partition in staged}


class ForgetfulWorld(ShardWorld):
    """Compaction removes tombstones and markers as soon as it may, and not a day later."""

    def log_settings(self) -> LogSettings:
        return replace(super().log_settings(), delete_retention_ms=0)


class History:
    def __init__(self, *, forgetful: bool) -> None:
        self.forgetful = forgetful
        self.world = (ForgetfulWorld if forgetful else ShardWorld)(segment_bytes=500)
        self.decided: list[Decided] = []
        self.meaning = Meaning()
        self.next_offset = 0
        self.epochs = dict.fromkeys(PRODUCERS, 0)

    # --- requests ------------------------------------------------------------------------------------------------

    def ask(self, operation: Any, request: Any, version: int = 8) -> tuple[ReplyTarget, int]:
        before = self.world.shard._offset_written
        target = ReplyTarget(request)
        target.api_version = version
        self.world.shard.submit(operation, target)
        return target, self.world.shard._offset_written - before

    def decide(self, asked: tuple[ReplyTarget, int], verb: str, *arguments: Any) -> None:
        target, records = asked
        if records:
            self.decided.append(Decided(target, records, verb, arguments))
            self.meaning.take(verb, arguments)

    def offset(self) -> int:
        self.next_offset += 1
        return self.next_offset

    def plain(self, partitions: list[int]) -> None:
        offset = self.offset()
        topic = OffsetCommitRequest.OffsetCommitRequestTopic("t", TOPIC_ID, [])
        topic.partitions = [
            OffsetCommitRequest.OffsetCommitRequestPartition(index, offset, -1, "") for index in partitions
        ]
        request = OffsetCommitRequest("g", generation_id_or_member_epoch=-1, topics=[topic])
        self.decide(self.ask(commit, request), "plain", partitions, offset)

    def staged(self, producer: int, epoch: int, partitions: list[int], offset: int) -> tuple[ReplyTarget, int]:
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic("t", TOPIC_ID, [])
        topic.partitions = [
            TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(index, offset, -1, "") for index in partitions
        ]
        request = TxnOffsetCommitRequest("tx", "g", producer, epoch, topics=[topic])
        return self.ask(commit_in_transaction, VerifiedCommit(PartialCommit(request, ANSWERS), None), 5)

    def stage(self, producer: int, partitions: list[int]) -> None:
        offset = self.offset()
        asked = self.staged(producer, self.epochs[producer], partitions, offset)
        assert asked[1] == len(partitions)
        self.decide(asked, "stage", producer, partitions, offset)

    def commit_of_the_transaction_before(self, producer: int, partitions: list[int]) -> None:
        """A request that arrives after its transaction has ended, as far as the log knows that."""
        if self.forgetful or self.meaning.markers.get(producer, -1) < self.epochs[producer]:
            return
        target, records = self.staged(producer, self.epochs[producer] - 1, partitions, -99)
        assert not records
        self.world.settle()
        (refused,) = target.answers
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.INVALID_PRODUCER_EPOCH

    def end(self, producer: int, commits: bool) -> None:
        self.epochs[producer] += BUMPS[producer]
        epoch = self.epochs[producer]
        marker = Marker(producer, epoch, commits, 0, 2 if BUMPS[producer] else 1)
        self.decide(self.ask(write_marker, marker), "end", producer, epoch, commits)

    def marker_again(self, producer: int, commits: bool) -> None:
        """A marker sent twice must not end the transaction that began meanwhile (undetectable in the first protocol)."""
        epoch = self.meaning.markers.get(producer)
        if epoch is None or (not BUMPS[producer] and self.meaning.pending.get(producer)):
            return
        marker = Marker(producer, epoch, commits, 0, 2 if BUMPS[producer] else 1)
        asked = self.ask(write_marker, marker)
        assert bool(asked[1]) is not bool(self.meaning.pending.get(producer))
        self.decide(asked, "end", producer, epoch, commits)

    def take_back(self, partitions: list[int]) -> None:
        doomed = [OffsetDeleteRequest.OffsetDeleteRequestPartition(index) for index in partitions]
        request = OffsetDeleteRequest("g", [OffsetDeleteRequest.OffsetDeleteRequestTopic("t", doomed)])
        self.decide(self.ask(delete, request), "take_back", partitions)

    def delete_group(self) -> None:
        self.decide(self.ask(delete_groups, ["g"]), "take_back", list(PARTITIONS))

    # --- failures ------------------------------------------------------------------------------------

    def turn(self) -> None:
        self.world.turn()

    def settle(self) -> None:
        self.world.settle()

    def clean(self) -> None:
        self.world.settle()
        cleaner = Cleaner(
            lambda: [self.world.shard.log],
            self.world.clock,
            run_in_thread=self.world.run,
            soon=self.world.soon.append,
            schedule=self.world.schedule,
            backoff_ms=1,
        )
        self.world.advance(1)
        self.world.settle()
        cleaner.stop()

    def kill(self) -> None:
        self.restart(self.world.disk.kill)

    def cut_the_power(self, seed: int) -> None:
        self.restart(lambda: self.world.disk.crash(Random(seed)))

    def restart(self, how: Any) -> None:
        acknowledged = max((n for n, each in enumerate(self.decided, 1) if each.target.answers), default=0)
        self.world.restart(how)
        left, survived = self.world.shard.log.end_offset, 0
        while left > 0:
            left -= self.decided[survived].records
            survived += 1
        assert left == 0, "half of what an operation decided is in the log"
        assert survived >= acknowledged
        del self.decided[survived:]
        self.meaning = Meaning()
        for each in self.decided:
            self.meaning.take(each.verb, each.arguments)
        for producer in PRODUCERS:
            if BUMPS[producer]:
                self.epochs[producer] = self.meaning.markers.get(producer, 0)

    # --- invariants --------------------------------------------------------------------------------------------

    def responses_agree_with_the_log(self) -> None:
        for require_stable in (False, True):
            topic = OffsetFetchRequest.OffsetFetchRequestTopic("t", list(PARTITIONS))
            request = OffsetFetchRequest("g", [topic], require_stable=require_stable)
            result = fetch(self.world.shard.state, request, ReplyTarget(request), 0)
            answered = {each.partition_index: each for each in result.reply.topics[0].partitions}
            for partition in PARTITIONS:
                offset, error = answered[partition].committed_offset, answered[partition].error_code
                if require_stable and partition in self.meaning.unstable:
                    assert (offset, error) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
                else:
                    assert (offset, error) == (self.meaning.committed.get(partition, (0, -1))[1], ErrorCode.NONE)

    def a_group_is_there_while_it_has_offsets_if_only_pending_ones(self) -> None:
        if self.meaning.committed or self.meaning.unstable:
            assert "g" in self.world.shard.state.by_id

    def what_is_remembered_is_what_is_pending(self) -> None:
        pending = self.world.shard.state.offsets.pending
        found = {
            (producer, partition)
            for producers in pending.by_group.values()
            for (_, partition), each in producers.items()
            for producer in each
        }
        assert found == {(producer, key[1]) for producer, keys in pending.by_producer.items() for _, key in keys}
        assert found == {(producer, each) for producer, staged in self.meaning.pending.items() for each in staged}


@pytest.mark.long
@settings(max_examples=60)
@given(st.lists(STEPS, min_size=40, max_size=70), st.booleans())
@example([("stage", 1, [0]), ("stage", 2, [0]), ("end", 2, True), ("end", 1, True)], False)
@example(
    [("stage", 1, [0]), ("stage", 2, [0]), ("stage", 1, [0]), ("end", 2, True), ("kill",), ("end", 1, True)], False
)
def test_any_history_of_transactions_means_what_its_log_means(steps: list[tuple[Any, ...]], forgetful: bool) -> None:
    history = History(forgetful=forgetful)
    for verb, *arguments in steps:
        getattr(history, verb)(*arguments)
        history.responses_agree_with_the_log()
        history.a_group_is_there_while_it_has_offsets_if_only_pending_ones()
        history.what_is_remembered_is_what_is_pending()
    history.kill()
    history.responses_agree_with_the_log()
