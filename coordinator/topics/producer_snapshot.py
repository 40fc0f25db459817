"""A file beside a partition's log with the state of its producers, so that a start need not read the whole log.

The file covers the log up to an offset; a load reads the batches after it. It is written when a segment is full and
when the server stops. Both times the log is durable up to that offset, and so are the lists of aborted transactions
(log/aborted.py), so a start need not look for those before the offset either. The file is correct or absent: its checksum
reveals a torn write. When a segment is full the file is synced, because it covers producers whose records may be deleted next;
and before records are deleted, if this process has not done so yet. At a stop it is not synced, to keep the stop short:
without the file, or with an older one, there is more to read. Kafka's snapshots have the last batch of each producer; these
have the five batches by which a retry is recognized.

    checksum of the rest | version | offset | producers, in the order of their last append:
                                    id, epoch, epoch of the coordinator, first offset of the open transaction, timestamp,
                                    time of the append (wall ms), number of batches, then each batch
"""

from collections.abc import Sequence
from struct import Struct, error
from typing import NamedTuple

from google_crc32c import value as crc32c

from coordinator.topics.producer_state import AppendedBatch, ProducerEntry, ProducerState
from coordinator.world.disk import Disk

NAME = "producer-snapshot"
_VERSION = 1
_CHECKSUM = Struct(">I")
_START = Struct(">hq")
_PRODUCER = Struct(">qhiqqqB")
_BATCH = Struct(">iiqq")


class Snapshot(NamedTuple):
    """The content of a file."""

    offset: int
    producers: Sequence[ProducerEntry]


def encode(offset: int, producers: ProducerState) -> bytes:
    """The bytes of the file for the producers of all records before `offset`."""
    parts = [_START.pack(_VERSION, offset)]
    for producer in producers:
        parts.append(_PRODUCER.pack(*producer[:-1], len(producer.batches)))
        parts += [_BATCH.pack(*batch) for batch in producer.batches]
    body = b"".join(parts)
    return _CHECKSUM.pack(crc32c(body)) + body


def decode(content: bytes) -> Snapshot | None:
    """The content of a file, or None if it is damaged or its version is unknown."""
    body = content[_CHECKSUM.size :]
    producers: list[ProducerEntry] = []
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
            producers.append(ProducerEntry._make((*fields[:-1], batches)))
            position = end
    except error:
        return None
    return Snapshot(offset, producers)


def save(disk: Disk, folder: str, offset: int, producers: ProducerState, *, durably: bool) -> None:
    """Writes the file. Raises OSError; then an older file may remain."""
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
    """Reads the file, or returns None if it is missing or damaged. Raises OSError."""
    path = f"{folder}/{NAME}"
    return decode(disk.read(path)) if disk.exists(path) else None


def remove(disk: Disk, folder: str) -> None:
    """Removes the file. Raises OSError."""
    disk.remove(f"{folder}/{NAME}")
