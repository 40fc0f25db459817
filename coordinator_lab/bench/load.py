"""The load generator: many connections, each for a member of its own group.

    python -m coordinator_lab.bench.load PLAN      PLAN is JSON (`Plan`); prints one JSON line (`Outcome`)

Each connection sends its next request when it has a response, or at a fixed rate. For the echo server, which responds to
anything, the members do not join first.
"""

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from heapq import heapify, heapreplace
from random import Random
from typing import cast
from uuid import uuid4

import uvloop

from coordinator.client.asynchronous import Client, connect
from coordinator.client.conversation import Splitter, request_frame
from coordinator.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    CreateTopicsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)

TOPIC = "bench"
PARTITIONS = 16
COMMITS = 64
"""The number of different commits that a member sends in turn. After the last one the offsets go back, which costs an event."""
JOINING_MAX = 200
"""Groups that form at the same time. Each waits for the server's initial rebalance delay, which is 3 s by default."""
CLIENT_ID = b"bench"
RUN_ID = uuid4().hex[:8]
"""Part of group names, because a server that is measured again still has the members of the previous run."""
SERVING_WITHIN_S = 60.0
NOT_SERVING = {14, 15, 16}
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""
PACE_S = 0.0005
"""The interval at which a fixed rate is checked. The timers of the event loop have a resolution of a millisecond."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A measurement. `request` is "heartbeat", "consumer heartbeat" or "commit", with `partitions` per commit."""

    host: str
    port: int
    request: str
    connections: int
    in_flight: int
    partitions: int
    warm_up_s: float
    seconds: float
    server_pid: int
    joins: bool
    """Whether the members join their groups; not for the echo server."""
    rate: int = 0
    """Requests per second of all connections together. 0: each sends the next request when it has a response."""
    certificate: str = ""
    """The file with the certificate of a server with TLS. Empty: it has no TLS."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The number of responses during the measurement, the CPU time of the server, and the size of a response in bytes.

    The first response of each member is decoded, and its error code must be NONE. The others are only counted.
    """

    answers: int
    seconds: float
    server_cpu_s: float
    answer_bytes: int
    p99_us: float
    """The latency that the load generator sees, or 0 if the load has no fixed rate."""
    p50_us: float = 0.0
    p99_cpu_us: float = 0.0
    """The CPU time that the server used while a request waited, by the same percentile. A busy machine does not add to it."""


def cpu_seconds(pid: int) -> float:
    """The user and system time of a process, from /proc (Linux)."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def cpu_clock(pid: int) -> int:
    """The number of the clock that shows the CPU time of a process (clock_getcpuclockid of Linux), for `time.clock_gettime`."""
    return ~pid << 3 | 2


def loop_cpu_ms(pid: int) -> float:
    """The CPU time of a process's main thread, which runs the loop, to the nanosecond (Linux)."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[0]) / 1e6


async def connected(host: str, port: int, tls: ssl.SSLContext | None = None) -> Client:
    """A connection whose responses are decoded."""
    return await connect(host, port, CLIENT_ID.decode(), tls=tls, asks_versions=False)


def tls_context(certificate: str) -> ssl.SSLContext | None:
    """Trusts this certificate; None for none."""
    return ssl.create_default_context(cafile=certificate) if certificate else None


async def wait_until_serving(host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
    """Waits until the server serves groups. Kafka creates and loads their log first."""
    group = f"bench-{uuid4()}"
    beat = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
    deadline = time.monotonic() + SERVING_WITHIN_S
    while True:
        client = await connected(host, port, tls)
        await client.send(FindCoordinatorRequest(key=group, key_type=0), 2)
        error = (await client.send(beat, 4)).error_code
        client.close()
        if error not in NOT_SERVING:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: the server does not serve groups after {SERVING_WITHIN_S:g} s: error {error}")
        await asyncio.sleep(0.1)


async def member_frames(plan: Plan, index: int, tls: ssl.SSLContext | None = None) -> list[bytes]:
    """Forms a group of one member. Returns the frames that the member sends in turn; its commits differ in offsets."""
    group, member, generation = f"bench-{RUN_ID}-{index}", "m" * 42, 1
    if plan.joins:
        client = await connected(plan.host, plan.port, tls)
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\0\xff\xff\xff\xff")
        join = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=300_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        join.member_id = (await client.send(join, 9)).member_id
        joined = await client.send(join, 9)
        member, generation = joined.member_id, joined.generation_id
        assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=b"")
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[assignment],
        )
        synced = await client.send(sync, 5)
        if synced.error_code:
            raise SystemExit(f"load: group {group} did not form: SyncGroup returned error {synced.error_code}")
    if plan.request == "heartbeat":
        beat = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
        if plan.joins:
            first = await client.send(beat, 4)
            if first.error_code:
                raise SystemExit(f"load: Heartbeat returned error {first.error_code}")
            client.close()
        return [request_frame(beat, 4, 7, CLIENT_ID)]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(
        name=TOPIC,
        partitions=[
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=p, committed_offset=1_000 + p, committed_metadata=""
            )
            for p in range(plan.partitions)
        ],
    )
    commit = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=generation, member_id=member, topics=[topic]
    )
    if plan.joins:
        found = await client.send(commit, 8)
        if any(p.error_code for t in found.topics for p in t.partitions):
            raise SystemExit(f"load: OffsetCommit returned {found}")
        client.close()
    frames = []
    for correlation_id in range(COMMITS):
        for partition in topic.partitions:
            partition.committed_offset += 1 + index
        frames.append(request_frame(commit, 8, correlation_id, CLIENT_ID))
    return frames


async def consumer_member_frames(plan: Plan, tls: ssl.SSLContext | None) -> list[bytes]:
    """The same with the consumer protocol. The member owns the whole topic, and its heartbeat reports no change."""
    member = str(uuid4())
    beat = ConsumerGroupHeartbeatRequest(group_id=f"bench-{member}", member_id=member, member_epoch=1)
    if plan.joins:
        client = await connected(plan.host, plan.port, tls)
        join = ConsumerGroupHeartbeatRequest(
            group_id=beat.group_id,
            member_id=member,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )
        deadline = time.monotonic() + SERVING_WITHIN_S
        joined = await client.send(join, 1)
        while not (joined.error_code or (joined.assignment and joined.assignment.topic_partitions)):
            if time.monotonic() > deadline:
                raise SystemExit(f"load: the member has no partitions: {joined}")
            # Kafka's coordinator sees a new topic a little later.
            await asyncio.sleep(0.2)
            beat.member_epoch = joined.member_epoch
            joined = await client.send(beat, 1)
        beat.member_epoch = joined.member_epoch
        second = await client.send(beat, 1)
        if joined.error_code or second.error_code or second.assignment:
            raise SystemExit(f"load: the member is not stable: {joined}, then {second}")
        client.close()
    return [request_frame(beat, 1, 7, CLIENT_ID)]


class LoadConnection(asyncio.Protocol):
    """A connection that sends these requests in turn, over and over.

    In a closed loop, `in_flight` requests are in progress, and each response triggers a request. At a fixed rate
    (`in_flight` 0), each call of `ask` sends one.
    """

    def __init__(self, requests: Sequence[bytes], in_flight: int) -> None:
        self.answers = 0
        self.answer_bytes = 0
        self.latencies_s: list[float] = []
        """At a fixed rate: the latency of each request."""
        self._requests = requests
        self._turn = 0
        self._in_flight = in_flight
        self._asked_s = 0.0
        self._responses = Splitter()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it

    def begin(self) -> None:
        self._send(self._in_flight)

    def ask(self) -> None:
        """Sends a request, unless the previous one has no response yet."""
        if not self._asked_s:
            self._asked_s = time.perf_counter()
            self._send(1)

    def _send(self, count: int) -> None:
        assert self._transport is not None
        if len(self._requests) == 1:
            self._transport.write(self._requests[0] * count)
            return
        for _ in range(count):
            self._transport.write(self._requests[self._turn])
            self._turn = (self._turn + 1) % len(self._requests)

    def data_received(self, data: bytes) -> None:
        count = 0
        for response in self._responses.split(data):
            self.answer_bytes = sum(map(len, response))
            count += 1
        if not count:
            return
        self.answers += count
        if self._in_flight:
            self._send(count)
        else:
            self.latencies_s.append(time.perf_counter() - self._asked_s)
            self._asked_s = 0.0

    def stop(self) -> None:
        """Closes. A request that has no response yet counts with the time for which it has waited."""
        assert self._transport is not None
        self._transport.abort()
        if self._asked_s:
            self.latencies_s.append(time.perf_counter() - self._asked_s)


async def send_at_rate(connections: Sequence[LoadConnection], rate: int) -> None:
    """Lets each connection send at its own regular times, like independent clients. It runs until it is cancelled."""
    period_s = len(connections) / rate
    random = Random(0)  # noqa: S311 - the same load each time
    now = time.perf_counter()
    due = [(now + random.random() * period_s, index) for index in range(len(connections))]
    heapify(due)
    while True:
        now = time.perf_counter()
        while due[0][0] <= now:
            at, index = due[0]
            connections[index].ask()
            heapreplace(due, (at + period_s, index))
        await asyncio.sleep(PACE_S)


async def measure(
    connections: Sequence[LoadConnection], server_pid: int, warm_up_s: float, seconds: float, rate: int
) -> Outcome:
    """Runs the load, measures the server, and closes the connections."""
    sender = asyncio.ensure_future(send_at_rate(connections, rate)) if rate else None
    if sender is None:
        for connection in connections:
            connection.begin()
    await asyncio.sleep(warm_up_s)
    for connection in connections:
        connection.latencies_s.clear()
    answers, cpu, began = sum(each.answers for each in connections), cpu_seconds(server_pid), time.perf_counter()
    await asyncio.sleep(seconds)
    lasted_s, spent_s = time.perf_counter() - began, cpu_seconds(server_pid) - cpu
    answers = sum(each.answers for each in connections) - answers
    if sender is not None:
        sender.cancel()
    for connection in connections:
        connection.stop()
    latencies_s = sorted(latency_s for connection in connections for latency_s in connection.latencies_s) or [0.0]
    p50_us, p99_us = (latencies_s[len(latencies_s) * percent // 100] * 1e6 for percent in (50, 99))
    return Outcome(answers, lasted_s, spent_s, connections[0].answer_bytes, p99_us, p50_us)


async def run(plan: Plan) -> Outcome:
    """Joins the members, warms up and measures."""
    tls = tls_context(plan.certificate)
    if plan.joins:
        await wait_until_serving(plan.host, plan.port, tls)
    if plan.joins and plan.request != "heartbeat":
        client = await connected(plan.host, plan.port, tls)
        topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        await client.send(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 7)
        client.close()
    joining = asyncio.Semaphore(JOINING_MAX)

    async def loaded(index: int) -> LoadConnection:
        is_consumer = plan.request == "consumer heartbeat"
        async with joining:
            requests = await (consumer_member_frames(plan, tls) if is_consumer else member_frames(plan, index, tls))
        make = partial(LoadConnection, requests, 0 if plan.rate else plan.in_flight)
        return (await asyncio.get_running_loop().create_connection(make, plan.host, plan.port, ssl=tls))[1]

    connections = await asyncio.gather(*map(loaded, range(plan.connections)))
    return await measure(connections, plan.server_pid, plan.warm_up_s, plan.seconds, plan.rate)


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(run(Plan(**json.loads(sys.argv[1])))))))  # noqa: T201
