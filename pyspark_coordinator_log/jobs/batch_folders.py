"""A table as folders named by batch number, which `follow` writes, compacts and deletes.

    NAME                        a symbolic link to the current version
    .NAME.7                     a version, whose unchanged files are hard links to those of the previous one
    .NAME.7/batch=000000000031  the rows of this batch, after compaction also of those since the previous folder

A batch that is repeated replaces its folder. Everything that changes several folders (compaction, retention) makes a new
version and exchanges the link, which is atomic. A reader that has listed the old version and opens a file that is only there
gets an error, never a wrong result: a compacted folder has the name of its last batch, so a listing that mixes two versions
finds either its rows or a file that is gone. The previous version stays until the next one, for readers of its real path.

Only batches before the one in progress are changed: Spark repeats the last batch, never an earlier one.
"""

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from pyspark_coordinator_log.jobs.files import DAY

COMPACT_EVERY = 32
"""How many batches are merged into one folder, and how many of those folders into a larger one."""
COMPACTED_BYTES_MAX = 256 << 20
"""Folders are not merged into a larger one than this."""
Fold = Callable[[DataFrame], DataFrame]
"""Selects the rows of deleted batches that must stay."""


@dataclass(frozen=True, slots=True)
class BatchFolders:
    """The batches of one table. Not safe for use by several threads or processes."""

    folder: Path

    def path(self, batch: int) -> Path:
        """The folder of a batch."""
        return self.folder / f"batch={batch:012d}"

    def batches(self) -> list[int]:
        """The numbers in the names of the folders, ascending."""
        return sorted(int(each.name.partition("=")[2]) for each in self.folder.glob("batch=*"))

    def write(self, batch: int, frame: DataFrame) -> None:
        """Writes the folder of a batch, replacing an existing one."""
        self.fill(batch, lambda new: frame.write.parquet(str(new)))

    def fill(self, batch: int, make: Callable[[Path], None]) -> None:
        """As `write`, for a function that creates the folder."""
        self._link_first_version()
        final = self.path(batch)
        new = final.with_name(f".{final.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        make(new)
        shutil.rmtree(final, ignore_errors=True)
        new.rename(final)

    def forget_before(self, batch: int) -> None:
        """Removes older folders, which no reader uses."""
        for each in self.batches():
            if each < batch:
                shutil.rmtree(self.path(each))

    def tidy(self, spark: SparkSession, batch: int, retain_s: float | None) -> None:
        """Compacts, and removes what was written longer ago than that. Is called before a batch is written."""
        self.compact(spark, batch)
        if old := self.expired(batch, retain_s):
            self.remove(spark, old)

    def compact(self, spark: SparkSession, batch: int) -> None:
        """Merges batches before `batch`, if it is time to."""
        spans = [COMPACT_EVERY]
        while batch and batch % (spans[-1] * COMPACT_EVERY) == 0:
            spans.append(spans[-1] * COMPACT_EVERY)
        if batch % COMPACT_EVERY:
            return
        # The widest first, because it includes the others.
        for span in reversed(spans):
            old = [each for each in self.batches() if batch - span <= each < batch]
            files = [file for each in old for file in self.path(each).rglob("*.parquet")]
            if sum(file.stat().st_size for file in files) <= COMPACTED_BYTES_MAX:
                if len(old) > 1:
                    self._replace(spark, old, lambda rows: rows)
                return

    def expired(self, batch: int, retain_s: float | None) -> list[int]:
        """The batches before `batch` that were written longer ago than that. The newest folder always stays."""
        if retain_s is None:
            return []
        oldest_s = time.time() - retain_s
        return [each for each in self.batches()[:-1] if each < batch and self._written_s(each) < oldest_s]

    def remove(self, spark: SparkSession, batches: Sequence[int], fold: Fold | None = None) -> None:
        """Removes batches, which must be the oldest; with `fold`, the rows that it returns stay in the last one's folder."""
        self._replace(spark, batches, fold)

    def read(self, spark: SparkSession, batches: Sequence[int]) -> DataFrame | None:
        """The rows of some batches; None if they have no files."""
        folders = [str(self.path(each)) for each in batches if next(self.path(each).rglob("*.parquet"), None)]
        # A newer release may have added a column.
        return spark.read.option("mergeSchema", True).parquet(*folders) if folders else None

    def _written_s(self, batch: int) -> float:
        """When the newest row was written, in seconds since 1970."""
        times = [file.stat().st_mtime for file in self.path(batch).rglob("*.parquet")]
        return max(times, default=self.path(batch).stat().st_mtime)

    def _replace(self, spark: SparkSession, batches: Sequence[int], fold: Fold | None) -> None:
        """Makes a version in which the rows of these batches are in the folder of the last one, and exchanges the link."""
        self._link_first_version()
        current = self.folder.resolve()
        number = int(current.name.rpartition(".")[2])
        version, new = self._version(number + 1), self.folder.with_name(f".{self.folder.name}.new")
        for each in (version, new):
            shutil.rmtree(each, ignore_errors=True)
        new.mkdir()
        for kept in self.batches():
            if kept not in batches:
                shutil.copytree(self.path(kept), new / self.path(kept).name, copy_function=os.link)
        rows = None if fold is None else self.read(spark, batches)
        if rows is not None and fold is not None:
            merged, written_s = new / self.path(batches[-1]).name, max(map(self._written_s, batches))
            writer = fold(rows).coalesce(1).write
            (writer.partitionBy(DAY) if DAY in rows.columns else writer).parquet(str(merged))
            for file in merged.rglob("*.parquet"):
                os.utime(file, (written_s, written_s))
        new.rename(version)
        self._link(version)
        for older in range(number - 1, -1, -1):
            if not self._version(older).is_dir():
                break
            shutil.rmtree(self._version(older))

    def _version(self, number: int) -> Path:
        return self.folder.with_name(f".{self.folder.name}.{number}")

    def _link(self, version: Path) -> None:
        new = self.folder.with_name(f".{self.folder.name}.link")
        new.unlink(missing_ok=True)
        new.symlink_to(version.name)
        new.replace(self.folder)

    def _link_first_version(self) -> None:
        """Makes the link, also for a folder of an earlier release, which had no versions."""
        if self.folder.is_symlink():
            return
        first = self._version(0)
        if self.folder.is_dir():
            self.folder.rename(first)
        first.mkdir(parents=True, exist_ok=True)
        self._link(first)
