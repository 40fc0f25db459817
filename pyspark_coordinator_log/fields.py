"""The fields of many records gone through at once, one after the other: what decisions.py and assignments.py are made of.

Where a field begins may depend on what was read before it, in each record on other things; so a walk has a position in every
record, and reads the next field of all of them in one gather. What does not fit is not `sound` any more, is left where it is,
and what is read of it from then on means nothing; the codec, which knows everything that there may be, reads it again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_coordinator_log.buffers import Buffer, Ints, Mask

_TEXT_MAX = 0x7FFF
Selection = Mask | slice
"""Which records; all of them as a slice, which copies nothing."""


@dataclass(slots=True)
class Text:
    """Where texts are, and which of them there are."""

    start: Ints
    length: Ints
    present: Mask

    def select(self, chosen: Selection) -> "Text":
        """Those of some records."""
        return Text(self.start[chosen], self.length[chosen], self.present[chosen])


class FieldCursor:
    """Goes through the values of many records at once; `sound` are those in which everything fitted so far."""

    __slots__ = ("end", "position", "source", "valid")

    def __init__(self, source: Buffer, position: Ints, end: Ints) -> None:
        self.source, self.position, self.end = source, position, end
        self.valid = np.full(len(position), fill_value=True)

    def fields(self, layout: np.dtype[Any]) -> npt.NDArray[Any]:
        """A run of fixed-width fields."""
        found = self.source.structs(layout, np.minimum(self.position, self.end))
        self.position = self.position + layout.itemsize
        return found

    def text(self, *, nullable: bool) -> Text:
        """A compact text."""
        raw, start = self.source.unsigned(np.minimum(self.position, self.end))
        present = raw > 0
        if not nullable:
            self.valid &= present
        length = np.where(present, raw - 1, 0)
        self.valid &= (length <= _TEXT_MAX) & (start + length <= self.end)
        length = np.where(self.valid, length, 0)
        self.position = start + length
        return Text(start, length, present)

    def varint(self) -> Ints:
        """An unsigned varint."""
        found, self.position = self.source.unsigned(np.minimum(self.position, self.end))
        return found

    def skip(self, sizes: Ints) -> Ints:
        """Where so many bytes begin, in each record; goes behind them."""
        start = self.position
        self.valid &= start + sizes <= self.end
        self.position = np.where(self.valid, start + sizes, self.end)
        return start

    def tagged(self, tag: int) -> Ints:
        """The records whose tagged fields are this one: they are at its size now. Others must have none."""
        count = self.varint()
        has = np.flatnonzero((count == 1) & self.valid)
        self.valid &= count <= 1
        if has.size:
            part = self.select(has)
            part.valid &= part.varint() == tag
            self.merge(has, part)
        return has

    def no_tags(self) -> None:
        """No tagged fields."""
        self.valid &= self.varint() == 0

    def select(self, chosen: Ints) -> "FieldCursor":
        """A walk through some of the records, from here on."""
        return FieldCursor(self.source, self.position[chosen], self.end[chosen])

    def merge(self, chosen: Ints, part: "FieldCursor") -> None:
        """From where a walk through some of the records came to."""
        self.position[chosen] = part.position
        self.valid[chosen] &= part.valid

    def count(self) -> Ints:
        """The elements of a compact array; one that is null, or has more than could be, is not sound."""
        raw, self.position = self.source.unsigned(np.minimum(self.position, self.end))
        self.valid &= (raw > 0) & (raw - 1 <= self.end - self.position)
        return np.where(self.valid, raw - 1, 0)


def key_texts(keys: Buffer, start: Ints, length: Ints, count: int) -> tuple[list[Text], Mask]:
    """The texts that keys consist of behind their type, and whether they do: an int16 length, then UTF-8."""
    end = start + length
    position, fits, found = start + 2, np.full(len(start), fill_value=True), []
    for _ in range(count):
        size = keys.at("i2", np.minimum(position, end)).astype(np.int64)
        fits &= (size >= 0) & (position + 2 + size <= end)
        size = np.where(fits, size, 0)
        found.append(Text(position + 2, size, fits))
        position = position + 2 + size
    fits &= position == end
    return found, fits


def list_elements(counts: Ints) -> tuple[Ints, Ints]:
    """For the elements of lists of these lengths, all in one: the list of each, and its place in it."""
    which = np.repeat(np.arange(len(counts)), counts)
    return which, np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)


def names_of(numbered: npt.NDArray[Any], name_of: Callable[[int], str | None]) -> Any:
    """Names for small numbers of which there are few different ones."""
    if not len(numbered):
        return pa.nulls(0, pa.string())
    low = int(numbered.min())
    place = numbered.astype(np.int64) - low
    there = np.flatnonzero(np.bincount(place))
    rank = np.zeros(int(there[-1]) + 1, np.int32)
    rank[there] = np.arange(len(there))
    return pa.array([name_of(number) for number in (there + low).tolist()], pa.string()).take(pa.array(rank[place]))


def as_selection(mask: Mask) -> Selection:
    """The records that a mask names."""
    return slice(None) if mask.all() else mask
