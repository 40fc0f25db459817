"""After a failed sync, reads return bytes that the disk does not have; the next process must not rely on them."""

import errno
from random import Random

import pytest

from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.log import Log, LogSettings
from coordinator_lab.simulation.disk import SimulatedDisk


def append(log: Log, value: bytes) -> None:
    builder = BatchBuilder()
    builder.add(None, value)
    log.append(builder.build(log.end_offset, 1_000), 1, 1_000)


@pytest.mark.parametrize("synced_before", [0, 3])
@pytest.mark.parametrize("seed", range(5))
def test_what_a_new_process_serves_after_a_failed_sync_survives_a_power_cut(synced_before: int, seed: int):
    """The kernel considers the bytes of a failed sync clean, so they must be written again before another sync."""
    disk = SimulatedDisk()
    disk.make_folder("t-0")
    disk.sync_folder("")
    log = Log.open(disk, "t-0", LogSettings())
    for _ in range(synced_before):
        append(log, b"synced")
    log.sync()
    append(log, b"not synced")
    disk.sync_errors.append(errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        log.sync()
    disk.kill()
    served = Log.open(disk, "t-0", LogSettings()).end_offset
    disk.crash(Random(seed))
    assert Log.open(disk, "t-0", LogSettings()).end_offset == served


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_segment_is_not_begun_behind_one_whose_sync_failed_in_another_thread(number: int):
    """The kernel reports the failure once, to the other thread; the sync of the roll would succeed over a hole."""
    disk = SimulatedDisk()
    disk.make_folder("t-0")
    disk.sync_folder("")
    log = Log.open(disk, "t-0", LogSettings())
    append(log, b"synced")
    log.sync()
    append(log, b"lost")
    job = log.sync_job()
    disk.sync_errors.append(number)
    with pytest.raises(OSError, match=r"Input/output|space"):
        job.run()  # in a thread that has not reported its outcome yet
    with pytest.raises(OSError, match=r"Input/output|space"):
        log.begin_segment()
    assert len(log.segments) == 1
    assert log.failed is not None
    disk.crash(Random(1))
    assert Log.open(disk, "t-0", LogSettings()).end_offset in {1, 2}


def test_a_full_disk_reported_by_a_worker_is_over_once_its_bytes_are_cut_off():
    disk = SimulatedDisk()
    disk.make_folder("t-0")
    disk.sync_folder("")
    log = Log.open(disk, "t-0", LogSettings())
    append(log, b"kept")
    log.sync()
    append(log, b"dropped")
    job = log.sync_job()
    disk.sync_errors.append(errno.ENOSPC)
    with pytest.raises(OSError, match="space"):
        job.run()
    log.drop_unsynced(job)
    append(log, b"next")
    log.sync()
    assert (log.end_offset, log.synced_offset, log.failed) == (2, 2, None)
