"""`--format delta` and `--format iceberg`: tables that any reader of the format reads, with each batch of `follow` once."""

import os
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.conftest import Written
from tests.pipeline.pipeline_rows import open_rows, quick

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pyiceberg.table
from deltalake import DeltaTable
from pyiceberg.table import StaticTable
from pyspark.sql.pandas.types import to_arrow_schema

from pyspark_coordinator_log.jobs import audit, follow, open_tables, sources, tables
from pyspark_coordinator_log.jobs.arguments import PACKAGES
from pyspark_coordinator_log.jobs.files import NO_DAY

pytestmark = pytest.mark.parametrize("table_format", PACKAGES)


def test_an_audit_writes_the_same_tables_in_each_format(
    spark: Any, written: Written, tmp_path: Path, table_format: str
) -> None:
    """This includes empty tables, which have their columns too."""
    with quick(spark):
        derived = tables.Derived(source=sources.from_log(spark, str(written.log), {}))
        *_, (_, found) = audit.audit(derived, tables.Store(spark, str(tmp_path), table_format))
        assert found == audit.summary(written.derived)
    for name in audit.WRITTEN:
        as_parquet = written.tables[name].toArrow()
        rows = open_rows(table_format, tmp_path / name)
        if tables.BY_NAME[name].time_column is not None:
            rows = rows.drop([tables.DAY])
        assert rows.column_names == as_parquet.column_names
        assert sorted(map(repr, rows.to_pylist())) == sorted(map(repr, as_parquet.to_pylist()))
    assert open_rows(table_format, tmp_path / "invariants_broken").num_rows
    assert not open_rows(table_format, tmp_path / "deliveries").num_rows


def test_a_table_is_replaced_and_keeps_its_history(spark: Any, tmp_path: Path, table_format: str) -> None:
    store = tables.Store(spark, f"file://{tmp_path}", table_format)
    for said in ("before", "after"):
        frame = spark.createDataFrame([(said, 86_400_000), (said, None)], "group string, time_ms bigint")
        read_back = store.write("epochs", frame)
        assert {tuple(row) for row in read_back.collect()} == {(said, 86_400_000), (said, None)}
        assert to_arrow_schema(read_back.schema) == to_arrow_schema(frame.schema)
    if table_format == "delta":
        assert DeltaTable(str(tmp_path / "epochs")).version() == 1
        assert DeltaTable(str(tmp_path / "epochs")).metadata().partition_columns == [tables.DAY]
    else:
        table = StaticTable.from_metadata(str(tmp_path / "epochs"))
        assert [each.name for each in table.spec().fields] == [tables.DAY]
        first = table.snapshots()[0].snapshot_id
        assert set(table.scan(snapshot_id=first).to_arrow()["group"].to_pylist()) == {"before"}


SCHEMA = pa.schema([("offset", pa.int64())])
COMMITS = {"delta": (deltalake, "write_deltalake"), "iceberg": (pyiceberg.table.Transaction, "commit_transaction")}
"""What commits a batch."""


def stage(folder: Path, rows: dict[str, list[int]]) -> None:
    """Writes offsets by day, as Spark and its tasks do."""
    for day, found in rows.items():
        folder.joinpath(f"{tables.DAY}={day}").mkdir(parents=True)
        pq.write_table(pa.table({"offset": found}, SCHEMA), folder / f"{tables.DAY}={day}" / "part.parquet")


def staged(folder: Path, rows: dict[str, list[int]]) -> Any:
    shutil.rmtree(folder, ignore_errors=True)
    stage(folder, rows)
    return open_tables.rows_by_day(folder, SCHEMA, is_by_day=True)


def offsets(table_format: str, folder: Path) -> list[int]:
    return sorted(open_rows(table_format, folder)["offset"].to_pylist())


@pytest.fixture
def table(tmp_path: Path, table_format: str) -> open_tables.OpenTable:
    found = open_tables.open_table(table_format, tmp_path / "tables" / "t")
    assert found is not None
    return found


@pytest.mark.parametrize("commits", [False, True])
def test_a_batch_that_dies_before_or_after_its_commit_is_added_once(
    table: open_tables.OpenTable, table_format: str, commits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Spark repeats it, with the same rows."""
    batches = follow.OpenBatches("commit_verdicts", table)

    def batch(number: int, rows: dict[str, list[int]]) -> None:
        batches.fill(number, lambda new: stage(new, rows))

    batch(0, {"2026-01-01": [1, 2]})
    second = {"2026-01-01": [3], NO_DAY: [4]}
    where, name = COMMITS[table_format]
    commit = getattr(where, name)
    with monkeypatch.context() as patch:

        def dies(*given: Any, **fields: Any) -> None:
            if commits:
                commit(*given, **fields)
            raise InterruptedError

        patch.setattr(where, name, dies)
        with pytest.raises(InterruptedError):
            batch(1, second)
    for _ in range(2):
        batch(1, second)
        assert table.last_batch == 1
        assert offsets(table_format, table.folder) == [1, 2, 3, 4]


def test_tidying_keeps_every_row_of_the_days_that_stay_in_fewer_files(
    table: open_tables.OpenTable, tmp_path: Path, table_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in range(3):
        rows = {"2026-01-01": [batch], "2026-01-02": [10 + batch], NO_DAY: [20 + batch]}
        table.write(staged(tmp_path / "new", rows), batch)
    before = {Path(file.removeprefix("file://")) for file in table.files}
    assert len(before) == 9
    table.tidy(date(2026, 1, 2))
    assert offsets(table_format, table.folder) == [10, 11, 12, 20, 21, 22]
    assert len(table.files) == 2
    assert all(file.exists() for file in before)  # For readers of the versions before.
    for file in before:
        os.utime(file, (0, 0))
    monkeypatch.setattr(open_tables, "READERS_H", 0)
    table.tidy(None)
    assert not any(file.exists() for file in before)
    assert (offsets(table_format, table.folder), table.last_batch) == ([10, 11, 12, 20, 21, 22], 2)


def test_a_later_release_may_add_a_column(table: open_tables.OpenTable, tmp_path: Path, table_format: str) -> None:
    table.write(staged(tmp_path / "new", {"2026-01-01": [1]}), 0)
    folder = tmp_path / "new" / f"{tables.DAY}=2026-01-01"
    wider = SCHEMA.append(pa.field("more", pa.string()))
    pq.write_table(pa.table({"offset": [2], "more": ["x"]}, wider), folder / "part.parquet")
    table.write(open_tables.rows_by_day(tmp_path / "new", wider, is_by_day=True), 1)
    rows = open_rows(table_format, table.folder).to_pylist()
    assert {row["offset"]: row["more"] for row in rows} == {1: None, 2: "x"}


def test_an_iceberg_table_that_was_moved_is_not_continued(
    table: open_tables.OpenTable, tmp_path: Path, table_format: str
) -> None:
    """Its metadata has absolute paths. A Delta table has none."""
    table.write(staged(tmp_path / "new", {"2026-01-01": [1]}), 0)
    (tmp_path / "tables").rename(tmp_path / "moved")
    moved = open_tables.open_table(table_format, tmp_path / "moved" / "t")
    assert moved is not None
    if table_format == "delta":
        assert moved.last_batch == 0
    else:
        with pytest.raises(open_tables.Moved, match="cannot be moved or copied"):
            moved.last_batch  # noqa: B018
        (tmp_path / "moved" / open_tables.CATALOG).unlink()
        with pytest.raises(open_tables.Moved, match="cannot be moved or copied"):
            moved.write(staged(tmp_path / "new", {"2026-01-01": [2]}), 1)
        assert len([*moved.folder.glob("data/*")]) == 1
    moved.write(staged(tmp_path / "new", {"2026-01-01": [5]}))  # Replaced as a whole, it is where it is.
    assert offsets(table_format, moved.folder) == [5]
