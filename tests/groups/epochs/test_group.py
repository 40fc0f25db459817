"""What a group with epochs knows of its members while records are replayed: who reached the target, who left in its epoch."""

from dataclasses import replace

import pytest

from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.fence import NO_FENCE

AWAY = -2
"""The epoch of a static member that has left for a while."""


def member(epoch: int, member_id: str = "m", **fields) -> ConsumerMember:
    return ConsumerMember(member_id=member_id, member_epoch=epoch, **fields)


@pytest.fixture
def group() -> ConsumerGroup:
    made = ConsumerGroup("g", NO_FENCE)
    made.set_target_epoch(3, 5_000)
    return made


@pytest.mark.parametrize("leaves", ["for good", "for a while"])
@pytest.mark.parametrize(("epoch", "remembered"), [(2, set()), (3, {"m"}), (4, {"m"})])
def test_a_member_that_left_in_the_targets_epoch_is_remembered_until_the_next_target(group, epoch, remembered, leaves):
    """Back under its id it must not get that epoch again, or a commit from before it left would pass for a later one."""
    group.put(member(epoch))
    if leaves == "for good":
        group.drop("m")
    else:
        group.put(member(AWAY))
    assert group.left_at_target == remembered
    group.set_target_epoch(4, 6_000)
    assert group.left_at_target == set()


def test_a_member_that_is_away_did_not_leave_again_when_it_is_removed(group):
    group.put(member(2))
    group.put(member(AWAY))
    group.drop("m")
    assert group.left_at_target == set()


@pytest.mark.parametrize(
    ("target", "behind"), [(2, {"a", "c"}), (3, {"a", "b"}), (4, {"a", "b", "c"}), (5, {"a", "b", "c"})]
)
def test_who_has_not_reached_a_new_target_is_known_at_once(group, target, behind):
    """Also of a target that some have reached already, as after a group was converted."""
    for member_id, epoch in (("a", 1), ("b", 2), ("c", 3)):
        group.put(member(epoch, member_id))
    assert group.unreconciled == {"a", "b"}
    group.set_target_epoch(target, 6_000)
    assert group.unreconciled == behind


def test_a_target_is_expected_again_after_its_interval_or_when_its_age_is_unknown(group):
    assert [group.target_stands(100, now_ms) for now_ms in (4_999, 5_000, 5_099, 5_100)] == [False, True, True, False]
    group.set_target_epoch(4, 0)
    assert not group.target_stands(100, 50)


def test_an_instance_id_belongs_to_the_member_that_had_it_last(group):
    group.put(member(3, instance_id="i"))
    group.put(member(3, "n", instance_id="i"))
    group.drop("m")
    assert group.static_members == {"i": "n"}
    group.put(member(3, "n", instance_id="j"))
    assert group.static_members == {"j": "n"}
    group.drop("n")
    assert group.static_members == {}


@pytest.mark.parametrize(
    ("change", "heartbeats", "holdings"),
    [
        (lambda group: group.put(member(3, client_id="new")), {"n"}, {"m", "n"}),
        (lambda group: group.put(member(AWAY)), {"n"}, {"n"}),
        (lambda group: group.drop("m"), {"n"}, {"n"}),
        (lambda group: group.set_target_epoch(4, 6_000), set(), {"m", "n"}),
    ],
    ids=["a new value", "away", "removed", "a new target"],
)
def test_what_was_kept_to_answer_a_member_ends_with_what_it_was_made_from(group, change, heartbeats, holdings):
    """Answers that were built before, and what was last sent to the member and confirmed by it."""
    for member_id in ("m", "n"):
        group.put(member(3, member_id))
    soft = group.soft
    for kept in (soft.cached_heartbeats, soft.delivered, soft.acknowledged):
        kept.update({"m": (3, {}), "n": (3, {})})
    change(group)
    assert set(soft.cached_heartbeats) == heartbeats
    assert (set(soft.delivered), set(soft.acknowledged)) == (holdings, holdings)


def test_the_next_process_of_a_static_member_is_sent_everything_again(group):
    group.put(member(AWAY))
    group.soft.delivered["m"] = group.soft.acknowledged["m"] = (3, {})
    group.put(replace(member(3), client_id="restarted"))
    assert (group.soft.delivered, group.soft.acknowledged) == ({}, {})
