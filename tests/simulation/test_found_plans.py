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
OF_THE_SIMULATION = {
    "a_full_disk_keeps_no_worker_from_serving",
    "a_shard_taken_again_while_the_disk_hangs",
    "expired_in_the_batch_of_its_last_record",
    "resync_after_a_refused_deletion",
    "rules_set_while_a_worker_is_paused",
}
"""Here the server was right, and the simulation mistaken."""


def plan_of(path: Path) -> Plan:
    """The plan in a file, without its comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return Plan.parse(" ".join(line for line in lines if not line.startswith("#")))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(each, id=each.stem, marks=pytest.mark.thorough if each.stem in OF_THE_SIMULATION else ())
        for each in FOUND
    ],
)
def test_a_plan_that_once_failed_passes(path: Path):
    report = simulator.run(plan_of(path))
    assert report.broken is None, "\n".join([*report.events[-60:], str(report.plan), str(report)])
