"""Reads many values at once from one buffer, at arbitrary positions. The decoder is built on this.

A field of all records in a chunk is a column of positions, and reading it is one gather. Two techniques avoid copies: a view
with a struct beginning at *every* byte (`Buffer.structs`), and Arrow strings, which are offsets into a buffer. Strings at
ascending positions are slices of the buffer; the gaps between them become strings too and are dropped afterwards
(`Buffer.slices`). No value ever becomes a Python object.

No position is trusted. Every buffer ends with PADDING zero bytes; callers clip positions to the buffer and compare with the
true end afterwards, once per column instead of before each read.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

PADDING = 64
"""Exceeds the longest struct that is read at one clipped position."""

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def room(size: int) -> npt.NDArray[np.uint8]:
    """An uninitialized array of this size, with zeroed padding."""
    out = np.empty(size + PADDING, np.uint8)
    out[size:] = 0
    return out


def padded(content: bytes | memoryview) -> npt.NDArray[np.uint8]:
    """A copy with padding."""
    out = room(len(content))
    out[: len(content)] = np.frombuffer(content, np.uint8)
    return out


class Buffer:
    """A padded buffer. `size` excludes the padding."""

    __slots__ = ("_buffer", "_views", "array", "size")

    def __init__(self, array: npt.NDArray[np.uint8]) -> None:
        self.array = array
        self.size = len(array) - PADDING
        self._views: dict[int, npt.NDArray[Any]] = {}
        self._buffer: Any = None

    @property
    def arrow_buffer(self) -> Any:
        """The same bytes as an Arrow buffer."""
        if self._buffer is None:
            self._buffer = pa.py_buffer(self.array)
        return self._buffer

    def structs(self, layout: np.dtype[Any], positions: Ints) -> npt.NDArray[Any]:
        """Structs of fixed-width fields at any positions: one gather for all fields.

        Gathering raw bytes and reinterpreting them takes half the time of gathering unaligned big-endian numbers.
        """
        width = layout.itemsize
        view = self._views.get(width)
        if view is None:
            view = np.ndarray((len(self.array) - width + 1,), f"V{width}", self.array, strides=(1,))
            self._views[width] = view
        return view[positions].view(layout)

    def at(self, kind: str, positions: Ints) -> npt.NDArray[Any]:
        """Big-endian numbers of a NumPy type ("i8", "i4", "i2", "u4") at any positions, in native byte order."""
        if kind == "i2":
            high = self.array.take(positions, mode="clip").astype(np.int16)
            return (high << 8) | self.array.take(positions + 1, mode="clip")
        return self.structs(np.dtype(f">{kind}"), positions).astype(kind)

    def unsigned(self, positions: Ints) -> tuple[Ints, Ints]:
        """Decodes varints of at most five bytes: their values, and the positions after them.

        A longer one gets the value `ENDLESS`, which no valid length has.
        """
        first = self.array.take(positions, mode="clip")
        more = first > 127
        if not more.any():
            return first.astype(np.int64), positions + 1
        pair = first | self.array.take(positions + 1, mode="clip").astype(np.uint16) << 8
        value = _PAIR_VALUE.take(pair).astype(np.int64)
        after = positions + _PAIR_BYTES.take(pair)
        left = np.flatnonzero(value < 0)
        value[left] = ~value[left]
        shift = 14
        while left.size:
            byte = self.array[np.minimum(after[left], self.size)].astype(np.int64)
            value[left] |= (byte & 127) << shift
            after[left] += 1
            left = left[byte > 127]
            shift += 7
            if shift > 28 and left.size:
                value[left] = ENDLESS
                break
        return value, after

    def signed(self, positions: Ints) -> tuple[Ints, Ints]:
        """Decodes zigzag varints of at most ten bytes: the deltas of a record."""
        value, after = self.unsigned(positions)
        long = np.flatnonzero(value == ENDLESS)
        for at in long.tolist():
            number, shift, position = 0, 0, int(positions[at])
            while shift < 70:
                byte = int(self.array[position])
                number |= (byte & 127) << shift
                position, shift = position + 1, shift + 7
                if byte < 128:
                    break
            number &= (1 << 64) - 1
            value[at] = np.array(number, np.uint64).astype(np.int64)
            after[at] = position
        if long.size:
            half = (value.astype(np.uint64) >> np.uint64(1)).astype(np.int64)
            return half ^ -(value & 1), after
        return (value >> 1) ^ -(value & 1), after

    def slices(self, starts: Ints, lengths: Ints, present: Mask | None) -> Any:
        """Arrow binaries of `[start, start + length)`; null where not present.

        Those present must be in ascending order, disjoint, and inside the buffer.
        """
        count = len(starts)
        ends = starts + lengths
        if present is not None and not present.all():
            # A null is an empty slice at the end of its predecessor.
            ends = np.maximum.accumulate(np.where(present, ends, 0))
            before = np.empty_like(ends)
            before[:1] = 0
            before[1:] = ends[:-1]
            starts = np.where(present, starts, before)
            nulls = ~present
        else:
            nulls = None
        offsets = np.empty(2 * count + 1, np.int32)
        offsets[0] = 0
        offsets[1::2] = starts
        offsets[2::2] = ends
        whole = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), self.arrow_buffer])
        return whole.take(pa.array(np.arange(1, 2 * count, 2, dtype=np.int32), mask=nulls))

    def texts(self, starts: Ints, lengths: Ints, present: Mask | None) -> Any:
        """As `slices`, as text. Invalid UTF-8 gets replacement characters, as in Kafka's own reader."""
        if not lengths.any():
            return _empty_texts(len(starts), present)
        found = self.slices(starts, lengths, present)
        content = found.buffers()[2]
        if content is None or not (np.frombuffer(content, np.uint8) & 128).any():
            return found.view(pa.string())  # ASCII only: valid without a check
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.array(
                [None if each is None else each.decode("utf-8", "replace") for each in found.to_pylist()], pa.string()
            )


def _empty_texts(count: int, present: Mask | None) -> Any:
    """Empty strings: the metadata of most commits."""
    empty = pa.repeat(pa.scalar(""), count)
    if present is None or present.all():
        return empty
    return pa.Array.from_buffers(pa.string(), count, [pa.array(present).buffers()[1], *empty.buffers()[1:]])


ENDLESS = 1 << 40


def _pairs() -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int8]]:
    """For every pair of bytes (low byte first): the varint it begins with, and how many of the two bytes that takes.

    If the varint is longer than two bytes, the value is the complement of its lowest fourteen bits.
    """
    pair = np.arange(1 << 16)
    first, second = pair & 255, pair >> 8
    both = (first & 127) | (second & 127) << 7
    value = np.where(first < 128, first, np.where(second < 128, both, ~both))
    # Narrow types, so that the tables fit in a core's cache.
    return value.astype(np.int16), np.where(first < 128, 1, 2).astype(np.int8)


_PAIR_VALUE, _PAIR_BYTES = _pairs()


def numbers(values: npt.NDArray[Any], present: Mask | None = None) -> Any:
    """An Arrow column; null where not present."""
    if not values.dtype.isnative or not values.flags.aligned:
        values = values.astype(values.dtype.newbyteorder("="))
    return pa.array(values, mask=None if present is None or present.all() else ~present)
