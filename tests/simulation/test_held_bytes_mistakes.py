"""The simulation catches bytes of groups that are counted wrongly."""

from dataclasses import replace

import pytest

from coordinator.groups.classic.round import Round
from coordinator.groups.epochs.group import ModernGroup
from coordinator_lab.simulation.plan import draw
from tests.support.mistakes import Patch, assert_breaks

pytestmark = pytest.mark.long


def a_classic_member_that_left_still_counts(patch: pytest.MonkeyPatch) -> None:
    real = Round.remove

    def remove(group, member_id):
        member = real(group, member_id)
        group.hold(0 if member is None else member.held_bytes)
        return member

    patch.setattr(Round, "remove", remove)


def a_member_with_an_epoch_that_left_still_counts(patch: pytest.MonkeyPatch) -> None:
    real = ModernGroup.on_member_removed

    def on_member_removed(group, member):
        real(group, member)
        group.hold(member.held_bytes)

    patch.setattr(ModernGroup, "on_member_removed", on_member_removed)


@pytest.mark.parametrize(
    "mistake",
    [a_classic_member_that_left_still_counts, a_member_with_an_epoch_that_left_still_counts],
    ids=lambda mistake: mistake.__name__,
)
def test_a_known_mistake_in_counting_is_caught(mistake: Patch, monkeypatch: pytest.MonkeyPatch):
    mistake(monkeypatch)
    plans = (replace(draw(seed, 30.0), groups=2, consumer_groups=1, share_groups=0) for seed in range(1, 6))
    assert_breaks(mistake, "I33", plans)
