"""SyncGroup: a member asks for its assignment; the leader's request brings everybody's.

While the leader thinks, the others' requests are parked. The leader's ends Completing: the generation goes to the log with
its assignments, and whoever waits is answered; those that ask later are answered from what is stored. A leader's second
assignment is ignored. Members it left out get an empty one, names it made up are passed over.

Since v5 a client says which protocol it thinks it runs, and is refused if it is wrong or does not say.
"""

from typing import TYPE_CHECKING

from coordinator.groups.classic.answers import assigned, sync_refused
from coordinator.groups.classic.effects import Effects
from coordinator.groups.classic.group import ClassicGroup, ClassicMember, State, find_classic_group, sync_key
from coordinator.groups.classic.rebalance import tell_completed
from coordinator.groups.classic.records import group_metadata
from coordinator.groups.consumer.group import find_consumer_group
from coordinator.groups.events import ClassicDelivery, event_only, fenced_classic
from coordinator.groups.fencing import fence_generation, fence_member
from coordinator.groups.migration.classic_members import sync_consumer_group
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import SyncGroupRequest
from coordinator.runtime.result import Fact, RequestContext, Result

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

PROTOCOL_REQUIRED_SINCE = 5


def sync(groups: "Groups", request: SyncGroupRequest, context: RequestContext, now_ms: int) -> Result:
    try:
        return _sync(groups, request, context, now_ms)
    except KafkaError as error:
        error.facts = fenced_classic(groups, request, error.code)
        raise


def _sync(groups: "Groups", request: SyncGroupRequest, context: RequestContext, now_ms: int) -> Result:
    if context.api_version >= PROTOCOL_REQUIRED_SINCE and (
        request.protocol_type is None or request.protocol_name is None
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    group = find_classic_group(groups, request.group_id)
    if group is None:
        consumer = find_consumer_group(groups, request.group_id)
        if consumer is not None:
            return sync_consumer_group(groups, consumer, request, context, now_ms)
    if group is None or group.state is State.EMPTY:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    fence_member(group, request.member_id, request.group_instance_id)
    fence_generation(group, request.generation_id)
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is State.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    effects = Effects()
    member = group.members[request.member_id]
    _has_asked(group, request.member_id, effects)
    if group.state is State.STABLE:
        effects.facts.append(_delivered(groups, group, member))
        return effects.result(assigned(group, member))
    earlier, member.awaiting_sync = member.awaiting_sync, context
    # Kafka leaves it without an answer.
    effects.answer(earlier, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
    if group.is_leader(request.member_id):
        _assign(groups, group, request, now_ms, effects)
    return effects.result()


def _assign(groups: "Groups", group: ClassicGroup, request: SyncGroupRequest, now_ms: int, effects: Effects) -> None:
    """The generation has its assignments: it is written, and everybody who waits is answered."""
    assignments = {each.member_id: each.assignment for each in request.assignments}
    left_out = 0
    for member_id, member in group.members.items():
        assignment = assignments.get(member_id)
        left_out += assignment is None
        member.assignment = assignment or b""
    group.enter(State.STABLE, now_ms)
    effects.write(group_metadata(group))
    for member in group.members.values():
        context = group.unpark_sync(member)
        if context is not None:
            effects.answer(context, assigned(group, member))
            effects.facts.append(_delivered(groups, group, member))
            # A session that ran out while its sync was parked did not count and must start again.
            effects.timers.append(member.session_timer)
    took_ms = 0
    if group.rebalances:
        rebalance = group.rebalances[-1]
        rebalance.ended_ms = now_ms
        rebalance.completed = True
        took_ms = now_ms - rebalance.started_ms
        if rebalance.formed_ms is not None:
            waited_ms = rebalance.waits.get(request.member_id, 0)
            rebalance.waits[request.member_id] = waited_ms + now_ms - rebalance.formed_ms
    effects.emit(
        "group_stable",
        tell_completed(group, now_ms),
        group_id=group.group_id,
        generation=group.generation,
        members=len(group.members),
        left_out=left_out,
        took_ms=took_ms,
    )


def _delivered(groups: "Groups", group: ClassicGroup, member: ClassicMember) -> Fact:
    delivery = ClassicDelivery(group.group_id, member.member_id, group.generation, member.assignment, groups.catalog)
    return event_only(delivery)


def _has_asked(group: ClassicGroup, member_id: str, effects: Effects) -> None:
    if member_id in group.pending_syncs:
        del group.pending_syncs[member_id]
        if not group.pending_syncs:
            effects.disarm(sync_key(group))


def _differs(said: str | None, chosen: str | None) -> bool:
    return said is not None and chosen is not None and said != chosen
