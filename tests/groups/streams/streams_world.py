"""A minimal world of streams groups: a shard (groups/harness.py), and members that behave like those of Kafka Streams.

`Thread` is one thread of an application: it sends its topology when it joins, processes its assigned tasks, stops a task before
it reports the revocation, reports its tasks only after a change, and joins again when it is fenced. Threads of one process
share a process id. The tasks of a thread are in `active` and `copies`: no two threads that the coordinator counts as members
may process the same task, and no two threads of one process may have the same task in any role.
"""

from typing import Any

from coordinator.groups.kinds import Kind
from coordinator.groups.streams.group import find_streams_group
from coordinator.groups.streams.heartbeat import streams_group_heartbeat
from coordinator.groups.streams.member import MemberState
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from coordinator.requests import streams_group_heartbeat as heartbeat_api
from tests.groups.harness import GroupHarness, SentRequest

DELAY_MS = 3_000
INTERVAL_MS = 1_000
SESSION_MS = 45_000

_Request = StreamsGroupHeartbeatRequest
_Tasks = dict[str, list[int]]


def part(
    subtopology_id: str = "0",
    sources: Any = ("t",),
    *,
    changelogs: Any = (),
    repartition_sources: Any = (),
    repartition_sinks: Any = (),
) -> StreamsGroupHeartbeatRequest.Subtopology:
    """One subtopology; internal topics by their names."""
    return _Request.Subtopology(
        subtopology_id=subtopology_id,
        source_topics=list(sources),
        state_changelog_topics=[_Request.TopicInfo(name) for name in changelogs],
        repartition_source_topics=[_Request.TopicInfo(name) for name in repartition_sources],
        repartition_sink_topics=list(repartition_sinks),
    )


def topology(*parts: StreamsGroupHeartbeatRequest.Subtopology, epoch: int = 1) -> StreamsGroupHeartbeatRequest.Topology:
    return _Request.Topology(epoch, list(parts or (part(),)))


PLAIN = topology()
"""One subtopology without state, which reads t: 4 tasks."""
STATEFUL = topology(part(changelogs=("t-log",)))
TWO_PARTS = topology(part("0", ("t",)), part("1", ("u",), changelogs=("u-log",)))


class StreamsHarness(GroupHarness):
    """A shard with the topics t (4 partitions) and u (2), and their changelogs; by default without an initial delay."""

    def __init__(self, topics: Any = None, **config: Any) -> None:
        known = {"t": 4, "u": 2, "t-log": 4, "u-log": 2} if topics is None else topics
        super().__init__(known, **{"group_streams_initial_rebalance_delay_ms": 0} | config)

    def beat(
        self,
        member_id: str = "m",
        epoch: int = 0,
        *,
        group_id: str = "g",
        sent: StreamsGroupHeartbeatRequest.Topology | None = None,
        active: _Tasks | None = None,
        standby: _Tasks | None = None,
        warmup: _Tasks | None = None,
        process: str | None = None,
        instance: str | None = None,
        rack: str | None = None,
        tags: dict[str, str] | None = None,
        endpoint: tuple[str, int] | None = None,
        rebalance_ms: int = -1,
        shutdown: bool = False,
        seen_endpoints: int = 0,
        offsets: Any = None,
        end_offsets: Any = None,
        version: int = 1,
        client_id: str | None = "client",
    ) -> SentRequest:
        """A heartbeat. Tasks and offsets are by subtopology id; if one kind of tasks is given, the others are empty."""
        if active is not None or standby is not None or warmup is not None:
            active, standby, warmup = active or {}, standby or {}, warmup or {}
        request = _Request(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            endpoint_information_epoch=seen_endpoints,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=rebalance_ms,
            topology=sent,
            active_tasks=_ids(active),
            standby_tasks=_ids(standby),
            warmup_tasks=_ids(warmup),
            process_id=process,
            user_endpoint=None if endpoint is None else _Request.Endpoint(*endpoint),
            client_tags=None if tags is None else [_Request.KeyValue(*each) for each in tags.items()],
            task_offsets=_offsets(offsets),
            task_end_offsets=_offsets(end_offsets),
            shutdown_application=shutdown,
        )
        return self.call(streams_group_heartbeat, request, version, heartbeat_api.API, client_id=client_id)

    def arrive(self, member_id: str = "m", **how: Any) -> SentRequest:
        """A complete join."""
        how = {"sent": PLAIN, "process": f"p-{member_id}", "rebalance_ms": 60_000, "active": {}} | how
        return self.beat(member_id, 0, **how)

    def streams(self, group_id: str = "g") -> Any:
        return self.groups.by_id[group_id]

    def member(self, member_id: str = "m", group_id: str = "g") -> Any:
        return self.streams(group_id).members[member_id]

    def kinds(self, since: int = 0) -> list[str]:
        """The types of the records written since then; tombstones have a minus."""
        return [("-" if record.value is None else "") + str(record.key.API_KEY) for record in self.records[since:]]


def _ids(tasks: _Tasks | None) -> list[StreamsGroupHeartbeatRequest.TaskIds] | None:
    return None if tasks is None else [_Request.TaskIds(each, list(numbers)) for each, numbers in tasks.items()]


def _offsets(offsets: Any) -> list[StreamsGroupHeartbeatRequest.TaskOffset] | None:
    """Of (subtopology id, number, offset)."""
    return None if offsets is None else [_Request.TaskOffset(*each) for each in offsets]


def tasks_in(tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None) -> _Tasks | None:
    return None if tasks is None else {each.subtopology_id: each.partitions for each in tasks}


def active(request: SentRequest) -> _Tasks | None:
    """The active tasks in an answer; None if it has none."""
    return tasks_in(request.reply.active_tasks)


def standby(request: SentRequest) -> _Tasks | None:
    return tasks_in(request.reply.standby_tasks)


def statuses(request: SentRequest) -> list[int]:
    return [each.status_code for each in request.reply.status]


def pairs(tasks: Any) -> set[tuple[str, int]]:
    return {(each, number) for each, numbers in tasks.items() for number in numbers}


def by_part(tasks: set[tuple[str, int]]) -> _Tasks:
    result: _Tasks = {}
    for subtopology_id, number in sorted(tasks):
        result.setdefault(subtopology_id, []).append(number)
    return result


class Thread:
    """A member of a Kafka Streams application."""

    def __init__(
        self,
        h: StreamsHarness,
        name: str,
        *,
        process: str | None = None,
        sent: StreamsGroupHeartbeatRequest.Topology = PLAIN,
        instance: str | None = None,
        endpoint: tuple[str, int] | None = None,
    ) -> None:
        self.h, self.id, self.process, self.sent = h, name, process or f"p-{name}", sent
        self.instance, self.endpoint = instance, endpoint
        self.fenced = 0
        self.forget()

    def forget(self) -> None:
        """It was fenced or restarts: it owns nothing and knows nothing."""
        self.epoch = 0
        self.active: set[tuple[str, int]] = set()
        self.standby: set[tuple[str, int]] = set()
        self.warmup: set[tuple[str, int]] = set()
        self.received: list[set[tuple[str, int]]] | None = None
        """The last assignment it received, if it has not yet applied it."""
        self.says_tasks = True
        self.says_all = True

    @property
    def copies(self) -> set[tuple[str, int]]:
        return self.standby | self.warmup

    @property
    def is_in(self) -> bool:
        group = find_streams_group(self.h.groups, "g")
        return group is not None and self.id in group.members

    def beat(self, *, lose_answer: bool = False) -> SentRequest:
        if self.received is not None:
            self.active, self.standby, self.warmup = (set(each) for each in self.received)
            self.received = None
        full = self.says_all or self.epoch == 0
        says = full or self.says_tasks
        request = self.h.beat(
            self.id,
            self.epoch,
            sent=self.sent if self.epoch == 0 else None,
            active=by_part(self.active) if says else None,
            standby=by_part(self.standby) if says else None,
            warmup=by_part(self.warmup) if says else None,
            process=self.process if full else None,
            instance=self.instance,
            endpoint=self.endpoint if full else None,
            rebalance_ms=60_000 if full else -1,
        )
        if lose_answer:
            self.says_all = True
        else:
            self._hear(request)
        return request

    def _hear(self, request: SentRequest) -> None:
        if not request.ok:
            if request.error not in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED):
                self.fenced += 1
                self.forget()
            return
        self.says_all = self.says_tasks = False
        self.epoch = request.reply.member_epoch
        if request.reply.active_tasks is not None:
            self.received = [
                pairs(each) for each in (active(request), standby(request), tasks_in(request.reply.warmup_tasks))
            ]
            # It stops revoked tasks now, and reports new ones with its next heartbeat.
            self.active &= self.received[0]
            self.standby &= self.received[1]
            self.warmup &= self.received[2]
            self.says_tasks = True

    def leave(self, epoch: int = -1) -> SentRequest:
        request = self.h.beat(self.id, epoch, instance=self.instance)
        self.forget()
        return request


def settle(h: StreamsHarness, threads: Any, rounds: int = 20, step_ms: int = 600) -> None:
    """All members send heartbeats again and again."""
    for _ in range(rounds):
        for thread in threads:
            thread.beat()
        h.advance(step_ms)


def assert_one_owner(threads: Any) -> None:
    """No two members process the same task, and no two of one process have the same task."""
    owners: dict[tuple[str, int], str] = {}
    holders: dict[tuple[str, str, int], str] = {}
    for thread in threads:
        if not thread.is_in:
            continue
        for task in thread.active:
            assert task not in owners, f"{task} is processed by {owners[task]} and {thread.id}"
            owners[task] = thread.id
        for task in thread.active | thread.copies:
            key = (thread.process, *task)
            assert key not in holders, f"{task} is twice in {thread.process}"
            holders[key] = thread.id


def assert_sound(h: StreamsHarness) -> None:
    """The same from inside; the order of the epochs, the meaning of states, and what is derived from the members."""
    assert not h.groups.uncommitted_groups, "a group that was never created is kept"
    h.epochs_seen.forget(group.group_id for group in h.groups.of_kind(Kind.STREAMS))
    for group in h.groups.of_kind(Kind.STREAMS):
        held: tuple[dict[str, Any], dict[str, Any], dict[str, Any]] = ({}, {}, {})
        processes: dict[tuple[str, str, int], str] = {}
        for member in group.members.values():
            assert member.member_epoch <= group.target_epoch <= group.group_epoch, member
            if member.state is MemberState.STABLE:
                assert not member.pending_revocation, member
            assert (member.state is MemberState.UNREVOKED_TASKS) == bool(member.pending_revocation), member
            for tasks in (member.assigned, member.pending_revocation):
                for kind, of_kind in zip(held, (tasks.active, tasks.standby, tasks.warmup), strict=True):
                    for subtopology_id, numbers in of_kind.items():
                        assert numbers, member
                        for number in numbers:
                            kind.setdefault(subtopology_id, {}).setdefault(number, set()).add(member.member_id)
                            key = (member.process_id, subtopology_id, number)
                            assert processes.setdefault(key, member.member_id) == member.member_id, key
        h.epochs_seen.check(group, _held)
        owners = {each: {number: who for number, (who,) in held[0][each].items()} for each in held[0]}
        assert (owners, held[1], held[2]) == (group.active, group.standby, group.warmup)
        assert group.unreconciled == {
            each for each, member in group.members.items() if not member.is_reconciled_to(group.target_epoch)
        }
        static = {member.instance_id: each for each, member in group.members.items() if member.instance_id is not None}
        assert group.static_members == static
    assert h.durable() == h.durable(h.records)


def _held(member: Any) -> dict[Any, int]:
    return {
        (subtopology_id, number): epoch
        for held in (member.assigned, member.pending_revocation)
        for subtopology_id, numbers in held.active.items()
        for number, epoch in numbers.items()
    }
