"""DeleteGroups (key 42): what is left of a group without members goes, its offsets first.

The groups of one request live on several shards; each shard gets its own and answers for them, group by group. A group
record's tombstone is written even for a simple group that never had the record, as Kafka does. Pending offsets of
transactions do not hinder; they go, too.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coordinator.groups.group import Group
from coordinator.groups.offsets.records import offset_commit_tombstone
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DeleteGroupsResponse
from coordinator.runtime.result import Fact, Record, RequestContext, Result, Timer

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

_Result = DeleteGroupsResponse.DeletableGroupResult


def delete_groups(groups: "Groups", group_ids: Sequence[str], context: RequestContext, now_ms: int) -> Result:
    """The group ids, all different, are those of this shard; so are the results of the reply."""
    results: list[_Result] = []
    records: list[Record] = []
    timers: list[Timer] = []
    facts: list[Fact] = []
    for group_id in group_ids:
        group = groups.by_id.get(group_id)
        code = _why_not(group)
        results.append(_Result(group_id, code))
        if group is not None and code is ErrorCode.NONE:
            committed = dict.fromkeys(
                (*groups.offsets.by_group.get(group_id, ()), *groups.offsets.pending.partitions(group_id))
            )
            records += [offset_commit_tombstone(group_id, topic, partition) for topic, partition in committed]
            tombstones, disarmed = groups.end(group)
            records += tombstones
            timers += disarmed
            facts.append(Fact("group_deleted", {"group_id": group_id, "offsets": len(committed)}))
    return Result(DeleteGroupsResponse(results=results), records, timers, facts=facts)


def _why_not(group: Group | None) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.is_empty else ErrorCode.NON_EMPTY_GROUP
