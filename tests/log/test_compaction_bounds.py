"""A cleaning remembers a bounded number of keys, and the next cleaning continues where it stopped."""

import pytest

from coordinator.log.compaction import clean, is_due
from coordinator_lab.simulation.disk import SimulatedDisk
from tests.log.log_helpers import append, content, open_log, reopened

DAY_MS = 24 * 3600 * 1000


def run(log, keys_max, now_ms=0):
    for work in clean(log, now_ms, keys_max):
        if work is not None:
            work()


def last_values(log):
    return {key: value for key, value in dict(content(log)).items() if value is not None}


@pytest.mark.parametrize("keys_max", [1, 3, 7, 1000])
def test_several_small_cleanings_have_the_result_of_one_large_cleaning(keys_max):
    log = open_log(SimulatedDisk(), segment_bytes=300)
    for turn in range(4):
        for key in range(10):
            append(log, (b"%d" % key, b"%d" % turn))
    while len(log.segments[-1].file.pread(0, 1)):
        append(log, (b"end", b""))
        if log.segments[-1].base_offset == log.end_offset - 1:
            break
    rounds = 0
    while is_due(log, 0):
        run(log, keys_max)
        rounds += 1
        assert rounds < 100
        assert last_values(log) == {b"%d" % key: b"3" for key in range(10)} | {b"end": b""}
    kept = [key for key, _ in content(log) if key != b"end"]
    assert len(kept) <= 20 if keys_max < 10 else 10
    assert (rounds > 1) is (keys_max < 10)


@pytest.mark.parametrize("keys_max", [1, 2, 1000])
def test_a_tombstone_outlives_a_value_that_a_small_cleaning_did_not_reach(keys_max):
    disk = SimulatedDisk()
    log = open_log(disk, segment_bytes=300)
    append(log, (b"gone", b"value"))
    for key in range(10):
        append(log, (b"%d" % key, b"v"))
    append(log, (b"gone", None))
    for turn in range(3):
        for key in range(10):
            append(log, (b"%d" % key, b"%d" % turn))
    now_ms = 0
    for _ in range(60):
        run(log, keys_max, now_ms)
        now_ms += 2 * DAY_MS
        assert b"gone" not in last_values(log)
        log = reopened(disk, segment_bytes=300)
