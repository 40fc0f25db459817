"""The records of groups with epochs say since when a member has what it holds, or leave it open."""

import pytest

from coordinator.groups.epochs.replay import with_epochs


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
