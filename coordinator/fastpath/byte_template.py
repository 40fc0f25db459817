"""Byte templates: messages that differ from an earlier one only in some fixed-width integers.

A template is made from two samples of a message whose integers differ in every byte (one has the complements of the other's)
and which are otherwise equal. Where the samples differ, the template has a variable field. So a template needs to know
nothing about the encoding: the codec stays the only code that does.
"""

from collections.abc import Mapping
from functools import lru_cache, partial
from itertools import groupby
from struct import Struct
from typing import Any, NamedTuple

_LAYOUTS_CACHED = 1_024


class Match(NamedTuple):
    """A message that matched a template: what all such messages share, and the values of the variable fields in order."""

    shared: Any
    values: tuple[int, ...]


class MatchTemplate:
    """Recognizes messages that equal a sample outside the variable fields, and reads those fields."""

    __slots__ = ("_common", "_read", "_read_common", "served", "size_bytes")

    made = staticmethod(partial(tuple.__new__, Match))
    """Creates a match without calling its constructor."""

    def __init__(self, sample: bytes, other: bytes, codes: Mapping[int, str]) -> None:
        """`codes`: a field's size in bytes -> its big-endian `struct` code, such as 8 -> "q"."""
        layout = common = ">"
        at = 0
        for start, size in [*_variable_fields(sample, other), (len(sample), 0)]:
            layout += f"{start - at}x{codes.get(size, '')}"
            common += f"{start - at}s{size}x"
            at = start + size
        self.served = 0
        """Messages that matched."""
        self.size_bytes = len(sample)
        self._read_common = _struct(common).unpack
        self._common = self._read_common(sample)
        self._read = _struct(layout).unpack

    def match(self, message: bytes) -> Any:
        """The `Match` of a message of the sample's size; None if it differs from the sample in another field."""
        if self._read_common(message) == self._common:
            self.served += 1
            return self.made((self, self._read(message)))
        return None


class FillTemplate:
    """Writes messages that equal a sample outside the variable fields.

    The caller puts every value into `parts`, at the places that `fields` lists, and then calls `pack(*parts)`.
    """

    __slots__ = ("fields", "pack", "parts")

    def __init__(self, sample: bytes, other: bytes, codes: Mapping[int, str]) -> None:
        """The arguments are those of `MatchTemplate`."""
        layout = ">"
        self.parts: list[Any] = []
        self.fields: list[int] = []
        """The indexes of the variable fields in `parts`."""
        at = 0
        for start, size in [*_variable_fields(sample, other), (len(sample), 0)]:
            layout += f"{start - at}s"
            self.parts.append(sample[at:start])
            at = start + size
            if size:
                values = _struct(">" + codes[size]).unpack(sample[start:at])
                layout += codes[size]
                self.fields += range(len(self.parts), len(self.parts) + len(values))
                self.parts += values
        self.pack = _struct(layout).pack


def _variable_fields(sample: bytes, other: bytes) -> list[tuple[int, int]]:
    """Start and size of every run of bytes in which the samples differ."""
    assert len(sample) == len(other)
    fields = []
    for differs, places in groupby(range(len(sample)), lambda place: sample[place] != other[place]):
        if differs:
            run = list(places)
            fields.append((run[0], len(run)))
    return fields


@lru_cache(_LAYOUTS_CACHED)
def _struct(layout: str) -> Struct:
    """Cached, because members whose names have the same lengths share a layout."""
    return Struct(layout)
