"""The epochs of a member that joins or comes back fence what it lost before."""

import pytest

from coordinator.groups.epochs.entry import entry_epoch, entry_revocation_epoch
from coordinator.groups.epochs.member import NOT_ASSIGNED_YET

TOPIC, OTHER = b"topic", b"other"
HELD = {TOPIC: {0: 2, 1: 3}, OTHER: {0: 3}}


@pytest.mark.parametrize(("revocation_epoch", "target_epoch"), [(-1, 1), (0, 1), (2, 3), (2, 7)])
def test_a_member_that_has_nothing_to_give_up_joins_at_the_epoch_of_the_target(revocation_epoch, target_epoch):
    assert entry_epoch(revocation_epoch, target_epoch, must_give_up=False) == target_epoch


@pytest.mark.parametrize(
    ("revocation_epoch", "target_epoch", "epoch"),
    [
        (0, 7, 6),
        (5, 7, 6),
        (0, 2, 1),
        (-1, 2, 1),
        pytest.param(6, 7, 7, id="no epoch is left after an even one"),
        pytest.param(7, 8, 8, id="no epoch is left after an odd one"),
        pytest.param(-1, 1, 1, id="0 is the epoch of a request to join"),
        (0, 1, 1),
    ],
)
def test_a_member_that_must_give_up_joins_before_the_target_but_after_its_last_loss(
    revocation_epoch, target_epoch, epoch
):
    assert entry_epoch(revocation_epoch, target_epoch, must_give_up=True) == epoch


@pytest.mark.parametrize("known", [0, 1, 4])
@pytest.mark.parametrize(
    "kept", [(HELD,), (HELD, {}), ({TOPIC: {1: 5}}, {TOPIC: {0: 5, 2: 5}, OTHER: {0: 5}})], ids=["one", "first", "both"]
)
def test_a_member_that_keeps_what_it_held_keeps_its_revocation_epoch(known, kept):
    assert entry_revocation_epoch(known, 5, HELD, kept) == known


@pytest.mark.parametrize(
    ("known", "held", "kept"),
    [
        pytest.param(0, HELD, ({TOPIC: {0: 2, 1: 3}},), id="it gave up a topic"),
        pytest.param(1, HELD, ({TOPIC: {0: 2}, OTHER: {0: 3}}, {}), id="it gave up a partition"),
        pytest.param(1, {TOPIC: {0: NOT_ASSIGNED_YET}}, ({TOPIC: {0: 5}},), id="another member held it until now"),
        pytest.param(-1, HELD, (HELD,), id="the log does not say when it lost something"),
    ],
)
def test_a_member_that_may_have_lost_something_gets_the_epoch_before_the_one_it_joins_at(known, held, kept):
    assert [entry_revocation_epoch(known, epoch, held, kept) for epoch in (5, 6)] == [4, 5]


@pytest.mark.parametrize("known", [4, 6])
def test_a_revocation_epoch_never_falls(known):
    assert entry_revocation_epoch(known, 5, HELD, ()) == known
