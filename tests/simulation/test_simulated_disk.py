"""The simulated disk may lose anything that was not synced, and loses nothing that was."""

import errno
from random import Random

import pytest

from coordinator_lab.simulation.disk import PowerCut, SimulatedDisk


def synced_file(disk, content):
    file = disk.open("/a")
    file.append(content)
    file.sync()
    disk.sync_folder("/")
    return file


def outcomes(prepare, seeds=60):
    found = set()
    for seed in range(seeds):
        disk = SimulatedDisk()
        prepare(disk)
        disk.crash(Random(seed))
        found.add(disk.read("/a") if disk.exists("/a") else None)
    return found


def test_what_was_synced_survives_a_crash():
    assert outcomes(lambda disk: synced_file(disk, b"x" * 3000)) == {b"x" * 3000}


def test_an_unsynced_write_is_kept_lost_or_torn_and_not_in_order():
    def prepare(disk):
        file = synced_file(disk, b"a" * 512)
        file.append(b"b" * 512)
        file.append(b"c" * 512)

    found = outcomes(prepare)
    a, b, c, zeros = b"a" * 512, b"b" * 512, b"c" * 512, bytes(512)
    assert {a, a + b, a + b + c, a + zeros, a + zeros + c} <= found


def test_an_unsynced_name_may_vanish():
    def prepare(disk):
        disk.open("/a").sync()

    assert outcomes(prepare) == {None, b""}


def test_an_unsynced_rename_happens_whole_or_not_at_all():
    def prepare(disk):
        synced_file(disk, b"old")
        file = disk.open("/b")
        file.append(b"new")
        file.sync()
        disk.sync_folder("/")
        disk.rename("/b", "/a")

    assert outcomes(prepare) == {b"old", b"new"}


def test_a_killed_process_loses_nothing_it_had_written():
    disk = SimulatedDisk()
    disk.open("/a").append(b"unsynced")
    disk.kill()
    assert disk.read("/a") == b"unsynced"


def test_a_file_is_unusable_after_its_process_died():
    disk = SimulatedDisk()
    file = disk.open("/a")
    disk.kill()
    with pytest.raises(AssertionError, match="had died"):
        file.append(b"x")


def test_a_failed_sync_loses_the_data_even_if_the_next_one_succeeds():
    disk = SimulatedDisk()
    file = synced_file(disk, b"kept")
    file.append(b"lost")
    disk.sync_errors = [errno.EIO]
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()
    assert disk.read("/a") == b"keptlost", "still readable"
    disk.crash(Random(0))
    assert disk.read("/a") == b"kept"


def test_a_full_disk_takes_what_fits_and_then_refuses():
    disk = SimulatedDisk()
    disk.capacity_bytes = 5
    file = disk.open("/a")
    with pytest.raises(OSError, match="No space"):
        file.append(b"12345678")
    assert disk.read("/a") == b"12345"
    disk.capacity_bytes = 100
    file.append(b"678")
    assert disk.read("/a") == b"12345678"


def test_power_may_go_at_any_operation_and_stays_away_until_the_crash():
    disk = SimulatedDisk()
    file = disk.open("/a")
    disk.cut_after(1)
    file.append(b"x")
    for _ in range(2):
        with pytest.raises(PowerCut):
            file.append(b"y")
    disk.crash(Random(0))
    disk.open("/b")


def test_a_seed_always_gives_the_same_crash():
    def crashed(seed):
        disk = SimulatedDisk()
        file = synced_file(disk, b"a")
        for _ in range(50):
            file.append(b"b" * 300)
        disk.crash(Random(seed))
        return disk.read("/a")

    assert crashed(5) == crashed(5)
    assert len({crashed(seed) for seed in range(10)}) > 5
