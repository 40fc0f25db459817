"""Zombie hunts: commits that were on their way for long, judged by what clients were informed of (I42, I43).

The observer knows requests and responses: which member learned that it has a partition, in which epoch, and when. It looks
into no server. A hunter commits in the name of members, with epochs in which they had the partitions, as if a request had been
delayed or sent again. docs/simulation.md has the table of what each protocol and policy promises. What follows from it:

- I42, safety: a commit of a partition is refused once another member learned that it has it, after the committing member
  learned so in the epoch of the commit. Two orders are certain by the clients' ticks, and no others are used: the other
  member's request was sent after the former owner had its response, and the commit after the other member had its response.
- I43, liveness: a commit with the epoch that the member is in, of what it has, is accepted. That it was in the epoch is certain
  by a later request of the member that was accepted in the same epoch, while it did not join and learned of no loss. With the
  policies about earlier epochs the same holds for an earlier epoch, if the member has learned of no loss since.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from coordinator.groups.settings import STRICT
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    EndTxnRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from coordinator_lab.simulation.clients import Client, World
from coordinator_lab.simulation.history import History, OnBroken
from coordinator_lab.simulation.plan import Plan
from coordinator_lab.simulation.transaction_clients import TIMEOUT_MS
from coordinator_lab.simulation.wire import NoResponse

Partition = tuple[str, int]
SAFETY, LIVENESS = "I42 zombies are refused", "I43 owners commit"
FENCES = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
}
"""Refusals that say that the member is not, or no longer, who it claims to be."""
POLICIES = ("strict", "revocation-epoch", "assignment-epoch")
GROUP_RESOURCE = 32
IN_TRANSACTION = 0.3
"""Share of the commits that are sent in a transaction."""
AGAIN = 0.8
"""How often it commits the same again."""
TRANSACTIONS_2 = 5
"""The version of InitProducerId, TxnOffsetCommit and EndTxn since which a commit adds its group by itself (KIP-890)."""


class Notice(NamedTuple):
    """A response that says that a member has a partition. Times are ticks."""

    member_id: str
    asked: int
    informed: int


@dataclass(slots=True)
class Member:
    """What one member was informed."""

    version: int
    """The version of its OffsetCommit."""
    epoch: int = -1
    has: frozenset[Partition] = frozenset()
    first_informed: dict[tuple[int, Partition], int] = field(default_factory=dict)
    """Epoch and partition -> the tick at which it was first informed that it has the partition in this epoch."""
    joined: int = 0
    """The tick at which it was informed that it had joined: a static member comes back in the epoch in which it went."""
    whole_since: int = 0
    """It has been informed of no loss since it was in this epoch."""
    refused: list[tuple[int, int]] = field(default_factory=list)
    """The epoch in which the member is when a commit of what it has was refused, and the tick of the refusal."""


class Hunt:
    """What the members of all groups of a run were informed."""

    def __init__(self, history: History, broken: OnBroken, plan: Plan) -> None:
        self._history = history
        self._broken = broken
        self._policy = "" if plan.policy_changes or plan.metadata_s else plan.fencing_policy
        """The fencing policy of all groups; "" if it changes."""
        self._may_judge_refusals = not plan.rules_s
        """Whether nothing but a fence refuses commits like one."""
        self._members: dict[tuple[str, str], Member] = {}
        self._notices: defaultdict[tuple[str, Partition], list[Notice]] = defaultdict(list)
        self.resynced: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        """Set when the leader of a group has resynced it: now a member of the other protocol converts a mixed one."""
        self.judged = 0
        """Commits whose outcome was compared with what clients were informed."""

    def informed(
        self, group_id: str, member_id: str, version: int, epoch: int, partitions: Iterable[Partition], asked: int
    ) -> None:
        """Records that a member was informed its assignment, in a response to a request that was sent at tick `asked`."""
        now, has = self._history.tick(), frozenset(partitions)
        member = self._members.setdefault((group_id, member_id), Member(version))
        if member.epoch < 0:
            member.whole_since, member.joined = epoch, now
        elif not member.has <= has:
            # It gives up in this epoch what it lost, and the next one is the first without it.
            member.whole_since = epoch + 1
            member.refused.clear()
        member.epoch, member.has = epoch, has
        for partition in sorted(has):
            member.first_informed.setdefault((epoch, partition), now)
            self._notices[group_id, partition].append(Notice(member_id, asked, now))

    def in_epoch(self, group_id: str, member_id: str, epoch: int, asked: int) -> None:
        """Records that a request of a member, sent at tick `asked`, was accepted, and that the member is in this epoch."""
        member = self._members.get((group_id, member_id))
        if member is None or member.epoch < 0:
            return
        for then, refused in member.refused if self._may_judge_refusals else ():
            if refused < asked and then == epoch == member.epoch:
                self._broken(LIVENESS, f"{member_id} of {group_id} was refused in epoch {epoch}, in which it still is")
        member.refused.clear()
        member.epoch = epoch
        now = self._history.tick()
        for partition in sorted(member.has):
            member.first_informed.setdefault((epoch, partition), now)

    def joins(self, group_id: str, member_id: str) -> None:
        """Records that a member is about to join again: what it has is in doubt."""
        member = self._members.get((group_id, member_id))
        if member is not None:
            member.epoch, member.has = -1, frozenset()
            member.refused.clear()

    def joined(self, group_id: str, epoch: int, asked: int) -> None:
        """Records the epoch in which a member of the consumer protocol joined, by a request that was sent at tick `asked`.

        If a higher one was known before, the group began again: the member replaced an empty classic group, and the epochs
        started over. A classic member that returns under its id reaches an epoch that it had in the old group, and a commit
        from then looks like one from now. Kafka 4.4 was asked, and accepts it.
        """
        epochs = (
            place[0]
            for (group, _), member in self._members.items()
            if group == group_id
            for place, informed in member.first_informed.items()
            if informed < asked
        )
        if max(epochs, default=epoch) > epoch:
            self.forget(group_id)

    def forget(self, group_id: str) -> None:
        """The group has ended; its epochs start again."""
        for key in [key for key in self._members if key[0] == group_id]:
            del self._members[key]
        for place in [place for place in self._notices if place[0] == group_id]:
            del self._notices[place]

    def groups(self) -> list[str]:
        return sorted({group_id for group_id, _ in self._members})

    def targets(self) -> list[tuple[str, str, int, Partition]]:
        """Every commit that a member could have sent: group, member, epoch and partition."""
        return [(*key, *place) for key, member in self._members.items() for place in member.first_informed]

    def is_zombie(self, group_id: str, member_id: str, epoch: int, partition: Partition, asked: int) -> str | None:
        """The member that learned of the partition before the commit was sent, after the committing one did; or None."""
        member = self._members.get((group_id, member_id))
        since = None if member is None else member.first_informed.get((epoch, partition))
        if since is None:
            return None
        for notice in reversed(self._notices[group_id, partition]):
            if notice.member_id != member_id and since < notice.asked and notice.informed < asked:
                return notice.member_id
        return None

    def is_in(self, group_id: str, member_id: str, epoch: int) -> bool:
        """Whether the member was last informed that it is in this epoch, and has not joined again since."""
        return self._members[group_id, member_id].epoch == epoch

    def version(self, group_id: str, member_id: str) -> int:
        return self._members[group_id, member_id].version

    def accepted(self, group_id: str, member_id: str, epoch: int, partition: Partition, asked: int) -> None:
        """Checks an accepted commit that was sent at tick `asked`."""
        self.judged += 1
        owner = self.is_zombie(group_id, member_id, epoch, partition, asked)
        if owner is not None:
            self._broken(
                SAFETY,
                f"{member_id} of {group_id} committed {partition} with epoch {epoch}, after {owner} was informed of it",
            )

    def refused(self, group_id: str, member_id: str, epoch: int, partition: Partition, asked: int) -> None:
        """Notes a refused commit that was sent at tick `asked`; a later request of the member shows whether it was right."""
        self.judged += 1
        member = self._members.get((group_id, member_id))
        if member is None or partition not in member.has or asked < member.joined:
            return
        is_early = member.whole_since <= epoch < member.epoch and (epoch, partition) in member.first_informed
        if epoch == member.epoch or (is_early and self._policy not in ("", STRICT)):
            member.refused.append((member.epoch, self._history.tick()))


class Hunter(Client):
    """Commits in the name of members, late and again; and changes the fencing policies of groups, if the plan says so.

    Some of the commits are in transactions, which it aborts: the fence is the same, and nobody may ever read the offsets.
    """

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._transactions = Random(f"{world.plan.seed} {name} transactions")
        self._producer: tuple[int, int] | None = None
        """Its producer id and epoch, if no transaction is open and it knows them."""
        self._target: tuple[str, str, int, Partition] | None = None
        """What it committed last. Most often it commits the same again: only repeated commits take the fast path."""

    async def run(self) -> None:
        while not self.world.is_healed:
            await self.world.sleep(self.random.uniform(0.01, 0.15))
            try:
                await self._hunt()
                if self.world.plan.policy_changes and self.random.random() < 0.1:
                    await self._change_policy()
            except NoResponse:
                continue

    async def _hunt(self) -> None:
        hunt, history = self.world.hunt, self.world.history
        targets = hunt.targets()
        if not targets:
            return
        zombies = [each for each in targets if hunt.is_zombie(*each, history.now + 1)]
        # A fence is most likely to take those for a member's that have its present epoch, or one of the last.
        present = [each for each in zombies if hunt.is_in(*each[:3])]
        recent = sorted(zombies, key=lambda each: each[2])[-20:]
        chosen = self.random.choice([present or recent, present or recent, recent, targets]) or targets
        if self._target not in targets or self._transactions.random() >= AGAIN:
            self._target = self.random.choice(chosen)
        group_id, member_id, epoch, partition = self._target
        if self._transactions.random() < IN_TRANSACTION:
            asked, code = await self._commit_in_transaction(group_id, member_id, epoch, partition)
        else:
            version = hunt.version(group_id, member_id)
            unique = self.random.randint(1, 1_000) * 10**9 + history.now
            asked, answer, attempts = await self.send_commit(
                group_id, {partition: unique}, version, epoch, member_id, None, is_named=False
            )
            code = await self.await_commit(group_id, asked, answer, attempts, epoch, "")
        if code is ErrorCode.NONE:
            hunt.accepted(group_id, member_id, epoch, partition, asked)
        elif code in FENCES:
            hunt.refused(group_id, member_id, epoch, partition, asked)

    async def _commit_in_transaction(
        self, group_id: str, member_id: str, epoch: int, partition: Partition
    ) -> tuple[int, ErrorCode]:
        """The tick of a TxnOffsetCommit that a member could have sent, and its outcome. Raises NoResponse."""
        producer_id, producer_epoch = self._producer or await self._init_producer_id()
        self._producer = None
        topic, index = partition
        offset = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(index, self._transactions.randint(1, 1_000_000))
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(topic, bytes(16), [offset])],
        )
        asked = self.world.history.tick()
        response = await self.call(request, TRANSACTIONS_2)
        code = ErrorCode(response.topics[0].partitions[0].error_code)
        ended = await self.call(EndTxnRequest(self.name, producer_id, producer_epoch, committed=False), TRANSACTIONS_2)
        if not ended.error_code:
            self._producer = ended.producer_id, ended.producer_epoch
        return asked, code

    async def _init_producer_id(self) -> tuple[int, int]:
        """Aborts an open transaction, too. Raises NoResponse."""
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)
        response = await self.call(request, TRANSACTIONS_2)
        if response.error_code:
            raise NoResponse
        return response.producer_id, response.producer_epoch

    async def _change_policy(self) -> None:
        groups = self.world.hunt.groups()
        if not groups:
            return
        group_id = self.random.choice(groups)
        kind = "streams" if group_id.startswith("streams") else "consumer"
        config = IncrementalAlterConfigsRequest.AlterableConfig(
            f"{kind}.fencing.policy", 0, self.random.choice(POLICIES)
        )
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(GROUP_RESOURCE, group_id, [config])
        await self.call(IncrementalAlterConfigsRequest([resource]), 1)
