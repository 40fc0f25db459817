"""What a leader assigns is validated when it syncs: found, reported, and refused if the group wants that (KIP-792)."""

import pytest

from coordinator.groups.classic import assignment_validation
from coordinator.groups.classic.describe import details
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.subscription import Assignment, encode_assignment
from tests.groups.consumer.consumer_world import ChangeableSettings
from tests.groups.harness import GroupHarness, subscription

COOPERATIVE, EAGER = "cooperative-sticky", "range"


def assigned(**partitions):
    return encode_assignment(Assignment({topic: tuple(which) for topic, which in partitions.items()}, None, 3))


def completing(h, claims=((), ()), *, assignor=COOPERATIVE, generation=1):
    """A group of two in CompletingRebalance, whose members claim these partitions of t; returns their ids, the leader first."""
    leader, follower = h.stable(protocols={assignor: subscription()})
    rejoin(h, leader, follower, claims, assignor, generation)
    return leader, follower


def rejoin(h, leader, follower, claims=((), ()), assignor=COOPERATIVE, generation=1):
    for member_id, owned in zip((leader, follower), claims, strict=True):
        h.join(member_id=member_id, protocols={assignor: subscription(owned={"t": owned}, generation=generation)})
    assert h.group().state.value == "CompletingRebalance"


def assign(h, leader, follower, first, second):
    """Both sync; returns the follower's request and the leader's."""
    name, generation = h.group().protocol_name, h.group().generation
    waiting = h.sync("g", follower, generation, protocol_name=name)
    return waiting, h.sync("g", leader, generation, {leader: first, follower: second}, protocol_name=name)


def view(h):
    return details(h.groups, h.group())["invalid_assignments"]


def found(h):
    """(rule, topic, partition, member ids, owner) of the last assignment, as the view shows them."""
    return [tuple(each.values()) for each in view(h).get("partitions", ())]


def test_a_partition_of_two_members_is_reported_and_assigned():
    h = GroupHarness()
    leader, follower = completing(h, assignor=EAGER)
    both = assign(h, leader, follower, assigned(t=[0, 1]), assigned(t=[1, 2]))
    assert [each.reply.assignment for each in both] == [assigned(t=[1, 2]), assigned(t=[0, 1])]
    assert found(h) == [("two_members", "t", 1, (leader, follower), None)]
    assert h.facts_named("assignment_invalid") == [
        {
            "group_id": "g", "generation": 2, "leader": leader, "protocol": EAGER, "refused": False, "two_members": 1,
        }
    ]  # fmt: skip
    (event,) = h.events_of("AssignmentInvalid")
    assert (event.group_kind, event.member_id, event.epoch, event.protocol) == (0, leader, 2, EAGER)
    assert not event.refused
    ((rule, count, (partition,)),) = [(each.rule, each.count, each.partitions) for each in event.violations]
    assert (rule, count) == ("two_members", 1)
    assert (partition.topic_name, partition.partition) == ("t", 1)
    assert (partition.member_ids, partition.owner_id) == ([leader, follower], None)
    assert h.groups.counters.invalid_partitions == {"two_members": 1}


def test_a_topic_without_a_subscriber_is_reported():
    h = GroupHarness()
    leader, follower = completing(h, assignor=EAGER)
    assign(h, leader, follower, assigned(u=[0, 1]), assigned(t=[0]))
    assert found(h) == [("no_subscriber", "u", index, (leader,), None) for index in (0, 1)]


def test_a_topic_that_another_member_subscribes_to_is_valid():
    h = GroupHarness()
    leader = h.join_new_member(protocols={EAGER: subscription(["t"])})
    follower = h.join_new_member(protocols={EAGER: subscription(["u"])})
    h.advance(0)
    assign(h, leader, follower, assigned(u=[0]), assigned(t=[0]))
    assert h.facts_named("assignment_invalid") == []


def test_topics_are_not_compared_if_a_subscription_cannot_be_read():
    h = GroupHarness()
    leader, follower = h.join_new_member(), h.join_new_member(protocols={EAGER: b"?"})
    h.advance(0)
    assign(h, leader, follower, assigned(u=[0]), assigned(u=[0]))
    assert [each[0] for each in found(h)] == ["two_members"]


def test_a_partition_that_its_owner_has_not_revoked_is_reported():
    h = GroupHarness()
    leader, follower = completing(h, [(0, 1), (2, 3)])
    assign(h, leader, follower, assigned(t=[0, 1, 2]), assigned(t=[3]))
    assert found(h) == [("not_revoked", "t", 2, (leader,), follower)]


def test_a_partition_that_its_owner_has_revoked_is_valid():
    h = GroupHarness()
    leader, follower = completing(h, [(0, 1), (2, 3)])
    assign(h, leader, follower, assigned(t=[0, 1]), assigned(t=[3]))
    rejoin(h, leader, follower, [(0, 1), (3,)], generation=2)
    assign(h, leader, follower, assigned(t=[0, 1, 2]), assigned(t=[3]))
    assert h.facts_named("assignment_invalid") == []


def test_an_eager_assignor_may_move_partitions_at_once():
    h = GroupHarness()
    leader, follower = completing(h, [(0, 1), (2, 3)], assignor=EAGER)
    assign(h, leader, follower, assigned(t=[2, 3]), assigned(t=[0, 1]))
    assert h.facts_named("assignment_invalid") == []


def test_a_stale_claim_makes_nobody_an_owner():
    h = GroupHarness()
    leader, follower = completing(h, [(0, 1), (2, 3)], generation=0)
    assign(h, leader, follower, assigned(t=[2, 3]), assigned(t=[0, 1]))
    assert h.facts_named("assignment_invalid") == []


def test_a_contested_claim_makes_nobody_an_owner():
    h = GroupHarness()
    leader, follower = completing(h, [(0, 1), (1, 2)])
    assign(h, leader, follower, assigned(t=[0]), assigned(t=[1, 2]))
    assert h.facts_named("assignment_invalid") == []


def test_claims_of_a_generation_that_was_refused_are_still_valid():
    h = GroupHarness(group_classic_validate_assignments="refuse")
    leader, follower = completing(h, [(0, 1), (2, 3)])
    for generation in (2, 3):
        both = assign(h, leader, follower, assigned(t=[0, 1, 2]), assigned(t=[3]))
        assert [each.error for each in both] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
        rejoin(h, leader, follower, [(0, 1), (2, 3)], generation=generation)
    assert view(h)["not_revoked"] == 2
    assert h.group().claims is None


def test_a_refused_assignment_is_not_written_and_its_members_join_again():
    h = GroupHarness(group_classic_validate_assignments="refuse")
    leader, follower = completing(h)
    written, armed = len(h.records), len(h.timers)
    both = assign(h, leader, follower, assigned(t=[0]), assigned(t=[0]))
    assert [(each.error, each.reply.assignment) for each in both] == [(ErrorCode.REBALANCE_IN_PROGRESS, b"")] * 2
    assert len(h.records) == written
    assert h.group().state.value == "PreparingRebalance"
    assert len(h.timers) == armed, "two sessions, and the rebalance in place of the syncs"
    assert all(member.assignment == b"" for member in h.group().members.values())
    (event,) = h.events_of("AssignmentInvalid")
    assert event.refused
    started = h.events_of("RebalanceStarted")[-1]
    assert (started.cause, started.member_id, started.epoch) == ("the leader's assignment is invalid", leader, 3)
    assert h.heartbeat("g", follower, 2).error is ErrorCode.REBALANCE_IN_PROGRESS
    rejoin(h, leader, follower, generation=2)
    both = assign(h, leader, follower, assigned(t=[0]), assigned(t=[1]))
    assert [each.error for each in both] == [ErrorCode.NONE] * 2
    assert h.group().stored.generation == 3
    assert view(h) == {"two_members": 1, "no_subscriber": 0, "not_revoked": 0}


@pytest.mark.parametrize("rule", ["two_members", "no_subscriber", "not_revoked"])
def test_the_round_that_a_crash_brings_back_is_validated(rule):
    h = GroupHarness(group_classic_validate_assignments="refuse")
    leader, follower = completing(h, [(0, 1), (2, 3)])
    h.restart()
    first = {"two_members": {"t": [0, 1]}, "no_subscriber": {"u": [0]}, "not_revoked": {"t": [0, 1, 2]}}[rule]
    both = assign(h, leader, follower, assigned(**first), assigned(t=[1] if rule == "two_members" else [3]))
    assert [each.error for each in both] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    assert [each[0] for each in found(h)] == [rule]


def test_off_reads_nothing():
    h = GroupHarness(group_classic_validate_assignments="off")
    leader, follower = completing(h)
    assign(h, leader, follower, assigned(u=[0]), assigned(u=[0]))
    assert h.facts_named("assignment_invalid") == []
    assert h.groups.counters.invalid_partitions == {}


@pytest.mark.parametrize(("own", "error"), [("refuse", ErrorCode.REBALANCE_IN_PROGRESS), ("off", ErrorCode.NONE)])
def test_a_group_may_have_its_own_policy(own, error):
    h = GroupHarness()
    h.groups.settings = ChangeableSettings(h.config)
    h.groups.settings.own["g"] = {"classic.validate.assignments": own}
    leader, follower = completing(h)
    _, leaders = assign(h, leader, follower, assigned(t=[0]), assigned(t=[0]))
    assert leaders.error is error


def test_only_the_consumer_protocol_is_validated():
    h = GroupHarness(group_classic_validate_assignments="refuse")
    leader, follower = h.stable(protocol_type="connect")
    h.join(member_id=leader, protocol_type="connect")
    h.join(member_id=follower, protocol_type="connect")
    same = assigned(t=[0])
    assert h.sync("g", leader, 2, {leader: same, follower: same}, protocol_type="connect").ok


def test_bytes_that_are_no_assignment_are_skipped():
    h = GroupHarness(group_classic_validate_assignments="refuse")
    leader, follower = completing(h)
    both = assign(h, leader, follower, b"\0\1\0\0\0\5", b"\0\1\0\0\0\5")
    assert [each.error for each in both] == [ErrorCode.NONE] * 2


@pytest.mark.parametrize("spare_bytes", [-1, 0])
def test_an_assignment_that_would_take_too_long_is_not_validated(spare_bytes, monkeypatch):
    h = GroupHarness(group_classic_validate_assignments="refuse")
    leader, follower = completing(h)
    same = assigned(t=range(1_000))
    monkeypatch.setattr(assignment_validation, "VALIDATED_BYTES_MAX", 2 * len(same) + spare_bytes)
    _, leaders = assign(h, leader, follower, same, same)
    assert leaders.error is (ErrorCode.NONE if spare_bytes < 0 else ErrorCode.REBALANCE_IN_PROGRESS)
    skipped = [{"group_id": "g", "generation": 2, "bytes": 2 * len(same)}] if spare_bytes < 0 else []
    assert h.facts_named("assignment_not_validated") == skipped


def test_members_that_the_leader_made_up_own_nothing():
    h = GroupHarness(group_classic_validate_assignments="refuse")
    leader, follower = completing(h)
    request = h.sync("g", leader, 2, {leader: assigned(t=[0]), "made up": assigned(t=[0])}, protocol_name=COOPERATIVE)
    assert request.ok
    assert follower in h.group().members


def test_an_emptied_group_has_no_invalid_assignment():
    h = GroupHarness()
    leader, follower = completing(h)
    assign(h, leader, follower, assigned(t=[0]), assigned(t=[0]))
    h.leave("g", leader, follower)
    assert view(h) == {"two_members": 1, "no_subscriber": 0, "not_revoked": 0}
