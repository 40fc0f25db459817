"""The list of a log's segments, in a small file in its folder, by which a start notices that one is missing, cut or foreign.

    0                                             version
    orders-3                                      the log's folder
    00000000000000000000 1048391 9c3e0a17         base offset, size in bytes, checksum of the first batch
    00000000000000041822 - -                      the active segment: it grows
    d41d8cd9                                      checksum of the lines before

The names of the files do not suffice: compaction leaves gaps between them, and a file can be a copy of another one. The list is
written where the log syncs anyway (when a segment is full, when compaction replaces segments), completely and durably, so that
after a crash either the old or the new one is there. An old list is correct too, because only these two steps change what it
says:

- A segment that it does not have yet begins after all others.
- Compaction replaces segments only after it has updated the list (segment_swap.py). If it cannot, it removes the list.

Segments before the log's start offset may be missing. A log without a list (a folder of Kafka or of an earlier version, or a
log of one segment) is checked without it. Kafka has no such file and takes what it finds.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from google_crc32c import value as crc32c

from coordinator.log.batch import HEADER_BYTES
from coordinator.world.disk import Disk, Readable

NAME = "segment-list"
VERSION = b"0"
UNKNOWN = -1
_NOWHERE = 1 << 62
_CHECKSUM_AT, _CHECKSUM_BYTES = 17, 4


class SegmentList(NamedTuple):
    """The content of the file."""

    folder: str
    """The name of the folder for which it was written."""
    entries: list["Entry"]


class Entry(NamedTuple):
    """A segment. `size_bytes` is UNKNOWN for the active one, `checksum` also for one without a batch."""

    base_offset: int
    size_bytes: int
    checksum: int


class Found(NamedTuple):
    """A segment file in the folder."""

    size_bytes: int
    checksum: int


class Mismatch(NamedTuple):
    """A segment that is not as the list says. `position`: bytes from the start of the file to the first difference."""

    base_offset: int
    position: int
    reason: str


def first_checksum(file: Readable) -> int:
    """The checksum field of the first batch of a segment, by which the file is recognized; UNKNOWN if there is none."""
    header = file.pread(0, HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return UNKNOWN
    return int.from_bytes(header[_CHECKSUM_AT : _CHECKSUM_AT + _CHECKSUM_BYTES])


def sealed(lines: Iterable[bytes]) -> bytes:
    """The lines and their checksum, as stored."""
    body = b"".join(line + b"\n" for line in lines)
    return body + b"%08x\n" % crc32c(body)


def unsealed(content: bytes) -> list[bytes] | None:
    """The lines of a file that `sealed` made; None if it is damaged."""
    *lines, checksum = content.removesuffix(b"\n").split(b"\n")
    body = b"".join(line + b"\n" for line in lines)
    return lines if checksum == b"%08x" % crc32c(body) else None


def encode(content: SegmentList) -> bytes:
    """The content of the file."""
    return sealed([VERSION, content.folder.encode(), *map(_line, content.entries)])


def _line(entry: Entry) -> bytes:
    size = b"-" if entry.size_bytes == UNKNOWN else b"%d" % entry.size_bytes
    checksum = b"-" if entry.checksum == UNKNOWN else b"%08x" % entry.checksum
    return b"%020d %b %b" % (entry.base_offset, size, checksum)


def decode(content: bytes) -> SegmentList | None:
    """The list; None if the file is damaged or its version is unknown."""
    lines = unsealed(content)
    if lines is None or len(lines) < 2 or lines[0] != VERSION:
        return None
    try:
        return SegmentList(lines[1].decode(), [_entry(line) for line in lines[2:]])
    except ValueError:
        return None


def _entry(line: bytes) -> Entry:
    """Raises ValueError."""
    base, size, checksum = line.split()
    return Entry(int(base), UNKNOWN if size == b"-" else int(size), UNKNOWN if checksum == b"-" else int(checksum, 16))


def read(disk: Disk, folder: str) -> SegmentList | None:
    """The list in a folder, without entries if there is none; None if it is damaged. Raises OSError."""
    path = f"{folder}/{NAME}"
    return decode(disk.read(path)) if disk.exists(path) else SegmentList(name_of(folder), [])


def write(disk: Disk, folder: str, entries: list[Entry]) -> None:
    """Replaces the list, and makes it and all names in the folder durable. Raises OSError; then the old list is there."""
    write_durably(disk, folder, NAME, encode(SegmentList(name_of(folder), entries)))


def name_of(folder: str) -> str:
    """The last part of a path."""
    return folder.rpartition("/")[2]


def why_unusable(folder: str, content: SegmentList | None) -> str:
    """Why the list in a folder contradicts it as a whole; empty if it does not."""
    if content is None:
        return "wrong checksum"
    if content.folder != name_of(folder):
        return f"the list belongs to {content.folder}"
    return ""


def write_durably(disk: Disk, folder: str, name: str, content: bytes) -> None:
    """Replaces a file at once and durably. Raises OSError; then the old content is there, and no space is used."""
    path = f"{folder}/{name}"
    file = disk.open(f"{path}.tmp")
    try:
        file.truncate(0)
        file.append(content)
        file.sync()
    except OSError:
        with suppress(OSError):
            disk.remove(f"{path}.tmp")
        raise
    finally:
        file.close()
    disk.rename(f"{path}.tmp", path)
    disk.sync_folder(folder)


def replace(disk: Disk, folder: str, old: tuple[int, int], new: Entry) -> None:
    """Replaces the segments from `old[0]` to before `old[1]` by a cleaned one. Without space for it, removes the list.

    Raises OSError.
    """
    content = read(disk, folder)
    if content is None or not content.entries:
        return
    first, end = old
    kept = [entry for entry in content.entries if not first <= entry.base_offset < end]
    try:
        write(disk, folder, sorted([*kept, new]))
    except OSError:
        disk.remove(f"{folder}/{NAME}")
        disk.sync_folder(folder)


def without_deleted(entries: Sequence[Entry], start_offset: int) -> list[Entry]:
    """The entries of the segments that do not lie completely before the start offset."""
    following = [entry.base_offset for entry in entries[1:]]
    return [entry for entry, end in zip(entries, [*following, _NOWHERE], strict=False) if end > start_offset]


def find_mismatch(
    entries: Sequence[Entry], found: Mapping[int, Found], start_offset: int, recovery_offset: int
) -> Mismatch | None:
    """The first segment that contradicts the list. `found` is without the segments that lie before the start offset."""
    for entry in without_deleted(entries, start_offset):
        reason, position = _contradiction(entry, found.get(entry.base_offset))
        # A crash may lose the name of an active segment that has no durable record.
        is_needed = entry is not entries[-1] or recovery_offset > entry.base_offset
        if reason and (entry.base_offset in found or is_needed):
            return Mismatch(entry.base_offset, position, reason)
    listed = {entry.base_offset for entry in entries}
    for base_offset in sorted(found):
        if entries and base_offset < entries[-1].base_offset and base_offset not in listed:
            return Mismatch(base_offset, 0, "this log has no segment that begins there")
    return None


def _contradiction(entry: Entry, found: Found | None) -> tuple[str, int]:
    """Why a file is not the listed one, and from which position on; an empty reason if it is."""
    if found is None:
        size = "" if entry.size_bytes == UNKNOWN else f"; it had {entry.size_bytes} bytes"
        return f"the file is missing{size}", 0
    if entry.size_bytes not in {UNKNOWN, found.size_bytes}:
        reason = f"the file has {found.size_bytes} bytes instead of {entry.size_bytes}"
        return reason, min(entry.size_bytes, found.size_bytes)
    if entry.checksum not in {UNKNOWN, found.checksum}:
        return "the file does not begin with the batch that was written there", 0
    return "", 0
