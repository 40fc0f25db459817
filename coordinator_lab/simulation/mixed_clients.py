"""Groups with members of both protocols (KIP-848 migration), which migrate back and forth while failures strike.

The group is a classic group while it has only classic members, and a consumer group while it has any member of the consumer
protocol. Those members leave and come back, so that a run sees migrations both ways, some of them during a rebalance or
around a crash.

The check of owners is the same for both kinds of members (consumer_clients.py): each knows its own assignment, and gives
a partition up before it reports that. No partition may have two owners of any kind, through all migrations (I8).
"""

import asyncio
from contextlib import suppress
from random import Random
from uuid import UUID

from coordinator.groups.classic.owned_partitions import COOPERATIVE_STICKY
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import HeartbeatRequest, JoinGroupResponse, SyncGroupRequest, SyncGroupResponse
from coordinator.protocol.subscription import Assignment, encode_assignment, parse_assignment, parse_subscription
from coordinator_lab.simulation.classic_clients import RANGE, RESYNC_SINCE, ClassicMember, Rejoin
from coordinator_lab.simulation.clients import TOPICS, World
from coordinator_lab.simulation.consumer_clients import LEAVING, ConsumerMember, Ownership, Partition

AWAY_S = 12.0
_Part = SyncGroupRequest.SyncGroupRequestAssignment


def mixed_members(
    world: World, number: int, ownership: Ownership
) -> tuple[list["MixedClassicMember"], list["MixedConsumerMember"]]:
    """The members of one group, at least one of each protocol."""
    group_id, count = f"mixed-{number}", max(world.plan.members, 2)
    modern = count // 2
    return (
        [MixedClassicMember(world, group_id, each, ownership) for each in range(modern, count)],
        [MixedConsumerMember(world, group_id, each, ownership) for each in range(modern)],
    )


class MixedConsumerMember(ConsumerMember):
    """A member of the consumer protocol. After leaving it stays away for a while, so that the group may become classic."""

    def __init__(self, world: World, group_id: str, number: int, ownership: Ownership) -> None:
        super().__init__(world, group_id, number, ownership)
        self.instance_id = None
        self.visits = Random(f"{world.plan.seed} {self.name} visits")

    def _rejoin(self) -> None:
        """Rejoins with a new member id, because a group that was classic and empty meanwhile restarts its epochs."""
        super()._rejoin()
        self.member_id = str(UUID(bytes=self.random.randbytes(16)))

    async def _rare_event(self, chance: float) -> None:
        if self.random.random() < 0.5:
            self.stable = False
            await self._leave(LEAVING)
            await self.world.sleep(self.random.choice([0.0, 2.0, 12.0]) * self.random.random())
        else:
            await super()._rare_event(chance)

    async def _live(self) -> None:
        if self.stable and not self.world.is_healed and self.visits.random() < self.world.plan.mixed_resyncs / 2:
            self.stable = False
            await self._leave(LEAVING)
            await self._await_resync()
        else:
            await super()._live()

    async def _await_resync(self) -> None:
        """Until a leader has resynced the group. The conversion then has a fence to keep, which zombies run into."""
        resynced = self.world.hunt.resynced[self.group_id]
        resynced.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(AWAY_S):
                await resynced.wait()


class MixedClassicMember(ClassicMember):
    """A member of the classic protocol. The classic members of one group are either all eager or all cooperative."""

    def __init__(self, world: World, group_id: str, number: int, ownership: Ownership) -> None:
        super().__init__(world, group_id, number)
        self.ownership = ownership
        self.is_cooperative = Random(f"{world.plan.seed} {group_id}").random() < 0.5
        self.assignor = COOPERATIVE_STICKY if self.is_cooperative else RANGE
        self.instance_id = None
        # From version 1 on, a subscription contains the partitions that its member owns.
        self.join_version = self.random.randrange(1, 10)
        if self.resyncs.random() < world.plan.mixed_resyncs * 2:
            self.sync_version = max(self.sync_version, RESYNC_SINCE)

    async def _join(self) -> None:
        if not self.is_cooperative:
            self.positions = {}
        await super()._join()

    def _on_error(self, api: str, code: int) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.positions = {}
        super()._on_error(api, code)

    def _note_generation(self, response: JoinGroupResponse, asked: int) -> None:
        # A group that is replaced by one of another kind restarts its numbers.
        self.world.history.joined(self.group_id, response.generation_id, asked, self.name)

    async def _sync(self, joined: JoinGroupResponse) -> None:
        history = self.world.history
        leads = joined.leader == self.member_id and not joined.skip_assignment
        request = self._sync_request(self._assign(joined) if leads else [])
        owned_then, asked = set(self.positions), history.tick()
        response = await self.call(request, self.sync_version, self.world.plan.rebalance_ms / 1000 + 20)
        if response.error_code:
            self._on_error("SyncGroup", response.error_code)
        self.led, self.resynced = joined if leads else None, 0
        await self._take_parts(response, owned_then, asked)

    def _resyncs_now(self) -> bool:
        is_possible = not self.is_cooperative and self.sync_version >= RESYNC_SINCE and not self.world.is_healed
        return is_possible and self.resyncs.random() < self.world.plan.mixed_resyncs

    async def _resync(self, led: JoinGroupResponse) -> None:
        """Turns the assignments of an eager group by one member or more."""
        self._give_up()
        self.positions, self.stable = {}, False
        asked, response = await self._resynced(self._assign(led, turn=self.resyncs.randrange(1, 1_000)))
        self.world.hunt.resynced[self.group_id].set()
        await self._take_parts(response, set(), asked)

    async def _take_parts(self, response: SyncGroupResponse, owned_then: set[Partition], asked: int) -> None:
        """Continues with the assignment that it received."""
        self.ownership.accepted(self.group_id, self.member_id, owned_then, asked, "sync")
        parts = parse_assignment(response.assignment).partitions if response.assignment else {}
        assigned: set[Partition] = {(topic, index) for topic, indexes in parts.items() for index in indexes}
        loses = not owned_then <= assigned
        self.positions = {each: at for each, at in self.positions.items() if each in assigned}
        self.ownership.granted(self.group_id, self.member_id, assigned)
        self.world.hunt.informed(self.group_id, self.member_id, self.commit_version, self.generation, assigned, asked)
        if assigned:
            self.positions |= dict.fromkeys(sorted(assigned - self.positions.keys()), 0)
            found = await self.fetch(self.group_id, sorted(assigned), self.fetch_version)
            self.positions = {each: max(at, found[each], 0) for each, at in self.positions.items()}
        self.world.event(f"{self.name} {self.member_id[-4:]} {self.generation}: {len(assigned)} partitions")
        if loses:
            # Joining again is how a member reports that it revoked partitions.
            raise Rejoin
        self.stable = True

    def _assign(self, joined: JoinGroupResponse, turn: int = 0) -> list[_Part]:
        """Never assigns a partition that another member still owns; eager members own none.

        The assignment has no user data, because that would prevent migration.
        """
        claims = {member.member_id: parse_subscription(member.metadata) for member in joined.members}
        owners = {
            (topic, index): member_id
            for member_id, each in claims.items()
            for topic, indexes in each.owned.items()
            for index in indexes
        }
        parts: dict[str, dict[str, tuple[int, ...]]] = {member_id: {} for member_id in claims}
        for topic, count in TOPICS.items():
            wanting = [member_id for member_id, each in claims.items() if topic in each.topics]
            for index in range(count if wanting else 0):
                member_id = wanting[(index + turn) % len(wanting)]
                if owners.get((topic, index), member_id) == member_id:
                    parts[member_id][topic] = (*parts[member_id].get(topic, ()), index)
        return [_Part(member_id, encode_assignment(Assignment(part, None, 1))) for member_id, part in parts.items()]

    async def _heartbeat(self) -> None:
        owned_then, member_id, asked = set(self.positions), self.member_id, self.world.history.tick()
        response = await self.call(
            HeartbeatRequest(self.group_id, self.generation, self.member_id, None), self.heartbeat_version
        )
        if response.error_code:
            self._on_error("Heartbeat", response.error_code)
        if not self.world.history.shards_are_held:  # a shard that loads answers every heartbeat with NONE
            self.ownership.accepted(self.group_id, member_id, owned_then, asked, "heartbeat")
            self.world.hunt.in_epoch(self.group_id, member_id, self.generation, asked)

    async def _commit(self) -> None:
        """Sends a heartbeat first, because in a consumer group a commit does not extend the session."""
        await self._heartbeat()
        chosen = self.random.sample(sorted(self.positions), self.random.randint(1, len(self.positions)))
        for partition in chosen:
            self.positions[partition] += self.random.randint(1, 10)
        offsets = {partition: self.positions[partition] for partition in chosen}
        member_id, generation = self.member_id, self.generation
        asked, answer, attempts = await self.send_commit(
            self.group_id, offsets, self.commit_version, generation, member_id, None
        )
        code = await self.await_commit(self.group_id, asked, answer, attempts, generation, "")
        if code is not ErrorCode.NONE:
            self._on_error("OffsetCommit", code)
        self.ownership.accepted(self.group_id, member_id, set(chosen), asked, "commit")

    async def _rare_event(self, chance: float) -> None:
        if chance < 0.3:
            await self._leave()
        elif chance < 0.5:
            self.caller.give_up()
            self._forget()
            await self.world.sleep(self.random.choice([0.0, 1.0, 15.0]) * self.random.random())
        elif chance < 0.8:
            # Perhaps longer than its session, which it does not notice.
            await self.world.sleep(self.random.uniform(0, 2 * self.world.plan.session_ms / 1000))
            await self._heartbeat()
            return
        else:
            self.caller.give_up()
        raise Rejoin
