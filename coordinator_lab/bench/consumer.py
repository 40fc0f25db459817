"""The rebalances of a consumer group (KIP-848): server CPU and wall clock until it is stable.

    python -m coordinator_lab.bench.consumer HOST PORT SERVER_PID MEMBERS PARTITIONS [SECONDS]

prints one JSON line: a `Convergence`, or with SECONDS the `Outcome` of heartbeats in a stable group.

In this protocol members do not wait for each other; each one reaches the target through its own heartbeats. No response says
that the rebalance is complete, and the cost depends on how often members send heartbeats. Here all of them send one at the
same time, in rounds `ROUND_S` apart. A member whose partitions change sends another one at once with the partitions that it
owns now, as clients do. This acknowledges the revocation.

The rebalance is complete when every partition has an owner, and the numbers of partitions of any two members differ by at
most one. It is not enough that every partition has an owner, because the first member gets all of them before the second
joins. At no time may a partition have two owners: a member releases a partition before it says so, so two owners are a bug of
the server, and the run fails.

All members are in one Python process, whose time is part of the wall clock but not of the CPU.
"""

import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any
from uuid import uuid4

import uvloop

from coordinator.client.asynchronous import Client
from coordinator.client.conversation import request_frame
from coordinator.groups.assignors.assignor import GroupSpec, MemberSpec, Partitions
from coordinator.groups.assignors.assignor import run as run_assignor
from coordinator.groups.assignors.uniform import UniformAssignor
from coordinator.protocol.messages import ConsumerGroupHeartbeatRequest, CreateTopicsRequest, ListOffsetsRequest
from coordinator_lab.bench.load import (
    CLIENT_ID,
    LoadConnection,
    Outcome,
    connected,
    cpu_seconds,
    measure,
    wait_until_serving,
)

ROUND_S = 0.1
"""The time from the last response of one round to the first request of the next."""
SETTLE_S = 1.1
"""Longer than the default assignment interval, so that the time of a leave does not include it."""
GIVE_UP_S = 120.0
JOIN_AT_ONCE = 1_000
TOPIC_PARTITIONS_MAX = 10_000
"""The most partitions that one request can create. For more there are several topics."""
TOPIC_ALREADY_EXISTS = 36
LEAVING_EPOCH = -1
LATEST = -1
"""The timestamp of ListOffsets for the end of a partition."""

Owned = frozenset[tuple[bytes, int]]
"""Pairs of topic id and partition."""


@dataclass(frozen=True, slots=True)
class Convergence:
    """The cost until every partition had an owner again, evenly distributed."""

    members: int
    partitions: int
    form_cpu_s: float
    form_wall_s: float
    form_heartbeats: int
    leave_cpu_s: float
    leave_wall_s: float


class Owners:
    """The owner of each partition, according to the responses. The run fails if a partition has two owners."""

    def __init__(self) -> None:
        self.by_partition: dict[tuple[bytes, int], str] = {}
        self.heartbeats = 0

    def move(self, member_id: str, before: Owned, after: Owned) -> None:
        for partition in before - after:
            del self.by_partition[partition]
        for partition in after - before:
            owner = self.by_partition.setdefault(partition, member_id)
            if owner != member_id:
                raise SystemExit(f"consumer: partition {partition[1]} of {owner} was assigned to {member_id} as well")


class Member:
    """A member of the group, with its own connection."""

    def __init__(self, group_id: str, topics: Sequence[str], owners: Owners) -> None:
        self.owned: Owned = frozenset()
        self.member_id = str(uuid4())
        self.epoch = 0
        self.group_id = group_id
        self._topics = topics
        self._owners = owners

    async def connect(self, host: str, port: int) -> None:
        self.client = await connected(host, port)

    async def join(self) -> None:
        """Sends the first heartbeat, which has all fields."""
        request = self._request()
        request.rebalance_timeout_ms = 300_000
        request.subscribed_topic_names = list(self._topics)
        request.topic_partitions = []
        if await self._changes_owned(request):
            await self.beat(reports_owned=True)

    async def beat(self, *, reports_owned: bool = False) -> None:
        """Sends a heartbeat, and further ones with the owned partitions as long as the response changes them."""
        while True:
            request = self._request()
            if reports_owned:
                request.topic_partitions = self._topic_partitions()
            if not await self._changes_owned(request):
                return
            reports_owned = True

    def stable_heartbeat(self) -> bytes:
        """The frame of a heartbeat without changes. Closes the connection."""
        self.client.close()
        return request_frame(self._request(), 1, 7, CLIENT_ID)

    async def leave(self) -> None:
        self._owners.move(self.member_id, self.owned, frozenset())
        self.owned = frozenset()
        self.epoch = LEAVING_EPOCH
        await self._ask(self._request())

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch)

    def _topic_partitions(self) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
        by_topic: dict[bytes, list[int]] = {}
        for topic_id, partition in self.owned:
            by_topic.setdefault(topic_id, []).append(partition)
        return [ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id, held) for topic_id, held in by_topic.items()]

    async def _changes_owned(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Sends a heartbeat and follows the response. Returns whether the owned partitions changed."""
        answer = await self._ask(request)
        self.epoch = answer.member_epoch
        if answer.assignment is None:
            return False
        assigned = frozenset((t.topic_id, p) for t in answer.assignment.topic_partitions for p in t.partitions)
        if assigned == self.owned:
            return False
        self._owners.move(self.member_id, self.owned, assigned)
        self.owned = assigned
        return True

    async def _ask(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        self._owners.heartbeats += 1
        answer = await self.client.send(request, 1)
        if answer.error_code:
            raise SystemExit(f"consumer: error {answer.error_code}: {answer.error_message}")
        return answer


async def create_topics(client: Client, sizes: Mapping[str, int]) -> None:
    """Creates topics with these numbers of partitions, unless an earlier run has. Waits until every partition has its log."""
    for name, size in sizes.items():
        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=size, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
        answer = await client.send(request, 7)
        if answer.topics[0].error_code not in (0, TOPIC_ALREADY_EXISTS):
            raise SystemExit(f"consumer: cannot create topic {name}: error {answer.topics[0].error_code}")
    for name, size in sizes.items():
        # Kafka responds before it has created the logs, which takes a while.
        while len(await end_offsets(client, name, size)) < size:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(ROUND_S)


async def end_offsets(client: Client, name: str, size: int) -> dict[int, int]:
    """The ends of those partitions of a topic that have a log."""
    partition = ListOffsetsRequest.ListOffsetsPartition
    partitions = [partition(partition_index=index, timestamp=LATEST) for index in range(size)]
    topic = ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=partitions)
    request = ListOffsetsRequest(replica_id=-1, topics=[topic])
    answer = await client.send(request, 5)
    return {each.partition_index: each.offset for each in answer.topics[0].partitions if not each.error_code}


async def converge(members: Sequence[Member], owners: Owners, partitions: int) -> None:
    """Runs rounds of heartbeats until every partition has an owner, evenly distributed."""
    until = time.monotonic() + GIVE_UP_S
    while True:
        held = [len(member.owned) for member in members]
        if len(owners.by_partition) == sum(held) == partitions and max(held) - min(held) <= 1:
            return
        if time.monotonic() > until:
            raise SystemExit(
                f"consumer: after {GIVE_UP_S:g} s {sum(held)} of {partitions} partitions have an owner, "
                f"{min(held)} to {max(held)} for each of {len(members)} members"
            )
        await asyncio.sleep(ROUND_S)
        await asyncio.gather(*(member.beat() for member in members))


async def _connect_members(
    host: str, port: int, count: int, partitions: int
) -> tuple[list[Member], Owners, dict[str, int]]:
    """Creates topics, and members that are connected but have not joined."""
    await wait_until_serving(host, port)
    owners = Owners()
    count_of_topics = -(-partitions // TOPIC_PARTITIONS_MAX)
    sizes = {
        f"bench-{partitions}-{n}": partitions // count_of_topics + (n < partitions % count_of_topics)
        for n in range(count_of_topics)
    }
    client = await connected(host, port)
    await create_topics(client, sizes)
    client.close()
    group_id = f"bench-{uuid4()}"
    members = [Member(group_id, list(sizes), owners) for _ in range(count)]
    for member in members:
        await member.connect(host, port)
    return members, owners, sizes


async def heartbeats(host: str, port: int, server_pid: int, count: int, partitions: int, seconds: float) -> Outcome:
    """Measures heartbeats in a stable group. Each member has its own connection, with one request in progress."""
    members, owners, _ = await _connect_members(host, port, count, partitions)
    for first in range(0, count, JOIN_AT_ONCE):
        await asyncio.gather(*(member.join() for member in members[first : first + JOIN_AT_ONCE]))
    await converge(members, owners, partitions)
    frames = [member.stable_heartbeat() for member in members]
    loop = asyncio.get_running_loop()
    connections = []
    for request in frames:
        _, connection = await loop.create_connection(partial(LoadConnection, [request], 1), host, port)
        connections.append(connection)
    return await measure(connections, server_pid, 1.0, seconds, 0)


async def run(host: str, port: int, server_pid: int, count: int, partitions: int) -> Convergence:
    """Measures how a group of `count` members forms, and how one leaves, without creating topics and connections."""
    members, owners, sizes = await _connect_members(host, port, count, partitions)
    cpu, began = cpu_seconds(server_pid), time.perf_counter()
    await asyncio.gather(*(member.join() for member in members))
    await converge(members, owners, partitions)
    form_wall_s, form_cpu_s, heartbeats = time.perf_counter() - began, cpu_seconds(server_pid) - cpu, owners.heartbeats
    _check_complete(owners, sizes)

    await asyncio.sleep(SETTLE_S)
    cpu, began = cpu_seconds(server_pid), time.perf_counter()
    await members.pop().leave()
    await asyncio.gather(*(member.beat() for member in members))
    await converge(members, owners, partitions)
    leave_wall_s, leave_cpu_s = time.perf_counter() - began, cpu_seconds(server_pid) - cpu
    _check_complete(owners, sizes)
    return Convergence(count, partitions, form_cpu_s, form_wall_s, heartbeats, leave_cpu_s, leave_wall_s)


def _check_complete(owners: Owners, sizes: dict[str, int]) -> None:
    """Fails unless the owned partitions are those of the topics."""
    found: dict[bytes, set[int]] = {}
    for topic_id, partition in owners.by_partition:
        found.setdefault(topic_id, set()).add(partition)
    if sorted(map(sorted, found.values())) != sorted(list(range(size)) for size in sizes.values()):
        raise SystemExit("consumer: the owned partitions are not the partitions of the topics")


def assignor_seconds(members: int, partitions: int, topics: int, repetitions: int) -> tuple[float, float]:
    """The wall-clock time of the uniform assignor for a new group and after one member has left (medians)."""
    sizes = {bytes([topic]) * 16: partitions // topics for topic in range(1, topics + 1)}
    nothing: Partitions = {}
    names = [str(uuid4()) for _ in range(members)]

    def timed(assigned: dict[str, Partitions]) -> tuple[float, dict[str, Partitions]]:
        assignor_inputs = {
            name: MemberSpec(instance_id=None, rack_id=None, topics=frozenset(sizes), assigned=held)
            for name, held in assigned.items()
        }
        group = GroupSpec(members=assignor_inputs, partitions=sizes)
        began = time.perf_counter()
        answer = run_assignor("uniform", UniformAssignor(), group)
        return time.perf_counter() - began, answer

    new, after_leave = [], []
    for _ in range(repetitions):
        seconds, target = timed(dict.fromkeys(names, nothing))
        new.append(seconds)
        del target[names[0]]
        after_leave.append(timed(target)[0])
    return median(new), median(after_leave)


if __name__ == "__main__":
    _, host_, port_, pid_, count_, partitions_, *seconds_ = sys.argv
    group_ = (host_, int(port_), int(pid_), int(count_), int(partitions_))
    outcome_: Any = uvloop.run(heartbeats(*group_, float(seconds_[0])) if seconds_ else run(*group_))
    print(json.dumps(asdict(outcome_)))  # noqa: T201
