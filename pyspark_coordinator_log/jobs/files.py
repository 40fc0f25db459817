"""Parquet files that tasks write directly, as a by-product of judging.

Handing a table made in Python to Spark means that Spark takes every value apart and puts it together again to write it,
which costs more than making the table. When tasks and driver share a machine they share a disk, so a task writes its own
result: one file per day, named after the task, so that a retried task replaces it. A file gets its final name when it is
complete.
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


def write_atomically(path: Path, text: str) -> None:
    """Writes a text file under another name and renames it, so that readers never see a part of it."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


class DayFiles:
    """The files of one task, in one folder per day (UTC) of a millisecond column. After an error nothing is left behind."""

    def __init__(self, folder: Path, task: int, time_column: str, sought: Sequence[str]) -> None:
        """`sought`: columns that readers filter by. Their min/max statistics cost a third of writing the column."""
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
        # One row group per batch: each batch has its own dictionaries for its text columns.
        writer.write_table(pa.Table.from_batches([batch]))
