"""A segment file that is written behind the journal: appended batches stay in memory until `flush`.

The journal (coordinator/journal) makes a batch durable, so the segment has time. Batches reach the file in large pieces, and
never before the journal has them: what a file contains was decided for good. Reads see the batches in memory, too.
"""

from contextlib import suppress

from coordinator.world.disk import File


class WriteBehindFile:
    """A file of which the last batches are in memory. Reads may come from other threads; everything else is the loop's."""

    __slots__ = ("_file", "_state")

    def __init__(self, file: File) -> None:
        self._file = file
        self._state: tuple[int, list[bytes]] = (file.size(), [])
        """The length of the file, and the appended pieces behind it. Replaced as one, so that a reader sees both alike."""

    @property
    def unflushed_bytes(self) -> int:
        """Bytes that are not in the file yet."""
        return sum(map(len, self._state[1]))

    def is_behind(self, end_offset: int) -> bool:
        """Whether a piece that begins before this offset is not in the file."""
        pieces = self._state[1]
        return bool(pieces) and int.from_bytes(pieces[0][:8]) < end_offset

    def append(self, data: bytes) -> None:
        """Adds one or more batches. It does no I/O."""
        self._state[1].append(data)

    def flush(self, end_offset: int) -> None:
        """Writes the pieces that begin before this offset to the file. Raises OSError; it may be called again afterwards."""
        flushed, pieces = self._state
        count = _pieces_before(pieces, end_offset)
        if not count:
            return
        file, data = self._file, b"".join(pieces[:count])
        if file.size() != flushed:  # the remains of a flush that failed
            file.truncate(flushed)
        try:
            file.append(data)
        except OSError:
            with suppress(OSError):
                file.truncate(flushed)
            raise
        self._state = flushed + len(data), pieces[count:]

    def cut(self, offset: int) -> list[bytes]:
        """Removes and returns the pieces that begin at this offset or later. None of them may be in the file."""
        flushed, pieces = self._state
        count = _pieces_before(pieces, offset)
        self._state = flushed, pieces[:count]
        return pieces[count:]

    def pread(self, offset: int, count: int) -> bytes:
        """As `File.pread`."""
        flushed, pieces = self._state
        if offset + count <= flushed:
            return self._file.pread(offset, count)
        head = self._file.pread(offset, flushed - offset) if offset < flushed else b""
        start = max(0, offset - flushed)
        return head + b"".join(pieces)[start : start + count - len(head)]

    def write_at(self, offset: int, data: bytes) -> None:
        """As `File.write_at`, within the part that is in the file."""
        self._file.write_at(offset, data)

    def sync(self) -> None:
        """Makes the part that is in the file durable."""
        self._file.sync()

    def size(self) -> int:
        """Length in bytes, with the pieces in memory."""
        return self._state[0] + self.unflushed_bytes

    def truncate(self, size: int) -> None:
        """Truncates the file; no pieces may be in memory."""
        assert not self._state[1]
        self._file.truncate(size)
        self._state = size, []

    def close(self) -> None:
        """Closes the descriptor. Pieces in memory are lost."""
        self._file.close()


def _pieces_before(pieces: list[bytes], offset: int) -> int:
    """How many of the pieces begin before an offset; a batch begins with its base offset."""
    for count, piece in enumerate(pieces):
        if int.from_bytes(piece[:8]) >= offset:
            return count
    return len(pieces)
