"""Clients that do what real ones do, only with less patience: they follow the protocol and forget to be polite.

Ids are few, so that they collide: members of the same group, instance ids that come back while their former holder still
believes in itself, administrators that delete what is in use. Each client waits for its answers one after the other, as
Kafka's do, except that commits are sometimes sent in a row. What is learned goes to the `History`; what an honest
client must never be told is a finding at once.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from coordinator.faults.history import Attempt, History, Key
from coordinator.faults.loop import SimulatedLoop
from coordinator.faults.plan import Plan
from coordinator.faults.wire import Caller, Lost
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    ListGroupsRequest,
    Message,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
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

ORDERS, AUDIT, SCRATCH = "orders", "audit", "scratch"
TOPICS = {ORDERS: 6, AUDIT: 3}
"""Topics that stay, with their partitions. SCRATCH comes and goes."""

ASK_AGAIN = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
"""Errors after which nobody knows whether the request took effect."""
JOIN_ANEW = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}


class Rejoin(Exception):
    """The member has to join again."""


class Fenced(Exception):
    """Somebody else has this member's instance id."""


@dataclass(slots=True, kw_only=True)
class World:
    """What the clients of a run share."""

    loop: SimulatedLoop
    plan: Plan
    history: History
    broken: Callable[[str, str], None]
    event: Callable[[str], None]
    caller: Callable[[str], Caller]
    """A way to the server for a client id."""
    calm: bool = False
    """Nobody does anything out of turn any more: nobody crashes, leaves or deletes."""

    async def rest(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Client:
    """What all clients have."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.random = Random(f"{world.plan.seed} {name}")
        self.caller = world.caller(name)

    async def call(self, request: Message, version: int, within_s: float = 7.0) -> Any:
        return await self.caller.call(request, version, within_s)

    async def think(self) -> None:
        plan = self.world.plan
        await self.world.rest(min(self.random.expovariate(1 / plan.think_s), plan.session_ms / 3_000))

    def unexpected(self, what: str, code: int) -> None:
        self.world.broken("an answer is one that Kafka gives", f"{self.name}: {what} answered {ErrorCode(code).name}")

    # --- offsets ------------------------------------------------------------------------------------------------------

    async def commit(
        self,
        group_id: str,
        offsets: dict[tuple[str, int], int],
        version: int,
        generation: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
    ) -> ErrorCode:
        """Commits; the answer's error if all partitions have the same one, which they have where they all exist."""
        asked, answer, attempts = await self.send_commit(group_id, offsets, version, generation, member_id, instance_id)
        return await self.committed(group_id, asked, answer, attempts, generation, member_id)

    async def send_commit(
        self,
        group_id: str,
        offsets: dict[tuple[str, int], int],
        version: int,
        generation: int,
        member_id: str,
        instance_id: str | None,
    ) -> tuple[int, Any, dict[tuple[str, int], Attempt]]:
        partition_of, topic_of = (
            OffsetCommitRequest.OffsetCommitRequestPartition,
            OffsetCommitRequest.OffsetCommitRequestTopic,
        )
        history, attempts = self.world.history, {}
        topics: dict[str, list[Any]] = {}
        for (topic, index), offset in offsets.items():
            name, attempts[topic, index] = history.commits((group_id, topic, index), offset)
            topics.setdefault(topic, []).append(partition_of(index, offset, -1, name))
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id if version >= 7 else None,
            retention_time_ms=-1,
            topics=[topic_of(name=name, partitions=partitions) for name, partitions in topics.items()],
        )
        asked = history.tick()
        return asked, await self.caller.send(request, version), attempts

    async def committed(
        self,
        group_id: str,
        asked: int,
        answer: Any,
        attempts: dict[tuple[str, int], Attempt],
        generation: int,
        member_id: str,
    ) -> ErrorCode:
        history = self.world.history
        response = await self.caller.answer(answer, 7.0)
        seen = {}
        for topic in response.topics:
            for partition in topic.partitions:
                code = seen[topic.name, partition.partition_index] = ErrorCode(partition.error_code)
                attempt = attempts[topic.name, partition.partition_index]
                if code is ErrorCode.NONE:
                    history.acknowledge(attempt)
                elif code not in ASK_AGAIN and code is not ErrorCode.UNKNOWN_SERVER_ERROR:
                    history.refuse(attempt)
        if seen.keys() != attempts.keys():
            self.world.broken(
                "every partition is answered", f"{self.name}: asked {sorted(attempts)}, got {sorted(seen)}"
            )
        code = next(iter(seen.values()))
        if code is ErrorCode.NONE and member_id:
            history.passed(group_id, generation, member_id, asked, "commit")
        return code

    async def fetch(
        self, group_id: str, partitions: Sequence[tuple[str, int]], version: int
    ) -> dict[tuple[str, int], int]:
        """The committed offsets, checked against the history. Raises Lost if the server could not say."""
        history = self.world.history
        names = list(dict.fromkeys(topic for topic, _ in partitions))
        indexes = {name: [index for topic, index in partitions if topic == name] for name in names}
        if version < 8:
            of = OffsetFetchRequest.OffsetFetchRequestTopic
            request = OffsetFetchRequest(group_id=group_id, topics=[of(name, indexes[name]) for name in names])
        else:
            topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name, bytes(16), indexes[name]) for name in names]
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id, None, -1, topics)]
            )
        keys: list[Key] = [(group_id, *partition) for partition in partitions]
        known = history.known_before(keys)
        response = await self.call(request, version)
        answered = response if version < 8 else response.groups[0]
        if version >= 2 and answered.error_code:
            if answered.error_code not in ASK_AGAIN:
                self.unexpected("OffsetFetch", answered.error_code)
            raise Lost
        found = {}
        for topic in answered.topics:
            for each in topic.partitions:
                if each.error_code:
                    raise Lost
                found[topic.name, each.partition_index] = each.committed_offset
                key = (group_id, topic.name, each.partition_index)
                history.read(key, known[key], each.committed_offset, each.metadata or "", self.name)
        if len(found) != len(partitions):
            self.world.broken("every partition is answered", f"{self.name}: asked {partitions}, got {list(found)}")
        return found


class Member(Client):
    """A consumer in a classic group."""

    def __init__(self, world: World, group_id: str, number: int) -> None:
        super().__init__(world, f"{group_id}-m{number}")
        random = self.random
        self.group_id = group_id
        self.instance_id = f"i{number}" if random.random() < world.plan.statics else None
        self.join_version = random.randrange(5 if self.instance_id else 0, 10)
        self.sync_version = random.randrange(3 if self.instance_id else 0, 6)
        self.heartbeat_version = random.randrange(3 if self.instance_id else 0, 5)
        self.commit_version = random.randrange(7 if self.instance_id else 2, 10)
        self.fetch_version = random.randrange(1, 10)
        self.leave_version = random.randrange(0, 6)
        self.claims_generation = random.random() < 0.2
        self.topics: tuple[str, ...] = random.choice([(ORDERS,), (ORDERS,), (ORDERS, AUDIT)])
        self.member_id = ""
        self.generation = NO_GENERATION
        self.positions: dict[tuple[str, int], int] = {}
        self.stable = False
        """It holds an assignment and knows of no reason to join again."""
        self.gone = False

    async def run(self) -> None:
        """Until the end of the world."""
        while True:
            try:
                await self._join()
                await self._consume()
            except Lost:
                self.stable = False
                await self.think()
            except Rejoin:
                self.stable = False
            except Fenced:
                self._forget()
                await self.world.rest(self.random.uniform(1, 5))

    @property
    def wants(self) -> set[tuple[str, int]]:
        """Partitions that somebody of its group must have."""
        return {(topic, index) for topic in self.topics for index in range(TOPICS[topic])}

    def _forget(self) -> None:
        """A new process knows nothing of the former one."""
        self.member_id, self.generation, self.positions, self.stable = "", NO_GENERATION, {}, False

    def _refused(self, what: str, code: int) -> None:
        """Raises what follows from an error."""
        error = ErrorCode(code)
        self.world.event(f"{self.name} {self.member_id[-4:]} {self.generation}: {what} {error.name}")
        if error is ErrorCode.FENCED_INSTANCE_ID and self.instance_id is not None:
            raise Fenced
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget()
        elif error is ErrorCode.ILLEGAL_GENERATION:
            self.generation = NO_GENERATION
        if error in JOIN_ANEW:
            raise Rejoin
        if error not in ASK_AGAIN and error is not ErrorCode.UNKNOWN_SERVER_ERROR:
            self.unexpected(what, code)
        raise Lost

    # --- joining ------------------------------------------------------------------------------------------------------

    def _subscription(self) -> bytes:
        owned: dict[str, tuple[int, ...]] = {}
        for topic, index in self.positions:
            owned[topic] = (*owned.get(topic, ()), index)
        return encode_subscription(Subscription(self.topics, None, owned, self.generation, None, 2))

    async def _join(self) -> None:
        plan, history = self.world.plan, self.world.history
        within_s = plan.rebalance_ms / 1000 + plan.initial_rebalance_delay_ms / 1000 + 20
        while True:
            request = JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=plan.session_ms,
                rebalance_timeout_ms=plan.rebalance_ms,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequest.JoinGroupRequestProtocol("range", self._subscription())],
            )
            if self.claims_generation and self.join_version >= 8:
                request.generation_id = self.generation
            asked = history.tick()
            response = await self.call(request, self.join_version, within_s)
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
                continue
            if response.error_code:
                self._refused("JoinGroup", response.error_code)
            history.joined(self.group_id, response.generation_id, asked, self.name)
            self.member_id, self.generation = response.member_id, response.generation_id
            await self._sync(response)
            return

    async def _sync(self, joined: JoinGroupResponse) -> None:
        plan, history = self.world.plan, self.world.history
        leads = joined.leader == self.member_id and not joined.skip_assignment
        if leads and self.random.random() < 0.1:
            await self.world.rest(self.random.uniform(0, 3))
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=self._assign(joined) if leads else [],
        )
        asked = history.tick()
        response = await self.call(request, self.sync_version, plan.rebalance_ms / 1000 + 20)
        if response.error_code:
            self._refused("SyncGroup", response.error_code)
        assignment = parse_assignment(response.assignment)
        partitions = [(topic, index) for topic, indexes in assignment.partitions.items() for index in indexes]
        history.assigned(
            self.group_id, self.generation, self.member_id, self.instance_id, assignment.user_data or b"", partitions,
            asked,
        )  # fmt: skip
        self.positions = {}
        if partitions:
            found = await self.fetch(self.group_id, partitions, self.fetch_version)
            self.positions = {partition: max(0, offset) for partition, offset in found.items()}
        self.stable = True
        self.world.event(f"{self.name} {self.member_id[-4:]} {self.generation}: {len(partitions)} partitions")

    def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequest.SyncGroupRequestAssignment]:
        """Round robin over the members that want each topic. All parts bear one token."""
        token = f"{self.member_id} {self.generation} {self.random.random()}".encode()
        parts: dict[str, dict[str, tuple[int, ...]]] = {member.member_id: {} for member in joined.members}
        turn = 0
        for topic, count in TOPICS.items():
            wanting = [each.member_id for each in joined.members if topic in parse_subscription(each.metadata).topics]
            for index in range(count if wanting else 0):
                part = parts[wanting[turn % len(wanting)]]
                part[topic] = (*part.get(topic, ()), index)
                turn += 1
        make = SyncGroupRequest.SyncGroupRequestAssignment
        return [make(member_id, encode_assignment(Assignment(part, token, 1))) for member_id, part in parts.items()]

    # --- consuming ----------------------------------------------------------------------------------------------------

    async def _consume(self) -> None:
        while True:
            await self.think()
            chance = self.random.random()
            if self.world.calm:
                chance *= 0.85
            if chance < 0.5 or not self.positions:
                await self._heartbeat()
            elif chance < 0.85:
                await self._commit()
            elif chance < 0.9:
                await self.fetch(self.group_id, list(self.positions), self.fetch_version)
            elif not self.world.calm:
                self.stable = False
                await self._do_something_rare(self.random.random())
                self.stable = True

    async def _heartbeat(self) -> None:
        history = self.world.history
        request = HeartbeatRequest(self.group_id, self.generation, self.member_id, self.instance_id)
        generation, member_id, asked = self.generation, self.member_id, history.tick()
        response = await self.call(request, self.heartbeat_version)
        if response.error_code:
            self._refused("Heartbeat", response.error_code)
        history.passed(self.group_id, generation, member_id, asked, "heartbeat")

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
            # Answered at once by whoever has it, and yet not before the commits.
            in_between = await self.caller.send(MetadataRequest(topics=None), self.random.randrange(1, 13))
        for asked, answer, attempts in sent:
            code = await self.committed(self.group_id, asked, answer, attempts, self.generation, self.member_id)
            if code is not ErrorCode.NONE:
                self._refused("OffsetCommit", code)
        if in_between is not None:
            await self.caller.answer(in_between, 7.0)

    async def _do_something_rare(self, chance: float) -> None:
        if chance < 0.2:
            await self._leave()
        elif chance < 0.4:
            self.caller.give_up()
            zombie = Zombie(self)
            self._forget()
            if self.random.random() < 0.5:
                self.world.loop.create_task(zombie.run())
            await self.world.rest(self.random.choice([0.0, 1.0, 15.0]) * self.random.random())
        elif chance < 0.5:
            self.topics = self.random.choice([(ORDERS,), (ORDERS, AUDIT)])
        elif chance < 0.6:
            await self.world.rest(self.random.uniform(0, 2 * self.world.plan.session_ms / 1000))
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
            self._refused("LeaveGroup", code)
        self._forget()
        await self.think()


class Zombie(Member):
    """The former process of a member, which does not know that there is a new one."""

    def __init__(self, member: Member) -> None:
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
            except Lost:
                continue
            except (Rejoin, Fenced):
                break
        self.caller.give_up()


class Simple(Client):
    """Commits without being a member, for groups of its own and, uninvited, for others'."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, f"simple-{number}")
        self.group_id = f"simple-{number % 2}"
        self.position = 0

    async def run(self) -> None:
        while True:
            await self.think()
            try:
                await self._act()
            except Lost:
                continue

    async def _act(self) -> None:
        random, plan = self.random, self.world.plan
        if random.random() < 0.4:
            await self.fetch(self.group_id, [(ORDERS, 0), (AUDIT, 1)], random.randrange(1, 10))
            return
        intrudes = random.random() < 0.1 and not self.world.calm
        group_id = f"group-{random.randrange(plan.groups)}" if intrudes else self.group_id
        self.position += 1
        offsets = {(ORDERS, 0): self.position}
        if random.random() < 0.3:
            offsets[AUDIT, 1] = self.position
        code = await self.commit(group_id, offsets, random.randrange(2, 10))
        if code is ErrorCode.UNKNOWN_MEMBER_ID and intrudes:
            return
        if code is not ErrorCode.NONE and code not in ASK_AGAIN:
            self.unexpected("OffsetCommit", code)


class Auditor(Client):
    """Reads every offset that anybody may have committed, and asks about all groups."""

    async def run(self) -> None:
        while True:
            await self.world.rest(self.random.uniform(1, 6))
            try:
                await self.audit()
                await self._look()
            except Lost:
                continue

    async def audit(self) -> None:
        """One read of everything. Raises Lost."""
        for group_id in self.world.history.groups():
            partitions = [(topic, index) for _, topic, index in self.world.history.keys_of(group_id)]
            await self.fetch(group_id, partitions, self.random.randrange(1, 10))

    async def describe(self, group_ids: list[str]) -> Any:
        """The described groups. Raises Lost."""
        response = await self.call(DescribeGroupsRequest(group_ids), self.random.randrange(0, 6))
        for group in response.groups:
            if group.error_code and group.error_code not in ASK_AGAIN:
                self.unexpected("DescribeGroups", group.error_code)
            if group.error_code:
                raise Lost
        return response.groups

    async def _look(self) -> None:
        groups = await self.describe([f"group-{number}" for number in range(self.world.plan.groups)])
        for group in groups:
            if group.group_state == "Stable":
                self._check_assignment(group)
        response = await self.call(ListGroupsRequest(), self.random.randrange(0, 6))
        if response.error_code and response.error_code not in ASK_AGAIN:
            self.unexpected("ListGroups", response.error_code)

    def _check_assignment(self, group: Any) -> None:
        owners: dict[tuple[str, int], str] = {}
        for member in group.members:
            for topic, indexes in parse_assignment(member.member_assignment).partitions.items():
                for index in indexes:
                    owner = owners.setdefault((topic, index), member.member_id)
                    if owner != member.member_id:
                        self.world.broken("I8 single owner", f"{group.group_id} described: {(topic, index)} has two")


class Administrator(Client):
    """Deletes what others use, and makes and removes a topic."""

    async def run(self) -> None:
        while True:
            await self.world.rest(self.random.uniform(0.5, 6))
            if self.world.calm:
                return
            try:
                await self.random.choice([self._delete_group, self._delete_offsets, self._scratch])()
            except Lost:
                continue

    async def _delete_group(self) -> None:
        history = self.world.history
        group_id = self.random.choice(
            ["simple-0", "simple-1", f"group-{self.random.randrange(self.world.plan.groups)}"]
        )
        attempts = history.deletes((group_id, topic, index) for topic in TOPICS for index in range(TOPICS[topic]))
        history.group_deletion_begins(group_id)
        response = await self.call(DeleteGroupsRequest([group_id]), self.random.randrange(0, 4))
        code = response.results[0].error_code
        self._deleted("DeleteGroups", code, attempts, (ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND))
        if code not in ASK_AGAIN:
            history.group_deletion_ends(group_id)

    async def _delete_offsets(self) -> None:
        history = self.world.history
        group_id = self.random.choice(
            ["simple-0", "simple-1", f"group-{self.random.randrange(self.world.plan.groups)}"]
        )
        topic, index = self.random.choice([(ORDERS, 0), (AUDIT, 1)])
        attempts = history.deletes([(group_id, topic, index)])
        asked = OffsetDeleteRequest.OffsetDeleteRequestTopic(
            topic, [OffsetDeleteRequest.OffsetDeleteRequestPartition(index)]
        )
        response = await self.call(OffsetDeleteRequest(group_id, [asked]), 0)
        code = response.error_code or response.topics[0].partitions[0].error_code
        expected = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NON_EMPTY_GROUP)
        self._deleted("OffsetDelete", code, attempts, expected)

    def _deleted(self, what: str, code: int, attempts: list[Attempt], expected: tuple[ErrorCode, ...]) -> None:
        history = self.world.history
        if code == ErrorCode.NONE:
            for attempt in attempts:
                history.took_effect(attempt)
        elif code in expected:
            for attempt in attempts:
                history.refuse(attempt)
        elif code not in ASK_AGAIN:
            self.unexpected(what, code)

    async def _scratch(self) -> None:
        chance = self.random.random()
        if chance < 0.5:
            topic = CreateTopicsRequest.CreatableTopic(name=SCRATCH, num_partitions=2, replication_factor=1)
            answer = (await self.call(CreateTopicsRequest([topic], 5_000), self.random.randrange(2, 8))).topics[0]
            expected = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        else:
            version = self.random.randrange(1, 7)
            request = DeleteTopicsRequest(timeout_ms=5_000)
            if version < 6:
                request.topic_names = [SCRATCH]
            else:
                request.topics = [DeleteTopicsRequest.DeleteTopicState(SCRATCH)]
            answer = (await self.call(request, version)).responses[0]
            expected = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if answer.error_code not in expected and answer.error_code not in ASK_AGAIN:
            self.unexpected("CreateTopics or DeleteTopics", answer.error_code)
        await self.call(MetadataRequest(topics=None), self.random.randrange(1, 13))


class Hostile(Client):
    """Sends what is no request, or only a part of one, and reads no answer."""

    async def run(self) -> None:
        while not self.world.calm:
            await self.world.rest(self.random.uniform(0.5, 8))
            try:
                end = await self.caller.open_deaf()
            except Lost:
                continue
            end.write(self._garbage())
            await self.think()
            end.close()

    def _garbage(self) -> bytes:
        random = self.random
        noise = random.randbytes(random.randrange(0, 300))
        kind = random.randrange(5)
        if kind == 0:
            return noise
        if kind == 1:
            return random.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0"]) + noise
        key, version = random.randrange(0, 70), random.randrange(0, 12)
        body = key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\0\1h\0" + noise
        if kind == 2:
            return (len(body) + random.randrange(1, 100)).to_bytes(4, "big") + body
        return len(body).to_bytes(4, "big") + body
