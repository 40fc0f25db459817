"""Bytes that are the same again but for some numbers: a form, and its blanks.

A consumer commits the same partitions over and over. Of its request, of what the log keeps of it and of what is told of it
nothing changes but the offsets, and still each was read and written field by field. A form is made of such bytes once; then
they are read, or written, in one go.

It is found by comparing two samples, whose numbers differ in every byte (each is the other's complement, say) while nothing
else does. So whoever makes a form knows nothing of the encoding, and the code that reads or writes a message the ordinary
way stays the only one that does.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import groupby
from struct import Struct
from typing import Any, NamedTuple

_FORMATS_REMEMBERED = 1_024
_from_bytes = int.from_bytes


class Filled(NamedTuple):
    """A message that is a form filled in: what all of that form have in common, and the numbers in its blanks."""

    content: Any
    numbers: tuple[int, ...]


class ReadForm:
    """Recognises bytes that are like a sample, and reads their numbers."""

    __slots__ = ("_common", "_mask", "_read", "size_bytes")

    def __init__(self, sample: bytes, other: bytes, codes: Mapping[int, str]) -> None:
        """`codes`: how blanks are read, by their size in bytes; as for `struct`, big-endian."""
        mask = bytearray(b"\xff" * len(sample))
        format_ = ">"
        at = 0
        for start, size in _blanks(sample, other):
            mask[start : start + size] = bytes(size)
            format_ += f"{start - at}x{codes[size]}"
            at = start + size
        self.size_bytes = len(sample)
        self._mask = _from_bytes(mask)
        self._common = _from_bytes(sample) & self._mask
        self._read = _struct(f"{format_}{len(sample) - at}x").unpack

    def read(self, message: bytes) -> tuple[Any, ...] | None:
        """The numbers, if the bytes are like the sample; they must be as many."""
        if _from_bytes(message) & self._mask == self._common:
            return self._read(message)
        return None


class WriteForm:
    """Puts numbers in the blanks of a sample: among the parts, of which `pack` makes the bytes. Who uses it fills in all."""

    __slots__ = ("blanks", "pack", "parts")

    def __init__(self, sample: bytes, other: bytes, codes: Mapping[int, str]) -> None:
        """As above."""
        format_ = ">"
        self.parts: list[Any] = []
        self.blanks: list[int] = []
        """Where among the parts the numbers are."""
        at = 0
        for start, size in [*_blanks(sample, other), (len(sample), 0)]:
            format_ += f"{start - at}s"
            self.parts.append(sample[at:start])
            at = start + size
            if size:
                numbers = _struct(">" + codes[size]).unpack(sample[start:at])
                format_ += codes[size]
                self.blanks += range(len(self.parts), len(self.parts) + len(numbers))
                self.parts += numbers
        self.pack = _struct(format_).pack


def _blanks(sample: bytes, other: bytes) -> list[tuple[int, int]]:
    """Where the samples differ: start and size."""
    assert len(sample) == len(other)
    blanks = []
    for differs, places in groupby(range(len(sample)), lambda place: sample[place] != other[place]):
        if differs:
            run = list(places)
            blanks.append((run[0], len(run)))
    return blanks


@lru_cache(_FORMATS_REMEMBERED)
def _struct(format_: str) -> Struct:
    """Those of members with names of the same lengths are the same."""
    return Struct(format_)
