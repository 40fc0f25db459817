"""The whole server in a simulated world: promises hold over many seeds, runs repeat, and known mistakes are caught."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli import main
from coordinator.faults import simulator
from coordinator.faults.plan import Plan, draw
from coordinator.groups import fencing
from coordinator.groups.classic import sync
from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.offsets import commit
from coordinator.groups.offsets.store import Offsets
from coordinator.log.log import Log
from coordinator.log.writer import Writer
from coordinator.network.connection import Connection
from coordinator.runtime.parking import Parking
from coordinator.runtime.shard import Shard

REPOSITORY = Path(__file__).resolve().parents[2]
SEEDS = 20
SECONDS = 45.0


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_every_promise_holds_whatever_fails(seed: int):
    """Connections, processes, power and disks fail for a minute; then everything comes to rest."""
    report = simulator.run(draw(seed, SECONDS))
    assert report.broken is None, "\n".join([*report.events[-60:], str(report.plan), str(report)])


def test_the_faults_happen_and_the_clients_work():
    """A simulation in which nothing happens proves nothing: over the seeds each fault strikes and work gets done."""
    reports = [simulator.run(draw(seed, 20.0)) for seed in range(100, 110)]
    assert [report.broken for report in reports if report.broken] == []
    struck = {name for report in reports for name in report.faults}
    assert {"cut", "stall", "half_open", "kill", "power", "slow_disk", "clock_jump", "pause"} <= struck
    assert sum(report.acknowledged for report in reports) > 300
    assert sum(report.assignments for report in reports) > 50


# --- determinism ------------------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_run_twice():
    """The trace is a digest of every byte delivered and every event, with their times."""
    first, second = (simulator.run(draw(7, 30.0)) for _ in range(2))
    assert first.trace == second.trace
    assert str(first) == str(second)
    assert simulator.run(draw(8, 30.0)).trace != first.trace


def test_a_seed_gives_the_same_run_in_processes_that_hash_differently():
    """No order of a set or of addresses has a say."""

    def lines(hash_seed: str) -> str:
        command = [sys.executable, "-m", "coordinator", "simulate", "--seed", "11", "--seeds", "3", "--seconds", "20"]
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, env=environment, check=True)
        return done.stdout

    assert lines("1") == lines("2")


def test_the_command_prints_the_plan_and_the_outcome(capsys: pytest.CaptureFixture[str]):
    assert main(["simulate", "--seed", "3", "--seconds", "5"]) == 0
    out = capsys.readouterr().out
    assert "plan: seed=3 " in out
    assert "seed=3 ok trace=" in out


# --- known mistakes ---------------------------------------------------------------------------------------------------

Patch = Callable[[pytest.MonkeyPatch], None]


def reply_before_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shard, "park", lambda self, asker, payload: asker.send(payload))
    patch.setattr(Parking, "park", lambda self, reply: reply.asker.send(reply.payload))


def parking_released_early(patch: pytest.MonkeyPatch) -> None:
    release = Parking.release
    patch.setattr(Parking, "release", lambda self, offset: release(self, offset + 3))


def sync_covers_what_came_later(patch: pytest.MonkeyPatch) -> None:
    """An fdatasync is taken to cover what was written while it ran."""
    done = Log.sync_done

    def sync_done(self: Log, job: Any) -> None:
        job.end_offset = self.end_offset
        done(self, job)

    patch.setattr(Log, "sync_done", sync_done)


def failed_sync_is_tried_again(patch: pytest.MonkeyPatch) -> None:
    """After EIO the sync is repeated, and the kernel says that all is well."""

    def sync_failed(self: Writer, job: Any, error: OSError) -> None:
        with suppress(OSError):
            job.run()
        self.log.sync_done(job)
        self.offset_durable = self.log.synced_offset
        self._on_durable(self.offset_durable)

    patch.setattr(Writer, "_sync_failed", sync_failed)


def commits_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit, "fence_commit", lambda groups, request, api_version: ())


def any_generation_passes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sync, "fence_generation", lambda group, generation: None)
    patch.setattr(fencing, "fence_generation", lambda group, generation: None)


def assignment_is_not_written(patch: pytest.MonkeyPatch) -> None:
    """The leader's assignment is handed out and not stored."""
    patch.setattr(sync.Effects, "write", lambda self, record: None)


def tombstones_are_not_replayed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Offsets, "remove", lambda self, group_id, topic, partition: None)


def answers_leave_when_they_are_ready(patch: pytest.MonkeyPatch) -> None:
    """Without waiting for the answers of earlier requests of the connection."""

    def write(self: Connection) -> None:
        if self._transport is None or self._closed:
            return
        for exchange in [each for each in self._queue if each.payload is not None]:
            self._queue.remove(exchange)
            self._transport.write(exchange.payload)

    patch.setattr(Connection, "_write", write)


def parked_joins_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """When a generation forms, nobody who waited is told."""
    real = ClassicGroup.unpark_join

    def unpark_join(self: ClassicGroup, member: Any) -> Any:
        real(self, member)

    patch.setattr(ClassicGroup, "unpark_join", unpark_join)


MUTANTS: list[tuple[Patch, dict[str, Any]]] = [
    (reply_before_durable, {"power_s": 8.0, "fsync_s": 0.05}),
    (parking_released_early, {"power_s": 8.0, "fsync_s": 0.05}),
    (sync_covers_what_came_later, {"power_s": 3.0, "fsync_s": 0.2, "power_in_write": 0.0}),
    (failed_sync_is_tried_again, {"power_s": 10.0, "eio_s": 5.0}),
    (commits_are_not_fenced, {}),
    (any_generation_passes, {"statics": 1.0, "rebalance_ms": 4_000, "session_ms": 12_000}),
    (assignment_is_not_written, {"kill_s": 10.0}),
    (tombstones_are_not_replayed, {}),
    (answers_leave_when_they_are_ready, {"fsync_s": 0.05}),
    (parked_joins_are_forgotten, {}),
]
"""What is broken, and how a plan is changed so that it can show."""


@pytest.mark.parametrize(("mutant", "changes"), MUTANTS, ids=[mutant.__name__ for mutant, _ in MUTANTS])
def test_a_known_mistake_is_caught(mutant: Patch, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    """The tests of the tests: a server with this mistake does not get through a few seeds."""
    mutant(monkeypatch)
    for seed in range(1, 13):
        plan: Plan = replace(draw(seed, 40.0), durability="fsync", downtime_s=0.5, members=3, think_s=0.3, **changes)
        broken = simulator.run(plan).broken
        if broken is not None:
            assert re.match(r"I\d+ ", broken), broken
            return
    pytest.fail(f"{mutant.__name__} was not caught")
