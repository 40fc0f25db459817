"""Recovery after a crash: a torn tail is cut and reported; damage is refused, and the file is left as it was."""

from random import Random

import pytest

from coordinator.log import recovery
from coordinator.log.batch import HEADER_BYTES
from coordinator.log.log import DamagedLog, Log
from coordinator.log.recovery import Fault, examine, find_batch, reads_as_unwritten
from coordinator.log.segment import segment_name
from coordinator_lab.simulation.disk import PowerCut, SimulatedDisk
from tests.log.log_helpers import FOLDER, append, content, filled, make_batch, open_log, reopened, settings

FIRST = f"{FOLDER}/{segment_name(0)}"
RECORDS = [(b"key-%d" % i, b"value") for i in range(20)]


def overwrite(disk, path, content):
    disk.remove(path)
    file = disk.open(path)
    if content:
        file.append(content)
    file.sync()
    file.close()
    disk.sync_folder(FOLDER)


def positions(disk):
    """The position of each batch of the filled log, and the end of the last one."""
    log = open_log(disk)
    found = [at for at, _ in log.segments[0].walk(0)]
    log.close()
    return [*found, log.size_bytes]


POSITIONS = positions(filled())
LAST_BATCH = range(POSITIONS[-2], POSITIONS[-1])
OFFSET, LEADER_EPOCH = range(8), range(12, 16)
"""The fields that the checksum leaves out. A gap in the offsets is a fault in a log that is ours from its beginning."""


def with_unsynced_batch():
    """The disk of `filled`, but the last batch was written without being synced."""
    disk = SimulatedDisk()
    log = open_log(disk)
    for _ in range(19):
        append(log)
    log.sync()
    append(log)
    disk.kill()
    return disk


def refused(disk, **changes):
    """The error with which the log is refused; no segment file is changed."""
    names = [name for name in disk.list(FOLDER) if name.endswith(".log")]
    before = [disk.read(f"{FOLDER}/{name}") for name in names]
    with pytest.raises(DamagedLog) as caught:
        content(reopened(disk, **changes))
    assert [disk.read(f"{FOLDER}/{name}") for name in names] == before
    return caught.value


@pytest.mark.parametrize("cut_at", LAST_BATCH)
def test_a_tail_torn_at_any_byte_is_cut_and_reported(cut_at):
    disk = with_unsynced_batch()
    whole = disk.read(FIRST)
    overwrite(disk, FIRST, whole[:cut_at])
    log = reopened(disk)
    assert content(log) == RECORDS[:19]
    assert disk.read(FIRST) == whole[: LAST_BATCH.start]
    assert log.end_offset == 19
    report = log.recovery
    if cut_at == LAST_BATCH.start:
        assert report is None
    else:
        assert (report.file, report.position, report.next_offset) == (FIRST, LAST_BATCH.start, 19)
        assert (report.bytes_cut, report.synced_offsets_lost) == (cut_at - LAST_BATCH.start, 0)
        if report.bytes_cut >= HEADER_BYTES:
            assert report.reason == f"only {report.bytes_cut} bytes of a batch of {len(LAST_BATCH)} bytes"
    append(log)
    log.close()
    log = reopened(disk)
    assert content(log) == [*RECORDS[:19], (b"key-19", b"value")]
    assert log.recovery is None, "recovery is reported once"


@pytest.mark.parametrize("cut_at", [0, 1, *LAST_BATCH])
def test_a_synced_tail_cut_at_any_byte_is_refused(cut_at):
    disk = filled()
    overwrite(disk, FIRST, disk.read(FIRST)[:cut_at])
    error = refused(disk)
    assert error.file == FIRST
    kept = 19 if cut_at >= LAST_BATCH.start else 0
    assert (error.position, error.last_good_offset) == (POSITIONS[kept], kept - 1)


@pytest.mark.parametrize("tail", [bytes(10), bytes(5000), b"\xff" * 300, b"\x02" * 3000, bytes(range(256)) * 4])
def test_anything_that_is_no_batch_behind_the_last_one_is_cut(tail):
    disk = filled()
    whole = disk.read(FIRST)
    overwrite(disk, FIRST, whole + tail)
    log = reopened(disk)
    assert content(log) == RECORDS
    assert (log.recovery.bytes_cut, log.recovery.synced_offsets_lost) == (len(tail), 0)
    assert disk.read(FIRST) == whole


@pytest.mark.parametrize("position", [at for at in LAST_BATCH if at - LAST_BATCH.start not in LEADER_EPOCH])
def test_a_bit_flipped_in_the_last_batch_is_a_torn_tail_unless_the_batch_was_synced(position):
    disk = filled()
    disk.flip(FIRST, position)
    error = refused(disk)
    assert (error.file, error.position, error.last_good_offset) == (FIRST, LAST_BATCH.start, 18)
    disk = with_unsynced_batch()
    whole = bytearray(disk.read(FIRST))
    whole[position] ^= 1
    overwrite(disk, FIRST, bytes(whole))
    if position - LAST_BATCH.start in OFFSET:
        assert refused(disk).position == LAST_BATCH.start, "no crash leaves an intact batch with another offset"
        return
    log = reopened(disk)
    assert content(log) == RECORDS[:19]
    assert log.recovery.synced_offsets_lost == 0


@pytest.mark.parametrize("count", range(1, 8))
def test_a_batch_whose_offset_was_lost_with_a_sector_is_a_torn_tail(count):
    """The batch begins in the last bytes of a sector that was not written, and its checksum does not cover them."""
    disk = SimulatedDisk()
    log = open_log(disk)
    log.append(make_batch(0, [(b"", b"")] * 300), 300, 1000)
    log.append(make_batch(300, [(b"", bytes(512 - (log.size_bytes + 70 + count) % 512))]), 1, 1000)
    assert log.size_bytes % 512 == 512 - count
    log.sync()
    end_offset, at = log.end_offset, log.size_bytes
    append(log)
    disk.kill()
    whole = bytearray(disk.read(FIRST))
    lost = whole[at : at + count]
    whole[at : at + count] = bytes(count)
    overwrite(disk, FIRST, bytes(whole))
    log = reopened(disk)
    assert log.end_offset == end_offset + (not any(lost))


class Content:
    """A file that is open for reading."""

    def __init__(self, content):
        self._content = content

    def pread(self, position, count):
        return self._content[position : position + count]


def examined(content, verify_from):
    """What an examination returns and visits, and the next batch from some positions on."""
    visited = []
    found = examine(
        Content(content), len(content), 0, verify_from, 0, lambda header, at: visited.append((header.base_offset, at))
    )
    return found, visited, [find_batch(Content(content), at, len(content), 0) for at in range(0, len(content), 10)]


@pytest.mark.parametrize("chunk_bytes", [HEADER_BYTES, HEADER_BYTES + 1, 150, 400])
def test_a_segment_is_examined_alike_in_whatever_pieces_it_is_read(monkeypatch, chunk_bytes):
    whole = filled().read(FIRST)
    flipped = bytearray(whole)
    flipped[POSITIONS[10] + HEADER_BYTES + 3] ^= 1
    cases = [(content, after) for content in (whole, whole[:-1], bytes(flipped)) for after in (0, 15, 20)]
    expected = [examined(*case) for case in cases]
    monkeypatch.setattr(recovery, "_CHUNK_BYTES", chunk_bytes)
    assert [examined(*case) for case in cases] == expected
    found, visited, following = expected[0]
    assert (found, visited) == ((20, None), list(enumerate(POSITIONS[:-1])))
    assert following == [next((each for each in POSITIONS[:-1] if each >= at), None) for at in range(0, len(whole), 10)]


def test_an_intact_batch_is_looked_for_within_two_billion_offsets():
    """Its checksum does not cover the offset, so another offset is no batch of this log."""
    farthest = 300 + (1 << 31) - 1
    for offset, found in ((299, None), (300, 3), (farthest, 3), (farthest + 1, None)):
        content = b"???" + make_batch(offset, [(b"key", b"value")])
        assert find_batch(Content(content), 0, len(content), 300) == found


@pytest.mark.parametrize(("zeros", "is_unwritten"), [(0, False), (63, False), (64, True)])
def test_a_sector_that_ends_in_64_zeros_was_not_written(zeros, is_unwritten):
    content = bytes(zeros).rjust(512, b"?") + b"?" * 100
    assert reads_as_unwritten(Content(content), Fault(0, 1, "why"), len(content)) == is_unwritten


def test_damage_is_reported_with_file_position_and_last_good_offset():
    assert str(DamagedLog("a.log", 7, 3, "why")) == "a.log is damaged at position 7 (why); last good offset 3"


@pytest.mark.parametrize("batch", range(3))
@pytest.mark.parametrize("keep_checkpoint", [True, False])
@pytest.mark.parametrize("field", [at for at in range(POSITIONS[1]) if at not in LEADER_EPOCH])
def test_a_bit_flipped_in_the_middle_is_refused_and_the_file_left_alone(batch, keep_checkpoint, field):
    if field in OFFSET and not keep_checkpoint:
        return
    disk = filled()
    disk.flip(FIRST, POSITIONS[batch] + field)
    if not keep_checkpoint:
        disk.remove(f"{FOLDER}/log-checkpoint")
    before = disk.read(FIRST)
    with pytest.raises(DamagedLog) as caught:
        content(reopened(disk))
    assert caught.value.file == FIRST
    assert caught.value.position == POSITIONS[batch]
    assert caught.value.last_good_offset == batch - 1
    assert FIRST in str(caught.value)
    assert disk.read(FIRST) == before


def test_a_zeroed_sector_in_the_middle_is_refused_if_it_was_synced():
    disk = filled()
    whole = disk.read(FIRST)
    overwrite(disk, FIRST, whole[:512] + bytes(512) + whole[1024:])
    before = disk.read(FIRST)
    with pytest.raises(DamagedLog):
        content(reopened(disk))
    assert disk.read(FIRST) == before


def test_damage_in_a_closed_segment_is_refused():
    disk = filled(segment_bytes=600)
    before = disk.read(FIRST)
    disk.flip(FIRST, len(before) - 1)
    log = reopened(disk, segment_bytes=600)
    with pytest.raises(DamagedLog) as caught:
        content(log)
    assert caught.value.file == FIRST
    overwrite(disk, FIRST, before[:-1])
    error = refused(disk, segment_bytes=600)
    assert (error.file, error.position) == (FIRST, len(before) - 1)
    disk.remove(f"{FOLDER}/segment-list")
    error = refused(disk, segment_bytes=600)
    assert error.file == FIRST


@pytest.mark.parametrize("which", [0, 1, -1, slice(None)])
def test_a_missing_segment_is_refused_and_named(which):
    disk = filled(segment_bytes=600)
    names = [name for name in disk.list(FOLDER) if name.endswith(".log")]
    assert len(names) > 2
    missing = names if isinstance(which, slice) else [names[which]]
    for name in missing:
        disk.remove(f"{FOLDER}/{name}")
    error = refused(disk, segment_bytes=600)
    assert (error.file, error.position) == (f"{FOLDER}/{missing[0]}", 0)
    assert "the file is missing" in error.reason


@pytest.mark.parametrize("which", [0, 1, -1, slice(None)])
def test_a_missing_segment_is_noticed_without_a_list_too(which):
    """In a folder of an earlier version there is none; the file that was found instead is named."""
    disk = filled(segment_bytes=600)
    names = [name for name in disk.list(FOLDER) if name.endswith(".log")]
    for name in ["segment-list", *(names if isinstance(which, slice) else [names[which]])]:
        disk.remove(f"{FOLDER}/{name}")
    error = refused(disk, segment_bytes=600)
    neighbour = {0: names[1], 1: names[2], -1: names[-2]}
    assert error.file == (FOLDER if isinstance(which, slice) else f"{FOLDER}/{neighbour[which]}")


def test_segments_that_deletion_has_not_reached_yet_are_not_missed():
    disk = filled(segment_bytes=600)
    log = open_log(disk, segment_bytes=600)
    log.truncate_before(log.segments[2].base_offset + 1)
    kept = content(log)
    log.close()
    assert content(reopened(disk, segment_bytes=600)) == kept


def test_a_log_that_is_opened_as_well_as_possible_reports_its_lost_end():
    disk = filled()
    overwrite(disk, FIRST, disk.read(FIRST)[: LAST_BATCH.start])
    disk.kill()
    log = Log.open(disk, FOLDER, settings(), is_best_effort=True)
    assert (log.end_offset, log.recovery.synced_offsets_lost) == (19, 1)


def prefix_of(found, written):
    return found == written[: len(found)]


@pytest.mark.parametrize("seed", range(150))
def test_after_any_crash_the_log_is_a_written_prefix_with_every_synced_record(seed):
    """I3 and I4: acknowledged records are durable and nothing else appears, over several crashes, also during recovery."""
    random = Random(seed)
    disk = SimulatedDisk(short_writes=Random(seed) if seed % 3 == 0 else None)
    options = {"segment_bytes": random.choice([400, 2000, 1 << 20])}
    log = open_log(disk, **options)
    written, synced = [], 0
    for _ in range(random.randrange(1, 5)):
        disk.cut_after(random.randrange(120))
        try:
            for _ in range(random.randrange(40)):
                count = random.choice([1, 1, 1, 2, 30])
                pairs = [
                    (b"%d" % (len(written) + i), random.randbytes(random.choice([0, 5, 700]))) for i in range(count)
                ]
                written += pairs
                append(log, *pairs)
                if random.random() < 0.3:
                    log.sync()
                    synced = len(written)
        except PowerCut:
            pass
        log = None
        while log is None:
            if random.random() < 0.2:
                disk.kill()
            else:
                disk.crash(random)
            disk.cut_after(random.choice([2, 1000]))
            try:
                log = open_log(disk, **options)
            except PowerCut:
                continue
        found = content(log)
        assert prefix_of(found, written)
        assert len(found) >= synced
        assert log.end_offset == len(found)
        if log.recovery is not None:
            assert log.recovery.synced_offsets_lost == 0
        del written[len(found) :]
        synced = min(synced, len(written))


def test_a_killed_process_loses_nothing_it_had_written():
    disk = SimulatedDisk()
    log = open_log(disk, segment_bytes=600)
    for _ in range(20):
        append(log)
    log = reopened(disk, segment_bytes=600)
    assert content(log) == RECORDS
    assert log.recovery is None
