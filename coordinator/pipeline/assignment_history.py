"""Who was at which epoch, and had which partition, when: two tables of intervals, and a look-up into the past of each.

Of a history of commits this is the small side: it grows with rebalances, and not with what is committed between them. So it
goes to where the commits are, as sorted numbers, and a commit finds its interval by bisection; the commits, of which there
are a hundred to one, are neither sorted nor moved. (Windows over both together sort every commit twice: ten times the work.)

An interval is found by who it is about and when it began. Both become ranks: those whom it is about are numbered, and of the
offsets at which anything began the i-th stands for itself, so that `number * offsets + rank` is one integer, which does not
overflow before there are three thousand million rows. Nothing is hashed, so nothing is mistaken for something else.
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
"""In place of null: less than any number there is, and equal to none."""
OPEN = (1 << 62) - 1
"""The end of what has not ended."""
Who = tuple[str, int, str, str]
"""(log_id, shard, group, member)."""
MEMBER_COLUMNS = ("log_id", "shard", "group", "member_id")


def integers(column: Any) -> Ints:
    """An Arrow column of integers or truth values; NONE where it is null."""
    if column.null_count:
        column = pc.fill_null(column.cast(pa.int64()), NONE)
    values: Ints = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return values


class EncodedColumn:
    """A column of few different values: which there are, and which of them each row has; -1 is null."""

    __slots__ = ("codes", "values")

    def __init__(self, column: Any) -> None:
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        self.values: list[Any] = coded.dictionary.to_pylist()
        indices = coded.indices
        self.codes: Ints = (pc.fill_null(indices, -1) if indices.null_count else indices).to_numpy().astype(np.int64)

    def mapped(self, numbers: Sequence[int], absent: int) -> Ints:
        """The number of each row's value, given those of `values`."""
        table = np.array([*numbers, absent], np.int64)
        return table[self.codes]


def unique_combinations(columns: Sequence[EncodedColumn]) -> tuple[list[tuple[Any, ...]], Ints]:
    """The different combinations that there are, and which of them each row has."""
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
    """Intervals in the order of whom they are about and when they began."""

    __slots__ = ("about", "key", "order", "step", "to_offset")

    def __init__(self, about: Ints, began: Ints, to_offset: Ints, step: int) -> None:
        key = about * step + began
        self.step = step
        self.order: Ints = np.argsort(key, kind="stable")
        self.key = key[self.order]
        self.about = about[self.order]
        self.to_offset = to_offset[self.order]

    def find(self, about: Ints, rank: Ints, position: Ints) -> tuple[Ints, Mask]:
        """The place of the interval that holds at each position, and whether there is one."""
        if not len(self.key):
            return np.zeros(len(about), np.int64), np.zeros(len(about), bool)
        place = np.searchsorted(self.key, about * self.step + rank) - 1
        found = (place >= 0) & (about >= 0)
        place = np.maximum(place, 0)
        found &= (self.about[place] == about) & (self.to_offset[place] >= position)
        return place, found


def _rank_in(table: Ints, values: Ints) -> Ints:
    """The place of each value in a sorted table of different ones; -1 for one that is not there."""
    if not len(table):
        return np.full(len(values), -1, np.int64)
    place = np.minimum(np.searchsorted(table, values), len(table) - 1)
    return np.where(table[place] == values, place, -1)


@dataclass(slots=True)
class MemberStates:
    """What a member was at each of some positions; `is_there` says whether it was."""

    is_there: Mask
    epoch: Ints
    revocation_epoch: Ints
    holds: Mask
    """Whether it can be known what it held."""


@dataclass(slots=True)
class Ownerships:
    """Whether partitions were their member's, and since which epoch: by history, and as its records say."""

    is_owned: Mask
    acquired: Ints
    recorded: Ints


class AssignmentHistory:
    """The intervals of all members and of all that they held; it is sent to the tasks as it is.

    `members`: one row per record about a member, with MEMBER_COLUMNS, from_offset, to_offset, epoch, revocation_epoch, holds.
    `held`: one row per partition and run of records that say the same of it: the same, with topic_key, partition, since
    (as recorded) and acquired (the epoch in which it got it).
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
        self._holds: Mask = integers(_column(members, "holds"))[self._members.order] > 0

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

    def numbers(self, who: Sequence[tuple[Any, ...]]) -> Ints:
        """How members are known here; -1 for one that is not."""
        return np.array([self._who.get(each, -1) for each in who], np.int64)

    def members_at(self, member: Ints, position: Ints) -> MemberStates:
        """The members as they were before what came at these positions."""
        place, found = self._members.find(member, np.searchsorted(self._ownership_start, position), position)
        if not len(self._epoch):
            nothing = np.full(len(member), NONE, np.int64)
            return MemberStates(found, nothing, nothing, found)
        return MemberStates(
            found,
            np.where(found, self._epoch[place], NONE),
            np.where(found, self._lost[place], NONE),
            found & self._holds[place],
        )

    def ownerships_at(self, member: Ints, topic: EncodedColumn, partition: Ints, position: Ints) -> Ownerships:
        """The partitions as they were then."""
        numbers = topic.mapped([self._topics.get(each, -1) for each in topic.values], -1)
        possible = (numbers >= 0) & (member >= 0) & (partition >= 0) & (partition < self._partitions)
        pair = _rank_in(self._pairs, np.where(possible, numbers * self._partitions + partition, -1))
        possible &= pair >= 0
        about = _rank_in(self._abouts, np.where(possible, member * len(self._pairs) + pair, -1))
        place, found = self._held.find(about, np.searchsorted(self._ownership_start, position), position)
        if not len(self._acquired):
            nothing = np.full(len(member), NONE, np.int64)
            return Ownerships(found, nothing, nothing)
        acquired = np.where(found, self._acquired[place], NONE)
        since = np.where(found, self._since[place], NONE)
        return Ownerships(found, acquired, np.where(since == NONE, acquired, since))


def _column(table: Any, name: str) -> Any:
    """A column of a table as one array."""
    column = table.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _ends(column: Any) -> Ints:
    ends = integers(column)
    return np.where(ends == NONE, OPEN, ends)
