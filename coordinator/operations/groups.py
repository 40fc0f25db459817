"""Lists, describes and deletes groups over the Kafka protocol, and shows and resets their offsets.

(What Kafka's protocol cannot do is in coordinator_testing/control.)

In a cluster the groups are on several servers. To list them, all servers are asked; requests for one group go to its
coordinator. Requests use the newest version that has the names of topics, because deleted topics that still have offsets
have no ids.

A reset starts as a plan with the old and the new offset of each partition, within the bounds of the log. Only `commit`
changes anything. The command refuses it while the group has members, because they would overwrite the offsets.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator.client.reading import EARLIEST, LATEST, offsets_request
from coordinator.operations.client import Client, Connection, OperationFailed, error_name, refuse_error
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeShareGroupOffsetsRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    Request,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from coordinator.protocol.subscription import parse_assignment
from coordinator.protocol.wire import DecodeError

_OFFSET_MAX = 2**63 - 1
_BY_NAME = 9
"""The newest version of OffsetCommit and OffsetFetch that has topic names."""

Partition = tuple[str, int]
DOES_NOT_EXIST = "Dead"
SHARE = "share"
"""The type of share groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A row of the list. Old servers report neither type nor state, which are empty then."""

    group_id: str
    type: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member.

    `assignment` is None if it is not one of the consumer protocol. In a streams group it has the partitions that the
    active tasks of the member read, and `tasks` maps `active`, `standby` and `warmup` to subtopology -> task numbers.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    epoch: int | None
    assignment: Mapping[str, Sequence[int]] | None
    tasks: Mapping[str, Mapping[str, Sequence[int]]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A group. `epoch` is None for a classic group, because Kafka's protocol does not report generations."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    protocol: str
    epoch: int | None
    coordinator: str
    members: Sequence[Member]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """The position of a group in one partition. `end` is None if the topic no longer exists, or has no leader.

    Of a share group: where the partition starts for it. `lag` then leaves out the records behind it that are done with.
    """

    topic: str
    partition: int
    offset: int | None
    end: int | None
    lag: int | None
    metadata: str | None
    owner: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """The reset of one partition. `old` is None if the group had no offset for it."""

    topic: str
    partition: int
    old: int | None
    new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The partitions to reset: topic -> partitions, or topic -> () for all of them.

    Without topics: all partitions for which the group has an offset.
    """

    topics: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of a reset: a timestamp of ListOffsets, an offset, or a distance. Exactly one is set."""

    timestamp: int | None = None
    offset: int | None = None
    shift: int | None = None


# --- show -------------------------------------------------------------------------------------------------------------


def list_groups(client: Client, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
    """All groups of the cluster, in the order of their names."""
    found: list[ListedGroup] = []
    for address in client.brokers():
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        connection = client.to(address)
        answer = connection.ask(request)
        refuse_error(answer.error_code, f"cannot list the groups of {connection.name}")
        found += [
            ListedGroup(
                group_id=group.group_id,
                type=group.group_type,
                protocol_type=group.protocol_type,
                state=group.group_state,
            )
            for group in answer.groups
        ]
    return sorted(found, key=lambda group: group.group_id)


def describe(client: Client, group_id: str) -> DescribedGroup:
    """A group. Raises OperationFailed if it does not exist or is of a kind that this command does not know."""
    group = find(client, group_id)
    if group is not None:
        return group
    listed = next((each for each in list_groups(client) if each.group_id == group_id), None)
    if listed is not None:
        raise OperationFailed(
            f"group {group_id} is a {listed.type} group ({listed.state}), which this command cannot describe"
        )
    raise OperationFailed(f"there is no group {group_id}")


def find(client: Client, group_id: str) -> DescribedGroup | None:
    """A classic, consumer, streams or share group, or None if there is none of this name."""
    answer = client.ask_coordinator(group_id, DescribeGroupsRequest(groups=[group_id]))
    connection = client.coordinator(group_id)
    [group] = answer.groups
    if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
        refuse_error(group.error_code, f"cannot describe group {group_id}", group.error_message)
        if group.group_state != DOES_NOT_EXIST:
            return _classic(group, connection)
    kinds: tuple[tuple[Request[Any], Callable[[Any, Connection], DescribedGroup]], ...] = (
        (ConsumerGroupDescribeRequest(group_ids=[group_id]), _consumer),
        (StreamsGroupDescribeRequest(group_ids=[group_id]), _streams),
        (ShareGroupDescribeRequest(group_ids=[group_id]), _share),
    )
    for request, described in kinds:
        if connection.supports(type(request)):
            [found] = client.ask_coordinator(group_id, request).groups
            # A server can know the API although groups of this kind are switched off.
            if found.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                refuse_error(found.error_code, f"cannot describe group {group_id}", found.error_message)
                return described(found, connection)
    return None


def _classic(group: DescribeGroupsResponse.DescribedGroup, connection: Connection) -> DescribedGroup:
    reads = group.protocol_type == "consumer"
    return DescribedGroup(
        group_id=group.group_id,
        type="classic",
        state=group.group_state,
        protocol_type=group.protocol_type,
        protocol=group.protocol_data,
        epoch=None,
        coordinator=connection.name,
        members=[
            Member(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                epoch=None,
                assignment=_assignment(member.member_assignment) if reads else None,
            )
            for member in group.members
        ],
    )


def _assignment(data: bytes) -> Mapping[str, Sequence[int]] | None:
    try:
        return parse_assignment(data).partitions
    except DecodeError:
        return None


def _consumer(group: ConsumerGroupDescribeResponse.DescribedGroup, connection: Connection) -> DescribedGroup:
    members = [
        _member(member, {each.topic_name: each.partitions for each in member.assignment.topic_partitions})
        for member in group.members
    ]
    return _described("consumer", group, members, connection)


def _streams(group: StreamsGroupDescribeResponse.DescribedGroup, connection: Connection) -> DescribedGroup:
    """A task reads the partitions with its number in the topics of its subtopology."""
    parts = (group.topology.subtopologies or ()) if group.topology is not None else ()
    inputs = {
        part.subtopology_id: [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)]
        for part in parts
    }
    members = []
    for member in group.members:
        held = member.assignment
        by_kind = {"active": held.active_tasks, "standby": held.standby_tasks, "warmup": held.warmup_tasks}
        tasks = {
            kind: {each.subtopology_id: each.partitions for each in of_kind}
            for kind, of_kind in by_kind.items()
            if of_kind
        }
        members.append(_member(member, _partitions_read(held.active_tasks, inputs), tasks))
    return _described("streams", group, members, connection)


def _share(group: ShareGroupDescribeResponse.DescribedGroup, connection: Connection) -> DescribedGroup:
    members = [
        _member(member, {each.topic_name: each.partitions for each in member.assignment.topic_partitions})
        for member in group.members
    ]
    return _described(SHARE, group, members, connection)


def _described(
    kind: str,
    group: ConsumerGroupDescribeResponse.DescribedGroup
    | ShareGroupDescribeResponse.DescribedGroup
    | StreamsGroupDescribeResponse.DescribedGroup,
    members: Sequence[Member],
    connection: Connection,
) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        type=kind,
        state=group.group_state,
        protocol_type=kind,
        protocol=group.assignor_name or "",
        epoch=group.group_epoch,
        coordinator=connection.name,
        members=members,
    )


def _member(
    member: ConsumerGroupDescribeResponse.Member
    | ShareGroupDescribeResponse.Member
    | StreamsGroupDescribeResponse.Member,
    assignment: Mapping[str, Sequence[int]],
    tasks: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=getattr(member, "instance_id", None),
        client_id=member.client_id,
        client_host=member.client_host,
        epoch=member.member_epoch,
        assignment=assignment,
        tasks=tasks,
    )


def _partitions_read(
    active: Iterable[StreamsGroupDescribeResponse.TaskIds], inputs: Mapping[str, Iterable[str]]
) -> dict[str, list[int]]:
    """The partitions that active tasks read, by topic.

    A topic can have fewer partitions than its subtopology has tasks, so some of these may not exist.
    """
    read: dict[str, set[int]] = {}
    for each in active:
        for topic in inputs.get(each.subtopology_id, ()):
            read.setdefault(topic, set()).update(each.partitions)
    return {topic: sorted(partitions) for topic, partitions in sorted(read.items())}


def offsets(client: Client, group: DescribedGroup) -> list[CommittedOffset]:
    """The partitions that a group has committed, or has a state for, or is assigned, with their log end offsets."""
    is_share = group.type == SHARE
    lags: Mapping[Partition, int | None] = {}
    committed: Mapping[Partition, tuple[int | None, str | None]]
    if is_share:
        starts = _starts(client, group.group_id)
        committed = {key: (start, None) for key, (start, _) in starts.items()}
        lags = {key: lag for key, (_, lag) in starts.items()}
    else:
        committed = _committed(client, group.group_id)
    owners: dict[Partition, str] = {}
    for member in group.members:
        for topic, partitions in (member.assignment or {}).items():
            for key in ((topic, partition) for partition in partitions):
                # Several members of a share group read a partition together.
                owners[key] = f"{owners[key]}, {member.member_id}" if is_share and key in owners else member.member_id
    wanted = sorted(committed.keys() | owners.keys())
    led_by = _led_by(client, sorted({topic for topic, _ in wanted}), wanted)
    ends = positions(client, {key: LATEST for key, leader in led_by.items() if leader is not None})
    # Leave out partitions that do not exist; see _partitions_read.
    wanted = [key for key in wanted if key in committed or key in led_by]
    return [
        CommittedOffset(
            topic=key[0],
            partition=key[1],
            offset=committed.get(key, (None, None))[0],
            end=ends.get(key),
            lag=lags.get(key) if is_share else _lag(committed.get(key, (None, None))[0], ends.get(key)),
            metadata=committed.get(key, (None, None))[1],
            owner=owners.get(key),
        )
        for key in wanted
    ]


def _lag(offset: int | None, end: int | None) -> int | None:
    return None if end is None or offset is None else max(0, end - offset)


def _starts(client: Client, group_id: str) -> dict[Partition, tuple[int | None, int | None]]:
    """Where the share partitions of a group start, and their lags; None: not known, or not decided yet."""
    asked = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    answer = client.ask_coordinator(group_id, DescribeShareGroupOffsetsRequest(groups=[asked]))
    (found,) = answer.groups
    refuse_error(found.error_code, f"cannot describe the offsets of group {group_id}")
    return {
        (topic.topic_name, each.partition_index): (_unless_negative(each.start_offset), _unless_negative(each.lag))
        for topic in found.topics
        for each in topic.partitions
    }


def _unless_negative(number: int) -> int | None:
    return None if number < 0 else number


def _committed(client: Client, group_id: str) -> dict[Partition, tuple[int, str | None]]:
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=None)
    request = OffsetFetchRequest(groups=[group])
    single = OffsetFetchRequest(group_id=group_id, topics=None)
    several = client.coordinator(group_id).version_of(OffsetFetchRequest, _BY_NAME) >= 8
    answer = client.ask_coordinator(group_id, request if several else single, version_max=_BY_NAME)
    found: Any = answer.groups[0] if several else answer
    refuse_error(found.error_code, f"cannot fetch the offsets of group {group_id}")
    out: dict[Partition, tuple[int, str | None]] = {}
    for topic in found.topics:
        for partition in topic.partitions:
            where = f"{topic.name}-{partition.partition_index}"
            refuse_error(partition.error_code, f"cannot fetch the offset of group {group_id} in {where}")
            if partition.committed_offset >= 0:
                out[topic.name, partition.partition_index] = (partition.committed_offset, partition.metadata or "")
    return out


def positions(client: Client, wanted: Mapping[Partition, int]) -> dict[Partition, int]:
    """The offset in each partition for its timestamp of ListOffsets. Partitions that do not exist are left out.

    An offset of -1 means that the partition has no record at or after the timestamp.
    """
    if not wanted:
        return {}
    led_by = leaders(client, sorted({topic for topic, _ in wanted}), wanted)
    by_leader: dict[tuple[str, int], list[tuple[str, int, int]]] = {}
    for (topic, partition), timestamp in wanted.items():
        leader = led_by.get((topic, partition))
        if leader is not None:
            by_leader.setdefault(leader, []).append((topic, partition, timestamp))
    out: dict[Partition, int] = {}
    for leader, asked in by_leader.items():
        answer = client.ask_leader(leader, offsets_request(asked))
        for each in answer.topics:
            for found in each.partitions:
                where = f"{each.name}-{found.partition_index}"
                refuse_error(found.error_code, f"cannot list the offsets of {where}")
                out[each.name, found.partition_index] = found.offset
    return out


def leaders(
    client: Client, topics: list[str], wanted: Container[Partition] | None = None
) -> dict[Partition, tuple[str, int]]:
    """Partition -> address of its leader, for the topics that exist. `wanted`: only these partitions; None is all.

    Raises OperationFailed if one of them has no leader.
    """
    found = {}
    for (topic, partition), leader in _led_by(client, topics, wanted).items():
        if leader is None:
            raise OperationFailed(f"{topic}-{partition} has no leader at the moment")
        found[topic, partition] = leader
    return found


def _led_by(
    client: Client, topics: list[str], wanted: Container[Partition] | None = None
) -> dict[Partition, tuple[str, int] | None]:
    """As `leaders`. None is a partition without a leader; with `data.plane=none` none has one."""
    if not topics:
        return {}
    metadata = client.metadata(topics)
    servers = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
    found: dict[Partition, tuple[str, int] | None] = {}
    for topic in metadata.topics:
        assert topic.name is not None, "the request has names"
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        refuse_error(topic.error_code, f"cannot look up topic {topic.name}")
        for partition in topic.partitions:
            key = topic.name, partition.partition_index
            if wanted is None or key in wanted:
                found[key] = servers.get(partition.leader_id)
    return found


# --- change -----------------------------------------------------------------------------------------------------------


def delete(client: Client, group_ids: Sequence[str]) -> dict[str, str | None]:
    """Deletes groups. Returns group -> None if it was deleted, else the reason why not."""
    outcome: dict[str, str | None] = {}
    for group_id in group_ids:
        answer = client.ask_coordinator(group_id, DeleteGroupsRequest(groups_names=[group_id]))
        code = answer.results[0].error_code
        outcome[group_id] = (answer.results[0].error_message or error_name(code)) if code else None
    return outcome


def plan_reset(
    client: Client, group_id: str, selection: Selection, target: Target, *, is_share: bool = False
) -> list[Reset]:
    """The resets that `commit` or, of a share group, `alter` would carry out.

    An offset or a shift is limited to the records of the partition, unless it has no leader: nobody knows them then. Raises
    OperationFailed if a topic or partition does not exist, if there is nothing to reset, or if the target needs a leader.
    """
    if is_share:
        old = {key: start for key, (start, _) in _starts(client, group_id).items() if start is not None}
    else:
        old = {key: offset for key, (offset, _) in _committed(client, group_id).items()}
    selected = _selected(client, group_id, selection, old)
    led = [key for key, leader in selected.items() if leader is not None or target.timestamp is not None]
    earliest = positions(client, dict.fromkeys(led, EARLIEST))
    latest = positions(client, dict.fromkeys(led, LATEST))
    at_time: dict[Partition, int] = {}
    if target.timestamp not in {None, EARLIEST, LATEST}:
        assert target.timestamp is not None
        at_time = positions(client, dict.fromkeys(selected, target.timestamp))
    plan = []
    for key in selected:
        if target.timestamp is not None:
            wanted = {EARLIEST: earliest[key], LATEST: latest[key]}.get(target.timestamp)
            if wanted is None:
                wanted = at_time[key] if at_time[key] >= 0 else latest[key]
        elif target.offset is not None:
            wanted = target.offset
        else:
            assert target.shift is not None
            if key not in old:
                raise OperationFailed(f"group {group_id} has no offset for {key[0]}-{key[1]}, so it cannot be shifted")
            wanted = old[key] + target.shift
        new = min(max(wanted, earliest.get(key, 0)), latest.get(key, _OFFSET_MAX))
        plan.append(Reset(topic=key[0], partition=key[1], old=old.get(key), new=new))
    return plan


def _selected(
    client: Client, group_id: str, selection: Selection, old: Mapping[Partition, int]
) -> dict[Partition, tuple[str, int] | None]:
    """The partitions to reset, in order, with the addresses of their leaders (`_led_by`)."""
    if not selection.topics:
        if not old:
            raise OperationFailed(f"group {group_id} has no offsets; specify the topics")
        present = _led_by(client, sorted({topic for topic, _ in old}))
        return {key: present[key] for key in sorted(old) if key in present}
    present = _led_by(client, sorted(selection.topics))
    selected = []
    for topic, partitions in selection.topics.items():
        there = sorted(partition for name, partition in present if name == topic)
        if not there:
            raise OperationFailed(f"there is no topic {topic}")
        for partition in partitions or there:
            if partition not in there:
                raise OperationFailed(f"topic {topic} has no partition {partition}")
            selected.append((topic, partition))
    return {key: present[key] for key in sorted(set(selected))}


def refuse_active(group: DescribedGroup | None) -> None:
    """Raises OperationFailed if the group has members. A group that does not exist yet can get offsets."""
    if group is not None and group.members:
        raise OperationFailed(
            f"group {group.group_id} is {group.state} and has {len(group.members)} member(s): "
            "stop them before resetting offsets"
        )


def commit(client: Client, group_id: str, plan: Sequence[Reset]) -> None:
    """Commits the new offsets. Raises OperationFailed with the first partition that the server refuses."""
    topics: dict[str, list[OffsetCommitRequest.OffsetCommitRequestPartition]] = {}
    for reset in plan:
        topics.setdefault(reset.topic, []).append(
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=reset.partition, committed_offset=reset.new, committed_metadata=""
            )
        )
    request = OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )
    answer = client.ask_coordinator(group_id, request, version_max=_BY_NAME)
    for topic in answer.topics:
        for partition in topic.partitions:
            where = f"{topic.name}-{partition.partition_index}"
            refuse_error(partition.error_code, f"cannot reset group {group_id} in {where}")


def alter(client: Client, group_id: str, plan: Sequence[Reset]) -> None:
    """Sets where the share partitions of a group start. Raises OperationFailed with the first one that the server refuses."""
    topics: dict[str, list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition]] = {}
    for reset in plan:
        topics.setdefault(reset.topic, []).append(
            AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition(reset.partition, reset.new)
        )
    asked = [AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic(*each) for each in topics.items()]
    answer = client.ask_coordinator(group_id, AlterShareGroupOffsetsRequest(group_id=group_id, topics=asked))
    refuse_error(answer.error_code, f"cannot reset group {group_id}")
    for topic in answer.responses:
        for each in topic.partitions:
            refuse_error(each.error_code, f"cannot reset group {group_id} in {topic.topic_name}-{each.partition_index}")
