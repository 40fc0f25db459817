"""The stage of one event: the program's instances, its group and topics, and everything that may happen to them.

An event waits for conditions, never for a time: for a fault that acted, a state of the group, a recorded request. A wait that
is in vain raises NotReached, which the report shows.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar, Unpack

from coordinator.rules.model import Entry
from coordinator_testing.certify.case import Note
from coordinator_testing.certify.clock import StageClock
from coordinator_testing.certify.event import Event, NotApplicable
from coordinator_testing.certify.judge.entries import errors
from coordinator_testing.certify.observation import Observation
from coordinator_testing.certify.programs import Instance, now_ms
from coordinator_testing.certify.records import Producer
from coordinator_testing.certify.server import CertificationServer
from coordinator_testing.certify.testimony import Testimony
from coordinator_testing.certify.topics import Topics
from coordinator_testing.control import AsyncControl, ControlRefused, NotReached
from coordinator_testing.control.asynchronous import AsyncFault
from coordinator_testing.control.keywords import FaultKeywords
from coordinator_testing.control.steps import View

WITHIN_S = 45.0
"""How long an event waits for one condition: longer than the default session of every client library but Java's 45 s, which the
events let expire by command."""
LOOK_S = 0.25
"""The longest time until a condition is looked at again, if no entry comes."""

WATCHED_S = 12.0
"""How long an instance is watched that should be silent: longer than the judge lets requests follow a fatal error."""

T = TypeVar("T")


class Mark(NamedTuple):
    """A moment: how many entries had been seen, and the time."""

    entries: int
    time_ms: int


class Stage:
    """What an event may use. Group and topics are its own; a fault has the scope of the event and is cleared after it."""

    def __init__(
        self,
        *,
        event: Event,
        server: CertificationServer,
        control: AsyncControl,
        instances: Sequence[Instance],
        group: str,
        topic: str,
        output_topic: str | None,
        topics: Topics,
        testimony: Testimony,
        producer: Producer,
    ) -> None:
        self.event = event
        self.server = server
        self.control = control
        """Its scope is that of the event."""
        self.instances = instances
        self.group = group
        self.topic = topic
        self.output_topic = output_topic
        self.topics = topics
        self.testimony = testimony
        self.producer = producer
        self.clock = StageClock(control)
        self.observation = Observation(self.clock)
        self.notes: list[Note] = []
        self.outages: list[tuple[int, int]] = []
        self.resets: list[tuple[int, dict[int, int]]] = []
        self.delivery_limit = 5
        """share.delivery.count.limit of the group."""

    @property
    def first(self) -> Instance:
        """The first instance."""
        return self.instances[0]

    @property
    def is_share(self) -> bool:
        """Whether the instances are members of a share group."""
        return self.first.environment["GROUP_PROTOCOL"] == "share"

    @property
    def listeners(self) -> dict[str, Sequence[str]]:
        """The listener of each instance, and its address at each broker."""
        return {each.listener: self.server.addresses(each.listener) for each in self.instances}

    def note(self, text: str) -> None:
        """Adds a line to the event's report."""
        self.notes.append(Note(now_ms(), text))

    # --- faults -------------------------------------------------------------------------------------------------------

    async def fault(self, instance: Instance | None = None, **rule: Unpack[FaultKeywords]) -> AsyncFault:
        """Sets a fault rule for requests of one instance, or of any member of the group.

        `rule` has the keywords of `Control.fault`. Without an instance, a rule is for this group unless it names a topic or a
        transactional id.
        """
        if instance is not None:
            rule.setdefault("listener", instance.listener)
        elif not rule.keys() & {"topic", "transactional_id"}:
            rule.setdefault("group", self.group)
        self.note(f"fault: {', '.join(f'{name}={value}' for name, value in rule.items())}")
        return await self.control.fault(**rule)

    async def acted(self, fault: AsyncFault, times: int = 1, within_s: float = WITHIN_S) -> None:
        """Waits until a rule has acted so often. Raises NotReached."""
        await fault.wait(acted=times, timeout_s=within_s)
        self.note(f"{fault.id} acted")

    async def held(self, fault: AsyncFault, count: int = 1, within_s: float = WITHIN_S) -> None:
        """Waits until a rule holds so many requests or answers. Raises NotReached."""
        await fault.wait(held=count, timeout_s=within_s)
        self.note(f"{fault.id} holds {count}")

    # --- the group ----------------------------------------------------------------------------------------------------

    async def group_view(self) -> View:
        """The group as `/v1/groups/{group}` shows it; empty if there is none yet."""
        try:
            return await self.control.group(self.group).describe()
        except ControlRefused as refused:
            if refused.status == 404:
                return {}
            raise

    async def stable(self, members: int | None = None, within_s: float = WITHIN_S) -> View:
        """Waits until the group is Stable with so many members, of as many instances as run if None. Raises NotReached."""
        if members is not None:
            return await self.control.group(self.group).wait(state="Stable", members=members, timeout_s=within_s)
        deadline = time.monotonic() + within_s
        while True:
            running = [each for each in self.instances if each.runs]
            # An instance may end meanwhile; then there is one less to wait for.
            ends = [asyncio.create_task(each.ends()) for each in running]
            wait = asyncio.create_task(self.stable(len(running), deadline - time.monotonic()))
            try:
                await asyncio.wait([wait, *ends], return_when=asyncio.FIRST_COMPLETED)
                if wait.done():
                    return wait.result()
            finally:
                for task in (wait, *ends):
                    task.cancel()
                await asyncio.gather(wait, *ends, return_exceptions=True)

    async def rebalance(self, reason: str = "certification") -> None:
        """Makes all members rebalance."""
        self.note("the group rebalances")
        await self.control.group(self.group).rebalance(reason=reason)

    async def evict(self, instance: Instance) -> None:
        """Removes the member of an instance from the group."""
        member_id = await self.member_of(instance)
        self.note(f"member {member_id} of instance {instance.index} is evicted")
        await self.control.group(self.group).evict(member_id)

    async def expire_session(self, instance: Instance) -> None:
        """Ends the session of an instance's member, as if it had been silent for longer than its session timeout."""
        await self.expire_member(await self.member_of(instance))

    async def expire_member(self, member_id: str) -> None:
        """Ends the session of a member, which may be one whose process is gone. Raises NotReached.

        No session runs while its member waits in a round, which goes on without the process.
        """

        async def expired() -> bool:
            try:
                await self.control.group(self.group).expire_session(member_id)
            except ControlRefused as refused:
                if refused.status != 409:
                    raise
                return False
            return True

        self.note(f"the session of member {member_id} expires")
        await self.until(expired, f"the session of member {member_id}")

    async def remove_if_member(self, member_id: str) -> None:
        """Ends the session of a member unless it has left."""
        if any(each["member_id"] == member_id for each in (await self.group_view()).get("members", ())):
            await self.expire_member(member_id)

    async def reload(self, for_ms: int = 0) -> None:
        """The group's coordinator moves: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS for so long, then back from its log."""
        self.note(f"the coordinator loads its log again, for {for_ms} ms")
        await self.control.group(self.group).reload(for_ms=for_ms)

    async def bump_epoch(self) -> None:
        """Begins a new generation or epoch."""
        self.note("the epoch is bumped")
        await self.control.group(self.group).bump_epoch()

    async def expire_offsets(self) -> None:
        """Expires all committed offsets of the group."""
        self.note("the committed offsets expire")
        await self.control.group(self.group).expire_offsets()

    async def committed(self) -> dict[int, int]:
        """Partition -> committed offset of the topic; of a share group, how many records are done with."""
        if self.is_share:
            return dict(await asyncio.to_thread(self.topics.done, self.group))
        view = await self.group_view()
        return {each["partition"]: each["offset"] for each in view.get("committed", ()) if each["topic"] == self.topic}

    async def member_of(self, instance: Instance) -> str:
        """The id of the member that an instance is. Raises NotReached if it is none."""
        known = {member["member_id"] for member in (await self.group_view()).get("members", ())}
        for entry in reversed(self.observation.entries):
            member_id = _member_id(entry) if entry.listener == instance.listener else None
            if member_id in known:
                return str(member_id)
        raise NotReached(f"instance {instance.index} is no member of the group")

    async def instance_of(self, member_id: str) -> Instance:
        """The instance that is this member. Raises NotReached if none is."""
        for entry in reversed(self.observation.entries):
            if _member_id(entry) == member_id:
                return next(each for each in self.instances if each.listener == entry.listener)
        raise NotReached(f"no instance is member {member_id}")

    async def leader(self) -> Instance:
        """The instance whose member leads the classic group."""
        return await self.instance_of(str((await self.group_view()).get("leader")))

    async def follower(self) -> Instance:
        """An instance whose member does not lead the classic group. Raises NotApplicable if there is none."""
        leader = await self.leader()
        for each in self.instances:
            if each is not leader and each.runs:
                return each
        raise NotApplicable("it needs two instances")

    async def joined(self, members: int) -> None:
        """Waits until a rebalance is prepared and so many instances wait for it to end. Raises NotReached."""
        await self.control.group(self.group).wait(state="PreparingRebalance", timeout_s=WITHIN_S)

        async def reached() -> bool:
            waiting = [
                each for each in self.observation.entries if each.outcome == "pending" and each.api == "JoinGroup"
            ]
            return len({each.listener for each in waiting}) >= members

        await self.until(reached, f"JoinGroup of {members} instances")

    async def answered(self, instance: Instance, *any_of: str) -> None:
        """Waits until an instance has been answered with one of these errors. Raises NotReached."""

        async def found() -> bool:
            return any(
                each.listener == instance.listener and each.outcome == "answered" and errors(each) & set(any_of)
                for each in reversed(self.observation.entries)
            )

        await self.until(found, f"the answer {' or '.join(any_of)} to instance {instance.index}")

    async def quiet(self, instance: Instance) -> None:
        """Watches for a while what an instance sends that should send nothing more, unless it ends before."""

        async def ended() -> bool:
            return not instance.runs

        self.note(f"instance {instance.index} is watched for {WATCHED_S:g} s")
        with suppress(NotReached):
            await self.until(ended, "the end of the instance", within_s=WATCHED_S)

    async def session_timeout_ms(self) -> int:
        """The longest session timeout of the members of the classic group."""
        return max(int(each["session_timeout_ms"]) for each in (await self.group_view())["members"])

    async def advance_clock(self, ms: int) -> None:
        """Advances the server's clock by so much, and lets it run on. Only for events that are alone."""
        assert self.event.is_alone
        self.note(f"the server's clock advances by {ms} ms")
        await self.clock.manual()
        await self.clock.advance(ms)
        await self.clock.real()

    # --- the processes ------------------------------------------------------------------------------------------------

    async def start(self, instance: Instance) -> None:
        """Starts an instance that does not run."""
        self.note(f"instance {instance.index} starts")
        await instance.start()

    async def stop(self, instance: Instance) -> None:
        """SIGTERM: the instance has time to commit and to leave.

        A program whose members are always static does not leave. In events that do not ask for static members, an administrator
        removes them (KIP-345), so that the group need not wait for the end of a session.
        """
        member_id = None if self.event.is_static else await self._static_member_of(instance)
        self.note(f"instance {instance.index} is stopped")
        await instance.stop()
        if member_id is not None:
            await self.remove_if_member(member_id)

    async def _static_member_of(self, instance: Instance) -> str | None:
        """The member id of an instance that is a static member; else None."""
        try:
            member_id = await self.member_of(instance)
        except NotReached:
            return None
        members = (await self.group_view()).get("members", ())
        [found] = [each for each in members if each["member_id"] == member_id] or [{}]
        return member_id if found.get("instance_id") or found.get("group_instance_id") else None

    async def kill(self, instance: Instance) -> None:
        """kill -9: the instance neither commits nor leaves."""
        self.note(f"instance {instance.index} is killed")
        await instance.kill()

    def pause(self, instance: Instance) -> None:
        """SIGSTOP: the instance is silent, and does not know it."""
        self.note(f"instance {instance.index} is paused")
        instance.pause()

    def resume(self, instance: Instance) -> None:
        """SIGCONT."""
        self.note(f"instance {instance.index} resumes")
        instance.resume()

    async def kill_server(self) -> None:
        """kill -9 of the server, and a new start with the same data. Only for events that are alone.

        Requests that arrive meanwhile are held before, so that everything that had an effect was recorded.
        """
        assert self.event.is_alone
        began_ms = now_ms()
        for each in self.instances:
            await self.control.fault(listener=each.listener, hold="request", until="cleared")
        await self.observation.stop()
        self.note("the server is killed")
        await asyncio.to_thread(self.server.kill_and_start)
        self.note("the server is back")
        await self.clock.start()
        await self.observation.start(self.control, self.listeners)
        self.outages.append((began_ms, now_ms()))

    # --- topics -------------------------------------------------------------------------------------------------------

    async def add_partitions(self, count: int) -> None:
        """Makes the topic have so many partitions, and the stream of records uses them all."""
        self.note(f"the topic grows to {count} partitions")
        await asyncio.to_thread(self.topics.grow, self.topic, count)
        self.producer.partitions = count

    async def recreate_topic(self) -> None:
        """Deletes the topic when all of it was read, and makes it again with as many partitions."""
        await self.producer.stop()
        await self.caught_up()
        self.note("the topic is deleted and made again")
        await asyncio.to_thread(self.topics.recreate, self.topic, self.producer.partitions)
        self.producer.start()

    # --- waiting ------------------------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], Awaitable[T | None]], what: str, within_s: float = WITHIN_S) -> T:
        """The first value of the condition that is true. Looks again at each new entry. Raises NotReached."""
        deadline = time.monotonic() + within_s
        while True:
            self.observation.changed.clear()
            found = await condition()
            if found:
                return found
            if time.monotonic() > deadline:
                raise NotReached(f"{what} did not come within {within_s:g} s")
            try:
                await asyncio.wait_for(self.observation.changed.wait(), LOOK_S)
            except TimeoutError:
                continue

    async def joins_again(self, instance: Instance, since: Mark) -> None:
        """Waits until an instance has joined again since a mark, or for so long that the judge sees that it does not."""
        with suppress(NotReached):
            await self.request("JoinGroup", instance, since=since, within_s=WATCHED_S)

    def mark(self) -> Mark:
        """This moment, for `request`."""
        return Mark(self.observation.count, now_ms())

    async def request(
        self,
        api: str | Iterable[str],
        instance: Instance | None = None,
        *,
        since: Mark | None = None,
        within_s: float = WITHIN_S,
    ) -> Entry:
        """The next request of this API, from now or since a mark, on which no fault acted. Raises NotReached."""
        apis, mark = {api} if isinstance(api, str) else set(api), since or self.mark()

        async def found() -> Entry | None:
            for entry in self.observation.since(mark.entries):
                # While the clock stands, all requests have the same time.
                is_later = entry.time_ms >= mark.time_ms or not self.clock.runs
                is_meant = entry.api in apis and (instance is None or entry.listener == instance.listener)
                if is_meant and is_later and entry.fault is None:
                    return entry
            return None

        return await self.until(found, f"a request {' or '.join(sorted(apis))}", within_s)

    async def progress(self, within_s: float = WITHIN_S) -> None:
        """Waits until every partition has a commit beyond what is appended now. Raises NotReached."""
        ends = await asyncio.to_thread(self.topics.ends, self.topic, self.producer.partitions)

        async def passed() -> bool:
            committed = await self.committed()
            return all(committed.get(partition, 0) >= end for partition, end in ends.items())

        await self.until(passed, "a commit of every partition", within_s)

    async def reads_on(self, within_s: float = WITHIN_S) -> None:
        """Waits until every partition has a commit of a record that is appended from now on. Raises NotReached."""
        before = await asyncio.to_thread(self.topics.ends, self.topic, self.producer.partitions)

        async def grown() -> bool:
            ends = await asyncio.to_thread(self.topics.ends, self.topic, self.producer.partitions)
            return all(end > before[partition] for partition, end in ends.items())

        await self.until(grown, "a record in every partition", within_s)
        await self.progress(within_s)

    async def caught_up(self, within_s: float = WITHIN_S) -> None:
        """Waits until all that was appended is committed. Only useful while the stream of records stands still."""
        await self.progress(within_s)


def _member_id(entry: Entry) -> str | None:
    """The member that a request is of: what it says, or what its response to a first join or heartbeat says."""
    found = (entry.response or {}).get("member_id") or entry.request.get("member_id")
    return str(found) if found else None
