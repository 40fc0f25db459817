"""Regression tests of bugs that the simulation found: each file in `found/` describes one and has the plan that showed it.

Plans are kept instead of seeds, because a seed's plan changes with every field added to plans. `coordinator simulate
--shrink` prints such a plan, and `--plan` runs it.
"""

from pathlib import Path

import pytest

from coordinator_lab.simulation import simulator
from coordinator_lab.simulation.plan import Plan

pytestmark = pytest.mark.long

FOUND = sorted((Path(__file__).parent / "found").glob("*.txt"))


def plan_of(path: Path) -> Plan:
    """The plan in a file, without its comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return Plan.parse(" ".join(line for line in lines if not line.startswith("#")))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_a_plan_that_once_failed_passes(path: Path):
    report = simulator.run(plan_of(path))
    assert report.broken is None, "\n".join([*report.events[-60:], str(report.plan), str(report)])
