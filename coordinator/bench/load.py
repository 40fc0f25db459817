"""The load generator: many connections, each a member of its own group, each asking again when it is answered, or at its pace.

    python -m coordinator.bench.load PLAN      PLAN is JSON (`Plan`); prints one JSON line (`Outcome`)

Against the echo the same frames are sent, without first joining: it answers anything.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from heapq import heapify, heapreplace
from random import Random
from typing import Any, cast
from uuid import uuid4

import uvloop

from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    CreateTopicsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    Message,
    OffsetCommitRequest,
    SyncGroupRequest,
)

TOPIC = "bench"
PARTITIONS = 16
COMMITS = 8
"""Different ones of a member, which it sends in turn."""
RUN = uuid4().hex[:8]
"""In the names of groups: a server that is measured again has members of the last run that it waits for."""
SERVING_WITHIN_S = 60.0
NOT_SERVING = {14, 15, 16}
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""
PACE_S = 0.0005
"""How often a pace is looked at; the loop's own timers are no finer than a millisecond."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One measurement. `request` is "heartbeat", "consumer heartbeat" or "commit"; `partitions` counts those of one commit."""

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
    """False against the echo."""
    rate: int = 0
    """Requests per second of all connections together, each at its own regular instants; 0: each asks when it is answered."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Answers in the measured span, the server's CPU in it, and the size of one answer (bytes, with its length).

    Every member's first answer was decoded and says NONE; the others are counted, not read."""

    answers: int
    seconds: float
    server_cpu_s: float
    answer_bytes: int
    p99_us: float
    """From request to answer, as the load generator sees it; 0 where the load has no pace."""


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, from /proc (Linux)."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def frame(codec: Codec, name: str, version: int, correlation_id: int, message: Message) -> bytes:
    """A request frame with its size."""
    key = type(message).API_KEY
    assert key is not None
    client = b"bench"
    header = key.to_bytes(2, "big") + version.to_bytes(2, "big") + correlation_id.to_bytes(4, "big")
    header += len(client).to_bytes(2, "big") + client
    if codec.is_flexible(name, version):
        header += b"\0"
    body = header + codec.encoder(name, version)(message)
    return len(body).to_bytes(4, "big") + body


async def ask(
    codec: Codec, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str, version: int, message: Message
) -> Any:
    """One request and its decoded answer."""
    writer.write(frame(codec, f"{name}Request", version, 1, message))
    size = int.from_bytes(await reader.readexactly(4), "big")
    answer = await reader.readexactly(size)
    position = 5 if codec.is_flexible(f"{name}Response", version) else 4
    return codec.decoder(f"{name}Response", version)(answer, position)[0]


async def serving(host: str, port: int) -> None:
    """Returns when the server answers for groups: a Kafka that has just begun makes and loads their log first."""
    codec, group = Codec.of(None), f"bench-{uuid4()}"
    beat = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
    deadline = time.monotonic() + SERVING_WITHIN_S
    while True:
        reader, writer = await asyncio.open_connection(host, port)
        await ask(codec, reader, writer, "FindCoordinator", 2, FindCoordinatorRequest(key=group, key_type=0))
        error = (await ask(codec, reader, writer, "Heartbeat", 4, beat)).error_code
        writer.close()
        if error not in NOT_SERVING:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: no groups are served: error {error} after {SERVING_WITHIN_S:g} s")
        await asyncio.sleep(0.1)


async def member_frames(plan: Plan, codec: Codec, index: int) -> list[bytes]:
    """Forms a group of one member and returns the request frames that it sends in turn: its commits are of other offsets."""
    group, member, generation = f"bench-{RUN}-{index}", "m" * 42, 1
    if plan.joins:
        reader, writer = await asyncio.open_connection(plan.host, plan.port)
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\0\xff\xff\xff\xff")
        join = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=300_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        join.member_id = (await ask(codec, reader, writer, "JoinGroup", 9, join)).member_id
        joined = await ask(codec, reader, writer, "JoinGroup", 9, join)
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
        synced = await ask(codec, reader, writer, "SyncGroup", 5, sync)
        if synced.error_code:
            raise SystemExit(f"load: group {group} did not form: error {synced.error_code}")
    if plan.request == "heartbeat":
        beat = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
        if plan.joins:
            first = await ask(codec, reader, writer, "Heartbeat", 4, beat)
            if first.error_code:
                raise SystemExit(f"load: heartbeat answered error {first.error_code}")
            writer.close()
        return [frame(codec, "HeartbeatRequest", 4, 7, beat)]
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
        first = await ask(codec, reader, writer, "OffsetCommit", 8, commit)
        if any(p.error_code for t in first.topics for p in t.partitions):
            raise SystemExit(f"load: commit answered {first}")
        writer.close()
    frames = []
    for correlation_id in range(COMMITS):
        for partition in topic.partitions:
            partition.committed_offset += 1 + index
        frames.append(frame(codec, "OffsetCommitRequest", 8, correlation_id, commit))
    return frames


async def consumer_member_frames(plan: Plan, codec: Codec) -> list[bytes]:
    """The same with the consumer protocol: the one member owns the whole topic and has nothing to tell."""
    member = str(uuid4())
    beat = ConsumerGroupHeartbeatRequest(group_id=f"bench-{member}", member_id=member, member_epoch=1)
    if plan.joins:
        reader, writer = await asyncio.open_connection(plan.host, plan.port)
        join = ConsumerGroupHeartbeatRequest(
            group_id=beat.group_id,
            member_id=member,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )
        deadline = time.monotonic() + SERVING_WITHIN_S
        joined = await ask(codec, reader, writer, "ConsumerGroupHeartbeat", 1, join)
        while not (joined.error_code or (joined.assignment and joined.assignment.topic_partitions)):
            if time.monotonic() > deadline:
                raise SystemExit(f"load: the member is given nothing: {joined}")
            # A Kafka that has just made the topic hears of it a little later.
            await asyncio.sleep(0.2)
            beat.member_epoch = joined.member_epoch
            joined = await ask(codec, reader, writer, "ConsumerGroupHeartbeat", 1, beat)
        beat.member_epoch = joined.member_epoch
        steady = await ask(codec, reader, writer, "ConsumerGroupHeartbeat", 1, beat)
        if joined.error_code or steady.error_code or steady.assignment:
            raise SystemExit(f"load: the member is not steady: {joined}, then {steady}")
        writer.close()
    return [frame(codec, "ConsumerGroupHeartbeatRequest", 1, 7, beat)]


class Member(asyncio.Protocol):
    """One connection. In a closed loop `in_flight` requests are outstanding, one more for each answer; at a pace (0) one
    for each `ask`. The requests are sent in turn, over and over."""

    def __init__(self, requests: Sequence[bytes], in_flight: int) -> None:
        self.answers = 0
        self.answer_bytes = 0
        self.took_s: list[float] = []
        """At a pace: from each request to its answer."""
        self._requests = requests
        self._turn = 0
        self._in_flight = in_flight
        self._asked_s = 0.0
        self._left = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by descent

    def begin(self) -> None:
        self._send(self._in_flight)

    def ask(self) -> None:
        """One request, unless the last one has no answer yet."""
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
        if self._left:
            data = self._left + data
        position, count, length = 0, 0, len(data)
        while length - position >= 4:
            size = 4 + int.from_bytes(data[position : position + 4], "big")
            if position + size > length:
                break
            self.answer_bytes = size
            position += size
            count += 1
        self._left = data[position:]
        if not count:
            return
        self.answers += count
        if self._in_flight:
            self._send(count)
        else:
            self.took_s.append(time.perf_counter() - self._asked_s)
            self._asked_s = 0.0

    def stop(self) -> None:
        assert self._transport is not None
        self._transport.abort()


async def pace(members: Sequence[Member], rate: int) -> None:
    """Lets each member ask at regular instants of its own, as clients do that know nothing of each other. Does not end."""
    period_s = len(members) / rate
    chance = Random(0)  # noqa: S311 - the same load each time
    now = time.perf_counter()
    due = [(now + chance.random() * period_s, index) for index in range(len(members))]
    heapify(due)
    while True:
        now = time.perf_counter()
        while due[0][0] <= now:
            at, index = due[0]
            members[index].ask()
            heapreplace(due, (at + period_s, index))
        await asyncio.sleep(PACE_S)


async def measure(members: Sequence[Member], server_pid: int, warm_up_s: float, seconds: float, rate: int) -> Outcome:
    """What the connected members do to the server; they are disconnected then."""
    pacer = asyncio.ensure_future(pace(members, rate)) if rate else None
    if pacer is None:
        for member in members:
            member.begin()
    await asyncio.sleep(warm_up_s)
    for member in members:
        member.took_s.clear()
    answers, cpu, began = sum(m.answers for m in members), cpu_seconds(server_pid), time.perf_counter()
    await asyncio.sleep(seconds)
    lasted_s, spent_s = time.perf_counter() - began, cpu_seconds(server_pid) - cpu
    answers = sum(m.answers for m in members) - answers
    if pacer is not None:
        pacer.cancel()
    for member in members:
        member.stop()
    took = sorted(seconds for member in members for seconds in member.took_s)
    p99_us = took[len(took) * 99 // 100] * 1e6 if took else 0.0
    return Outcome(answers, lasted_s, spent_s, members[0].answer_bytes, p99_us)


async def run(plan: Plan) -> Outcome:
    """Joins, warms up, measures."""
    codec = Codec.of(None)
    if plan.joins:
        await serving(plan.host, plan.port)
    if plan.joins and plan.request != "heartbeat":
        reader, writer = await asyncio.open_connection(plan.host, plan.port)
        topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        await ask(codec, reader, writer, "CreateTopics", 7, CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
        writer.close()
    loop = asyncio.get_running_loop()
    members = []
    for index in range(plan.connections):
        is_consumer = plan.request == "consumer heartbeat"
        requests = await (consumer_member_frames(plan, codec) if is_consumer else member_frames(plan, codec, index))
        make = partial(Member, requests, 0 if plan.rate else plan.in_flight)
        _, member = await loop.create_connection(make, plan.host, plan.port)
        members.append(member)
    return await measure(members, plan.server_pid, plan.warm_up_s, plan.seconds, plan.rate)


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(run(Plan(**json.loads(sys.argv[1])))))))  # noqa: T201
