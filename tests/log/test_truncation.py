"""A log that loses its end, as a replica does that follows another leader: durably, and a start takes it for no damage."""

from random import Random

import pytest

from coordinator.log.log import Log
from coordinator_lab.simulation.disk import PowerCut, SimulatedDisk
from tests.log.log_helpers import FOLDER, append, content, open_log, settings

RECORDS = 12


def written(disk: SimulatedDisk) -> Log:
    """A log of several segments, with a record per batch."""
    log = open_log(disk, segment_bytes=250)
    for _ in range(RECORDS):
        append(log)
    log.sync()
    assert len(log.segments) > 3
    return log


def reopened(disk: SimulatedDisk, log: Log | None = None) -> Log:
    """The log in a new process. `log`: what the catalog says is there."""
    return Log.open(disk, FOLDER, settings(segment_bytes=250), None if log is None else log.known("t"))


@pytest.mark.parametrize("offset", range(RECORDS + 1))
def test_the_records_before_the_offset_stay_and_the_log_goes_on_there(offset: int) -> None:
    disk = SimulatedDisk()
    log = written(disk)
    before = content(log)
    log.truncate_from(offset, lambda: None)
    assert (log.end_offset, content(log)) == (offset, before[:offset])
    append(log, (b"new", b"value"))
    log.sync()
    for each in (log, reopened(disk, log)):
        assert (each.end_offset, content(each)) == (offset + 1, [*before[:offset], (b"new", b"value")])
        assert each.read(offset, 1000) == log.read(offset, 1000)


def test_a_log_that_is_cut_before_its_start_is_empty_there() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, (b"a", b""), (b"b", b""), (b"c", b""))
    log.sync()
    log.truncate_before(2)
    log.truncate_from(0, lambda: None)
    assert (log.start_offset, log.end_offset, content(log)) == (2, 2, [])
    append(log)
    log.sync()
    assert (reopened(disk, log).start_offset, reopened(disk, log).end_offset) == (2, 3)


@pytest.mark.parametrize("offset", [0, 3, 7, 11])
@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_at_any_operation_leaves_a_prefix_with_what_was_kept(offset: int, seed: int) -> None:
    """The catalog may be the one from before or from after; at the end, only the new one."""
    operations, is_over = 1, False
    while not is_over:
        disk, saved = SimulatedDisk(), []
        log = written(disk)
        before, old = content(log), log.known("t")
        disk.cut_after(operations)
        try:
            log.truncate_from(offset, lambda log=log, saved=saved: saved.append(log.known("t")))
            is_over = True
        except PowerCut:
            operations += 1
        disk.cut_never()
        disk.crash(Random(seed))
        catalog = saved[0] if saved else old
        found = Log.open(disk, FOLDER, settings(segment_bytes=250), catalog)
        assert offset <= found.end_offset <= (offset if is_over else RECORDS)
        assert content(found) == before[: found.end_offset]
    assert operations > 3
