"""Which epochs of a member may commit which partitions, under each policy, with the reason that is counted."""

import pytest

from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.fencing import (
    AHEAD,
    BEHIND,
    LOSS_UNKNOWN,
    LOST_SINCE,
    NOT_OWNED,
    NOT_OWNED_THEN,
    stale_because,
    verdicts,
)
from coordinator.groups.settings import ASSIGNMENT_EPOCH, FENCING_POLICIES, REVOCATION_EPOCH, STRICT, ConsumerSettings

TOPIC = b"t" * 16
EARLY, LATE, FOREIGN = (TOPIC, 0), (TOPIC, 1), (TOPIC, 2)
"""Partitions that the member has had since epochs 400 and 800, and one that it does not have."""
REVOKED, NOW = 600, 1_000
"""The last epoch in which it had something that it lost, and its epoch. Above 256 equal numbers are several objects."""
MEMBER = ConsumerMember(
    member_id="m",
    member_epoch=NOW,
    revocation_epoch=REVOKED,
    assigned={TOPIC: {0: 400}},
    pending_revocation={TOPIC: {1: 800}},
)


def policies(policy, *, require_ownership=False):
    return ConsumerSettings(
        session_timeout_ms=1,
        heartbeat_interval_ms=1,
        assignment_interval_ms=1,
        fencing_policy=policy.encode().decode(),  # as it is read from a config: equal, and another object
        require_ownership=require_ownership,
        require_member=False,
    )


def reasons(policy, partition, *epochs, member=MEMBER):
    return [stale_because(member, int(str(epoch)), [partition], policies(policy)) for epoch in epochs]


@pytest.mark.parametrize("policy", FENCING_POLICIES)
@pytest.mark.parametrize("partition", [EARLY, LATE, FOREIGN])
def test_at_its_epoch_a_member_may_commit_anything_and_above_it_nothing(policy, partition):
    assert reasons(policy, partition, NOW, NOW + 1, NOW + 2) == [None, AHEAD, AHEAD]


@pytest.mark.parametrize("policy", FENCING_POLICIES)
def test_where_ownership_is_required_a_member_commits_at_its_epoch_what_it_holds(policy):
    required = policies(policy, require_ownership=True)
    for partitions, reason in (([EARLY, LATE], None), ([FOREIGN], NOT_OWNED), ([EARLY, FOREIGN], NOT_OWNED)):
        assert stale_because(MEMBER, int(str(NOW)), partitions, required) == reason


@pytest.mark.parametrize(
    ("policy", "partition", "allowed_from", "below", "between"),
    [
        (STRICT, EARLY, NOW, BEHIND, BEHIND),
        (REVOCATION_EPOCH, EARLY, REVOKED + 1, LOST_SINCE, LOST_SINCE),
        (REVOCATION_EPOCH, LATE, 800, LOST_SINCE, NOT_OWNED_THEN),
        (REVOCATION_EPOCH, FOREIGN, NOW, LOST_SINCE, NOT_OWNED_THEN),
        (ASSIGNMENT_EPOCH, EARLY, 400, NOT_OWNED_THEN, NOT_OWNED_THEN),
        (ASSIGNMENT_EPOCH, LATE, 800, NOT_OWNED_THEN, NOT_OWNED_THEN),
        (ASSIGNMENT_EPOCH, FOREIGN, NOW, NOT_OWNED_THEN, NOT_OWNED_THEN),
    ],
)
def test_an_earlier_epoch_may_commit_from_the_one_on_that_the_policy_says(
    policy, partition, allowed_from, below, between
):
    """`below`: the reason up to the revocation epoch; `between`: from there on to the first epoch that is allowed."""
    lowest = min(allowed_from - 1, REVOKED)
    assert reasons(policy, partition, 0, 1, lowest) == [below] * 3
    assert reasons(policy, partition, allowed_from - 1) == [below if allowed_from - 1 <= REVOKED else between]
    assert reasons(policy, partition, allowed_from, NOW) == [None, None]


@pytest.mark.parametrize(("revocation_epoch", "early"), [(-1, LOSS_UNKNOWN), (0, None)])
def test_a_member_whose_last_loss_is_not_known_is_held_to_its_epoch(revocation_epoch, early):
    member = ConsumerMember(
        member_id="m", member_epoch=NOW, revocation_epoch=revocation_epoch, assigned={TOPIC: {0: 1, 1: 800}}
    )
    assert reasons(REVOCATION_EPOCH, EARLY, 1, NOW - 1, NOW, member=member) == [early, early, None]
    assert reasons(REVOCATION_EPOCH, LATE, 799, member=member) == [NOT_OWNED_THEN]
    assert reasons(ASSIGNMENT_EPOCH, EARLY, 1, member=member) == [None]


def test_one_partition_that_may_not_be_committed_fails_them_all():
    for policy in (REVOCATION_EPOCH, ASSIGNMENT_EPOCH):
        assert stale_because(MEMBER, 799, [EARLY, LATE], policies(policy)) == NOT_OWNED_THEN
        assert stale_because(MEMBER, 800, [EARLY, LATE], policies(policy)) is None


def test_the_verdicts_of_all_policies_are_in_their_order():
    found = verdicts(MEMBER, 500, [EARLY], policies(STRICT))
    assert dict(zip(FENCING_POLICIES, found, strict=True)) == {
        STRICT: BEHIND,
        REVOCATION_EPOCH: LOST_SINCE,
        ASSIGNMENT_EPOCH: None,
    }
