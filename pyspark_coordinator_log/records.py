"""Where every record of a chunk lies, and what its envelope says, found for all batches in step.

A record's end is known from its length alone, so the records of one batch must be found one after the other; but those of
all batches may be found side by side. One step finds the n-th record of every batch that has so many, with a handful of
NumPy calls, whatever the number of batches. When only a few long batches are left a step costs more than a plain loop,
and the loop finishes them.
"""

from typing import Any

import numpy as np

from pyspark_coordinator_log.batches import BadBatch, Headers
from pyspark_coordinator_log.gather import Bytes, Ints

_WORTH_A_STEP = 12
"""Batches side by side below which plain Python is faster."""


class Records:
    """The records of a chunk in log order. Lengths of -1 are null; `batch` says to which header a record belongs."""

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

    source: Bytes
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
        """The records that a mask names."""
        out = Records()
        out.source, out.headers = self.source, self.headers
        for name in Records.__slots__:
            if name not in {"source", "headers"}:
                setattr(out, name, getattr(self, name)[chosen])
        return out


def find(source: Bytes, headers: Headers) -> Records:
    """The records of whole, plain batches. BadBatch for one whose records do not fill it exactly."""
    starts, ends, batch = _boundaries(source, headers)
    out = Records()
    out.source, out.headers, out.batch = source, headers, batch
    limit = ends
    # Reading is harmless anywhere in the padded buffer, and what was read beyond a record's end is told from that end.
    timestamp_delta, position = source.signed(starts + 1)
    offset_delta, position = source.signed(position)
    out.key_length, out.key_start = source.signed(position)
    key_end = out.key_start + np.maximum(out.key_length, 0)
    out.value_length, out.value_start = source.signed(np.minimum(key_end, limit))
    after = out.value_start + np.maximum(out.value_length, 0)
    overlong = (key_end > limit) | (after > limit)
    wrong = overlong | (out.key_length < -1) | (out.value_length < -1) | (ends - starts < _LEAST)
    if wrong.any():
        raise _bad(headers, int(batch[np.flatnonzero(wrong)[0]]), "a record whose fields do not fill it")
    out.offset = headers.base_offset[batch] + offset_delta
    out.timestamp = headers.base_timestamp[batch] + timestamp_delta
    if headers.has_append_time.any():
        out.timestamp = np.where(headers.has_append_time[batch], headers.max_timestamp[batch], out.timestamp)
    outside = (offset_delta < 0) | (offset_delta > headers.last_offset_delta[batch])
    if outside.any():
        raise _bad(headers, int(batch[np.flatnonzero(outside)[0]]), "an offset that is not its batch's")
    return out


_LEAST = 6
"""Bytes of the smallest record, without its length."""


def _bad(headers: Headers, index: int, reason: str) -> BadBatch:
    return BadBatch(int(headers.position[index]), reason)


def _boundaries(source: Bytes, headers: Headers) -> tuple[Ints, Ints, Ints]:
    """Where each record begins (behind its length) and ends, and its batch."""
    counts = headers.count
    total = int(counts.sum())
    slot = np.cumsum(counts) - counts
    order = np.argsort(-counts, kind="stable")
    sorted_counts = counts[order]
    position, slot, limit = headers.start[order], slot[order], headers.end[order]
    starts, ends = np.empty(total, np.int64), np.empty(total, np.int64)
    deepest = int(sorted_counts[0]) if len(sorted_counts) else 0
    still = np.searchsorted(-sorted_counts, -np.arange(1, deepest + 1), side="right")
    reached = headers.start.copy()
    for ordinal in range(deepest):
        count = int(still[ordinal])
        if count < len(position):
            reached[order[count : len(position)]] = position[count:]
            position, slot, limit = position[:count], slot[:count], limit[:count]
        if count < _WORTH_A_STEP:
            for column in range(count):
                at = order[column]
                reached[at] = _finish(
                    source, headers, int(at), ordinal, int(position[column]), starts, ends, int(slot[column])
                )
            position = position[:0]
            break
        raw, begin = source.unsigned(position)
        position = np.minimum(begin + (raw >> 1), limit)
        # An odd one is negative: it ends before it begins, so that it is found wanting below.
        starts[slot] = begin
        ends[slot] = np.where(raw & 1, begin - 1, begin + (raw >> 1))
        slot = slot + 1
    reached[order[: len(position)]] = position
    batch = np.repeat(np.arange(len(counts)), counts)
    wrong = (starts > ends) | (ends > headers.end[batch])
    if wrong.any():
        raise _bad(headers, int(batch[np.flatnonzero(wrong)[0]]), "a record longer than its batch")
    unfilled = reached != headers.end
    if unfilled.any():
        raise _bad(headers, int(np.flatnonzero(unfilled)[0]), "records that do not fill it")
    return starts, ends, batch


def _finish(
    source: Bytes, headers: Headers, index: int, ordinal: int, position: int, starts: Ints, ends: Ints, slot: int
) -> int:
    """The records of one batch from the `ordinal`-th on; returns where the last one ends."""
    end = int(headers.end[index])
    left = int(headers.count[index]) - ordinal
    content = source.array[position:end].tobytes()
    size, at = len(content), 0
    found: list[int] = []
    closed: list[int] = []
    for _ in range(left):
        if at >= size:
            raise _bad(headers, index, "records that do not fill it")
        raw = content[at]
        at += 1
        shift = 7
        if raw > 127:
            raw &= 127
            while True:
                if at >= size or shift > 28:
                    raise _bad(headers, index, "a record longer than its batch")
                byte = content[at]
                at += 1
                raw |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
        if raw & 1 or at + (raw >> 1) > size:
            raise _bad(headers, index, "a record longer than its batch")
        found.append(at)
        at += raw >> 1
        closed.append(at)
    starts[slot : slot + left] = np.array(found, np.int64) + position
    ends[slot : slot + left] = np.array(closed, np.int64) + position
    return position + at
