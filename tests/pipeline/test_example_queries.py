"""The example queries and the notebook run on tables as they are, in Spark and in DuckDB."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

pytestmark = pytest.mark.usefixtures("quick_plans")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "spark"


def queries() -> list[str]:
    return [each for each in (EXAMPLES / "queries.sql").read_text().split(";") if each.strip()]


def test_the_notebook_answers_every_question_and_has_no_outputs(spark, written, monkeypatch):
    monkeypatch.setenv("COORDINATOR_TABLES", str(written.folder))
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


def test_duckdb_answers_the_same(spark, written):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    for table in written.folder.iterdir():
        if table.is_dir():
            connection.execute(f"CREATE VIEW {table.name} AS SELECT * FROM '{table}/**/*.parquet'")
            spark.read.parquet(str(table)).createOrReplaceTempView(table.name)
    for query in queries():
        # DuckDB quotes names as the SQL standard does.
        found = connection.execute(query.replace("`", '"')).fetchall()
        assert sorted(map(repr, found)) == sorted(repr(tuple(row)) for row in spark.sql(query).collect()), query
