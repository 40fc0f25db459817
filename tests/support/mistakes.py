"""A planted mistake is caught for the promise that it breaks, and for nothing else."""

import re
from collections.abc import Iterable

import pytest

from coordinator_lab.simulation import simulator
from coordinator_lab.simulation.plan import Plan


def assert_breaks(promises: str, plans: Iterable[Plan]) -> None:
    """The first of these runs that breaks a promise breaks one of these: a regular expression, as I(8|42).

    An exception in the mistake's own code is a failure: it breaks the promise that there is no undeclared exception.
    """
    for plan in plans:
        broken = simulator.run(plan).broken
        if broken is not None:
            assert re.match(rf"(?:{promises})\b", broken), f"{broken}\n{plan}"
            return
    pytest.fail("no promise was broken")
