"""Generates a log with a known truth: invented groups with rebalances and commits, and planted zombies.

Use it to see the tables and the report before there is a real log, to size a cluster, and for measurements. The groups follow
the consumer protocol: a rebalance moves partitions through unrevoked and unreleased members, commits are in flight while the
epoch changes, and members keep committing partitions they have lost or never owned. The rules are implemented here as simply
as possible and independently of the server, so that a bug in the server cannot hide in the expected result.

With a small probability a commit that should be refused is accepted on purpose. truth.json lists those as `planted`, by shard
and event offset. The seed determines everything.
"""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from coordinator.groups.kinds import Kind
from coordinator.log.batch_builder import BatchBuilder
from coordinator.protocol import messages
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.java import positive_hash
from coordinator.protocol.messages import (
    CommitDecidedKey,
    CommitDecidedValue,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    EventLogOpenedKey,
    EventLogOpenedValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.runtime.result import Record
from coordinator.runtime.serde import Serde

BATCH_RECORDS = 16
START_MS = 1_760_000_000_000
STABLE, UNREVOKED, UNRELEASED = 0, 1, 2
ACCEPTS, REFUSES = 1, 2
POLICY = "revocation-epoch"
HOT_MEMBERS, HOT_PARTITIONS = 120, 1000
STEPS_TO_JOIN = 0.0004
"""Probability that a step is a join (and again, a leave): about one rebalance in 1,200 commits."""
_Assigned = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions
_Target = ConsumerGroupTargetAssignmentMemberValue.TopicPartition
_Topic = CommitDecidedValue.TopicOffsets
_Partition = CommitDecidedValue.PartitionOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parameters of the log. `decisions`: commits of single partitions; `hot`: the share of them in one group."""

    seed: int = 11
    groups: int = 200
    decisions: int = 100_000
    hot: float = 0.3
    shards: int = 4
    planted: float = 0.05
    """Probability of accepting a commit that should be refused."""


class _ShardLog:
    """One partition folder. Records are written in batches, in order."""

    def __init__(self, folder: Path, clock: Callable[[], int]) -> None:
        folder.mkdir(parents=True)
        self._file: BinaryIO = (folder / f"{0:020d}.log").open("wb")
        self._batch = BatchBuilder()
        self._clock = clock
        self.end = 0

    def append(self, key: bytes, value: bytes | None) -> int:
        self._batch.add(key, value)
        self.end += 1
        if self._batch.count == BATCH_RECORDS:
            self.flush()
        return self.end - 1

    def flush(self) -> None:
        count = self._batch.count
        if count:
            self._file.write(self._batch.build(self.end - count, self._clock()))
            self._batch.clear()

    def close(self) -> None:
        self.flush()
        self._file.close()


@dataclass(slots=True)
class _Member:
    """`held` and `pending`: partition -> the epoch since which the member has it."""

    epoch: int = 0
    previous: int = -1
    lost: int = 0
    held: dict[int, int] = field(default_factory=dict)
    pending: dict[int, int] = field(default_factory=dict)

    def since(self, partition: int) -> int | None:
        return self.held.get(partition, self.pending.get(partition))


class _Generator:
    def __init__(self, folder: Path, plan: Plan) -> None:
        self.plan = plan
        self.chance = random.Random(plan.seed)  # noqa: S311 - it must be repeatable
        self.now_ms = START_MS
        self.serde = Serde(Codec.of(), _KEYS)
        self.state = [_ShardLog(folder / f"__consumer_offsets-{i}", self._clock) for i in range(plan.shards)]
        self.events = [_ShardLog(folder / f"__coordinator_events-{i}", self._clock) for i in range(plan.shards)]
        self.decisions = 0
        self.requests = 0
        self.zombies = 0
        self.planted: list[list[int]] = []
        for shard in range(plan.shards):
            opened = EventLogOpenedValue(
                0, START_MS, "rehearsal", 0, "all", -1, -1, cleanly_closed=False, cause="start"
            )
            self.events[shard].append(*self.serde.encode(Record(EventLogOpenedKey(), opened)))

    def _clock(self) -> int:
        return self.now_ms

    def run(self) -> None:
        plan, chance = self.plan, self.chance
        groups = [_Group(self, "hot", HOT_MEMBERS, HOT_PARTITIONS)]
        groups += [
            _Group(self, f"group-{i:05d}", chance.randrange(2, 8), chance.choice((4, 8, 16, 32)))
            for i in range(1, plan.groups)
        ]
        while self.decisions < plan.decisions:
            hot = len(groups) == 1 or chance.random() < plan.hot
            group = groups[0] if hot else chance.choice(groups[1:])
            group.step()
        for log in (*self.state, *self.events):
            log.close()


class _Group:
    def __init__(self, generator: _Generator, name: str, members: int, partitions: int) -> None:
        self.generator, self.name, self.partitions = generator, name, partitions
        self.shard = positive_hash(name) % generator.plan.shards
        self.state, self.events = generator.state[self.shard], generator.events[self.shard]
        self.topic = f"topic-of-{name}"
        self.topic_id = generator.chance.randbytes(16)
        self.members: dict[str, _Member] = {}
        self.gone: list[tuple[str, int, list[int]]] = []
        self.positions = [0] * partitions
        self.names = 0
        self.epoch = 0
        self.join(members)

    # --- the life of the group ----------------------------------------------------------------------------------------

    def step(self) -> None:
        chance = self.generator.chance.random()
        self.generator.now_ms += self.generator.chance.randrange(3)
        if chance < STEPS_TO_JOIN and len(self.members) < 2 * HOT_MEMBERS:
            self.join(1)
        elif chance < 2 * STEPS_TO_JOIN and len(self.members) > 1:
            self.leave(self.generator.chance.choice(sorted(self.members)))
        elif chance < 0.004 and self.gone:
            name, epoch, held = self.generator.chance.choice(self.gone)
            self.commit(name, epoch, held[:1])
        elif chance < 0.005:
            name = self.generator.chance.choice(tuple(self.members))
            self.commit(name, self.members[name].epoch, [self.generator.chance.randrange(self.partitions)])
        else:
            name = self.generator.chance.choice(tuple(self.members))
            member = self.members[name]
            held = list(member.held)
            if held:
                many = self.generator.chance.random() < 0.2
                self.commit(name, member.epoch, held[:4] if many else [self.generator.chance.choice(held)])

    def join(self, count: int) -> None:
        for _ in range(count):
            name = f"member-{self.names:06d}-of-{self.name}"
            self.names += 1
            self.members[name] = _Member()
            about = ConsumerGroupMemberMetadataValue(
                instance_id=None, rack_id=None, client_id=f"client-{self.names}", client_host="/10.0.0.1",
                subscribed_topic_names=[self.topic], subscribed_topic_regex="", rebalance_timeout_ms=300_000,
                classic_member_metadata=None,
            )  # fmt: skip
            self.record(ConsumerGroupMemberMetadataKey(self.name, name), about)
        self.rebalance()

    def leave(self, name: str) -> None:
        member = self.members.pop(name)
        self.gone.append((name, member.epoch, list(member.held)))
        self.record(ConsumerGroupCurrentMemberAssignmentKey(self.name, name), None)
        self.record(ConsumerGroupTargetAssignmentMemberKey(self.name, name), None)
        self.record(ConsumerGroupMemberMetadataKey(self.name, name), None)
        self.rebalance()

    def rebalance(self) -> None:
        chance = self.generator.chance
        self.epoch += 1
        epoch = self.epoch
        self.record(ConsumerGroupMetadataKey(self.name), ConsumerGroupMetadataValue(epoch, 0))
        target = self._target()
        for name in sorted(self.members):
            wanted = ConsumerGroupTargetAssignmentMemberValue([_Target(self.topic_id, sorted(target[name]))])
            self.record(ConsumerGroupTargetAssignmentMemberKey(self.name, name), wanted)
        self.record(
            ConsumerGroupTargetAssignmentMetadataKey(self.name),
            ConsumerGroupTargetAssignmentMetadataValue(epoch, self.generator.now_ms),
        )
        in_flight: list[tuple[str, int, list[int]]] = []
        order = list(self.members)
        chance.shuffle(order)
        free = set(range(self.partitions)).difference(*(m.held for m in self.members.values()))
        for name in order:
            in_flight += self._reconcile(name, target[name], free)
        for name in order:
            member = self.members[name]
            missing = target[name] - member.held.keys()
            if missing:
                member.held.update(dict.fromkeys(missing, epoch))
                self.current(name, STABLE)
        for name, old, partitions in in_flight:
            self.commit(name, old, partitions)

    def _reconcile(self, name: str, wanted: set[int], free: set[int]) -> Iterator[tuple[str, int, list[int]]]:
        """Moves one member towards its target; yields the commits it has in flight."""
        chance, member = self.generator.chance, self.members[name]
        lost = [partition for partition in member.held if partition not in wanted]
        old = member.epoch
        if lost:
            member.pending = {partition: member.held.pop(partition) for partition in lost}
            self.current(name, UNREVOKED)
            self.generator.now_ms += chance.randrange(20, 1000)
            if chance.random() < 0.5:
                self.commit(name, old, lost[:2])
            free.update(lost)
            member.pending = {}
            member.lost = old
            if chance.random() < 0.3:
                yield name, old, lost[:1]
        if member.held and chance.random() < 0.3:
            yield name, old, list(member.held)[:2]
        member.previous, member.epoch = old, self.epoch
        gained = (wanted - member.held.keys()) & free
        free -= gained
        member.held.update(dict.fromkeys(sorted(gained), self.epoch))
        self.current(name, STABLE if member.held.keys() == wanted else UNRELEASED)

    def _target(self) -> dict[str, set[int]]:
        """A sticky, balanced assignment."""
        names = sorted(self.members)
        quota, more = divmod(self.partitions, len(names)) if names else (0, 0)
        free = set(range(self.partitions))
        target: dict[str, set[int]] = {}
        for i, name in enumerate(names):
            target[name] = set(sorted(self.members[name].held)[: quota + (i < more)])
            free -= target[name]
        left = sorted(free, reverse=True)
        for i, name in enumerate(names):
            while left and len(target[name]) < quota + (i < more):
                target[name].add(left.pop())
        return target

    # --- writing -----------------------------------------------------------------------------------------------------

    def record(self, key: messages.Message, value: messages.Message | None) -> None:
        self.state.append(*self.generator.serde.encode(Record(key, value)))

    def current(self, name: str, state: int) -> None:
        member = self.members[name]
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member.epoch,
            member.previous,
            state,
            self._topic_partitions(member.held),
            self._topic_partitions(member.pending),
            member.lost,
        )
        self.record(ConsumerGroupCurrentMemberAssignmentKey(self.name, name), value)

    def _topic_partitions(self, held: dict[int, int]) -> list[_Assigned]:
        partitions = sorted(held)
        return [_Assigned(self.topic_id, partitions, [held[each] for each in partitions])] if held else []

    def commit(self, name: str, epoch: int, partitions: list[int]) -> None:
        generator, member = self.generator, self.members.get(name)
        if not partitions or generator.decisions >= generator.plan.decisions:
            return
        since = [None if member is None else member.since(each) for each in partitions]
        now = -1 if member is None else member.epoch
        had = all(each is not None and each <= epoch for each in since)
        strict, after_loss, had_then = (
            epoch == now,
            epoch == now or (member is not None and 0 <= member.lost < epoch < now and had),
            epoch == now or (member is not None and epoch < now and had),
        )
        # A member at the current epoch may commit partitions it does not own: no policy checks that, and it is no zombie.
        zombies = 0 if epoch == now else sum(each is None or each > epoch for each in since)
        error = (
            0 if after_loss else int(ErrorCode.UNKNOWN_MEMBER_ID if member is None else ErrorCode.STALE_MEMBER_EPOCH)
        )
        planted = error and zombies and generator.chance.random() < generator.plan.planted
        if planted:
            error = 0
            generator.planted.append([self.shard, self.events.end, zombies])
        decisions = []
        for partition, each in zip(partitions, since, strict=True):
            self.positions[partition] += 1
            decisions.append(_Partition(partition, self.positions[partition], error, -1 if each is None else each))
        value = CommitDecidedValue(
            state_offset=self.state.end,
            time_ms=generator.now_ms,
            group_kind=Kind.CONSUMER,
            member_id=name,
            generation_id_or_member_epoch=epoch,
            error_code=error,
            policy=POLICY,
            strict_verdict=ACCEPTS if strict else REFUSES,
            revocation_epoch_verdict=ACCEPTS if after_loss else REFUSES,
            assignment_epoch_verdict=ACCEPTS if had_then else REFUSES,
            member_epoch=now,
            revocation_epoch=-1 if member is None else member.lost,
            client_id="rehearsal",
            topics=[_Topic(self.topic, self.topic_id, decisions)],
        )
        self.events.append(*generator.serde.encode(Record(CommitDecidedKey(self.name), value)))
        if not error:
            for partition in partitions:
                offset = OffsetCommitValue(self.positions[partition], -1, "", generator.now_ms, -1, self.topic_id)
                key = OffsetCommitKey(self.name, self.topic, partition)
                self.state.append(*generator.serde.encode(Record(key, offset, 4)))
        generator.decisions += len(partitions)
        generator.requests += 1
        generator.zombies += zombies


_KEYS = (
    "CommitDecidedKey", "ConsumerGroupCurrentMemberAssignmentKey", "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMetadataKey", "ConsumerGroupTargetAssignmentMemberKey", "ConsumerGroupTargetAssignmentMetadataKey",
    "EventLogOpenedKey", "OffsetCommitKey",
)  # fmt: skip


def write_synthetic_log(folder: Path, plan: Plan) -> dict[str, object]:
    """Writes the log, and truth.json beside it; returns the truth."""
    generator = _Generator(folder, plan)
    generator.run()
    truth: dict[str, object] = {
        "decisions": generator.decisions,
        "requests": generator.requests,
        "zombies": generator.zombies,
        "planted_partitions": sum(each[2] for each in generator.planted),
        "planted": [each[:2] for each in generator.planted],
    }
    (folder / "truth.json").write_text(json.dumps(truth))
    return truth
