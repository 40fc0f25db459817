"""The log records of groups: key type 2, GroupMetadata.

Values are written in version 3, as Kafka writes them: not flexible, so nothing of ours can be added. Of a member's protocols
only the chosen one fits into the record.
"""

from coordinator.groups.classic.group import ClassicGroup
from coordinator.protocol.messages import GroupMetadataKey, GroupMetadataValue
from coordinator.runtime.result import Record

VERSION = 3
_NO_TIME = -1
_Member = GroupMetadataValue.MemberMetadata


def group_metadata(group: ClassicGroup) -> Record:
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
    """A group that has not had a generation: generation 0, no members."""
    return Record(GroupMetadataKey(group_id), GroupMetadataValue("", 0, None, None, now_ms, []), VERSION)


def group_metadata_tombstone(group_id: str) -> Record:
    """The group is no more (its offsets have records of their own)."""
    return Record(GroupMetadataKey(group_id), None)
