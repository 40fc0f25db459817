"""What the segments of failed logs lack is set aside, so that the slot that has it can be used again.

A log whose segment cannot be written or synced takes no more until a start repairs it from the journal. Until then its
batches must stay, but not the slots with the batches of all other logs: those are a few files that are used in turn. So
before such a slot is used again, the batches of the failed logs are copied to a file of their own, which only a start removes.
"""

import errno
from collections.abc import Collection, Iterable, Iterator

from coordinator.journal import entry as entries
from coordinator.journal.entry import part_prefix, parts
from coordinator.journal.slot import ENTRIES_AT, SET_ASIDE, Slot, SlotHeader
from coordinator.world.disk import Disk


def set_aside(disk: Disk, slot: Slot, logs: Collection[str], path: str, salt: bytes) -> None:
    """Copies the batches of some logs from a slot to a file, durably. `logs`: the names of their folders.

    Raises OSError, also if the slot cannot be read completely, and leaves no file then. Blocks; any thread.
    """
    header = slot.header
    assert header is not None
    write_aside(disk, path, salt, header.first_sequence, _parts_of(disk, slot, logs))


def write_aside(disk: Disk, path: str, salt: bytes, sequence: int, batches: Iterable[tuple[str, bytes]]) -> None:
    """Writes batches, each with the name of its log's folder, to a file, durably. Raises OSError, and leaves no file then.

    `sequence`: not after those of the entries that follow. Blocks; any thread.
    """
    body = [piece for name, batch in batches for piece in (part_prefix(name, batch), batch)]
    entry = entries.encode(salt, sequence, 0, body)
    copy = Slot.create(disk, path, ENTRIES_AT + len(entry))
    try:
        copy.write(entry)
        copy.file.sync()
        copy.begin(SlotHeader(salt, sequence, sequence, version=SET_ASIDE))
        copy.file.sync()
    except OSError:
        disk.remove(path)
        raise
    finally:
        copy.file.close()


def _parts_of(disk: Disk, slot: Slot, logs: Collection[str]) -> Iterator[tuple[str, bytes]]:
    assert slot.header is not None
    content, position = disk.read(slot.path), ENTRIES_AT
    while position < slot.position:
        entry = entries.decode(content, position, slot.header.salt)
        if entry is None:
            raise OSError(errno.EIO, f"{slot.path} cannot be read at position {position}")
        for part in parts(entry.body):
            if part.log in logs:
                yield part.log, part.batches
        position += entry.size_bytes
