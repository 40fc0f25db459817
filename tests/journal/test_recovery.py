"""What a dead server left in its journal: a torn end is the end, and anything that was durable and is missing is damage.

The slots are written here byte by byte.
"""

import errno
from contextlib import suppress
from itertools import product
from random import Random

import pytest
from google_crc32c import value as crc32c
from hypothesis import given
from hypothesis import strategies as st

from coordinator.journal.entry import ALL_BEFORE_DURABLE, encode, part_prefix
from coordinator.journal.recovery import make_durable, read_journal, remove_settled
from coordinator.journal.slot import ENTRIES_AT, SET_ASIDE, Slot, SlotHeader, slot_name
from coordinator.log.recovery import DamagedLog
from coordinator_lab.simulation.disk import PowerCut, SimulatedDisk
from tests.journal.journal_world import FOLDER
from tests.support.journal import Oldest

LOG = "groups-0"
SLOT_BYTES = 2_048


def salt_of(number):
    return b"slot %3d" % number


def entry(sequence, salt, *, batches=None, flags=ALL_BEFORE_DURABLE, log=LOG):
    batches = batches or b"batch %d" % sequence
    return encode(salt, sequence, flags, [part_prefix(log, batches), batches])


class Slots:
    """A folder with slots."""

    def __init__(self):
        self.disk = SimulatedDisk()
        self.disk.make_folder(FOLDER)

    def add(self, number, sequences, *, needed_from=None, is_synced=True, rest=b"", **options):
        """A slot with the entries of these sequences, and behind them what an earlier use left."""
        content = b"".join(entry(sequence, salt_of(number), **options) for sequence in sequences)
        needed_from = sequences.start if needed_from is None else needed_from
        header = SlotHeader(salt_of(number), sequences.start, needed_from, is_synced)
        self.put(number, header.encode().ljust(ENTRIES_AT, b"\0") + content + rest)
        return self

    def put(self, number, content):
        file = self.disk.open(self.path(number))
        file.append(content.ljust(SLOT_BYTES, b"\0"))
        file.sync()
        file.close()

    def set_aside(self, number, sequence):
        """A slot with what was set aside of the slot that began with this sequence."""
        header = SlotHeader(salt_of(number), sequence, sequence, version=SET_ASIDE)
        self.put(number, header.encode().ljust(ENTRIES_AT, b"\0") + entry(sequence, salt_of(number), flags=0))
        return self

    def continue_in(self, number, following):
        """The slot notes that the journal continues in another."""
        first, other = (
            Slot(self.path(each), self.disk.open(self.path(each)), SLOT_BYTES) for each in (number, following)
        )
        first.header = SlotHeader(salt_of(number), 0, 0)
        first.continue_in(other)
        first.file.sync()
        return self

    def make_names_durable(self):
        self.disk.sync_folder(".")
        self.disk.sync_folder(FOLDER)

    def path(self, number):
        return f"{FOLDER}/{slot_name(number)}"

    def lose(self, number):
        self.disk.remove(self.path(number))

    def overwrite(self, number, position, content):
        file = self.disk.open(self.path(number))
        file.write_at(position, content)
        file.sync()
        file.close()

    def position_of(self, number, sequence):
        return self.disk.read(self.path(number)).index(entry(sequence, salt_of(number)))

    def found(self):
        """The sequences of the entries that a start gets."""
        return [int(batch.removeprefix(b"batch ")) for batch in read_journal(self.disk, FOLDER).batches.get(LOG, ())]

    def refused(self, reason):
        """The file and the position of the damage for which a start is refused."""
        with pytest.raises(DamagedLog, match=reason) as refused:
            read_journal(self.disk, FOLDER)
        assert refused.value.last_good_offset == -1, "the journal has no offsets"
        return refused.value.file, refused.value.position

    def is_refused(self, sequence):
        return self.refused(f"entry {sequence} of the journal is missing or damaged")


def test_a_folder_without_a_journal_has_none():
    recovered = read_journal(Slots().disk, FOLDER)
    assert (recovered.batches, recovered.paths, recovered.is_begun, recovered.next_sequence) == ({}, [], False, 1)


def test_a_slot_that_was_made_and_never_begun_has_nothing():
    slots = Slots()
    slots.put(4, b"")
    recovered = read_journal(slots.disk, FOLDER)
    assert (recovered.batches, recovered.paths, recovered.is_begun) == ({}, [slots.path(4)], False)


def test_the_batches_of_a_log_come_in_the_order_of_their_entries():
    slots = Slots().add(1, range(1, 6))
    assert slots.found() == [1, 2, 3, 4, 5]
    recovered = read_journal(slots.disk, FOLDER)
    assert (recovered.next_sequence, recovered.is_begun) == (6, True)


def test_sequences_continue_from_slot_to_slot_however_large_they_are():
    slots = Slots().add(1, range(1_000, 1_003)).add(2, range(1_003, 1_005), needed_from=1_000)
    assert slots.found() == [1_000, 1_001, 1_002, 1_003, 1_004]


def test_the_batches_of_several_logs_in_an_entry_go_to_their_logs():
    slots = Slots()
    body = [part_prefix("a-0", b"1"), b"1", part_prefix("b-0", b"2"), b"2", part_prefix("a-0", b"3"), b"3"]
    content = SlotHeader(salt_of(1), 1, 1).encode().ljust(ENTRIES_AT, b"\0") + encode(salt_of(1), 1, 1, body)
    slots.put(1, content)
    assert read_journal(slots.disk, FOLDER).batches == {"a-0": [b"1", b"3"], "b-0": [b"2"]}


def test_slots_are_read_in_the_order_of_their_sequences_not_of_their_numbers():
    slots = (
        Slots().add(3, range(1, 4), needed_from=1).add(1, range(4, 7), needed_from=1).add(2, range(7, 9), needed_from=1)
    )
    assert slots.found() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_entries_before_the_needed_ones_are_left_out():
    slots = Slots().add(1, range(1, 4)).add(2, range(4, 7), needed_from=4)
    assert slots.found() == [4, 5, 6]


def test_a_settled_journal_has_nothing_and_its_sequences_are_not_used_again():
    slots = Slots().add(1, range(1, 4)).add(2, range(4, 7), needed_from=7)
    assert slots.found() == []
    assert read_journal(slots.disk, FOLDER).next_sequence > 4


def test_a_slot_that_was_begun_and_has_no_entry_yet_continues_the_one_before_it():
    slots = Slots().add(1, range(1, 4)).add(2, range(4, 4), needed_from=1)
    assert slots.found() == [1, 2, 3]
    assert read_journal(slots.disk, FOLDER).next_sequence > 4


def test_entries_of_an_earlier_use_of_a_slot_are_never_taken():
    """Not even if their sequence is the next one."""
    earlier = entry(3, b"earlier.")
    slots = Slots().add(1, range(1, 3), rest=earlier)
    assert slots.found() == [1, 2]


def test_an_entry_that_repeats_a_sequence_is_never_taken():
    slots = Slots().add(1, range(1, 3), rest=entry(2, salt_of(1), batches=b"batch 99"))
    assert slots.found() == [1, 2]


def test_an_entry_that_skips_a_sequence_is_damage():
    slots = Slots().add(1, range(1, 3), rest=entry(4, salt_of(1)))
    assert slots.is_refused(3) == (slots.path(1), slots.position_of(1, 4))


def test_an_entry_behind_a_gap_is_never_taken():
    slots = Slots().add(1, range(1, 3), rest=b"gap" + entry(3, salt_of(1)))
    assert slots.found() == [1, 2]


@given(st.integers(1, 200), st.data())
def test_a_torn_last_entry_is_the_end(missing, data):
    """A crash keeps any bytes of the write that was under way, and the owners were not notified of it."""
    slots = Slots().add(1, range(1, 5))
    last = entry(4, salt_of(1))
    at = slots.position_of(1, 4)
    first = data.draw(st.integers(0, len(last) - 1))
    slots.overwrite(1, at + first, bytes(min(missing, len(last) - first)))
    assert slots.found() in ([1, 2, 3], [1, 2, 3, 4])
    slots.overwrite(1, at + len(last) - 1, b"\xff")
    assert slots.found() == [1, 2, 3]


def test_every_flipped_bit_before_the_last_entry_is_damage():
    """The last entry was written when the others were durable, so that no crash can have changed them."""
    slots = Slots().add(1, range(10, 13))
    for sequence in (10, 11):
        at = slots.position_of(1, sequence)
        for position in range(at, at + len(entry(sequence, salt_of(1)))):
            slots.disk.flip(slots.path(1), position, position % 8)
            assert slots.is_refused(sequence) == (slots.path(1), at)
            slots.disk.flip(slots.path(1), position, position % 8)
    assert slots.found() == [10, 11, 12]


def test_a_damaged_last_entry_of_a_full_slot_is_damage_because_the_next_slot_was_begun():
    slots = Slots().add(1, range(1, 4)).add(2, range(4, 6), needed_from=1)
    at = slots.position_of(1, 3)
    slots.disk.flip(slots.path(1), at + 30)
    assert slots.is_refused(3) == (slots.path(1), at)


def test_any_later_entry_that_survived_says_that_a_missing_one_was_durable():
    slots = Slots().add(1, range(1, 4)).add(2, range(4, 7), needed_from=1)
    at = slots.position_of(1, 3)
    slots.disk.flip(slots.path(1), at + 30)
    for sequence in (4, 5):
        slots.disk.flip(slots.path(2), slots.position_of(2, sequence) + 30)
        assert slots.is_refused(3) == (slots.path(1), at)
    slots.disk.flip(slots.path(2), slots.position_of(2, 6) + 30)
    assert slots.found() == [1, 2]


@pytest.mark.parametrize("flags", [0, ALL_BEFORE_DURABLE << 1], ids=["none", "another one"])
@pytest.mark.parametrize(("number", "sequence"), [(2, 5), (2, 4), (1, 3), (1, 2), (1, 1)])
def test_entries_that_were_not_synced_one_by_one_end_at_the_first_that_is_missing(number, sequence, flags):
    """With durability "write" the kernel writes in any order, and a power cut may lose one entry and keep the next."""
    slots = Slots().add(1, range(1, 4), flags=flags).add(2, range(4, 6), needed_from=1, flags=flags)
    position = slots.disk.read(slots.path(number)).index(entry(sequence, salt_of(number), flags=flags))
    slots.disk.flip(slots.path(number), position + 30)
    assert slots.found() == list(range(1, sequence))


def test_a_missing_slot_that_is_needed_is_damage():
    slots = Slots().add(1, range(1, 4)).add(2, range(4, 7), needed_from=1).add(3, range(7, 9), needed_from=1)
    slots.lose(1)
    assert slots.is_refused(1) == (slots.path(2), 0)


def test_without_syncs_a_power_cut_may_lose_a_slot_and_what_follows_it_is_not_taken():
    slots = Slots().add(1, range(1, 4)).add(2, range(4, 7), needed_from=1).add(3, range(7, 9), needed_from=1)
    slots.add(4, range(9, 10), needed_from=1, is_synced=False).lose(1)
    assert slots.found() == []


def test_a_missing_slot_between_two_that_are_needed_is_damage():
    slots = Slots().add(1, range(1, 4)).add(2, range(4, 7), needed_from=1).add(3, range(7, 9), needed_from=1)
    end = slots.position_of(1, 3) + len(entry(3, salt_of(1)))
    slots.lose(2)
    assert slots.is_refused(4) == (slots.path(1), end)


def test_a_missing_newest_slot_is_damage_although_older_ones_are_there():
    """Their entries are a chain without a fault: without the note, what the newest had would be lost silently."""
    slots = Slots().add(1, range(1, 4)).add(2, range(4, 7), needed_from=4).continue_in(1, 2)
    assert slots.found() == [4, 5, 6]
    slots.lose(2)
    assert slots.refused("the newest file of the journal is missing") == (slots.path(2), 0)


def test_the_last_slot_that_is_there_says_whether_another_one_was_begun():
    slots = Slots().add(1, range(1, 4)).add(2, range(4, 7), needed_from=1).add(3, range(7, 9), needed_from=1)
    slots.continue_in(1, 2).continue_in(2, 3).lose(3)
    assert slots.refused("the newest file of the journal is missing") == (slots.path(3), 0)


def test_a_next_slot_that_a_crash_left_without_its_header_has_nothing_yet():
    """The note may reach the disk before the header: then no entry of the next slot was acknowledged."""
    slots = Slots().add(1, range(1, 4))
    slots.put(2, b"")
    assert slots.continue_in(1, 2).found() == [1, 2, 3]


def test_a_settled_journal_may_be_removed_file_by_file():
    slots = Slots().add(1, range(1, 4), needed_from=(1 << 64) - 1)
    slots.put(2, b"")
    slots.continue_in(1, 2).lose(2)
    assert slots.found() == []


def test_what_was_set_aside_comes_before_the_chain():
    slots = Slots().add(7, range(7, 9)).set_aside(8, 4).set_aside(9, 1)
    assert slots.found() == [1, 4, 7, 8]
    assert read_journal(slots.disk, FOLDER).next_sequence == 9


def test_a_damaged_entry_that_was_set_aside_is_damage():
    """It was durable before its header was written."""
    slots = Slots().add(7, range(7, 9)).set_aside(8, 4)
    slots.disk.flip(slots.path(8), ENTRIES_AT + 30)
    assert slots.is_refused(4) == (slots.path(8), ENTRIES_AT)


def test_what_was_set_aside_without_the_journal_is_refused():
    slots = Slots().set_aside(8, 4)
    assert slots.refused("the journal is missing, except for what was set aside") == (slots.path(1), 0)


def test_nothing_that_was_set_aside_is_needed_when_the_newest_slot_needs_nothing():
    slots = Slots().add(7, range(7, 9)).add(8, range(9, 10), needed_from=(1 << 64) - 1).set_aside(9, 1)
    assert slots.found() == []


def test_an_entry_whose_parts_make_no_sense_is_damage_although_its_checksum_is_right():
    slots = Slots()
    header = SlotHeader(salt_of(1), 1, 1).encode().ljust(ENTRIES_AT, b"\0")
    slots.put(1, header + encode(salt_of(1), 1, ALL_BEFORE_DURABLE, [b"no part"]))
    assert slots.is_refused(1) == (slots.path(1), ENTRIES_AT)


def test_a_missing_slot_that_is_not_needed_does_not_matter():
    slots = Slots().add(1, range(1, 4)).add(2, range(4, 7), needed_from=4)
    slots.lose(1)
    assert slots.found() == [4, 5, 6]


def test_a_slot_of_another_version_is_refused():
    slots = Slots().add(1, range(1, 4))
    content = bytearray(slots.disk.read(slots.path(1))[: len(SlotHeader(salt_of(1), 1, 1).encode())])
    content[8] = SET_ASIDE + 1
    content[-4:] = crc32c(bytes(content[:-4])).to_bytes(4)
    slots.overwrite(1, 0, bytes(content))
    assert slots.refused("which this version cannot read") == (slots.path(1), 0)


def test_a_damaged_header_of_a_slot_with_durable_entries_is_not_taken_for_a_slot_that_was_never_begun():
    """The header lies in one sector: a crash leaves zeros, the old header or the new one, and nothing else."""
    slots = Slots().add(1, range(1, 4)).add(2, range(4, 7), needed_from=1)
    slots.disk.flip(slots.path(2), 20)
    assert slots.refused("the header of the journal is damaged") == (slots.path(2), 0)


# --- what a start does with it ----------------------------------------------------------------------------------------


def unsynced():
    """A journal whose second slot the dead server had begun and not yet synced."""
    slots = Slots().add(1, range(1, 3))
    slots.put(2, b"")
    slots.make_names_durable()
    header = SlotHeader(salt_of(2), 3, 1).encode()
    file = slots.disk.open(slots.path(2))
    file.write_at(0, header)
    file.write_at(ENTRIES_AT, entry(3, salt_of(2)))
    slots.disk.kill()
    return slots


def test_a_start_writes_again_what_a_failed_sync_has_left_in_memory():
    slots = unsynced()
    slots.disk.sync_errors = [errno.EIO]
    file = slots.disk.open(slots.path(2))
    with pytest.raises(OSError, match="output"):
        file.sync()
    file.close()
    make_durable(slots.disk, read_journal(slots.disk, FOLDER))
    slots.disk.crash(Oldest())
    assert slots.found() == [1, 2, 3]


def test_the_headers_and_the_last_entry_may_not_be_durable_yet():
    slots = unsynced()
    headers = [(slots.path(each), 0, slots.disk.read(slots.path(each))[:ENTRIES_AT]) for each in (1, 2)]
    last = (slots.path(2), ENTRIES_AT, entry(3, salt_of(2)))
    assert read_journal(slots.disk, FOLDER).unsynced == (*headers, last)
    several = Slots().add(1, range(1, 3))
    last = (several.path(1), several.position_of(1, 2), entry(2, salt_of(1)))
    assert read_journal(several.disk, FOLDER).unsynced[1:] == (last,)
    slots.disk.crash(Oldest())
    assert slots.found() == [1, 2]


def test_a_start_makes_durable_what_it_found_wherever_the_power_goes():
    slots = unsynced()
    make_durable(slots.disk, read_journal(slots.disk, FOLDER))
    assert slots.disk.files_open == 0
    slots.disk.crash(Oldest())
    assert slots.found() == [1, 2, 3]
    for cut in range(6):
        slots = unsynced()
        recovered = read_journal(slots.disk, FOLDER)
        slots.disk.cut_after(cut)
        with suppress(PowerCut):
            make_durable(slots.disk, recovered)
        slots.disk.crash(Random(cut))
        assert slots.found() in ([1, 2], [1, 2, 3])


def test_a_journal_is_removed_so_that_nothing_of_it_is_needed_wherever_the_power_goes():
    for cut, seed in product(range(20), range(8)):
        slots = Slots().add(1, range(1, 3)).add(2, range(3, 5), needed_from=1).set_aside(3, 1)
        slots.continue_in(1, 2).make_names_durable()
        everything, files_open = slots.found(), slots.disk.files_open
        slots.disk.cut_after(cut)
        try:
            remove_settled(slots.disk, read_journal(slots.disk, FOLDER).paths)
        except PowerCut:
            slots.disk.crash(Random(seed))
            assert slots.found() in ([], everything)
        else:
            assert slots.disk.files_open == files_open
            slots.disk.cut_never()
            slots.disk.crash(Oldest())
            assert slots.disk.list(FOLDER) == []
            return
    pytest.fail("it was not removed")


def test_slots_that_were_never_begun_are_removed():
    slots = Slots()
    slots.put(4, b"")
    remove_settled(slots.disk, [slots.path(4)])
    assert slots.disk.list(FOLDER) == []
