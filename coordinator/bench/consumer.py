"""A consumer group (KIP-848) from nothing to all stable, and after one leaves: server CPU and wall clock.

    python -m coordinator.bench.consumer HOST PORT SERVER_PID MEMBERS PARTITIONS [SECONDS]

prints one JSON line, a `Convergence`; with SECONDS an `Outcome` instead, of heartbeats in a group at rest.

In this protocol nobody waits for anybody: each member is led to the target by its own heartbeats. So there is no answer
that says "the rebalance is over", and the cost depends on how often members ask. Here all of them ask at once, in rounds
`ROUND_S` apart; one whose partitions change asks again at once, as clients do, to say what it owns now. That acknowledges
what it was told to give up.

The end is what the members see: every partition has an owner, and no member has more than one partition more than another.
Complete alone would not do, for the first member is given everything before the second has come. Disjoint is not asked at
the end but of every single step: a member gives up before it says so and takes when it is told, so that two owners at any
moment are an error of the server, and the run fails.

The members are one Python process, whose own time is in the wall clock and not in the CPU.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any
from uuid import uuid4

import uvloop

from coordinator.bench.load import Member as Connection
from coordinator.bench.load import Outcome, ask, cpu_seconds, frame, measure, serving
from coordinator.groups.assignors.assignor import GroupSpec, MemberSpec, Partitions
from coordinator.groups.assignors.assignor import run as run_assignor
from coordinator.groups.assignors.uniform import UniformAssignor
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import ConsumerGroupHeartbeatRequest, CreateTopicsRequest, ListOffsetsRequest

ROUND_S = 0.1
"""From the last answer of one round to the first question of the next."""
SETTLE_S = 1.1
"""Longer than the default assignment interval: a leave is measured without waiting for it."""
GIVE_UP_S = 120.0
JOIN_AT_ONCE = 1_000
TOPIC_PARTITIONS_MAX = 10_000
"""That one request may create; more are several topics."""
TOPIC_ALREADY_EXISTS = 36
LEAVING_EPOCH = -1
LATEST = -1
"""The end of a partition, to ListOffsets."""

Owned = frozenset[tuple[bytes, int]]
"""Topic id and partition."""


@dataclass(frozen=True, slots=True)
class Convergence:
    """What it took until every partition was owned again and evenly so."""

    members: int
    partitions: int
    form_cpu_s: float
    form_wall_s: float
    form_heartbeats: int
    leave_cpu_s: float
    leave_wall_s: float


class Owners:
    """Who owns each partition, by what the members were told. The run fails where two would own one."""

    def __init__(self) -> None:
        self.by_partition: dict[tuple[bytes, int], str] = {}
        self.heartbeats = 0

    def move(self, member_id: str, before: Owned, after: Owned) -> None:
        for partition in before - after:
            del self.by_partition[partition]
        for partition in after - before:
            owner = self.by_partition.setdefault(partition, member_id)
            if owner != member_id:
                raise SystemExit(f"consumer: partition {partition[1]} of {owner} was given to {member_id} as well")


class Member:
    """One member of the group, on a connection of its own."""

    def __init__(self, codec: Codec, group_id: str, topics: Sequence[str], owners: Owners) -> None:
        self.owned: Owned = frozenset()
        self._member_id = str(uuid4())
        self._epoch = 0
        self._codec = codec
        self._group_id = group_id
        self._topics = topics
        self._owners = owners

    async def connect(self, host: str, port: int) -> None:
        self._reader, self._writer = await asyncio.open_connection(host, port, limit=1 << 24)

    async def join(self) -> None:
        """The first heartbeat, which tells everything."""
        request = self._request()
        request.rebalance_timeout_ms = 300_000
        request.subscribed_topic_names = list(self._topics)
        request.topic_partitions = []
        if await self._changes(request):
            await self.beat(tells=True)

    async def beat(self, *, tells: bool = False) -> None:
        """A heartbeat, with what it owns if that has changed; another as long as the answer changes it."""
        while True:
            request = self._request()
            if tells:
                request.topic_partitions = self._topic_partitions()
            if not await self._changes(request):
                return
            tells = True

    def at_rest(self) -> bytes:
        """The frame of a heartbeat that says nothing new; its connection is not used any more."""
        self._writer.close()
        return frame(self._codec, "ConsumerGroupHeartbeatRequest", 1, 7, self._request())

    async def leave(self) -> None:
        self._owners.move(self._member_id, self.owned, frozenset())
        self.owned = frozenset()
        self._epoch = LEAVING_EPOCH
        await self._ask(self._request())

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self._member_id, member_epoch=self._epoch
        )

    def _topic_partitions(self) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
        by_topic: dict[bytes, list[int]] = {}
        for topic_id, partition in self.owned:
            by_topic.setdefault(topic_id, []).append(partition)
        return [ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id, held) for topic_id, held in by_topic.items()]

    async def _changes(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Asks, and does as it is told; whether that changed what it owns."""
        answer = await self._ask(request)
        self._epoch = answer.member_epoch
        if answer.assignment is None:
            return False
        assigned = frozenset((t.topic_id, p) for t in answer.assignment.topic_partitions for p in t.partitions)
        if assigned == self.owned:
            return False
        self._owners.move(self._member_id, self.owned, assigned)
        self.owned = assigned
        return True

    async def _ask(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        self._owners.heartbeats += 1
        answer = await ask(self._codec, self._reader, self._writer, "ConsumerGroupHeartbeat", 1, request)
        if answer.error_code:
            raise SystemExit(f"consumer: error {answer.error_code}: {answer.error_message}")
        return answer


async def _create_topics(codec: Codec, host: str, port: int, partitions: int) -> dict[str, int]:
    """The topics to subscribe to, with their sizes. A server that is measured again may have them."""
    count = -(-partitions // TOPIC_PARTITIONS_MAX)
    sizes = {f"bench-{partitions}-{n}": partitions // count + (n < partitions % count) for n in range(count)}
    reader, writer = await asyncio.open_connection(host, port)
    for name, size in sizes.items():
        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=size, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
        answer = await ask(codec, reader, writer, "CreateTopics", 7, request)
        if answer.topics[0].error_code not in (0, TOPIC_ALREADY_EXISTS):
            raise SystemExit(f"consumer: no topic {name}: error {answer.topics[0].error_code}")
    for name, size in sizes.items():
        while not await _serves(codec, reader, writer, name, size):  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(ROUND_S)
    writer.close()
    return sizes


async def _serves(
    codec: Codec, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str, size: int
) -> bool:
    """Whether every partition has its log: a Kafka answers before it has made them, and is busy with that for a while."""
    partition = ListOffsetsRequest.ListOffsetsPartition
    partitions = [partition(partition_index=index, timestamp=LATEST) for index in range(size)]
    topic = ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=partitions)
    request = ListOffsetsRequest(replica_id=-1, topics=[topic])
    answer = await ask(codec, reader, writer, "ListOffsets", 5, request)
    return not any(each.error_code for each in answer.topics[0].partitions)


async def _converge(members: Sequence[Member], owners: Owners, partitions: int) -> None:
    """Rounds of heartbeats until all is owned evenly; it may be at the start."""
    until = time.monotonic() + GIVE_UP_S
    while True:
        held = [len(member.owned) for member in members]
        if len(owners.by_partition) == sum(held) == partitions and max(held) - min(held) <= 1:
            return
        if time.monotonic() > until:
            raise SystemExit(
                f"consumer: after {GIVE_UP_S:g} s {sum(held)} of {partitions} partitions are owned, "
                f"{min(held)} to {max(held)} by each of {len(members)} members"
            )
        await asyncio.sleep(ROUND_S)
        await asyncio.gather(*(member.beat() for member in members))


async def _assembled(host: str, port: int, count: int, partitions: int) -> tuple[list[Member], Owners, dict[str, int]]:
    """Members that are connected and have not joined, nothing owned yet, and the topics with their sizes."""
    await serving(host, port)
    codec, owners = Codec.of(None), Owners()
    sizes = await _create_topics(codec, host, port, partitions)
    group_id = f"bench-{uuid4()}"
    members = [Member(codec, group_id, list(sizes), owners) for _ in range(count)]
    for member in members:
        await member.connect(host, port)
    return members, owners, sizes


async def heartbeats(host: str, port: int, server_pid: int, count: int, partitions: int, seconds: float) -> Outcome:
    """A group at rest, each member on a connection of its own and asking again as soon as it is answered."""
    members, owners, _ = await _assembled(host, port, count, partitions)
    for first in range(0, count, JOIN_AT_ONCE):
        await asyncio.gather(*(member.join() for member in members[first : first + JOIN_AT_ONCE]))
    await _converge(members, owners, partitions)
    frames = [member.at_rest() for member in members]
    loop = asyncio.get_running_loop()
    connections = []
    for request in frames:
        _, connection = await loop.create_connection(partial(Connection, [request], 1), host, port)
        connections.append(connection)
    return await measure(connections, server_pid, 1.0, seconds, 0)


async def run(host: str, port: int, server_pid: int, count: int, partitions: int) -> Convergence:
    """Forms a group of `count` and takes one away. Topics and connections are there before the clock starts."""
    members, owners, sizes = await _assembled(host, port, count, partitions)
    cpu, began = cpu_seconds(server_pid), time.perf_counter()
    await asyncio.gather(*(member.join() for member in members))
    await _converge(members, owners, partitions)
    form_wall_s, form_cpu_s, heartbeats = time.perf_counter() - began, cpu_seconds(server_pid) - cpu, owners.heartbeats
    _check_complete(owners, sizes)

    await asyncio.sleep(SETTLE_S)
    cpu, began = cpu_seconds(server_pid), time.perf_counter()
    await members.pop().leave()
    await asyncio.gather(*(member.beat() for member in members))
    await _converge(members, owners, partitions)
    leave_wall_s, leave_cpu_s = time.perf_counter() - began, cpu_seconds(server_pid) - cpu
    _check_complete(owners, sizes)
    return Convergence(count, partitions, form_cpu_s, form_wall_s, heartbeats, leave_cpu_s, leave_wall_s)


def _check_complete(owners: Owners, sizes: dict[str, int]) -> None:
    """Exactly the partitions there are, not merely as many."""
    found: dict[bytes, set[int]] = {}
    for topic_id, partition in owners.by_partition:
        found.setdefault(topic_id, set()).add(partition)
    if sorted(map(sorted, found.values())) != sorted(list(range(size)) for size in sizes.values()):
        raise SystemExit("consumer: what is owned is not what the topics have")


def assignor_seconds(members: int, partitions: int, repetitions: int) -> tuple[float, float]:
    """The uniform assignor by itself, one topic: from nothing, and after one member left (medians, wall clock)."""
    topic_id = b"\1" * 16
    nothing: Partitions = {}
    names = [str(uuid4()) for _ in range(members)]

    def timed(assigned: dict[str, Partitions]) -> tuple[float, dict[str, Partitions]]:
        specs = {
            name: MemberSpec(instance_id=None, rack_id=None, topics=frozenset([topic_id]), assigned=held)
            for name, held in assigned.items()
        }
        group = GroupSpec(members=specs, partitions={topic_id: partitions})
        began = time.perf_counter()
        answer = run_assignor("uniform", UniformAssignor(), group)
        return time.perf_counter() - began, answer

    fresh, again = [], []
    for _ in range(repetitions):
        seconds, target = timed(dict.fromkeys(names, nothing))
        fresh.append(seconds)
        del target[names[0]]
        again.append(timed(target)[0])
    return median(fresh), median(again)


if __name__ == "__main__":
    _, host_, port_, pid_, count_, partitions_, *seconds_ = sys.argv
    group_ = (host_, int(port_), int(pid_), int(count_), int(partitions_))
    outcome_: Any = uvloop.run(heartbeats(*group_, float(seconds_[0])) if seconds_ else run(*group_))
    print(json.dumps(asdict(outcome_)))  # noqa: T201
