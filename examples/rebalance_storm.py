"""Records five minutes of a group in trouble, in seconds: `rebalance_storm.py FOLDER`.

A real server runs on simulated time, over a simulated network, and writes its logs to FOLDER/data. Six clients with 54 members
consume one topic as the group `orders`. Three of the clients are healthy. Of the others

    orders-gc     stops polling again and again: its whole process stands still for twelve seconds, longer than its session
    orders-spot   is killed half-way, and nobody starts it again
    orders-cron   joins and leaves, twice

FOLDER/truth.json says what was really done, and how long the group really rebalanced. Every run writes the same. Then ask:

    coordinator groups why orders --log FOLDER/data
"""

import asyncio
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

from coordinator.config.settings import AdminConfig, DeclaredTopic, ListenerConfig, LogConfig, ServerConfig
from coordinator.groups.settings import GroupsConfig
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    Message,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from coordinator.protocol.subscription import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
    parse_assignment,
)
from coordinator.server.composition import Server
from coordinator.world.disk import RealDisk
from coordinator_lab.simulation.clock import LoopClock
from coordinator_lab.simulation.entropy import SeededEntropy
from coordinator_lab.simulation.loop import SimulatedLoop
from coordinator_lab.simulation.network import End, NetworkConditions, SimulatedNetwork
from coordinator_lab.simulation.threads import SimulatedThreads
from coordinator_lab.simulation.wire import ClientProtocol

GROUP, TOPIC, PARTITIONS = "orders", "order-events", 108
ADDRESS = ("10.0.0.9", 9092)
SECONDS = 300
SESSION_S, REBALANCE_S, HEARTBEAT_S, COMMIT_S = 10, 60, 3, 5
STARTED_MS = 1_760_000_400_000
"""The wall clock at the beginning."""
SAMPLES_PER_S = 20
PAUSE_S = 12
PAUSES = tuple(range(24, 270, 24))
KILLED_AT_S = 131
CRON_RUNS = ((66, 72), (186, 192))
JOIN_AGAIN = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}


class JoinAgain(Exception):
    """The member has to join again."""


class Application:
    """A process with some members, all with its client id. It can stand still, and die."""

    def __init__(self, storm: "Storm", client_id: str, host: str, size: int, poll_s: float) -> None:
        self.storm = storm
        self.client_id = client_id
        self.host = host
        self.size = size
        self.poll_s = poll_s
        """How long it works on the records of one poll; it joins a rebalance only when it polls again."""
        self.runs = asyncio.Event()
        self.runs.set()
        self.members: list[Member] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.done: Counter[str] = Counter()
        """Whatever happened to its members, as they saw it."""

    def start(self) -> None:
        self.members = [Member(self, number) for number in range(self.size)]
        self.tasks = [self.storm.loop.create_task(member.run()) for member in self.members]

    async def pause(self, seconds: float) -> None:
        """Stands still, as in a long garbage collection: it neither polls nor sends heartbeats."""
        self.runs.clear()
        await asyncio.sleep(seconds)
        self.runs.set()

    def kill(self) -> None:
        """SIGKILL: the operating system closes the connections, and nobody leaves the group."""
        self.done["killed"] += len(self.members)
        self._end()

    async def leave(self) -> None:
        """Stops in an orderly way."""
        for member in self.members:
            await member.leave()
        self._end()

    def _end(self) -> None:
        for task in self.tasks:
            task.cancel()
        for member in self.members:
            member.end.abort()


class Member:
    """A consumer as Java's: a background heartbeat, and a poll that takes its time."""

    end: End
    protocol: ClientProtocol

    def __init__(self, application: Application, number: int) -> None:
        self.application = application
        self.random = Random(f"{application.client_id} {number}")
        self.member_id = ""
        self.generation = -1
        self.partitions: tuple[int, ...] = ()
        self.offset = 0
        self.must_join = False

    async def run(self) -> None:
        await asyncio.sleep(self.random.uniform(0, 1.5))
        storm, application = self.application.storm, self.application
        self.end, self.protocol = await storm.network.connect(
            lambda: ClientProtocol(application.client_id, storm.failed), *ADDRESS, application.host
        )
        while True:
            try:
                await self._join()
                await self._consume()
            except JoinAgain:
                await self._poll()

    async def _ask(self, request: Message, version: int) -> Any:
        """The response; a process that stands still neither sends nor receives."""
        await self.application.runs.wait()
        response = await self.protocol.send(request, version)
        await self.application.runs.wait()
        return response

    async def _poll(self) -> None:
        await asyncio.sleep(self.application.poll_s * self.random.uniform(0.2, 1))
        await self.application.runs.wait()

    def _check(self, code: int) -> None:
        error = ErrorCode(code)
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.application.done["expired"] += bool(self.member_id)
            self.member_id, self.generation = "", -1
        if error in JOIN_AGAIN:
            raise JoinAgain
        if error is not ErrorCode.NONE:
            self.application.storm.failed("unexpected", f"{self.application.client_id}: {error.name}")

    async def _join(self) -> None:
        response = await self._ask(self._join_request(), 9)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.application.done["joined"] += 1
            response = await self._ask(self._join_request(), 9)
        self._check(response.error_code)
        self.generation = response.generation_id
        leads = response.leader == response.member_id
        synced = await self._ask(self._sync_request(_assign(response) if leads else []), 5)
        self._check(synced.error_code)
        self.partitions = parse_assignment(synced.assignment).partitions.get(TOPIC, ())

    def _join_request(self) -> Message:
        metadata = encode_subscription(Subscription((TOPIC,), None, {}, -1, None, 3))
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_S * 1000,
            rebalance_timeout_ms=REBALANCE_S * 1000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol("range", metadata)],
        )

    def _sync_request(self, assignments: list[Any]) -> Message:
        return SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )

    async def _consume(self) -> None:
        """Polls and commits; heartbeats go on meanwhile, and the next poll acts on what they learned."""
        heartbeats = self.application.storm.loop.create_task(self._beat())
        self.application.tasks.append(heartbeats)
        committed_s = self.application.storm.loop.time()
        try:
            while True:
                await self._poll()
                if heartbeats.done():
                    heartbeats.result()
                if self.application.storm.loop.time() - committed_s > COMMIT_S and self.partitions:
                    committed_s = self.application.storm.loop.time()
                    self._check(await self._commit())
        finally:
            heartbeats.cancel()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            request = HeartbeatRequest(GROUP, self.generation, self.member_id, None)
            self._check((await self._ask(request, 4)).error_code)

    async def _commit(self) -> int:
        self.offset += self.random.randint(10, 50)
        partition = OffsetCommitRequest.OffsetCommitRequestPartition
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=TOPIC, partitions=[partition(index, self.offset, -1, "") for index in self.partitions]
                )
            ],
        )
        response = await self._ask(request, 8)
        code: int = response.topics[0].partitions[0].error_code
        if code:
            self.application.done["commits refused"] += 1
        return code

    async def leave(self) -> None:
        identity = LeaveGroupRequest.MemberIdentity(self.member_id, None, "the consumer is being closed")
        await self._ask(LeaveGroupRequest(group_id=GROUP, members=[identity]), 5)
        self.application.done["left"] += 1


def _assign(joined: JoinGroupResponse) -> list[Any]:
    """The partitions in turn over the members."""
    order = sorted(member.member_id for member in joined.members)
    parts = {each: tuple(range(place, PARTITIONS, len(order))) for place, each in enumerate(order)}
    assignment = SyncGroupRequest.SyncGroupRequestAssignment
    return [assignment(each, encode_assignment(Assignment({TOPIC: part}, None, 1))) for each, part in parts.items()]


class Storm:
    """The server, the applications, and what happens to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loop = SimulatedLoop(Random("loop"))
        self.network = SimulatedNetwork(self.loop, Random("network"), NetworkConditions(0.002, 0.0))
        self.loop.network = self.network
        self.clock = LoopClock(self.loop.time, STARTED_MS)
        self.rebalancing_samples = 0
        self.errors: list[str] = []

    def failed(self, what: str, detail: str) -> None:
        self.errors.append(f"{what}: {detail}")

    def record(self) -> dict[str, Any]:
        """Runs the five minutes; returns the truth."""
        self.loop.set_exception_handler(lambda _, context: self.failed("exception", str(context)))
        try:
            return self.loop.run_until_complete(self._run())
        finally:
            self.loop.close()

    async def serve(self) -> Server:
        """A server that has started."""
        entropy, worker = SeededEntropy(Random("ids")), SimulatedThreads(self.loop, Random("disk"), lambda: 0.001)
        server = Server(_config(self.folder / "data"), self.loop, self.clock, RealDisk(), entropy, worker)
        await server.start()
        return server

    async def _run(self) -> dict[str, Any]:
        server = await self.serve()
        sampling = self.loop.create_task(self._sample(server))
        applications = await self.happen()
        sampling.cancel()
        causes = dict(server.statistics.rebalances["classic"])
        for application in applications:
            for task in application.tasks:
                task.cancel()
        await server.stop()
        return self._truth(applications, causes)

    async def happen(self) -> tuple[Application, ...]:
        """The five minutes; returns the applications."""
        healthy = [
            Application(self, "orders-api", "10.0.1.1", 20, 0.5),
            Application(self, "orders-billing", "10.0.1.2", 12, 2.5),
            Application(self, "orders-search", "10.0.1.3", 8, 1.0),
        ]
        pausing = Application(self, "orders-gc", "10.0.2.1", 8, 0.5)
        killed = Application(self, "orders-spot", "10.0.2.2", 5, 0.5)
        visitor = Application(self, "orders-cron", "10.0.2.3", 1, 0.5)
        for application in (*healthy, pausing, killed):
            application.start()
        for at_s in PAUSES:
            self._at(at_s, lambda: pausing.pause(PAUSE_S))
        self.loop.call_at(KILLED_AT_S, killed.kill)
        for joins_s, leaves_s in CRON_RUNS:
            self.loop.call_at(joins_s, visitor.start)
            self._at(leaves_s, visitor.leave)
        await asyncio.sleep(SECONDS)
        return (*healthy, pausing, killed, visitor)

    def _at(self, at_s: float, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.loop.call_at(at_s, lambda: self.loop.create_task(action()))

    async def _sample(self, server: Server) -> None:
        """Looks at the group itself, which no event and no request can distort."""
        while True:
            await asyncio.sleep(1 / SAMPLES_PER_S)
            group = server.groups.shards[0].state.by_id.get(GROUP)
            self.rebalancing_samples += group is not None and group.is_rebalancing

    def _truth(self, applications: tuple[Application, ...], causes: dict[str, int]) -> dict[str, Any]:
        return {
            "group": GROUP,
            "started_ms": STARTED_MS,
            "seconds": SECONDS,
            "session_s": SESSION_S,
            "rebalancing_s": round(self.rebalancing_samples / SAMPLES_PER_S, 1),
            "rebalances_started": causes,
            "paused": {"client": "orders-gc", "at_s": PAUSES, "for_s": PAUSE_S},
            "killed": {"client": "orders-spot", "at_s": KILLED_AT_S},
            "joined_and_left": {"client": "orders-cron", "between_s": CRON_RUNS},
            "clients": {
                each.client_id: {"host": each.host, "members": each.size, **dict(sorted(each.done.items()))}
                for each in applications
            },
            "errors": self.errors,
        }


def _config(data: Path) -> ServerConfig:
    return ServerConfig(
        log_dir=str(data),
        listeners=(ListenerConfig(host=ADDRESS[0], port=ADDRESS[1]),),
        admin=AdminConfig(host=ADDRESS[0], port=9644),
        log=LogConfig(
            durability="write",
            offsets_topic_num_partitions=1,
            transaction_state_log_num_partitions=1,
            share_coordinator_state_topic_num_partitions=1,
        ),
        groups=GroupsConfig(),
        declared_topics=(DeclaredTopic(name=TOPIC, partitions=PARTITIONS),),
    )


def main(folder: str) -> int:
    path = Path(folder)
    if path.exists():
        print(f"{folder} exists already", file=sys.stderr)
        return 2
    (path / "data").mkdir(parents=True)
    logging.getLogger("coordinator").setLevel(logging.CRITICAL)  # its lines would have the time of this run
    truth = Storm(path).record()
    (path / "truth.json").write_text(json.dumps(truth, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {path / 'data'} and {path / 'truth.json'}")
    return 1 if truth["errors"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
