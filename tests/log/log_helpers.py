"""Helpers for tests of the log: batches with known content, logs on simulated disks, and a worker that the test controls."""

from collections import deque

from coordinator.log.batch import split
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.log import Log, LogSettings
from coordinator.log.timestamps import search_latest_timestamp, search_timestamp
from coordinator_lab.simulation.disk import SimulatedDisk

FOLDER = "/data/topic-0"


def settings(**changes):
    return LogSettings(**{"segment_bytes": 1 << 20, "segment_ms": None, "retention_ms": None, **changes})


def open_log(disk, **changes):
    disk.make_folder("/data")
    disk.sync_folder("/")
    return Log.open(disk, FOLDER, settings(**changes))


def make_batch(offset, pairs, timestamp=1000):
    builder = BatchBuilder()
    for key, value in pairs:
        builder.add(key, value)
    return builder.build(offset, timestamp)


def append(log, *pairs, timestamp=1000):
    """Appends one batch of these records, or of one record whose key contains its offset."""
    pairs = pairs or ((b"key-%d" % log.end_offset, b"value"),)
    return log.append(make_batch(log.end_offset, pairs, timestamp), len(pairs), timestamp)


def content(log):
    """Every record of the log, as a load reads it."""
    return [pair for batch in log.replay_batches() for pair in batch]


def at_time(log, timestamp):
    """The first record with this timestamp or a later one, as ListOffsets finds it; None if all are earlier."""
    return _found(search_timestamp(log.segments, log.start_offset, timestamp))


def latest(log):
    """The first record with the highest timestamp; None if the log has no record."""
    return _found(search_latest_timestamp(log.segments, log.start_offset))


def _found(search):
    try:
        batch = next(search)
        while True:
            batch = search.send(batch.records())
    except StopIteration as found:
        return found.value


def offsets(buffer):
    return [header.base_offset for _, header in split(buffer)]


def reopened(disk, **changes):
    """The log, opened again by a new process after the old one died."""
    disk.kill()
    return open_log(disk, **changes)


class LateWorker:
    """Runs a function at once, and reports its outcome when `finish` is called."""

    def __init__(self):
        self.under_way = deque()

    def submit(self, function, done):
        try:
            outcome = function()
        except OSError as error:
            outcome = error
        self.under_way.append((done, outcome))

    def finish(self):
        done, outcome = self.under_way.popleft()
        done(outcome)


def filled(**changes):
    """A disk with a log of twenty synced batches, closed."""
    disk = SimulatedDisk()
    log = open_log(disk, **changes)
    for _ in range(20):
        append(log)
    log.close()
    return disk
