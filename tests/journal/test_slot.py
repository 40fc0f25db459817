"""A slot of the journal: durable before it is used, and recognized with everything that its header says."""

import errno

import pytest
from google_crc32c import value as crc32c

from coordinator.journal.entry import encode, part_prefix
from coordinator.journal.set_aside import set_aside, write_aside
from coordinator.journal.slot import (
    ENTRIES_AT,
    PREFIX,
    SET_ASIDE,
    Slot,
    SlotHeader,
    decode_header,
    next_slot,
    slot_name,
    slot_numbers,
)
from coordinator.log.recovery import DamagedLog
from coordinator_lab.simulation.disk import SimulatedDisk
from tests.journal.journal_world import FOLDER
from tests.support.journal import Oldest

PATH = f"{FOLDER}/{PREFIX}1"
HEADER = SlotHeader(b"saltsalt", 8, 5)


@pytest.fixture
def disk():
    disk = SimulatedDisk()
    disk.make_folder(FOLDER)
    disk.sync_folder(".")
    return disk


def test_the_header_is_read_as_it_was_written():
    assert decode_header(HEADER.encode(), PATH) == HEADER


def test_the_header_lies_within_one_sector():
    assert len(HEADER.encode()) <= ENTRIES_AT == 512


def test_every_flipped_bit_and_every_truncation_of_a_header_is_noticed():
    encoded = HEADER.encode()
    for size in range(len(encoded)):
        assert decode_header(encoded[:size], PATH) is None
        for bit in range(8):
            flipped = bytearray(encoded)
            flipped[size] ^= 1 << bit
            assert decode_header(bytes(flipped), PATH) is None


def test_a_slot_of_zeros_was_never_begun():
    assert decode_header(bytes(ENTRIES_AT), PATH) is None


def test_a_header_of_another_version_is_refused_with_the_file_and_the_version():
    body = bytearray(HEADER.encode()[:-4])
    body[8] = SET_ASIDE + 1
    with pytest.raises(DamagedLog, match=f"version {SET_ASIDE + 1}") as refused:
        decode_header(bytes(body) + crc32c(bytes(body)).to_bytes(4), PATH)
    assert (refused.value.file, refused.value.position, refused.value.last_good_offset) == (PATH, 0, -1)


@pytest.mark.parametrize("first", [b"A", b"Z"])
def test_a_valid_header_of_another_file_is_refused(first):
    body = first + HEADER.encode()[1:-4]
    with pytest.raises(DamagedLog):
        decode_header(body + crc32c(body).to_bytes(4), PATH)


def test_a_slot_that_was_made_survives_a_power_cut_with_its_full_size(disk):
    Slot.create(disk, PATH, 300_000)
    disk.crash(Oldest())
    assert disk.read(PATH) == bytes(300_000)


def test_a_new_slot_has_nothing_of_an_earlier_file_of_its_name(disk):
    earlier = disk.open(PATH)
    earlier.append(b"\xff" * 10_000)
    earlier.close()
    Slot.create(disk, PATH, 8_192)
    assert disk.read(PATH) == bytes(8_192)


def test_a_slot_for_which_there_is_no_space_leaves_no_file(disk):
    disk.capacity_bytes = 100_000
    with pytest.raises(OSError, match="No space left"):
        Slot.create(disk, PATH, 300_000)
    assert disk.list(FOLDER) == []
    assert disk.files_open == 0


def test_a_slot_that_cannot_be_synced_leaves_no_file(disk):
    disk.sync_errors.append(errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        Slot.create(disk, PATH, 8_192)
    assert disk.list(FOLDER) == []
    assert disk.files_open == 0


def test_batches_that_cannot_be_set_aside_durably_leave_no_file(disk, monkeypatch):
    create = Slot.create

    def create_on_a_failing_disk(*given):
        slot = create(*given)
        disk.sync_errors.append(errno.EIO)
        return slot

    monkeypatch.setattr(Slot, "create", create_on_a_failing_disk)
    with pytest.raises(OSError, match="Input/output error"):
        write_aside(disk, PATH, HEADER.salt, 8, [("groups-0", b"batches")])
    assert disk.list(FOLDER) == []
    assert disk.files_open == 0


def test_a_slot_takes_what_fits_behind_its_last_entry_to_the_byte(disk):
    slot = Slot.create(disk, PATH, 1_000)
    assert slot.takes(1_000 - ENTRIES_AT)
    assert slot.takes(1)
    assert not slot.takes(1_001 - ENTRIES_AT)
    slot.position = 1_000
    assert not slot.takes(1)


def test_only_files_with_a_number_are_slots(disk):
    for name in (slot_name(12), slot_name(3), f"{PREFIX}old", f"{PREFIX}", "x.journal.1", "groups-1"):
        disk.open(f"{FOLDER}/{name}").close()
    assert slot_numbers(disk, FOLDER) == [3, 12]


def test_a_slot_notes_where_the_journal_continues_until_its_next_use(disk):
    slot, other = Slot.create(disk, PATH, 1_000), Slot.create(disk, f"{FOLDER}/{PREFIX}12", 1_000)
    slot.begin(HEADER)
    assert next_slot(disk.read(PATH), HEADER.salt) is None
    slot.continue_in(other)
    assert next_slot(disk.read(PATH), HEADER.salt) == 12
    assert decode_header(disk.read(PATH), PATH) == HEADER
    assert next_slot(disk.read(PATH), b"next use") is None
    assert next_slot(b"", HEADER.salt) is None


def test_every_flipped_bit_and_every_truncation_of_where_the_journal_continues_is_noticed(disk):
    slot, other = Slot.create(disk, PATH, 1_000), Slot.create(disk, f"{FOLDER}/{PREFIX}12", 1_000)
    slot.begin(HEADER)
    slot.continue_in(other)
    noted = disk.read(PATH)
    for position in range(64, 64 + 8 + 4):
        assert next_slot(noted[:position], HEADER.salt) is None
        for bit in range(8):
            flipped = bytearray(noted)
            flipped[position] ^= 1 << bit
            assert next_slot(bytes(flipped), HEADER.salt) is None


def test_a_slot_that_cannot_be_read_to_its_end_is_not_set_aside(disk):
    slot = Slot.create(disk, PATH, 2_048)
    slot.begin(HEADER)
    for sequence in (8, 9):
        entry = encode(HEADER.salt, sequence, 0, [part_prefix("groups-0", b"batch"), b"batch"])
        slot.write(entry)
        slot.position += len(entry)
    slot.file.write_at(slot.position - 1, b"?")
    with pytest.raises(OSError, match="cannot be read") as refused:
        set_aside(disk, slot, {"groups-0"}, f"{FOLDER}/{slot_name(2)}", b"saltsalt")
    assert (refused.value.errno, disk.list(FOLDER)) == (errno.EIO, [slot_name(1)])
