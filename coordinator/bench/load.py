"""The load generator: many connections, each a member of its own group, each asking again when it is answered.

    python -m coordinator.bench.load PLAN      PLAN is JSON (`Plan`); prints one JSON line (`Outcome`)

Against the echo the same frames are sent, without first joining: it answers anything.
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, cast
from uuid import uuid4

import uvloop

from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    CreateTopicsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    Message,
    OffsetCommitRequest,
    SyncGroupRequest,
)

TOPIC = "bench"
PARTITIONS = 16


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


@dataclass(frozen=True, slots=True)
class Outcome:
    """Answers in the measured span, the server's CPU in it, and the size of one answer (bytes, with its length).

    Every member's first answer was decoded and says NONE; the others are counted, not read."""

    answers: int
    seconds: float
    server_cpu_s: float
    answer_bytes: int


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


async def member_frame(plan: Plan, codec: Codec, index: int) -> bytes:
    """Forms a group of one member and returns the request frame it then repeats."""
    group, member, generation = f"bench-{index}", "m" * 42, 1
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
        return frame(codec, "HeartbeatRequest", 4, 7, beat)
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
    return frame(codec, "OffsetCommitRequest", 8, 7, commit)


async def consumer_member_frame(plan: Plan, codec: Codec) -> bytes:
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
        joined = await ask(codec, reader, writer, "ConsumerGroupHeartbeat", 1, join)
        beat.member_epoch = joined.member_epoch
        steady = await ask(codec, reader, writer, "ConsumerGroupHeartbeat", 1, beat)
        if joined.error_code or steady.error_code or not joined.assignment.topic_partitions or steady.assignment:
            raise SystemExit(f"load: the member is not steady: {joined}, then {steady}")
        writer.close()
    return frame(codec, "ConsumerGroupHeartbeatRequest", 1, 7, beat)


class Member(asyncio.Protocol):
    """One connection in a closed loop: `in_flight` requests outstanding, one more for each answer."""

    def __init__(self, request: bytes, in_flight: int) -> None:
        self.answers = 0
        self.answer_bytes = 0
        self._request = request
        self._in_flight = in_flight
        self._left = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by descent

    def begin(self) -> None:
        assert self._transport is not None
        self._transport.write(self._request * self._in_flight)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
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
        if count:
            self.answers += count
            self._transport.write(self._request * count)

    def stop(self) -> None:
        assert self._transport is not None
        self._transport.abort()


async def run(plan: Plan) -> Outcome:
    """Joins, warms up, measures."""
    codec = Codec.of(None)
    if plan.joins and plan.request != "heartbeat":
        reader, writer = await asyncio.open_connection(plan.host, plan.port)
        topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        await ask(codec, reader, writer, "CreateTopics", 7, CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
        writer.close()
    loop = asyncio.get_running_loop()
    members = []
    for index in range(plan.connections):
        is_consumer = plan.request == "consumer heartbeat"
        request = await (consumer_member_frame(plan, codec) if is_consumer else member_frame(plan, codec, index))
        _, member = await loop.create_connection(partial(Member, request, plan.in_flight), plan.host, plan.port)
        members.append(member)
    for member in members:
        member.begin()
    await asyncio.sleep(plan.warm_up_s)
    answers, cpu, began = sum(m.answers for m in members), cpu_seconds(plan.server_pid), time.perf_counter()
    await asyncio.sleep(plan.seconds)
    seconds = time.perf_counter() - began
    spent = cpu_seconds(plan.server_pid) - cpu
    answers = sum(m.answers for m in members) - answers
    for member in members:
        member.stop()
    return Outcome(answers, seconds, spent, members[0].answer_bytes)


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(run(Plan(**json.loads(sys.argv[1])))))))  # noqa: T201
