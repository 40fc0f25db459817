"""What clients and data folders can tell of the language that Kafka is written in.

Whoever must come to the same result as Kafka where several are as good must also take them in the same order: that in which
a hash map lists its keys and a heap its equals.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

_INT_MAX = 0x7FFFFFFF
_CAPACITY_AT_FIRST = 16

T = TypeVar("T")


def string_hash(text: str) -> int:
    """Java's String.hashCode: 32-bit signed, over UTF-16 code units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8) + units[i + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value > _INT_MAX else value


def positive_hash(text: str) -> int:
    """The hash by which Kafka chooses a partition of its own topics: the absolute value, 0 where there is none."""
    value = string_hash(text)
    return 0 if value == -_INT_MAX - 1 else abs(value)


def hash_map_order(keys: Iterable[str], capacity: int = _CAPACITY_AT_FIRST, *, computed: bool = False) -> list[str]:
    """The keys as a HashMap lists them that was made for so many, and that got them in this order.

    `computed`: by computeIfAbsent, which puts a key before those of the same place and not behind them, and looks whether the
    table is full before, not after.
    """
    given = list(keys)
    size = 1
    while size < capacity:
        size *= 2
    while len(given) - computed > size * 3 // 4:
        size *= 2
    if computed:
        given.reverse()

    def place(key: str) -> int:
        value = string_hash(key) & 0xFFFFFFFF
        return (value ^ value >> 16) & (size - 1)

    return sorted(given, key=place)


class PriorityQueue(Generic[T]):
    """java.util.PriorityQueue: as with `heapq` the least comes first, but of equals another one."""

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
