"""What all simulated clients share, and those that are not members of a group.

Clients follow the protocol like real ones, but with little patience. There are few ids, so that they collide: members share
groups, an instance id comes back while its former holder is still running, and an administrator deletes groups in use. Each
client waits for one response after the other, as Kafka's clients do, except that commits are sometimes pipelined. Results
go to the `History`. A response that no well-behaved client may receive is a finding at once.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    Message,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from coordinator.protocol.subscription import (
    parse_assignment,
)
from coordinator_lab.simulation.history import Attempt, History, Key, OnBroken
from coordinator_lab.simulation.loop import SimulatedLoop
from coordinator_lab.simulation.plan import Plan
from coordinator_lab.simulation.wire import Access, NoResponse

if TYPE_CHECKING:
    from coordinator_lab.simulation.hunts import Hunt

ORDERS, AUDIT, SCRATCH = "orders", "audit", "scratch"
TOPICS = {ORDERS: 6, AUDIT: 3}
"""Permanent topics and their partition counts. SCRATCH is created and deleted again and again."""

RETRIABLE = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
"""Errors after which a client retries, without knowing whether the request took effect."""
RETRIABLE_CHANGE = RETRIABLE | {ErrorCode.NOT_CONTROLLER}
"""As above, for changes of topics and settings, which each of several workers takes."""


@dataclass(slots=True, kw_only=True)
class World:
    """The environment that all clients of a run share."""

    loop: SimulatedLoop
    plan: Plan
    history: History
    broken: OnBroken
    event: Callable[[str], None]
    hunt: "Hunt"
    caller: Callable[[str], Access]
    """Creates the connection to the server for a client id."""
    is_healed: bool = False
    """Whether the liveness phase has begun: no client crashes, leaves or deletes anything any more."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Client:
    """A client with a name, a random generator of its own and a connection."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.random = Random(f"{world.plan.seed} {name}")
        self.caller = world.caller(name)
        self.names: dict[bytes, str] = {}
        """Topic id -> name, of topics that were looked up."""

    async def call(self, request: Message, version: int, within_s: float = 7.0) -> Any:
        """Sends a request and returns the response. Raises NoResponse after `within_s` seconds."""
        return await self.caller.call(request, version, within_s)

    async def think(self) -> None:
        """Pauses for a random time, in any case shorter than a third of the session timeout."""
        plan = self.world.plan
        await self.world.sleep(min(self.random.expovariate(1 / plan.think_s), plan.session_ms / 3_000))

    def unexpected(self, api: str, code: int) -> None:
        """Reports an error code that Kafka would not return to this request."""
        self.world.broken("errors are ones that Kafka returns", f"{self.name}: {api} returned {ErrorCode(code).name}")

    async def topic_name(self, topic_id: bytes) -> str:
        """Raises NoResponse if the server does not know the topic."""
        if topic_id not in self.names:
            await self._read_names()
        if topic_id not in self.names:
            raise NoResponse
        return self.names[topic_id]

    async def topic_id(self, name: str) -> bytes:
        """Raises NoResponse if the server does not know the topic."""
        if name not in self.names.values():
            await self._read_names()
        for topic_id, known in self.names.items():
            if known == name:
                return topic_id
        raise NoResponse

    async def _read_names(self) -> None:
        response = await self.call(MetadataRequest(topics=None), 12)
        self.names |= {topic.topic_id: topic.name for topic in response.topics}

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
        """Commits offsets and returns the error of the first partition; existing partitions all get the same error."""
        asked, answer, attempts = await self.send_commit(group_id, offsets, version, generation, member_id, instance_id)
        return await self.await_commit(group_id, asked, answer, attempts, generation, member_id)

    async def send_commit(
        self,
        group_id: str,
        offsets: dict[tuple[str, int], int],
        version: int,
        generation: int,
        member_id: str,
        instance_id: str | None,
        *,
        is_named: bool = True,
    ) -> tuple[int, Any, dict[tuple[str, int], Attempt]]:
        """Sends an OffsetCommit request. Returns the tick, the future of the response, and the attempts by partition.

        `is_named`: whether its metadata is its name in the history. The fast path takes only commits without metadata.
        """
        partition_of, topic_of = (
            OffsetCommitRequest.OffsetCommitRequestPartition,
            OffsetCommitRequest.OffsetCommitRequestTopic,
        )
        history, attempts = self.world.history, {}
        topics: dict[str, list[Any]] = {}
        for (topic, index), offset in offsets.items():
            name, attempts[topic, index] = history.commit_started((group_id, topic, index), offset)
            topics.setdefault(topic, []).append(partition_of(index, offset, -1, name if is_named else ""))
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

    async def await_commit(
        self,
        group_id: str,
        asked: int,
        answer: Any,
        attempts: dict[tuple[str, int], Attempt],
        generation: int,
        member_id: str,
    ) -> ErrorCode:
        """Waits for the response to `send_commit` and records the outcome. Returns the first partition's error."""
        history = self.world.history
        response = await self.caller.answer(answer, 7.0)
        seen = {}
        for topic in response.topics:
            for partition in topic.partitions:
                code = seen[topic.name, partition.partition_index] = ErrorCode(partition.error_code)
                attempt = attempts[topic.name, partition.partition_index]
                if code is ErrorCode.NONE:
                    history.acknowledge(attempt)
                elif code not in RETRIABLE and code is not ErrorCode.UNKNOWN_SERVER_ERROR:
                    history.refuse(attempt)
        if seen.keys() != attempts.keys():
            self.world.broken(
                "every partition gets a response", f"{self.name}: asked {sorted(attempts)}, got {sorted(seen)}"
            )
        code = next(iter(seen.values()))
        if code is ErrorCode.NONE and member_id:
            history.commit_accepted(group_id, generation, member_id, asked, seen)
        return code

    async def fetch(
        self, group_id: str, partitions: Sequence[tuple[str, int]], version: int
    ) -> dict[tuple[str, int], int]:
        """The committed offsets, checked against the history. Raises NoResponse for a retriable error."""
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
        known = history.read_started(keys)
        response = await self.call(request, version)
        answered = response if version < 8 else response.groups[0]
        if version >= 2 and answered.error_code:
            if answered.error_code not in RETRIABLE:
                self.unexpected("OffsetFetch", answered.error_code)
            raise NoResponse
        found = {}
        for topic in answered.topics:
            for each in topic.partitions:
                if each.error_code:
                    raise NoResponse
                found[topic.name, each.partition_index] = each.committed_offset
                key = (group_id, topic.name, each.partition_index)
                history.read_answered(key, known[key], each.committed_offset, each.metadata or "", self.name)
        if len(found) != len(partitions):
            self.world.broken("every partition gets a response", f"{self.name}: asked {partitions}, got {list(found)}")
        return found


class SimpleConsumer(Client):
    """Commits without being a member: for groups of its own and sometimes, illegally, for groups with members."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, f"simple-{number}")
        self.group_id = f"simple-{number % 2}"
        self.position = 0

    async def run(self) -> None:
        while True:
            await self.think()
            try:
                await self._act()
            except NoResponse:
                continue

    async def _act(self) -> None:
        random, plan = self.random, self.world.plan
        if random.random() < 0.4:
            await self.fetch(self.group_id, [(ORDERS, 0), (AUDIT, 1)], random.randrange(1, 10))
            return
        intrudes = random.random() < 0.1 and not self.world.is_healed
        group_id = f"group-{random.randrange(plan.groups)}" if intrudes else self.group_id
        self.position += 1
        offsets = {(ORDERS, 0): self.position}
        if random.random() < 0.3:
            offsets[AUDIT, 1] = self.position
        code = await self.commit(group_id, offsets, random.randrange(2, 10))
        if code is ErrorCode.UNKNOWN_MEMBER_ID and intrudes:
            return
        if code is not ErrorCode.NONE and code not in RETRIABLE:
            self.unexpected("OffsetCommit", code)


class Auditor(Client):
    """Reads every offset that any client may have committed, and describes and lists all groups."""

    async def run(self) -> None:
        while True:
            await self.world.sleep(self.random.uniform(1, 6))
            try:
                await self.audit()
                await self._describe_groups()
            except NoResponse:
                continue

    async def audit(self) -> None:
        """Reads all offsets once. Raises NoResponse."""
        for group_id in self.world.history.groups():
            partitions = [(topic, index) for _, topic, index in self.world.history.keys_of(group_id)]
            await self.fetch(group_id, partitions, self.random.randrange(1, 10))

    async def describe(self, group_ids: list[str]) -> Any:
        """The described groups. Raises NoResponse."""
        response = await self.call(DescribeGroupsRequest(group_ids), self.random.randrange(0, 6))
        for group in response.groups:
            if group.error_code and group.error_code not in RETRIABLE:
                self.unexpected("DescribeGroups", group.error_code)
            if group.error_code:
                raise NoResponse
        return response.groups

    async def _describe_groups(self) -> None:
        ids = [f"group-{number}" for number in range(self.world.plan.groups)]
        # With several workers a group's coordinator answers for itself only.
        for batch in [[each] for each in ids] if self.world.plan.workers else [ids]:
            for group in await self.describe(batch):
                if group.group_state == "Stable":
                    self._check_assignment(group)
        response = await self.call(ListGroupsRequest(), self.random.randrange(0, 6))
        if response.error_code and response.error_code not in RETRIABLE:
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
    """Deletes groups and offsets that others use, and creates and deletes a topic."""

    async def run(self) -> None:
        while True:
            await self.world.sleep(self.random.uniform(0.5, 6))
            if self.world.is_healed:
                return
            try:
                await self.random.choice([self._delete_group, self._delete_offsets, self._toggle_topic])()
            except NoResponse:
                continue

    async def _delete_group(self) -> None:
        history = self.world.history
        group_id = self.random.choice(
            ["simple-0", "simple-1", f"group-{self.random.randrange(self.world.plan.groups)}"]
        )
        attempts = history.deletion_started(
            (group_id, topic, index) for topic in TOPICS for index in range(TOPICS[topic])
        )
        history.group_deletion_begins(group_id)
        response = await self.call(DeleteGroupsRequest([group_id]), self.random.randrange(0, 4))
        code = response.results[0].error_code
        self._record_deletion("DeleteGroups", code, attempts, (ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND))
        if code not in RETRIABLE:
            history.group_deletion_ends(group_id)

    async def _delete_offsets(self) -> None:
        history = self.world.history
        group_id = self.random.choice(
            ["simple-0", "simple-1", f"group-{self.random.randrange(self.world.plan.groups)}"]
        )
        topic, index = self.random.choice([(ORDERS, 0), (AUDIT, 1)])
        attempts = history.deletion_started([(group_id, topic, index)])
        asked = OffsetDeleteRequest.OffsetDeleteRequestTopic(
            topic, [OffsetDeleteRequest.OffsetDeleteRequestPartition(index)]
        )
        response = await self.call(OffsetDeleteRequest(group_id, [asked]), 0)
        code = response.error_code or response.topics[0].partitions[0].error_code
        expected = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NON_EMPTY_GROUP)
        self._record_deletion("OffsetDelete", code, attempts, expected)

    def _record_deletion(self, api: str, code: int, attempts: list[Attempt], expected: tuple[ErrorCode, ...]) -> None:
        history = self.world.history
        if code == ErrorCode.NONE:
            for attempt in attempts:
                history.took_effect(attempt)
        elif code in expected:
            for attempt in attempts:
                history.refuse(attempt)
        elif code not in RETRIABLE:
            self.unexpected(api, code)

    async def _toggle_topic(self) -> None:
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
        if answer.error_code not in expected and answer.error_code not in RETRIABLE_CHANGE:
            self.unexpected("CreateTopics or DeleteTopics", answer.error_code)
        await self.call(MetadataRequest(topics=None), self.random.randrange(1, 13))


class HostileClient(Client):
    """Sends garbage and incomplete requests, and reads no response."""

    async def run(self) -> None:
        while not self.world.is_healed:
            await self.world.sleep(self.random.uniform(0.5, 8))
            try:
                end = await self.caller.open_raw()
            except NoResponse:
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
