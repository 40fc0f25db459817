"""DeleteGroups (key 42): deletes groups without members, their offsets first.

The groups of one request live on several shards; each shard deletes its own and answers for them, group by group. As in
Kafka, the tombstone of the group record is written even for a simple group that never had the record. Pending offsets of
transactions do not prevent the deletion; they are deleted, too."""

from collections.abc import Sequence

from coordinator.groups.group import Group
from coordinator.groups.offsets.records import GroupTombstones
from coordinator.groups.offsets.rewound import deleted_facts
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DeleteGroupsResponse
from coordinator.runtime.result import Ask, Fact, RequestContext, Result, Timer

_Result = DeleteGroupsResponse.DeletableGroupResult
_OFFSETS_LIKE_A_GROUP = 20
"""Offsets that are deleted in the time that a group without offsets takes."""


def deletion_weight(groups: Groups, group_id: str) -> int:
    """The work of deleting a group (`Router.gather_by_group`)."""
    return 1 + len(groups.offsets.by_group.get(group_id, ())) // _OFFSETS_LIKE_A_GROUP


def delete_groups(groups: Groups, group_ids: Sequence[str], context: RequestContext, now_ms: int) -> Result:
    """Deletes the groups of this shard; `group_ids` are all different.

    Results of single groups: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP. Mirrors `GroupCoordinatorShard.deleteGroups`.
    """
    results: list[_Result] = []
    records = GroupTombstones()
    timers: list[Timer] = []
    facts: list[Fact] = []
    asks: list[Ask] = []
    for group_id in group_ids:
        group = groups.by_id.get(group_id)
        code = _delete_error(group)
        results.append(_Result(group_id, code))
        if group is not None and code is ErrorCode.NONE:
            committed = dict.fromkeys(
                (*groups.offsets.by_group.get(group_id, ()), *groups.offsets.pending.partitions(group_id))
            )
            deleted = deleted_facts(groups, group, committed, context)
            tombstones, disarmed = groups.end(group)
            records.add(group_id, committed, tombstones)
            timers += disarmed
            asks += group.asks_at_end(groups.share_states)
            facts.append(Fact("group_deleted", {"group_id": group_id, "offsets": len(committed)}))
            facts += deleted
    return Result(DeleteGroupsResponse(results=results), records, timers, facts=facts, asks=asks)


def _delete_error(group: Group | None) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.is_empty else ErrorCode.NON_EMPTY_GROUP
