"""JoinGroup: a member asks to be part of the next generation.

Who asks decides what happens:

    no id, dynamic      v4+: gets an id and must come back with it (KIP-394), so that a lost answer leaves no member behind
                        that nobody is; before v4 it is a member at once
    no id, static       takes over from the holder of its instance id (static_members.py), or is a new member
    an id given out     becomes a member
    a member            says again what it offers: parks while the group is Preparing; otherwise it depends on whether the
                        generation would change (below)

A member that joins a generation it is in, with what it said before, has probably lost an answer: it is told the current
generation and nobody else notices. Other metadata is a rebalance. So is a leader's join in Stable, whatever it says: the
leader sees things that no metadata tell, such as new partitions.

KIP-792 and KIP-568 (ours). JoinGroup may carry the generation of the asking member, which makes two cases clear that Kafka
has to guess. *Older (or newer) than the group's*: the member missed something, and what it believes to own is not to be
believed. It is fenced with ILLEGAL_GENERATION, before its claim can reach the leader; it keeps its id, drops what it held
and joins again without a generation. *The group's own, in Stable*: it knows where it is and wants a rebalance nevertheless
(enforceRebalance), so it gets one, always and at once, leader or follower, static or dynamic. In Completing the same
request is a repetition like any other: a rebalance is on already. A member without an id is new whatever it says.

A consumer group (KIP-848) takes classic members, too (consumer/classic_members.py); a streams group (KIP-1071) does not. Either
is replaced when it has no members.

Checks come in Kafka's order; what clients cannot rely on is cleaner here: a protocol listed twice is refused, and so is an
id given to a dynamic member that comes back with an instance id.
"""

from typing import TYPE_CHECKING

from coordinator.groups.classic.answers import current_generation, join_refused
from coordinator.groups.classic.effects import Effects
from coordinator.groups.classic.group import Cause, ClassicGroup, ClassicMember, State, find_classic_group, pending_key
from coordinator.groups.classic.joining import Joining
from coordinator.groups.classic.rebalance import rebalance_or_go_on
from coordinator.groups.classic.records import new_group_metadata
from coordinator.groups.classic.static_members import replace_static_member
from coordinator.groups.consumer.group import find_consumer_group
from coordinator.groups.consumer.records import group_tombstones
from coordinator.groups.events import event_only, fenced_classic, group_converted, member_fenced, member_joined
from coordinator.groups.fencing import fence_member
from coordinator.groups.kinds import Kind
from coordinator.groups.migration.classic_members import join_consumer_group
from coordinator.groups.streams.group import find_streams_group, initial_delay_key
from coordinator.groups.streams.records import group_tombstones as streams_group_tombstones
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import JoinGroupRequest, JoinGroupResponse
from coordinator.runtime.result import RequestContext, Result

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

MEMBER_ID_REQUIRED_SINCE = 4

_NO_GENERATION = -1


def join(groups: "Groups", request: JoinGroupRequest, context: RequestContext, now_ms: int) -> Result:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    config = groups.config
    if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
    consumer = find_consumer_group(groups, request.group_id)
    if consumer is not None and consumer.members:
        return join_consumer_group(groups, consumer, request, context, now_ms)
    streams = find_streams_group(groups, request.group_id)
    if streams is not None and streams.members:
        return Result(join_refused(context.api_version, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""))
    effects = Effects()
    group = find_classic_group(groups, request.group_id)
    if group is None:
        if request.member_id:
            error = KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            error.facts = fenced_classic(groups, request, error.code)
            raise error
        if consumer is not None:
            effects.replaces = group_tombstones(consumer, ())
            effects.facts.append(event_only(group_converted(request.group_id, Kind.CONSUMER, Kind.CLASSIC, 0, "", 0)))
        elif streams is not None:
            effects.replaces = streams_group_tombstones(request.group_id)
            effects.facts.append(event_only(group_converted(request.group_id, Kind.STREAMS, Kind.CLASSIC, 0, "", 0)))
            effects.disarm(initial_delay_key(request.group_id))
        else:
            groups.admit()
        # The group is there from now on, even if this join is refused.
        group = groups.by_id[request.group_id] = ClassicGroup(request.group_id, now_ms)
        effects.write(new_group_metadata(request.group_id, now_ms))
    try:
        reply = _join(groups, group, Joining(request, context, now_ms), effects)
    except KafkaError as error:
        reply = join_refused(context.api_version, error.code, request.member_id)
        effects.facts += fenced_classic(groups, request, error.code)
    return effects.result(reply)


def _join(groups: "Groups", group: ClassicGroup, joining: Joining, effects: Effects) -> JoinGroupResponse | None:
    """The answer, or None if the caller waits for it. A KafkaError that escapes is the answer too."""
    request, api_version = joining.request, joining.context.api_version
    member_id = request.member_id
    if not _has_room(groups, group, member_id):
        _turn_away(group, member_id, effects)
        return join_refused(api_version, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    names = joining.protocol_names()
    if not group.supports(request.protocol_type, names) or len(set(names)) < len(names):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not member_id:
        return _join_without_id(groups, group, joining, effects)
    is_pending = member_id in group.pending_joins and request.group_instance_id is None
    if not is_pending:
        fence_member(group, member_id, request.group_instance_id)
    _fence_generation_claimed(group, request, effects)
    if is_pending:
        effects.disarm(pending_key(group.group_id, member_id))
        _add(groups, group, member_id, joining, effects)
        return None
    return _join_again(groups, group, group.members[member_id], joining, effects)


def _has_room(groups: "Groups", group: ClassicGroup, member_id: str) -> bool:
    """Whether the group may take this caller. While Preparing the first to join have the places, old member or new."""
    size_max = groups.config.group_max_size
    if group.state is State.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is State.PREPARING_REBALANCE:
        return group.awaiting_joins < size_max or (member is not None and member.awaiting_join is not None)
    return member is not None or len(group.members) < size_max


def _turn_away(group: ClassicGroup, member_id: str, effects: Effects) -> None:
    """The group is full. A member that comes late to a rebalance has lost its place.

    As in Kafka that alone does not form the generation, even if it was the last one missing: time or the next join does.
    """
    if member_id in group.pending_joins:
        effects.disarm(pending_key(group.group_id, member_id))
    member = group.remove(member_id)
    if member is not None:
        effects.disarm(member.session_timer.key)
        event = member_fenced(
            group.group_id,
            Kind.CLASSIC,
            member_id,
            member.group_instance_id,
            group.generation,
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            "JoinGroup",
        )
        effects.facts.append(event_only(event))


def _fence_generation_claimed(group: ClassicGroup, request: JoinGroupRequest, effects: Effects) -> None:
    """KIP-792: a member that says its generation must have the group's."""
    if request.generation_id in (_NO_GENERATION, group.generation):
        return
    effects.emit(
        "member_fenced",
        group_id=group.group_id,
        member_id=request.member_id,
        generation_claimed=request.generation_id,
        generation=group.generation,
    )
    raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _join_without_id(
    groups: "Groups", group: ClassicGroup, joining: Joining, effects: Effects
) -> JoinGroupResponse | None:
    request, context = joining.request, joining.context
    instance_id = request.group_instance_id
    prefix = instance_id if instance_id is not None else context.client_id or ""
    member_id = f"{prefix}-{context.fresh_id}"
    if instance_id is not None:
        holder = group.static_members.get(instance_id)
        if holder is not None:
            return replace_static_member(groups, group, group.members[holder], member_id, joining, effects)
    elif context.api_version >= MEMBER_ID_REQUIRED_SINCE:
        if len(group.pending_joins) >= groups.config.limit_pending_members:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        group.pending_joins.add(member_id)
        effects.arm(pending_key(group.group_id, member_id), request.session_timeout_ms)
        return join_refused(context.api_version, ErrorCode.MEMBER_ID_REQUIRED, member_id)
    _add(groups, group, member_id, joining, effects)
    return None


def _add(groups: "Groups", group: ClassicGroup, member_id: str, joining: Joining, effects: Effects) -> None:
    request, context = joining.request, joining.context
    member = ClassicMember(
        group.group_id,
        member_id,
        request.group_instance_id,
        context.client_id or "",
        context.client_host,
        joining.protocols,
        b"",
        request.session_timeout_ms,
        joining.rebalance_timeout_ms,
    )
    member.client_reason = joining.client_reason
    member.is_new = True
    if group.initial_delay is not None:
        group.initial_delay.member_came = True
    group.add(member, request.protocol_type)
    group.park_join(member, context, joining.now_ms)
    effects.arm(member.session_timer.key, groups.config.group_new_member_join_timeout_ms)
    effects.facts.append(
        member_joined(group.group_id, Kind.CLASSIC, member_id, request.group_instance_id, context, group.generation + 1)
    )
    cause = Cause("a new member joins", member_id, joining.client_reason)
    rebalance_or_go_on(groups, group, cause, joining.now_ms, effects)


def _join_again(
    groups: "Groups", group: ClassicGroup, member: ClassicMember, joining: Joining, effects: Effects
) -> JoinGroupResponse | None:
    says_the_same = member.protocols == joining.protocols
    if group.state is State.COMPLETING_REBALANCE and says_the_same:
        return current_generation(group, member.member_id)
    if group.state is State.STABLE and says_the_same and not group.is_leader(member.member_id):
        if joining.request.generation_id == _NO_GENERATION:
            return current_generation(group, member.member_id)
        what = "a member enforces a rebalance"
    elif says_the_same:
        what = "the leader joins again"
    else:
        what = "a member's metadata changed"
    group.set_protocols(member, joining.protocols)
    joining.set_timeouts(member)
    earlier = group.park_join(member, joining.context, joining.now_ms)
    if earlier is not None:
        # Kafka leaves it without an answer.
        refusal = join_refused(earlier.api_version, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        effects.answer(earlier, refusal)
    cause = Cause(what, member.member_id, joining.client_reason)
    rebalance_or_go_on(groups, group, cause, joining.now_ms, effects)
    return None
