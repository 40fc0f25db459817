"""A step of a member towards its target, as the pure function decides it."""

import pytest

from coordinator.groups.consumer.member import ConsumerMember, MemberState
from coordinator.groups.consumer.reconcile import reconcile

TOPIC = b"t" * 16


@pytest.mark.parametrize(
    ("target_epoch", "epoch", "revocation_epoch", "pending"), [(6, 5, 2, {1: 3, 2: 3}), (7, 6, 5, {1: 3})]
)
def test_what_was_given_up_is_released_before_more_is_taken_if_there_is_an_epoch_for_it(
    target_epoch, epoch, revocation_epoch, pending
):
    """The member has given up partition 2, and the next target takes partition 1 as well."""
    before = ConsumerMember(
        member_id="m",
        member_epoch=5,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned={TOPIC: {0: 3, 1: 3}},
        pending_revocation={TOPIC: {2: 3}},
        revocation_epoch=2,
    )
    after = reconcile(
        before,
        target_epoch=target_epoch,
        target={TOPIC: frozenset({0})},
        topics={TOPIC},
        owned=[(TOPIC, [0, 1])],
        is_free=lambda _topic_id, _partition: True,
        subscription_changed=False,
    )
    assert (after.member_epoch, after.previous_member_epoch, after.revocation_epoch) == (epoch, 5, revocation_epoch)
    assert (after.state, after.assigned) == (MemberState.UNREVOKED_PARTITIONS, {TOPIC: {0: 3}})
    assert after.pending_revocation == {TOPIC: pending}
