"""Parquet files that tasks write themselves, in passing.

A table that is made in Python could be handed to Spark, which takes every value apart and puts it together again to write it;
that costs more than to make it. Where tasks and driver are one process they see one disk, and a task writes what it has made
as it is: one file for each day, under the task's number and so replaced if the task is run again, which has its name when
it is whole.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DAY = "day"
NO_DAY = "__HIVE_DEFAULT_PARTITION__"
_DAY_MS = 86_400_000


class DayFiles:
    """The files of one task, in folders by day (UTC) of a column of milliseconds. Left by an error, it leaves nothing."""

    def __init__(self, folder: Path, task: int, time_column: str, sought: Sequence[str]) -> None:
        """`sought`: by which rows are looked for. To note a column's least and most takes a third as long as to write it."""
        self._folder = folder
        self._name = f"part-{task:05d}.parquet"
        self._time_column = time_column
        self._sought = list(sought)
        self._open: dict[str, pq.ParquetWriter] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for day, writer in self._open.items():
            writer.close()
            if kind is None:
                self._new(day).replace(self._folder / day / self._name)
            else:
                self._new(day).unlink()

    def _new(self, day: str) -> Path:
        return self._folder / day / f".{self._name}.new"

    def add(self, batch: Any) -> None:
        """Appends the rows of a record batch."""
        time_ms = batch.column(self._time_column)
        days = np.unique(time_ms.drop_null().to_numpy() // _DAY_MS).tolist()
        if len(days) == 1 and not time_ms.null_count:
            self._write(days[0], batch)
            return
        numbers = time_ms.to_numpy(zero_copy_only=False) // _DAY_MS
        for day in days:
            self._write(day, batch.filter(pa.array(numbers == day)))
        if time_ms.null_count:
            self._write(None, batch.filter(time_ms.is_null()))

    def _write(self, day: int | None, batch: Any) -> None:
        name = f"{DAY}={NO_DAY if day is None else np.datetime64(int(day), 'D')}"
        writer = self._open.get(name)
        if writer is None:
            (self._folder / name).mkdir(parents=True, exist_ok=True)
            coded = [field.name for field in batch.schema if pa.types.is_dictionary(field.type)]
            writer = pq.ParquetWriter(
                self._new(name), batch.schema, use_dictionary=coded, store_schema=False, write_statistics=self._sought
            )
            self._open[name] = writer
        # A row group of its own for each batch: what its texts are coded by is another one's in the next.
        writer.write_table(pa.Table.from_batches([batch]))
