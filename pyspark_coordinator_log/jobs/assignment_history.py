"""The history of member epochs and partition owners: two interval tables with point-in-time lookup.

This is the small side of the join: it grows with rebalances, not with commits. So Spark takes it to the tasks that read
the commits, as sorted integers of one shard, and each commit finds its interval by binary search. The commits, typically a
hundred times more, are not sorted. (Window functions over both sides would sort every commit twice, at ten times the cost.)

An interval is found by its subject (a member, or a member and partition) and its start. Subjects are numbered, and starts
are replaced by their rank among all start offsets, so `subject * ranks + rank` is a single integer. It cannot overflow below
three billion rows. Nothing is hashed, so there are no collisions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
NONE = -(1 << 62)
"""Stands for null: smaller than every real number, and equal to none."""
OPEN = (1 << 62) - 1
"""The end of an interval that has not ended."""
Who = tuple[str, int, str, str]
"""(log_id, shard, group, member)."""
MEMBER_COLUMNS = ("log_id", "shard", "group", "member_id")


def integers(column: Any) -> Ints:
    """An Arrow column of integers or booleans as NumPy integers; null becomes NONE."""
    if column.null_count:
        column = pc.fill_null(column.cast(pa.int64()), NONE)
    values: Ints = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return values


class EncodedColumn:
    """A column with few distinct values: the values, and the code of each row (-1 is null)."""

    __slots__ = ("codes", "values")

    def __init__(self, column: Any) -> None:
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        self.values: list[Any] = coded.dictionary.to_pylist()
        indices = coded.indices
        self.codes: Ints = (pc.fill_null(indices, -1) if indices.null_count else indices).to_numpy().astype(np.int64)

    def mapped(self, numbers: Sequence[int], absent: int) -> Ints:
        """Replaces each row's value by a number; `numbers` corresponds to `values`, and null becomes `absent`."""
        table = np.array([*numbers, absent], np.int64)
        return table[self.codes]


def unique_combinations(columns: Sequence[EncodedColumn]) -> tuple[list[tuple[Any, ...]], Ints]:
    """The distinct combinations of some columns, and the index of each row's combination."""
    key = columns[0].codes + 1
    for column in columns[1:]:
        key = key * (len(column.values) + 1) + column.codes + 1
    different, which = np.unique(key, return_inverse=True)
    found = []
    for number in different.tolist():
        parts, left = [], number
        for column in reversed(columns):
            left, code = divmod(left, len(column.values) + 1)
            parts.append(column.values[code - 1] if code else None)
        found.append(tuple(reversed(parts)))
    return found, which


class _IntervalIndex:
    """Intervals sorted by subject and start."""

    __slots__ = ("about", "key", "order", "step", "to_offset")

    def __init__(self, about: Ints, began: Ints, to_offset: Ints, step: int) -> None:
        key = about * step + began
        self.step = step
        self.order: Ints = np.argsort(key, kind="stable")
        self.key = key[self.order]
        self.about = about[self.order]
        self.to_offset = to_offset[self.order]

    def find(self, about: Ints, rank: Ints, position: Ints) -> tuple[Ints, Mask]:
        """Finds the interval that covers each position: its index, and whether there is one."""
        place = np.searchsorted(self.key, about * self.step + rank) - 1
        found = (place >= 0) & (about >= 0)
        at = place[found]
        found[found] = (self.about[at] == about[found]) & (self.to_offset[at] >= position[found])
        return place, found


def _where(found: Mask, values: Ints, place: Ints) -> Ints:
    """The value at each place; NONE where nothing was found."""
    out = np.full(len(found), NONE, np.int64)
    out[found] = values[place[found]]
    return out


def _rank_in(table: Ints, values: Ints) -> Ints:
    """The index of each value in a sorted table of distinct values; -1 if it is not there."""
    if not len(table):
        return np.full(len(values), -1, np.int64)
    place = np.minimum(np.searchsorted(table, values), len(table) - 1)
    return np.where(table[place] == values, place, -1)


@dataclass(slots=True)
class MemberStates:
    """The state of members at given positions. `is_there`: whether the member existed."""

    is_there: Mask
    epoch: Ints
    revocation_epoch: Ints
    holds: Mask
    """Whether the member's assignment is known."""


@dataclass(slots=True)
class Ownerships:
    """Whether members owned partitions at given positions, and since which epoch: by history, and as recorded."""

    is_owned: Mask
    acquired: Ints
    recorded: Ints


class AssignmentHistory:
    """The intervals of all members of a shard and of the partitions they held.

    `members`: one row per record about a member, with MEMBER_COLUMNS, from_offset, to_offset, epoch, revocation_epoch, holds.
    `held`: one row per partition and run of records that describe it identically: MEMBER_COLUMNS, from_offset, to_offset,
    topic_key, partition, since (as recorded) and acquired (the epoch in which the member got it).
    """

    def __init__(self, members: Any, held: Any) -> None:
        who, of = unique_combinations([EncodedColumn(_column(members, name)) for name in MEMBER_COLUMNS])
        self._who: dict[Who, int] = {each: number for number, each in enumerate(who)}
        began = integers(_column(members, "from_offset"))
        held_began = integers(_column(held, "from_offset"))
        self._ownership_start = np.unique(np.concatenate([began, held_began]))
        step = len(self._ownership_start) + 1
        ends = _ends(_column(members, "to_offset"))
        self._members = _IntervalIndex(of, np.searchsorted(self._ownership_start, began), ends, step)
        self._epoch = integers(_column(members, "epoch"))[self._members.order]
        self._lost = integers(_column(members, "revocation_epoch"))[self._members.order]
        self._holds = integers(_column(members, "holds"))[self._members.order]

        topics = EncodedColumn(_column(held, "topic_key"))
        self._topics: dict[str, int] = {topic: number for number, topic in enumerate(topics.values)}
        partition = integers(_column(held, "partition"))
        self._partitions = int(partition.max(initial=-1)) + 1
        pairs = topics.codes * self._partitions + partition
        self._pairs = np.unique(pairs)
        owners, which = unique_combinations([EncodedColumn(_column(held, name)) for name in MEMBER_COLUMNS])
        owner = np.array([self._who.get(each, -1) for each in owners], np.int64)[which]
        about = owner * len(self._pairs) + _rank_in(self._pairs, pairs)
        self._abouts = np.unique(about)
        self._held = _IntervalIndex(
            _rank_in(self._abouts, about),
            np.searchsorted(self._ownership_start, held_began),
            _ends(_column(held, "to_offset")),
            step,
        )
        self._acquired = integers(_column(held, "acquired"))[self._held.order]
        self._since = integers(_column(held, "since"))[self._held.order]

    @classmethod
    def empty(cls) -> "AssignmentHistory":
        """The history of a shard without members."""
        names = (*MEMBER_COLUMNS, "from_offset", "to_offset", "epoch", "revocation_epoch", "holds", "topic_key", "partition",
                 "since", "acquired")  # fmt: skip
        nothing = pa.table({name: pa.array([], pa.int64()) for name in names})
        return cls(nothing, nothing)

    def numbers(self, who: Sequence[tuple[Any, ...]]) -> Ints:
        """The internal number of each member; -1 if unknown."""
        return np.array([self._who.get(each, -1) for each in who], np.int64)

    def members_at(self, member: Ints, position: Ints) -> MemberStates:
        """The state of each member just before the given position."""
        place, found = self._members.find(member, np.searchsorted(self._ownership_start, position), position)
        epoch, lost, holds = (_where(found, each, place) for each in (self._epoch, self._lost, self._holds))
        return MemberStates(found, epoch, lost, holds > 0)

    def ownerships_at(self, member: Ints, topic: EncodedColumn, partition: Ints, position: Ints) -> Ownerships:
        """The ownership of each partition just before the given position."""
        numbers = topic.mapped([self._topics.get(each, -1) for each in topic.values], -1)
        possible = (numbers >= 0) & (member >= 0) & (partition >= 0) & (partition < self._partitions)
        pair = _rank_in(self._pairs, np.where(possible, numbers * self._partitions + partition, -1))
        possible &= pair >= 0
        about = _rank_in(self._abouts, np.where(possible, member * len(self._pairs) + pair, -1))
        place, found = self._held.find(about, np.searchsorted(self._ownership_start, position), position)
        acquired, since = _where(found, self._acquired, place), _where(found, self._since, place)
        return Ownerships(found, acquired, np.where(since == NONE, acquired, since))


def _column(table: Any, name: str) -> Any:
    """A column of a table as one contiguous array."""
    column = table.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _ends(column: Any) -> Ints:
    ends = integers(column)
    return np.where(ends == NONE, OPEN, ends)
