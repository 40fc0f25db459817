"""The log records of a classic group: GroupMetadata, and ClassicGroupGeneration while a generation has no assignment.

    GroupMetadata (key type 2)             a generation with its assignments, or an Empty group: Kafka's record (mirrors
                                           `GroupCoordinatorRecordHelpers`), in version 3, as Kafka writes it
    ClassicGroupGeneration (key type 2000) the forming generation, which JoinGroup responses are about to name: ours
    ClassicGroupForcedRebalance (2001)     a rebalance from outside that has not ended yet: ours
    ClassicGroupResync (2002)              the fence of the generation of the GroupMetadata before it, which was resynced: ours

Version 3 of GroupMetadata is not flexible, so it takes no tagged fields of ours, and Kafka would regard a generation in it as
assigned. Kafka skips record types that it does not know. In the order of the log, any later GroupMetadata of the group makes
our records obsolete, so records that a Kafka has written in between are never overruled by ours. This server also deletes them
then, to save the space.

The first two records hold only the chosen one of each member's protocols.
"""

from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar

from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.member import ClassicMember
from coordinator.groups.classic.round import Round
from coordinator.groups.fence import NO_FENCE, Fence, written
from coordinator.protocol.messages import (
    ClassicGroupForcedRebalanceKey,
    ClassicGroupForcedRebalanceValue,
    ClassicGroupGenerationKey,
    ClassicGroupGenerationValue,
    ClassicGroupResyncKey,
    ClassicGroupResyncValue,
    GroupMetadataKey,
    GroupMetadataValue,
    Message,
)
from coordinator.runtime.result import Record

VERSION = 3
_NO_TIME = -1
_Member = GroupMetadataValue.MemberMetadata
_FormingMember = ClassicGroupGenerationValue.MemberMetadata
_Generation = TypeVar("_Generation", GroupMetadataValue, ClassicGroupGenerationValue)


def forming_generation(group: ClassicGroup, now_ms: int) -> list[Record]:
    """The generation that was just formed, before any member receives it.

    It belongs to the GroupMetadata before it, so a group that was simple so far gets one.
    """
    members = [
        _FormingMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            _chosen_metadata(group, member),
        )
        for member in group.members.values()
    ]
    value = ClassicGroupGenerationValue(
        group.protocol_type or "", group.generation, group.protocol_name, group.leader_id, now_ms, members
    )
    forming = Record(ClassicGroupGenerationKey(group.group_id), value)
    return [forming] if group.stored is not None else [new_group_metadata(group.group_id, now_ms), forming]


def completed_generation(group: ClassicGroup, fence: Fence) -> list[Record]:
    """The group's current generation, Stable or Empty, in the place of the forming one, and its fence."""
    return [group_metadata(group), *_own_tombstones(group), *_fence(group.group_id, fence)]


def _fence(group_id: str, fence: Fence) -> list[Record]:
    if fence is NO_FENCE:
        return []
    lost, taken = (
        written(each, ClassicGroupResyncValue.LostByMember, ClassicGroupResyncValue.LostTopic)
        for each in (fence.lost, fence.taken)
    )
    return [Record(ClassicGroupResyncKey(group_id), ClassicGroupResyncValue(fence.epoch, fence.resyncs, lost, taken))]


def renamed_member(group: ClassicGroup, old_id: str, new_id: str) -> list[Record]:
    """The last generation in the log with another id for a static member that came back while the group rebalances.

    Its assignment stays. Without these records a crash would take the round back, and the fenced id would be a member again.
    """
    return _rewritten(group, old_id, lambda generation: _rename(generation, old_id, new_id))


def without_member(group: ClassicGroup, member_id: str) -> list[Record]:
    """The last generation in the log without a member that was removed since, and is to stay removed after a crash."""
    return _rewritten(group, member_id, lambda generation: _remove(generation, member_id))


def _rewritten(group: ClassicGroup, member_id: str, change: Callable[[Any], None]) -> list[Record]:
    """The last generation in the log after `change` of a copy; no records if this is no member of it."""
    if group.forming is not None:
        key: Message = ClassicGroupGenerationKey(group.group_id)
        return [Record(key, _changed(group.forming, change))] if _has(group.forming, member_id) else []
    stored = group.stored
    if stored is None or not _has(stored, member_id):
        return []
    records = [Record(GroupMetadataKey(group.group_id), _changed(stored, change), VERSION)]
    # A GroupMetadata makes the group's other records obsolete.
    if group.forced is not None:
        records.append(Record(ClassicGroupForcedRebalanceKey(group.group_id), group.forced))
    return records + _fence(group.group_id, group.fence)


def _has(generation: _Generation, member_id: str) -> bool:
    return any(each.member_id == member_id for each in generation.members)


def _changed(generation: _Generation, change: Callable[[Any], None]) -> _Generation:
    changed = copy(generation)
    changed.members = [copy(each) for each in generation.members]
    change(changed)
    return changed


def _rename(generation: _Generation, old_id: str, new_id: str) -> None:
    for each in generation.members:
        if each.member_id == old_id:
            each.member_id = new_id
    if generation.leader == old_id:
        generation.leader = new_id


def _remove(generation: _Generation, member_id: str) -> None:
    generation.members = [each for each in generation.members if each.member_id != member_id]
    if generation.leader == member_id:
        generation.leader = None
    if not generation.members:
        generation.protocol = None


def group_tombstones(group: ClassicGroup) -> list[Record]:
    """Deletes the group; its offsets have records of their own."""
    return [*_own_tombstones(group), group_metadata_tombstone(group.group_id)]


def _own_tombstones(group: ClassicGroup) -> list[Record]:
    own = (
        (group.forming, ClassicGroupGenerationKey),
        (group.forced, ClassicGroupForcedRebalanceKey),
        (None if group.fence is NO_FENCE else group.fence, ClassicGroupResyncKey),
    )
    return [Record(key(group.group_id), None) for value, key in own if value is not None]


def group_metadata(group: Round) -> Record:
    """The group's current generation: Stable with its members and their assignments, or Empty."""
    members = [
        _Member(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            _chosen_metadata(group, member),
            member.assignment,
        )
        for member in group.members.values()
    ]
    timestamp_ms = _NO_TIME if group.state_timestamp_ms is None else group.state_timestamp_ms
    value = GroupMetadataValue(
        group.protocol_type or "", group.generation, group.protocol_name, group.leader_id, timestamp_ms, members
    )
    return Record(GroupMetadataKey(group.group_id), value, VERSION)


def new_group_metadata(group_id: str, now_ms: int) -> Record:
    """A group that has had no generation yet: generation 0, no members."""
    return Record(GroupMetadataKey(group_id), GroupMetadataValue("", 0, None, None, now_ms, []), VERSION)


def forced_rebalance(group: Round, cause: str, reason: str | None) -> Record:
    """A rebalance that was started from outside in the current generation."""
    return Record(
        ClassicGroupForcedRebalanceKey(group.group_id),
        ClassicGroupForcedRebalanceValue(group.generation, cause, reason),
    )


def group_metadata_tombstone(group_id: str) -> Record:
    return Record(GroupMetadataKey(group_id), None)


def _chosen_metadata(group: Round, member: ClassicMember) -> bytes:
    metadata = member.metadata(group.protocol_name)
    assert metadata is not None, f"{group.group_id}: {member.member_id} does not offer {group.protocol_name}"
    return metadata
