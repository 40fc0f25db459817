"""A journaled log: reads see what is in memory, files get only what is durable, and a start appends what the files lack."""

import errno

import pytest

from coordinator.log.batch import key_values
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.compaction import clean
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import DamagedLog, LogSettings
from coordinator_lab.simulation.disk import SimulatedDisk
from tests.log.log_helpers import at_time, latest
from tests.support.journal import Oldest

FOLDER = "data/groups-0"
SETTINGS = LogSettings(segment_bytes=500, segment_ms=None, retention_ms=None)


def batch(offset, *values, timestamp=1_000):
    builder = BatchBuilder()
    for value in values or (b"value",):
        builder.add(b"%d" % offset, value)
    return builder.build(offset, timestamp)


def opened(disk, batches=(), **options):
    """The log of a new process; `batches`: in the journal."""
    log = JournaledLog(disk, FOLDER, SETTINGS)
    log.load_journaled(batches, **options)
    return log


def append(log, *values, timestamp=1_000):
    """Appends a batch as the journal's writer does; its offset."""
    values = values or (b"value",)
    return log.append(batch(log.end_offset, *values, timestamp=timestamp), len(values), timestamp)


def journaled(log):
    """The journal has everything that was appended."""
    log.durable_offset = log.end_offset


def keys(log):
    return [int(key) for buffer, at, header in log.batches() for _, key, _ in key_values(buffer, at, header)]


def file_bytes(log):
    """What is in the files of the segments."""
    return b"".join(log.disk.read(segment.path) for segment in log.segments)


def files(log):
    return [name for name in log.disk.list(log.folder) if name.endswith(".log")]


@pytest.fixture
def disk():
    disk = SimulatedDisk()
    disk.make_folder("data")
    disk.sync_folder(".")
    return disk


@pytest.fixture
def log(disk):
    return opened(disk)


# --- memory and file --------------------------------------------------------------------------------------------------


def test_reads_see_what_is_only_in_memory(log):
    for _ in range(3):
        append(log)
    assert file_bytes(log) == b""
    assert keys(log) == [0, 1, 2]
    assert log.read(1, 1) == batch(1)
    assert log.read(0, 1 << 20) == batch(0) + batch(1) + batch(2)
    assert log.read(3, 1) == b""


def test_reads_see_what_is_partly_in_the_file(log):
    for _ in range(2):
        append(log)
    journaled(log)
    log.flush()
    append(log)
    assert file_bytes(log) == batch(0) + batch(1)
    assert log.read(0, 1 << 20) == batch(0) + batch(1) + batch(2)
    assert [log.read(offset, 1) for offset in range(3)] == [batch(0), batch(1), batch(2)]


def test_the_file_gets_nothing_before_the_journal_has_it(log):
    append(log)
    journaled(log)
    append(log)
    log.flush()
    assert file_bytes(log) == batch(0)
    assert log.is_behind is False
    journaled(log)
    assert log.is_behind
    log.flush()
    assert file_bytes(log) == batch(0) + batch(1)


def test_a_flush_that_finds_no_space_leaves_the_file_as_it_was_and_may_be_repeated(log, disk):
    append(log)
    journaled(log)
    log.flush()
    append(log)
    append(log)
    journaled(log)
    for space in range(len(batch(1) + batch(2))):
        disk.capacity_bytes = disk.used_bytes() + space
        with pytest.raises(OSError, match="No space left"):
            log.flush()
        assert file_bytes(log) == batch(0)
        assert keys(log) == [0, 1, 2]
    disk.capacity_bytes = None
    log.flush()
    assert file_bytes(log) == batch(0) + batch(1) + batch(2)


def test_batches_that_the_journal_could_not_take_are_dropped_without_a_file_operation(log, disk):
    append(log, b"kept")
    journaled(log)
    append(log, b"lost", b"lost")
    append(log, b"lost")
    before = disk.operations
    log.drop_unjournaled()
    assert disk.operations == before
    assert log.end_offset == 1
    assert keys(log) == [0]
    append(log, b"next")
    journaled(log)
    log.sync()
    assert file_bytes(log) == batch(0, b"kept") + batch(1, b"next")


def test_the_first_batch_may_be_dropped(log):
    append(log)
    log.drop_unjournaled()
    assert (log.end_offset, keys(log)) == (0, [])
    append(log)
    assert keys(log) == [0]


def test_a_sync_makes_everything_durable_without_the_journal(log, disk):
    append(log)
    log.sync()
    assert (log.durable_offset, log.synced_offset) == (1, 1)
    disk.kill()
    assert keys(opened(disk)) == [0]


def test_a_sync_that_fails_leaves_what_the_journal_does_not_have_undurable(log, disk):
    append(log)
    disk.sync_errors = [errno.EIO]
    with pytest.raises(OSError, match="Input/output error"):
        log.sync()
    assert log.durable_offset == 0
    assert log.failed


def test_files_are_closed_although_something_is_only_in_memory(log, disk):
    append(log)
    log.close_files()
    assert disk.files_open == 0


# --- segments ---------------------------------------------------------------------------------------------------------


def test_a_log_begins_no_segment_by_itself(log):
    for _ in range(20):
        append(log)
    journaled(log)
    assert len(files(log)) == 1
    assert log.wants_segment


def test_a_new_segment_gets_what_is_not_durable_yet(log):
    for _ in range(3):
        append(log)
    journaled(log)
    for _ in range(2):
        append(log)
    log.begin_segment()
    assert [segment.base_offset for segment in log.segments] == [0, 3]
    assert log.synced_offset == 3
    assert log.disk.read(log.segments[0].path) == batch(0) + batch(1) + batch(2)
    assert log.disk.read(log.segments[1].path) == b""
    assert keys(log) == [0, 1, 2, 3, 4]
    assert [log.read(offset, 1) for offset in (2, 3, 4)] == [batch(2), batch(3), batch(4)]
    log.drop_unjournaled()
    assert (log.end_offset, keys(log)) == (3, [0, 1, 2])


def test_a_segment_of_which_nothing_is_durable_is_not_closed(log):
    append(log)
    log.begin_segment()
    journaled(log)
    log.begin_segment()
    append(log)
    log.begin_segment()
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert keys(log) == [0, 1]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_segment_that_cannot_begin_loses_nothing_from_memory(log, disk, error):
    append(log)
    journaled(log)
    append(log)
    if error == errno.EIO:
        disk.sync_errors = [error]
    else:
        disk.capacity_bytes = disk.used_bytes()
    with pytest.raises(OSError, match=r"No space left|Input/output error") as failed:
        log.begin_segment()
    assert failed.value.errno == error
    assert (log.end_offset, log.durable_offset, keys(log)) == (2, 1, [0, 1])
    assert bool(log.failed) == (error == errno.EIO)
    if error == errno.ENOSPC:
        disk.capacity_bytes = None
        log.begin_segment()
        assert [segment.base_offset for segment in log.segments] == [0, 1]
        assert keys(log) == [0, 1]


def test_a_time_is_found_in_what_moved_to_a_new_segment(log):
    """The closed segment's index has forgotten it."""
    append(log, timestamp=1_000)
    journaled(log)
    append(log, timestamp=5_000)
    log.begin_segment()
    assert at_time(log, 2_000).offset == 1
    assert at_time(log, 1_000).offset == 0
    assert latest(log).offset == 1


# --- the start --------------------------------------------------------------------------------------------------------


def test_what_the_files_lack_is_appended_by_the_first_sync_and_not_by_the_opening(log, disk):
    append(log)
    append(log)
    journaled(log)
    log.flush()
    disk.kill()
    before = disk.read(log.segments[0].path)
    log = opened(disk, [batch(0), batch(1) + batch(2), batch(3)])
    assert keys(log) == [0, 1, 2, 3]
    assert (log.durable_offset, log.synced_offset, log.end_offset) == (4, 0, 4)
    assert disk.read(log.segments[0].path) == before
    log.sync()
    assert (log.durable_offset, log.synced_offset, log.end_offset) == (4, 4, 4)
    disk.kill()
    assert keys(opened(disk)) == [0, 1, 2, 3]


def test_a_start_without_files_gets_everything_from_the_journal(disk):
    assert keys(opened(disk, [batch(0), batch(1)])) == [0, 1]


def test_a_start_on_a_full_disk_has_the_batches_in_memory_and_the_journal_is_still_needed(disk):
    disk.capacity_bytes = 0
    log = opened(disk, [batch(0), batch(1)])
    assert keys(log) == [0, 1]
    assert log.durable_offset == 2
    assert log.synced_offset < 2
    assert log.is_behind
    disk.capacity_bytes = None
    log.sync()
    disk.kill()
    assert keys(opened(disk)) == [0, 1]


def test_a_gap_between_the_files_and_the_journal_is_refused(log, disk):
    """A piece of the log is missing: the file was replaced by an older one, or the journal is not from here."""
    append(log)
    log.sync()
    disk.kill()
    with pytest.raises(DamagedLog, match="the journal continues at offset 2, the log ends at 1"):
        opened(disk, [batch(2)])


def test_a_segment_that_another_server_has_written_to_is_refused(log, disk):
    """A version without a journal was started on the folder after a crash: it does not see the journal."""
    append(log)
    journaled(log)
    log.flush()
    append(log, b"of another server")
    log.sync()
    disk.kill()
    before = disk.read(log.segments[-1].path)
    with pytest.raises(DamagedLog, match="another server has written here") as refused:
        opened(disk, [batch(0), batch(1, b"of the journal")])
    assert (refused.value.last_good_offset, refused.value.position) == (0, len(batch(0)))
    assert disk.read(log.segments[-1].path) == before


def test_a_batch_that_another_server_has_written_is_found_when_the_journal_goes_on_behind_it(log, disk):
    """The journal has another batch at offset 1, and more."""
    append(log)
    append(log, b"of another server")
    log.sync()
    disk.kill()
    with pytest.raises(DamagedLog, match="another server has written here"):
        opened(disk, [batch(0), batch(1, b"of the journal"), batch(2)])


def test_another_server_that_began_a_segment_is_found_in_the_closed_one(log, disk):
    """The batches of the journal would be dropped silently, because the log ends behind them."""
    append(log)
    append(log, b"of another server")
    log.sync()
    journaled(log)
    log.begin_segment()
    append(log)
    log.sync()
    disk.kill()
    with pytest.raises(DamagedLog, match="another batch at offset 1: another server has written here") as refused:
        opened(disk, [batch(0), batch(1, b"of the journal")])
    assert (refused.value.last_good_offset, refused.value.position) == (0, len(batch(0)))
    assert refused.value.file.endswith("00000000000000000000.log")


def test_another_server_whose_segment_ends_inside_a_batch_of_the_journal_is_found(log, disk):
    """It began a segment, and the journal's last batch would continue behind it."""
    append(log)
    append(log, b"of another server")
    log.sync()
    journaled(log)
    log.begin_segment()
    log.sync()
    disk.kill()
    with pytest.raises(DamagedLog, match="another server has written here"):
        opened(disk, [batch(0), batch(1, b"of the journal"), batch(2)])


def record_batch(offset, *records):
    builder = BatchBuilder()
    for key, value in records:
        builder.add(key, value)
    return builder.build(offset, 1_000)


@pytest.mark.parametrize(
    "records",
    [
        ((b"a", b"1"), (b"b", b"2")),  # stays
        ((b"a", b"1"), (b"x", b"2")),  # loses a record
        ((b"a", None), (b"b", b"2")),  # gets a delete horizon
        ((b"x", b"1"), (b"x", b"2")),  # is dropped, so that the batch before it decides
    ],
)
def test_a_closed_segment_that_was_compacted_since_agrees_with_the_journal(log, disk, records):
    """The slot with the batches is still in use, because other logs in it are not synced yet."""
    pieces = [record_batch(0, (b"c", b"1"), (b"c", b"2")), record_batch(2, *records)]
    last = record_batch(4, (b"x", b"3"), (b"y", b"4"))
    for piece in (*pieces, last):
        log.append(piece, 2, 1_000)
    log.sync()
    journaled(log)
    log.begin_segment()
    append(log)
    log.sync()
    for work in clean(log, 2_000):
        if work is not None:
            work()
    disk.kill()
    assert opened(disk, pieces).end_offset == 7


def test_what_another_server_appended_behind_the_journal_is_kept(log, disk):
    """It began where the journal ends, so that nothing contradicts it."""
    for _ in range(3):
        append(log)
    log.sync()
    disk.kill()
    assert keys(opened(disk, [batch(0), batch(1)])) == [0, 1, 2]


def test_a_log_that_may_lose_its_end_takes_what_it_can_from_the_journal(log, disk):
    """The log of events reports its gaps, and is not refused for them."""
    append(log)
    log.sync()
    disk.kill()
    log = opened(disk, [batch(1), batch(3)], is_best_effort=True)
    assert keys(log) == [0, 1]
    log.sync()
    disk.kill()
    assert keys(opened(disk, is_best_effort=True)) == [0, 1]


def test_a_log_that_may_lose_its_end_is_synced_when_the_journal_has_something_of_it(log, disk):
    """A killed process had flushed it and not synced it. When the start ends, the journal is removed."""
    append(log)
    journaled(log)
    log.flush()
    disk.kill()
    log = opened(disk, [batch(0)], is_best_effort=True)
    assert log.is_unsettled
    log.sync()
    disk.crash(Oldest())
    assert keys(opened(disk, is_best_effort=True)) == [0]
