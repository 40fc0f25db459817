"""Compaction of transactions: open ones stay untouched, aborted records are dropped, committed records count like others."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.log.batch import TRANSACTIONAL, key_values
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.compaction import clean
from coordinator.log.end_transaction_marker import end_transaction, read_end_transaction
from coordinator.log.log import LastBatch
from coordinator.log.segment import Segment
from coordinator_lab.simulation.disk import SimulatedDisk
from tests.log.log_helpers import append, open_log, reopened

DAY = 24 * 3600 * 1000


def transactional(log, *pairs, producer=7, epoch=0):
    builder = BatchBuilder()
    for key, value in pairs:
        builder.add(key, value)
    batch = builder.build(log.end_offset, 1000, producer_id=producer, producer_epoch=epoch, attributes=TRANSACTIONAL)
    return log.append(batch, len(pairs), 1000)


def end(log, producer=7, epoch=0, commit=True):
    batch = end_transaction(
        log.end_offset, 1000, producer_id=producer, producer_epoch=epoch, commit=commit, coordinator_epoch=0
    )
    return log.append(batch, 1, 1000)


def roll(log):
    log._roll()


def clean_all(log, now_ms=0):
    log.sync()
    for work in clean(log, now_ms):
        if work is not None:
            work()


def batches(log):
    """The batches: base offset, and keys with values, or commit or abort for a marker."""
    found = []
    for buffer, position, header in log.batches():
        records = key_values(buffer, position, header)
        if header.is_control:
            found.append((header.base_offset, "commit" if read_end_transaction(*records[0][1:])[0] else "abort"))
        else:
            found.append((header.base_offset, [(key, value) for _, key, value in records]))
    return found


def state(log):
    """The state after replaying the log: for each key the committed record with the highest offset."""
    values, pending = {}, {}

    def take(offset, key, value):
        if key is not None and values.get(key, (-1,))[0] <= offset:
            values[key] = offset, value

    for buffer, position, header in log.batches():
        records = key_values(buffer, position, header)
        if header.is_control:
            commit, _ = read_end_transaction(*records[0][1:])
            for record in pending.pop(header.producer_id, []):
                if commit:
                    take(*record)
        elif header.is_transactional:
            pending.setdefault(header.producer_id, []).extend(records)
        else:
            for record in records:
                take(*record)
    opened = {producer: [(key, value) for _, key, value in records] for producer, records in pending.items()}
    return {key: value for key, (_, value) in values.items() if value is not None}, opened


@pytest.fixture
def log():
    return open_log(SimulatedDisk(), delete_retention_ms=DAY)


def test_committed_records_are_compacted_as_usual(log):
    append(log, (b"a", b"1"), (b"b", b"1"))
    transactional(log, (b"a", b"2"))
    end(log)
    append(log, (b"c", b"1"))
    transactional(log, (b"c", b"2"), (b"d", b"1"))
    append(log, (b"d", b"2"))
    end(log)
    roll(log)
    append(log, (b"x", b"y"))
    clean_all(log)
    assert batches(log) == [
        (0, [(b"b", b"1")]),
        (2, [(b"a", b"2")]),
        (3, "commit"),
        (5, [(b"c", b"2")]),
        (7, [(b"d", b"2")]),
        (8, "commit"),
        (9, [(b"x", b"y")]),
    ]


def test_aborted_records_are_dropped_and_replace_nothing(log):
    append(log, (b"a", b"1"))
    transactional(log, (b"a", b"2"), (b"b", None))
    append(log, (b"b", b"1"))
    end(log, commit=False)
    roll(log)
    append(log, (b"x", b"y"))
    clean_all(log)
    assert batches(log) == [(0, [(b"a", b"1")]), (3, [(b"b", b"1")]), (4, "abort"), (5, [(b"x", b"y")])]


def test_nothing_is_touched_from_the_first_open_transaction_on(log):
    append(log, (b"a", b"1"))
    append(log, (b"a", b"2"))
    roll(log)
    append(log, (b"a", b"3"))
    transactional(log, (b"a", b"4"))
    roll(log)
    append(log, (b"a", b"5"))
    roll(log)
    append(log, (b"a", b"6"))
    clean_all(log)
    assert [offset for offset, _ in batches(log)] == [1, 2, 3, 4, 5]
    end(log)
    clean_all(log)
    assert [offset for offset, _ in batches(log)] == [4, 5, 6]


def test_while_a_transaction_stays_open_only_new_batches_are_scanned(log, monkeypatch):
    transactional(log, (b"a", b"0"))
    for value in range(20):
        append(log, (b"a", b"%d" % value))
        roll(log)
    append(log, (b"x", b"y"))
    clean_all(log)
    headers, read = Segment.headers, []
    monkeypatch.setattr(Segment, "headers", lambda self, position: read.append(self) or headers(self, position))
    append(log, (b"x", b"z"))
    clean_all(log)
    assert set(read) == {log.segments[-1]}
    end(log)
    clean_all(log)
    assert [offset for offset, _ in batches(log)] == [20, 21, 22, 23]


def test_a_marker_that_is_not_durable_does_not_count(log):
    append(log, (b"a", b"1"))
    transactional(log, (b"a", b"2"))
    roll(log)
    end(log)
    for work in clean(log, 0):
        if work is not None:
            work()
    assert [offset for offset, _ in batches(log)] == [0, 1, 2]
    clean_all(log)
    assert [offset for offset, _ in batches(log)] == [1, 2]


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_dropped_some_time_after_its_records(log, commit):
    transactional(log, (b"a", b"1"))
    end(log, commit=commit)
    append(log, (b"a", b"2"))
    roll(log)
    append(log, (b"x", b"y"))
    word = "commit" if commit else "abort"
    for now_ms in (0, DAY, 2 * DAY - 1):
        clean_all(log, now_ms)
        assert batches(log)[0] == (1, word)
    clean_all(log, 2 * DAY)
    assert batches(log) == [(2, [(b"a", b"2")]), (3, [(b"x", b"y")])]


def test_a_marker_outlives_the_records_of_its_transaction(log):
    transactional(log, (b"a", b"1"))
    end(log)
    roll(log)
    append(log, (b"x", b"y"))
    for now_ms in (0, DAY, 9 * DAY):
        clean_all(log, now_ms)
    assert batches(log)[:2] == [(0, [(b"a", b"1")]), (1, "commit")]


def test_the_last_batch_of_a_producer_stays_and_may_be_empty(log):
    log.last_batches = lambda: {7: LastBatch(1, 0), 8: LastBatch(None, 3)}
    transactional(log, (b"a", b"0"))
    transactional(log, (b"a", b"1"))
    end(log, commit=False)
    end(log, producer=8, epoch=3)
    append(log, (b"a", b"2"))
    roll(log)
    append(log, (b"x", b"y"))
    for now_ms in (0, DAY, 9 * DAY):
        clean_all(log, now_ms)
    assert batches(log)[:4] == [(1, []), (2, "abort"), (3, "commit"), (4, [(b"a", b"2")])]
    log.last_batches = dict
    for now_ms in (10 * DAY, 11 * DAY, 12 * DAY):
        clean_all(log, now_ms)
    assert batches(log) == [(4, [(b"a", b"2")]), (5, [(b"x", b"y")])]


def test_a_transactional_batch_without_a_producer_counts_like_any_other(log):
    transactional(log, (b"a", b"1"), producer=-1, epoch=-1)
    append(log, (b"a", b"2"))
    roll(log)
    append(log, (b"x", b"y"))
    clean_all(log)
    assert batches(log) == [(1, [(b"a", b"2")]), (2, [(b"x", b"y")])]


_KEYS = st.sampled_from([b"a", b"b", b"c"])
_VALUES = st.one_of(st.none(), st.sampled_from([b"1", b"2"]))
_STEPS = st.one_of(
    st.tuples(st.just("plain"), st.lists(st.tuples(_KEYS, _VALUES), min_size=1, max_size=3)),
    st.tuples(st.just("write"), st.integers(1, 3), st.lists(st.tuples(_KEYS, _VALUES), min_size=1, max_size=3)),
    st.tuples(st.just("end"), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("roll")),
    st.tuples(st.just("clean")),
    st.tuples(st.just("reopen")),
)


@settings(max_examples=150)
@given(st.lists(_STEPS, max_size=40), st.integers(0, 2 * DAY))
def test_a_load_yields_the_same_whatever_is_cleaned(steps, retention_ms):
    """The state: committed values, and values pending in open transactions."""
    disk = SimulatedDisk()
    log, now_ms = open_log(disk, delete_retention_ms=retention_ms), 0
    for step in steps:
        before = state(log)
        match step:
            case "plain", pairs:
                append(log, *pairs)
            case "write", producer, pairs:
                transactional(log, *pairs, producer=producer)
            case "end", producer, commit:
                end(log, producer=producer, commit=commit)
            case ("roll",):
                if log.segments and log.segments[-1].size_bytes:
                    roll(log)
            case ("clean",):
                now_ms += DAY
                clean_all(log, now_ms)
                assert state(log) == before
            case ("reopen",):
                log.sync()
                log = reopened(disk, delete_retention_ms=retention_ms)
                assert state(log) == before
    before = state(log)
    for _ in range(4):
        if log.segments:
            roll(log)
        now_ms += DAY
        clean_all(log, now_ms)
        assert state(log) == before
    assert all(word != [] for _, word in batches(log))
