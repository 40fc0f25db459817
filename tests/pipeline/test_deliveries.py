"""The audit of share groups finds every delivery, and what is wrong with some, as the program says that has written the log."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark_coordinator_log.columns import SCHEMAS
from pyspark_coordinator_log.commits import topic_id_text
from pyspark_coordinator_log.jobs.deliveries import log_start
from pyspark_coordinator_log.jobs.share_history import DurableState, ShareHistory
from pyspark_coordinator_log.options import parse
from pyspark_coordinator_log.source import LogReader
from tests.pipeline.share_truth import GROUP, MISTAKES, PARTITION, TOPIC, TOPIC_ID, Story


def rows(data: Path, view: str) -> list[dict[str, Any]]:
    reader = LogReader(parse({"path": str(data), "view": view}), SCHEMAS[view].names)
    return [row for part in reader.partitions() for table in reader.read(part) for row in table.to_pylist()]


def judged(story: Story, data: Path) -> ShareHistory:
    story.write(data)
    return ShareHistory(
        rows(data, "events"), DurableState(rows(data, "share_state")), log_start(str(data), TOPIC, PARTITION)
    )


def found_deliveries(history: ShareHistory) -> set[tuple[int, str, int, str | None, bool]]:
    return {
        (offset, each.member_id, each.count, each.outcome, each.archived)
        for each in history.deliveries
        for offset in range(each.first, each.last + 1)
    }


def found_mistakes(history: ShareHistory) -> list[tuple[str, int]]:
    return sorted(
        (each.rule, offset) for each in history.broken for offset in range(each.delivery.first, each.delivery.last + 1)
    )


@pytest.mark.parametrize("seed", range(8))
def test_every_delivery_is_a_row_with_its_member_count_and_outcome(seed: int, tmp_path: Path) -> None:
    """And nothing is wrong where nothing is wrong, though locks end, sessions end and leaders change."""
    story = Story(seed)
    history = judged(story, tmp_path)
    assert found_deliveries(history) == story.deliveries()
    assert found_mistakes(history) == []
    assert {each[3] for each in story.deliveries()} >= {
        "accepted",
        "released",
        "rejected",
        "lock ended",
        "leader changed",
    }


@pytest.mark.parametrize("rule", MISTAKES)
def test_each_planted_mistake_is_found_and_nothing_else(rule: str, tmp_path: Path) -> None:
    planted = 0
    for seed in range(5):
        story = Story(seed, mistakes=[rule])
        history = judged(story, tmp_path / str(seed))
        assert found_mistakes(history) == sorted(story.planted)
        planted += len(story.planted)
    assert planted > 10


def test_an_event_that_arrived_twice_from_another_worker_counts_once(tmp_path: Path) -> None:
    story = Story(3)
    story.events = [event for each in story.events for event in (each, each)]
    history = judged(story, tmp_path)
    assert found_deliveries(history) == story.deliveries()
    assert found_mistakes(history) == []


@pytest.mark.usefixtures("quick_plans")
def test_the_audit_has_the_deliveries_and_the_mistakes_of_a_data_folder(spark: Any, tmp_path: Path) -> None:
    from pyspark_coordinator_log.jobs import sources, tables

    story = Story(3, mistakes=MISTAKES)
    story.write(tmp_path)
    derived = tables.Derived(source=sources.from_log(spark, str(tmp_path), {}).for_groups([GROUP]))
    assert derived.deliveries is not None
    found = derived.deliveries.collect()
    assert {(row["group"], row["topic"], row["partition"], row["shard"]) for row in found} == {
        (GROUP, TOPIC, PARTITION, 0)
    }
    assert {
        (offset, row["member_id"], row["delivery_count"], row["outcome"], row["archived"])
        for row in found
        for offset in range(row["first_offset"], row["last_offset"] + 1)
    } == found_deliveries(judged(story, tmp_path))
    broken = derived.invariants_broken.collect()
    assert {row["rule"] for row in broken} == {rule for rule, _ in story.planted}
    assert {row["log"] for row in broken} == {"events", "share_state"}
    assert all(row["offset"] is not None and row["topic_key"] == topic_id_text(TOPIC_ID) for row in broken)


def test_a_delivery_says_where_its_dead_letters_are() -> None:
    def event(kind: str, offset: int, first: int, last: int, **fields: Any) -> dict[str, Any]:
        about = {"type": kind, "offset": offset, "time_ms": offset, "member_id": "m", "client_id": "c", "loaded_ms": 1}
        ranges = [{"first_offset": first, "last_offset": last, "delivery_count": 1, "acknowledge_type": "reject"}]
        return about | {"event_number": offset, "ranges": ranges, "cause": "", "error": None} | fields

    queue = {"queue_topic": "dlq.t", "queue_partition": 3, "queue_offset": 70, "reason": None, "member_id": ""}
    failed = {"queue_topic": "dlq.t", "queue_partition": None, "queue_offset": None, "reason": "full", "member_id": ""}
    history = ShareHistory(
        [
            event("RecordsAcquired", 1, 0, 9),
            event("RecordsAcknowledged", 2, 4, 9),
            event("RecordsDeadLettered", 3, 4, 7, **queue),
            event("RecordsDeadLettered", 4, 8, 9, **failed),
        ],
        DurableState([]),
        None,
    )
    columns = ("first_offset", "last_offset", "queue_topic", "queue_partition", "queue_offset", "queue_error")
    rows_found = sorted(tuple(each.columns()[name] for name in columns) for each in history.deliveries)
    assert rows_found == [
        (0, 3, None, None, None, None),
        (4, 7, "dlq.t", 3, 70, None),
        (8, 9, "dlq.t", None, None, "full"),
    ]
