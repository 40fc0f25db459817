"""Reads what a dead server left in its journal.

The newest slot says from which sequence on entries are needed. From there on the entries form a chain, by sequence, through
one slot after another. The chain ends at the first place that has no valid entry. That is the end of what was written, or
where a crash tore the last write. It is damage, and refused, if a later entry is there that was written when all before it
were durable (`ALL_BEFORE_DURABLE`), if the chain does not begin where it must, or if the newest slot notes that the journal
continues in another one, which is missing.

Before the chain come the batches that were set aside, because the segments of their logs failed (set_aside.py).
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from coordinator.journal import entry as entries
from coordinator.journal.entry import ALL_BEFORE_DURABLE, Entry, parts
from coordinator.journal.slot import (
    ENTRIES_AT,
    PREFIX,
    SET_ASIDE,
    SlotHeader,
    decode_header,
    next_slot,
    slot_name,
    slot_numbers,
)
from coordinator.log.recovery import DamagedLog
from coordinator.world.disk import Disk

_NOTHING_NEEDED = (1 << 64) - 1
"""Greater than any sequence."""


class Recovered(NamedTuple):
    """The content of a journal."""

    batches: Mapping[str, list[bytes]]
    """Name of a log's folder -> its batches, in order; a piece may be several batches."""
    paths: list[str]
    """The files of the journal."""
    is_begun: bool
    """Whether one of them has a header."""
    next_sequence: int
    """Greater than every sequence that the journal may contain."""
    unsynced: tuple[tuple[str, int, bytes], ...] = ()
    """File, position and bytes of what the dead server may have written without a sync."""


class _FoundSlot(NamedTuple):
    path: str
    header: SlotHeader
    content: bytes


def read_journal(disk: Disk, folder: str) -> Recovered:
    """The journal in a data folder. Raises OSError and DamagedLog."""
    paths = [f"{folder}/{PREFIX}{number}" for number in slot_numbers(disk, folder)]
    begun = sorted(_begun(disk, paths), key=lambda slot: slot.header.first_sequence)
    aside = [slot for slot in begun if slot.header.version == SET_ASIDE]
    slots = [slot for slot in begun if slot.header.version != SET_ASIDE]
    batches: dict[str, list[bytes]] = {}
    if aside and not slots:
        raise DamagedLog(f"{folder}/{slot_name(1)}", 0, -1, "the journal is missing, except for what was set aside")
    if not slots:
        return Recovered(batches, paths, False, 1)
    _check_newest(folder, slots[-1], paths)
    next_sequence = slots[-1].header.first_sequence
    unsynced = {slot.path: (slot.path, 0, slot.content[:ENTRIES_AT]) for slot in begun}
    last = None
    is_needed = slots[-1].header.needed_from != _NOTHING_NEEDED
    for slot, position, entry in (*(_set_aside(aside) if is_needed else ()), *_chain(slots)):
        last = slot.path, position, slot.content[position : position + entry.size_bytes]
        next_sequence = max(next_sequence, entry.sequence)
        try:
            for part in parts(entry.body):
                batches.setdefault(part.log, []).append(part.batches)
        except ValueError as error:
            raise _damage(slot, position, entry.sequence) from error
    pieces = (*unsynced.values(), *([last] if last is not None else []))
    return Recovered(batches, paths, True, next_sequence + 1, pieces)


def _check_newest(folder: str, newest: _FoundSlot, paths: list[str]) -> None:
    """Raises DamagedLog if the newest slot is missing. The file was durable before the slot before it named it."""
    number = next_slot(newest.content, newest.header.salt)
    if number is None or newest.header.needed_from == _NOTHING_NEEDED:
        return
    path = f"{folder}/{slot_name(number)}"
    if path not in paths:
        raise DamagedLog(
            path, 0, -1, "the newest file of the journal is missing; it had records that the logs may lack"
        )


def _set_aside(slots: list[_FoundSlot]) -> Iterator[tuple[_FoundSlot, int, Entry]]:
    """The entry of each slot of this kind. Raises DamagedLog."""
    for slot in slots:
        entry = _entry_at(slot, ENTRIES_AT, slot.header.first_sequence)
        if entry is None:
            raise _damage(slot, ENTRIES_AT, slot.header.first_sequence)
        yield slot, ENTRIES_AT, entry


def make_durable(disk: Disk, recovered: Recovered) -> None:
    """Makes durable what `read_journal` found: no log may get a part of an entry that a power cut can still take away.

    It must be called before the first log is opened. The unsynced pieces are written again, as in `Log._write_again`: the
    last server may have stopped because a sync failed. Raises OSError.
    """
    for path, position, content in reversed(recovered.unsynced):
        file = disk.open(path)
        try:
            file.write_at(position, content)
            file.sync()
        finally:
            file.close()


def remove_settled(disk: Disk, paths: list[str]) -> None:
    """Removes a journal whose batches the logs have. Whatever a crash leaves of it needs no recovery. Raises OSError."""
    newest = max(_begun(disk, paths), key=lambda slot: slot.header.first_sequence, default=None)
    if newest is not None:
        file = disk.open(newest.path)
        try:
            file.write_at(0, newest.header._replace(needed_from=_NOTHING_NEEDED).encode())
            file.sync()
        finally:
            file.close()
    for path in paths:
        if newest is None or path != newest.path:
            disk.remove(path)
    if newest is not None:
        disk.sync_folder(newest.path.rpartition("/")[0])
        disk.remove(newest.path)
        disk.sync_folder(newest.path.rpartition("/")[0])


def _begun(disk: Disk, paths: list[str]) -> Iterator[_FoundSlot]:
    for path in paths:
        content = disk.read(path)
        header = decode_header(content[:ENTRIES_AT], path)
        if header is None and any(content[:ENTRIES_AT]):
            # The header lies in one sector: a crash leaves zeros, the old one or the new one.
            raise DamagedLog(path, 0, -1, "the header of the journal is damaged")
        if header is not None:
            yield _FoundSlot(path, header, content)


def _chain(slots: list[_FoundSlot]) -> Iterator[tuple[_FoundSlot, int, Entry]]:
    """The needed entries in order. Raises DamagedLog. `slots`: by their first sequence."""
    expected = slots[-1].header.needed_from
    needed = [slot for slot in slots if slot.header.first_sequence >= expected]
    if needed and needed[0].header.first_sequence != expected:
        if not slots[-1].header.is_synced:
            return  # Without syncs, a power cut may keep the header of a slot and lose that of the slot before it.
        raise _damage(needed[0], 0, expected)
    for number, slot in enumerate(needed, 1):
        position = ENTRIES_AT
        while (entry := _entry_at(slot, position, expected)) is not None:
            yield slot, position, entry
            position, expected = position + entry.size_bytes, expected + 1
        later = needed[number:]
        if later and later[0].header.first_sequence == expected:
            continue
        behind = (slot, position), *((each, ENTRIES_AT) for each in later)
        if any(_is_followed(*each, expected) for each in behind):
            raise _damage(slot, position, expected)
        return


def _entry_at(slot: _FoundSlot, position: int, sequence: int) -> Entry | None:
    entry = entries.decode(slot.content, position, slot.header.salt)
    return entry if entry is not None and entry.sequence == sequence else None


def _is_followed(slot: _FoundSlot, position: int, sequence: int) -> bool:
    """Whether a later entry at a position or behind it was written when this sequence was durable."""
    at = slot.content.find(entries.MAGIC, position)
    while at >= 0:
        entry = entries.decode(slot.content, at, slot.header.salt)
        if entry is not None and entry.sequence > sequence and entry.flags & ALL_BEFORE_DURABLE:
            return True
        at = slot.content.find(entries.MAGIC, at + 1)
    return False


def _damage(slot: _FoundSlot, position: int, sequence: int) -> DamagedLog:
    return DamagedLog(slot.path, position, -1, f"entry {sequence} of the journal is missing or damaged")
