"""Share groups as tables: the states of their partitions, their own records, and their events."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from coordinator.groups.events import EVENT_KEYS
from coordinator.groups.machine import RECORD_KEYS
from coordinator.groups.share.deliveries import Deliveries, note_deliveries
from coordinator.protocol.messages import OffsetCommitKey
from coordinator.share_state.machine import RECORD_KEYS as SHARE_STATE_KEYS
from coordinator.share_state.records import StoredState, snapshot_record, tombstone, update_record
from coordinator.share_state.share_state import Batch, SharePartition
from pyspark_coordinator_log.columns import SCHEMAS
from pyspark_coordinator_log.commits import topic_id_text
from pyspark_coordinator_log.options import BadOption, parse
from pyspark_coordinator_log.source import LogReader
from tests.groups.share.share_world import ShareHarness
from tests.pipeline import foreign_logs as made
from tests.pipeline.histories import encoded

TOPIC_ID = bytes(range(16))
KEY = SharePartition("g", TOPIC_ID, 3)


def read(data: Path, view: str, **options: str) -> list[dict[str, Any]]:
    parsed = parse({"path": str(data), "view": view} | options)
    reader = LogReader(parsed, SCHEMAS[view].names)
    return [row for part in reader.partitions() for table in reader.read(part) for row in table.to_pylist()]


def log_of_states(data: Path) -> None:
    """A state that is made, written to twice, snapshot, and deleted; and one of another group."""
    state = StoredState(0, 2, 0, -1, -1, (), 1_000, 1_000)
    later = StoredState(1, 2, 7, 10, 2, (Batch(12, 14, 4, 5),), 1_000, 9_000)
    written = [
        snapshot_record(KEY, state),
        update_record(
            KEY, state, leader_epoch=7, start_offset=10, delivery_complete_count=1, batches=[Batch(11, 11, 2, 1)]
        ),
        update_record(
            KEY, state, leader_epoch=-1, start_offset=-1, delivery_complete_count=-1, batches=[Batch(12, 14, 0, 4)]
        ),
        snapshot_record(KEY, later),
        snapshot_record(KEY._replace(group_id="other"), state),
        tombstone(KEY),
    ]
    batch = made.batch(0, encoded(written, SHARE_STATE_KEYS))
    made.write_log(data, [[batch]], topic="__share_group_state")


def test_the_states_of_share_partitions_are_a_table(tmp_path: Path) -> None:
    log_of_states(tmp_path)
    first, one, two, again, other, gone = read(tmp_path, "share_state")
    assert [row["type"] for row in (first, one, again)] == ["ShareSnapshot", "ShareUpdate", "ShareSnapshot"]
    assert {row["problem"] for row in (first, one, two, again, other, gone)} == {None}
    place = (first["shard"], first["log_id"], first["group"], first["topic_id"], first["partition"])
    assert place == (0, "test-cluster", "g", topic_id_text(TOPIC_ID), 3)
    assert (first["state_epoch"], first["start_offset"], first["delivery_complete_count"]) == (2, None, None)
    assert (first["create_ms"], first["batches"]) == (1_000, [])
    assert (one["snapshot_epoch"], one["partition_leader_epoch"], one["start_offset"]) == (0, 7, 10)
    assert one["delivery_complete_count"] == 1
    assert one["batches"] == [{"first_offset": 11, "last_offset": 11, "state": "ACKNOWLEDGED", "delivery_count": 1}]
    assert (two["partition_leader_epoch"], two["start_offset"], two["delivery_complete_count"]) == (None, None, None)
    assert two["batches"][0]["state"] == "AVAILABLE"
    assert (again["snapshot_epoch"], again["write_ms"], again["batches"][0]["state"]) == (1, 9_000, "ARCHIVED")
    assert json.loads(again["value_json"])["value"]["delivery_complete_count"] == 2
    assert other["group"] == "other"
    assert (gone["type"], gone["tombstone"], gone["batches"]) == ("ShareSnapshot", True, None)


def test_states_are_selected_by_group_but_not_by_the_shard_of_a_group(tmp_path: Path) -> None:
    """A share partition is in the shard of its own key."""
    log_of_states(tmp_path)
    assert [row["offset"] for row in read(tmp_path, "share_state", groups="other")] == [4]
    with pytest.raises(BadOption, match="shardCount"):
        parse({"path": str(tmp_path), "view": "share_state", "groups": "g", "shardCount": "3"})


def test_records_that_are_no_states_are_kept_with_a_problem(tmp_path: Path) -> None:
    key = made.encoded(OffsetCommitKey("g", "t", 0), 0)
    made.write_log(
        tmp_path, [[made.batch(0, [(key, b"\0\0"), (b"\0\x09", b""), (None, b"x")])]], topic="__share_group_state"
    )
    rows = read(tmp_path, "share_state")
    assert [row["offset"] for row in rows] == [0, 1, 2]
    assert all(row["problem"] for row in rows)
    assert rows[1]["type"] == "Unknown(9)"


def test_the_records_of_share_groups_have_columns(tmp_path: Path) -> None:
    h = ShareHarness()
    h.arrive("a", ["t", "u"])
    h.settle()
    made.write_log(tmp_path, [[made.batch(0, encoded(h.records, RECORD_KEYS))]])
    rows = {row["type"]: row for row in read(tmp_path, "state")}
    assert {row["group_kind"] for row in rows.values()} == {"share"}
    member = rows["ShareGroupMemberMetadata"]
    assert (member["member_id"], member["client_id"], member["subscribed_topics"]) == ("a", "client", ["t", "u"])
    group = h.group()
    assert rows["ShareGroupMetadata"]["epoch"] == group.group_epoch
    assert rows["ShareGroupTargetAssignmentMetadata"]["target_epoch"] == group.target_epoch
    current = rows["ShareGroupCurrentMemberAssignment"]
    assert (current["member_epoch"], current["state"]) == (group.group_epoch, "STABLE")
    for row in (current, rows["ShareGroupTargetAssignmentMember"]):
        assert sorted(each["partition"] for each in row["assignment"]) == [0, 0, 1, 2, 3]
    known = json.loads(rows["ShareGroupStatePartitionMetadata"]["value_json"])["value"]["initialized_topics"]
    assert sorted(each["topic_name"] for each in known) == ["t", "u"]


def test_the_events_of_share_groups_have_columns(tmp_path: Path) -> None:
    h = ShareHarness()
    h.arrive("a", ["u"])
    topic_id = h.catalog.topic_id("u")
    assert topic_id is not None
    deliveries = Deliveries("archived", "g", "a", "u", topic_id, 0, "a cause", 3, [(7, 9, 5, -1)], 1_000, 1)
    h._apply(note_deliveries(h.groups, h.now_ms, deliveries=deliveries))
    queue = ("dlq.u", 2, 40, None)
    dead = deliveries._replace(outcome="dead_lettered", member_id="", queue=queue)
    h._apply(note_deliveries(h.groups, h.now_ms, deliveries=dead))
    made.write_log(tmp_path, [[made.batch(0, encoded(h.events, EVENT_KEYS))]], topic="__coordinator_events")
    rows = {row["type"]: row for row in read(tmp_path, "events")}
    columns = ("queue_topic", "queue_partition", "queue_offset", "reason")
    assert tuple(rows["RecordsDeadLettered"][each] for each in columns) == queue
    archived, initialized = rows["RecordsArchived"], rows["SharePartitionsInitialized"]
    assert (archived["group_kind"], archived["member_id"], archived["client_id"]) == ("share", "a", "client")
    assert archived["cause"] == "a cause"
    assert [(each["topic"], each["partition"]) for each in archived["partitions"]] == [("u", 0)]
    assert json.loads(archived["value_json"])["value"]["ranges"] == [
        {"first_offset": 7, "last_offset": 9, "delivery_count": 5}
    ]
    assert [(each["topic"], each["partition"]) for each in initialized["partitions"]] == [("u", 0)]
    assert (initialized["principal"], initialized["error"]) == (None, None)
