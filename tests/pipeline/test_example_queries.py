"""The example queries and the notebook run on tables as they are, in Spark and in DuckDB."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.histories import SimulatedHistory

pytest.importorskip("pyspark")

from pyspark_coordinator_log.jobs import sources, tables

pytestmark = pytest.mark.usefixtures("quick_plans")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "spark"


@pytest.fixture(scope="module")
def folder(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a history with a second owner, whose commits are a zombie's."""
    here = tmp_path_factory.mktemp("queries")
    story = SimulatedHistory(5).run_workload(200)
    story.plant_second_owner()
    log = story.run_workload(20).write(here / "log")
    store = tables.Store(spark, str(here / "tables"), "parquet")
    for _ in tables.write_tables(tables.Derived(source=sources.from_log(spark, str(log), {})), store):
        pass
    return here / "tables"


def queries() -> list[str]:
    return [each for each in (EXAMPLES / "queries.sql").read_text().split(";") if each.strip()]


def test_the_notebook_answers_every_question_and_has_no_outputs(spark, folder, monkeypatch):
    monkeypatch.setenv("COORDINATOR_TABLES", str(folder))
    monkeypatch.setenv("COORDINATOR_QUERIES", str(EXAMPLES / "queries.sql"))
    notebook = json.loads((EXAMPLES / "tables.ipynb").read_text())
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec("".join(cell["source"]), names)
    assert len(names["answers"]) == 7
    for question, answer in names["answers"].items():
        assert answer.count() > 0 or "zombies" in question, question
    assert len(names["by_minute"]) > 0


def test_duckdb_answers_the_same(spark, folder):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    for table in folder.iterdir():
        if table.is_dir():
            connection.execute(f"CREATE VIEW {table.name} AS SELECT * FROM '{table}/**/*.parquet'")
            spark.read.parquet(str(table)).createOrReplaceTempView(table.name)
    for query in queries():
        # DuckDB quotes names as the SQL standard does.
        found = connection.execute(query.replace("`", '"')).fetchall()
        assert sorted(map(repr, found)) == sorted(repr(tuple(row)) for row in spark.sql(query).collect()), query
