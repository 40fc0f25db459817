"""A log gives back what was appended, by offset and by time, across segments, restarts and deletions."""

import errno

import pytest

from coordinator.log.batch import decode_records, read_header
from coordinator.log.batch_builder import encode_batch, reduce_batch, seal
from coordinator.log.codecs import compress
from coordinator.log.log import Log, OffsetOutOfRange
from coordinator.log.record import LogRecord
from coordinator.log.segment import segment_name
from coordinator.log.timestamps import TimestampOffset
from coordinator.world.disk import RealDisk
from coordinator_lab.simulation.disk import SimulatedDisk
from tests.log.log_helpers import (
    FOLDER,
    append,
    at_time,
    content,
    filled,
    latest,
    make_batch,
    offsets,
    open_log,
    reopened,
)


@pytest.fixture
def disk():
    return SimulatedDisk()


def test_an_empty_log_has_no_file_and_answers_at_its_end(disk):
    log = open_log(disk)
    assert (log.start_offset, log.end_offset, log.read(0, 100), content(log)) == (0, 0, b"", [])
    assert disk.list(FOLDER) == []
    assert at_time(log, 0) is None
    assert latest(log) is None
    log.close()


def test_appended_batches_read_back_unchanged(disk):
    log = open_log(disk)
    first, second = make_batch(0, [(b"a", b"1"), (b"b", None)]), make_batch(2, [(None, b"2")])
    assert log.append(first, 2, 1000) == 0
    assert log.append(second, 1, 1000) == 2
    assert log.end_offset == 3
    assert log.read(0, 1000) == first + second
    assert log.read(1, 1000) == first + second, "the complete batch with this offset"
    assert log.read(2, 1000) == second
    assert log.read(3, 1000) == b""
    assert content(log) == [(b"a", b"1"), (b"b", None), (None, b"2")]
    for outside in (-1, 4):
        with pytest.raises(OffsetOutOfRange):
            log.read(outside, 1000)


def test_a_read_is_bounded_by_bytes_and_by_an_offset_but_one_batch_may_pass(disk):
    log = open_log(disk)
    for _ in range(5):
        append(log)
    size = len(log.read(0, 1))
    assert offsets(log.read(0, 1)) == [0]
    assert log.read(0, size - 1, at_least_one=False) == b""
    assert offsets(log.read(0, size, at_least_one=False)) == [0]
    assert offsets(log.read(1, 3 * size)) == [1, 2, 3]
    assert offsets(log.read(1, 3 * size - 1)) == [1, 2]
    assert offsets(log.read(1, 1000, offset_end=3)) == [1, 2]
    assert log.read(3, 1000, offset_end=3) == b""


def test_segments_roll_by_size_and_are_named_by_their_first_offset(disk):
    log = open_log(disk, segment_bytes=300)
    for _ in range(9):
        append(log)
    names = [name for name in disk.list(FOLDER) if name.endswith(".log")]
    assert names == [segment_name(0), segment_name(3), segment_name(6)]
    assert [offset for at in (0, 3, 6) for offset in offsets(log.read(at, 1000))] == list(range(9))
    assert len(content(log)) == 9


def test_segments_roll_by_the_age_of_their_records(disk):
    log = open_log(disk, segment_ms=100)
    for timestamp in (1000, 1100, 1101, 1300):
        append(log, timestamp=timestamp)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 3]


def test_a_restart_changes_nothing(disk):
    log = open_log(disk, segment_bytes=300)
    for _ in range(10):
        append(log)
    before = content(log), log.read(4, 10_000), log.end_offset, log.size_bytes
    log.close()
    log = reopened(disk, segment_bytes=300)
    assert (content(log), log.read(4, 10_000), log.end_offset, log.size_bytes) == before
    assert log.recovery is None
    append(log)
    assert log.end_offset == 11


def test_an_offset_is_found_by_time_even_where_times_run_backwards(disk):
    log = open_log(disk, segment_bytes=300, index_interval_bytes=1)
    times = [10, 30, 20, 20, 50, 40, 60, 5]
    for timestamp in times:
        append(log, timestamp=timestamp)
    for restart in (False, True):
        log_now = reopened(disk, segment_bytes=300) if restart else log
        for wanted in range(62):
            found = at_time(log_now, wanted)
            first = next((i for i, at in enumerate(times) if at >= wanted), None)
            assert (found and (found.offset, found.timestamp)) == (None if first is None else (first, times[first]))
        newest = latest(log_now)
        assert (newest.offset, newest.timestamp) == (6, 60)


def test_the_latest_timestamp_is_that_of_a_remaining_record(disk):
    log = open_log(disk, segment_bytes=300)
    times = [90, 20, 80, 20, 70, 70, 40, 60, 50, 5, 30, 2]
    for first in range(0, len(times), 3):
        records = [LogRecord(first + place, at, b"k", b"v") for place, at in enumerate(times[first : first + 3])]
        log.append(encode_batch(records), 3, max(record.timestamp for record in records))
    assert len(log.segments) > 1
    for start in range(len(times)):
        log.truncate_before(start)
        newest, left = latest(log), times[start:]
        assert (newest.offset, newest.timestamp) == (start + left.index(max(left)), max(left))
    log.truncate_before(len(times))
    assert latest(log) is None


def test_the_latest_timestamp_of_a_log_whose_last_records_were_compacted_away(disk):
    """The start of the log is in the middle of a batch, and compaction has dropped the records behind it."""
    log = open_log(disk)
    batch = encode_batch([LogRecord(offset, 1000 + offset, b"k", b"v") for offset in range(3)])
    header = read_header(batch)
    log.append(reduce_batch(header, decode_records(batch, 0, header)[:1], None), 3, 1002)
    log.truncate_before(1)
    assert latest(log) is None


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_a_timestamp_in_a_compressed_batch_is_found_exactly_if_it_can_be_read(disk, kind):
    log = open_log(disk)
    append(log, timestamp=10)
    records = [LogRecord(offset, 20 + offset, b"k", b"v") for offset in range(1, 4)]
    plain = encode_batch(records)
    body = bytearray(plain[21:61])
    body[1] |= kind
    for sealed in (compress(kind, plain[61:]), b"nonsense"):
        log.append(seal(log.end_offset, 0, bytes(body), [sealed]), 3, 23)
    assert at_time(log, 22) == TimestampOffset(2, 22, 0)
    log.truncate_before(4)
    assert at_time(log, 22) == TimestampOffset(4, 23, 0)


def test_every_offset_is_found_through_a_sparse_index(disk):
    log = open_log(disk, index_interval_bytes=500)
    for count in range(1, 40):
        append(log, *[(b"k", b"v" * count)] * count)
    for restart in (False, True):
        opened = reopened(disk, index_interval_bytes=500) if restart else log
        starts = offsets(opened.read(0, 1 << 20))
        for offset in range(opened.end_offset):
            assert offsets(opened.read(offset, 1)) == [max(s for s in starts if s <= offset)]


def test_what_is_truncated_is_gone_after_a_restart_too(disk):
    log = open_log(disk, segment_bytes=300)
    for _ in range(10):
        append(log)
    log.truncate_before(7)
    assert [segment.base_offset for segment in log.segments] == [6, 9]
    for restart in (False, True):
        opened = reopened(disk, segment_bytes=300) if restart else log
        assert (opened.start_offset, opened.end_offset) == (7, 10)
        assert content(opened) == [(b"key-%d" % i, b"value") for i in (7, 8, 9)]
        with pytest.raises(OffsetOutOfRange):
            opened.read(6, 100)
    with pytest.raises(OffsetOutOfRange):
        opened.truncate_before(11)


def test_truncating_everything_keeps_the_end(disk):
    log = open_log(disk)
    append(log)
    log.truncate_before(1)
    log = reopened(disk)
    assert (log.start_offset, log.end_offset, content(log)) == (1, 1, [])


def test_retention_by_size_deletes_the_oldest_segments_that_are_too_much(disk):
    log = open_log(disk, segment_bytes=300, retention_bytes=500)
    for _ in range(15):
        append(log)
    log.apply_retention(0)
    assert [segment.base_offset for segment in log.segments] == [6, 9, 12], "two would be less than 500 bytes"
    assert log.start_offset == 6
    assert log.apply_retention(0) == 0


def test_retention_to_no_bytes_deletes_even_the_last_segment(disk):
    log = open_log(disk, segment_bytes=300, retention_bytes=0)
    assert log.apply_retention(0) == 0
    for _ in range(4):
        append(log)
    assert log.apply_retention(0) == 2
    assert (log.start_offset, log.end_offset, log.size_bytes) == (4, 4, 0)
    assert log.apply_retention(0) == 0


def test_retention_by_age_deletes_even_the_last_segment_and_keeps_counting(disk):
    log = open_log(disk, segment_bytes=300, retention_ms=100)
    for timestamp in (10, 10, 10, 20, 20, 20, 30):
        append(log, timestamp=timestamp)
    assert log.apply_retention(111) == 1
    assert log.start_offset == 3
    assert log.apply_retention(131) == 2
    assert (log.start_offset, log.end_offset, log.read(7, 100)) == (7, 7, b"")
    assert append(reopened(disk, segment_bytes=300)) == 7


def test_deleting_a_log_leaves_nothing(disk):
    log = open_log(disk, segment_bytes=300)
    for _ in range(5):
        append(log)
    log.delete()
    assert disk.list("/data") == []
    assert disk.files_open == 0


def test_a_full_disk_changes_nothing_and_is_temporary(disk):
    log = open_log(disk)
    append(log)
    before = disk.read(f"{FOLDER}/{segment_name(0)}")
    disk.capacity_bytes = disk.open(f"{FOLDER}/{segment_name(0)}").size() + 50
    with pytest.raises(OSError, match="No space") as caught:
        append(log)
    assert caught.value.errno == errno.ENOSPC
    assert disk.read(f"{FOLDER}/{segment_name(0)}") == before
    assert (log.end_offset, log.failed) == (1, None)
    disk.capacity_bytes = None
    assert append(log) == 1
    assert len(content(reopened(disk))) == 2


def test_a_log_that_was_never_synced_opens_on_a_full_disk_and_is_read(disk):
    append(open_log(disk))
    disk.capacity_bytes = disk.used_bytes()
    log = reopened(disk)
    assert len(content(log)) == 1
    disk.capacity_bytes = None
    assert append(log) == 1
    assert len(content(reopened(disk))) == 2


def test_a_load_sees_one_moment_whatever_is_written_or_deleted_meanwhile(disk):
    log = open_log(disk, segment_bytes=300)
    for _ in range(9):
        append(log)
    load = log.replay_batches()
    seen = next(load)
    log.truncate_before(8)
    append(log)
    for batch in load:
        seen += batch
    assert seen == [(b"key-%d" % i, b"value") for i in range(9)]
    log.close()
    assert disk.files_open == 0


def test_idle_logs_have_no_descriptor_and_busy_ones_two(disk):
    filled_disk = filled(segment_bytes=300)
    log = open_log(filled_disk, segment_bytes=300)
    assert filled_disk.files_open == 0
    content(log)
    log.read(3, 100)
    assert filled_disk.files_open == 0
    append(log)
    log.sync()
    assert filled_disk.files_open <= 2
    log.close()
    assert filled_disk.files_open == 0


def test_a_folder_written_by_kafka_opens_with_its_other_files_beside(disk):
    log = open_log(disk)
    append(log)
    log.close()
    for name in ("00000000000000000000.index", "leader-epoch-checkpoint", "partition.metadata", "x.log.swap"):
        disk.open(f"{FOLDER}/{name}").close()
    disk.remove(f"{FOLDER}/log-checkpoint")
    log = reopened(disk)
    assert (log.start_offset, log.end_offset) == (0, 1)


def test_the_real_disk_keeps_a_log_too(tmp_path):
    from tests.log.log_helpers import settings

    folder = f"{tmp_path}/topic-0"
    log = Log.open(RealDisk(), folder, settings(segment_bytes=300))
    for _ in range(10):
        append(log)
    log.truncate_before(4)
    log.close()
    log = Log.open(RealDisk(), folder, settings(segment_bytes=300))
    assert content(log) == [(b"key-%d" % i, b"value") for i in range(4, 10)]
    log.delete()
    assert list(tmp_path.iterdir()) == []
