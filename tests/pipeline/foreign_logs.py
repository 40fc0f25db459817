"""Logs as bytes and folders, written with our own encoder, then compressed or damaged as other writers would."""

import gzip
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from google_crc32c import value as crc32c
from hypothesis import strategies as st

from coordinator.log.batch import HEADER_BYTES, PREFIX_BYTES, read_header
from coordinator.log.batch_builder import encode_batch
from coordinator.log.record import LogRecord
from coordinator.protocol import messages
from coordinator.protocol.codec import Codec
from pyspark_coordinator_log import batches, buffers, columns, views

CONTROL, TRANSACTIONAL, LOG_APPEND_TIME = 0x20, 0x10, 0x08
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
NOW_MS = 1_700_000_000_000
INDEX = struct.Struct(">ii")


class Commit(NamedTuple):
    """A commit before encoding; a `version` of None is a tombstone."""

    group: str
    topic: str
    partition: int
    offset: int
    version: int | None = 4
    leader_epoch: int = -1
    metadata: str = ""
    timestamp_ms: int = NOW_MS
    expire_ms: int = -1
    topic_id: bytes = b"\0" * 16
    key_type: int = 1


def encoded(message: Any, version: int) -> bytes:
    """Encodes a message after an int16: the type of a key, or the version of a value."""
    number = message.API_KEY if message.NAME.endswith("Key") else version
    return number.to_bytes(2, signed=True) + Codec.of().encoder(message.NAME, version)(message)


def key_value(commit: Commit) -> tuple[bytes, bytes | None]:
    key = encoded(messages.OffsetCommitKey(commit.group, commit.topic, commit.partition), 0)
    key = commit.key_type.to_bytes(2) + key[2:]
    if commit.version is None:
        return key, None
    value = messages.OffsetCommitValue(
        offset=commit.offset,
        leader_epoch=commit.leader_epoch if commit.version >= 3 else -1,
        metadata=commit.metadata,
        commit_timestamp=commit.timestamp_ms,
        expire_timestamp=commit.expire_ms if commit.version == 1 else -1,
        topic_id=commit.topic_id if commit.version >= 4 else b"\0" * 16,
    )
    return key, encoded(value, commit.version)


def batch(
    offset: int,
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    timestamp_ms: int = NOW_MS,
    codec: int = 0,
    framed: bool = False,
    offsets: Sequence[int] | None = None,
    timestamps: Sequence[int] | None = None,
    last_offset: int | None = None,
    **header: int,
) -> bytes:
    """A batch that begins at `offset`. `offsets`: those left by compaction; `framed`: with Java's framing of snappy."""
    numbers = list(offsets) if offsets is not None else list(range(offset, offset + len(records)))
    times = list(timestamps) if timestamps is not None else [timestamp_ms] * len(records)
    rows = [
        LogRecord(number, time, key, value) for number, time, (key, value) in zip(numbers, times, records, strict=True)
    ]
    if not rows or rows[0].offset != offset:
        # Compaction keeps the base offset even if its record is gone.
        rows = [LogRecord(offset, times[0] if times else timestamp_ms, None, None), *rows]
        made = _without_first(encode_batch(rows, **header))
    else:
        made = encode_batch(rows, **header)
    if last_offset is not None:
        made = resealed(made[:23] + (last_offset - offset).to_bytes(4) + made[27:])
    return compressed(made, codec, framed=framed) if codec else made


def _without_first(made: bytes) -> bytes:
    length = made[HEADER_BYTES] >> 1
    count = int.from_bytes(made[57:61]) - 1
    body = made[:57] + count.to_bytes(4) + made[HEADER_BYTES + 1 + length :]
    return resealed(body)


def resealed(made: bytes) -> bytes:
    """Recomputes the length and checksum of a batch."""
    made = made[:8] + (len(made) - PREFIX_BYTES).to_bytes(4) + made[12:]
    return made[:17] + crc32c(made[21:]).to_bytes(4) + made[21:]


def compressed(made: bytes, codec: int, *, framed: bool = False) -> bytes:
    """Compresses the records of a batch."""
    import pyarrow as pa

    records = made[HEADER_BYTES:]
    match codec:
        case 1:
            content = gzip.compress(records)
        case 2 if framed:
            content = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
            for start in range(0, len(records), 1000):
                block = pa.Codec("snappy").compress(records[start : start + 1000], asbytes=True)
                content += len(block).to_bytes(4) + block
        case 2:
            content = pa.Codec("snappy").compress(records, asbytes=True)
        case 3:
            content = pa.Codec("lz4").compress(records, asbytes=True)
        case _:
            content = pa.Codec("zstd").compress(records, asbytes=True)
    attributes = read_header(made).attributes | codec
    return resealed(made[:21] + attributes.to_bytes(2) + made[23:HEADER_BYTES] + content)


def marker(offset: int, *, commit: bool, producer_id: int, producer_epoch: int = 0) -> bytes:
    """A control batch. Its key is int16 version 0, int16 type."""
    key, value = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0)
    attributes = CONTROL | TRANSACTIONAL
    return batch(offset, [(key, value)], attributes=attributes, producer_id=producer_id, producer_epoch=producer_epoch)


def commits(offset: int, rows: Iterable[Commit], **header: Any) -> bytes:
    return batch(offset, [key_value(row) for row in rows], **header)


def write_log(
    data: Path,
    segments: Sequence[Sequence[bytes]],
    *,
    shard: int = 0,
    topic: str = "__consumer_offsets",
    index_every: int = 0,
    cluster: str | None = "test-cluster",
) -> Path:
    """Writes the folder of a partition in a data folder; with `index_every` also Kafka's sparse index."""
    folder = data / f"{topic}-{shard}"
    folder.mkdir(parents=True, exist_ok=True)
    if cluster is not None:
        (data / "meta.properties").write_text(f"version=1\ncluster.id={cluster}\n")
    for some in segments:
        base = read_header(some[0]).base_offset
        (folder / f"{base:020d}.log").write_bytes(b"".join(some))
        if index_every:
            (folder / f"{base:020d}.index").write_bytes(index_of(some, base, index_every))
    return folder


def index_of(batches: Sequence[bytes], base: int, every: int) -> bytes:
    """Kafka's index entries: relative last offset of a batch, and its position; unused entries are zero."""
    out, position, since = b"", 0, 0
    for each in batches:
        if since > every:
            out += INDEX.pack(read_header(each).last_offset - base, position)
            since = 0
        since += len(each)
        position += len(each)
    return out + bytes(80)


def damaged(content: bytes, data: Any, *, start: int = 0) -> bytes:
    """Removes, replaces or inserts up to three bytes from `start` on, drawn at random."""
    at = data.draw(st.integers(start, len(content)))
    return content[:at] + data.draw(st.binary(max_size=3)) + content[at + data.draw(st.integers(0, 3)) :]


def wanted(view: str, **limits: Any) -> views.Wanted:
    everything = {"groups": None, "since_ms": None, "until_ms": None}
    return views.Wanted(view=view, columns=tuple(columns.SCHEMAS[view].names), **(everything | limits))


def read(content: bytes, view: str, **limits: Any) -> list[dict[str, Any]]:
    found, reached = batches.walk(content, len(content))
    assert reached == len(content)
    source = buffers.Buffer(buffers.padded(content))
    headers = batches.Headers(source, np.array(found, np.int64))
    batches.check(source, headers, checksums=True)
    out = []
    origin = views.Origin(3, "log", is_state=view != "events")
    for piece, some in batches.pieces(source, headers):
        table = views.table(piece, some, wanted(view, **limits), origin, 0, None)
        assert table.schema == columns.SCHEMAS[view]
        table.validate(full=True)
        out += table.to_pylist()
    return out
