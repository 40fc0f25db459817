"""Troubles of a group of real wire clients against a real server on simulated time, with the truth about the harm.

The clients, the network and the server are those of examples/rebalance_storm.py. The replay of `groups what-if` shares none of
its clients with them.
"""

import asyncio
import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    StreamsGroupHeartbeatRequest,
    SyncGroupRequest,
)
from coordinator.protocol.subscription import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
    parse_subscription,
)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rebalance_storm.py"
SECONDS, PARTITIONS = 200, 24
BEGIN_S = 30
"""What is counted begins then: the group has formed, and no trouble has begun."""
RECORDS_PER_S = 20
CONSUMER_HEARTBEAT_S = 5
REVOKED_S = 0.02
"""How long the callback of a cooperative consumer takes that has lost partitions."""
EAGER, COOPERATIVE, CONSUMER, STREAMS = "eager", "cooperative", "consumer", "streams"


class Recorded(NamedTuple):
    """The data folder, and what was seen in the clients and in the server's group."""

    data: Path
    rebalances: int
    rebalancing_s: float
    partition_s_without_owner: float
    read_twice: int
    commits_refused: int
    errors: list[str]


def restarts(storm: Any) -> list[Any]:
    """One consumer of seven is restarted three times."""
    applications = _applications(storm)
    for at_s in (50, 100, 150):
        _restart(storm, applications[0], at_s)
    return applications


def pauses(storm: Any) -> list[Any]:
    """A process with two of the consumers stands still three times, for longer than its session."""
    applications = [*_applications(storm), storm.module.Application(storm, "orders-gc", "10.0.2.1", 2, 0.5)]
    for at_s in (50, 100, 150):
        storm.at(at_s, lambda: applications[-1].pause(14))
    return applications


def rollout(storm: Any) -> list[Any]:
    """All seven consumers are replaced, one after the other."""
    applications = _applications(storm)
    for number, application in enumerate(applications):
        _restart(storm, application, 40 + 20 * number)
    return applications


def stuck(storm: Any) -> list[Any]:
    """One consumer works for 20 s on what it polled, three times; its heartbeats go on."""
    applications = _applications(storm)

    async def works_long() -> None:
        applications[0].polls.clear()
        await asyncio.sleep(20)
        applications[0].polls.set()

    for at_s in (50, 100, 150):
        storm.at(at_s, works_long)
    return applications


def _applications(storm: Any) -> list[Any]:
    return [
        storm.module.Application(storm, f"orders-{number}", f"10.0.1.{number}", 1, 0.4 + 0.3 * number)
        for number in range(1, 8)
    ]


def _restart(storm: Any, application: Any, at_s: float) -> None:
    async def restart() -> None:
        await application.leave()
        application.members = []
        await asyncio.sleep(5)
        application.start()

    storm.at(at_s, restart)


def record(
    folder: Path,
    happen: Callable[[Any], list[Any]],
    *,
    protocol: str = EAGER,
    session_s: int = 10,
    max_poll_s: int = 60,
    is_static: bool = False,
    commit_takes_s: float = 0,
    begin_s: float = BEGIN_S,
    **settings: Any,
) -> Recorded:
    """Runs a trouble under these settings; a few seconds. `settings`: those of the server's groups."""
    module: Any = _example()
    module.SESSION_S, module.REBALANCE_S = session_s, max_poll_s
    module.SECONDS, module.PARTITIONS = SECONDS, PARTITIONS
    module.Member = _members(module, is_static=is_static, commit_takes_s=commit_takes_s)[protocol]
    if protocol == COOPERATIVE:
        module._assign = partial(_cooperatively, module.TOPIC)
    module.GroupsConfig = partial(
        module.GroupsConfig,
        group_consumer_session_timeout_ms=session_s * 1000,
        group_consumer_min_session_timeout_ms=session_s * 1000,
        group_streams_session_timeout_ms=session_s * 1000,
        group_streams_min_session_timeout_ms=session_s * 1000,
        **settings,
    )

    class Application(module.Application):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.polls = asyncio.Event()
            self.polls.set()

    module.Application = Application

    class Trouble(module.Storm):
        def __init__(self) -> None:
            super().__init__(folder)
            self.module = module
            self.without_owner = self.again = 0
            self.committed: dict[int, int] = {}
            self.before = (0, 0)
            """Rebalances, and samples of rebalancing, before what is counted."""
            self.applications: list[Any] = []

        def at(self, at_s: float, action: Callable[[], Any]) -> None:
            self._at(at_s, action)

        async def serve(self) -> Any:
            self.server = await super().serve()
            return self.server

        async def happen(self) -> tuple[Any, ...]:
            self.applications = happen(self)
            for application in self.applications:
                application.start()
            watching = self.loop.create_task(self._watch())
            await asyncio.sleep(SECONDS)
            watching.cancel()
            ended = [task for each in self.applications for task in each.tasks if task.done() and not task.cancelled()]
            mistakes = [each for task in ended if not isinstance(each := task.exception(), module.JoinAgain | None)]
            self.errors += map(repr, mistakes)
            self.server.statistics.rebalances.setdefault("classic", {})  # the example's truth names it
            return tuple(self.applications)

        def rebalances(self) -> int:
            return sum(sum(each.values()) for each in self.server.statistics.rebalances.values())

        async def _watch(self) -> None:
            """Looks at what the clients do, and counts from `begin_s` on."""
            readers: dict[int, tuple[Any, int]] = {}
            while True:
                await asyncio.sleep(1 / module.SAMPLES_PER_S)
                is_counted = self.loop.time() >= begin_s
                if not is_counted:
                    self.before = self.rebalances(), self.rebalancing_samples
                working = [each for each in self.applications if each.runs.is_set()]
                reads = {index: member for each in working for member in each.members for index in member.partitions}
                self.without_owner += is_counted * len(readers.keys() - reads.keys())
                for index, member in reads.items():
                    before, reached = readers.get(index, (member, 0))
                    if is_counted and before is not member:
                        self.again += max(0, reached - self.committed.get(index, reached))
                    readers[index] = member, int(self.loop.time() * RECORDS_PER_S)

    (folder / "data").mkdir(parents=True)
    storm = Trouble()
    truth = storm.record()
    return Recorded(
        folder / "data",
        storm.rebalances() - storm.before[0],
        (storm.rebalancing_samples - storm.before[1]) / module.SAMPLES_PER_S,
        storm.without_owner / module.SAMPLES_PER_S,
        storm.again,
        sum(each.done["commits refused"] for each in storm.applications),
        truth["errors"],
    )


def _example() -> Any:
    spec = importlib.util.spec_from_file_location("recorded_troubles_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _members(module: Any, *, is_static: bool, commit_takes_s: float) -> dict[str, type]:
    original = module.Member

    class Member(original):  # type: ignore[misc]
        """A consumer that reads as fast as records come, and gives up its partitions before it joins."""

        polled_s = 0.0
        has_polled = False
        """It heard of a rebalance when it polled, and joins at once."""

        @property
        def loop(self) -> Any:
            return self.application.storm.loop

        @property
        def offset(self) -> int:
            return int(self.loop.time() * RECORDS_PER_S)

        @offset.setter
        def offset(self, _value: int) -> None:
            """Its offset follows the time."""

        async def _poll(self) -> None:
            if not self.has_polled:
                await super()._poll()
                await self.application.polls.wait()
            self.polled_s, self.has_polled = self.loop.time(), False

        async def _consume(self) -> None:
            try:
                await super()._consume()
            except module.JoinAgain:
                self.has_polled = True
                raise

        async def _commit(self) -> int:
            offset, partitions = self.offset, self.partitions
            code: int = await super()._commit()
            if not code:
                self.application.storm.committed.update(dict.fromkeys(partitions, offset))
            return code

        async def _beat(self) -> None:
            """Leaves when it has not polled for too long, as Java's consumer."""
            self.polled_s = self.loop.time()
            beating = self.loop.create_task(self._beat_on())
            self.application.tasks.append(beating)
            try:
                while self.loop.time() < self.polled_s + module.REBALANCE_S and not beating.done():  # noqa: ASYNC110 - the time is simulated
                    await asyncio.sleep(0.1)
                if not beating.done():
                    await self.leave()
                    self._forget()
                    raise module.JoinAgain
                beating.result()
            finally:
                beating.cancel()

        async def _beat_on(self) -> None:
            await super()._beat()

        def _forget(self) -> None:
            self.member_id, self.generation, self.partitions = "", -1, ()

        async def _join(self) -> None:
            self.partitions = ()
            await super()._join()

        async def _ask(self, request: Any, version: int) -> Any:
            if isinstance(request, OffsetCommitRequest):
                await asyncio.sleep(commit_takes_s)
            if is_static:
                attribute = "instance_id" if hasattr(request, "instance_id") else "group_instance_id"
                setattr(request, attribute, f"{self.application.client_id}-{self.application.members.index(self)}")
            response = await super()._ask(request, version)
            self.member_id = getattr(response, "member_id", "") or self.member_id
            return response

        async def leave(self) -> None:
            if not is_static:
                late = self.loop.time() >= self.polled_s + module.REBALANCE_S
                reason = "consumer poll timeout has expired" if late else "the consumer is being closed"
                identity = LeaveGroupRequest.MemberIdentity(self.member_id, None, reason)
                await self._ask(LeaveGroupRequest(group_id=module.GROUP, members=[identity]), 5)

    class CooperativeMember(Member):
        """A consumer that keeps its partitions while it joins, and joins again if it must give some up (KIP-429)."""

        async def _join(self) -> None:
            while True:
                before = set(self.partitions)
                await original._join(self)
                if before <= set(self.partitions):
                    return
                await asyncio.sleep(REVOKED_S)

        def _join_request(self) -> Any:
            request = super()._join_request()
            owned = {module.TOPIC: self.partitions} if self.partitions else {}
            metadata = encode_subscription(Subscription((module.TOPIC,), None, owned, self.generation, None, 3))
            request.protocols = [JoinGroupRequest.JoinGroupRequestProtocol("cooperative-sticky", metadata)]
            return request

        def _sync_request(self, assignments: list[Any]) -> Any:
            request = super()._sync_request(assignments)
            request.protocol_name = "cooperative-sticky"
            return request

        def _check(self, code: int) -> None:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.partitions = ()
            super()._check(code)

    class ConsumerMember(Member):
        """A consumer of a consumer group (KIP-848)."""

        assigned: tuple[int, ...] = ()
        topic_id = b""

        def _forget(self) -> None:
            self.generation, self.partitions, self.assigned = 0, (), ()

        async def _join(self) -> None:
            self.member_id = self.member_id or f"{self.application.client_id}-{self.random.random()}"
            self._forget()
            await self._heartbeat()

        async def _poll(self) -> None:
            await super()._poll()
            while self.generation > 0 and set(self.partitions) != set(self.assigned):
                if set(self.partitions) - set(self.assigned):
                    await self._commit()
                self.partitions = self.assigned
                await self._heartbeat()

        async def _beat_on(self) -> None:
            while True:
                await asyncio.sleep(CONSUMER_HEARTBEAT_S)
                await self._heartbeat()

        async def _heartbeat(self) -> None:
            response = await self._ask(self._request(is_first=self.generation == 0), 1)
            if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
                self._forget()
                raise module.JoinAgain
            self._check(response.error_code)
            self.generation = response.member_epoch
            self._take(response)

        def _request(self, *, is_first: bool) -> Any:
            owned = ConsumerGroupHeartbeatRequest.TopicPartitions
            return ConsumerGroupHeartbeatRequest(
                module.GROUP, self.member_id, self.generation,
                rebalance_timeout_ms=module.REBALANCE_S * 1000 if is_first else -1,
                subscribed_topic_names=[module.TOPIC] if is_first else None,
                topic_partitions=[owned(self.topic_id, list(self.partitions))] if self.partitions else [],
            )  # fmt: skip

        def _take(self, response: Any) -> None:
            if response.assignment is not None:
                given = response.assignment.topic_partitions
                self.assigned = tuple(index for each in given for index in each.partitions)
                self.topic_id = given[0].topic_id if given else self.topic_id

        async def _ask(self, request: Any, version: int) -> Any:
            return await super()._ask(request, 9 if isinstance(request, OffsetCommitRequest) else version)

        def _check(self, code: int) -> None:
            if code != ErrorCode.STALE_MEMBER_EPOCH:
                super()._check(code)

        async def leave(self) -> None:
            request = ConsumerGroupHeartbeatRequest(module.GROUP, self.member_id, -2 if is_static else -1)
            await self._ask(request, 1)

    class StreamsMember(ConsumerMember):
        """A member of a streams group (KIP-1071) whose tasks read the partitions of one topic."""

        def _request(self, *, is_first: bool) -> Any:
            made = StreamsGroupHeartbeatRequest
            request = made(
                module.GROUP, self.member_id, self.generation,
                rebalance_timeout_ms=module.REBALANCE_S * 1000 if is_first else -1,
                active_tasks=[made.TaskIds("0", list(self.partitions))] if self.partitions else [],
                standby_tasks=[], warmup_tasks=[],
            )  # fmt: skip
            if is_first:
                request.topology = made.Topology(7, [made.Subtopology("0", source_topics=[module.TOPIC])])
                request.process_id = self.application.client_id
            return request

        def _take(self, response: Any) -> None:
            if response.active_tasks is not None:
                self.assigned = tuple(index for each in response.active_tasks for index in each.partitions)

        async def leave(self) -> None:
            request = StreamsGroupHeartbeatRequest(module.GROUP, self.member_id, -2 if is_static else -1)
            await self._ask(request, 1)

    return {EAGER: Member, COOPERATIVE: CooperativeMember, CONSUMER: ConsumerMember, STREAMS: StreamsMember}


def _cooperatively(topic: str, joined: Any) -> list[Any]:
    """Evenly; a member keeps what it has up to its share, and what another one still has waits for the next round."""
    has = {
        each.member_id: list(parse_subscription(each.metadata).owned.get(topic, ()))
        for each in sorted(joined.members, key=lambda each: each.member_id)
    }
    low, rest = divmod(PARTITIONS, len(has))
    by_size = sorted(has, key=lambda each: -len(has[each]))
    parts = {each: has[each][: low + (place < rest)] for place, each in enumerate(by_size)}
    kept = {index for part in parts.values() for index in part}
    for index in (each for each in range(PARTITIONS) if each not in kept):
        least = min(parts, key=lambda each: len(parts[each]))
        parts[least].append(index)
    taken = {index: member_id for member_id, some in has.items() for index in some}
    return [
        SyncGroupRequest.SyncGroupRequestAssignment(
            member_id,
            encode_assignment(
                Assignment({topic: tuple(each for each in part if taken.get(each, member_id) == member_id)}, None, 1)
            ),
        )
        for member_id, part in parts.items()
    ]
