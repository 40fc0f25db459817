"""Groups as a client of the Kafka protocol sees them: listed, described, deleted, their offsets shown and reset.

Groups live on several servers in a real cluster, so listing asks all of them, and everything about one group goes to its
coordinator. Requests that name topics use the newest version that does it by name: ids of topics would have to be
looked up, and offsets of deleted topics have none.

Resetting is a plan first: a row per partition with the old and the new offset, kept within what the log has. Only
`commit` changes anything, and only for a group without members, whose commits would otherwise follow.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from coordinator.operations.client import Client, Connection, OperationFailed, named, refuse_error
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from coordinator.protocol.subscription import parse_assignment
from coordinator.protocol.wire import DecodeError

EARLIEST, LATEST = -2, -1
"""ListOffsets' timestamps for the two ends of a log."""
_BY_NAME = 9
"""The newest version of OffsetCommit and OffsetFetch that names topics."""

Partition = tuple[str, int]
DOES_NOT_EXIST = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """One row of a list. An old server says neither type nor state: empty."""

    group_id: str
    type: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """`assignment` is None where it is not a consumer's and so not ours to read; of a member of a streams group it is what its
    active tasks read. `tasks`, of such a member only: kind (`active`, `standby`, `warmup`) -> subtopology -> numbers."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    epoch: int | None
    assignment: Mapping[str, Sequence[int]] | None
    tasks: Mapping[str, Mapping[str, Sequence[int]]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A group. `epoch`: of a consumer or streams group; a classic one's generation is not told."""

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
    """Where a group is in one partition. `end` is None where the topic is gone."""

    topic: str
    partition: int
    offset: int | None
    end: int | None
    metadata: str | None
    owner: str | None

    @property
    def lag(self) -> int | None:
        return None if self.end is None or self.offset is None else max(0, self.end - self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """What a reset does to one partition. `old` is None where nothing was committed."""

    topic: str
    partition: int
    old: int | None
    new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which partitions a reset is about: topic -> partitions (empty: all of them); no topic: all with an offset."""

    topics: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a reset goes: to a ListOffsets timestamp, to an offset, or by a distance; exactly one is set."""

    timestamp: int | None = None
    offset: int | None = None
    shift: int | None = None


# --- looking ----------------------------------------------------------------------------------------------------------


def list_groups(client: Client, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
    """Every group of the cluster, by name."""
    found: list[ListedGroup] = []
    for where in client.brokers():
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        answer = cast(ListGroupsResponse, client.to(where).ask(request))
        refuse_error(answer.error_code, f"cannot list the groups of {where[0]}:{where[1]}")
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
    """One group. OperationFailed if there is none, or if it is of a kind that is not described here (share groups)."""
    group = find(client, group_id)
    if group is not None:
        return group
    listed = next((each for each in list_groups(client) if each.group_id == group_id), None)
    if listed is not None:
        raise OperationFailed(f"group {group_id} is a {listed.type} group ({listed.state}): not described here")
    raise OperationFailed(f"there is no group {group_id}")


def find(client: Client, group_id: str) -> DescribedGroup | None:
    """A classic, consumer or streams group, or None."""
    answer = cast(DescribeGroupsResponse, client.ask_coordinator(group_id, DescribeGroupsRequest(groups=[group_id])))
    connection = client.coordinator(group_id)
    [group] = answer.groups
    if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
        refuse_error(group.error_code, f"cannot describe group {group_id}", group.error_message)
        if group.group_state != DOES_NOT_EXIST:
            return _classic(group, connection)
    if connection.speaks(ConsumerGroupDescribeRequest):
        consumers = client.ask_coordinator(group_id, ConsumerGroupDescribeRequest(group_ids=[group_id]))
        [consumer] = cast(ConsumerGroupDescribeResponse, consumers).groups
        if consumer.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            refuse_error(consumer.error_code, f"cannot describe group {group_id}", consumer.error_message)
            return _consumer(consumer, connection)
    if connection.speaks(StreamsGroupDescribeRequest):
        several = client.ask_coordinator(group_id, StreamsGroupDescribeRequest(group_ids=[group_id]))
        [streams] = cast(StreamsGroupDescribeResponse, several).groups
        # A server that knows the request and does not serve such groups has none.
        if streams.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            refuse_error(streams.error_code, f"cannot describe group {group_id}", streams.error_message)
            return _streams(streams, connection)
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
        coordinator="{}:{}".format(*connection.address),
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
    return DescribedGroup(
        group_id=group.group_id,
        type="consumer",
        state=group.group_state,
        protocol_type="consumer",
        protocol=group.assignor_name,
        epoch=group.group_epoch,
        coordinator="{}:{}".format(*connection.address),
        members=[
            Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                epoch=member.member_epoch,
                assignment={each.topic_name: each.partitions for each in member.assignment.topic_partitions},
            )
            for member in group.members
        ],
    )


def _streams(group: StreamsGroupDescribeResponse.DescribedGroup, connection: Connection) -> DescribedGroup:
    """What a member reads follows from its active tasks: the partitions of those numbers of its subtopologies' topics."""
    parts = (group.topology.subtopologies or ()) if group.topology is not None else ()
    inputs = {
        part.subtopology_id: [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)]
        for part in parts
    }
    return DescribedGroup(
        group_id=group.group_id,
        type="streams",
        state=group.group_state,
        protocol_type="streams",
        protocol=group.assignor_name or "",
        epoch=group.group_epoch,
        coordinator="{}:{}".format(*connection.address),
        members=[
            Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                epoch=member.member_epoch,
                assignment=_read_by(member.assignment.active_tasks, inputs),
                tasks={
                    kind: {each.subtopology_id: each.partitions for each in tasks}
                    for kind, tasks in (
                        ("active", member.assignment.active_tasks),
                        ("standby", member.assignment.standby_tasks),
                        ("warmup", member.assignment.warmup_tasks),
                    )
                    if tasks
                },
            )
            for member in group.members
        ],
    )


def _read_by(
    active: Iterable[StreamsGroupDescribeResponse.TaskIds], inputs: Mapping[str, Iterable[str]]
) -> dict[str, list[int]]:
    """A topic with fewer partitions than its subtopology has tasks is read by the first of them, and how many that are only
    the topic says: here are numbers, too, that it has not."""
    read: dict[str, set[int]] = {}
    for each in active:
        for topic in inputs.get(each.subtopology_id, ()):
            read.setdefault(topic, set()).update(each.partitions)
    return {topic: sorted(partitions) for topic, partitions in sorted(read.items())}


def offsets(client: Client, group_id: str, members: Iterable[Member] = ()) -> list[CommittedOffset]:
    """What a group has committed or been assigned, by partition, with the ends of the logs."""
    committed = _committed(client, group_id)
    owners = {
        (topic, partition): member.member_id
        for member in members
        for topic, partitions in (member.assignment or {}).items()
        for partition in partitions
    }
    wanted = sorted(committed.keys() | owners.keys())
    ends = positions(client, dict.fromkeys(wanted, LATEST))
    # A task may have a number that one of the topics it reads has not.
    wanted = [key for key in wanted if key in committed or key in ends]
    return [
        CommittedOffset(
            topic=key[0],
            partition=key[1],
            offset=committed.get(key, (None, None))[0],
            end=ends.get(key),
            metadata=committed.get(key, (None, None))[1],
            owner=owners.get(key),
        )
        for key in wanted
    ]


def _committed(client: Client, group_id: str) -> dict[Partition, tuple[int, str | None]]:
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=None)
    request = OffsetFetchRequest(groups=[group])
    single = OffsetFetchRequest(group_id=group_id, topics=None)
    several = client.coordinator(group_id).version_of(OffsetFetchRequest, _BY_NAME) >= 8
    answer = cast(
        OffsetFetchResponse,
        client.ask_coordinator(group_id, request if several else single, version_max=_BY_NAME),
    )
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
    """Partition -> offset for a ListOffsets timestamp; those that do not exist are left out.

    An offset of -1 says that the partition has no record so late.
    """
    if not wanted:
        return {}
    leaders = _leaders(client, sorted({topic for topic, _ in wanted}))
    by_leader: dict[tuple[str, int], dict[str, list[tuple[int, int]]]] = {}
    for (topic, partition), timestamp in wanted.items():
        leader = leaders.get((topic, partition))
        if leader is not None:
            by_leader.setdefault(leader, {}).setdefault(topic, []).append((partition, timestamp))
    out: dict[Partition, int] = {}
    for leader, topics in by_leader.items():
        answer = cast(ListOffsetsResponse, client.to(leader).ask(_list_offsets(topics)))
        for each in answer.topics:
            for found in each.partitions:
                where = f"{each.name}-{found.partition_index}"
                refuse_error(found.error_code, f"cannot list the offsets of {where}")
                out[each.name, found.partition_index] = found.offset
    return out


def _list_offsets(topics: Mapping[str, Sequence[tuple[int, int]]]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
                    for partition, timestamp in partitions
                ],
            )
            for topic, partitions in topics.items()
        ],
    )


def _leaders(client: Client, topics: list[str]) -> dict[Partition, tuple[str, int]]:
    """Partition -> the server to ask, of the topics that exist."""
    metadata = client.metadata(topics)
    servers = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
    leaders = {}
    for topic in metadata.topics:
        assert topic.name is not None, "topics were asked for by name"
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        refuse_error(topic.error_code, f"cannot look up topic {topic.name}")
        for partition in topic.partitions:
            if partition.leader_id not in servers:
                raise OperationFailed(f"{topic.name}-{partition.partition_index} has no leader now")
            leaders[topic.name, partition.partition_index] = servers[partition.leader_id]
    return leaders


# --- changing ---------------------------------------------------------------------------------------------------------


def delete(client: Client, group_ids: Sequence[str]) -> dict[str, str | None]:
    """Group -> None if it is gone, else why not."""
    outcome: dict[str, str | None] = {}
    for group_id in group_ids:
        answer = cast(
            DeleteGroupsResponse, client.ask_coordinator(group_id, DeleteGroupsRequest(groups_names=[group_id]))
        )
        code = answer.results[0].error_code
        outcome[group_id] = (answer.results[0].error_message or named(code)) if code else None
    return outcome


def plan_reset(client: Client, group_id: str, selection: Selection, target: Target) -> list[Reset]:
    """What `commit` would do. OperationFailed if a named topic or partition does not exist, or nothing is selected."""
    old = {key: offset for key, (offset, _) in _committed(client, group_id).items()}
    selected = _selected(client, group_id, selection, old)
    earliest = positions(client, dict.fromkeys(selected, EARLIEST))
    latest = positions(client, dict.fromkeys(selected, LATEST))
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
                raise OperationFailed(f"group {group_id} has no offset in {key[0]}-{key[1]} to shift from")
            wanted = old[key] + target.shift
        new = min(max(wanted, earliest[key]), latest[key])
        plan.append(Reset(topic=key[0], partition=key[1], old=old.get(key), new=new))
    return plan


def _selected(client: Client, group_id: str, selection: Selection, old: Mapping[Partition, int]) -> list[Partition]:
    if not selection.topics:
        if not old:
            raise OperationFailed(f"group {group_id} has no offsets; name the topics")
        leaders = _leaders(client, sorted({topic for topic, _ in old}))
        return sorted(key for key in old if key in leaders)
    leaders = _leaders(client, sorted(selection.topics))
    selected = []
    for topic, partitions in selection.topics.items():
        there = sorted(partition for name, partition in leaders if name == topic)
        if not there:
            raise OperationFailed(f"there is no topic {topic}")
        for partition in partitions or there:
            if partition not in there:
                raise OperationFailed(f"topic {topic} has no partition {partition}")
            selected.append((topic, partition))
    return sorted(set(selected))


def refuse_active(client: Client, group_id: str) -> None:
    """OperationFailed if the group has members; one that does not exist yet may be given offsets."""
    group = find(client, group_id)
    if group is not None and group.members:
        raise OperationFailed(
            f"group {group_id} is {group.state} and has {len(group.members)} member(s): stop them before resetting offsets"
        )


def commit(client: Client, group_id: str, plan: Sequence[Reset]) -> None:
    """Commits the new offsets. OperationFailed names the first partition that was refused."""
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
    answer = cast(OffsetCommitResponse, client.ask_coordinator(group_id, request, version_max=_BY_NAME))
    for topic in answer.topics:
        for partition in topic.partitions:
            where = f"{topic.name}-{partition.partition_index}"
            refuse_error(partition.error_code, f"cannot reset group {group_id} in {where}")
