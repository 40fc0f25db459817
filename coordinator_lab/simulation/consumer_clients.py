"""Members of consumer groups (KIP-848) in the simulated world, and the check that partitions have one owner (I8, I9).

Clients cannot see which member owns a partition at a given moment. But each member knows its own assignment, and it stops
using a partition *before* it reports the revocation. So when the server assigns a partition to a member, the previous
owner either is no longer a member, or must never again get a request accepted that it sent while it still owned the
partition. If such a request is accepted, two members owned the partition at the same time (I8). The same rule covers
commits (I9) under any fencing policy, because a member commits only partitions that it owns.

A member's epoch only grows (I7), even across crashes of the server, because the server sends only durable epochs.
"""

from typing import Any
from uuid import UUID

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    Message,
    OffsetFetchRequest,
)
from coordinator_lab.simulation.clients import AUDIT, ORDERS, RETRIABLE, TOPICS, Client, World
from coordinator_lab.simulation.history import History, OnBroken
from coordinator_lab.simulation.wire import NoResponse

JOINING, LEAVING, LEAVING_FOR_A_WHILE = 0, -1, -2
MUST_REJOIN = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}
PATTERN = "(orders|audit)"
LATE_COMMITS = 0.2
"""The share of commits that have an earlier epoch of their member, as if they had been on their way for long."""
Partition = tuple[str, int]
_Owned = ConsumerGroupHeartbeatRequest.TopicPartitions


class Ownership:
    """Which member was last assigned each partition, in all consumer and streams groups of a run."""

    def __init__(self, history: History, broken: OnBroken) -> None:
        self._history = history
        self._broken = broken
        self._owners: dict[tuple[str, Partition], tuple[str, int]] = {}
        """Group and partition -> the member that it was last assigned to, and the tick at which that was known."""
        self._epochs: dict[tuple[str, str], tuple[int, int]] = {}
        """Group and member -> its highest epoch, and the tick at which that was known."""
        self._since: dict[str, int] = {}
        """Group that expired -> the tick; responses to earlier requests may be those of the former group."""
        self.assignments = 0

    def granted(self, group_id: str, member_id: str, partitions: set[Partition]) -> None:
        """Records an assignment that gives these partitions to a member."""
        now = self._history.tick()
        self.assignments += 1
        for partition in partitions:
            before = self._owners.get((group_id, partition))
            if before is None or before[0] != member_id:
                self._owners[group_id, partition] = member_id, now

    def accepted(
        self, group_id: str, member_id: str, owned_then: set[Partition], asked: int, request_name: str
    ) -> None:
        """Checks an accepted request, which a member sent at tick `asked` while it owned these partitions."""
        for partition in owned_then:
            owner, since = self._owners.get((group_id, partition), (member_id, 0))
            if owner != member_id and since < asked:
                self._broken(
                    "I8 single owner",
                    f"{request_name} of {member_id} of {group_id} was accepted, with {partition}, "
                    f"which was assigned to {owner} before",
                )

    def group_expired(self, group_id: str) -> None:
        """Records that the server removed an expired group, whose epochs may start again."""
        self._since[group_id] = self._history.tick()
        for key in [key for key in self._epochs if key[0] == group_id]:
            del self._epochs[key]

    def epoch_received(self, group_id: str, member_id: str, epoch: int, asked: int) -> None:
        """Checks and records the epoch in a response to a request that was sent at tick `asked`."""
        if asked < self._since.get(group_id, 0):
            return
        highest, since = self._epochs.get((group_id, member_id), (0, 0))
        if since < asked and epoch < highest:
            self._broken("I7 epochs grow", f"{member_id} of {group_id} received epoch {epoch} after {highest}")
        if epoch > highest:
            self._epochs[group_id, member_id] = epoch, self._history.tick()


class ConsumerMember(Client):
    """A consumer with `group.protocol=consumer`."""

    def __init__(self, world: World, group_id: str, number: int, ownership: Ownership) -> None:
        super().__init__(world, f"{group_id}-m{number}")
        random = self.random
        self.group_id = group_id
        self.ownership = ownership
        self.instance_id = f"i{number}" if random.random() < world.plan.statics else None
        self.pattern = PATTERN if random.random() < 0.2 else None
        self.topics: tuple[str, ...] = random.choice([(ORDERS,), (ORDERS, AUDIT)])
        self.commit_version = 9
        self._restart()

    def _restart(self) -> None:
        """Starts like a new process, with a new member id."""
        self.member_id = str(UUID(bytes=self.random.randbytes(16)))
        self.former_epochs: list[int] = []
        """Epochs that it has had under this id."""
        self.refused: list[tuple[int, list[Partition]]] = []
        """Commits that were refused under this id."""
        self.has_returned = False
        """Whether it was away, came back under this id, and has not committed since."""
        self._rejoin()

    def _rejoin(self) -> None:
        self.world.hunt.joins(self.group_id, self.member_id)
        self.epoch = JOINING
        self.positions: dict[Partition, int] = {}
        self.assigned: set[Partition] = set()
        self.sends_everything = True
        self.must_acknowledge = False
        self.stable = False

    @property
    def wanted(self) -> set[Partition]:
        topics = TOPICS if self.pattern else self.topics
        return {(topic, index) for topic in topics for index in range(TOPICS[topic])}

    async def run(self) -> None:
        """Runs until the simulation ends."""
        while True:
            try:
                await self._live()
            except NoResponse:
                # The server may have processed the request. The next heartbeat repeats all fields.
                self.sends_everything = True
                await self.think()

    async def _live(self) -> None:
        await self._heartbeat()
        await self.think()
        chance = self.random.random()
        if self.has_returned and self.positions:
            self.has_returned = False
            await self._commit_again()
        elif chance < 0.3 and self.positions:
            await self._commit()
        elif chance < 0.4 and self.positions:
            await self._read()
        elif chance > 0.93 and not self.world.is_healed:
            await self._rare_event(self.random.random())

    # --- the protocol -------------------------------------------------------------------------------------------------

    async def _heartbeat(self) -> None:
        plan, history = self.world.plan, self.world.history
        # Revoked partitions are given up before the heartbeat reports it.
        self.positions = {each: at for each, at in self.positions.items() if each in self.assigned}
        owned_then, joins = set(self.positions), self.epoch == JOINING
        sends_everything = self.sends_everything or joins
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance_id
        )
        if sends_everything:
            request.rebalance_timeout_ms = plan.rebalance_ms
            if self.pattern is None:
                request.subscribed_topic_names = list(self.topics)
                request.subscribed_topic_regex = ""
            else:
                request.subscribed_topic_names = []
                request.subscribed_topic_regex = self.pattern
        if sends_everything or self.must_acknowledge:
            request.topic_partitions = self._owned()
        member_id, asked = self.member_id, history.tick()
        response = await self.call(request, 1)
        if response.error_code:
            self._on_error("ConsumerGroupHeartbeat", response.error_code)
            return
        if joins:
            self.world.hunt.joined(self.group_id, response.member_epoch, asked)
        else:
            self.ownership.accepted(self.group_id, member_id, owned_then, asked, "heartbeat")
        self.ownership.epoch_received(self.group_id, member_id, response.member_epoch, asked)
        self.sends_everything = self.must_acknowledge = False
        self._take_epoch(response.member_epoch)
        if response.assignment is not None:
            await self._apply_assignment(response.assignment, asked)
        else:
            self.world.hunt.in_epoch(self.group_id, member_id, self.epoch, asked)
        self.stable = not self.must_acknowledge

    def _take_epoch(self, epoch: int) -> None:
        if epoch != self.epoch and self.epoch > 0:
            self.former_epochs.append(self.epoch)
        self.epoch = epoch

    async def _apply_assignment(self, assignment: Any, asked: int) -> None:
        names = [await self.topic_name(topic.topic_id) for topic in assignment.topic_partitions]
        self.assigned = {
            (name, index)
            for name, topic in zip(names, assignment.topic_partitions, strict=True)
            for index in topic.partitions
        }
        self.world.hunt.informed(self.group_id, self.member_id, self.commit_version, self.epoch, self.assigned, asked)
        self.must_acknowledge = self.assigned != set(self.positions)
        gained = self.assigned - self.positions.keys()
        if not gained:
            return
        self.ownership.granted(self.group_id, self.member_id, gained)
        self.positions |= dict.fromkeys(gained, 0)
        self.world.event(f"{self.name} {self.member_id[:4]} {self.epoch}: has {len(self.assigned)} partitions")
        await self._read()

    def _owned(self) -> list[_Owned]:
        ids = {name: topic_id for topic_id, name in self.names.items()}
        by_topic: dict[bytes, list[int]] = {}
        for name, index in sorted(self.positions):
            by_topic.setdefault(ids[name], []).append(index)
        return [_Owned(topic_id, indexes) for topic_id, indexes in by_topic.items()]

    def _on_error(self, request_name: str, code: int) -> None:
        error = ErrorCode(code)
        self.world.event(f"{self.name} {self.member_id[:4]} {self.epoch}: {request_name} {error.name}")
        if error in MUST_REJOIN:
            self._rejoin()
        elif error is ErrorCode.FENCED_INSTANCE_ID and self.instance_id is not None:
            self._restart()
        elif error is ErrorCode.UNRELEASED_INSTANCE_ID and self.instance_id is not None:
            self.stable = False
        elif error not in RETRIABLE and error is not ErrorCode.UNKNOWN_SERVER_ERROR:
            self.unexpected(request_name, code)
        else:
            raise NoResponse

    # --- consuming ----------------------------------------------------------------------------------------------------

    async def _commit(self) -> None:
        epoch, chosen = (
            self.epoch,
            self.random.sample(sorted(self.positions), self.random.randint(1, len(self.positions))),
        )
        if self.former_epochs and self.random.random() < LATE_COMMITS:
            epoch, chosen = self._late_commit(chosen)
        await self._commit_with(epoch, chosen)

    async def _commit_again(self) -> None:
        """Repeats the commit that was refused last, of the partitions that it has: what was refused stays refused (I24)."""
        epoch, refused = self.refused[-1] if self.refused else (self.epoch, [])
        again = [partition for partition in refused if partition in self.positions]
        if again and epoch != self.epoch:
            await self._commit_with(epoch, again)

    async def _commit_with(self, epoch: int, chosen: list[Partition]) -> None:
        for partition in chosen:
            self.positions[partition] += self.random.randint(1, 10)
        offsets = {partition: self.positions[partition] for partition in chosen}
        member_id = self.member_id
        asked, answer, attempts = await self.send_commit(
            self.group_id, offsets, self.commit_version, epoch, member_id, None
        )
        code = await self.await_commit(self.group_id, asked, answer, attempts, epoch, "")
        if code is ErrorCode.NONE:
            self.ownership.accepted(self.group_id, member_id, set(chosen), asked, "commit")
        elif code is ErrorCode.STALE_MEMBER_EPOCH:
            self.refused.append((epoch, chosen))
        else:
            self._on_error("OffsetCommit", code)

    def _late_commit(self, chosen: list[Partition]) -> tuple[int, list[Partition]]:
        """An earlier epoch, and partitions that the member has now; often those of a commit that was refused before."""
        if self.refused and self.random.random() < 0.7:
            epoch, refused = self.random.choice(self.refused)
            again = [partition for partition in refused if partition in self.positions]
            if again and epoch != self.epoch:
                return epoch, again
        return self.random.choice(self.former_epochs), chosen[:1]

    async def _read(self) -> None:
        """Fetches offsets as a member: the server rejects other member ids and stale epochs."""
        history = self.world.history
        partitions = sorted(self.positions)
        indexes: dict[str, list[int]] = {}
        for name, index in partitions:
            indexes.setdefault(name, []).append(index)
        topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name, bytes(16), some) for name, some in indexes.items()]
        group = OffsetFetchRequest.OffsetFetchRequestGroup(self.group_id, self.member_id, self.epoch, topics)
        known = history.read_started((self.group_id, *partition) for partition in partitions)
        answered = (await self.call(OffsetFetchRequest(groups=[group]), 9)).groups[0]
        if answered.error_code:
            if answered.error_code != ErrorCode.STALE_MEMBER_EPOCH:
                self._on_error("OffsetFetch", answered.error_code)
            return
        for topic in answered.topics:
            for each in topic.partitions:
                key = (self.group_id, topic.name, each.partition_index)
                if each.error_code:
                    raise NoResponse
                history.read_answered(key, known[key], each.committed_offset, each.metadata or "", self.name)
                self.positions[topic.name, each.partition_index] = max(0, each.committed_offset)

    # --- rare events --------------------------------------------------------------------------------------------

    async def _rare_event(self, chance: float) -> None:
        self.stable = False
        if chance < 0.25:
            await self._leave(LEAVING)
        elif chance < 0.4 and self.instance_id is not None:
            await self._leave_for_a_while(keeps_id=self.random.random() < 0.5)
        elif chance < 0.6:
            self.caller.give_up()
            self._restart()
            await self.world.sleep(self.random.choice([0.0, 1.0, 15.0]) * self.random.random())
        elif chance < 0.75:
            self._change_subscription()
        elif chance < 0.9:
            await self.world.sleep(self.random.uniform(0, 2 * self.world.plan.session_ms / 1000))
        else:
            self.caller.give_up()

    def _change_subscription(self) -> None:
        self.topics = self.random.choice([(ORDERS,), (ORDERS, AUDIT)])
        self.sends_everything = True

    async def _leave_for_a_while(self, *, keeps_id: bool) -> None:
        """A static member leaves. If it keeps its id, a commit of before is under way that it tries again when it is back."""
        if keeps_id and self.former_epochs and self.positions:
            await self._commit_with(self.former_epochs[0], sorted(self.positions))
        await self._leave(LEAVING_FOR_A_WHILE, keeps_id=keeps_id)

    async def _leave(self, epoch: int, *, keeps_id: bool = False) -> None:
        """Leaves, and starts again: under its member id (as a Java consumer that subscribes again) or as a new process."""
        request = self._leaving(epoch)
        try:
            await self.call(request, 1)
        finally:
            if keeps_id:
                self.former_epochs.append(self.epoch)
                self._rejoin()
                self.has_returned = True
            else:
                self._restart()
        await self.think()

    def _leaving(self, epoch: int) -> Message:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )

    # --- convergence --------------------------------------------------------------------------------------

    async def describe(self) -> Any:
        """The described group. Raises NoResponse."""
        response = await self.call(ConsumerGroupDescribeRequest([self.group_id]), 1)
        if response.groups[0].error_code in RETRIABLE:
            raise NoResponse
        return response.groups[0]
