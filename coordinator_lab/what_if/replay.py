"""Plays the behaviour of consumers against a GroupMachine on simulated time.

The machine is the server's. There is no network and no disk: a request is decided at once, and its reply is there at once. How
long a consumer takes to join a rebalance was recorded with its network, so nothing is missing.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from coordinator.groups.catalog import NO_DELETIONS
from coordinator.groups.kinds import Kind
from coordinator.groups.machine import GroupMachine
from coordinator.groups.settings import GroupsConfig
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import RebalanceStartedValue
from coordinator.protocol.releases import AS_NEWEST
from coordinator.runtime.result import NO_LINK, Result, Timer
from coordinator_lab.simulation.loop import SimulatedLoop
from coordinator_lab.what_if.behaviour import Absence, Away, Behaviour, Consumer, heartbeat_ms
from coordinator_lab.what_if.members import MEMBERS, Member
from coordinator_lab.what_if.recording import Events, Window
from coordinator_lab.what_if.settings import Settings

WARM_UP_MS = 120_000
"""Consumers that were there before the window join so much earlier, so that the group is stable when the window begins."""
_TIMEOUT_MAX_MS = (1 << 31) - 1


class Work(NamedTuple):
    """A member stopped to work, or continued; no event says so."""

    time_ms: int
    member_id: str
    is_working: bool


class Replayed(NamedTuple):
    """What happened in a replay."""

    events: Events
    work: list[Work]


class _Exchange:
    """A request as the machine sees it (RequestContext), and its reply."""

    link = NO_LINK
    dialect = None
    behaviours = AS_NEWEST

    def __init__(self, api_version: int, client: tuple[str, str], fresh_id: str) -> None:
        self.api_version = api_version
        self.client_id, self.client_host = client
        self.fresh_id = fresh_id
        self.may_describe: Callable[[str], bool] = lambda _name: True
        self.reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class _Topics:
    """The topics of the recorded group."""

    version = 1
    deletions = NO_DELETIONS

    def __init__(self, topics: dict[str, int]) -> None:
        self._topics = topics
        self._ids = {name: number.to_bytes(16) for number, name in enumerate(topics, 1)}
        self._names = {topic_id: name for name, topic_id in self._ids.items()}

    def topic_names(self) -> list[str]:
        return list(self._topics)

    def topic_id(self, name: str) -> bytes | None:
        return self._ids.get(name)

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def partition_count(self, name: str) -> int | None:
        return self._topics.get(name)


class World:
    """The machine with its timers, on simulated time, and the members of the group."""

    def __init__(self, behaviour: Behaviour, settings: Settings, begin_ms: int) -> None:
        self.behaviour = behaviour
        self.settings = settings
        self.catalog = _Topics(behaviour.topics)
        self.events: Events = []
        self.work: list[Work] = []
        self.members: dict[str, Member] = {}
        """By the name of the consumer."""
        self._begin_ms = begin_ms
        self._loop = asyncio.get_running_loop()
        self._timers: dict[Any, asyncio.TimerHandle] = {}
        self._ids = 0
        self.groups = GroupMachine(_config(settings), self.catalog)
        self._apply(self.groups.loaded(self.now_ms))

    @property
    def now_ms(self) -> int:
        return self._begin_ms + round(self._loop.time() * 1000)

    async def until(self, time_ms: float) -> None:
        await asyncio.sleep(max(0.0, time_ms - self.now_ms) / 1000)

    async def ask(self, operation: Any, request: Any, version: int, client: tuple[str, str]) -> Any:
        """The reply to a request. Raises KafkaError if it is refused."""
        self._ids += 1
        exchange = _Exchange(version, client, f"00000000-0000-4000-8000-{self._ids:012d}")
        try:
            result = operation(self.groups, request, exchange, self.now_ms)
        except KafkaError as error:
            self._apply(Result(facts=error.facts))
            raise
        self._apply(result)
        return await exchange.reply if result.reply is None else result.reply

    def note_work(self, member_id: str, *, is_working: bool, at_ms: int | None = None) -> None:
        self.work.append(Work(self.now_ms if at_ms is None else at_ms, member_id, is_working))

    def _apply(self, result: Result) -> None:
        for record in result.records:
            self.groups.replay(record)
        for timer in result.timers:
            self._arm(timer)
        for context, message in result.replies:
            assert isinstance(context, _Exchange)
            if not context.reply.done():
                context.reply.set_result(message)
        for ask in result.asks:
            ask(lambda change: self._apply(change(self.groups, self.now_ms)))
        for fact in result.facts:
            if fact.event is not None:
                self._note(fact.event.record(-1, self.now_ms).value)

    def _note(self, event: Any) -> None:
        self.events.append(event)
        if isinstance(event, RebalanceStartedValue):
            for member in self.members.values():
                member.rebalance_started(self.now_ms)

    def _arm(self, timer: Timer) -> None:
        armed = self._timers.pop(timer.key, None)
        if armed is not None:
            armed.cancel()
        if timer.delay_ms is not None:
            self._timers[timer.key] = self._loop.call_later(timer.delay_ms / 1000, self._fire, timer.key)

    def _fire(self, key: Any) -> None:
        del self._timers[key]
        self._apply(self.groups.fire(key, self.now_ms))


def _config(settings: Settings) -> GroupsConfig:
    session_ms = settings.session_timeout_ms
    return GroupsConfig(
        group_initial_rebalance_delay_ms=settings.initial_delay_ms,
        group_min_session_timeout_ms=1,
        group_max_session_timeout_ms=_TIMEOUT_MAX_MS,
        group_consumer_session_timeout_ms=session_ms,
        group_consumer_min_session_timeout_ms=1,
        group_consumer_max_session_timeout_ms=_TIMEOUT_MAX_MS,
        group_consumer_fencing_policy=settings.fencing_policy,
        group_streams_session_timeout_ms=session_ms,
        group_streams_min_session_timeout_ms=1,
        group_streams_max_session_timeout_ms=_TIMEOUT_MAX_MS,
        group_streams_fencing_policy=settings.streams_fencing_policy,
    )


def replay(behaviour: Behaviour, settings: Settings, window: Window) -> Replayed:
    """Runs the consumers from shortly before the window to its end."""
    loop = SimulatedLoop(Random("what-if"))
    try:
        return loop.run_until_complete(_run(behaviour, settings, window))
    finally:
        loop.close()
        loop.finalize()


async def _run(behaviour: Behaviour, settings: Settings, window: Window) -> Replayed:
    begin_ms = window.from_ms - WARM_UP_MS
    world = World(behaviour, settings, begin_ms)
    consumers = [each for each in (_since(consumer, begin_ms) for consumer in behaviour.consumers) if each is not None]
    tasks = []
    for number, consumer in enumerate(consumers):
        member = world.members[consumer.name] = MEMBERS[settings.protocol](world, consumer, number)
        tasks.append(asyncio.ensure_future(_live(world, consumer, member)))
    await world.until(window.to_ms)
    for task in tasks:
        if task.done():
            task.result()  # raises what went wrong
        task.cancel()
    for member in world.members.values():
        member.stop()
    return Replayed(world.events, world.work)


def _since(consumer: Consumer, begin_ms: int) -> Consumer | None:
    """The consumer's behaviour from a time on; None if it was gone for good by then."""
    first_ms, absences = consumer.first_ms, []
    if first_ms < begin_ms:  # Heartbeats stay in step.
        first_ms = begin_ms + (first_ms - begin_ms) % heartbeat_ms(Kind.CONSUMER, 0)
    for absence in consumer.absences:
        if absence.from_ms >= first_ms:
            absences.append(absence)
        elif absence.to_ms is None:
            return None
        else:
            first_ms = max(first_ms, absence.to_ms + absence.rejoins_after_ms)
    return replace(consumer, first_ms=first_ms, absences=absences)


async def _live(world: World, consumer: Consumer, member: Member) -> None:
    """Does with a member what was recorded of its consumer."""
    await world.until(consumer.first_ms)
    member.start()
    for absence in consumer.absences:
        await world.until(absence.from_ms)
        await _AWAY[absence.kind](world, member, absence)
        if absence.to_ms is None:
            return


async def _closed(world: World, member: Member, absence: Absence) -> None:
    await member.close()
    await _start_again(world, member, absence)


async def _killed(world: World, member: Member, absence: Absence) -> None:
    await member.beat()
    member.stop()
    await _start_again(world, member, absence)


async def _start_again(world: World, member: Member, absence: Absence) -> None:
    if absence.to_ms is not None:
        await world.until(absence.to_ms)
        member.start()


async def _silent(world: World, member: Member, absence: Absence) -> None:
    await member.beat()
    member.pause()
    if absence.to_ms is not None:
        await world.until(absence.to_ms)
        await member.resume(absence.rejoins_after_ms)


async def _busy(world: World, member: Member, absence: Absence) -> None:
    """A consumer that exceeds its poll interval leaves; a static one only falls silent (KIP-345)."""
    member.polls.clear()
    limit_ms = absence.from_ms + world.settings.max_poll_interval_ms
    has_left = absence.to_ms is None or absence.to_ms > limit_ms
    if has_left:
        await world.until(limit_ms)
        await member.close()
    if absence.to_ms is not None:
        await world.until(absence.to_ms)
        member.polls.set()
        if has_left:
            await world.until(absence.to_ms + absence.rejoins_after_ms)
            member.start()


_AWAY = {Away.CLOSED: _closed, Away.KILLED: _killed, Away.SILENT: _silent, Away.BUSY: _busy}
