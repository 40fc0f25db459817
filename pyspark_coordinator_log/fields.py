"""Reads fields of many records in lockstep. decisions.py and assignments.py are built on this.

Where a field begins depends on the fields before it, differently in each record. So a cursor has one position per record and
reads the next field of all records in one gather. A record that does not fit is no longer `valid`; its position and all
values read from it are meaningless from then on, and the codec, which handles every form, decodes it again.
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
"""A selection of records. A slice selects all of them without a copy."""


@dataclass(slots=True)
class Text:
    """Positions of text values; `present` is false for null."""

    start: Ints
    length: Ints
    present: Mask

    def select(self, chosen: Selection) -> "Text":
        """The text of some records."""
        return Text(self.start[chosen], self.length[chosen], self.present[chosen])


class FieldCursor:
    """Reads the values of many records in lockstep. `valid`: records in which everything has fitted so far."""

    __slots__ = ("end", "position", "source", "valid")

    def __init__(self, source: Buffer, position: Ints, end: Ints) -> None:
        self.source, self.position, self.end = source, position, end
        self.valid = np.full(len(position), fill_value=True)

    def fields(self, layout: np.dtype[Any]) -> npt.NDArray[Any]:
        """Reads a struct of fixed-width fields."""
        found = self.source.structs(layout, np.minimum(self.position, self.end))
        self.position = self.position + layout.itemsize
        return found

    def text(self, *, nullable: bool) -> Text:
        """Reads a compact string."""
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
        """Reads an unsigned varint."""
        found, self.position = self.source.unsigned(np.minimum(self.position, self.end))
        return found

    def skip(self, sizes: Ints) -> Ints:
        """Skips this many bytes in each record; returns where they begin."""
        start = self.position
        self.valid &= start + sizes <= self.end
        self.position = np.where(self.valid, start + sizes, self.end)
        return start

    def tagged(self, tag: int) -> Ints:
        """Records with exactly this tagged field, positioned at its size. All others must have no tagged fields."""
        count = self.varint()
        has = np.flatnonzero((count == 1) & self.valid)
        self.valid &= count <= 1
        if has.size:
            part = self.select(has)
            part.valid &= part.varint() == tag
            self.merge(has, part)
        return has

    def no_tags(self) -> None:
        """Requires that there are no tagged fields."""
        self.valid &= self.varint() == 0

    def select(self, chosen: Ints) -> "FieldCursor":
        """A cursor over some of the records, from the current positions."""
        return FieldCursor(self.source, self.position[chosen], self.end[chosen])

    def merge(self, chosen: Ints, part: "FieldCursor") -> None:
        """Takes over the positions of a cursor over some of the records."""
        self.position[chosen] = part.position
        self.valid[chosen] &= part.valid

    def count(self) -> Ints:
        """Reads the length of a compact array. A null array, or one longer than the value, is invalid."""
        raw, self.position = self.source.unsigned(np.minimum(self.position, self.end))
        self.valid &= (raw > 0) & (raw - 1 <= self.end - self.position)
        return np.where(self.valid, raw - 1, 0)


def key_texts(keys: Buffer, start: Ints, length: Ints, count: int) -> tuple[list[Text], Mask]:
    """The strings that follow the type in a key (int16 length, UTF-8), and whether the key consists of exactly these."""
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
    """For the elements of lists with these lengths, concatenated: the list of each element, and its index there."""
    which = np.repeat(np.arange(len(counts)), counts)
    return which, np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)


def list_column(decoded: Mask, record: Ints, count: Ints, values: Any) -> Any:
    """A list per decoded record, made of parts of its values in order: `record` and `count` are those of each part."""
    rank = np.cumsum(decoded) - 1
    edges = np.zeros(int(decoded.sum()) + 1, np.int64)
    np.add.at(edges, rank[record] + 1, count)
    return pa.ListArray.from_arrays(pa.array(np.cumsum(edges).astype(np.int32)), values)


def names_of(numbered: npt.NDArray[Any], name_of: Callable[[int], str | None]) -> Any:
    """Maps small integers with few distinct values to names."""
    if not len(numbered):
        return pa.nulls(0, pa.string())
    low = int(numbered.min())
    place = numbered.astype(np.int64) - low
    there = np.flatnonzero(np.bincount(place))
    rank = np.zeros(int(there[-1]) + 1, np.int32)
    rank[there] = np.arange(len(there))
    return pa.array([name_of(number) for number in (there + low).tolist()], pa.string()).take(pa.array(rank[place]))


def as_selection(mask: Mask) -> Selection:
    """A mask as a selection."""
    return slice(None) if mask.all() else mask
