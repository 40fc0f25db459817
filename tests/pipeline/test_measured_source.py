"""Planning a large log reads little of it, whatever its size, and the benchmark's log has the content it claims.

The speed itself is measured by `python -m pyspark_coordinator_log.measure`, on a quiet machine.
"""

import os

import pytest

pytest.importorskip("pyarrow")

from coordinator.log.batch import HEADER_BYTES
from pyspark_coordinator_log import folders, measure, planning
from pyspark_coordinator_log.columns import COMMITS, SCHEMAS
from pyspark_coordinator_log.options import parse
from pyspark_coordinator_log.reading import read

SEGMENTS, SEGMENT_BYTES, TASKS = 50 * 20, 114 * 1024 * 1024, 4000


class CountedIndex:
    """An index that counts how often it is looked at."""

    lookups = 0

    def __init__(self, content):
        self.content = content

    def __len__(self):
        return len(self.content)

    def __getitem__(self, place):
        CountedIndex.lookups += 1
        found = self.content[place]
        return CountedIndex(found) if found.ndim else found

    def reshape(self, *shape):
        return CountedIndex(self.content.reshape(*shape))


def test_planning_114_gb_reads_only_index_entries_and_batch_headers(tmp_path, monkeypatch):
    """One header per split, and a binary search in the index: no segment is walked, and no index is read through."""
    measure.make_sparse_log(tmp_path)
    sizes = []

    def counted_pread(descriptor, size, position):
        content = pread(descriptor, size, position)
        sizes.append(len(content))
        return content

    pread, memmap = os.pread, folders.np.memmap
    monkeypatch.setattr(folders.os, "pread", counted_pread)
    monkeypatch.setattr(folders.np, "memmap", lambda *given, **named: CountedIndex(memmap(*given, **named)))
    monkeypatch.setattr(CountedIndex, "lookups", 0)
    tasks = planning.tasks(parse({"path": str(tmp_path), "splitBytes": "32m"}))
    assert len(tasks) == TASKS
    assert sum(part.size_bytes for task in tasks for part in task) == SEGMENTS * SEGMENT_BYTES
    splits = TASKS - SEGMENTS
    assert sizes == [HEADER_BYTES] * splits
    # A binary search over an index of 29,183 entries takes 15 steps; a few more lookups slice it and read the result.
    assert CountedIndex.lookups <= 20 * (SEGMENTS + splits)


def test_the_benchmark_log_has_the_requested_content(tmp_path):
    measure.make_log(tmp_path, 4000, 20)
    options = parse({"path": str(tmp_path)})
    how = options.reading(SCHEMAS[COMMITS].names)
    tables = [table for task in planning.tasks(options) for part in task for table in read(part, how)]
    assert 4000 <= sum(table.num_rows for table in tables) < 4000 + measure.SHARDS * 1000
    assert all(table["problem"].null_count == table.num_rows for table in tables)
    assert measure.cpu_seconds() > 0
