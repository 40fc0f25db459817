"""The log record of a classic group: key type 2, GroupMetadata (mirrors `GroupCoordinatorRecordHelpers`).

Values are written in version 3, as by Kafka. That version is not flexible, so it takes no tagged fields of ours. A record
holds only the chosen one of each member's protocols.
"""

from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.round import Round
from coordinator.protocol.messages import (
    ClassicGroupResyncKey,
    ClassicGroupResyncValue,
    GroupMetadataKey,
    GroupMetadataValue,
)
from coordinator.runtime.result import Record

VERSION = 3
_NO_TIME = -1
_Member = GroupMetadataValue.MemberMetadata


def generation_records(group: ClassicGroup) -> list[Record]:
    """The current generation, as `group_metadata`, and whether it was resynced.

    The second record, ClassicGroupResync, is ours and belongs to the GroupMetadata before it; Kafka skips it.
    """
    if group.is_resynced:
        resynced = Record(ClassicGroupResyncKey(group.group_id), ClassicGroupResyncValue(group.generation))
        return [group_metadata(group), resynced]
    return [group_metadata(group), *resync_tombstones(group)]


def resync_tombstones(group: ClassicGroup) -> list[Record]:
    """Deletes the record of a resynced generation, if the group has one."""
    return [] if group.resynced is None else [Record(ClassicGroupResyncKey(group.group_id), None)]


def group_metadata(group: Round) -> Record:
    """The group's current generation: Stable with its members and their assignments, or Empty."""
    name = group.protocol_name
    members = []
    for member in group.members.values():
        metadata = member.metadata(name)
        assert metadata is not None, f"{group.group_id}: {member.member_id} does not offer {name}"
        members.append(
            _Member(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                metadata,
                member.assignment,
            )
        )
    timestamp_ms = _NO_TIME if group.state_timestamp_ms is None else group.state_timestamp_ms
    value = GroupMetadataValue(
        group.protocol_type or "", group.generation, name, group.leader_id, timestamp_ms, members
    )
    return Record(GroupMetadataKey(group.group_id), value, VERSION)


def new_group_metadata(group_id: str, now_ms: int) -> Record:
    """A group that has had no generation yet: generation 0, no members."""
    return Record(GroupMetadataKey(group_id), GroupMetadataValue("", 0, None, None, now_ms, []), VERSION)


def group_metadata_tombstone(group_id: str) -> Record:
    """Deletes the group; its offsets have records of their own."""
    return Record(GroupMetadataKey(group_id), None)
