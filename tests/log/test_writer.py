"""Group commit: reported batches are on the disk, one sync serves all waiting batches, and errors are reported."""

import errno
from random import Random

import pytest

from coordinator.log.writer import Writer
from coordinator_lab.simulation.disk import SimulatedDisk
from tests.log.log_helpers import LateWorker, content, make_batch, open_log, reopened


class Shard:
    """Writes batches of one record and records the callbacks."""

    def __init__(self, disk, durability="fsync", **options):
        self.disk = disk
        self.worker = LateWorker()
        self.log = open_log(disk, **options)
        self.durable, self.failures = [], []
        self.writer = Writer(self.log, durability, self.worker.submit, self.durable.append, self.failures.append)

    def write(self, count=1):
        pairs = [(b"key-%d" % (self.log.end_offset + i), b"value") for i in range(count)]
        self.writer.write(make_batch(self.log.end_offset, pairs), count)


@pytest.fixture
def disk():
    return SimulatedDisk()


def test_nothing_is_reported_before_its_sync_has_ended(disk):
    shard = Shard(disk)
    shard.write()
    assert shard.durable == []
    shard.worker.finish()
    assert shard.durable == [1]
    assert shard.writer.idle


def test_one_sync_covers_all_batches_written_during_the_last_one(disk):
    shard = Shard(disk)
    for _ in range(5):
        shard.write()
    assert len(shard.worker.under_way) == 1
    shard.worker.finish()
    assert shard.durable == [1], "a sync does not cover later writes"
    assert len(shard.worker.under_way) == 1
    shard.worker.finish()
    assert shard.durable == [1, 5]
    assert shard.writer.idle


def test_with_durability_write_a_batch_counts_at_once(disk):
    shard = Shard(disk, "write")
    shard.write(3)
    assert shard.durable == [3]
    assert not shard.worker.under_way


def test_a_reported_batch_survives_a_power_cut_even_in_a_new_segment():
    for seed in range(40):
        disk = SimulatedDisk()
        shard = Shard(disk, segment_bytes=300)
        for step in range(10):
            shard.write()
            if step % 3 == 2:
                shard.worker.finish()
        disk.crash(Random(seed))
        log = open_log(disk, segment_bytes=300)
        assert log.end_offset >= shard.durable[-1]
        assert content(log) == [(b"key-%d" % i, b"value") for i in range(log.end_offset)]


def test_a_full_disk_is_reported_and_the_next_write_may_succeed(disk):
    shard = Shard(disk)
    shard.write()
    shard.worker.finish()
    disk.capacity_bytes = 150
    shard.write()
    assert [error.errno for error in shard.failures] == [errno.ENOSPC]
    assert (shard.log.failed, shard.log.end_offset, shard.writer.idle) == (None, 1, True)
    disk.capacity_bytes = None
    shard.write()
    shard.worker.finish()
    assert shard.durable == [1, 2]
    assert len(content(reopened(disk))) == 2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_at_the_sync_undoes_unreported_batches(disk, number):
    shard = Shard(disk)
    shard.write()
    shard.worker.finish()
    shard.write()
    shard.worker.finish()
    disk.sync_errors = [number]
    shard.write()
    shard.write()
    shard.worker.finish()
    assert [error.errno for error in shard.failures] == [number]
    assert (shard.log.failed, shard.log.end_offset) == (None, 2)
    shard.write(2)
    shard.worker.finish()
    assert shard.durable == [1, 2, 4]
    disk.crash(Random(0))
    assert [key for key, _ in content(open_log(disk))] == [b"key-0", b"key-1", b"key-2", b"key-3"]


def test_a_failed_sync_is_final_and_never_retried(disk):
    shard = Shard(disk)
    shard.write()
    shard.worker.finish()
    disk.sync_errors = [errno.EIO]
    shard.write()
    shard.write()
    shard.worker.finish()
    assert [error.errno for error in shard.failures] == [errno.EIO]
    assert shard.log.failed is not None
    assert not shard.worker.under_way
    shard.write()
    assert len(shard.failures) == 2
    assert not shard.worker.under_way
    assert shard.durable == [1]
    disk.crash(Random(0))
    assert content(open_log(disk))[0] == (b"key-0", b"value")


def test_a_failed_background_sync_of_durability_write_is_final_too(disk, monkeypatch):
    monkeypatch.setattr("coordinator.log.writer.FLUSH_BYTES", 200)
    shard = Shard(disk, "write")
    disk.sync_errors = [errno.ENOSPC]
    for _ in range(3):
        shard.write()
    shard.worker.finish()
    assert len(shard.failures) == 1
    assert shard.log.failed is not None


def test_a_failed_sync_while_rolling_is_reported_like_any_other(disk):
    shard = Shard(disk, segment_bytes=100)
    shard.write()
    disk.sync_errors = [errno.EIO]
    shard.write()
    assert [error.errno for error in shard.failures] == [errno.EIO]
    assert shard.log.failed is not None
