"""A planted mistake is caught for the promise that it breaks, and for nothing else."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from coordinator_lab.simulation import simulator
from coordinator_lab.simulation.plan import Plan

Patch = Callable[[pytest.MonkeyPatch], None]


def shown_by(seed: int) -> Callable[[Any], Any]:
    """Declares the seed that shows a mistake, where it is not the first: it is tried before the others."""

    def declare(mistake: Any) -> Any:
        mistake.seed = seed
        return mistake

    return declare


def assert_breaks(mistake: Patch, promises: str, plans: Iterable[Plan]) -> None:
    """The first of these runs that breaks a promise breaks one of these: a regular expression, as I(8|42).

    An exception in the mistake's own code is a failure: it breaks the promise that there is no undeclared exception.
    """
    for plan in sorted(plans, key=lambda plan: plan.seed != getattr(mistake, "seed", 1)):
        broken = simulator.run(plan).broken
        if broken is not None:
            assert re.match(rf"(?:{promises})\b", broken), f"{broken}\n{plan}"
            return
    pytest.fail("no promise was broken")
