"""The stream of events without I/O: bytes in any pieces are the same events, and a broken stream continues where it was."""

import json
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coordinator_testing.control import ControlUnreachable, NotReached, events
from coordinator_testing.control.events import EventStream

EVENTS = [
    {"shard": 0, "offset": n, "type": "RebalanceStarted", "reason": "Zeile\u2028 \x85 \U0001f600"} for n in range(3)
]
BYTES = b": hello\nretry: 1000\nid: start\n\n" + b"".join(
    f"id: 0:{each['offset']}\ndata: {json.dumps(each, ensure_ascii=False)}\n\n".encode() for each in EVENTS
)


def stream(limit=None, *, follow=True, patience_s=None):
    return EventStream("g", None, limit, follow=follow, patience_s=patience_s)


@given(st.lists(st.integers(0, len(BYTES)), max_size=8), st.booleans())
@example(list(range(2 * len(BYTES))), True)
def test_bytes_in_any_pieces_are_the_same_events(cuts, carriage_returns):
    content = BYTES.replace(b"\n", b"\r\n") if carriage_returns else BYTES
    reading = stream()
    pieces = pairwise([0, *sorted(cuts), len(content)])
    assert [event for first, last in pieces for event in reading.feed(content[first:last])] == EVENTS


def test_a_broken_stream_continues_behind_the_last_event():
    reading = stream(5)
    assert reading.options()["headers"] == {"Accept": "text/event-stream"}
    assert reading.options()["params"] == {"group": "g", "follow": "true", "limit": 5}
    cut = BYTES.index(b"id: 0:2") + 20
    assert len(list(reading.feed(BYTES[:cut]))) == 2
    reading.on_broken(ControlUnreachable("gone"))
    assert reading.options()["headers"]["Last-Event-ID"] == "0:1"
    assert reading.options()["params"]["limit"] == 3
    assert list(reading.feed(BYTES[BYTES.index(b"id: 0:2") :])) == EVENTS[2:]


def test_a_stream_that_breaks_before_its_first_event_continues_where_it_began():
    reading = stream()
    assert list(reading.feed(BYTES[: BYTES.index(b"id: 0:0")])) == []
    assert reading.options()["headers"]["Last-Event-ID"] == "start"


def test_data_of_several_lines_is_one_event():
    assert list(stream().feed(b'data: {"type":\ndata: "X"}\n\n')) == [{"type": "X"}]


def test_the_last_words_of_the_server_are_no_event():
    assert list(stream().feed(b'event: end\ndata: {"type": "StreamEnded", "reason": "stopping"}\n\n')) == []


def test_a_stream_ends_after_its_limit():
    reading = stream(3)
    list(reading.feed(BYTES))
    assert reading.is_over
    assert stream(0).is_over


def test_a_stream_that_does_not_follow_ends_with_its_answer():
    reading = stream(follow=False)
    assert reading.options()["params"]["follow"] == "false"
    reading.on_end()
    assert reading.is_over


def test_a_stream_that_follows_is_continued_after_an_orderly_end():
    reading = stream()
    reading.on_end()
    assert not reading.is_over


def test_a_server_that_stays_away_ends_the_stream(monkeypatch):
    reading = stream()
    list(reading.feed(b": hello\n\n"))
    reading.on_broken(ControlUnreachable("gone"))
    monkeypatch.setattr(events, "RECONNECT_WITHIN_S", -1)
    with pytest.raises(ControlUnreachable, match="gone"):
        reading.on_broken(ControlUnreachable("gone"))


def test_a_server_that_never_was_there_ends_the_stream_at_once():
    with pytest.raises(ControlUnreachable, match="gone"):
        stream().on_broken(ControlUnreachable("gone"))


def test_the_time_that_a_reader_takes_is_no_time_without_an_event(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(events.time, "monotonic", lambda: now[0])
    reading = stream(patience_s=5)
    for _ in reading.feed(BYTES):
        now[0] += 60
    now[0] += 5
    with pytest.raises(NotReached):
        reading.check_patience()


def test_comments_do_not_keep_an_impatient_reader_waiting():
    with pytest.raises(NotReached, match="no event came within 0 s"):
        list(stream(patience_s=0).feed(b": still here\n\n"))
    assert list(stream(patience_s=60).feed(b": still here\n\n")) == []
