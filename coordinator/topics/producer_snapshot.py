"""The producers of a partition in a file beside its log, so that a start need not read the whole log for them.

The file says up to which offset it knows (`offset`); what came after is read from the batches. It is written when a
segment is full and when the server stops: both times the log is durable up to there, and so are the lists of aborted
transactions (log/aborted.py), whose entries before the offset a start need not look for either. The file is never
without being right or absent: its checksum tells a torn one from a whole one. When a segment is full it is synced, for it
knows of producers whose records may be deleted next; and before they are, if this process has not done so. At a stop it is
not, or a stop would take a while: without the file, or with an older one, there is more to read. Kafka's snapshots hold
the last batch of each producer; these hold the five by which a retry is recognized.

    checksum of the rest | version | offset | producers, the one first that was silent for longest:
                                    id, epoch, epoch of the coordinator, first offset of the open transaction, timestamp,
                                    seen (wall ms), number of batches, then each batch
"""

from collections.abc import Sequence
from struct import Struct, error
from typing import NamedTuple

from google_crc32c import value as crc32c

from coordinator.topics.producer_state import AppendedBatch, ProducerState, Remembered
from coordinator.world.disk import Disk

NAME = "producer-snapshot"
_VERSION = 1
_CHECKSUM = Struct(">I")
_START = Struct(">hq")
_PRODUCER = Struct(">qhiqqqB")
_BATCH = Struct(">iiqq")


class Snapshot(NamedTuple):
    """What a file says."""

    offset: int
    producers: Sequence[Remembered]


def encode(offset: int, producers: ProducerState) -> bytes:
    """The file's content for the producers of all records before `offset`."""
    parts = [_START.pack(_VERSION, offset)]
    for producer in producers:
        parts.append(_PRODUCER.pack(*producer[:-1], len(producer.batches)))
        parts += [_BATCH.pack(*batch) for batch in producer.batches]
    body = b"".join(parts)
    return _CHECKSUM.pack(crc32c(body)) + body


def decode(content: bytes) -> Snapshot | None:
    """What a file says, or None if it is not whole, or of a version before transactions."""
    body = content[_CHECKSUM.size :]
    producers: list[Remembered] = []
    try:
        if _CHECKSUM.unpack_from(content)[0] != crc32c(body):
            return None
        version, offset = _START.unpack_from(body)
        if version != _VERSION:
            return None
        position = _START.size
        while position < len(body):
            fields = _PRODUCER.unpack_from(body, position)
            count = fields[-1]
            position += _PRODUCER.size
            end = position + count * _BATCH.size
            batches = [AppendedBatch._make(batch) for batch in _BATCH.iter_unpack(body[position:end])]
            producers.append(Remembered._make((*fields[:-1], batches)))
            position = end
    except error:
        return None
    return Snapshot(offset, producers)


def save(disk: Disk, folder: str, offset: int, producers: ProducerState, *, durably: bool) -> None:
    """Writes the file. OSError, after which an older one may be there."""
    path = f"{folder}/{NAME}"
    file = disk.open(f"{path}.tmp")
    try:
        file.truncate(0)
        file.append(encode(offset, producers))
        if durably:
            file.sync()
    finally:
        file.close()
    disk.rename(f"{path}.tmp", path)
    if durably:
        disk.sync_folder(folder)


def load(disk: Disk, folder: str) -> Snapshot | None:
    """The file's content, or None if there is none that is whole. OSError."""
    path = f"{folder}/{NAME}"
    return decode(disk.read(path)) if disk.exists(path) else None


def forget(disk: Disk, folder: str) -> None:
    """Removes the file. OSError."""
    disk.remove(f"{folder}/{NAME}")
