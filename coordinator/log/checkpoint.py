"""Four offsets of a log that its batches do not contain, in one small file in the log's folder.

- `start_offset` (Kafka: `log-start-offset-checkpoint`): records before it are deleted (DeleteRecords, retention), though a
  segment may still hold some of them.
- `recovery_offset` (Kafka: `recovery-point-offset-checkpoint`): every record before it is durable. With it, recovery can
  distinguish a crash from damage: unsynced records may be missing in any order, synced ones may not.
- `clean_offset` (Kafka: `cleaner-offset-checkpoint`): compaction has processed every record before it.
- `dense_offset` (ours): from here on, every offset was assigned by this server, so that a gap means damage. Before it there
  may be gaps, from compaction or from the software that wrote the folder before.

The file is one line of fixed length with a checksum, overwritten in place. The line lies within one sector, which a disk
writes completely or not at all. The offsets are lower bounds: if an older line is back after a power cut, recovery checks
more than necessary and accepts no damage that the newer line would have revealed. Only `start_offset` must never go back,
so a change of it is synced.
"""

from dataclasses import astuple, dataclass, replace

from google_crc32c import value as crc32c

from coordinator.world.disk import Disk, File

NAME = "log-checkpoint"
_LENGTH = 4 * 21 + 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """The content of the file. `start_offset` is -1 if it was never set."""

    start_offset: int = -1
    recovery_offset: int = 0
    clean_offset: int = 0
    dense_offset: int = 0

    def line(self) -> bytes:
        """The line as it is stored."""
        body = b"%020d %020d %020d %020d" % astuple(self)
        return b"%b %08x\n" % (body, crc32c(body))


class Checkpoint:
    """The checkpoint file of one log. It is opened for the first change."""

    __slots__ = ("_disk", "_file", "_path", "found", "offsets")

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._path = f"{folder}/{NAME}"
        self._file: File | None = None
        stored = parse(disk.read(self._path)) if disk.exists(self._path) else None
        self.found = stored is not None
        """Whether a valid line was read. Without one, recovery has only the batches to go by."""
        self.offsets = stored or Offsets()

    def write(self, **changes: int) -> bool:
        """Writes changed offsets without syncing. Returns whether the file is new in its folder. Raises OSError."""
        self.offsets = replace(self.offsets, **changes)
        new = self._file is None and not self._disk.exists(self._path)
        if self._file is None:
            self._file = self._disk.open(self._path)
        self._file.write_at(0, self.offsets.line())
        return new

    def sync(self) -> None:
        """Makes the written line durable. Raises OSError."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Closes the file; a later `write` opens it again."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()


def parse(content: bytes) -> Offsets | None:
    """The stored offsets; None if the line is incomplete or its checksum is wrong."""
    fields = content[:_LENGTH].split()
    if len(fields) != 5:
        return None
    try:
        start, recovery, clean, dense = (int(field) for field in fields[:4])
        valid = int(fields[4], 16) == crc32c(b" ".join(fields[:4]))
    except ValueError:
        return None
    if not valid:
        return None
    return Offsets(start_offset=start, recovery_offset=recovery, clean_offset=clean, dense_offset=dense)
