"""A read returns the same batches whether or not the index lets it skip headers."""

from random import Random

import pytest

from coordinator_lab.simulation.disk import SimulatedDisk
from tests.log.log_helpers import append, offsets, open_log


@pytest.mark.parametrize("interval", [0, 100, 700, 1 << 30])
def test_bounds_hold_for_every_distance_of_index_entries(interval):
    random = Random(interval)
    log = open_log(SimulatedDisk(), index_interval_bytes=interval, segment_bytes=20_000)
    bases, sizes = [], []
    for _ in range(120):
        bases.append(log.end_offset)
        before = log.size_bytes
        append(log, *[(b"k", b"v" * random.randrange(300))] * random.randrange(1, 4))
        sizes.append(log.size_bytes - before)
    for _ in range(300):
        offset, bytes_max = random.randrange(log.end_offset), random.randrange(4_000)
        offset_end = random.randrange(offset, log.end_offset + 1)
        first = max(n for n, base in enumerate(bases) if base <= offset)
        ends = [*bases[1:], log.end_offset]
        segment_end = next((s.base_offset for s in log.segments if s.base_offset > offset), log.end_offset)
        wanted, total = [], 0
        for n in range(first, len(bases)):
            total += sizes[n]
            if ends[n] > min(offset_end, segment_end) or (total > bytes_max and wanted):
                break
            wanted.append(bases[n])
        assert offsets(log.read(offset, bytes_max, offset_end=offset_end)) == wanted


def test_headers_of_large_batches_are_skipped(monkeypatch):
    log = open_log(SimulatedDisk(), segment_bytes=10 << 20)
    for _ in range(20):
        append(log, (b"k", b"v" * 100_000))
    file, reads = type(log.segments[0].file), []
    pread = file.pread
    monkeypatch.setattr(file, "pread", lambda self, at, count: reads.append(count) or pread(self, at, count))
    assert len(offsets(log.read(0, 1 << 20))) == 10
    assert len(reads) <= 3
