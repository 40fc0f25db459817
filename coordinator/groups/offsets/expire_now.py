"""An administrator lets the offsets of a group expire, as if their retention time had passed (expire.py has the rules).

So the same offsets stay as always: those that the group needs, because its members read the topic or may read it, and those
with a pending offset of a transaction. A group without members and offsets is deleted, as the next check would do.
"""

from collections.abc import Collection
from itertools import islice
from typing import NamedTuple

from coordinator.groups.administration import group_of
from coordinator.groups.group import Group
from coordinator.groups.offsets.expire import RECORDS_PER_TURN_MAX
from coordinator.groups.offsets.pending import Partition
from coordinator.groups.offsets.records import offset_commit_tombstone
from coordinator.groups.state import Groups
from coordinator.runtime.result import Fact, RequestContext, Result


class ExpireOffsets(NamedTuple):
    """The request. `topics` None: all."""

    group_id: str
    topics: frozenset[str] | None = None


class Expired(NamedTuple):
    """The reply: how many offsets have expired, which of those that were asked for stay and why, and what is left to do."""

    offsets: int
    kept: dict[Partition, str]
    is_deleted: bool
    """Whether the group went with its last offset."""
    has_more: bool
    """Whether the operation must be repeated: one does not write more than expire.py writes in a turn."""


IN_USE = "the group's members read it"
PENDING = "a transaction has a pending offset for it"


def expire_now(groups: Groups, request: ExpireOffsets, _context: RequestContext, now_ms: int) -> Result:
    """Deletes the group's offsets. Raises GROUP_ID_NOT_FOUND."""
    del now_ms
    group_id, group = request.group_id, group_of(groups, request.group_id)
    committed = groups.offsets.by_group.get(group_id, {})
    asked = [each for each in committed if request.topics is None or each[0] in request.topics]
    pending = groups.offsets.pending.partitions(group_id)
    kept = _kept(group, asked, pending)
    due = (each for each in asked if each not in kept)
    expired = list(islice(due, RECORDS_PER_TURN_MAX))
    has_more = len(expired) + len(kept) < len(asked)
    result = Result(records=[offset_commit_tombstone(group_id, *each) for each in expired])
    is_deleted = group.is_empty and group.has_offsets and not pending and len(expired) == len(committed)
    if is_deleted:
        tombstones, result.timers = groups.end(group)
        result.records = [*result.records, *tombstones]
    if expired or is_deleted:
        fields = {"offsets": len(expired), "groups": int(is_deleted), "group_id": group_id}
        result.facts = (Fact("offsets_expired", fields),)
    result.reply = Expired(len(expired), kept, is_deleted, has_more)  # type: ignore[assignment]  # for an InternalRequest
    return result


def _kept(group: Group, asked: Collection[Partition], pending: Collection[Partition]) -> dict[Partition, str]:
    if group.expiry_base() is None:
        return dict.fromkeys(asked, IN_USE)
    return {
        each: PENDING if each in pending else IN_USE
        for each in asked
        if each in pending or group.is_subscribed_to(each[0])
    }
