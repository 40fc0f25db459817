"""A classic rebalance, in server CPU: a group forms, one member joins, one leaves.

    python -m coordinator.bench.rebalance HOST PORT SERVER_PID MEMBERS      prints one JSON line (`Rebalances`)

Each member has a connection of its own and only follows the protocol: it joins, the leader assigns, all sync; when a
heartbeat says so, it joins again. Nobody heartbeats in between, so the figure is the cost of the rebalance alone.
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass

import uvloop

from coordinator.bench.load import RUN, ask, cpu_seconds, serving
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)

SUBSCRIPTION = b"\0\1\0\0\0\1\0\5bench\xff\xff\xff\xff\0\0\0\0"
ASSIGNMENT = b"\0\1\0\0\0\1\0\5bench\0\0\0\1\0\0\0\0\xff\xff\xff\xff"
GROUP = f"bench-rebalance-{RUN}"
MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS = 79, 27
SETTLE_S = 0.05
"""Time for a newcomer's join to be parked before the others are asked to heartbeat."""


@dataclass(frozen=True, slots=True)
class Rebalances:
    """Server CPU in milliseconds of each step."""

    members: int
    form_ms: float
    form_wall_ms: float
    """Of it, by the clock; a delay that the server waits for more members is part of it."""
    joins_ms: float
    leaves_ms: float


class Member:
    """One member of the one group."""

    def __init__(self, codec: Codec, host: str, port: int) -> None:
        self.member_id = ""
        self.generation = -1
        self._codec = codec
        self._host = host
        self._port = port

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=1 << 24)

    async def join(self) -> None:
        """Until it is in a generation and has its assignment."""
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)
        while True:
            request = JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=300_000,
                rebalance_timeout_ms=300_000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[protocol],
            )
            joined = await ask(self._codec, self._reader, self._writer, "JoinGroup", 9, request)
            self.member_id = joined.member_id
            if joined.error_code == MEMBER_ID_REQUIRED:
                continue
            if joined.error_code:
                raise SystemExit(f"rebalance: a join was answered with error {joined.error_code}")
            if await self._sync(joined):
                return

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        self.generation = joined.generation_id
        assign = SyncGroupRequest.SyncGroupRequestAssignment
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[assign(member_id=m.member_id, assignment=ASSIGNMENT) for m in joined.members],
        )
        synced = await ask(self._codec, self._reader, self._writer, "SyncGroup", 5, request)
        return not synced.error_code

    async def heed(self) -> None:
        """Heartbeats, and joins again if it is told to."""
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        answer = await ask(self._codec, self._reader, self._writer, "Heartbeat", 4, request)
        if answer.error_code == REBALANCE_IN_PROGRESS:
            await self.join()

    async def leave(self) -> None:
        member = LeaveGroupRequest.MemberIdentity(member_id=self.member_id, group_instance_id=None)
        request = LeaveGroupRequest(group_id=GROUP, members=[member])
        await ask(self._codec, self._reader, self._writer, "LeaveGroup", 5, request)


async def run(host: str, port: int, server_pid: int, count: int) -> Rebalances:
    """Forms a group of `count`, adds one, takes one away."""
    await serving(host, port)
    codec = Codec.of(None)
    members = [Member(codec, host, port) for _ in range(count)]
    newcomer = Member(codec, host, port)
    for member in [*members, newcomer]:
        await member.connect()

    before, began = cpu_seconds(server_pid), time.perf_counter()
    await asyncio.gather(*(member.join() for member in members))
    formed, form_wall_s = cpu_seconds(server_pid), time.perf_counter() - began

    joining = asyncio.ensure_future(newcomer.join())
    await asyncio.sleep(SETTLE_S)
    await asyncio.gather(*(member.heed() for member in members))
    await joining
    joined = cpu_seconds(server_pid)

    await newcomer.leave()
    await asyncio.gather(*(member.heed() for member in members))
    left = cpu_seconds(server_pid)
    return Rebalances(count, (formed - before) * 1e3, form_wall_s * 1e3, (joined - formed) * 1e3, (left - joined) * 1e3)


if __name__ == "__main__":
    _, host_, port_, pid_, count_ = sys.argv
    print(json.dumps(asdict(uvloop.run(run(host_, int(port_), int(pid_), int(count_))))))  # noqa: T201
