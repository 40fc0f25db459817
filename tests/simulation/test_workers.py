"""Simulates several workers over one engine: what holds for one server holds for all of them together, whatever fails."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator_lab.simulation import simulator
from coordinator_lab.simulation.plan import Plan, draw

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 15.0


@pytest.mark.parametrize(("seed", "workers"), [(7, 3), (3, 2)])
def test_every_invariant_holds_whatever_fails(seed, workers):
    """Engine, ways to it, workers and clocks fail for a while; then every shard is served, and all groups are stable."""
    report = simulator.run(draw(seed, SECONDS, workers))
    assert report.broken is None, "\n".join([*report.events[-60:], str(report.plan), str(report)])
    assert report.acknowledged > 50
    assert report.reported > 50
    assert report.taken
    assert report.changes
    assert report.marked or not report.transactions


def test_a_seed_gives_the_same_run_in_processes_that_hash_differently():
    """A run does not depend on the order of sets or of addresses."""

    def lines(hash_seed):
        options = ["--seed", "5", "--seconds", "6", "--workers", "3"]
        command = [sys.executable, "-m", "coordinator", "simulate", *options]
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        return subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, env=environment, check=False)

    first, second = lines("1"), lines("2")
    assert " ok trace=" in first.stdout or "BROKEN" in first.stdout
    assert first.stdout == second.stdout


def test_a_plan_with_workers_is_read_as_it_was_printed():
    plan = draw(3, 10.0, workers=2)
    assert plan.workers == 2
    assert Plan.parse(str(plan)) == plan


def test_a_plan_that_an_earlier_version_printed_keeps_its_meaning():
    """Fields that came later are off in it, whatever they are in the plan of its seed."""
    plan = draw(3, 10.0, workers=2)
    assert plan.metadata_s
    printed = " ".join(word for word in str(plan).split() if not word.startswith("metadata_s="))
    assert Plan.parse(printed) == replace(plan, metadata_s=0.0)
