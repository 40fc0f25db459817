"""The schemas that the views declare."""

import pytest

pytest.importorskip("pyarrow")

from pyspark_coordinator_log.columns import ENVELOPE, SCHEMAS, VIEWS


def test_every_view_begins_with_the_same_columns():
    assert {tuple(SCHEMAS[view].names[: len(ENVELOPE)]) for view in VIEWS} == {tuple(name for name, _ in ENVELOPE)}
