"""A slot: a preallocated file of the journal, which is used again when the segments have everything in it.

    0      header: magic 8 | version u8 | salt 8 | first sequence u64 | needed from u64 | synced u8 | checksum u32
    64     only if the journal continues in another slot: number of that slot u64 | checksum u32, which begins with the salt
    512    entries, then zeros or the rest of an earlier use

The header lies in one sector, which a disk writes completely or not at all. It is written with the first entry and becomes
durable with it. `needed_from`: when the slot was begun, the segments had everything before this sequence.

A slot of version `SET_ASIDE` has one entry, which is durable before the header: what the segments of logs that failed lack
(set_aside.py).

Zeros are written in advance, because a sync of a file that grows, or of allocated blocks that were never written, costs more
than one of blocks that exist.
"""

from struct import Struct
from typing import NamedTuple

from google_crc32c import value as crc32c

from coordinator.log.recovery import DamagedLog
from coordinator.world.disk import Disk, File

PREFIX = "coordinator.journal."
"""Not the name of any partition's folder: those end with a dash and a number."""
_MAGIC = b"KCJSLOT\0"
VERSION = 0
SET_ASIDE = 1
_HEADER = Struct(">8sB8sQQB")
_CHECKSUM_BYTES = 4
_NEXT = Struct(">Q")
_NEXT_AT = 64
ENTRIES_AT = 512
SALT_BYTES = 8
_ZEROS = bytes(256 * 1024)


class SlotHeader(NamedTuple):
    """The header of a slot that has been begun."""

    salt: bytes
    first_sequence: int
    needed_from: int
    is_synced: bool = True
    """Whether every entry is synced before its owners are notified (durability "fsync")."""
    version: int = VERSION

    def encode(self) -> bytes:
        """The header as it is stored."""
        *fields, version = self
        body = _HEADER.pack(_MAGIC, version, *fields)
        checksum: int = crc32c(body)
        return body + checksum.to_bytes(_CHECKSUM_BYTES)


def decode_header(content: bytes, path: str) -> SlotHeader | None:
    """The header; None if the slot was never begun, or its header was torn. Raises DamagedLog for an unknown version."""
    body, checksum = content[: _HEADER.size], content[_HEADER.size : _HEADER.size + _CHECKSUM_BYTES]
    if len(checksum) < _CHECKSUM_BYTES or crc32c(body) != int.from_bytes(checksum):
        return None
    magic, version, salt, first_sequence, needed_from, is_synced = _HEADER.unpack(body)
    if magic != _MAGIC or version not in {VERSION, SET_ASIDE}:
        raise DamagedLog(path, 0, -1, f"the journal has version {version}, which this version cannot read")
    return SlotHeader(salt, first_sequence, needed_from, bool(is_synced), version)


def next_slot(content: bytes, salt: bytes) -> int | None:
    """The number of the slot in which the journal continues, if that was noted in this use of the slot."""
    number = content[_NEXT_AT : _NEXT_AT + _NEXT.size]
    checksum = content[_NEXT_AT + _NEXT.size :][:_CHECKSUM_BYTES]
    return int.from_bytes(number) if crc32c(salt + number) == int.from_bytes(checksum) else None


class Slot:
    """An open slot that entries can be written to."""

    __slots__ = ("file", "header", "path", "position", "size_bytes")

    def __init__(self, path: str, file: File, size_bytes: int) -> None:
        self.path = path
        self.file = file
        self.size_bytes = size_bytes
        self.header: SlotHeader | None = None
        """None until the first entry of this use."""
        self.position = ENTRIES_AT
        """Where the next entry begins."""

    @classmethod
    def create(cls, disk: Disk, path: str, size_bytes: int) -> "Slot":
        """Creates a slot, filled with zeros and durable. Raises OSError, and leaves no file then. Blocks; any thread."""
        folder = path.rpartition("/")[0]
        file = disk.open(path)
        try:
            file.truncate(0)
            for written in range(0, size_bytes, len(_ZEROS)):
                file.append(_ZEROS[: size_bytes - written])
            file.sync()
            disk.sync_folder(folder)
        except OSError:
            file.close()
            disk.remove(path)
            raise
        return cls(path, file, size_bytes)

    def takes(self, entry_bytes: int) -> bool:
        """Whether there is room for an entry of this size."""
        return self.position + entry_bytes <= self.size_bytes

    def begin(self, header: SlotHeader) -> None:
        """Begins a use of the slot: its earlier content is not needed any more. Raises OSError."""
        self.file.write_at(0, header.encode())
        self.header, self.position = header, ENTRIES_AT

    def continue_in(self, slot: "Slot") -> None:
        """Notes in which slot the journal continues, so that its loss is noticed. Raises OSError."""
        assert self.header is not None
        number = _NEXT.pack(slot_number(slot.path))
        self.file.write_at(_NEXT_AT, number + crc32c(self.header.salt + number).to_bytes(_CHECKSUM_BYTES))

    def write(self, entry: bytes) -> None:
        """Writes an entry at `position`, which does not move yet. Raises OSError."""
        self.file.write_at(self.position, entry)


def slot_name(number: int) -> str:
    """The name of a slot's file."""
    return f"{PREFIX}{number}"


def slot_number(path: str) -> int:
    """The number of the slot at a path."""
    return int(path.rpartition(".")[2])


def slot_numbers(disk: Disk, folder: str) -> list[int]:
    """The numbers of the slots in a data folder."""
    names = (name.removeprefix(PREFIX) for name in disk.list(folder) if name.startswith(PREFIX))
    return sorted(int(number) for number in names if number.isdecimal())
