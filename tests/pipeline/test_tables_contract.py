"""The tables as their readers know them: columns, names of topics, lag, and the period that `--since` and `--until` select."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.histories import SimulatedHistory

pytest.importorskip("pyspark")

from coordinator import cli
from pyspark_coordinator_log.jobs import sources, tables

pytestmark = pytest.mark.usefixtures("quick_plans")

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "tables.md"
DIGESTS = {1: "2fe3b926e91ec4be", 2: "eac36144d430c5d8"}
"""The digests of all columns by version. A new version gets a new line here; a line is never changed."""


@pytest.fixture(scope="module")
def story() -> SimulatedHistory:
    return SimulatedHistory(5).run_workload(200)


@pytest.fixture(scope="module")
def log(story: SimulatedHistory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return story.write(tmp_path_factory.mktemp("contract") / "log")


@pytest.fixture(scope="module")
def written(spark: Any, log: Path) -> dict[str, Any]:
    """All tables of the log."""
    store = tables.Store(spark, str(log.parent / "tables"), "parquet")
    made = dict(tables.write_tables(tables.Derived(source=sources.from_log(spark, str(log), {})), store))
    store.write_contract()
    return made


def columns_of(written: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    return {name: [*frame.dtypes] for name, frame in written.items()}


def test_the_document_has_exactly_the_columns_of_the_tables(written):
    """docs/tables.md is what people write their queries by."""
    documented = {}
    for section in DOCUMENT.read_text(encoding="utf-8").split("\n## ")[1:]:
        rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", section, re.MULTILINE)
        if rows:
            documented[section.split("\n", 1)[0]] = rows
    assert documented == columns_of(written)
    assert f"version {tables.VERSION}" in DOCUMENT.read_text(encoding="utf-8")


def test_no_column_changes_without_a_new_version(written, log):
    text = json.dumps(columns_of(written), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert DIGESTS.get(tables.VERSION) == digest, "columns have changed: raise tables.VERSION, and add its digest here"
    assert max(DIGESTS) == tables.VERSION
    assert json.loads((log.parent / "tables" / tables.CONTRACT).read_text())["version"] == tables.VERSION


def test_every_partition_has_the_name_of_its_topic(written):
    """Wherever a commit has shown the name of an id."""
    names = {row["topic_key"]: row["topic"] for row in written["topics"].collect()}
    assert names
    for name in ("ownership_intervals", "invariants_broken", "commit_verdicts"):
        for row in written[name].select("topic_key", "topic").distinct().collect():
            assert row["topic"] == names.get(row["topic_key"], row["topic"])
    assert written["ownership_intervals"].where("topic is not null").count() > 10


def test_lag_is_the_distance_of_the_last_commit_from_the_end_of_the_log(written, story):
    last: dict[tuple[str, str, int], Any] = {}
    for record in story.records:
        if type(record.key).__name__ == "OffsetCommitKey":
            last[record.key.group, record.key.topic, record.key.partition] = record.value
    found = {(row["group"], row["topic"], row["partition"]): row for row in written["lag"].collect()}
    assert {key: row["committed_offset"] for key, row in found.items()} == {
        key: value.offset for key, value in last.items() if value is not None
    }
    assert all(row["end_offset"] is None and row["lag"] is None for row in found.values())


def test_a_period_has_the_rows_of_the_whole_that_end_in_it(spark, written, log, story):
    """A commit is judged by the members of the time before the period, too."""
    times = sorted(event.value.time_ms for event in story.events)
    since_ms, until_ms = times[len(times) // 3], times[2 * len(times) // 3]
    options = {"since": str(since_ms), "until": str(until_ms)}
    source = sources.from_log(spark, str(log), options).for_period(since_ms, until_ms)
    store = tables.Store(spark, str(log.parent / "period"), "parquet")
    part = dict(tables.write_tables(tables.Derived(source=source), store))
    for name, time, key in (
        ("commit_verdicts", "time_ms", ("offset", "topic_key", "partition", "truth", "owned_since")),
        ("offset_commits", "time_ms", ("offset", "outcome")),
        ("epochs", "time_ms", ("group", "kind", "epoch", "offset", "members")),
    ):
        inside = written[name].where(f"{time} >= {since_ms} and {time} < {until_ms}").select(*key).collect()
        assert sorted(map(repr, part[name].select(*key).collect())) == sorted(map(repr, inside)), name
    for name in ("member_intervals", "ownership_intervals"):
        key = ("group", "member_id", "from_offset")
        inside = written[name].where(f"from_ms < {until_ms} and (to_ms is null or to_ms >= {since_ms})").select(*key)
        found = part[name].select(*key)
        assert sorted(map(repr, found.collect())) == sorted(map(repr, inside.collect())), name


@pytest.mark.parametrize(
    ("job", "arguments", "says"),
    [
        ("follow", ["--since", "2026-01-01"], "No such option '--since'"),
        ("tables", ["--since", "yesterday"], "since"),
        ("tables", ["--since", "2026-01-02", "--until", "2026-01-01"], "is before since"),
    ],
)
def test_a_period_that_makes_no_sense_is_refused(job, arguments, says, log, tmp_path, capsys):
    out = tmp_path / "out"
    assert cli.main(["pipeline", job, "--log", str(log), "--out", str(out), *arguments]) == 2
    assert says in capsys.readouterr().err
    assert not out.exists()
