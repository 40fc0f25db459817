"""Replay of offset records: any order, missing neighbours, and what compaction leaves give the same state."""

import tracemalloc

import pytest

from coordinator.groups.classic.records import group_metadata_tombstone, new_group_metadata
from coordinator.groups.classic.states import State
from coordinator.groups.machine import GroupMachine
from coordinator.groups.offsets.records import offset_commit_tombstone
from coordinator.groups.offsets.value import NO_TIMESTAMP, VERSION
from coordinator.protocol.messages import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.runtime.result import Record
from coordinator.runtime.serde import Serde
from tests.groups.offsets.offset_coordinator import CODEC, KEYS, OffsetCoordinator

TOPIC_ID = b"t" * 16


def committed(group_id="g", topic="topic", partition=0, offset=7):
    value = OffsetCommitValue(offset, -1, "", 1_000, NO_TIMESTAMP, TOPIC_ID)
    return Record(OffsetCommitKey(group_id, topic, partition), value, VERSION)


def loaded(*records: Record) -> GroupMachine:
    groups = OffsetCoordinator().state
    for record in records:
        groups.replay(record)
    groups.loaded(2_000)
    return groups


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_offset_may_be_replayed_before_or_after_its_groups_record(order):
    records = [committed(), new_group_metadata("g", 5)]
    groups = loaded(*(records[each] for each in order))
    assert groups.offsets.get("g", "topic", 0).offset == 7
    assert groups.by_id["g"].stored is not None


def test_an_offset_of_an_unknown_group_creates_a_simple_group():
    group = loaded(committed()).by_id["g"]
    assert (group.state, group.protocol_type, group.stored) == (State.EMPTY, None, None)


def test_tombstones_of_unknown_offsets_are_ignored():
    groups = loaded(offset_commit_tombstone("g", "topic", 0), group_metadata_tombstone("g"))
    assert (groups.by_id, groups.offsets.by_group, groups.offsets.count) == ({}, {}, 0)


def test_a_groups_tombstone_leaves_its_offsets_with_a_simple_group():
    groups = loaded(new_group_metadata("g", 5), committed(), group_metadata_tombstone("g"))
    assert groups.offsets.count == 1
    assert groups.by_id["g"].stored is None


def test_a_simple_group_ends_with_its_last_offset():
    groups = loaded(committed(), committed(partition=1), offset_commit_tombstone("g", "topic", 0))
    assert "g" in groups.by_id
    groups.replay(offset_commit_tombstone("g", "topic", 1))
    assert groups.by_id == {}


def test_a_group_with_a_record_does_not_end_with_its_last_offset():
    groups = loaded(new_group_metadata("g", 5), committed(), offset_commit_tombstone("g", "topic", 0))
    assert "g" in groups.by_id


def test_the_number_of_offsets_is_kept_up_to_date():
    groups = loaded(committed(), committed(offset=8), committed(partition=1), committed("h"))
    assert groups.offsets.count == 3
    groups.replay(offset_commit_tombstone("g", "topic", 0))
    groups.replay(offset_commit_tombstone("g", "topic", 0))
    assert groups.offsets.count == 2


@pytest.mark.parametrize("version", range(5))
def test_values_of_every_version_are_read(version):
    value = OffsetCommitValue(7, 3 if version >= 3 else -1, "m", 1_000, 9_000 if version == 1 else -1)
    record = Record(committed().key, value, version)
    serde = Serde(CODEC, KEYS)
    found = loaded(serde.decode(*serde.encode(record))).offsets.get("g", "topic", 0)
    assert (found.offset, found.metadata, found.commit_timestamp) == (7, "m", 1_000)
    assert found.expire_timestamp == (9_000 if version == 1 else -1)
    assert found.leader_epoch == (3 if version >= 3 else -1)


def test_records_of_an_ancient_kafka_are_read():
    key = LegacyOffsetCommitKey("g", "topic", 0)
    serde = Serde(CODEC, KEYS)
    record = serde.decode(*serde.encode(Record(key, LegacyOffsetCommitValue(7, "m", 1_000), 0)))
    found = loaded(record).offsets.get("g", "topic", 0)
    assert (found.offset, found.metadata, found.commit_timestamp) == (7, "m", 1_000)
    assert loaded(record, Record(key, None)).by_id == {}


def test_an_offset_takes_little_memory():
    """An offset loaded from a log takes less than 400 bytes in all, so 100,000 fit in 40 MB."""
    count, serde = 10_000, Serde(CODEC, KEYS)
    lines = [
        serde.encode(committed(f"group-{number // 100}", f"topic-{number % 10}", number % 100 // 10, 1 << 40 | number))
        for number in range(count)
    ]
    groups = OffsetCoordinator().state
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for line in lines:
        groups.replay(serde.decode(*line))
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert groups.offsets.count == count
    assert taken / count < 400
