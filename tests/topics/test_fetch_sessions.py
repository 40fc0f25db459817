"""Fetch sessions: their contents, their eviction, and how they follow changes of topics."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FetchRequest
from coordinator.topics import fetch_sessions
from coordinator.topics.fetch_sessions import EVICTABLE_AFTER_MS, next_epoch
from tests.topics.data_plane import DataPlane, batch


@pytest.fixture
def plane():
    plane = DataPlane(max_incremental_fetch_session_cache_slots=3)
    plane.create("t", 4)
    return plane


def ask(plane, *partitions, session=0, epoch=0, forget=(), **options):
    _, answers = plane.fetch_later(
        [("t", index, offset) for index, offset in partitions],
        session_id=session,
        session_epoch=epoch,
        forgotten_topics_data=[FetchRequest.ForgottenTopic(topic="t", partitions=list(forget))],
        **{"max_wait_ms": 0, **options},
    )
    return answers[0] if answers else answers


def partitions_of(answer):
    return [(p.partition_index, p.error_code, p.high_watermark) for t in answer.responses for p in t.partitions]


def alive(plane, session):
    return ask(plane, session=session, epoch=7).error_code != ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_beyond_the_slots_a_session_is_declined(plane):
    for _ in range(3):
        assert ask(plane, (0, 0)).session_id > 0
    declined = ask(plane, (0, 0))
    assert (declined.session_id, partitions_of(declined)) == (0, [(0, 0, 0)])


def test_without_slots_there_are_no_sessions():
    plane = DataPlane(max_incremental_fetch_session_cache_slots=0)
    plane.create("t")
    assert ask(plane, (0, 0)).session_id == 0


def test_a_session_unused_for_long_gives_its_place(plane):
    first, second, third = (ask(plane, (0, 0)).session_id for _ in range(3))
    plane.advance(EVICTABLE_AFTER_MS)
    assert ask(plane, session=second, epoch=1).error_code == ErrorCode.NONE
    plane.advance(1)
    assert ask(plane, (0, 0)).session_id > 0
    assert [alive(plane, session) for session in (first, second, third)] == [False, True, True]


def test_a_larger_session_takes_the_place_of_the_smallest_that_is_old_enough(plane):
    small = ask(plane, (0, 0)).session_id
    large = ask(plane, (0, 0), (1, 0), (2, 0)).session_id
    middle = ask(plane, (0, 0), (1, 0)).session_id
    for epoch in (1, 2):
        plane.advance(EVICTABLE_AFTER_MS // 2 + 1)
        for session in (small, middle, large):
            assert ask(plane, session=session, epoch=epoch).error_code == ErrorCode.NONE
    assert ask(plane, (0, 0), (1, 0)).session_id > 0
    assert [alive(plane, session) for session in (small, middle, large)] == [False, True, True]
    assert ask(plane, (0, 0)).session_id == 0, "no smaller one takes the place of a larger one"


def test_all_sessions_together_have_a_bound(plane, monkeypatch):
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 5)
    first = ask(plane, (0, 0), (1, 0), (2, 0)).session_id
    assert ask(plane, (0, 0), (1, 0), (2, 0)).session_id == 0
    second = ask(plane, (0, 0), (1, 0)).session_id
    assert second > 0
    grown = ask(plane, (3, 0), session=first, epoch=1)
    assert grown.error_code == ErrorCode.NONE
    assert not alive(plane, first)
    assert alive(plane, second)
    assert ask(plane, (0, 0), (1, 0), (2, 0)).session_id > 0


def test_partitions_that_gave_records_are_read_last_the_next_time(plane):
    for index in range(3):
        plane.produce(batch(b"x" * 500), partition=index)
    session = ask(plane, (0, 0), (1, 0), (2, 0), max_bytes=10).session_id
    order = [partitions_of(ask(plane, session=session, epoch=epoch, max_bytes=10))[0][0] for epoch in (1, 2, 3, 4)]
    assert order == [0, 1, 2, 0]


def test_a_waiting_request_has_not_updated_its_session(plane):
    session = ask(plane, (0, 0), (1, 0)).session_id
    _, waiting = plane.fetch_later([], session_id=session, session_epoch=1, min_bytes=100_000)
    plane.produce(batch(), partition=1)
    assert waiting == []
    plane.advance(500)
    assert partitions_of(waiting[0]) == [(1, 0, 1)]


def test_a_request_overtaken_by_the_next_one_is_refused(plane):
    session = ask(plane, (0, 0)).session_id
    _, waiting = plane.fetch_later([], session_id=session, session_epoch=1)
    assert ask(plane, session=session, epoch=2).error_code == ErrorCode.NONE
    plane.produce(batch())
    assert (waiting[0].error_code, waiting[0].session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, session)


def test_a_session_finds_a_recreated_topic_by_name(plane):
    session = ask(plane, (0, 0)).session_id
    plane.delete("t")
    assert partitions_of(ask(plane, session=session, epoch=1)) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    plane.create("t")
    assert partitions_of(ask(plane, session=session, epoch=2)) == [(0, 0, 0)]


def test_a_session_does_not_find_a_recreated_topic_by_id(plane):
    topic_id = plane.topics.topic_id("t")
    _, answers = plane.fetch_later([(topic_id, 0, 0)], version=13, max_wait_ms=0, session_epoch=0)
    session = answers[0].session_id
    plane.delete("t")
    plane.create("t")
    for epoch in (1, 2):
        _, answers = plane.fetch_later([], version=13, max_wait_ms=0, session_id=session, session_epoch=epoch)
        assert partitions_of(answers[0]) == [(0, ErrorCode.UNKNOWN_TOPIC_ID, -1)]


def test_deleted_records_are_news(plane):
    plane.produce(batch())
    session = ask(plane, (0, 1)).session_id
    plane.topics.partition("t", 0).delete_before(1)
    answer = ask(plane, session=session, epoch=1)
    assert [p.log_start_offset for p in answer.responses[0].partitions] == [1]
    assert ask(plane, session=session, epoch=2).responses == []


def test_a_cancelled_request_leaves_no_reader(plane):
    session = ask(plane, (0, 0), (9, 0)).session_id
    fetch, _ = plane.fetch_later([], session_id=session, session_epoch=1)
    fetch.cancel()
    assert not plane.topics.partition("t", 0).readers


def test_epochs_begin_again_at_one():
    assert (next_epoch(0), next_epoch(2**31 - 1)) == (1, 1)
