"""Records that are written again and again with other numbers in their values: put into a batch all in one go.

What differs between the records of one commit and those of the next are the numbers, and the records' places in their batch.
A place is a varint of one or of two bytes, and a record's length counts it, so there are two forms; what fits neither, at the
border between the two or behind thousands of records, goes the ordinary way, by which the forms are made, too.
"""

from collections.abc import Callable, Mapping, Sequence

from coordinator.log.batch_builder import DELTAS, NEAR, BatchBuilder
from coordinator.protocol.form import WriteForm

Pairs = Sequence[tuple[bytes, bytes]]
"""Records by key and value."""


class RecordsForm:
    """The form of some records that come together, and are alike but for the lengths of their keys and values."""

    __slots__ = ("_codes", "_count", "_far", "_near", "_samples")

    def __init__(self, samples: Callable[[], tuple[Pairs, Pairs]], count: int, codes: Mapping[int, str]) -> None:
        """`samples` gives two (protocol/form.py) of the same `count` records, in which each has the same blanks."""
        self._samples = samples
        self._codes = {**codes, 1: "1s", 2: "2s"}
        self._count = count
        self._near: _Placed | None = None
        self._far: _Placed | None = None

    def add_to(self, batch: BatchBuilder, *columns: Sequence[int]) -> bool:
        """Adds the records with these numbers, by blank and then by record; False if they must be added as others are."""
        first, count = batch.count, self._count
        end = first + count
        if end < NEAR:
            form = self._near or self._placed_near()
        elif first >= NEAR and end <= len(DELTAS):
            form = self._far or self._placed_far()
        else:
            return False
        parts = form.parts
        parts[form.places] = DELTAS[first:end]
        for where, column in zip(form.columns, columns):  # noqa: B905 - noticed with every commit
            parts[where] = column
        batch.add_encoded(form.pack(*parts), count)
        return True

    def _placed_near(self) -> "_Placed":
        sample, other = self._samples()
        self._near = _Placed(sample, 0, other, 1, self._codes)
        return self._near

    def _placed_far(self) -> "_Placed":
        sample, other = self._samples()
        # So far apart that both bytes of each place differ.
        self._far = _Placed(sample, NEAR, other, 2 * NEAR + 1, self._codes)
        return self._far


class _Placed(WriteForm):
    """Such a form where places have one size: behind the first, the same parts for each record, whose place is the first."""

    __slots__ = ("columns", "places")

    def __init__(self, sample: Pairs, at: int, other: Pairs, other_at: int, codes: Mapping[int, str]) -> None:
        super().__init__(_encoded(sample, at), _encoded(other, other_at), codes)
        count = len(sample)
        stride = (len(self.parts) - 1) // count
        self.places, *self.columns = (slice(blank, None, stride) for blank in self.blanks[: len(self.blanks) // count])


def _encoded(records: Pairs, first: int) -> bytes:
    batch = BatchBuilder(first)
    batch.add_all(records)
    return batch.records()
