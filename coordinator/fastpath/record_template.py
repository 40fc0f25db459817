"""Record templates: log records that repeat with other integers in their values go into a batch in one `pack`.

Between two commits of the same partitions only the integers change, and the records' offset deltas within the batch. A delta
is a varint of one or two bytes that the record's length includes, so there are two templates. Records that fit neither
(across the border between the two sizes, or beyond a few thousand records) are added the ordinary way.
"""

from collections.abc import Callable, Mapping, Sequence

from coordinator.fastpath.byte_template import FillTemplate
from coordinator.log.batch_builder import DELTAS, NEAR, BatchBuilder

Pairs = Sequence[tuple[bytes, bytes]]
"""Records as (key, value)."""


class RecordTemplate:
    """The template of `count` records that are always written together, and have the same variable fields each."""

    __slots__ = ("_codes", "_count", "_far", "_near", "_samples")

    def __init__(self, samples: Callable[[], tuple[Pairs, Pairs]], count: int, codes: Mapping[int, str]) -> None:
        """`samples()` returns two samples of the records; `codes` as for a byte template."""
        self._samples = samples
        self._codes = {**codes, 1: "1s", 2: "2s"}
        self._count = count
        self._near: _PlacedTemplate | None = None
        self._far: _PlacedTemplate | None = None

    def add_to(self, batch: BatchBuilder, *columns: Sequence[int]) -> list[bytes] | None:
        """Adds the records to the batch, and returns their values. Adds nothing, if they do not fit the template at this place.

        `columns`: for each variable field, its value in every record.
        """
        first, count = batch.count, self._count
        end = first + count
        if end < NEAR:
            template = self._near or self._make_near()
        elif first >= NEAR and end <= len(DELTAS):
            template = self._far or self._make_far()
        else:
            return None
        parts = template.parts
        parts[template.deltas] = DELTAS[first:end]
        for where, column in zip(template.columns, columns):  # noqa: B905 - costs time on every commit
            parts[where] = column
        encoded = template.pack(*parts)
        batch.add_encoded(encoded, count)
        return [encoded[where] for where in template.values]

    def _make_near(self) -> "_PlacedTemplate":
        sample, other = self._samples()
        self._near = _PlacedTemplate(sample, 0, other, 1, self._codes)
        return self._near

    def _make_far(self) -> "_PlacedTemplate":
        sample, other = self._samples()
        # The two samples are so far apart that both bytes of each delta differ.
        self._far = _PlacedTemplate(sample, NEAR, other, 2 * NEAR + 1, self._codes)
        return self._far


class _PlacedTemplate(FillTemplate):
    """A template for offset deltas of one size. All records have the same number of parts, and the delta is the first field."""

    __slots__ = ("columns", "deltas", "values")

    def __init__(self, sample: Pairs, at: int, other: Pairs, other_at: int, codes: Mapping[int, str]) -> None:
        super().__init__(_encoded(sample, at), _encoded(other, other_at), codes)
        count = len(sample)
        stride = (len(self.parts) - 1) // count
        self.deltas, *self.columns = (slice(field, None, stride) for field in self.fields[: len(self.fields) // count])
        # At the end of a record: the count of headers.
        ends = (len(_encoded(sample[:number], at)) - 1 for number in range(1, count + 1))
        self.values = [slice(end - len(value), end) for end, (_, value) in zip(ends, sample, strict=True)]


def _encoded(records: Pairs, first: int) -> bytes:
    batch = BatchBuilder(first)
    batch.add_all(records)
    return batch.records()
