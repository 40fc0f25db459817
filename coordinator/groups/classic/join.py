"""JoinGroup: a member asks to be part of the next generation.

What happens depends on the caller:

    no id, dynamic      v4+: receives an id and must come back with it (KIP-394), so that a lost response leaves no member
                        behind that no client knows of; before v4 the caller becomes a member at once
    no id, static       replaces the holder of its instance id (static_members.py), or becomes a new member
    an id handed out    becomes a member
    a member            says again what it offers: the join is parked while the group is PreparingRebalance; otherwise it
                        depends on whether the generation would change (below)

A member that joins its own generation with unchanged metadata has probably lost a response: it receives the current generation,
and no other member notices. Changed metadata starts a rebalance. So does a join of the leader in Stable, changed or not: the
leader sees things that metadata do not show, such as new partitions. And so does any join in a round that was resumed after a
crash: the log has only one of the protocols that a member offered, so nobody can say that they are unchanged.

KIP-792 and KIP-568 (extensions). JoinGroup may carry the member's generation, which settles two cases that Kafka has to
guess. *Older or newer than the group's*: the member missed something, and its claims on partitions cannot be trusted. It is
fenced with ILLEGAL_GENERATION before its claims reach the leader; it keeps its id, drops what it held and joins again without
a generation. *Equal to the group's, in Stable*: the member is up to date and still wants a rebalance (enforceRebalance), so
it gets one, always and at once, leader or follower, static or dynamic. In CompletingRebalance the same request is a
repetition like any other: a rebalance is in progress already. A caller without an id is new whatever generation it names.

An empty group of another kind is replaced. Joins to a consumer group with members are served by migration/classic_members.py.

Checks come in Kafka's order. Where clients cannot rely on Kafka's behaviour this server is stricter: a protocol listed twice is
refused, and so is an id that was handed to a dynamic member and comes back with an instance id.
"""

from coordinator.groups.catalog import with_deletions
from coordinator.groups.classic.group import ClassicGroup, find_classic_group
from coordinator.groups.classic.join_attempt import JoinAttempt
from coordinator.groups.classic.member import ClassicMember
from coordinator.groups.classic.rebalance import prepare_or_continue_rebalance
from coordinator.groups.classic.records import new_group_metadata
from coordinator.groups.classic.responses import current_generation, join_error
from coordinator.groups.classic.resync import joins_resync
from coordinator.groups.classic.round import Cause, pending_bytes, pending_key
from coordinator.groups.classic.states import State
from coordinator.groups.classic.static_members import replace_static_member
from coordinator.groups.events import event_only, member_fenced, member_joined, refused_classic
from coordinator.groups.fence import NO_FENCE
from coordinator.groups.fencing import fence_member
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.groups.update import GroupUpdate
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import JoinGroupRequest, JoinGroupResponse
from coordinator.runtime.result import RequestContext, Result

MEMBER_ID_REQUIRED_SINCE = 4

_NO_GENERATION = -1
_EMPTY, _PREPARING_REBALANCE = State.EMPTY, State.PREPARING_REBALANCE
# Looking a name up in an enum costs more than the comparison.


def join(groups: Groups, request: JoinGroupRequest, context: RequestContext, now_ms: int) -> Result:
    """Joins the classic group, which is created if there is none; the reply is None while the join is parked.

    A group of another kind with this id has no members and is replaced.

    Raises: UNKNOWN_MEMBER_ID (a member id, and no such group). Every other error is in the reply, because the group may have
    been created: GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION
    (KIP-792), MEMBER_ID_REQUIRED (KIP-394). Mirrors `GroupMetadataManager.classicGroupJoinToClassicGroup`.
    """
    update = GroupUpdate(request.group_id)
    group = find_classic_group(groups, request.group_id)
    if group is None:
        if request.member_id:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        group = _create(groups, now_ms, update)
    try:
        reply = _join(groups, group, JoinAttempt(request, context, now_ms), update)
    except KafkaError as error:
        reply = join_error(context.api_version, error.code, request.member_id)
        update.facts += refused_classic(groups, request, error)
    return update.result(reply)


def _create(groups: Groups, now_ms: int, update: GroupUpdate) -> ClassicGroup:
    """The group exists from now on, even if the join that creates it is refused."""
    group_id = update.group_id
    replaced = groups.by_id.get(group_id)
    if replaced is None:
        groups.admit(group_id)
    else:
        update.replace(groups, replaced, Kind.CLASSIC, epoch=0, member_id="")
    group = ClassicGroup(group_id, now_ms, NO_FENCE)
    groups.place(group)
    update.records.append(new_group_metadata(group_id, now_ms))
    return group


def _join(groups: Groups, group: ClassicGroup, attempt: JoinAttempt, update: GroupUpdate) -> JoinGroupResponse | None:
    """The response, or None if the join is parked. A KafkaError that escapes becomes the response, too."""
    request, api_version = attempt.request, attempt.context.api_version
    member_id = request.member_id
    if not _has_room(groups, group, attempt):
        _reject_from_full_group(group, member_id, attempt.now_ms, update)
        return join_error(api_version, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    names = attempt.protocol_names()
    if not group.supports(request.protocol_type, names) or (len(names) > 1 and len(set(names)) < len(names)):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not member_id:
        return _join_without_id(groups, group, attempt, update)
    is_pending = member_id in group.pending_joins and request.group_instance_id is None
    if not is_pending:
        fence_member(group, member_id, request.group_instance_id)
    _fence_claimed_generation(group, request, update)
    if is_pending:
        _add(groups, group, member_id, attempt, update)
        return None
    return _rejoin(groups, group, group.members[member_id], attempt, update)


def _has_room(groups: Groups, group: ClassicGroup, attempt: JoinAttempt) -> bool:
    """Whether the group may accept this caller. In PreparingRebalance the places go to the first that join.

    Mirrors `GroupMetadataManager.acceptJoiningMember`.
    """
    size_max, state, member_id = groups.config.group_max_size, group.state, attempt.request.member_id
    if state is _EMPTY:
        return True
    member = group.members.get(member_id)
    if attempt.context.behaviours.absent_members_hold_places:
        if not member_id:
            return len(group.members) < size_max
        return len(group.members) <= size_max or member is None or member.awaiting_join is not None
    if state is _PREPARING_REBALANCE:
        return group.awaiting_joins < size_max or (member is not None and member.awaiting_join is not None)
    return member is not None or len(group.members) < size_max


def _reject_from_full_group(group: ClassicGroup, member_id: str, now_ms: int, update: GroupUpdate) -> None:
    """The group is full. A member that joins a rebalance too late loses its place.

    As in Kafka this alone does not form the generation, even if the caller was the last one missing: the timer or the next
    join does.
    """
    if member_id in group.pending_joins:
        update.disarm(pending_key(group.group_id, member_id))
    member = group.remove(member_id)
    if member is not None:
        group.stop_waiting_for(member_id, now_ms)
        update.disarm(member.session_timer.key)
        event = member_fenced(
            group.group_id,
            Kind.CLASSIC,
            member_id,
            member.group_instance_id,
            group.generation,
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            "JoinGroup",
        )
        update.facts.append(event_only(event))


def _fence_claimed_generation(group: ClassicGroup, request: JoinGroupRequest, update: GroupUpdate) -> None:
    """KIP-792: a member that names its generation must name the group's. Raises ILLEGAL_GENERATION."""
    if request.generation_id in (_NO_GENERATION, group.generation):
        return
    update.emit(
        "member_fenced",
        member_id=request.member_id,
        generation_claimed=request.generation_id,
        generation=group.generation,
    )
    raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _join_without_id(
    groups: Groups, group: ClassicGroup, attempt: JoinAttempt, update: GroupUpdate
) -> JoinGroupResponse | None:
    """Mirrors `GroupMetadataManager.classicGroupJoinNewMember`."""
    request, context = attempt.request, attempt.context
    instance_id = request.group_instance_id
    member_id = attempt.fresh_member_id()
    if instance_id is not None:
        holder = group.static_members.get(instance_id)
        if holder is not None:
            return replace_static_member(groups, group, group.members[holder], member_id, attempt, update)
    elif context.api_version >= MEMBER_ID_REQUIRED_SINCE:
        if len(group.pending_joins) >= groups.config.limit_pending_members:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        held_bytes = pending_bytes(member_id)
        groups.fence_growth(group, held_bytes)
        group.hand_out(member_id, held_bytes)
        update.arm(pending_key(group.group_id, member_id), request.session_timeout_ms)
        return join_error(context.api_version, ErrorCode.MEMBER_ID_REQUIRED, member_id)
    _add(groups, group, member_id, attempt, update)
    return None


def _add(groups: Groups, group: ClassicGroup, member_id: str, attempt: JoinAttempt, update: GroupUpdate) -> None:
    """Mirrors `GroupMetadataManager.addMemberThenRebalanceOrCompleteJoin`."""
    request, context = attempt.request, attempt.context
    member = ClassicMember(
        group.group_id,
        member_id,
        request.group_instance_id,
        context.client_id or "",
        context.client_host,
        attempt.protocols,
        b"",
        request.session_timeout_ms,
        attempt.rebalance_timeout_ms,
    )
    pending = group.pending_joins.get(member_id, 0)
    groups.fence_growth(group, member.held_bytes - pending)
    if pending:
        update.disarm(pending_key(group.group_id, member_id))
    member.client_reason = attempt.client_reason
    member.dialect = context.dialect
    member.is_new = True
    if group.initial_delay is not None:
        group.initial_delay.member_came = True
    group.add(member, request.protocol_type)
    group.park_join(member, context, attempt.now_ms)
    update.arm(member.session_timer.key, groups.config.group_new_member_join_timeout_ms)
    update.facts.append(
        member_joined(group.group_id, Kind.CLASSIC, member_id, request.group_instance_id, context, group.generation + 1)
    )
    cause = Cause("a new member joins", member_id, attempt.client_reason)
    prepare_or_continue_rebalance(groups, group, cause, attempt.now_ms, update)


def _rejoin(
    groups: Groups, group: ClassicGroup, member: ClassicMember, attempt: JoinAttempt, update: GroupUpdate
) -> JoinGroupResponse | None:
    """Mirrors `GroupMetadataManager.classicGroupJoinExistingMember`."""
    is_unchanged = member.protocols == attempt.protocols
    if not is_unchanged:
        groups.fence_growth(group, member.growth(attempt.protocols))
    if joins_resync(group, member, attempt.protocols):
        return current_generation(group, member.member_id)
    if group.state is State.COMPLETING_REBALANCE and is_unchanged and not (group.is_resumed or group.failure):
        return current_generation(group, member.member_id)
    if group.state is State.STABLE and is_unchanged and not group.is_leader(member.member_id):
        if attempt.request.generation_id == _NO_GENERATION:
            return current_generation(group, member.member_id)
        what = "a member enforces a rebalance"
    elif group.failure is not None:
        what = "a member joins again after the leader could not assign"
    elif group.is_resumed:
        what = "a member joins again after the server was restarted"
    elif is_unchanged:
        what = "the leader joins again"
    else:
        what = "a member's metadata changed"
    if not is_unchanged:
        group.set_protocols(member, attempt.protocols)
    attempt.apply_to(member)
    earlier = group.park_join(member, attempt.context, attempt.now_ms)
    if earlier is not None:
        # Kafka leaves it without an answer.
        refusal = join_error(earlier.api_version, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        update.answer(earlier, refusal)
    since_ms = group.rebalances[-1].started_ms if group.rebalances else 0
    reason = with_deletions(attempt.client_reason, groups.catalog, group.subscribed_topics or (), since_ms)
    cause = Cause(what, member.member_id, reason)
    prepare_or_continue_rebalance(groups, group, cause, attempt.now_ms, update)
    return None
