"""The records of groups with epochs say since when a member has what it holds, or leave it open."""

import pytest

from coordinator.groups.epochs.group import EPOCH_AT_FIRST
from coordinator.groups.epochs.replay import with_epochs
from coordinator.protocol.messages import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from coordinator.runtime.result import Record, Result
from tests.groups.consumer.consumer_world import ConsumerHarness


@pytest.mark.parametrize(
    ("numbers", "epochs", "member_epoch", "held"),
    [
        ([0, 7], [3, 300], 400, {"t": {0: 3, 7: 300}}),
        ([0, 7], None, 400, {"t": {0: 400, 7: 400}}),
        ([0, 7], [3], 400, {"t": {0: 400, 7: 400}}),
        ([0], None, 1, {"t": {0: 1}}),
        ([0], None, -2, {"t": {0: 0}}),
        ([], [], 400, {}),
        ([], None, 400, {}),
    ],
)
def test_holdings_without_epochs_have_that_of_their_member(numbers, epochs, member_epoch, held):
    assert with_epochs([("t", numbers, epochs)], member_epoch) == held


def test_each_tombstone_takes_back_what_its_record_said():
    """Kafka writes them in this order; a crash may leave the first ones only."""
    h = ConsumerHarness()
    h.join_modern()
    assert h.member().assigned
    assert h.consumer().target_epoch > EPOCH_AT_FIRST
    for key, is_undone in (
        (ConsumerGroupCurrentMemberAssignmentKey("g", "m"), lambda: not h.member().assigned),
        (ConsumerGroupTargetAssignmentMemberKey("g", "m"), lambda: "m" not in h.consumer().target),
        (ConsumerGroupTargetAssignmentMetadataKey("g"), lambda: h.consumer().target_epoch == EPOCH_AT_FIRST),
        (ConsumerGroupMetadataKey("g"), lambda: "g" not in h.groups.by_id),
    ):
        h._apply(Result(records=[Record(key, None)]))
        assert is_undone(), key
