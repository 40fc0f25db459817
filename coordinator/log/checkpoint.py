"""Four offsets that a log's batches cannot tell about themselves, in one small file beside them.

- `start_offset`: what is before it was deleted (DeleteRecords, retention), though a segment may still hold some of it.
- `recovery_offset`: everything before it was made durable. Recovery needs it to tell a crash from a damage: what was
  never synced may be missing in any order, what was synced may not.
- `clean_offset`: compaction has been through everything before it.
- `dense_offset`: from here on every offset was given to a record of ours, so that a gap is a damage. Before it there
  may be gaps: compaction makes them, and so had whoever wrote the folder that we took over.

The file is one line of fixed length with its own checksum, overwritten in place: a line lies within one sector, and a
disk writes a sector whole or not at all. It is a lower bound: after a power cut an older line may be back, which costs
a longer check and forgives no damage that the newer line would not have. Only `start_offset` must never go back;
changing it syncs.
"""

from dataclasses import astuple, dataclass, replace

from google_crc32c import value as crc32c

from coordinator.world.disk import Disk, File

NAME = "log-checkpoint"
_LENGTH = 4 * 21 + 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """The content of the file; -1 for a start offset that was never set."""

    start_offset: int = -1
    recovery_offset: int = 0
    clean_offset: int = 0
    dense_offset: int = 0

    def line(self) -> bytes:
        """The text as it is stored."""
        body = b"%020d %020d %020d %020d" % astuple(self)
        return b"%b %08x\n" % (body, crc32c(body))


class Checkpoint:
    """The file of one log, opened when first changed."""

    __slots__ = ("_disk", "_file", "_path", "found", "offsets")

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._path = f"{folder}/{NAME}"
        self._file: File | None = None
        stored = parse(disk.read(self._path)) if disk.exists(self._path) else None
        self.found = stored is not None
        """Whether there was a line to read: without one recovery judges by the batches alone."""
        self.offsets = stored or Offsets()

    def write(self, **changes: int) -> bool:
        """Stores changed offsets without waiting for the disk; says whether the file is new in its folder."""
        self.offsets = replace(self.offsets, **changes)
        new = self._file is None and not self._disk.exists(self._path)
        if self._file is None:
            self._file = self._disk.open(self._path)
        self._file.write_at(0, self.offsets.line())
        return new

    def sync(self) -> None:
        """Makes what was written durable."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Gives the descriptor back."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()


def parse(content: bytes) -> Offsets | None:
    """The stored offsets, or None if the line is not whole."""
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
