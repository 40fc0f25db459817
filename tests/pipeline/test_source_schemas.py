"""Spark understands the schemas that the views declare."""

import pytest

pa = pytest.importorskip("pyarrow")

from pyspark_coordinator_log.columns import ENVELOPE, SCHEMAS, VIEWS, ddl  # noqa: E402


@pytest.mark.parametrize("view", VIEWS)
def test_the_arrow_schema_and_the_ddl_agree(spark, view):
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    assert StructType.fromDDL(ddl(view)) == from_arrow_schema(SCHEMAS[view])


def test_every_view_begins_with_the_same_columns():
    assert {tuple(SCHEMAS[view].names[: len(ENVELOPE)]) for view in VIEWS} == {tuple(name for name, _ in ENVELOPE)}
