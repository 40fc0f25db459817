"""Compaction is invisible (I2): loads yield the same state before and after any cleaning, even around power cuts."""

from dataclasses import replace
from random import Random

import pytest

from coordinator.log.batch import check_batch, split
from coordinator.log.batch_builder import seal
from coordinator.log.codecs import compress
from coordinator.log.compaction import clean, is_due
from coordinator_lab.simulation.disk import PowerCut, SimulatedDisk
from tests.log.log_helpers import FOLDER, append, content, make_batch, offsets, open_log, reopened

DAY = 24 * 3600 * 1000


def run(cleaning):
    for work in cleaning:
        try:
            if work is not None:
                work()
        except Exception as error:
            cleaning.throw(error)
            raise


def clean_all(log, now_ms=0):
    run(clean(log, now_ms))


def state(log):
    """The state after replaying the log: the last value of each key."""
    return last_values(content(log))


def last_values(pairs):
    return {key: value for key, value in dict(pairs).items() if value is not None}


def stored(log):
    return [(key, value) for key, value in content(log) if key is not None]


@pytest.fixture
def disk():
    return SimulatedDisk()


def roll(log):
    """Closes the active segment."""
    log._roll()


def test_only_the_last_record_of_a_key_stays_at_its_offset(disk):
    log = open_log(disk)
    append(log, (b"a", b"1"), (b"b", b"1"))
    append(log, (b"a", b"2"))
    append(log, (b"c", b"1"), (b"a", b"3"))
    roll(log)
    append(log, (b"b", b"active"))
    clean_all(log)
    assert content(log) == [(b"b", b"1"), (b"c", b"1"), (b"a", b"3"), (b"b", b"active")]
    buffer = log.read(0, 10_000)
    assert [(h.base_offset, h.next_offset, h.record_count) for _, h in split(buffer)] == [(0, 2, 1), (3, 5, 2)]
    assert log.read(2, 10_000) == log.read(3, 10_000)
    assert (log.start_offset, log.end_offset) == (0, 6)
    log = reopened(disk)
    assert (log.start_offset, log.end_offset, log.recovery) == (0, 6, None)
    assert state(log) == {b"a": b"3", b"b": b"active", b"c": b"1"}


def test_a_tombstone_is_dropped_some_time_after_a_cleaning_first_met_it(disk):
    log = open_log(disk, delete_retention_ms=DAY)
    append(log, (b"a", b"1"))
    append(log, (b"a", None), (b"b", b"1"), timestamp=5)
    roll(log)
    append(log, (b"x", b"y"))
    clean_all(log, now_ms=10 * DAY)
    assert stored(log) == [(b"a", None), (b"b", b"1"), (b"x", b"y")]
    header = check_batch(log.read(0, 1))
    assert (header.delete_horizon_ms, header.max_timestamp) == (11 * DAY, 5)
    clean_all(log, now_ms=11 * DAY - 1)
    assert (b"a", None) in stored(log)
    clean_all(log, now_ms=11 * DAY)
    assert stored(log) == [(b"b", b"1"), (b"x", b"y")]


def test_records_without_a_key_stay(disk):
    log = open_log(disk)
    append(log, (None, b"1"), (None, None))
    roll(log)
    append(log)
    clean_all(log)
    assert content(log)[:2] == [(None, b"1"), (None, None)]


def test_small_neighbours_become_one_segment_and_unchanged_ones_are_not_rewritten(disk):
    log = open_log(disk, segment_bytes=300)
    while len(log.segments) < 4:
        append(log, (b"%d" % log.end_offset, b"v"))
    keys = log.end_offset
    kept = list(log.segments)
    clean_all(log)
    assert log.segments == kept
    for _ in range(12):
        append(log, (b"0", b"v"))
    clean_all(log)
    for _ in range(3):
        clean_all(log)
    assert len([name for name in disk.list(FOLDER) if name.endswith(".log")]) == len(log.segments) <= 5
    assert state(log) == {b"%d" % i: b"v" for i in range(keys)}


def test_cleaning_is_due_by_the_share_of_new_records(disk):
    log = open_log(disk, segment_bytes=300)
    assert not is_due(log, 0)
    while len(log.segments) < 3:
        append(log, (b"%d" % log.end_offset, b"v"))
    assert is_due(log, 0)
    clean_all(log)
    assert not is_due(log, 0)
    log = reopened(disk, segment_bytes=300)
    assert not is_due(log, 0)
    append(log, *[(b"k", b"v" * 100)] * 5)
    roll(log)
    assert is_due(log, 0)


def test_a_full_disk_ends_a_cleaning_without_harm(disk):
    log = open_log(disk)
    for _ in range(20):
        append(log, (b"a", b"1" * 100), (b"%d" % log.end_offset, b"v"))
    roll(log)
    append(log)
    before = content(log)
    disk.capacity_bytes = 0
    with pytest.raises(OSError, match="No space"):
        clean_all(log)
    assert content(log) == before
    disk.capacity_bytes = None
    clean_all(log)
    assert state(log) == dict(before)
    assert not [name for name in disk.list(FOLDER) if not name.endswith((".log", "checkpoint", "list"))]


def test_a_cleaning_that_is_abandoned_midway_leaves_no_trace(monkeypatch):
    monkeypatch.setattr("coordinator.log.compaction.STEP_RECORDS", 1)
    monkeypatch.setattr("coordinator.log.segment_rewriter.STEP_RECORDS", 1)
    steps, done = 0, False
    while not done:
        disk = SimulatedDisk()
        log = open_log(disk, segment_bytes=400)
        for i in range(20):
            append(log, (b"%d" % (i % 3), b"%d" % log.end_offset))
        before = state(log)
        cleaning = clean(log, 0)
        done = True
        for taken, work in enumerate(cleaning):
            if work is not None:
                work()
            if taken == steps:
                done = False
                break
        cleaning.close()
        assert state(log) == before
        log.close()
        assert disk.files_open == 0
        assert not [name for name in disk.list(FOLDER) if not name.endswith((".log", "checkpoint", "list"))]
        steps += 1
    assert steps > 20


def random_pairs(random):
    keys = [b"a", b"b", b"c", b"d", b"e"]
    return [
        (random.choice(keys), None if random.random() < 0.3 else b"%d" % random.randrange(1000))
        for _ in range(random.choice([1, 1, 2, 5]))
    ]


@pytest.mark.parametrize("seed", range(60))
def test_any_history_cleaned_at_any_times_loads_as_the_full_one(seed):
    """The same writes go to a log that is never cleaned. Loads run across cleanings and deletions."""
    random = Random(seed)
    full = open_log(SimulatedDisk())
    disk = SimulatedDisk()
    options = {"segment_bytes": random.choice([150, 300, 1000]), "delete_retention_ms": random.choice([0, 3, 1000])}
    log = open_log(disk, **options)
    loads, cleaning = [], None
    for now_ms in range(random.randrange(20, 120)):
        pairs = random_pairs(random)
        append(full, *pairs)
        append(log, *pairs)
        if cleaning is None and random.random() < 0.2:
            cleaning = clean(log, now_ms)
        if random.random() < 0.1:
            loads.append((log.replay_batches(), [], None))
        for i, (load, seen, expected) in enumerate(loads):
            loads[i] = (load, seen, state(full) if expected is None else expected)
            seen.extend(next(load, []))
        for _ in range(random.randrange(4)):
            if cleaning is not None:
                try:
                    if (work := next(cleaning)) is not None:
                        work()
                except StopIteration:
                    cleaning = None
        if random.random() < 0.05 and cleaning is None and not loads:
            log = reopened(disk, **options)
        assert state(log) == state(full)
        assert log.end_offset == full.end_offset
    for load, seen, expected in loads:
        for batch in load:
            seen.extend(batch)
        assert last_values(seen) == expected


@pytest.mark.parametrize("seed", range(60))
def test_power_cuts_in_the_middle_of_cleaning_change_nothing(seed):
    random = Random(seed)
    disk = SimulatedDisk()
    options = {"segment_bytes": random.choice([150, 300, 1000]), "delete_retention_ms": random.choice([0, 1000])}
    log = open_log(disk, **options)
    expected = {}
    for now_ms in range(6):
        for _ in range(random.randrange(20)):
            pairs = random_pairs(random)
            append(log, *pairs)
            expected.update(pairs)
        log.sync()
        disk.cut_after(random.randrange(40))
        try:
            clean_all(log, now_ms)
            clean_all(log, now_ms)
        except PowerCut:
            pass
        log = None
        while log is None:
            disk.crash(random)
            disk.cut_after(random.choice([1, 3, 1000]))
            try:
                log = open_log(disk, **options)
            except PowerCut:
                continue
        disk.kill()
        log = open_log(disk, **options)
        assert log.recovery is None
        assert state(log) == last_values(expected.items())


def test_opening_a_log_completes_a_swap_that_was_begun(disk):
    log = open_log(disk, segment_bytes=150)
    for i in range(6):
        append(log, (b"a", b"%d" % i))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    log.close()
    file = disk.open(f"{FOLDER}/{0:020d}.{4:020d}.swap")
    file.append(make_batch(0, [(b"b", b"swapped")] * 4))
    file.close()
    disk.open(f"{FOLDER}/{4:020d}.log.cleaned").close()
    log = reopened(disk, segment_bytes=150)
    names = [f"{0:020d}.log", f"{4:020d}.log", "log-checkpoint", "segment-list"]
    assert disk.list(FOLDER) == names
    assert offsets(log.read(0, 10_000)) == [0]
    assert state(log) == {b"a": b"5", b"b": b"swapped"}


def test_a_swap_survives_a_power_cut_at_every_operation():
    """Three small segments become one. At every point either the old ones or the new one are on the disk."""
    operations, finished = 0, False
    while not finished:
        for seed in range(12):
            disk = SimulatedDisk()
            log = open_log(disk, segment_bytes=200)
            for i in range(6):
                append(log, (b"key-%d" % i, b"value"))
            append(log, (b"key-0", b"last"), (b"x" * 100, b""))
            append(log, (b"y" * 150, b""))
            log.sync()
            before = state(log)
            log.settings = replace(log.settings, segment_bytes=10_000)
            disk.cut_after(operations)
            try:
                clean_all(log)
                finished = True
            except PowerCut:
                pass
            disk.crash(Random(seed))
            log = open_log(disk, segment_bytes=200)
            assert (state(log), log.recovery) == (before, None)
        operations += 1
    assert len(log.segments) == 2


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_compressed_batches_are_compacted_and_stay_compressed(disk, kind):
    def append_compressed(*pairs):
        plain = make_batch(log.end_offset, pairs)
        body = bytearray(plain[21:61])
        body[1] |= kind
        batch = seal(log.end_offset, 0, bytes(body), [compress(kind, plain[61:])])
        log.append(batch, len(pairs), 1000)

    log = open_log(disk)
    append_compressed((b"a", b"1"), (b"b", b"1"))
    append(log, (b"a", b"2"))
    append_compressed((b"c", b"1"), (b"a", b"3"), (b"d", None))
    roll(log)
    append(log, (b"b", b"active"))
    clean_all(log)
    assert content(log) == [(b"b", b"1"), (b"c", b"1"), (b"a", b"3"), (b"d", None), (b"b", b"active")]
    assert [header.compression for _, header in split(log.read(0, 10_000))] == [kind, kind]
    append(log, (b"x", b"y"))
    roll(log)
    clean_all(log, now_ms=10 * DAY)
    assert (b"d", None) not in content(log), "the tombstone expired"
    assert check_batch(log.read(0, 10_000)).compression == kind


def test_a_batch_that_cannot_be_decompressed_is_left_alone(disk):
    log = open_log(disk)
    append(log, (b"a", b"1"))
    plain = make_batch(log.end_offset, [(b"a", b"2")])
    body = bytearray(plain[21:61])
    body[1] |= 2
    nonsense = seal(log.end_offset, 0, bytes(body), [b"no snappy"])
    log.append(nonsense, 1, 1000)
    append(log, (b"a", b"3"))
    roll(log)
    append(log, (b"b", b"active"))
    clean_all(log)
    assert nonsense in log.read(0, 10_000)
    assert [header.base_offset for _, header in split(log.read(0, 10_000))] == [1, 2]


def test_a_tombstone_stays_while_a_batch_before_it_cannot_be_read(disk):
    """An older value of its key may be in that batch, and a consumer with another codec would see it again."""
    log = open_log(disk, delete_retention_ms=DAY)
    plain = make_batch(log.end_offset, [(b"a", b"1")])
    body = bytearray(plain[21:61])
    body[1] |= 2
    log.append(seal(log.end_offset, 0, bytes(body), [b"no snappy"]), 1, 1000)
    append(log, (b"a", None))
    roll(log)
    append(log, (b"b", b"active"))
    for days in (10, 12, 14):
        clean_all(log, now_ms=days * DAY)
        left = [(header.base_offset, header.record_count) for _, header in split(log.read(0, 10_000))]
        assert left == [(0, 1), (1, 1)], days
