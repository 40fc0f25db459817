"""Consumers in a replay, as members of a classic, a consumer (KIP-848) or a streams group (KIP-1071)."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from coordinator.groups import classic_protocol
from coordinator.groups.consumer.heartbeat import consumer_group_heartbeat
from coordinator.groups.kinds import Kind
from coordinator.groups.offsets.commit import commit
from coordinator.groups.streams.heartbeat import streams_group_heartbeat
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
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
    parse_assignment,
    parse_subscription,
)
from coordinator_lab.what_if.behaviour import Consumer, Partition, heartbeat_ms, next_heartbeat
from coordinator_lab.what_if.settings import CLASSIC, CONSUMER, COOPERATIVE, STREAMS

if TYPE_CHECKING:
    from coordinator_lab.what_if.replay import World

GROUP = "replayed"
_JOIN, _SYNC, _BEAT, _LEAVE, _COMMIT, _EPOCH_BEAT = 9, 5, 4, 5, 9, 1
"""API versions."""
_FENCED = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID}
)  # fmt: skip
_RETRY_MS = 100
_TURN_MS = 10
"""Between an assignment and the next join of its member. Without it, that join would overtake the SyncGroups of the others."""
_LATE_MS = 10_000
"""A commit of an earlier epoch arrives at most so long after the epoch changed."""


class Member(ABC):
    """A consumer. `start` begins a process, `stop` ends it without a word, `close` in an orderly way."""

    def __init__(self, world: "World", consumer: Consumer, number: int) -> None:
        self.world = world
        self.consumer = consumer
        self.number = number
        self.instance_id = consumer.instance_id
        self.becomes_static = world.settings.is_static and consumer.instance_id is None
        if self.becomes_static:
            self.instance_id = f"static-{number}"
        self.member_id, self.epoch = "", -1
        self.partitions: set[Partition] = set()
        self.polls = asyncio.Event()
        self.polls.set()
        self._awake = asyncio.Event()
        self._awake.set()
        self._paused_ms = 0
        self._rejoins_at_ms = 0
        self._commits_at_ms, self._commit_ms = 0, consumer.commit_ms or world.behaviour.commit_ms
        self._rebalance = asyncio.Event()
        self._rebalance_ms = 0
        self._tasks: list[asyncio.Task[None]] = []

    # --- the process --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A new process joins."""
        self.stop()
        self._reset()
        create = asyncio.get_running_loop().create_task
        self._tasks = [create(each) for each in self._duties()]

    def _duties(self) -> list[Coroutine[Any, Any, None]]:
        return [self._take_part(), self._beat_on(), self._commit_on()]

    def stop(self) -> None:
        if self._tasks and self.member_id:
            self.world.note_work(self.member_id, is_working=False)
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()  # raises what went wrong
            task.cancel()
        self._tasks = []

    async def close(self) -> None:
        """Leaves. A member that is static only in the replay does not (KIP-345)."""
        if not self._tasks:
            return
        if self.world.behaviour.commits_on_revocation:
            with suppress(KafkaError):
                await self.commit()
        if self.member_id:
            with suppress(KafkaError):
                await self._leave()
        self.stop()

    def pause(self) -> None:
        """Sends nothing any more. It works on for half an interval of heartbeats (see `silent_since`)."""
        self._paused_ms = self.world.now_ms + self._heartbeat_ms // 2
        self._awake.clear()
        if self.member_id:
            self.world.note_work(self.member_id, is_working=False, at_ms=self._paused_ms)

    async def resume(self, rejoins_after_ms: int) -> None:
        """Continues where it was paused. First it commits what it had read, as a consumer does that does not know better."""
        self._rejoins_at_ms = self.world.now_ms + rejoins_after_ms
        if self.member_id:
            self.world.note_work(self.member_id, is_working=True)
            with suppress(KafkaError):
                await self.commit(self._paused_ms)
        self._awake.set()
        await self.beat()

    def _reset(self) -> None:
        """It is no member, and has nothing."""
        self.member_id, self.epoch, self.partitions = "", -1, set()

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_ms / 1000)
            await self._awake.wait()
            await self.beat()

    async def _commit_on(self) -> None:
        """Commits at an interval that begins again with each assignment."""
        while True:
            if self.world.now_ms >= self._commits_at_ms:
                self._commits_at_ms = self.world.now_ms + self._commit_ms
                with suppress(KafkaError):
                    await self.commit()
            await self.world.until(self._commits_at_ms)
            await self._awake.wait()

    def _take(self, partitions: set[Partition]) -> None:
        """Works on these partitions from now on."""
        self.partitions = partitions
        self._commits_at_ms = self.world.now_ms + self._commit_ms

    async def commit(self, read_ms: int | None = None, former: tuple[int, set[Partition]] | None = None) -> None:
        """Commits what it had read at a time, by default now. `former`: of an earlier epoch. Raises KafkaError."""
        epoch, partitions = (self.epoch, self.partitions) if former is None else former
        progress, catalog = self.world.behaviour.progress, self.world.catalog
        time_ms = self.world.now_ms if read_ms is None else read_ms
        topics: dict[str, OffsetCommitRequest.OffsetCommitRequestTopic] = {}
        for name, index in sorted(partitions.intersection(progress.partitions)):
            entry = topics.setdefault(
                name, OffsetCommitRequest.OffsetCommitRequestTopic(name, catalog.topic_id(name) or b"", [])
            )
            offset = progress.at((name, index), time_ms)
            entry.partitions.append(OffsetCommitRequest.OffsetCommitRequestPartition(index, offset, -1, ""))
        if topics:
            request = OffsetCommitRequest(
                GROUP,
                epoch,
                self.member_id,
                self.instance_id,
                topics=list(topics.values()),
            )
            await self._ask(commit, request, _COMMIT)

    async def _ask(self, operation: Any, request: Any, version: int) -> Any:
        """The reply. Raises KafkaError, also for an error code in the reply."""
        reply = await self.world.ask(operation, request, version, self.consumer.client)
        code = getattr(reply, "error_code", 0)
        if code and code != ErrorCode.MEMBER_ID_REQUIRED:
            raise KafkaError(ErrorCode(code))
        return reply

    # --- what depends on the protocol ---------------------------------------------------------------------------------

    _heartbeat_ms: int

    @abstractmethod
    def rebalance_started(self, now_ms: int) -> None:
        """A rebalance began at a time."""

    @abstractmethod
    async def beat(self) -> None:
        """Sends a heartbeat, if it is a member, and notes what it learns."""

    @abstractmethod
    async def _take_part(self) -> None:
        """Joins, and follows all rebalances."""

    @abstractmethod
    async def _leave(self) -> None:
        """Leaves the group in an orderly way."""

    async def _follow_rebalance(self, started_ms: int, heard_ms: int, *, gives_up: bool) -> None:
        """Waits as long as the consumer takes to follow a rebalance of which it heard at a time, and until it polls."""
        behaviour = self.world.behaviour
        delay_ms = self.consumer.delay_ms(started_ms, behaviour.delay_ms)
        if self.world.settings.protocol != behaviour.kind.label:
            delay_ms = max(0, self.consumer.median_delay_ms(behaviour.delay_ms))
        await self.world.until(heard_ms + delay_ms)
        await self._awake.wait()
        await self.world.until(self._rejoins_at_ms)
        await self.polls.wait()
        if gives_up and behaviour.commits_on_revocation:
            with suppress(KafkaError):
                await self.commit()


class ClassicMember(Member):
    """A member of a classic group; the first in the list of members assigns."""

    def __init__(self, world: "World", consumer: Consumer, number: int) -> None:
        super().__init__(world, consumer, number)
        self._heartbeat_ms = heartbeat_ms(Kind.CLASSIC, world.settings.session_timeout_ms)
        self._assigned_ms = 0
        self._is_cooperative = world.settings.rebalance_protocol == COOPERATIVE
        self._is_joining = False

    def rebalance_started(self, now_ms: int) -> None:
        if not self._is_joining and not self._rebalance.is_set() and self.member_id:
            self._rebalance_ms = now_ms
            self._rebalance.set()

    async def beat(self) -> None:
        if not self.member_id or self._is_joining:
            return
        request = HeartbeatRequest(GROUP, self.epoch, self.member_id, self.instance_id)
        try:
            await self._ask(classic_protocol.heartbeat, request, _BEAT)
        except KafkaError as error:
            if error.code in _FENCED or error.code is ErrorCode.ILLEGAL_GENERATION:
                self._reset()
            if not self._rebalance.is_set():
                self._rebalance_ms = self.world.now_ms
                self._rebalance.set()

    async def _take_part(self) -> None:
        while True:
            self._is_joining = True
            self._rebalance.clear()
            if not self._is_cooperative:
                self.partitions = set()
            has_revoked = await self._join()
            self._is_joining = False
            if has_revoked:
                await asyncio.sleep(_TURN_MS / 1000)
                continue
            await self._rebalance.wait()
            if self.member_id:
                heard_ms = next_heartbeat(self._assigned_ms, self._rebalance_ms, self._heartbeat_ms)
                await self._follow_rebalance(self._rebalance_ms, heard_ms, gives_up=True)
            else:
                await self._awake.wait()
                await self.world.until(self._rejoins_at_ms)
                await self.polls.wait()

    async def _join(self) -> bool:
        """Joins until it has an assignment. Returns whether it gave up partitions, for which it must join again (KIP-429)."""
        while True:
            try:
                joined = await self._ask(classic_protocol.join_group, self._join_request(), _JOIN)
                self.member_id = joined.member_id
                if joined.error_code:
                    continue  # MEMBER_ID_REQUIRED
                self.epoch = joined.generation_id
                leads = joined.leader == self.member_id and not joined.skip_assignment
                request = SyncGroupRequest(
                    GROUP, self.epoch, self.member_id, self.instance_id, "consumer", joined.protocol_name,
                    self._assign(joined) if leads else [],
                )  # fmt: skip
                synced = await self._ask(classic_protocol.sync_group, request, _SYNC)
            except KafkaError as error:
                if error.code in _FENCED:
                    self._reset()
                await asyncio.sleep(_RETRY_MS / 1000)
                await self._awake.wait()
                continue
            given = {
                (topic, index)
                for topic, indexes in parse_assignment(synced.assignment).partitions.items()
                for index in indexes
            }
            has_revoked = self._is_cooperative and not self.partitions <= given
            self._assigned_ms = self.world.now_ms
            self._take(given)
            return has_revoked

    def _join_request(self) -> JoinGroupRequest:
        settings = self.world.settings
        owned = self.partitions if self._is_cooperative else set()
        by_topic = {topic: tuple(index for name, index in sorted(owned) if name == topic) for topic, _ in owned}
        metadata = encode_subscription(
            Subscription(tuple(self.world.behaviour.topics), None, by_topic, self.epoch, None, 3)
        )
        return JoinGroupRequest(
            GROUP, settings.session_timeout_ms, settings.max_poll_interval_ms, self.member_id, self.instance_id, "consumer",
            [JoinGroupRequest.JoinGroupRequestProtocol(settings.rebalance_protocol, metadata)],
        )  # fmt: skip

    def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequest.SyncGroupRequestAssignment]:
        # As Kafka's assignors do, in the order of the member ids, which begin with the client id.
        places = {each.member_id: (each.consumer.client, each.number) for each in self.world.members.values()}
        owned = {
            each.member_id: {
                (topic, index)
                for topic, indexes in parse_subscription(each.metadata).owned.items()
                for index in indexes
            }
            for each in sorted(joined.members, key=lambda each: places.get(each.member_id, (("", ""), -1)))
        }
        partitions = [(topic, index) for topic, count in self.world.behaviour.topics.items() for index in range(count)]
        parts = assigned(owned, partitions, is_cooperative=self._is_cooperative)
        return [
            SyncGroupRequest.SyncGroupRequestAssignment(
                member_id, encode_assignment(Assignment(_by_topic(part), None, 1))
            )
            for member_id, part in parts.items()
        ]

    async def _leave(self) -> None:
        if not self.becomes_static:
            identity = LeaveGroupRequest.MemberIdentity(self.member_id, self.instance_id, None)
            await self._ask(classic_protocol.leave_group, LeaveGroupRequest(GROUP, "", [identity]), _LEAVE)


def assigned(
    owned: dict[str, set[Partition]], partitions: list[Partition], *, is_cooperative: bool
) -> dict[str, list[Partition]]:
    """Evenly, and sticky to what members own. A cooperative assignor does not yet give what another one must give up."""
    quota, rest = divmod(len(partitions), len(owned))
    larger = sorted(owned, key=lambda member_id: len(owned[member_id]) <= quota)[:rest]
    sizes = {member_id: quota + (member_id in larger) for member_id in owned}
    free = set(partitions)
    parts: dict[str, list[Partition]] = {}
    for member_id, mine in owned.items():
        parts[member_id] = sorted(mine & free)[: sizes[member_id]]
        free.difference_update(parts[member_id])
    given_up = {each for mine in owned.values() for each in mine}
    left = [each for each in partitions if each in free]
    for member_id, part in parts.items():
        count = sizes[member_id] - len(part)
        taken, left = left[:count], left[count:]
        part += [each for each in taken if not (is_cooperative and each in given_up)]
    return parts


def _by_topic(partitions: Iterable[Partition]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for topic, index in partitions:
        found[topic] = (*found.get(topic, ()), index)
    return found


class ConsumerMember(Member):
    """A member of a consumer group. It learns a change by a heartbeat, and follows it when it polls."""

    _heartbeat_ms = heartbeat_ms(Kind.CONSUMER, 0)
    _heard_by: Any = staticmethod(consumer_group_heartbeat)

    def __init__(self, world: "World", consumer: Consumer, number: int) -> None:
        super().__init__(world, consumer, number)
        self._processes = 0
        self._given: set[Partition] = set()
        """The assignment that it heard of last."""
        self._former: tuple[int, set[Partition]] = 0, set()
        """Its epoch before, and what it had then."""
        self._has_lost, self._changed_ms = False, 0
        """Whether it lost a partition when that epoch ended, and when that was."""
        self._gives_up = False

    def _duties(self) -> list[Coroutine[Any, Any, None]]:
        return [*super()._duties(), self._commit_late()]

    async def _commit_late(self) -> None:
        """Commits with its former epoch, when a commit was on its way while the epoch changed."""
        for late in self.consumer.late:
            if late.time_ms < self.world.now_ms:
                continue
            await self.world.until(late.time_ms)
            until_ms = late.time_ms + _LATE_MS
            while self._has_lost and not late.is_after_loss and self.world.now_ms < until_ms:
                await self.world.until(self.world.now_ms + _RETRY_MS)
            if self._awake.is_set() and self._former[0] > 0 and late.time_ms <= self._changed_ms + _LATE_MS:
                with suppress(KafkaError):
                    await self.commit(former=self._former)

    def _reset(self) -> None:
        self.member_id, self.epoch, self.partitions, self._given = "", 0, set(), set()

    def rebalance_started(self, now_ms: int) -> None:
        """A heartbeat says so."""

    async def beat(self) -> None:
        if self.member_id and self.epoch > 0:
            with suppress(KafkaError):
                await self._heartbeat(reports=False)

    async def _take_part(self) -> None:
        while True:
            try:
                await self._follow()
            except KafkaError:
                await asyncio.sleep(_RETRY_MS / 1000)
            await self._awake.wait()
            await self.world.until(self._rejoins_at_ms)
            await self.polls.wait()

    async def _follow(self) -> None:
        """Joins and follows its assignment until it is fenced. Raises KafkaError."""
        if not self.member_id:
            ids, self._processes = self.consumer.member_ids, self._processes + 1
            self.member_id = ids[self._processes - 1] if self._processes <= len(ids) else f"{ids[-1]}-{self._processes}"
        if self.epoch == 0:
            await self._heartbeat(reports=True)
        while self.epoch > 0:
            if self.partitions != self._given:
                now_ms, gives_up = self.world.now_ms, bool(self.partitions - self._given)
                await self._follow_rebalance(now_ms, now_ms, gives_up=gives_up)
                self._gives_up = bool(self.partitions - self._given)
                self._take(set(self._given))
                await self._heartbeat(reports=True)
                continue
            self._rebalance.clear()
            await self._rebalance.wait()

    async def _heartbeat(self, *, reports: bool) -> None:
        """Sends a heartbeat; the first one says everything. Raises KafkaError."""
        try:
            reply = await self._ask(
                self._heard_by, self._request(is_first=self.epoch == 0, reports=reports), _EPOCH_BEAT
            )
        except KafkaError as error:
            if error.code in _FENCED:
                self.epoch, self.partitions, self._given = 0, set(), set()
                self._rebalance.set()
            raise
        if reply.member_epoch != self.epoch:
            self._former = self.epoch, set(self.partitions)
            self._has_lost, self._changed_ms = self._gives_up, self.world.now_ms
            self._gives_up = False
        self.epoch = reply.member_epoch
        given = self._given_by(reply)
        if given is not None:
            self._given = given
            self._rebalance.set()

    async def _leave(self) -> None:
        self.epoch = -1 if self.instance_id is None else -2
        await self._ask(self._heard_by, self._request(is_first=False, reports=False), _EPOCH_BEAT)

    def _request(self, *, is_first: bool, reports: bool) -> Any:
        """A heartbeat. `reports`: it says which partitions the member has."""
        catalog = self.world.catalog
        request = ConsumerGroupHeartbeatRequest(
            GROUP, self.member_id, self.epoch, self.instance_id,
            rebalance_timeout_ms=self.world.settings.max_poll_interval_ms if is_first else -1,
            subscribed_topic_names=list(self.world.behaviour.topics) if is_first else None,
        )  # fmt: skip
        if reports:
            owned = ConsumerGroupHeartbeatRequest.TopicPartitions
            request.topic_partitions = [
                owned(catalog.topic_id(name) or b"", list(indexes))
                for name, indexes in _by_topic(sorted(self.partitions)).items()
            ]
        return request

    def _given_by(self, reply: Any) -> set[Partition] | None:
        """The partitions that a response assigns; None if it does not say."""
        if reply.assignment is None:
            return None
        return {
            (self.world.catalog.topic_name(each.topic_id) or "", index)
            for each in reply.assignment.topic_partitions
            for index in each.partitions
        }


class StreamsMember(ConsumerMember):
    """A member of a streams group. Its tasks are known by the partitions that they read."""

    _heard_by = staticmethod(streams_group_heartbeat)

    def _request(self, *, is_first: bool, reports: bool) -> Any:
        request = StreamsGroupHeartbeatRequest(
            GROUP, self.member_id, self.epoch, instance_id=self.instance_id,
            rebalance_timeout_ms=self.world.settings.max_poll_interval_ms if is_first else -1,
        )  # fmt: skip
        if is_first:
            made = StreamsGroupHeartbeatRequest.Subtopology
            subtopologies = enumerate(self.world.behaviour.subtopologies)
            request.topology = StreamsGroupHeartbeatRequest.Topology(
                1, [made(str(number), source_topics=sorted(names)) for number, names in subtopologies]
            )
            client_id, host = self.consumer.client
            request.process_id = f"{client_id.partition('-StreamThread-')[0]}@{host}"
        if reports:
            request.active_tasks, request.standby_tasks, request.warmup_tasks = self._owned_tasks(), [], []
        return request

    def _owned_tasks(self) -> list[StreamsGroupHeartbeatRequest.TaskIds]:
        # The first topic of a subtopology has a partition for each of its tasks.
        owned = _by_topic(sorted(self.partitions))
        return [
            StreamsGroupHeartbeatRequest.TaskIds(str(number), list(owned[names[0]]))
            for number, names in enumerate(self.world.behaviour.subtopologies)
            if names[0] in owned
        ]

    def _given_by(self, reply: Any) -> set[Partition] | None:
        if reply.active_tasks is None:
            return None
        behaviour = self.world.behaviour
        return {
            (name, index)
            for each in reply.active_tasks
            for name in behaviour.subtopologies[int(each.subtopology_id)]
            for index in each.partitions
            if index < behaviour.topics[name]
        }


MEMBERS: dict[str, type[Member]] = {CLASSIC: ClassicMember, CONSUMER: ConsumerMember, STREAMS: StreamsMember}
"""By group.protocol."""
