"""`--format delta`: an audit's tables as Delta tables, readable by any Delta reader."""

from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.conftest import Written
from tests.pipeline.pipeline_rows import quick

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql.pandas.types import to_arrow_schema

from pyspark_coordinator_log.jobs import audit, sources, tables
from pyspark_coordinator_log.jobs.arguments import DELTA


def rows_of(path: Path) -> tuple[list[str], list[str]]:
    """The columns of a Delta table without `day`, and its rows as sorted text."""
    table = pa.table(DeltaTable(str(path)).to_pyarrow_dataset().to_table())
    names = [name for name in table.column_names if name != tables.DAY]
    return names, sorted(repr(row) for row in table.select(names).to_pylist())


def test_an_audit_writes_the_same_tables_as_delta_and_as_parquet(spark: Any, written: Written, tmp_path: Path) -> None:
    """This includes empty tables, which have their columns too."""
    with quick(spark):
        derived = tables.Derived(source=sources.from_log(spark, str(written.log), {}))
        *_, (_, found) = audit.audit(derived, tables.Store(spark, str(tmp_path), DELTA))
        assert found == audit.summary(written.derived)
    for name in audit.WRITTEN:
        as_parquet = written.tables[name].toArrow()
        names, rows = rows_of(tmp_path / name)
        assert names == as_parquet.column_names
        assert rows == sorted(repr(row) for row in as_parquet.to_pylist())
    assert rows_of(tmp_path / "invariants_broken")[1] != []
    assert rows_of(tmp_path / "deliveries")[1] == []


def test_a_delta_table_is_replaced_and_keeps_its_history(spark: Any, tmp_path: Path) -> None:
    store = tables.Store(spark, f"file://{tmp_path}", DELTA)
    for said in ("before", "after"):
        frame = spark.createDataFrame([(said, 86_400_000), (said, None)], "group string, time_ms bigint")
        read_back = store.write("epochs", frame)
        assert {tuple(row) for row in read_back.collect()} == {(said, 86_400_000), (said, None)}
        assert to_arrow_schema(read_back.schema) == to_arrow_schema(frame.schema)
    assert DeltaTable(str(tmp_path / "epochs")).version() == 1
    assert DeltaTable(str(tmp_path / "epochs")).metadata().partition_columns == [tables.DAY]
