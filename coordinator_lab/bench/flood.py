"""Heartbeats of well-behaved members beside clients that send as much as they can.

    python -m coordinator_lab.bench.flood PLAN        PLAN is JSON (`FloodPlan`); prints one JSON line (`Outcome` of load.py)
    python -m coordinator_lab.bench.flood PLAN flood  sends the flood until it is killed

A hundred members, each of a group of its own, send five heartbeats a second each. The flood comes from another process, which
keeps the sockets of its connections full of requests and discards the responses.
"""

import asyncio
import json
import math
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import NamedTuple, cast

import uvloop

from coordinator.client.conversation import request_frame
from coordinator.log.batch_builder import BatchBuilder
from coordinator.protocol.messages import (
    CreateTopicsRequest,
    JoinGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
)
from coordinator_lab.bench import data
from coordinator_lab.bench.load import (
    CLIENT_ID,
    RUN_ID,
    LoadConnection,
    Outcome,
    Plan,
    connected,
    cpu_clock,
    measure,
    member_frames,
)
from coordinator_lab.bench.programs import Contender, Target, run_program, spread

MEMBERS = 100
HEARTBEATS_PER_S = 500
FLOOD_BYTES = 64 * 1024
"""The requests that a connection of the flood sends in one write."""
SETTLE_S = 1.0
WIDE_TOPIC, WIDE_PARTITIONS = "bench-wide", 5_000
RECORDS = 90_000
"""Those of the batch in which the flood of timestamps lets the server search."""
KINDS = ("heartbeat", "commit", "join", "metadata", "fetch", "timestamp")
FLOODS = ((1, 0), (200, 0), (200, 1))
"""Connections, and the requests in progress on each (`FloodPlan.in_flight`)."""


@dataclass(frozen=True, slots=True)
class FloodPlan:
    """A measurement. `request`: the kind of the flood's requests, one of `KINDS`, or "nothing"."""

    host: str
    port: int
    server_pid: int
    request: str
    connections: int
    in_flight: int
    """Requests of a connection that are in progress; 0: as many as its socket holds."""
    seconds: float


class FloodConnection(asyncio.Protocol):
    """A connection that sends these requests over and over, as fast as the server reads them."""

    def __init__(self, requests: bytes) -> None:
        self._requests = requests
        self._transport: asyncio.Transport | None = None
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        self._send()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._send()

    def _send(self) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.write(self._requests)
            if not self._is_full:
                asyncio.get_running_loop().call_soon(self._send)


async def _flood_frames(plan: FloodPlan, index: int) -> list[bytes]:
    """The requests that connection `index` of the flood sends in turn."""
    if plan.request == "metadata":
        topic = MetadataRequest.MetadataRequestTopic(name=WIDE_TOPIC)
        return [request_frame(MetadataRequest(topics=[topic]), 12, 7, CLIENT_ID)]
    if plan.request == "fetch":
        return [request_frame(data.fetch(index % data.PARTITIONS), 12, 7, CLIENT_ID)]
    if plan.request == "timestamp":
        place = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=1)
        named = ListOffsetsRequest.ListOffsetsTopic(name=data.TOPIC, partitions=[place])
        return [request_frame(ListOffsetsRequest(topics=[named]), 7, 7, CLIENT_ID)]
    if plan.request == "join":
        return await _join_frames(plan, index)
    member = Plan(plan.host, plan.port, plan.request, 1, 1, 1, 0, 0, plan.server_pid, joins=True)
    return await member_frames(member, index)


async def _join_frames(plan: FloodPlan, index: int) -> list[bytes]:
    """JoinGroup requests of one member, which changes its subscription each time, so that each makes a generation."""
    join = JoinGroupRequest(
        group_id=f"bench-{RUN_ID}-{index}",
        session_timeout_ms=300_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
    )
    subscriptions = b"\0\1\0\0\0\0\xff\xff\xff\xff", b"\0\1\0\0\0\1\0\5bench\xff\xff\xff\xff"
    client = await connected(plan.host, plan.port)
    frames = []
    for metadata in subscriptions:
        join.protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=metadata)]
        join.member_id = join.member_id or (await client.send(join, 9)).member_id
        frames.append(request_frame(join, 9, 7, CLIENT_ID))
    client.close()
    return frames


async def _prepare(plan: FloodPlan) -> None:
    """Creates the topics that the flood asks for."""
    if plan.request == "fetch":
        await data.prepare(data.DataPlan(plan.host, plan.port, "fetch", 1, 1, 0, 0, plan.server_pid))
    topics = {"metadata": (WIDE_TOPIC, WIDE_PARTITIONS), "commit": ("bench", 1), "timestamp": (data.TOPIC, 1)}
    if plan.request not in topics:
        return
    name, partitions = topics[plan.request]
    client = await connected(plan.host, plan.port)
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
    await client.send(request, 7)
    if plan.request == "timestamp":
        builder = BatchBuilder()
        for _ in range(RECORDS):
            builder.add(b"", b"")
        produced = await client.send(data.produce(0, builder.build(0, 1)), 9)
        if produced.responses[0].partition_responses[0].error_code:
            raise SystemExit(f"flood: Produce returned {produced}")
    client.close()


async def flood(plan: FloodPlan) -> None:
    """Prints a line when the flood begins."""
    loop = asyncio.get_running_loop()
    await _prepare(plan)
    requests = [await _flood_frames(plan, index) for index in range(plan.connections)]
    for each in requests:
        joined = b"".join(each)
        pipelined = partial(FloodConnection, joined * (FLOOD_BYTES // len(joined)))
        make = partial(LoadConnection, each, plan.in_flight) if plan.in_flight else pipelined
        _, connection = await loop.create_connection(make, plan.host, plan.port)
        if isinstance(connection, LoadConnection):
            connection.begin()
    print("flooding", flush=True)  # noqa: T201
    await asyncio.Event().wait()


class WatchedMember(LoadConnection):
    """A member that measures, beside the latency of its heartbeats, how much CPU time the server used meanwhile."""

    def __init__(self, requests: Sequence[bytes], server_pid: int) -> None:
        super().__init__(requests, 0)
        self.spent_s: list[float] = []
        self._clock = cpu_clock(server_pid)
        self._asked_cpu_s = 0.0

    def ask(self) -> None:
        if not self._asked_s:
            self._asked_cpu_s = time.clock_gettime(self._clock)
        super().ask()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._asked_s:
            self.spent_s.append(time.clock_gettime(self._clock) - self._asked_cpu_s)


async def watch(plan: FloodPlan) -> Outcome:
    """Lets the members join, starts the flood, and measures their heartbeats."""
    loop = asyncio.get_running_loop()
    member = Plan(plan.host, plan.port, "heartbeat", MEMBERS, 1, 0, 0, 0, plan.server_pid, joins=True)

    async def connected(index: int) -> WatchedMember:
        make = partial(WatchedMember, await member_frames(member, index), plan.server_pid)
        return (await loop.create_connection(make, plan.host, plan.port))[1]

    connections = await asyncio.gather(*map(connected, range(MEMBERS)))
    if plan.request == "nothing":
        return await _measure(plan, connections)
    arguments = ("-m", "coordinator_lab.bench.flood", json.dumps(asdict(plan)), "flood")
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        if not await process.stdout.readline():
            raise SystemExit("flood: it did not begin")
        return await _measure(plan, connections)
    finally:
        process.kill()
        await process.wait()


async def _measure(plan: FloodPlan, members: Sequence[WatchedMember]) -> Outcome:
    outcome = await measure(members, plan.server_pid, SETTLE_S, plan.seconds, HEARTBEATS_PER_S)
    # A heartbeat that was not answered has no CPU time.
    spent_s = sorted(spent_s for member in members for spent_s in member.spent_s[-len(member.latencies_s) :])
    return replace(outcome, p99_cpu_us=spent_s[len(spent_s) * 99 // 100] * 1e6 if spent_s else math.inf)


class _Found(NamedTuple):
    """The latencies of heartbeats, the responses of all kinds, and a bound of the turns' length."""

    p50_ms: float
    p99_ms: float
    p99_cpu_ms: float
    answers_per_s: float
    longest_turn_ms: str


def report_floods(match: str, servers: Sequence[Contender], seconds: float, repetitions: int) -> None:
    """Median and 99th percentile of a heartbeat beside each flood, and the longest turn of the event loop by CPU time.

    The third column is the CPU time that the server used while a heartbeat waited, which is as long on a busy machine.
    """
    rows = [
        (name, kind, connections, in_flight)
        for kind in ("nothing", *KINDS)
        for connections, in_flight in (FLOODS if kind != "nothing" else ((0, 0),))
        if match in (name := f"heartbeats beside a flood of {kind}{_described(connections, in_flight)}")
    ]
    if rows:
        head = ("median ms", "p99 ms", "p99 ms of CPU", "requests/s", "longest turn ms CPU")
        print(f"\n{f'{MEMBERS} members':58} " + " ".join(f"{title:>22}" for title in head))  # noqa: T201
    for name, kind, connections, in_flight in rows:
        for server in servers:
            runs = [_beside(server, kind, connections, in_flight, seconds) for _ in range(repetitions)]
            names = ("p50_ms", "p99_ms", "p99_cpu_ms", "answers_per_s")
            figures = [[getattr(run, each) for run in runs] for each in names]
            turns = " / ".join(sorted({run.longest_turn_ms for run in runs}))
            columns = [spread(figure) for figure in figures]
            print(f"{name + server.suffix:58} " + " ".join(f"{column:>22}" for column in [*columns, turns]), flush=True)  # noqa: T201


def _described(connections: int, in_flight: int) -> str:
    """A flood in the name of its row."""
    each = f", {in_flight} at a time" if in_flight else ""
    return f", {connections} connections{each}" if connections else ""


def _beside(server: Contender, kind: str, connections: int, in_flight: int, seconds: float) -> _Found:
    with server.start() as at:
        before = _answered(at)
        plan = FloodPlan(at.host, at.port, at.pid, kind, connections, in_flight, seconds)
        outcome = Outcome(**run_program("coordinator_lab.bench.flood", json.dumps(asdict(plan))))
        answered = (_answered(at) - before) / (outcome.seconds + SETTLE_S)
        return _Found(outcome.p50_us / 1e3, outcome.p99_us / 1e3, outcome.p99_cpu_us / 1e3, answered, _longest_turn(at))


def _metrics(at: Target) -> list[str]:
    if not at.admin:
        return []
    with urllib.request.urlopen(f"{at.admin}/metrics", timeout=600) as response:  # noqa: S310 - our own server
        return cast(str, response.read().decode()).splitlines()


def _answered(at: Target) -> float:
    """The responses so far, of all APIs."""
    return sum(float(line.rpartition(" ")[2]) for line in _metrics(at) if line.startswith("coordinator_requests_total"))


def _longest_turn(at: Target) -> str:
    """The bound (ms) of the histogram of turns under which all turns were."""
    buckets = [line for line in _metrics(at) if line.startswith("coordinator_loop_turn_cpu_seconds_bucket")]
    counts = [(line.split('"')[1], float(line.rpartition(" ")[2])) for line in buckets]
    bounds = [bound for bound, count in counts if count == counts[-1][1]]
    if not bounds:
        return "-"
    return "> 5000" if bounds[0] == "+Inf" else f"<= {float(bounds[0]) * 1000:g}"


if __name__ == "__main__":
    plan = FloodPlan(**json.loads(sys.argv[1]))
    if sys.argv[2:]:
        uvloop.run(flood(plan))
    else:
        print(json.dumps(asdict(uvloop.run(watch(plan)))))  # noqa: T201
