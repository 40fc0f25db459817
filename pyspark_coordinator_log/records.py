"""Finds every record of a chunk, and decodes its envelope, for all batches in lockstep.

Only a record's length shows where it ends, so the records of one batch must be found one after another; but batches can be
processed in parallel. Step n finds the n-th record of every batch that has one, with a few NumPy calls regardless of the
number of batches. When only a few long batches are left, a step costs more than a plain loop, and a loop finishes them.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from pyspark_coordinator_log.batches import BadBatch, Headers
from pyspark_coordinator_log.buffers import ENDLESS, Buffer, Ints

_WORTH_A_STEP = 12
"""With fewer parallel batches than this, plain Python is faster."""


class Records:
    """The records of a chunk in log order. A length of -1 is null; `batch` is the index of a record's header."""

    __slots__ = (
        "batch",
        "headers",
        "key_length",
        "key_start",
        "offset",
        "source",
        "timestamp",
        "value_length",
        "value_start",
    )

    source: Buffer
    headers: Headers
    batch: Ints
    offset: Ints
    timestamp: Ints
    key_start: Ints
    key_length: Ints
    value_start: Ints
    value_length: Ints

    def __len__(self) -> int:
        return len(self.offset)

    def select(self, chosen: Any) -> "Records":
        """The records selected by a mask."""
        out = Records()
        out.source, out.headers = self.source, self.headers
        for name in Records.__slots__:
            if name not in {"source", "headers"}:
                setattr(out, name, getattr(self, name)[chosen])
        return out


def find(source: Buffer, headers: Headers) -> Records:
    """Finds the records of complete, uncompressed batches. Raises BadBatch if a batch is not filled exactly."""
    starts, ends, batch = _boundaries(source, headers)
    out = Records()
    out.source, out.headers, out.batch = source, headers, batch
    limit = ends
    # Reads cannot leave the padded buffer; a read beyond the end of its record is detected by comparing with that end.
    timestamp_delta, position = source.signed(starts + 1)
    offset_delta, position = source.signed(position)
    out.key_length, out.key_start = source.signed(position)
    key_end = out.key_start + np.maximum(out.key_length, 0)
    out.value_length, out.value_start = source.signed(np.minimum(key_end, limit))
    after = out.value_start + np.maximum(out.value_length, 0)
    overlong = (key_end > limit) | (after > limit)
    wrong = overlong | (out.key_length < -1) | (out.value_length < -1) | (ends - starts < _LEAST)
    if wrong.any():
        raise _bad(headers, int(batch[np.flatnonzero(wrong)[0]]), "a record that its fields do not fill")
    out.offset = headers.base_offset[batch] + offset_delta
    out.timestamp = headers.base_timestamp[batch] + timestamp_delta
    if headers.has_append_time.any():
        out.timestamp = np.where(headers.has_append_time[batch], headers.max_timestamp[batch], out.timestamp)
    outside = (offset_delta < 0) | (offset_delta > headers.last_offset_delta[batch])
    if outside.any():
        raise _bad(headers, int(batch[np.flatnonzero(outside)[0]]), "a record offset outside of its batch")
    return out


_LEAST = 6
"""Size of the smallest record, without its length."""


def _bad(headers: Headers, index: int, reason: str) -> BadBatch:
    return BadBatch(int(headers.position[index]), reason)


def _boundaries(source: Buffer, headers: Headers) -> tuple[Ints, Ints, Ints]:
    """Where each record begins (after its length) and ends, and its batch."""
    counts = headers.count
    begins = np.empty(int(counts.sum()), np.int64)
    reached = _steps(source, headers, begins)
    batch = np.repeat(np.arange(len(counts)), counts)
    raw, starts = source.unsigned(begins)
    ends = starts + (raw >> 1)
    wrong = ((raw & 1) != 0) | (ends > headers.end[batch])
    if wrong.any():
        raise _bad(headers, int(batch[np.flatnonzero(wrong)[0]]), "a record longer than its batch")
    unfilled = reached != headers.end
    if unfilled.any():
        raise _bad(headers, int(np.flatnonzero(unfilled)[0]), "a batch that its records do not fill")
    return starts, ends, batch


def _steps(source: Buffer, headers: Headers, begins: Ints) -> Ints:
    """Stores the position of each record's length; returns where the last record of each batch ends.

    An impossible length stops at the end of its batch; the caller then finds positions that are out of place.
    """
    counts = headers.count
    order = np.argsort(-counts, kind="stable")
    sorted_counts = counts[order]
    slot = (np.cumsum(counts) - counts)[order]
    position, limit = headers.start[order], headers.end[order]
    deepest = int(sorted_counts[0]) if len(sorted_counts) else 0
    still = np.searchsorted(-sorted_counts, -np.arange(1, deepest + 1), side="right").tolist()
    reached = headers.start.copy()
    for ordinal, count in enumerate(still):
        if count < len(position):
            reached[order[count : len(position)]] = position[count:]
            position, slot, limit = position[:count], slot[:count], limit[:count]
        if count < _WORTH_A_STEP:
            for column in range(count):
                index = int(order[column])
                left = int(counts[index]) - ordinal
                part = begins[int(slot[column]) : int(slot[column]) + left]
                reached[index] = _loop(source, int(position[column]), int(limit[column]), part)
            return reached
        begins[slot] = position
        advance = _ADVANCE.take(source.structs(_PAIR, position)).astype(np.int64)
        if (advance < 0).any():
            unusual = np.flatnonzero(advance < 0)
            raw, after = source.unsigned(position[unusual])
            advance[unusual] = np.where(raw & 1, ENDLESS, after - position[unusual] + (raw >> 1))
        position = np.minimum(position + advance, limit)
        slot = slot + 1
    reached[order[: len(position)]] = position
    return reached


def _loop(source: Buffer, position: int, limit: int, begins: Ints) -> int:
    """As `_steps`, for one batch with as many records left as `begins` has room for."""
    content = source.array[position : limit + _LENGTH_BYTES_MAX].tobytes()
    end, at = limit - position, 0
    found = []
    for _ in range(len(begins)):
        found.append(at)
        byte = content[at]
        advance, shift, size = byte & 127, 7, 1
        while byte > 127 and size < _LENGTH_BYTES_MAX:
            byte = content[at + size]
            advance |= (byte & 127) << shift
            shift += 7
            size += 1
        at = end if advance & 1 or byte > 127 else min(at + size + (advance >> 1), end)
    begins[:] = np.array(found, np.int64) + position
    return position + at


_LENGTH_BYTES_MAX = 5
_PAIR = np.dtype("<u2")


def _advances() -> npt.NDArray[np.int16]:
    """For the first two bytes of a record (low byte first): its size including the length; -1 if two bytes do not suffice."""
    pair = np.arange(1 << 16, dtype=np.int64)
    first, second = pair & 255, pair >> 8
    both = (first & 127) | (second & 127) << 7
    raw, size = np.where(first < 128, first, both), np.where(first < 128, 1, 2)
    return np.where((raw & 1) | ((first > 127) & (second > 127)), -1, size + (raw >> 1)).astype(np.int16)


_ADVANCE = _advances()
