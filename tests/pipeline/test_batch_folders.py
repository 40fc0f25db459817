"""Compaction and deletion of what `follow` has written: every row exactly once, whenever the process dies."""

import os
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark_coordinator_log.jobs import batch_folders
from pyspark_coordinator_log.jobs.batch_folders import BatchFolders

pytestmark = pytest.mark.usefixtures("quick_plans")


@pytest.fixture
def every_second_batch(monkeypatch):
    monkeypatch.setattr(batch_folders, "COMPACT_EVERY", 2)


def rows(spark, folder: Path) -> list[int]:
    return sorted(row["id"] for row in spark.read.parquet(str(folder)).collect())


def write(spark, table: BatchFolders, *batches: int) -> None:
    for batch in batches:
        table.compact(spark, batch)
        table.write(batch, spark.range(batch * 10, batch * 10 + 3, 1, 1))


def expected(*batches: int) -> list[int]:
    return [number for batch in batches for number in range(batch * 10, batch * 10 + 3)]


def test_compaction_keeps_every_row_in_fewer_folders(spark, tmp_path, every_second_batch):
    table = BatchFolders(tmp_path / "t")
    write(spark, table, *range(5))
    assert table.batches() == [3, 4]
    assert rows(spark, table.folder) == expected(*range(5))
    assert len([*table.path(3).glob("*.parquet")]) == 1


def test_the_last_batch_is_repeated_after_a_compaction_without_loss(spark, tmp_path, every_second_batch):
    """Spark repeats a batch that died, which has compacted the ones before."""
    table = BatchFolders(tmp_path / "t")
    write(spark, table, 0, 1, 2, 2)
    assert rows(spark, table.folder) == expected(0, 1, 2)


def test_a_reader_of_the_previous_version_still_finds_all_of_it(spark, tmp_path, every_second_batch):
    table = BatchFolders(tmp_path / "t")
    write(spark, table, 0, 1)
    before = table.folder.resolve()
    write(spark, table, 2)
    assert table.batches() == [1, 2]
    assert rows(spark, before) == expected(0, 1)


def test_a_listing_that_mixes_two_versions_is_an_error_or_complete(spark, tmp_path, every_second_batch):
    """Each folder is listed before or after the exchange of the link; files are opened afterwards."""
    table = BatchFolders(tmp_path / "t")
    write(spark, table, 0, 1)
    folders = [table.path(0), table.path(1)]
    before = {each: [file.relative_to(table.folder) for file in each.glob("*.parquet")] for each in folders}
    table.compact(spark, 2)
    after = {each: [file.relative_to(table.folder) for file in each.glob("*.parquet")] for each in folders}
    for first in (before, after):
        for second in (before, after):
            files = [table.folder / file for file in (*first[folders[0]], *second[folders[1]])]
            if all(file.exists() for file in files):
                found = spark.read.parquet(*map(str, files)).collect()
                assert sorted(row["id"] for row in found) == expected(0, 1)


@pytest.mark.parametrize("step", ["mkdir", "rename", "symlink_to", "replace"])
def test_a_compaction_that_dies_at_any_step_changes_nothing_and_is_repeated(
    spark, tmp_path, every_second_batch, monkeypatch, step
):
    table = BatchFolders(tmp_path / "t")
    write(spark, table, 0, 1)
    with monkeypatch.context() as patch:

        def dies(*_: object, **__: object) -> None:
            raise InterruptedError

        patch.setattr(Path, step, dies)
        with pytest.raises(InterruptedError):
            table.compact(spark, 2)
    assert rows(spark, table.folder) == expected(0, 1)
    write(spark, table, 2)
    assert table.batches() == [1, 2]
    assert rows(spark, table.folder) == expected(0, 1, 2)


def test_batches_are_deleted_by_the_time_when_their_newest_row_was_written(spark, tmp_path, every_second_batch):
    """A compacted folder is as old as the newest batch in it, and the newest folder stays."""
    table = BatchFolders(tmp_path / "t")
    write(spark, table, 0, 1)
    for file in table.folder.rglob("*.parquet"):
        os.utime(file, (1000, 1000))
    write(spark, table, 2, 3)
    assert table.expired(3, retain_s=3600.0) == [1]
    table.remove(spark, [1])
    assert rows(spark, table.folder) == expected(2, 3)
    assert table.expired(4, retain_s=0.0) == [2]


def test_folders_of_an_earlier_release_become_the_first_version(spark, tmp_path, every_second_batch):
    spark.range(0, 3, 1, 1).write.parquet(str(tmp_path / "t" / "batch=000000000000"))
    table = BatchFolders(tmp_path / "t")
    write(spark, table, 1, 2)
    assert table.folder.is_symlink()
    assert rows(spark, table.folder) == expected(0, 1, 2)
