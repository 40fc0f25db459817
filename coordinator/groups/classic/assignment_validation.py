"""Validates what the leader of a classic group assigned, when its SyncGroup arrives (KIP-792; the rules: assignment_rules.py).

Only groups of protocol type "consumer" are validated, and only what the coordinator can read: an assignment that is not one of
the consumer protocol is skipped, and if any subscription is unreadable, topics are not compared. An assignor counts as
cooperative if its name contains "cooperative", as that of all clients does (`cooperative-sticky`). Members of an eager assignor
revoke everything before they join, so they own nothing that could be taken from them; if they claim anything, it is ignored.

`group.classic.validate.assignments` says what follows. `report`: the members get the assignment, and the violations are
counted, emitted, and shown in the view of the group. `refuse`: nobody gets it, nothing is written, and all members join again.
An assignor that makes the same mistake each time then keeps the group in rebalances until somebody replaces it: no partition
has two owners, and none has progress.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from coordinator.groups.classic.assignment_rules import InvalidAssignment, find_violations
from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.owned_partitions import claimed_generation, is_stale
from coordinator.groups.classic.rebalance import read_subscriptions
from coordinator.groups.kinds import Kind
from coordinator.groups.settings import OFF, REFUSE
from coordinator.groups.state import Groups
from coordinator.groups.update import GroupUpdate
from coordinator.protocol.messages import AssignmentInvalidKey, AssignmentInvalidValue
from coordinator.protocol.subscription import TopicPartitions, parse_assignment
from coordinator.protocol.wire import DecodeError
from coordinator.runtime.result import Event, MessageEvent

VALIDATED_BYTES_MAX = 2 << 20
"""A generation with more bytes of assignments is not validated. These are half a million partitions, which take 0.1 s; a
request may have four times as many."""
_COOPERATIVE = "cooperative"
_Violation = AssignmentInvalidValue.Violation
_Partition = AssignmentInvalidValue.Partition


def validate_assignments(groups: Groups, group: ClassicGroup, update: GroupUpdate) -> bool:
    """Whether the members may receive the assignments that they have just been given. Emits the violations."""
    given = {member_id: member.assignment for member_id, member in group.members.items()}
    return _validate(groups, group, given, _claims, update)


def validate_resync(groups: Groups, group: ClassicGroup, assignments: Mapping[str, bytes], update: GroupUpdate) -> bool:
    """Whether the leader may resync with these assignments, by member id. Emits the violations.

    Members of a cooperative assignor read on while they wait, so in a resync they claim what the generation assigned to them.
    """
    return _validate(groups, group, assignments, _held, update)


def _validate(
    groups: Groups,
    group: ClassicGroup,
    given: Mapping[str, bytes],
    claims: Callable[[ClassicGroup], Iterable[tuple[str, TopicPartitions]]],
    update: GroupUpdate,
) -> bool:
    policy = groups.settings.classic(group.group_id).validate_assignments
    group.invalid_assignment = None
    if policy == OFF or not group.uses_consumer_protocol:
        return True
    size_bytes = sum(map(len, given.values()))
    if size_bytes > VALIDATED_BYTES_MAX:
        update.emit("assignment_not_validated", generation=group.generation, bytes=size_bytes)
        return True
    violations = find_violations(_parsed(given), group.subscribed_topics, claims(group))
    if not violations:
        return True
    invalid = InvalidAssignment(
        group.generation, group.leader_id or "", group.protocol_name or "", policy == REFUSE, violations
    )
    group.invalid_assignment = invalid
    counts = {violation.rule: violation.size for violation in violations}
    for rule, count in counts.items():
        group.invalid_partitions[rule] = group.invalid_partitions.get(rule, 0) + count
        groups.counters.count_invalid_partitions(rule, count)
    update.emit(
        "assignment_invalid",
        _event(group.group_id, invalid),
        generation=invalid.generation,
        leader=invalid.leader_id,
        protocol=invalid.protocol,
        refused=invalid.is_refused,
        **counts,
    )
    return not invalid.is_refused


def _parsed(given: Mapping[str, bytes]) -> dict[str, TopicPartitions]:
    """The readable assignments by member id. Equal bytes, such as those of members without partitions, are parsed once."""
    parsed: dict[bytes, TopicPartitions] = {}
    assignments = {}
    for member_id, assignment in given.items():
        partitions = parsed.get(assignment)
        if partitions is None:
            partitions = parsed[assignment] = _partitions(assignment)
        assignments[member_id] = partitions
    return assignments


def _partitions(assignment: bytes) -> TopicPartitions:
    """None of the partitions if the bytes are not an assignment."""
    try:
        return parse_assignment(assignment).partitions
    except DecodeError:
        return {}


def _claims(group: ClassicGroup) -> Iterator[tuple[str, TopicPartitions]]:
    """The claims of this round that are not stale, if the assignor is cooperative."""
    if _COOPERATIVE not in (group.protocol_name or ""):
        return
    for member_id, subscription in read_subscriptions(group):
        generation = claimed_generation(subscription, group.protocol_name)
        if generation is None or not is_stale(generation, group.generation, group.assigned_generation):
            yield member_id, subscription.owned


def _held(group: ClassicGroup) -> Iterable[tuple[str, TopicPartitions]]:
    """What the members of the generation hold, if the assignor is cooperative."""
    if _COOPERATIVE not in (group.protocol_name or ""):
        return ()
    return _parsed({member_id: member.assignment for member_id, member in group.members.items()}).items()


def _event(group_id: str, invalid: InvalidAssignment) -> Event:
    value = AssignmentInvalidValue(
        group_kind=Kind.CLASSIC,
        member_id=invalid.leader_id,
        epoch=invalid.generation,
        protocol=invalid.protocol,
        refused=invalid.is_refused,
        violations=[
            _Violation(
                violation.rule,
                violation.size,
                [
                    _Partition(each.topic, each.partition, list(each.member_ids), each.owner_id)
                    for each in violation.partitions
                ],
            )
            for violation in invalid.violations
        ],
    )
    return MessageEvent(AssignmentInvalidKey(group_id), value)
