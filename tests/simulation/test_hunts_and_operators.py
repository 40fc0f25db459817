"""Clients of the simulation report no broken promise where the server keeps all of them."""

from dataclasses import replace
from itertools import count
from types import SimpleNamespace

from coordinator_lab.simulation.convergence import CONVERGENCE_BOUND_S
from coordinator_lab.simulation.hunts import SAFETY, Hunt
from coordinator_lab.simulation.operator import Operator
from coordinator_lab.simulation.plan import draw

PARTITION = ("orders", 1)
GROUP = "mixed-0"


class Observed:
    """A hunt, and the promises that it found broken."""

    def __init__(self):
        self.broken = []
        self._ticks = count(1)
        self.hunt = Hunt(self, lambda promise, _: self.broken.append(promise), draw(1, 10.0))

    def tick(self):
        return next(self._ticks)

    def joins(self, member_id, epoch, partitions, *, is_classic=True):
        """The member joins with this epoch and gets the partitions."""
        self.hunt.joins(GROUP, member_id)
        asked = self.tick()
        if not is_classic:
            self.hunt.joined(GROUP, epoch, asked)
        self.hunt.informed(GROUP, member_id, 9, epoch, partitions, asked)

    def commits(self, member_id, epoch):
        """A commit of the partition with this epoch is accepted."""
        self.hunt.accepted(GROUP, member_id, epoch, PARTITION, self.tick())


def test_a_member_that_returns_to_a_group_that_began_again_is_no_zombie():
    """As in Kafka, which starts the epochs of the new group over."""
    observed = Observed()
    observed.joins("returning", 4, {PARTITION})
    observed.joins("other", 2, {PARTITION}, is_classic=False)
    observed.joins("returning", 3, set())
    observed.hunt.in_epoch(GROUP, "returning", 4, observed.tick())
    observed.commits("returning", 4)
    assert observed.broken == []


def test_a_member_that_returns_to_a_group_that_went_on_is_a_zombie():
    observed = Observed()
    observed.joins("returning", 4, {PARTITION})
    observed.joins("other", 5, {PARTITION}, is_classic=False)
    observed.joins("returning", 6, set())
    observed.commits("returning", 4)
    assert observed.broken == [SAFETY]


async def test_an_operator_never_sleeps_through_the_time_to_converge():
    """Otherwise its intervals stay, and the run counts as one that does not converge (I12)."""
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        world.is_healed = len(slept) == 1_000

    plan = replace(draw(1, 10.0), forced_s=10.0, rebalance_interval_ms=0)
    world = SimpleNamespace(plan=plan, is_healed=False, sleep=sleep, caller=lambda _: None)
    operator = Operator(world, "operator", {})
    await operator.run()
    assert operator.is_done
    assert max(slept) < CONVERGENCE_BOUND_S / 2
