"""What clients and data folders can observe of the language that Kafka is written in.

Where several results are equally good and ours must be Kafka's, candidates must be taken in Kafka's order: that in which a
HashMap lists its keys, or a PriorityQueue its equal elements.
"""

import re
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from typing import Generic, TypeVar

_INT_MAX = 0x7FFFFFFF
_LONG_MAX = 0x7FFFFFFFFFFFFFFF
_TRIMMED = "".join(map(chr, range(33)))
_NUMBER = re.compile(r"([+-]?)0*([0-9]{1,19})")
"""Zeros at the beginning are no part of the second group, because Python converts at most 4,300 digits."""
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?)")
_DURATION = re.compile(
    r"(?P<sign>[-+]?)P((?P<days>[-+]?[0-9]{1,15})D)?"
    r"(T(?P<time>((?P<hours>[-+]?[0-9]{1,15})H)?((?P<minutes>[-+]?[0-9]{1,15})M)?"
    r"((?P<seconds>[-+]?[0-9]{1,15})([.,](?P<fraction>[0-9]{0,9}))?S)?))?",
    re.IGNORECASE | re.ASCII,
)
_MILLISECONDS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}
_HASHES_CACHED = 16_384
"""Strings whose hashes are remembered: the member ids of a group are ordered again for each target."""
_CAPACITY_DEFAULT = 16
_LOAD_FACTOR = 0.75
_FIBONACCI = 0x9E3779B97F4A7C15
"""The multiplier of Knuth's multiplicative hashing, for 64 bits."""

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def trim(text: str) -> str:
    """Java's String.trim: without the control characters and spaces at both ends, and no other ones."""
    return text.strip(_TRIMMED)


def parse_long(text: str) -> int | None:
    """Java's Long.parseLong of the trimmed text; None for what is no number of 64 bits."""
    match = _NUMBER.fullmatch(trim(text))
    if match is None:
        return None
    value = int(match[2]) if match[1] != "-" else -int(match[2])
    return value if -_LONG_MAX - 1 <= value <= _LONG_MAX else None


def parse_double(text: str) -> float | None:
    """Java's Double.parseDouble, without its suffixes and hexadecimal numbers; None for what is no number."""
    return float(trim(text)) if _DOUBLE.fullmatch(trim(text)) else None


def parse_duration_ms(text: str) -> int | None:
    """Java's Duration.parse (ISO 8601, from days to seconds), in milliseconds rounded down; None for what is no duration."""
    match = _DURATION.fullmatch(text)
    if match is None or match["time"] == "" or all(match[unit] is None for unit in _MILLISECONDS):
        return None
    sign = -1 if match["seconds"] and match["seconds"].startswith("-") else 1
    whole = sum(int(match[unit] or 0) * length for unit, length in _MILLISECONDS.items())
    duration_ms = whole + sign * int(f"{match['fraction'] or '':0<3}"[:3])
    return -duration_ms if match["sign"] == "-" else duration_ms


def string_hash(text: str) -> int:
    """Java's String.hashCode: 32-bit signed, over UTF-16 code units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8) + units[i + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value > _INT_MAX else value


def positive_hash(text: str) -> int:
    """The hash by which Kafka chooses a partition of an internal topic (Utils.abs): its absolute value, 0 if that overflows."""
    value = string_hash(text)
    return 0 if value == -_INT_MAX - 1 else abs(value)


def hash_map_order(keys: Iterable[str], capacity: int = _CAPACITY_DEFAULT, *, computed: bool = False) -> list[str]:
    """Returns the keys in the order of a java.util.HashMap into which they were put in this order.

    `capacity`: the initial capacity of the map. `computed`: the keys were put by `computeIfAbsent`, which puts a key before the
    others of its bucket instead of behind them, and resizes the table before it adds the key instead of after.
    """
    return _in_buckets(list(keys), _spread_hash, capacity, computed=computed)


def object_map_order(keys: Iterable[K], hash_of: Callable[[K], int], capacity: int = _CAPACITY_DEFAULT) -> list[K]:
    """As `hash_map_order`, of keys that are no strings. `hash_of`: their hashCode, of which the lowest 32 bits count."""

    def spread(key: K) -> int:
        value = hash_of(key) & 0xFFFFFFFF
        return value ^ value >> 16

    return _in_buckets(list(keys), spread, capacity, computed=False)


def _in_buckets(listed: list[K], spread: Callable[[K], int], capacity: int, *, computed: bool) -> list[K]:
    size = 1
    while size < capacity:
        size *= 2
    while len(listed) - computed > size * 3 // 4:
        size *= 2
    if computed:
        listed.reverse()

    mask = size - 1
    buckets = [value & mask for value in map(spread, listed)]
    return [listed[index] for index in sorted(range(len(listed)), key=buckets.__getitem__)]


@lru_cache(maxsize=_HASHES_CACHED)
def _spread_hash(text: str) -> int:
    """The hash of which a java.util.HashMap takes the lowest bits."""
    value = string_hash(text)
    return value ^ value >> 16 & 0xFFFF


def copied_map_capacity(size: int) -> int:
    """The initial capacity of a java.util.HashMap that is made as a copy of a map of this size."""
    return int(size / _LOAD_FACTOR + 1) if size else _CAPACITY_DEFAULT


def timeline_map_order(keys: Iterable[str]) -> list[str]:
    """Returns the keys in the order of Kafka's `TimelineHashMap`, created empty, into which they were put in this order."""
    latest_first = list(keys)[::-1]
    bits = 1
    while len(latest_first) * _LOAD_FACTOR > 1 << bits:
        bits += 1

    def slot(key: str) -> int:
        return (string_hash(key) * _FIBONACCI & 0xFFFFFFFFFFFFFFFF) >> 64 - bits

    return sorted(latest_first, key=slot)


class PriorityQueue(Generic[T]):
    """java.util.PriorityQueue: like `heapq`, but equal elements come in another order."""

    __slots__ = ("_heap",)

    def __init__(self, entries: Iterable[tuple[float, T]] = ()) -> None:
        self._heap: list[tuple[float, T]] = []
        for priority, item in entries:
            self.push(priority, item)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, priority: float, item: T) -> None:
        heap = self._heap
        place = len(heap)
        heap.append((priority, item))
        while place:
            parent = (place - 1) // 2
            if priority >= heap[parent][0]:
                break
            heap[place] = heap[parent]
            place = parent
        heap[place] = (priority, item)

    def pop(self) -> T:
        heap = self._heap
        first = heap[0][1]
        last = heap.pop()
        size = len(heap)
        place = 0
        while place < size // 2:
            child = 2 * place + 1
            if child + 1 < size and heap[child][0] > heap[child + 1][0]:
                child += 1
            if last[0] <= heap[child][0]:
                break
            heap[place] = heap[child]
            place = child
        if size:
            heap[place] = last
        return first
