"""The list of aborted transactions beside a segment: its format is Kafka's, and it survives crashes."""

from errno import ENOSPC
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.log.aborted import Aborted, AbortedList, decode, encode, overlapping
from coordinator_lab.simulation.disk import SimulatedDisk

PATH = "/data/t-0/00000000000000000000.txnindex"
ENTRIES = [Aborted(7, 0, 5, 6), Aborted(8, 3, 9, 10), Aborted(7, 12, 15, 11)]


@pytest.fixture
def disk():
    disk = SimulatedDisk()
    disk.make_folder("/data/t-0")
    disk.sync_folder("/data")
    disk.sync_folder("/")
    return disk


def test_an_entry_is_34_bytes_as_kafka_writes_it():
    assert encode(ENTRIES[:1]).hex() == "0000" + "".join(f"{number:016x}" for number in (7, 0, 5, 6))
    assert decode(encode(ENTRIES)) == ENTRIES


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 34, b"\xff" * 34, encode([Aborted(1, 2, 4, 5)])])
def test_an_invalid_entry_ends_the_list(tail):
    assert decode(encode(ENTRIES[:2]) + tail) == ENTRIES[:2]


def test_entries_are_in_the_file_at_once_and_durable_after_a_sync(disk):
    one = AbortedList(disk, PATH)
    assert (one.entries, one.is_stored) == ([], False)
    one.add(ENTRIES[0])
    one.add(ENTRIES[1])
    one.add(ENTRIES[1])
    assert AbortedList(disk, PATH).entries == ENTRIES[:2]
    one.sync()
    one.add(ENTRIES[2])
    disk.crash(Random(1))
    assert AbortedList(disk, PATH).entries[:2] == ENTRIES[:2]


def test_entries_that_could_not_be_written_are_written_by_the_sync(disk):
    one = AbortedList(disk, PATH)
    one.add(ENTRIES[0])
    disk.capacity_bytes = disk.used_bytes() + 3
    one.add(ENTRIES[1])
    with pytest.raises(OSError, match=str(ENOSPC)):
        one.sync()
    disk.capacity_bytes = None
    one.add(ENTRIES[2])
    assert one.entries == ENTRIES
    one.sync()
    assert AbortedList(disk, PATH).entries == ENTRIES


def test_a_cut_is_stored_by_the_next_sync_and_not_before(disk):
    one = AbortedList(disk, PATH)
    for entry in ENTRIES:
        one.add(entry)
    one.sync()
    one.cut(9)
    assert one.entries == ENTRIES[:1]
    assert AbortedList(disk, PATH).entries == ENTRIES
    one.add(Aborted(9, 9, 10, 11))
    one.sync()
    assert AbortedList(disk, PATH).entries == [ENTRIES[0], Aborted(9, 9, 10, 11)]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), max_size=30), st.integers(0, 200), st.integers(0, 60))
def test_the_search_finds_all_that_overlaps(steps, offset, length):
    """Six producers with overlapping transactions, all of them aborted."""
    opened, entries, at = {}, [], 0
    for producer, count in steps:
        if producer in opened:
            first = opened.pop(producer)
            entries.append(Aborted(producer, first, at, min(opened.values(), default=at + 1)))
        else:
            opened[producer] = at
        at += count
    found, _ = overlapping(entries, offset, offset + length)
    assert found == [one for one in entries if one.last_offset >= offset and one.first_offset < offset + length]
