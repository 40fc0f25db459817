"""The list of segments: a start notices every file that is missing, cut, doubled or foreign, and takes no crash for one."""

from random import Random

import pytest

from coordinator.log import segment_list
from coordinator.log.catalog import KnownLog
from coordinator.log.compaction import clean
from coordinator.log.log import DamagedLog, Log
from coordinator.log.segment import segment_name
from coordinator.log.segment_list import UNKNOWN, Entry
from coordinator_lab.simulation.disk import PowerCut, SimulatedDisk
from tests.log.log_helpers import FOLDER, append, content, open_log, reopened, settings

SMALL = {"segment_bytes": 300}


def segments(disk):
    return [name for name in disk.list(FOLDER) if name.endswith(".log")]


def listed(disk):
    return segment_list.read(disk, FOLDER).entries


def overwrite(disk, name, data):
    if disk.exists(f"{FOLDER}/{name}"):
        disk.remove(f"{FOLDER}/{name}")
    file = disk.open(f"{FOLDER}/{name}")
    file.append(data) if data else None
    file.sync()
    file.close()
    disk.sync_folder(FOLDER)


def clean_all(log):
    cleaning = clean(log, 0)
    for work in cleaning:
        try:
            if work is not None:
                work()
        except PowerCut as error:
            cleaning.throw(error)


def filled(value=b"value", count=16):
    """A disk with a closed log of several segments, the first two of which compaction has rewritten."""
    disk = SimulatedDisk()
    log = open_log(disk, **SMALL)
    for number in range(count):
        append(log, (b"key-%d" % (number if number % 3 == 0 else 1), value), timestamp=number)
    clean_all(log)
    log.close()
    disk.kill()
    assert len(log.segments) >= 4
    return disk


def refused(disk, known=None):
    """The error with which the log is refused; no file is changed."""
    before = {name: disk.read(f"{FOLDER}/{name}") for name in disk.list(FOLDER)}
    with pytest.raises(DamagedLog) as caught:
        Log.open(disk, FOLDER, settings(**SMALL), known)
    assert {name: disk.read(f"{FOLDER}/{name}") for name in disk.list(FOLDER)} == before
    return caught.value


def test_the_list_has_every_closed_segment_and_the_active_one():
    disk = filled()
    log = open_log(disk, **SMALL)
    entries = listed(disk)
    assert [entry.base_offset for entry in entries] == [segment.base_offset for segment in log.segments]
    assert [entry.size_bytes for entry in entries[:-1]] == [segment.size_bytes for segment in log.segments[:-1]]
    assert entries[-1] == Entry(log.segments[-1].base_offset, UNKNOWN, UNKNOWN)


@pytest.mark.parametrize("which", [0, 1, 2, -1])
def test_a_missing_segment_is_named_even_between_compacted_ones(which):
    disk = filled()
    name = segments(disk)[which]
    disk.remove(f"{FOLDER}/{name}")
    error = refused(disk)
    assert (error.file, error.position) == (f"{FOLDER}/{name}", 0)
    assert "the file is missing" in error.reason


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("change", [-1, -70, 1])
def test_a_closed_segment_of_another_size_is_named(which, change):
    disk = filled()
    name = segments(disk)[which]
    whole = disk.read(f"{FOLDER}/{name}")
    overwrite(disk, name, whole[:change] if change < 0 else whole + b"\0")
    error = refused(disk)
    assert (error.file, error.position) == (f"{FOLDER}/{name}", len(whole) + min(change, 0))
    assert f"instead of {len(whole)}" in error.reason


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_closed_segment_of_another_log_is_named(which):
    disk = filled()
    name = segments(disk)[which]
    overwrite(disk, name, filled(b"other").read(f"{FOLDER}/{name}"))
    error = refused(disk)
    assert (error.file, error.position) == (f"{FOLDER}/{name}", 0)
    assert error.reason == "the file does not begin with the batch that was written there"


@pytest.mark.parametrize("copied", [0, -1])
def test_a_copy_of_a_segment_under_another_name_is_named(copied):
    disk = filled()
    names = segments(disk)
    data = disk.read(f"{FOLDER}/{names[copied]}")
    last = int(names[-1][:20])
    for base_offset in (1, last - 1, last + 1, last + 1_000):
        name = segment_name(base_offset)
        overwrite(disk, name, data)
        error = refused(disk)
        assert (error.file, error.position) == (f"{FOLDER}/{name}", 0)
        disk.remove(f"{FOLDER}/{name}")
    reopened(disk, **SMALL)


@pytest.mark.parametrize("position", [0, 5, 30, -2])
def test_a_damaged_list_is_named(position):
    disk = filled()
    data = bytearray(disk.read(f"{FOLDER}/{segment_list.NAME}"))
    data[position] ^= 1
    for damaged in (bytes(data), bytes(data[:20]), b""):
        overwrite(disk, segment_list.NAME, damaged)
        assert refused(disk).file == f"{FOLDER}/{segment_list.NAME}"


def test_the_list_of_another_log_is_named():
    disk = filled()
    data = segment_list.encode(segment_list.SegmentList("topic-1", listed(disk)))
    overwrite(disk, segment_list.NAME, data)
    error = refused(disk)
    assert (error.file, error.reason) == (f"{FOLDER}/{segment_list.NAME}", "the list belongs to topic-1")


def test_a_log_without_a_list_gets_one():
    """A folder of an earlier version, or of Kafka, starts as before."""
    disk = filled()
    before = disk.read(f"{FOLDER}/{segment_list.NAME}")
    disk.remove(f"{FOLDER}/{segment_list.NAME}")
    reopened(disk, **SMALL)
    assert disk.read(f"{FOLDER}/{segment_list.NAME}") == before


def test_segments_that_were_deleted_are_not_missed_and_leave_the_list():
    disk = filled()
    log = open_log(disk, **SMALL)
    log.truncate_before(log.segments[2].base_offset)
    kept = [segment.base_offset for segment in log.segments]
    log.close()
    for _ in range(2):
        log = reopened(disk, **SMALL)
        assert [segment.base_offset for segment in log.segments] == kept
    log.begin_segment()
    kept.append(log.end_offset)
    assert [entry.base_offset for entry in listed(disk)] == kept


def test_the_list_goes_if_there_is_no_space_for_a_new_one():
    disk = filled()
    segment_list.replace(disk, FOLDER, (0, 1), Entry(0, 1, 1))
    assert listed(disk)[0] == Entry(0, 1, 1)
    disk.capacity_bytes = 0
    segment_list.replace(disk, FOLDER, (0, 1), Entry(0, 2, 2))
    assert listed(disk) == []


def known(log, **changes):
    last = log.segments[-1]
    fields = {"start_offset": -1, "end_offset": log.synced_offset, "base_offset": last.base_offset}
    return KnownLog(**{"folder": "topic-0", "topic_id": "-", "checksum": last.first_checksum(), **fields, **changes})


def test_a_log_that_is_not_as_the_catalog_says_is_refused():
    disk = filled()
    log = open_log(disk, **SMALL)
    expected = known(log)
    Log.open(disk, FOLDER, settings(**SMALL), expected).close()
    assert refused(disk, known(log, end_offset=17)).last_good_offset == 15
    assert refused(disk, known(log, checksum=1)).file == log.segments[-1].path
    assert refused(disk, known(log, start_offset=3)).file == f"{FOLDER}/log-checkpoint"
    for name in disk.list(FOLDER):
        disk.remove(f"{FOLDER}/{name}")
    assert refused(disk, expected).file == FOLDER
    disk.remove_folder(FOLDER)
    with pytest.raises(DamagedLog, match=r"the folder is missing; it had records up to offset 15"):
        Log.open(disk, FOLDER, settings(), expected)
    assert not disk.exists(FOLDER), "a start that is refused makes nothing"


class History:
    """Appends, rolls, cleanings, deletions and full disks in the order of a seed, on a disk that may lose its power."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.disk = SimulatedDisk()
        self.log = open_log(self.disk, **SMALL)
        self.written, self.synced, self.start = {}, 0, 0

    def step(self):
        log, random = self.log, self.random
        for _ in range(random.randrange(6)):
            pair = (b"key-%d" % random.randrange(4), b"%d" % log.end_offset)
            self.written[log.end_offset] = pair
            append(log, pair)
        if random.random() < 0.7:
            log.sync()
            self.synced = log.end_offset
        if random.random() < 0.3:
            clean_all(log)
        if random.random() < 0.2 and log.synced_offset > log.start_offset:
            start = random.randrange(log.start_offset, log.synced_offset)
            self.start = start
            log.truncate_before(start)
        if random.random() < 0.1:
            log.begin_segment()

    def run(self, operations):
        """Until the power goes after this many operations; returns whether it went."""
        self.disk.cut_after(operations)
        try:
            for _ in range(8):
                self.step()
        except PowerCut:
            return True
        finally:
            self.disk.cut_never()
        return False

    def last_values(self, end_offset):
        return {key: value for offset, (key, value) in self.written.items() if offset < end_offset}


@pytest.mark.parametrize("seed", range(6))
def test_a_power_cut_at_any_operation_is_never_taken_for_damage(seed):
    operations, was_cut = 0, True
    while was_cut:
        history = History(seed)
        was_cut = history.run(operations)
        disk = history.disk
        disk.crash(Random(operations))
        log = None
        while log is None:
            disk.cut_after(history.random.choice([2, 5, 1000]))
            try:
                log = open_log(disk, **SMALL)
            except PowerCut:
                disk.crash(history.random)
        disk.cut_never()
        assert log.end_offset >= history.synced
        live = [pair for offset, pair in history.written.items() if history.start <= offset < log.end_offset]
        found = dict(content(log))
        assert {key: found.get(key) for key, _ in live} == dict(live)
        log.close()
        reopened(disk, **SMALL)
        operations += 1
    assert operations > 50


@pytest.mark.parametrize("seed", range(12))
def test_a_log_whose_deleted_records_were_not_durable_continues_at_its_start(seed):
    """With durability "write", DeleteRecords may be durable and the records before it lost."""
    disk = SimulatedDisk()
    log = open_log(disk, **SMALL)
    append(log)
    log.sync()
    for _ in range(2):
        append(log)
    log.truncate_before(3)
    disk.crash(Random(seed))
    for offset in (3, 4):
        log = reopened(disk, **SMALL)
        assert (log.start_offset, log.end_offset) == (3, offset)
        assert content(log) == [(b"key-%d" % each, b"value") for each in range(3, offset)]
        append(log)
        log.close()
