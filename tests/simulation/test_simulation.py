"""Simulates the whole server: invariants hold over many seeds, runs are repeatable, and known mistakes are caught."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli import main
from coordinator.groups import fencing
from coordinator.groups.classic import assignment_validation, rebalance, replay, sync
from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.committer import NO_GROUP
from coordinator.groups.machine import GroupMachine
from coordinator.groups.offsets import commit, expire
from coordinator.groups.offsets.pending import PendingOffsets
from coordinator.groups.offsets.store import Offsets
from coordinator.groups.update import GroupUpdate
from coordinator.log.log import Log
from coordinator.log.segment_rewriter import SegmentRewriter
from coordinator.log.writer import Writer
from coordinator.network import connection, turn
from coordinator.network.connection import Connection
from coordinator.protocol.messages import Message
from coordinator.runtime import event_log
from coordinator.runtime.event_log import EventLog
from coordinator.runtime.parking import Parking
from coordinator.runtime.result import Result
from coordinator.runtime.shard import Shard
from coordinator.topics.partition import Partition
from coordinator.topics.producer_state import ProducerState
from coordinator.transactions.verification import Verification
from coordinator_lab.simulation import simulator
from coordinator_lab.simulation.plan import draw, workers_of
from tests.support.mistakes import Patch, assert_breaks, shown_by

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).resolve().parents[2]
SEEDS = (1, 3, 4, 6, 9, 10)
LONG_SEEDS = (2, 5, 7, 8, 11, 12)
"""Each of them takes longer than two of the others."""
SECONDS = 45.0


@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in LONG_SEEDS)])
def test_every_invariant_holds_whatever_fails(seed: int):
    """Connections, processes, power and disks fail for a while; then everything converges. Some runs have several workers."""
    report = simulator.run(draw(seed, SECONDS, workers_of(seed)))
    assert report.broken is None, "\n".join([*report.events[-60:], str(report.plan), str(report)])


@pytest.mark.parametrize("seed", [2, pytest.param(3, marks=pytest.mark.thorough)])
def test_every_invariant_holds_while_fault_rules_act(seed: int):
    """Errors without effect, lost, delayed, held and throttled requests and answers, coordinators that are away."""
    report = simulator.run(replace(draw(seed, 20.0), rules_s=0.3))
    assert report.broken is None, "\n".join([*report.events[-60:], str(report.plan), str(report)])
    acted = {kind for kind in report.failures if kind.startswith("rule:")}
    assert {"rule:error", "rule:lose", "rule:delay_ms"} <= acted


@pytest.mark.parametrize("seed", [pytest.param(6, marks=pytest.mark.thorough), 9])
def test_every_invariant_holds_when_no_turn_has_time(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Nearly every request waits for its turn, as on a server that is flooded."""
    monkeypatch.setattr(turn, "TURN_MS", 0)
    monkeypatch.setattr(turn, "LOOK_BYTES", 0)
    monkeypatch.setattr(connection, "SLICE_REQUESTS", 1)
    report = simulator.run(draw(seed, SECONDS))
    assert report.broken is None, "\n".join([*report.events[-60:], str(report.plan), str(report)])


def test_everything_at_once():
    """A simulation without faults or work proves nothing: here every kind of fault strikes, and work gets done."""
    rates = {
        "cut_s": 4.0, "stall_s": 8.0, "half_open_s": 10.0, "kill_s": 15.0, "power_s": 12.0, "slow_disk_s": 15.0,
        "eio_s": 25.0, "full_s": 15.0, "clock_jump_s": 8.0, "pause_s": 15.0, "stop_s": 25.0,
    }  # fmt: skip
    expected = {name.removesuffix("_s") for name in rates} - {"stop"} | {"orderly_stop", "events"}
    struck: set[str] = set()
    done = [0, 0, 0, 0]
    for seed in (1, 2, 3):
        plan = replace(
            draw(seed, 60.0),
            durability="fsync",
            downtime_s=0.5,
            think_s=0.3,
            members=3,
            share_groups=1,
            events_fail=0.1,
            rules_s=1.0,
            **rates,
        )
        report = simulator.run(plan)
        assert report.broken is None, "\n".join([*report.events[-60:], str(report.plan), str(report)])
        struck |= report.failures.keys()
        found = (report.acknowledged, report.assignments, report.records, report.delivered)
        done = [before + more for before, more in zip(done, found, strict=True)]
        rules = {name for name in struck if name.startswith("rule")}
        if rules and struck - rules == expected and min(done) > 50:
            return
    pytest.fail(f"{sorted(struck)} struck, {done} was done")


# --- determinism ------------------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_run_in_processes_that_hash_differently():
    """A run does not depend on the order of sets or of addresses, and each seed gives another.

    The trace is a digest of every byte delivered and every event, with their times.
    """

    def lines(hash_seed: str) -> str:
        command = [sys.executable, "-m", "coordinator", "simulate", "--seed", "8", "--seeds", "2", "--seconds", "6"]
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, env=environment, check=True)
        return done.stdout

    said = lines("1")
    assert said == lines("2")
    assert len(set(re.findall(r"ok trace=(\w+)", said))) == 2


def test_one_seed_in_eight_has_several_workers():
    """The short simulation of the tests has some, too."""
    counts = [workers_of(seed) for seed in range(1, 401)]
    assert set(counts) == {0, 2, 3}
    assert 30 < sum(count > 0 for count in counts) < 70
    assert any(map(workers_of, SEEDS))


def test_the_command_prints_the_plan_and_the_outcome(capsys: pytest.CaptureFixture[str]):
    assert main(["simulate", "--seed", "3", "--seconds", "5"]) == 0
    out = capsys.readouterr().out
    assert "plan: seed=3 " in out
    assert "seed=3 ok trace=" in out


# --- known mistakes ---------------------------------------------------------------------------------------------------


def reply_before_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shard, "park", lambda self, target, payload: target.send(payload))
    patch.setattr(Parking, "park", lambda self, offset, now_ms, target, payload: target.send(payload))


@shown_by(6)
def parking_released_early(patch: pytest.MonkeyPatch) -> None:
    release = Parking.release
    patch.setattr(Parking, "release", lambda self, offset: release(self, offset + 3))


@shown_by(3)
def sync_covers_later_writes(patch: pytest.MonkeyPatch) -> None:
    """An fdatasync is assumed to cover what was written while it ran."""
    done = Log.sync_done

    def sync_done(self: Log, job: Any) -> None:
        job.end_offset = self.end_offset
        done(self, job)

    patch.setattr(Log, "sync_done", sync_done)


@shown_by(3)
def failed_sync_is_retried(patch: pytest.MonkeyPatch) -> None:
    """After EIO the sync is retried, and the kernel reports success."""

    def sync_failed(self: Writer, job: Any, error: OSError) -> None:
        with suppress(OSError):
            job.run()
        self.log.sync_done(job)
        self.offset_durable = self.log.synced_offset
        self._on_durable(self.offset_durable)

    patch.setattr(Writer, "_sync_failed", sync_failed)


def commits_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit, "fence_commit", lambda groups, request, api_version: (NO_GROUP, ()))


def any_generation_passes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sync, "fence_generation", lambda group, generation: None)
    fence_epoch = fencing.fence_epoch

    def fence_member_epoch(groups: Any, committer: Any, policies: Any, *rest: Any, **names: Any) -> None:
        if policies is not None:
            fence_epoch(groups, committer, policies, *rest, **names)

    patch.setattr(fencing, "fence_epoch", fence_member_epoch)


def assignment_is_not_written(patch: pytest.MonkeyPatch) -> None:
    """The leader's assignment is handed out without being stored."""

    class Unwritten(GroupUpdate):
        def result(self, reply: Message | None) -> Result:
            self.records.clear()
            return super().result(reply)

    patch.setattr(sync, "GroupUpdate", Unwritten)


@shown_by(2)
def generations_are_not_written_before_they_are_known(patch: pytest.MonkeyPatch) -> None:
    """JoinGroup responses name a generation that only the leader's SyncGroup writes, as in Kafka."""
    patch.setattr(rebalance, "forming_generation", lambda group, now_ms: [])


def tombstones_are_not_replayed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Offsets, "remove", lambda self, group_id, partition: None)


def responses_leave_out_of_order(patch: pytest.MonkeyPatch) -> None:
    """Responses leave without waiting for those of earlier requests on the connection."""

    def write(self: Connection) -> None:
        if self._transport is None or not self._flow.is_open:
            return
        for exchange in [each for each in self.exchanges if each.payload is not None]:
            self.exchanges.remove(exchange)
            payload = exchange.payload
            self._transport.write(payload if isinstance(payload, bytes) else b"".join(payload.parts))

    patch.setattr(Connection, "_write", write)


def parked_joins_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """When a generation forms, waiting members get no response."""
    real = ClassicGroup.unpark_join

    def unpark_join(self: ClassicGroup, member: Any) -> Any:
        real(self, member)

    patch.setattr(ClassicGroup, "unpark_join", unpark_join)


@shown_by(19)
def readers_see_what_is_not_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "high_watermark", property(lambda self: self.next_offset))


def producers_are_not_recognised(patch: pytest.MonkeyPatch) -> None:
    """A retried batch is written again."""
    patch.setattr(ProducerState, "append", lambda self, *batch, transactional: None)


def missing_events_are_not_declared(patch: pytest.MonkeyPatch) -> None:
    """An opening claims that the events are complete, whatever the log contains."""
    real = EventLog._opening

    def opening(self: EventLog, state_offset: int, cause: str) -> Any:
        value = real(self, state_offset, cause)
        value.covered_state_offset = state_offset
        return value

    patch.setattr(EventLog, "_opening", opening)


def events_outlive_their_records(patch: pytest.MonkeyPatch) -> None:
    """Events are durable before the entry of the journal with their records, and stay valid if the records are lost."""
    write = EventLog._write

    def write_at_once(self: EventLog, pending: Any, state_end: int) -> None:
        write(self, pending, state_end)
        self.log.sync()

    patch.setattr(EventLog, "_write", write_at_once)
    patch.setattr(event_log, "_is_undone", lambda value, state_offset: False)


def aborted_transactions_are_not_listed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "aborted_between", lambda self, offset, offset_end: [])


def everything_durable_counts_as_stable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "last_stable_offset", property(lambda self: self.high_watermark))


def late_batches_are_not_verified(patch: pytest.MonkeyPatch) -> None:
    """Any batch that claims to belong to a transaction opens one."""

    def check(self: Verification, *arguments: Any, **options: Any) -> None:
        arguments[4]({})

    patch.setattr(Verification, "check", check)


def open_transactions_are_forgotten_by_a_restart(patch: pytest.MonkeyPatch) -> None:
    restored = ProducerState.restore

    def restore(self: ProducerState, remembered: Any) -> None:
        restored(self, [each._replace(first_offset=-1) for each in remembered])

    patch.setattr(ProducerState, "restore", restore)


def compaction_takes_markers_before_their_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentRewriter, "_retain_marker", lambda self, batch, header: None)


def aborted_offsets_count(patch: pytest.MonkeyPatch) -> None:
    end = PendingOffsets.end
    patch.setattr(PendingOffsets, "end", lambda self, marker: end(self, marker._replace(commit=True)))


def offsets_do_not_wait_for_their_marker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupMachine, "replay_pending", lambda self, record, producer: self.replay(record))


def pending_offsets_are_forgotten_by_a_restart(patch: pytest.MonkeyPatch) -> None:
    loaded = GroupMachine.loaded

    def forget(self: GroupMachine, now_ms: int) -> Any:
        self.offsets.pending = PendingOffsets()
        return loaded(self, now_ms)

    patch.setattr(GroupMachine, "loaded", forget)


def offsets_in_use_expire(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassicGroup, "is_subscribed_to", lambda self, topic: False)


def offsets_expire_too_early(patch: pytest.MonkeyPatch) -> None:
    real = expire.expired_offsets
    patch.setattr(expire, "expired_offsets", lambda group, offsets, now_ms, _: real(group, offsets, now_ms, 20_000))


def forced_rebalances_are_forgotten_by_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay, "_rebalance_due", lambda groups, group: None)


def eager_members_count_as_owners(patch: pytest.MonkeyPatch) -> None:
    """Every assignor is taken for a cooperative one when its assignments are validated."""
    patch.setattr(assignment_validation, "_COOPERATIVE", "")


ACKNOWLEDGED = "I(3|5|7|10|20)"
"""What was acknowledged is not lost, whatever it is."""
UNSYNCED = f"{ACKNOWLEDGED}|a server starts on a sound disk|a crash is never taken for damage"
"""Nor is it where a file was not synced, and none has a hole after a power cut."""
TRANSACTIONS = {"accountants": 3, "groups": 1, "think_s": 0.1}
COUNTERS = {"counters": 2, "groups": 1, "think_s": 0.1}
RETENTION = {"counters": 0, "offsets_retention_minutes": 1}

MUTANTS: list[tuple[Patch, str, dict[str, Any]]] = [
    (reply_before_durable, ACKNOWLEDGED, {"power_s": 5.0, "fsync_s": 0.2}),
    (parking_released_early, ACKNOWLEDGED, {"power_s": 5.0, "fsync_s": 0.2}),
    (
        sync_covers_later_writes,
        UNSYNCED,
        {"power_s": 3.0, "fsync_s": 0.2, "power_in_write": 0.0},
    ),
    (failed_sync_is_retried, UNSYNCED, {"power_s": 10.0, "eio_s": 5.0}),
    (commits_are_not_fenced, "I(9|42)", {}),
    (
        any_generation_passes,
        "I(9|42)",
        {"statics": 1.0, "rebalance_ms": 2_000, "session_ms": 12_000, "groups": 3, "stall_s": 3.0},
    ),
    (assignment_is_not_written, "I(1|18)", {"kill_s": 10.0}),
    (generations_are_not_written_before_they_are_known, "I(7|18)", {"kill_s": 3.0, "power_s": 0.0, "downtime_s": 0.2}),
    (tombstones_are_not_replayed, "I(1|5)", {}),
    (responses_leave_out_of_order, "I14", {"fsync_s": 0.05}),
    (parked_joins_are_forgotten, "I(12|16)", {}),
    (readers_see_what_is_not_durable, "I20", {"power_s": 5.0, "fsync_s": 0.2}),
    (producers_are_not_recognised, "I(10|20)", {"cut_s": 1.0, "network_delay_s": 0.1}),
    (missing_events_are_not_declared, "I22", {"events_fail": 0.3}),
    (events_outlive_their_records, "I21", {"power_s": 3.0, "fsync_s": 1.5, "power_in_write": 0.0, "events_fail": 0.0}),
    (aborted_transactions_are_not_listed, "I10", TRANSACTIONS),
    (everything_durable_counts_as_stable, "I10", TRANSACTIONS),
    (late_batches_are_not_verified, "I10", TRANSACTIONS | {"stall_s": 3.0, "cut_s": 1.0, "ghosts": 1.0}),
    (open_transactions_are_forgotten_by_a_restart, "I10", TRANSACTIONS | {"stop_s": 5.0, "kill_s": 5.0}),
    (compaction_takes_markers_before_their_records, "I10", TRANSACTIONS | {"cleaner_backoff_ms": 500}),
    (aborted_offsets_count, "I10", COUNTERS),
    (offsets_do_not_wait_for_their_marker, "I1", COUNTERS),
    (pending_offsets_are_forgotten_by_a_restart, "I1", COUNTERS | {"kill_s": 5.0}),
    (forced_rebalances_are_forgotten_by_a_restart, "I30", {"forced_s": 1.0, "kill_s": 3.0, "groups": 3}),
    (eager_members_count_as_owners, "I31", {}),
    (offsets_in_use_expire, "I6", RETENTION | {"clock_jump_s": 5.0}),
    (offsets_expire_too_early, "I6", RETENTION | {"clock_jump_s": 0.0, "think_s": 1.2, "kill_s": 0.0, "power_s": 0.0}),
]
"""The mistake, the promises of which one breaks, and changes to the plan under which it can show."""
SLOW = (readers_see_what_is_not_durable,)
"""It needs many seeds."""


@pytest.mark.parametrize(
    ("mutant", "promises", "changes"),
    [
        pytest.param(*each, id=each[0].__name__, marks=pytest.mark.thorough if each[0] in SLOW else ())
        for each in MUTANTS
    ],
)
def test_a_known_mistake_is_caught(
    mutant: Patch, promises: str, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    """Tests the simulation itself: a server with this mistake fails within a few seeds."""
    how = {
        "durability": "fsync", "downtime_s": 0.5, "members": 3, "think_s": 0.3, "acts_s": 0.0, "rules_s": 0.0,
        "quotas_s": 0.0, "share_groups": 0, **changes,
    }  # fmt: skip
    mutant(monkeypatch)
    assert_breaks(mutant, promises, (replace(draw(seed, 40.0), **how) for seed in range(1, 21)))
