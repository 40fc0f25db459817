"""Derived state must equal a recount, and nothing may outlive the group or member that it belonged to.

- I16: every timer belongs to an existing group or member. Replies are parked only behind records that are not durable yet.
  Between two callbacks all mailboxes are empty. No request waits in a group that no longer exists.
- I8, the part that only the server can see: no process of a streams group has a task twice.
- I18: gauges, and the counts and indexes that operations maintain incrementally, equal a recount from the members and
  offsets, written as simply as possible.
- I33: the bytes that groups hold, which are counted as they change, equal a recount, and so does their sum over all groups.
- I31: no assignment of a classic group's leader counts as invalid, because simulated leaders make no mistakes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, cast

from coordinator.admin.metrics import Collector
from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.member import ClassicMember
from coordinator.groups.classic.resync import asks_same
from coordinator.groups.classic.states import State
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import MemberState
from coordinator.groups.epochs.group import ModernGroup
from coordinator.groups.group import Group
from coordinator.groups.held_bytes import (
    GROUP_BYTES,
    NAME_BYTES,
    PARTITION_BYTES,
    STORED_MEMBER_BYTES,
    member_bytes,
    text_bytes,
)
from coordinator.groups.kinds import LABELS, Kind
from coordinator.groups.machine import GroupMachine
from coordinator.groups.share.group import ShareGroup
from coordinator.groups.streams.group import StreamsGroup
from coordinator.runtime.result import TimerKey
from coordinator.runtime.shard import Shard, Status
from coordinator.server.composition import Server
from coordinator_lab.simulation.history import OnBroken


def check(server: Server, broken: OnBroken) -> None:
    """Checks a running server. Must be called between two callbacks."""
    for shard in server.groups.shards:
        if shard.status in (Status.FAILED, Status.LOADING):
            continue
        for problem in [*_orphaned_timers(shard), *_leaked_requests(shard)]:
            broken("I16 bounded", f"shard {shard.index}: {problem}")
        for group in shard.state.of_kind(Kind.CLASSIC):
            for problem in _classic_mismatches(cast(ClassicGroup, group)):
                broken("I18 derived state equals a recount", f"shard {shard.index}, {group.group_id}: {problem}")
        for group in shard.state.of_kind(Kind.CONSUMER):
            for problem in _consumer_mismatches(cast(ConsumerGroup, group)):
                broken("I18 derived state equals a recount", f"shard {shard.index}, {group.group_id}: {problem}")
        for group in shard.state.of_kind(Kind.STREAMS):
            streams = cast(StreamsGroup, group)
            for problem in _duplicate_tasks(streams):
                broken("I8 single owner", f"shard {shard.index}, {streams.group_id}: {problem}")
            for problem in _streams_mismatches(streams):
                broken("I18 derived state equals a recount", f"shard {shard.index}, {streams.group_id}: {problem}")
        for group in shard.state.of_kind(Kind.SHARE):
            for problem in _share_mismatches(cast(ShareGroup, group)):
                broken("I18 derived state equals a recount", f"shard {shard.index}, {group.group_id}: {problem}")
        if shard.state.counters.invalid_partitions:
            broken("I31 no false alarms", f"shard {shard.index}: {shard.state.counters.invalid_partitions}")
    for problem in _held_bytes_mismatches(server):
        broken("I33 held bytes equal a recount", problem)
    for problem in _gauge_mismatches(server):
        broken("I18 derived state equals a recount", problem)


# --- I33 --------------------------------------------------------------------------------------------------------------


def _held_bytes_mismatches(server: Server) -> Iterable[str]:
    total = 0
    for shard in server.groups.shards:
        in_shard = 0
        for group in shard.state.by_id.values():
            kept, recounted = (group.held_bytes, group.derived_bytes), held_bytes(group)
            if kept != recounted:
                yield f"shard {shard.index}: {group.group_id} holds {kept}, not {recounted}"
            in_shard += sum(kept)
        if shard.state.held_bytes.count != in_shard:
            yield f"shard {shard.index} holds {shard.state.held_bytes.count}, not {in_shard}"
        total += in_shard
    if server.held_bytes.total != total:
        yield f"all shards hold {server.held_bytes.total}, not {total}"


def held_bytes(group: Group) -> tuple[int, int]:
    """The bytes that a group holds and those that are derived, from its members and records."""
    match group:
        case ClassicGroup():
            held, derived = _classic_held_bytes(group)
        case ConsumerGroup():
            held = 0
            derived = len(_target_partitions(group)) * PARTITION_BYTES
            derived += sum(len(each.topics) for each in group.regexes.values()) * NAME_BYTES
        case StreamsGroup():
            held, derived = _streams_held_bytes(group)
        case ShareGroup():
            held, derived = 0, _share_derived_bytes(group)
        case _:
            raise AssertionError(group)
    if isinstance(group, ModernGroup):
        held += sum(member.held_bytes for member in group.members.values())
    derived += (
        sum(len(each) for losses in (group.fence.lost, group.fence.taken) for each in losses.values()) * PARTITION_BYTES
    )
    return GROUP_BYTES + text_bytes(group.group_id) + held, derived


def _classic_held_bytes(group: ClassicGroup) -> tuple[int, int]:
    held = sum(member_bytes(member.count_content()) for member in group.members.values())
    held += sum(member_bytes(text_bytes(member_id)) for member_id in group.pending_joins)
    if group.resync is not None:
        held += sum(len(each) for each in group.resync.assignments.values())
    derived = 0
    for record in (group.stored, group.forming):
        for each in () if record is None else record.members:
            derived += STORED_MEMBER_BYTES + len(each.member_id) + len(each.client_id)
            derived += len(each.subscription) + len(getattr(each, "assignment", b""))
    derived += sum(member.reading.held_bytes for member in group.members.values() if member.reading is not None)
    return held, derived


def _streams_held_bytes(group: StreamsGroup) -> tuple[int, int]:
    reported = [part for each in group.soft.task_offsets.values() for part in (each.offsets, each.end_offsets)]
    held = NAME_BYTES * sum(1 + len(tasks) for part in reported for tasks in part.values())
    if group.topology is not None:
        held += group.topology.held_bytes
    roles = [role for each in group.target.values() for role in (each.active, each.standby, each.warmup)]
    return held, PARTITION_BYTES * sum(len(numbers) for role in roles for numbers in role.values())


def _share_derived_bytes(group: ShareGroup) -> int:
    states = group.state_partitions
    with_state = sum(len(each.partitions) for of in (states.initializing, states.initialized) for each in of.values())
    in_target = sum(len(numbers) for part in group.target.values() for numbers in part.values())
    return PARTITION_BYTES * (with_state + in_target)


# --- I16 --------------------------------------------------------------------------------------------------------------


def _orphaned_timers(shard: Shard[GroupMachine]) -> Iterable[str]:
    """Timers of groups and members that no longer exist."""
    for key in shard._timers._entries:  # noqa: SLF001 - this check looks inside on purpose
        if not _has_owner(shard.state, key):
            yield f"a timer has no owner: {key}"


def _has_owner(groups: GroupMachine, key: TimerKey) -> bool:
    kind = str(key[0])
    protocol = kind.partition("-")[0]
    if protocol not in LABELS:
        return True
    group = groups.by_id.get(str(key[1]))
    if group is None or group.kind.label != protocol:
        return False
    if kind == "classic-pending":
        return key[2] in cast(ClassicGroup, group).pending_joins
    if kind == "classic-resync":
        resync = cast(ClassicGroup, group).resync
        return resync is not None and bool(resync.awaited)
    if kind in {"classic-join", "classic-sync", "consumer-regex", "streams-delay"}:
        return True
    return key[2] in group.members


def _leaked_requests(shard: Shard[GroupMachine]) -> Iterable[str]:
    if shard._mailbox:  # noqa: SLF001 - as above
        yield f"{len(shard._mailbox)} requests are in the mailbox"  # noqa: SLF001 - as above
    waiting, members = len(shard._waiting), 0  # noqa: SLF001 - as above
    for group in shard.state.of_kind(Kind.CLASSIC):
        members += len(group.members)
    if waiting > members:
        yield f"{waiting} requests wait in groups with {members} members"
    everything_is_durable = shard._offset_written == shard.offset_durable  # noqa: SLF001 - as above
    if everything_is_durable and len(shard.parked):
        yield f"{len(shard.parked)} replies are parked behind nothing"


# --- I18 --------------------------------------------------------------------------------------------------------------


def _classic_mismatches(group: ClassicGroup) -> Iterable[str]:
    members = group.members.values()
    counted: Mapping[str, tuple[Any, Any]] = {
        "awaiting_joins": (group.awaiting_joins, sum(member.awaiting_join is not None for member in members)),
        "support": (group.support, Counter(name for member in members for name, _ in member.protocols)),
        "static_members": (
            group.static_members,
            {member.group_instance_id: member.member_id for member in members if member.group_instance_id is not None},
        ),
        "the stored half": _stored_half(group),
        "content_bytes": ([each.content_bytes for each in members], [each.count_content() for each in members]),
    }
    for name, (kept, recounted) in counted.items():
        if kept != recounted:
            yield f"{name} is {kept}, not {recounted}"


def _stored_half(group: ClassicGroup) -> tuple[Any, Any]:
    """The log's last generation as it is, and as the round says it must be: members know no generation that it lacks."""
    last = group.stored if group.forming is None else group.forming
    generation = 0 if last is None else last.generation
    if last is None or group.state is State.PREPARING_REBALANCE:
        return generation, group.generation
    forms = group.state is State.COMPLETING_REBALANCE
    stored = [(each.member_id, each.subscription, getattr(each, "assignment", None)) for each in last.members]
    written = {each.member_id: each.subscription for each in last.members}
    members = [
        (
            member.member_id,
            _metadata(group, member, written.get(member.member_id, b"")),
            None if forms else member.assignment,
        )
        for member in group.members.values()
    ]
    # An administrator may have evicted all members of a generation that was forming.
    is_forming = group.forming is not None and group.state is not State.EMPTY
    return (
        (generation, is_forming, last.leader, last.protocol, stored),
        (group.generation, forms, group.leader_id, group.protocol_name, members),
    )


def _metadata(group: ClassicGroup, member: ClassicMember, written: bytes) -> bytes | None:
    """The member's metadata. On its way to a resynced assignment it may say something else about the past than the log."""
    metadata, name = member.metadata(group.protocol_name), group.protocol_name
    is_stable = group.state is State.STABLE and group.uses_consumer_protocol and metadata is not None
    return written if is_stable and asks_same(name or "", member.dialect, written, metadata or b"") else metadata


def _consumer_mismatches(group: ConsumerGroup) -> Iterable[str]:
    members = group.members.values()
    classic = [member.classic for member in members if member.classic is not None]
    by_regex = Counter(topic for regex in group.regexes.values() for topic in regex.topics)
    counted: Mapping[str, tuple[Any, Any]] = {
        "subscribed": (group.subscribed, Counter(topic for member in members for topic in member.topics) + by_regex),
        "regex_members": (group.regex_members, Counter(member.regex for member in members if member.regex)),
        "assignors": (group.assignors, Counter(member.assignor for member in members if member.assignor is not None)),
        "classic_members": (group.classic_members, len(classic)),
        "classic_protocols": (
            group.classic_protocols,
            Counter(name for each in classic for name in {name for name, _ in each.protocols}),
        ),
        "static_members": (
            group.static_members,
            {member.instance_id: member.member_id for member in members if member.instance_id is not None},
        ),
        "unreconciled": (
            group.unreconciled,
            {
                member.member_id
                for member in members
                if member.member_epoch != group.target_epoch or member.state is not MemberState.STABLE
            },
        ),
        "owners": (_flatten(group.owners), _held_partitions(group)),
        "inverted_target": (_flatten(group.inverted_target), _target_partitions(group)),
        "target_partition_count": (group.target_partition_count, len(_target_partitions(group))),
    }
    for name, (kept, recounted) in counted.items():
        if kept != recounted:
            yield f"{name} is {kept}, not {recounted}"


def _flatten(turned: Mapping[bytes, Mapping[int, str]]) -> list[tuple[bytes, int, str]]:
    return sorted((topic_id, each, who) for topic_id, owners in turned.items() for each, who in owners.items())


def _held_partitions(group: ConsumerGroup) -> list[tuple[bytes, int, str]]:
    return sorted(
        (topic_id, partition, member.member_id)
        for member in group.members.values()
        for held in (member.assigned, member.pending_revocation)
        for topic_id, partitions in held.items()
        for partition in partitions
    )


def _target_partitions(group: ConsumerGroup) -> list[tuple[bytes, int, str]]:
    return sorted(
        (topic_id, partition, member_id)
        for member_id, target in group.target.items()
        for topic_id, partitions in target.items()
        for partition in partitions
    )


def _share_mismatches(group: ShareGroup) -> Iterable[str]:
    members = group.members.values()
    behind = {member.member_id for member in members if not member.is_reconciled_to(group.target_epoch)}
    counted: Mapping[str, tuple[Any, Any]] = {
        "subscribed": (group.subscribed, dict(Counter(name for member in members for name in member.topics))),
        "unreconciled": (group.unreconciled, behind),
    }
    for name, (kept, recounted) in counted.items():
        if kept != recounted:
            yield f"{name} is {kept}, not {recounted}"


def _streams_mismatches(group: StreamsGroup) -> Iterable[str]:
    members = group.members.values()
    by_role: dict[str, dict[str, dict[int, set[str]]]] = {"active": {}, "standby": {}, "warmup": {}}
    for role, member_id, subtopology_id, number in _tasks(group):
        by_role[role].setdefault(subtopology_id, {}).setdefault(number, set()).add(member_id)
    active = {
        each: {number: {owner} for number, owner in owners.items()} for each, owners in group.active.items() if owners
    }
    counted: Mapping[str, tuple[Any, Any]] = {
        "active": (active, by_role["active"]),
        "standby": (_without_empty(group.standby), by_role["standby"]),
        "warmup": (_without_empty(group.warmup), by_role["warmup"]),
        "static_members": (
            group.static_members,
            {member.instance_id: member.member_id for member in members if member.instance_id is not None},
        ),
        "unreconciled": (
            group.unreconciled,
            {member.member_id for member in members if not member.is_reconciled_to(group.target_epoch)},
        ),
    }
    for name, (kept, recounted) in counted.items():
        if kept != recounted:
            yield f"{name} is {kept}, not {recounted}"


def _without_empty(holders: Mapping[str, Mapping[int, Any]]) -> dict[str, dict[int, set[str]]]:
    """Without empty entries."""
    found = {each: {number: set(who) for number, who in numbers.items() if who} for each, numbers in holders.items()}
    return {each: numbers for each, numbers in found.items() if numbers}


def _tasks(group: StreamsGroup) -> Iterable[tuple[str, str, str, int]]:
    """Role, member, subtopology and number of every task of the members, including tasks pending revocation."""
    for member in group.members.values():
        for held in (member.assigned, member.pending_revocation):
            roles: Mapping[str, Mapping[str, Iterable[int]]] = {
                "active": held.active, "standby": held.standby, "warmup": held.warmup,
            }  # fmt: skip
            for role, tasks in roles.items():
                for subtopology_id, numbers in tasks.items():
                    yield from ((role, member.member_id, subtopology_id, number) for number in numbers)


def _duplicate_tasks(group: StreamsGroup) -> Iterable[str]:
    """Tasks that are active on two members, or that two members of one process have in any role."""
    runs: dict[tuple[str, int], str] = {}
    has: dict[tuple[str, str, int], str] = {}
    for role, member_id, subtopology_id, number in _tasks(group):
        process_id = group.members[member_id].process_id
        others = [has.setdefault((process_id, subtopology_id, number), member_id)]
        if role == "active":
            others.append(runs.setdefault((subtopology_id, number), member_id))
        if set(others) != {member_id}:
            yield f"task {subtopology_id}_{number} belongs to {member_id} as {role} and to {others} (process {process_id})"


def _gauge_mismatches(server: Server) -> Iterable[str]:
    """Gauges that differ from a recount. Collecting all metrics also shows that they can be read at any time."""
    reported: Counter[str] = Counter()
    for family in Collector(server).collect():
        for sample in family.samples:
            reported[sample.name] += sample.value
    states = [shard.state for shard in server.groups.shards]
    groups = [group for state in states for group in state.by_id.values()]
    offsets = [each for state in states for each in state.offsets.by_group.values()]
    recounted = {
        "coordinator_groups": len(groups),
        "coordinator_members": sum(len(group.members) for group in groups),
        "coordinator_offsets": sum(len(each) for each in offsets),
        "coordinator_parked_replies": sum(len(shard.parked) for shard in server.shards),
    }
    for name, count in recounted.items():
        if reported[name] != count:
            yield f"{name} is {reported[name]:.0f}, not {count}"
