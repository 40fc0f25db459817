"""An administrator lets offsets expire: what retention would keep stays, and no operation writes more than retention would."""

import pytest

from coordinator.groups.offsets import expire_now as module
from coordinator.groups.offsets.expire_now import IN_USE, PENDING, Expired, ExpireOffsets, expire_now
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetCommitKey, OffsetCommitValue
from coordinator.runtime.result import Marker, Producer, Record
from tests.groups.harness import GroupHarness

PRODUCER = Producer(7, 0)


def offset(partition: int, topic: str = "t") -> Record:
    value = OffsetCommitValue(offset=5, leader_epoch=-1, metadata="", commit_timestamp=0, expire_timestamp=-1)
    return Record(OffsetCommitKey("g", topic, partition), value, 3)


def world(*partitions: int) -> GroupHarness:
    """A group of which only offsets are known."""
    h = GroupHarness()
    for partition in partitions:
        h.groups.replay(offset(partition))
    return h


def expire(h: GroupHarness, *topics: str) -> Expired:
    wanted = ExpireOffsets("g", frozenset(topics) if topics else None)
    result = expire_now(h.groups, wanted, None, h.now_ms)  # type: ignore[arg-type]
    for record in result.records:
        h.groups.replay(record)
    return result.reply  # type: ignore[return-value]


def committed(h: GroupHarness) -> set[int]:
    return {partition for _, partition in h.groups.offsets.by_group.get("g", {})}


def test_an_offset_with_a_pending_one_of_a_transaction_stays_and_so_does_its_group():
    h = world(0, 1)
    h.groups.replay_pending(offset(1), PRODUCER)
    assert expire(h) == Expired(1, {("t", 1): PENDING}, is_deleted=False, has_more=False)
    assert committed(h) == {1}
    h.groups.replay_marker(Marker(*PRODUCER, commit=False, coordinator_epoch=0))
    assert expire(h) == Expired(1, {}, is_deleted=True, has_more=False)
    assert "g" not in h.groups.by_id


def test_only_the_named_topics_expire():
    h = world(0, 1)
    h.groups.replay(offset(3, "u"))
    assert expire(h, "u", "none").offsets == 1
    assert committed(h) == {0, 1}


@pytest.mark.parametrize(("count", "rounds"), [(2, [2]), (3, [2, 1])])
def test_an_operation_writes_no_more_than_retention_does_in_a_turn(monkeypatch, count, rounds):
    monkeypatch.setattr(module, "RECORDS_PER_TURN_MAX", 2)
    h = world(*range(count))
    replies = [expire(h) for _ in rounds]
    assert [reply.offsets for reply in replies] == rounds
    assert [reply.has_more for reply in replies] == [*[True] * (len(rounds) - 1), False]
    assert committed(h) == set()


def test_a_group_with_members_of_an_unknown_protocol_keeps_all_of_its_offsets():
    h = GroupHarness()
    h.join_new_member(protocol_type="connect")
    h.settle()
    h.groups.replay(offset(0))
    assert expire(h) == Expired(0, {("t", 0): IN_USE}, is_deleted=False, has_more=False)


def test_a_group_that_does_not_exist_is_refused():
    with pytest.raises(KafkaError) as refused:
        expire(GroupHarness())
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
