"""Merges the batches of a share partition: what a leader writes into what is there (Kafka's PersisterStateBatchCombiner).

Where batches overlap, each offset gets the one with the higher delivery count, and of two with the same count the one with the
higher delivery state. So the order of the writes does not matter: a write that comes late undoes nothing. Adjacent batches of
the same state become one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from operator import attrgetter
from struct import Struct

from coordinator.share_state.share_state import UNINITIALIZED_START_OFFSET, Batch

_Priority = tuple[int, int]
"""Delivery count and delivery state."""

_BATCH = Struct(">qqbh")
_first_offset = attrgetter("first_offset")
_last_offset = attrgetter("last_offset")


class Batches:
    """Ascending batches that do not overlap, packed: a share partition may have a batch for every record in flight."""

    __slots__ = ("_packed",)

    def __init__(self, batches: Iterable[Batch] = (), *, packed: bytes = b"") -> None:
        """`packed`: those before them."""
        self._packed = packed + b"".join(starmap(_BATCH.pack, batches))

    def __len__(self) -> int:
        return len(self._packed) // _BATCH.size

    def __getitem__(self, at: int) -> Batch:
        return Batch._make(_BATCH.unpack_from(self._packed, at * _BATCH.size))

    def __iter__(self) -> Iterator[Batch]:
        return map(Batch._make, _BATCH.iter_unpack(self._packed))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Batches) and self._packed == other._packed

    __hash__ = None  # type: ignore[assignment]

    def between(self, begin: int, end: int) -> list[Batch]:
        return [self[at] for at in range(begin, end)]

    def spliced(self, begin: int, end: int, batches: Iterable[Batch]) -> "Batches":
        """With these in place of those from `begin` to before `end`."""
        found = Batches(batches, packed=self._packed[: begin * _BATCH.size])
        found._packed += self._packed[end * _BATCH.size :]
        return found


NO_BATCHES = Batches()


def merged(batches: Batches, added: Iterable[Batch], start_offset: int) -> Batches:
    """The batches with those that are added (as for `normalized`), and without what lies before the start offset."""
    if start_offset != UNINITIALIZED_START_OFFSET:
        done = bisect_left(batches, start_offset, key=_last_offset)
        cut = done + (done < len(batches) and batches[done].first_offset < start_offset)
        if cut:
            batches = batches.spliced(0, cut, _from(batches.between(done, cut), start_offset))
    added = normalized(added, start_offset)
    if not added:
        return batches
    # A write touches few of many batches: those that neither overlap it nor are adjacent to it stay as they are.
    begin = bisect_left(batches, added[0].first_offset - 1, key=_last_offset)
    end = max(begin, bisect_right(batches, added[-1].last_offset + 1, key=_first_offset))
    return batches.spliced(begin, end, _swept([*batches.between(begin, end), *added]))


def normalized(batches: Iterable[Batch], start_offset: int) -> list[Batch]:
    """Batches in any order as `Batches` has them: ascending, merged where they overlap, and nothing before the start offset.

    A batch that ends before it begins is left out: Kafka's coordinator writes one if nothing else is there.
    """
    if start_offset != UNINITIALIZED_START_OFFSET:
        batches = _from(batches, start_offset)
    return _swept([each for each in batches if each.first_offset <= each.last_offset])


def _from(batches: Iterable[Batch], start_offset: int) -> list[Batch]:
    return [
        each if each.first_offset >= start_offset else each._replace(first_offset=start_offset)
        for each in batches
        if each.last_offset >= start_offset
    ]


def _swept(batches: Sequence[Batch]) -> list[Batch]:
    """Goes through the offsets at which a batch begins or ends, with the batches that are open there."""
    if len(batches) < 2:
        return list(batches)
    changes: dict[int, list[tuple[_Priority, int]]] = {}
    for first_offset, last_offset, state, count in batches:
        changes.setdefault(first_offset, []).append(((count, state), 1))
        changes.setdefault(last_offset + 1, []).append(((count, state), -1))
    found: list[Batch] = []
    is_open: dict[_Priority, int] = {}
    begin = 0
    for offset in sorted(changes):
        if is_open:
            _append(found, begin, offset - 1, max(is_open))
        for priority, change in changes[offset]:
            is_open[priority] = is_open.get(priority, 0) + change
        is_open = {priority: number for priority, number in is_open.items() if number}
        begin = offset
    return found


def _append(batches: list[Batch], first_offset: int, last_offset: int, priority: _Priority) -> None:
    count, state = priority
    if batches:
        before = batches[-1]
        if before.last_offset + 1 == first_offset and (before.delivery_count, before.delivery_state) == priority:
            batches[-1] = before._replace(last_offset=last_offset)
            return
    batches.append(Batch(first_offset, last_offset, state, count))
