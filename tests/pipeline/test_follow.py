"""`follow` on a growing log, interrupted at any point, produces the same results as one pass over the whole log.

An interruption is either a real SIGKILL (the last test, which takes minutes and runs with PIPELINE_KILLS=3 in the environment),
or a failing write of a batch, which leaves the same files as a SIGKILL at that moment.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.histories import SimulatedHistory, encoded, write_log
from tests.pipeline.pipeline_rows import open_rows
from tests.pipeline.reference_model import ReferenceResult, replay
from tests.pipeline.share_truth import Story
from tests.support.background import Background
from tests.support.waiting import wait_until

pytest.importorskip("pyspark")

from coordinator.groups.events import EVENT_KEYS
from coordinator.groups.machine import RECORD_KEYS
from coordinator.protocol.messages import OffsetCommitKey, OffsetCommitValue
from coordinator.runtime.result import Record
from pyspark_coordinator_log.jobs import batch_folders, follow, sources, tables, vocabulary

pytestmark = pytest.mark.usefixtures("quick_plans")


KILLS = int(os.environ.get("PIPELINE_KILLS", "3"))


class GrowingLog:
    """The log of a simulated history, written in portions."""

    def __init__(self, story: SimulatedHistory, folder: Path) -> None:
        self.folder = folder
        self.logs = [
            (folder / "__consumer_offsets-0", encoded(story.records, RECORD_KEYS), story.times),
            (folder / "__coordinator_events-0", encoded(story.events, EVENT_KEYS), [e.value.time_ms for e in story.events]),
        ]  # fmt: skip
        self.written = [0, 0]

    def grow(self, *ends: int) -> None:
        """Writes each log up to this offset."""
        for index, (end, (folder, records, times)) in enumerate(zip(ends, self.logs, strict=True)):
            start = self.written[index]
            write_log(folder, records[start:end], times[start:end], first=start)
            self.written[index] = end


def options(log: Path, out: Path, **fields: Any) -> argparse.Namespace:
    plain = {
        "out": str(out),
        "log": str(log),
        "bootstrap": None,
        "once": True,
        "interval": 1.0,
        "max_bytes": "1m",
        "group": [],
        "retain": None,
        "format": "parquet",
    }
    return argparse.Namespace(**plain | fields)


def kept(spark: Any, out: Path, name: str) -> list[Any]:
    return spark.read.parquet(str(out / "tables" / name)).collect()


def texts(rows: Any, *names: str) -> list[str]:
    """Rows as sorted text, including duplicates."""
    return sorted(repr(tuple(row[name] for name in names)) for row in rows)


def assert_matches_reference(kept: Callable[[str], list[Any]], truth: ReferenceResult) -> None:
    """All tables that `follow` writes directly contain each row exactly once."""
    members = kept("member_intervals")
    assert texts(members, "group", "member_id", "epoch", "from_offset", "to_offset") == sorted(
        repr(row) for row in truth.members if row[-1] is not None
    )
    owned = kept("ownership_intervals")
    names = ("group", "topic_key", "partition", "member_id", "from_offset", "to_offset", "acquired_epoch")
    assert texts(owned, *names) == sorted(repr(row) for row in truth.ownership if row[-2] is not None)
    rows = kept("commit_verdicts")
    names = ("offset", "topic_key", "partition", "truth", "member_epoch", "owned_since", "strict_accepts",
             "revocation_epoch_accepts", "assignment_epoch_accepts", "outcome")  # fmt: skip
    assert texts(rows, *names) == sorted(map(repr, truth.verdicts))
    assert {row["evidence"] for row in rows} == {"state"}
    wrong = kept("invariants_broken")
    twice = [row for row in wrong if row["rule"] == vocabulary.TWO_OWNERS]
    assert texts(twice, "group", "topic_key", "partition", "member_id", "offset") == sorted(map(repr, truth.two_owners))
    order = [row for row in wrong if row["rule"] == vocabulary.EPOCH_ORDER]
    assert texts(order, "group", "offset") == sorted(map(repr, truth.epoch_order))
    repeated = [row for row in wrong if row["rule"] == vocabulary.GENERATION_TWICE]
    assert texts(repeated, "group", "offset") == sorted(map(repr, truth.generation_twice))


@pytest.fixture(scope="module")
def story() -> SimulatedHistory:
    made = SimulatedHistory(5).run_workload(260)
    made.plant_second_owner()
    made.run_workload(30)
    assert made.put_epoch_ahead() is not None
    made.repeat_generation()
    return made.run_workload(40)


def test_the_archive_has_the_deliveries_of_share_groups(spark: Any, tmp_path: Path) -> None:
    story = Story(3)
    log, out = story.write(tmp_path / "log"), tmp_path / "out"
    follow.follow(spark, options(log, out), {}, lambda _: None)
    derived = tables.Derived(
        source=sources.from_archive(spark, str(out / "archive")), keep=lambda _, made: made.localCheckpoint()
    )
    assert derived.deliveries is not None
    assert {
        (offset, row["member_id"], row["delivery_count"], row["outcome"], row["archived"])
        for row in derived.deliveries.collect()
        for offset in range(row["first_offset"], row["last_offset"] + 1)
    } == story.deliveries()


class WriteFailed(Exception):
    """Simulates the death of the process."""


def pieces(spark: Any, log: Path, *parts: tuple[int, int]) -> Iterator[Any]:
    """Splits the history into batches that end at these offsets of state and event log. No event precedes its state."""
    whole = spark.read.format("coordinator_log").option("view", "history").load(str(log)).localCheckpoint()
    before = (0, 0)
    for part in parts:
        (state_from, events_from), (state_to, events_to) = before, part
        yield whole.where(
            f"(is_state and offset >= {state_from} and offset < {state_to})"
            f" or (not is_state and offset >= {events_from} and offset < {events_to})"
        )
        before = part


def cuts(story: SimulatedHistory, *shares: tuple[float, float]) -> list[tuple[int, int]]:
    """Converts fractions of the state, and of the events decided on that state, to offsets."""
    found = []
    for state, events in shares:
        state_to = int(len(story.records) * state)
        ready = sum(event.value.state_offset <= state_to for event in story.events)
        found.append((state_to, int(ready * events)))
    return found


class FailingWrites:
    """Makes the n-th write fail as a SIGKILL would: with half a folder under a temporary name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        plain = batch_folders.BatchFolders.fill

        def fill(batches: batch_folders.BatchFolders, number: int, make: Any) -> None:
            if self.left is not None:
                self.left -= 1
                if self.left == 0:
                    self.left = None
                    (batches.folder / f".batch={number:012d}.new").mkdir(parents=True)
                    raise WriteFailed
            plain(batches, number, make)

        monkeypatch.setattr(batch_folders.BatchFolders, "fill", fill)


def test_a_stream_that_dies_and_resumes_gives_the_results_of_the_reference_model(spark, story, tmp_path, monkeypatch):
    """Intervals, verdicts, broken invariants, and an archive with every record once.

    Spark repeats the batch that died, and `follow` says so in one line.
    """
    log, out = GrowingLog(story, tmp_path / "log"), tmp_path / "out"
    failing, said = FailingWrites(monkeypatch), []
    [(state, events)] = cuts(story, (0.4, 0.3))
    # State and events, then state alone, then the events that lagged behind it.
    parts = [(state, events), (len(story.records), events), (len(story.records), len(story.events))]
    for part, fails_at in zip(parts, (None, 7, None), strict=True):
        log.grow(*part)
        failing.left = fails_at
        follow.follow(spark, options(log.folder, out), {}, said.append)
    # On a busy machine there may be more lines, about Python workers that did not start in time.
    assert [line for line in said if "trying again from the checkpoint" in line]
    assert not any("\n" in line for line in said)
    truth = replay(story.records, story.events)
    assert_matches_reference(partial(kept, spark, out), truth)
    assert len(list((out / "live" / "state").iterdir())) == follow.SNAPSHOTS_KEPT
    assert len(list((out / "archive" / "history").iterdir())) == len(parts)
    derived = tables.Derived(source=sources.from_archive(spark, str(out / "archive")))
    offsets = [row["offset"] for row in derived.source.state.select("offset").collect()]
    offsets += [row["offset"] for row in derived.source.commits.select("offset").collect()]
    assert sorted(offsets) == list(range(len(story.records)))
    assert {(r["group"], r["kind"], r["epoch"], r["offset"]) for r in derived.epochs.collect()} == truth.epochs


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_tables_in_an_open_format_have_each_row_of_a_batch_that_dies_once(
    spark, story, tmp_path, monkeypatch, table_format
):
    """It dies when it has committed to all tables, and not yet written what the next one needs."""
    pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}[table_format])
    log, out = story.write(tmp_path / "log"), tmp_path / "out"
    given = options(log, out, format=table_format)
    archive = follow.Archive(out, follow._Source(spark, given, {}))
    failing = FailingWrites(monkeypatch)
    for number, piece in enumerate(pieces(spark, log, *cuts(story, (0.4, 0.3), (1.0, 1.0)))):
        history = follow.History(spark, out, archive, given, lambda _: None, None)
        if number == 1:
            failing.left = 3
            with pytest.raises(WriteFailed):
                history.batch(piece, number)
            assert failing.left is None
        history.batch(piece, number)
    truth = replay(story.records, story.events)
    assert_matches_reference(lambda name: open_rows(table_format, out / "tables" / name).to_pylist(), truth)


def test_retention_leaves_the_members_of_that_time_so_that_later_commits_are_judged(spark, story, tmp_path):
    """An archive whose oldest batches were deleted calls no commit of a member a zombie that the whole log does not."""
    log, out = story.write(tmp_path / "log"), tmp_path / "out"
    source = follow._Source(spark, options(log, out), {})
    archive = follow.Archive(out, source)
    parts = cuts(story, (0.3, 1.0), (0.6, 1.0), (1.0, 1.0))
    history = archive.view("history")
    for number, piece in enumerate(pieces(spark, log, *parts)):
        history.write(number, piece)
    for file in (*history.path(0).glob("*.parquet"), *history.path(1).glob("*.parquet")):
        os.utime(file, (0, 0))
    archive.tidy_history(3, 86_400)
    archive.tidy_history(4, 86_400)  # Nothing more to delete.
    assert history.batches() == [1, 2]
    archive.view("commits").write(0, spark.read.format("coordinator_log").option("view", "commits").load(str(log)))
    raw = spark.read.format("coordinator_log").option("view", "raw").load(str(log))
    archive.view("markers").write(0, raw.where("is_control").drop("key", "value"))
    derived = tables.Derived(source=sources.from_archive(spark, str(out / "archive")))
    assert [row["complete_from"] for row in derived.source.complete_from.collect()] == [
        1 + max(n for n in range(parts[1][0]) if not is_commit(story.records[n]))
    ]
    whole = {
        row["offset"]: row["truth"]
        for row in verdict_rows(tables.Derived(source=sources.from_log(spark, str(log), {})))
    }
    found = verdict_rows(derived)
    assert len(found) > 20
    assert {row["offset"] for row in found} == {n for n in whole if n >= parts[1][1]}
    zombies = ("lost", "ahead", "not a member")
    assert not [row for row in found if row["truth"] in zombies and whole[row["offset"]] not in zombies]
    assert not [row for row in found if row["truth"] == "safe" and whole[row["offset"]] != "safe"]


def is_commit(record: Record) -> bool:
    return isinstance(record.key, OffsetCommitKey)


def verdict_rows(derived: tables.Derived) -> list[Any]:
    rows = derived.commit_verdicts
    assert rows is not None
    return (
        rows.groupBy("offset", "topic_key", "partition")
        .agg({"truth": "max"})
        .withColumnRenamed("max(truth)", "truth")
        .collect()
    )


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_repeated_kills_under_a_live_writer_keep_every_offset_once(spark, tmp_path):
    log, out, said = tmp_path / "log" / "__consumer_offsets-0", tmp_path / "out", tmp_path / "said.txt"
    done, written = threading.Event(), [0]

    def write() -> None:
        now = int(time.time() * 1000)
        records = [
            Record(OffsetCommitKey("g", "t", offset % 7), OffsetCommitValue(offset, -1, "", now, -1, bytes(16)), 4)
            for offset in range(written[0], written[0] + 100)
        ]
        write_log(log, encoded(records, RECORD_KEYS), [now] * 100, first=written[0])
        written[0] += 100

    def go_on_writing() -> None:
        while not done.wait(0.05):
            write()

    # The log must exist before it is read, and imports for writing must happen in this thread.
    write()
    writer = Background(go_on_writing)
    command = [sys.executable, "-m", "coordinator", "pipeline", "follow", "--log", str(tmp_path / "log"), "--out", str(out),
               "--interval", "0.5", "--conf", "spark.sql.shuffle.partitions=2"]  # fmt: skip
    commits = out / "archive" / "commits"
    try:
        for kill in range(KILLS):
            with said.open("ab") as errors:
                process = subprocess.Popen(command, stderr=errors)
            before = len(list(commits.glob("batch=*"))) if commits.exists() else 0

            def goes_on(process: Any = process, wanted: int = before + 2 + kill) -> bool:
                assert process.poll() is None, said.read_text()[-2000:]
                return len(list(commits.glob("batch=*"))) >= wanted

            wait_until(goes_on, "batches to be kept", within_s=400)
            process.kill()
            process.wait()
    finally:
        done.set()
        writer.finish()
    with said.open("ab") as errors:
        code = subprocess.run([*command, "--once"], stderr=errors, timeout=600, check=False).returncode
    assert code == 0, said.read_text()[-2000:]
    found = [row["offset"] for row in spark.read.parquet(str(commits)).select("offset").collect()]
    assert len(found) == written[0]
    assert sorted(found) == list(range(written[0]))
