"""Members of classic groups in the simulated world.

They follow the protocol of real consumers but have less patience. Some leave, pause, change their subscription or crash
and come back, while a zombie of the former process may still commit under the same instance id.
"""

from random import Random

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    MetadataRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coordinator.protocol.subscription import (
    NO_GENERATION,
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
    parse_assignment,
    parse_subscription,
)
from coordinator_lab.simulation.clients import AUDIT, ORDERS, RETRIABLE, TOPICS, Client, World
from coordinator_lab.simulation.history import HEARTBEAT
from coordinator_lab.simulation.wire import NoResponse

_Part = SyncGroupRequest.SyncGroupRequestAssignment
RANGE = "range"
RESYNC_SINCE = 4
RETRY_BACKOFF_S = 0.1
"""Java's `retry.backoff.ms`."""
MUST_REJOIN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}


class Rejoin(Exception):
    """The member must join again."""


class Fenced(Exception):
    """Another process uses this member's instance id (FENCED_INSTANCE_ID)."""


class ClassicMember(Client):
    """A consumer in a classic group. The versions of its requests and its subscription are drawn from the seed."""

    def __init__(self, world: World, group_id: str, number: int) -> None:
        super().__init__(world, f"{group_id}-m{number}")
        random = self.random
        self.group_id = group_id
        self.instance_id = f"i{number}" if random.random() < world.plan.statics else None
        if self.instance_id is not None:
            world.history.instance_ids.add(self.instance_id)
        self.join_version = random.randrange(5 if self.instance_id else 0, 10)
        self.sync_version = random.randrange(3 if self.instance_id else 0, 6)
        self.heartbeat_version = random.randrange(3 if self.instance_id else 0, 5)
        self.commit_version = random.randrange(7 if self.instance_id else 2, 10)
        self.fetch_version = random.randrange(1, 10)
        self.leave_version = random.randrange(0, 6)
        self.repeats = Random(f"{world.plan.seed} {self.name} repeats")
        self.claims_generation = random.random() < 0.2
        self.topics: tuple[str, ...] = random.choice([(ORDERS,), (ORDERS,), (ORDERS, AUDIT)])
        self.assignor = RANGE
        self.resyncs = Random(f"{world.plan.seed} {self.name} resyncs")
        self.led: JoinGroupResponse | None = None
        """The generation that it leads, as far as it knows its members; None if it leads none."""
        self.resynced = 0
        """How often it has resynced it."""
        self.member_id = ""
        self.generation = NO_GENERATION
        self.positions: dict[tuple[str, int], int] = {}
        self.stable = False
        """Whether it has an assignment and knows of no reason to join again."""

    async def run(self) -> None:
        """Runs until the simulation ends."""
        while True:
            try:
                await self._join()
                await self._consume()
            except NoResponse:
                self.stable = False
                await self.think()
            except Rejoin:
                self.stable = False
            except Fenced:
                self._forget()
                await self.world.sleep(self.random.uniform(1, 5))

    @property
    def wanted(self) -> set[tuple[str, int]]:
        """The partitions that it subscribes to."""
        return {(topic, index) for topic in self.topics for index in range(TOPICS[topic])}

    def _forget(self) -> None:
        """Resets all state, like a new process."""
        self._give_up()
        self.led = None
        self.member_id, self.generation, self.positions, self.stable = "", NO_GENERATION, {}, False

    def _give_up(self) -> None:
        """It uses its partitions no longer."""
        self.world.hunt.joins(self.group_id, self.member_id)
        self.world.history.given_up(self.group_id, self.generation, self.member_id)

    def _on_error(self, api: str, code: int) -> None:
        """Raises Fenced, Rejoin or NoResponse, depending on the error; reports an error that Kafka would not return."""
        error = ErrorCode(code)
        self.world.event(f"{self.name} {self.member_id[-4:]} {self.generation}: {api} {error.name}")
        if error is ErrorCode.FENCED_INSTANCE_ID and self.instance_id is not None:
            raise Fenced
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget()
        elif error is ErrorCode.ILLEGAL_GENERATION:
            self.generation = NO_GENERATION
        if error in MUST_REJOIN:
            raise Rejoin
        if error not in RETRIABLE and error is not ErrorCode.UNKNOWN_SERVER_ERROR:
            self.unexpected(api, code)
        raise NoResponse

    # --- joining ------------------------------------------------------------------------------------------------------

    def _subscription(self) -> bytes:
        owned: dict[str, tuple[int, ...]] = {}
        for topic, index in self.positions:
            owned[topic] = (*owned.get(topic, ()), index)
        return encode_subscription(Subscription(self.topics, None, owned, self.generation, None, 2))

    async def _join(self) -> None:
        plan, history = self.world.plan, self.world.history
        self._give_up()
        self.led = None
        within_s = plan.rebalance_ms / 1000 + plan.initial_rebalance_delay_ms / 1000 + 20
        while True:
            request = JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=plan.session_ms,
                rebalance_timeout_ms=plan.rebalance_ms,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequest.JoinGroupRequestProtocol(self.assignor, self._subscription())],
            )
            if self.claims_generation and self.join_version >= 8:
                request.generation_id = self.generation
            asked = history.tick()
            response = await self.call(request, self.join_version, within_s)
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
                continue
            if response.error_code:
                if response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    # A rule may answer so for a long time, and each time the server reserves another member id.
                    await self.world.sleep(RETRY_BACKOFF_S)
                self._on_error("JoinGroup", response.error_code)
            self._note_generation(response, asked)
            self.member_id, self.generation = response.member_id, response.generation_id
            await self._sync(response)
            return

    def _note_generation(self, response: JoinGroupResponse, asked: int) -> None:
        self.world.history.received(self.group_id, response, asked, self.name)

    async def _sync(self, joined: JoinGroupResponse) -> None:
        plan = self.world.plan
        leads = joined.leader == self.member_id and not joined.skip_assignment
        if leads and self.random.random() < 0.1:
            await self.world.sleep(self.random.uniform(0, 3))
        request = self._sync_request(self._assign(joined) if leads else [])
        asked, response = await self._synced(request, plan.rebalance_ms / 1000 + 20)
        if response.error_code:
            self._on_error("SyncGroup", response.error_code)
        self.led, self.resynced = joined if leads else None, 0
        await self._take(response, asked)

    async def _take(self, response: SyncGroupResponse, asked: int) -> None:
        """Continues with the assignment that it received."""
        history = self.world.history
        assignment = parse_assignment(response.assignment)
        partitions = [(topic, index) for topic, indexes in assignment.partitions.items() for index in indexes]
        history.assigned(
            self.group_id, self.generation, self.member_id, self.instance_id, assignment.user_data or b"", partitions,
            asked,
        )  # fmt: skip
        self.world.hunt.informed(self.group_id, self.member_id, self.commit_version, self.generation, partitions, asked)
        self.positions = {}
        if partitions:
            found = await self.fetch(self.group_id, partitions, self.fetch_version)
            self.positions = {partition: max(0, offset) for partition, offset in found.items()}
        self.stable = True
        self.world.event(f"{self.name} {self.member_id[-4:]} {self.generation}: {len(partitions)} partitions")

    async def _synced(self, request: SyncGroupRequest, within_s: float) -> tuple[int, SyncGroupResponse]:
        """The tick at which the request was sent that was answered, and its response.

        Some members repeat a request that was lost, perhaps in a crash, instead of joining again.
        """
        while True:
            asked = self.world.history.tick()
            try:
                return asked, await self.call(request, self.sync_version, within_s)
            except NoResponse:
                if self.repeats.random() < 0.5:
                    raise
            await self.think()

    async def _resync(self, led: JoinGroupResponse) -> None:
        """Replaces the assignment of the generation by another one."""
        self._give_up()
        self.stable = False
        token = f"{self.member_id} {self.generation} resync {self.resyncs.random()}".encode()
        self.world.history.resync_started(self.group_id, self.generation, token)
        asked, response = await self._resynced(self._parts(led, token, turn=self.resyncs.randrange(1, 1_000)))
        await self._take(response, asked)

    async def _resynced(self, parts: list[_Part]) -> tuple[int, SyncGroupResponse]:
        """Sends a resync with these assignments; returns the tick at which it was sent, and the response."""
        request = self._sync_request(parts, resync=self.resynced + 1)
        asked = self.world.history.tick()
        response = await self.call(request, self.sync_version, self.world.plan.rebalance_ms / 1000 + 20)
        # A static member has a new id, or the resync is repeated, or the group was converted.
        if response.error_code == ErrorCode.INVALID_REQUEST:
            raise Rejoin
        if response.error_code:
            self._on_error("SyncGroup", response.error_code)
        self.resynced = response.resynced
        return asked, response

    def _sync_request(self, parts: list[_Part], resync: int = 0) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.assignor,
            assignments=parts,
            resync=resync,
        )

    def _assign(self, joined: JoinGroupResponse) -> list[_Part]:
        return self._parts(joined, f"{self.member_id} {self.generation} {self.random.random()}".encode(), turn=0)

    def _parts(self, joined: JoinGroupResponse, token: bytes, turn: int) -> list[_Part]:
        """Round robin over the subscribers of each topic. All parts carry the same token, by which they are recognized."""
        parts: dict[str, dict[str, tuple[int, ...]]] = {member.member_id: {} for member in joined.members}
        for topic, count in TOPICS.items():
            wanting = [each.member_id for each in joined.members if topic in parse_subscription(each.metadata).topics]
            for index in range(count if wanting else 0):
                part = parts[wanting[turn % len(wanting)]]
                part[topic] = (*part.get(topic, ()), index)
                turn += 1
        return [_Part(member_id, encode_assignment(Assignment(part, token, 1))) for member_id, part in parts.items()]

    # --- consuming ----------------------------------------------------------------------------------------------------

    async def _consume(self) -> None:
        while True:
            await self.think()
            if self.led is not None and self._resyncs_now():
                await self._resync(self.led)
                continue
            chance = self.random.random()
            if self.world.is_healed:
                chance *= 0.85
            if chance < 0.5 or not self.positions:
                await self._heartbeat()
            elif chance < 0.85:
                await self._commit()
            elif chance < 0.9:
                await self.fetch(self.group_id, list(self.positions), self.fetch_version)
            elif not self.world.is_healed:
                self.stable = False
                await self._rare_event(self.random.random())
                self.stable = True

    def _resyncs_now(self) -> bool:
        is_possible = self.sync_version >= RESYNC_SINCE and not self.world.is_healed
        return is_possible and self.resyncs.random() < self.world.plan.resyncs

    async def _heartbeat(self) -> None:
        history = self.world.history
        request = HeartbeatRequest(self.group_id, self.generation, self.member_id, self.instance_id)
        generation, member_id, asked = self.generation, self.member_id, history.tick()
        response = await self.call(request, self.heartbeat_version)
        if response.error_code:
            self._on_error("Heartbeat", response.error_code)
        history.accepted(self.group_id, generation, member_id, asked, HEARTBEAT)
        if not history.shards_are_held:  # a shard that loads answers every heartbeat with NONE
            self.world.hunt.in_epoch(self.group_id, member_id, generation, asked)

    async def _commit(self) -> None:
        sent = []
        for _ in range(self.random.choice([1, 1, 1, 2, 4])):
            chosen = self.random.sample(list(self.positions), self.random.randint(1, len(self.positions)))
            for partition in chosen:
                self.positions[partition] += self.random.randint(1, 10)
            offsets = {partition: self.positions[partition] for partition in chosen}
            sent.append(
                await self.send_commit(
                    self.group_id, offsets, self.commit_version, self.generation, self.member_id, self.instance_id
                )
            )
        in_between = None
        if self.random.random() < 0.3:
            # The server could answer this at once, but must not answer it before the commits.
            in_between = await self.caller.send(MetadataRequest(topics=None), self.random.randrange(1, 13))
        for asked, answer, attempts in sent:
            code = await self.await_commit(self.group_id, asked, answer, attempts, self.generation, self.member_id)
            if code is not ErrorCode.NONE:
                self._on_error("OffsetCommit", code)
        if in_between is not None:
            await self.caller.answer(in_between, 7.0)

    async def _rare_event(self, chance: float) -> None:
        if chance < 0.2:
            await self._leave()
        elif chance < 0.4:
            self.caller.give_up()
            zombie = Zombie(self)
            self._forget()
            if self.random.random() < 0.5:
                self.world.loop.create_task(zombie.run())
            await self.world.sleep(self.random.choice([0.0, 1.0, 15.0]) * self.random.random())
        elif chance < 0.5:
            self.topics = self.random.choice([(ORDERS,), (ORDERS, AUDIT)])
        elif chance < 0.6:
            await self.world.sleep(self.random.uniform(0, 2 * self.world.plan.session_ms / 1000))
            await self._heartbeat()
            return
        elif chance < 0.7:
            self.caller.give_up()
        raise Rejoin

    async def _leave(self) -> None:
        if self.leave_version < 3:
            request = LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id)
        else:
            identity = LeaveGroupRequest.MemberIdentity(self.member_id, self.instance_id, None)
            request = LeaveGroupRequest(group_id=self.group_id, members=[identity])
        response = await self.call(request, self.leave_version)
        code = response.error_code or next((each.error_code for each in response.members), 0)
        if code and code != ErrorCode.UNKNOWN_MEMBER_ID:
            self._on_error("LeaveGroup", code)
        self._forget()
        await self.think()


class Zombie(ClassicMember):
    """The former process of a member, unaware of the new one: it goes on sending heartbeats and commits."""

    def __init__(self, member: ClassicMember) -> None:
        for name in ("world", "random", "group_id", "instance_id", "heartbeat_version", "commit_version", "member_id"):
            setattr(self, name, getattr(member, name))
        self.generation, self.positions = member.generation, dict(member.positions)
        self.name = f"{member.name}-zombie"
        self.random = Random(f"{member.random.random()}")
        self.caller = member.world.caller(self.name)

    async def run(self) -> None:
        for _ in range(6):
            try:
                await self.think()
                await (self._commit() if self.positions and self.random.random() < 0.5 else self._heartbeat())
            except NoResponse:
                continue
            except (Rejoin, Fenced):
                break
        self.caller.give_up()
