"""What the simulation once found stays found: each file of `found/` says what it was, and has the plan that showed it.

A seed would not do: it draws another plan when there is one more thing to draw. `coordinator simulate --shrink` prints such a
plan, `--plan` runs it.
"""

from pathlib import Path

import pytest

from coordinator.faults import simulator
from coordinator.faults.plan import Plan

FOUND = sorted((Path(__file__).parent / "found").glob("*.txt"))


def plan_of(path: Path) -> Plan:
    """The lines that are no comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return Plan.parse(" ".join(line for line in lines if not line.startswith("#")))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found_once_holds(path: Path):
    report = simulator.run(plan_of(path))
    assert report.broken is None, "\n".join([*report.events[-60:], str(report.plan), str(report)])
