"""The producers of a partition in a file beside its log, so that a start need not read the whole log for them.

The file says up to which offset it knows (`offset`); what came after is read from the batch headers. It is written when a
segment is full and when the server stops: both times the log is durable up to there, and never without the file being
right or absent. It is not synced: its checksum tells a torn one from a whole one, and without it, or with an older one,
there is more to read and nothing else is lost. Kafka's snapshots hold the last batch of each producer; these hold the five
by which a retry is recognized.

    checksum of the rest | offset | producers, the one first that was silent for longest:
                                    id, epoch, seen (wall ms), number of batches, then each batch
"""

from collections.abc import Iterable
from struct import Struct, error
from typing import NamedTuple

from google_crc32c import value as crc32c

from coordinator.topics.producer_state import AppendedBatch, ProducerState
from coordinator.world.disk import Disk

NAME = "producer-snapshot"
_CHECKSUM = Struct(">I")
_OFFSET = Struct(">q")
_PRODUCER = Struct(">qhqB")
_BATCH = Struct(">iiqq")


class Snapshot(NamedTuple):
    """What a file says."""

    offset: int
    producers: Iterable[tuple[int, int, int, list[AppendedBatch]]]
    """Id, epoch, seen (wall ms), batches."""


def encode(offset: int, producers: ProducerState) -> bytes:
    """The file's content for the producers of all records before `offset`."""
    parts = [_OFFSET.pack(offset)]
    for producer_id, epoch, seen_ms, batches in producers:
        parts.append(_PRODUCER.pack(producer_id, epoch, seen_ms, len(batches)))
        parts += [_BATCH.pack(*batch) for batch in batches]
    body = b"".join(parts)
    return _CHECKSUM.pack(crc32c(body)) + body


def decode(content: bytes) -> Snapshot | None:
    """What a file says, or None if it is not whole."""
    body = content[_CHECKSUM.size :]
    producers: list[tuple[int, int, int, list[AppendedBatch]]] = []
    try:
        if _CHECKSUM.unpack_from(content)[0] != crc32c(body):
            return None
        (offset,) = _OFFSET.unpack_from(body)
        position = _OFFSET.size
        while position < len(body):
            producer_id, epoch, seen_ms, count = _PRODUCER.unpack_from(body, position)
            position += _PRODUCER.size
            end = position + count * _BATCH.size
            batches = [AppendedBatch._make(fields) for fields in _BATCH.iter_unpack(body[position:end])]
            producers.append((producer_id, epoch, seen_ms, batches))
            position = end
    except error:
        return None
    return Snapshot(offset, producers)


def save(disk: Disk, folder: str, offset: int, producers: ProducerState) -> None:
    """Writes the file. OSError, after which an older one may be there."""
    path = f"{folder}/{NAME}"
    file = disk.open(f"{path}.tmp")
    try:
        file.truncate(0)
        file.append(encode(offset, producers))
    finally:
        file.close()
    disk.rename(f"{path}.tmp", path)


def load(disk: Disk, folder: str) -> Snapshot | None:
    """The file's content, or None if there is none that is whole. OSError."""
    path = f"{folder}/{NAME}"
    return decode(disk.read(path)) if disk.exists(path) else None


def forget(disk: Disk, folder: str) -> None:
    """Removes the file. OSError."""
    disk.remove(f"{folder}/{NAME}")
