"""The contract of `world.disk.Disk`, checked on the real disk and on its simulated twin."""

from random import Random

import pytest

from coordinator.world.disk import RealDisk
from coordinator_lab.simulation.disk import SimulatedDisk


@pytest.fixture(params=["real", "simulated", "simulated, short writes"])
def disk_and_folder(request, tmp_path):
    if request.param == "real":
        return RealDisk(), str(tmp_path)
    disk = SimulatedDisk(short_writes=Random(1) if "short" in request.param else None)
    disk.make_folder("/data")
    return disk, "/data"


def test_appended_bytes_are_read_back_at_their_position(disk_and_folder):
    disk, folder = disk_and_folder
    file = disk.open(f"{folder}/a")
    file.append(b"one")
    file.append(b"two" * 1000)
    assert file.size() == 3003
    assert file.pread(2, 3) == b"etw"
    assert file.pread(3000, 100) == b"two", "fewer bytes only at the end of the file"
    assert file.pread(5000, 1) == b""
    assert disk.read(f"{folder}/a") == b"one" + b"two" * 1000
    file.close()


def test_a_reopened_file_continues_at_its_end(disk_and_folder):
    disk, folder = disk_and_folder
    for content in (b"a", b"b"):
        file = disk.open(f"{folder}/a")
        file.append(content)
        file.sync()
        file.close()
    assert disk.read(f"{folder}/a") == b"ab"


def test_after_a_cut_appends_follow_the_new_end(disk_and_folder):
    disk, folder = disk_and_folder
    file = disk.open(f"{folder}/a")
    file.append(b"x" * 2000)
    file.truncate(3)
    file.append(b"y")
    assert disk.read(f"{folder}/a") == b"xxxy"
    assert file.size() == 4
    file.close()


def test_overwriting_changes_only_its_bytes_and_appends_still_go_to_the_end(disk_and_folder):
    disk, folder = disk_and_folder
    file = disk.open(f"{folder}/a")
    file.write_at(0, b"abcdef")
    file.write_at(1, b"X")
    file.append(b"g")
    assert disk.read(f"{folder}/a") == b"aXcdefg"
    file.close()


def test_names_are_listed_in_order_and_renames_replace(disk_and_folder):
    disk, folder = disk_and_folder
    for name in ("b", "a"):
        file = disk.open(f"{folder}/{name}")
        file.append(name.encode())
        file.close()
    assert disk.list(folder) == ["a", "b"]
    disk.rename(f"{folder}/a", f"{folder}/b")
    assert disk.list(folder) == ["b"]
    assert disk.read(f"{folder}/b") == b"a"
    disk.sync_folder(folder)
    assert disk.exists(f"{folder}/b")
    assert not disk.exists(f"{folder}/a")


def test_folders_are_made_with_their_parents_and_removed_when_empty(disk_and_folder):
    disk, folder = disk_and_folder
    disk.make_folder(f"{folder}/x/y")
    disk.make_folder(f"{folder}/x/y")
    assert disk.list(f"{folder}/x") == ["y"]
    with pytest.raises(OSError, match="not empty"):
        disk.remove_folder(f"{folder}/x")
    disk.remove_folder(f"{folder}/x/y")
    disk.remove_folder(f"{folder}/x")
    assert disk.list(folder) == []


def test_missing_files_and_folders_raise_file_not_found(disk_and_folder):
    disk, folder = disk_and_folder
    for ask in (disk.read, disk.remove, disk.list):
        with pytest.raises(FileNotFoundError):
            ask(f"{folder}/none")
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{folder}/none", f"{folder}/other")
    with pytest.raises(FileNotFoundError):
        disk.open(f"{folder}/none/a")


def test_an_open_file_outlives_its_name(disk_and_folder):
    disk, folder = disk_and_folder
    file = disk.open(f"{folder}/a")
    file.append(b"kept")
    disk.remove(f"{folder}/a")
    assert file.pread(0, 4) == b"kept"
    file.close()


def test_the_space_of_a_file_system_is_known_from_any_folder_in_it(disk_and_folder):
    disk, folder = disk_and_folder
    total_bytes, usable_bytes = disk.space(folder)
    assert 0 < usable_bytes <= total_bytes
    with pytest.raises(FileNotFoundError):
        disk.space(f"{folder}/none")
