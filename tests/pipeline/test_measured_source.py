"""What the source promises in figures, as far as a busy machine can check it, and that the figures' log is one."""

import time

import pytest

pytest.importorskip("pyarrow")

from pyspark_coordinator_log import measure, planning
from pyspark_coordinator_log.columns import COMMITS, SCHEMAS
from pyspark_coordinator_log.options import parse
from pyspark_coordinator_log.reading import read


def test_a_log_of_114_gb_is_planned_in_two_seconds_of_one_core(tmp_path):
    measure.make_sparse_log(tmp_path)
    begun = time.process_time()
    tasks = planning.tasks(parse({"path": str(tmp_path), "splitBytes": "32m"}))
    assert time.process_time() - begun <= 2
    assert len(tasks) == 4000
    assert sum(part.size_bytes for task in tasks for part in task) == 50 * 20 * 114 * 1024 * 1024


def test_the_log_that_is_measured_has_what_it_says(tmp_path):
    measure.make_log(tmp_path, 4000, 20)
    options = parse({"path": str(tmp_path)})
    how = options.reading(SCHEMAS[COMMITS].names)
    tables = [table for task in planning.tasks(options) for part in task for table in read(part, how)]
    assert 4000 <= sum(table.num_rows for table in tables) < 4000 + measure.SHARDS * 1000
    assert all(table["problem"].null_count == table.num_rows for table in tables)
    assert measure.cpu_seconds() > 0
