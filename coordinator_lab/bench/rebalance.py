"""The server CPU of classic rebalances: a group forms, one member joins, one member leaves.

    python -m coordinator_lab.bench.rebalance HOST PORT SERVER_PID MEMBERS ASSIGNOR      prints one JSON line (`Rebalances`)

Each member has its own connection and follows the protocol: it joins, the leader assigns ten partitions to each, all members
sync, and a member rejoins if the response to a heartbeat says so. With the assignor `cooperative-sticky` members claim what
they own. There are no other heartbeats, so the result is the cost of the rebalance only.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import uvloop

from coordinator.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from coordinator.protocol.subscription import (
    NO_GENERATION,
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
    parse_assignment,
)
from coordinator_lab.bench.load import RUN_ID, connected, cpu_seconds, wait_until_serving

RANGE, COOPERATIVE = "range", "cooperative-sticky"
TOPIC = "bench"
PARTITIONS_EACH = 10
GROUP = f"bench-rebalance-{RUN_ID}"
MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 79, 25, 27
POLL_S = 0.02
"""How often a member asks whether the request of a new one has arrived, which calls all members to rejoin."""
HEARTBEAT_S = 1.0
"""How long members wait for others before they send heartbeats."""


@dataclass(frozen=True, slots=True)
class Rebalances:
    """The CPU time of the server in milliseconds for each step."""

    members: int
    form_ms: float
    form_wall_ms: float
    """The wall-clock time of the first step, including the initial rebalance delay."""
    joins_ms: float
    leaves_ms: float


class Member:
    """A member of the group."""

    def __init__(self, host: str, port: int, assignor: str, group_id: str = GROUP) -> None:
        self.group_id = group_id
        self.member_id = ""
        self.generation = NO_GENERATION
        self.owned: TopicPartitions = {}
        """What it claims: always nothing with an eager assignor."""
        self._assignor = assignor
        self._host = host
        self._port = port

    async def connect(self) -> None:
        self._client = await connected(self._host, self._port)

    async def join(self) -> None:
        """Joins and syncs until the member has an assignment."""
        while True:
            generation = self.generation if self.owned else NO_GENERATION
            metadata = encode_subscription(Subscription((TOPIC,), None, self.owned, generation, None, 3))
            protocol = JoinGroupRequest.JoinGroupRequestProtocol(name=self._assignor, metadata=metadata)
            request = JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=300_000,
                rebalance_timeout_ms=300_000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[protocol],
            )
            joined = await self._client.send(request, 9)
            self.member_id = joined.member_id
            if joined.error_code == MEMBER_ID_REQUIRED:
                continue
            if joined.error_code == UNKNOWN_MEMBER_ID:
                # The expiry of offsets has deleted the group: a pending member does not keep it.
                self.member_id = ""
                continue
            if joined.error_code:
                raise SystemExit(f"rebalance: JoinGroup returned error {joined.error_code}")
            if await self._sync(joined):
                return

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        self.generation = joined.generation_id
        assign = SyncGroupRequest.SyncGroupRequestAssignment
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name=self._assignor,
            assignments=[
                assign(member_id=each.member_id, assignment=_assignment(i)) for i, each in enumerate(joined.members)
            ],
        )
        synced = await self._client.send(request, 5)
        if self._assignor == COOPERATIVE and not synced.error_code:
            self.owned = parse_assignment(synced.assignment).partitions
        return not synced.error_code

    async def is_called(self) -> bool:
        """Sends a heartbeat. Returns whether the response says that the member has to rejoin."""
        request = HeartbeatRequest(group_id=self.group_id, generation_id=self.generation, member_id=self.member_id)
        answer = await self._client.send(request, 4)
        return bool(answer.error_code == REBALANCE_IN_PROGRESS)

    async def heartbeat(self) -> None:
        """Sends a heartbeat, and rejoins if the response says so."""
        if await self.is_called():
            await self.join()

    def close(self) -> None:
        self._client.close()

    async def leave(self) -> None:
        member = LeaveGroupRequest.MemberIdentity(member_id=self.member_id, group_instance_id=None)
        request = LeaveGroupRequest(group_id=self.group_id, members=[member])
        await self._client.send(request, 5)


def _assignment(place: int) -> bytes:
    """Of the member at this place in the group, so that it keeps its partitions while later members come and go."""
    first = place * PARTITIONS_EACH
    return encode_assignment(Assignment({TOPIC: tuple(range(first, first + PARTITIONS_EACH))}, None, 3))


async def _form(members: Sequence[Member]) -> None:
    """Lets all members join. A generation that has formed without some of them calls its members again."""
    joins = {member: asyncio.ensure_future(member.join()) for member in members}
    while (await asyncio.wait(joins.values(), timeout=HEARTBEAT_S))[1]:
        for member, join in joins.items():
            if join.done():
                join.result()
                joins[member] = asyncio.ensure_future(member.heartbeat())
    for join in joins.values():
        join.result()


async def run(host: str, port: int, server_pid: int, count: int, assignor: str) -> Rebalances:
    """Measures how a group of `count` members forms, how one joins and how one leaves."""
    await wait_until_serving(host, port)
    members = [Member(host, port, assignor) for _ in range(count)]
    new_member = Member(host, port, assignor)
    for member in [*members, new_member]:
        await member.connect()

    before, began = cpu_seconds(server_pid), time.perf_counter()
    await _form(members)
    formed, form_wall_s = cpu_seconds(server_pid), time.perf_counter() - began

    joining = asyncio.ensure_future(new_member.join())
    while not await members[0].is_called():  # noqa: ASYNC110 - another member's request is on its way
        await asyncio.sleep(POLL_S)
    await asyncio.gather(*(member.heartbeat() for member in members))
    await joining
    joined = cpu_seconds(server_pid)

    await new_member.leave()
    await asyncio.gather(*(member.heartbeat() for member in members))
    left = cpu_seconds(server_pid)
    return Rebalances(count, (formed - before) * 1e3, form_wall_s * 1e3, (joined - formed) * 1e3, (left - joined) * 1e3)


if __name__ == "__main__":
    _, host_, port_, pid_, count_, assignor_ = sys.argv
    print(json.dumps(asdict(uvloop.run(run(host_, int(port_), int(pid_), int(count_), assignor_)))))  # noqa: T201
