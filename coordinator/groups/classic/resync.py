"""The leader resyncs: it replaces the assignments of the current generation without a rebalance (an extension).

A leader may learn of something that calls for another assignment, such as new partitions, and no member needs to join again for
it. Its SyncGroup in Stable, with `Resync` and new assignments, is a barrier like the one of a rebalance, but only for members
whose assignment changes:

    begin       a member whose assignment changes is answered REBALANCE_IN_PROGRESS, by Heartbeat and SyncGroup, until it joins
                again. A plain client commits, gives up its partitions and does so; it receives the current generation, and its
                SyncGroup is parked. Members with an equal assignment notice nothing.
    complete    all of them have asked: the generation is written with its new assignments, and everybody is answered

Until then the old assignments are in force: commits are accepted, and a crash loses the resync and nothing else. Nobody
receives a partition while another member may still read it. A member that does not ask in time is removed by a timer, and
an ordinary rebalance follows. Any rebalance aborts the resync; the leader receives REBALANCE_IN_PROGRESS. So does it if it
resyncs again in the meantime, for the earlier request. Resyncs of a generation are numbered, so that a request that was under
way for long does not undo a later one.

The generation number is the same before and after, so it cannot fence a commit that was on its way in a lost connection, or
that a producer sends again later. The group's fence does (fence.py): within the generation, a member may not commit what a
resync took from it and gave to another one. So it cannot get that back, either: a resync that tries to starts a rebalance.
"""

from collections.abc import Mapping
from dataclasses import replace

from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.leader_extensions import Resync
from coordinator.groups.classic.member import ClassicMember, Protocols
from coordinator.groups.classic.owned_partitions import read_metadata
from coordinator.groups.classic.records import completed_generation
from coordinator.groups.classic.responses import delivered, sync_error, sync_response
from coordinator.groups.classic.round import Round, resync_key
from coordinator.groups.fence import LOSSES_MAX, Fence, Losses
from coordinator.groups.state import Groups
from coordinator.groups.update import GroupUpdate
from coordinator.protocol.codec import DecodeError
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import GroupResyncedKey, GroupResyncedValue
from coordinator.protocol.subscription import NO_GENERATION, Subscription, parse_assignment
from coordinator.runtime.result import Event, MessageEvent, RequestContext

OWNERSHIP_IN_USER_DATA = frozenset({"sticky", "cooperative-sticky"})
"""Assignors whose user data say what the member owns, or when, and nothing else."""
RESYNCED_BYTES_MAX = 2 << 20
"""A resync with more bytes of assignments is refused: the owners of half a million partitions would have to be remembered."""


# --- the leader -------------------------------------------------------------------------------------------------------


def needs_new_generation(group: Round, given: Mapping[str, bytes]) -> bool:
    """Whether a resync gives a member back what it lost in this generation, or takes more than a fence remembers.

    `given`: member id -> assignment, for all members.
    """
    before, after, fence = _held(group, {}), _held(group, given), group.fence
    return (
        fence.gives_back(group.generation, after) or fence.resynced(group.generation, before, after).size > LOSSES_MAX
    )


def begin_resync(
    groups: Groups,
    group: ClassicGroup,
    leader: ClassicMember,
    given: Mapping[str, bytes],
    context: RequestContext,
    now_ms: int,
    update: GroupUpdate,
) -> None:
    """Parks the leader's request until all members whose assignment changes have asked for the new one.

    `given`: member id -> assignment, for all members. Raises INVALID_REQUEST if they are too large.
    """
    given_bytes = sum(map(len, given.values()))
    if given_bytes > RESYNCED_BYTES_MAX or group.held_bytes + given_bytes > groups.config.limit_group_bytes:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the assignments are too large for a resync")
    changing = {
        member_id: given[member_id]
        for member_id, member in group.members.items()
        if given[member_id] != member.assignment
    }
    _park(leader, context, update)
    earlier = group.resync
    if earlier is not None:
        _release(groups, group, earlier.assignments.keys() - changing.keys() - {leader.member_id}, update)
    awaited = [each for each in changing if group.members[each].awaiting_sync is None]
    resync = Resync(
        leader.member_id,
        group.generation,
        now_ms,
        assignments=changing,
        called={each: None for each in awaited if not _holds_nothing(group, earlier, each)},
        awaited=dict.fromkeys(awaited),
    )
    group.set_resync(resync)
    update.emit("resync_started", generation=group.generation, changing=len(changing), awaited=len(resync.awaited))
    if resync.awaited:
        update.arm(resync_key(group), group.rebalance_timeout_ms())
    else:
        _complete(groups, group, resync, now_ms, update)


def _holds_nothing(group: ClassicGroup, earlier: Resync | None, member_id: str) -> bool:
    """Whether the member is between JoinGroup and SyncGroup, in this generation or in the earlier resync."""
    return member_id in group.pending_syncs or (
        earlier is not None and member_id in earlier.awaited and member_id not in earlier.called
    )


def _release(groups: Groups, group: ClassicGroup, member_ids: set[str], update: GroupUpdate) -> None:
    """The leader's second resync leaves these members what they have: they need not wait or join again."""
    for member_id in group.members:
        if member_id in member_ids:
            _answer(groups, group, group.members[member_id], group.fence, update)


# --- the members ------------------------------------------------------------------------------------------------------


def is_resyncing(group: Round, member_id: str) -> bool:
    """Whether a resync is about to change the member's assignment."""
    return group.resync is not None and member_id in group.resync.assignments


def park_for_resync(
    groups: Groups,
    group: ClassicGroup,
    member: ClassicMember,
    context: RequestContext,
    now_ms: int,
    update: GroupUpdate,
) -> None:
    """A member whose assignment changes asks for it; the last one completes the resync.

    Raises: REBALANCE_IN_PROGRESS if it has not joined again. Its request may have been under way since before the resync, and
    it may hold what an earlier response gave it.
    """
    resync = group.resync
    assert resync is not None
    if member.member_id in resync.called:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    _park(member, context, update)
    if member.member_id in resync.awaited:
        del resync.awaited[member.member_id]
        resync.waits[member.member_id] = now_ms - resync.started_ms
    if not resync.awaited:
        _complete(groups, group, resync, now_ms, update)


def joins_resync(group: Round, member: ClassicMember, offered: Protocols) -> bool:
    """Whether a member's JoinGroup is only its way to a resynced assignment. If so, it is noted.

    Clients that the coordinator calls to rejoin list what they own, and since which generation, in their metadata. That the
    leader knows, so it changes nothing; anything else calls for a rebalance.
    """
    resync = group.resync
    if resync is None or member.member_id not in resync.assignments or not _offers_same(group, member, offered):
        return False
    group.set_protocols(member, offered)
    resync.called.pop(member.member_id, None)
    return True


def _offers_same(group: Round, member: ClassicMember, offered: Protocols) -> bool:
    return len(member.protocols) == len(offered) and all(
        name == other
        and (metadata == again or (group.uses_consumer_protocol and asks_same(name, member.dialect, metadata, again)))
        for (name, metadata), (other, again) in zip(member.protocols, offered, strict=True)
    )


def asks_same(protocol_name: str, dialect: str | None, metadata: bytes, again: bytes) -> bool:
    """Whether two metadata differ at most in what they say about the past."""
    before, after = (read_metadata(each, dialect).subscription for each in (metadata, again))
    return before is not None and after is not None and _wish(protocol_name, before) == _wish(protocol_name, after)


def _wish(protocol_name: str, subscription: Subscription) -> Subscription:
    """The subscription without what it says about the past."""
    user_data = None if protocol_name in OWNERSHIP_IN_USER_DATA else subscription.user_data
    return replace(subscription, owned={}, generation_id=NO_GENERATION, user_data=user_data)


# --- the end ----------------------------------------------------------------------------------------------------------


def _complete(groups: Groups, group: ClassicGroup, resync: Resync, now_ms: int, update: GroupUpdate) -> None:
    """Writes the generation with its new assignments and answers the leader and the members that receive one."""
    _end(group, update)
    before = _held(group, {})
    for member_id, assignment in resync.assignments.items():
        group.set_assignment(group.members[member_id], assignment)
    fence = group.fence.resynced(group.generation, before, _held(group, {}))
    update.records += completed_generation(group, fence)
    for member in group.members.values():
        _answer(groups, group, member, fence, update)
    update.emit(
        "group_resynced",
        _event(group, resync, now_ms - resync.started_ms),
        generation=resync.generation,
        changed=len(resync.assignments),
        took_ms=now_ms - resync.started_ms,
    )


def _held(group: Round, given: Mapping[str, bytes]) -> Losses:
    """What each member has been assigned, or would be by `given`; nothing where the coordinator cannot read it."""
    held = {}
    for member_id, member in group.members.items() if group.uses_consumer_protocol else ():
        try:
            topics = parse_assignment(given.get(member_id, member.assignment)).partitions
        except DecodeError:
            continue
        held[member_id] = frozenset((topic, index) for topic, indexes in topics.items() for index in indexes)
    return held


def _event(group: Round, resync: Resync, duration_ms: int) -> Event:
    value = GroupResyncedValue(
        epoch=resync.generation,
        member_id=resync.leader_id,
        members=len(group.members),
        changed=len(resync.assignments),
        duration_ms=duration_ms,
        waited_for=[GroupResyncedValue.Wait(each, waited_ms) for each, waited_ms in resync.waits.items()],
    )
    return MessageEvent(GroupResyncedKey(group.group_id), value)


def abort_resync(group: Round, update: GroupUpdate) -> None:
    """A rebalance begins: the assignments stay as they are, and everybody who waits must join again."""
    if group.resync is None:
        return
    _end(group, update)
    update.emit("resync_aborted", generation=group.generation)
    for member in group.members.values():
        context = group.unpark_sync(member)
        if context is not None:
            update.answer(context, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
            update.timers.append(member.session_timer)


def replace_in_resync(groups: Groups, group: ClassicGroup, old_id: str, new_id: str, update: GroupUpdate) -> None:
    """A static member came back under a new id. It must ask again; a leader that came back knows of no resync."""
    resync = group.resync
    if resync is None:
        return
    if resync.leader_id == old_id:
        _end(group, update)
        update.emit("resync_aborted", generation=group.generation)
        _release(groups, group, set(resync.assignments), update)
    elif old_id in resync.assignments:
        resync.assignments[new_id] = resync.assignments.pop(old_id)
        resync.awaited.pop(old_id, None)
        resync.awaited[new_id] = None
        update.arm(resync_key(group), group.rebalance_timeout_ms())


def _end(group: Round, update: GroupUpdate) -> None:
    group.set_resync(None)
    update.disarm(resync_key(group))


# --- parked requests --------------------------------------------------------------------------------------------------


def _park(member: ClassicMember, context: RequestContext, update: GroupUpdate) -> None:
    earlier, member.awaiting_sync = member.awaiting_sync, context
    update.answer(earlier, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))


def _answer(groups: Groups, group: ClassicGroup, member: ClassicMember, fence: Fence, update: GroupUpdate) -> None:
    """Answers the member's parked SyncGroup with its assignment. Its session starts again, as it did not count until now."""
    context = group.unpark_sync(member)
    if context is None:
        return
    update.answer(context, sync_response(group, member, fence))
    update.facts.append(delivered(groups.catalog, group, member))
    update.timers.append(member.session_timer)
