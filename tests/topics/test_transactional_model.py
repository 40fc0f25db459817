"""Readers of committed records see what a plain fold over all appends gives, whatever happens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.log.batch import key_values, split
from coordinator.log.compaction import clean
from coordinator.log.end_transaction_marker import read_end_transaction
from coordinator.topics import producer_walk
from coordinator_lab.simulation.disk import PowerCut
from tests.topics.data_plane import FOLDER, NOW_MS, DataPlane, batch

COMMITTED = 1
DAY_MS = 24 * 3600 * 1000


class Model:
    """Every batch that was written, and what became of it."""

    def __init__(self):
        self.batches = []
        """Offset, producer of its transaction or None, key, value."""
        self.ends = []
        """Offset, producer, commit."""
        self.end_offset = 0
        self.start_offset = 0

    def write(self, producer, key, value):
        self.batches.append((self.end_offset, producer, key, value))
        self.end_offset += 1

    def end(self, producer, commit):
        self.ends.append((self.end_offset, producer, commit))
        self.end_offset += 1

    def outcome(self, offset, producer):
        """True for a commit, False for an abort, None while it is open."""
        return next((commit for at, who, commit in self.ends if who == producer and at > offset), None)

    def stable_offsets(self):
        """A transaction whose records have all been deleted may be forgotten, and need not be."""
        undecided = [
            at for at, producer, _, _ in self.batches if producer is not None and self.outcome(at, producer) is None
        ]
        kept = min([self.end_offset, *(at for at in undecided if at >= self.start_offset)])
        return {kept, max(self.start_offset, min([self.end_offset, *undecided]))}

    def committed(self, stable_offset):
        return [
            (at, key, value)
            for at, producer, key, value in self.batches
            if self.start_offset <= at < stable_offset and (producer is None or self.outcome(at, producer))
        ]


def seen(plane, max_bytes):
    """The records that a client reads from the beginning, one response at a time, skipping aborted ones."""
    found, offset = [], plane.topics.partition("t", 0).start_offset
    while True:
        answer = plane.fetch(offset=offset, isolation_level=COMMITTED, max_bytes=max_bytes)
        assert answer.error_code == 0
        if not answer.records:
            return found, answer.last_stable_offset
        left_out = sorted((one.first_offset, one.producer_id) for one in answer.aborted_transactions)
        aborting = set()
        for position, header in split(answer.records):
            while left_out and left_out[0][0] <= header.last_offset:
                aborting.add(left_out.pop(0)[1])
            records = key_values(answer.records, position, header)
            if header.is_control:
                if records and not read_end_transaction(*records[0][1:])[0]:
                    aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                found += [record for record in records if record[0] >= offset]
            offset = header.next_offset


def last_of_each_key(records):
    return {key: (at, value) for at, key, value in records}


class World:
    """A partition, and producers that number their batches."""

    def __init__(self, *, compacts, strict):
        self.plane = DataPlane(producer_id_expiration_ms=1 << 50)
        configs = {"segment.ms": "25", "retention.ms": "-1", "message.timestamp.after.max.ms": str(1 << 50)}
        self.plane.create("t", configs=configs | ({"cleanup.policy": "compact,delete"} if compacts else {}))
        self.model = Model()
        self.strict = strict
        self.epochs = dict.fromkeys((1, 2, 3), 0)
        self.sequences = dict.fromkeys((1, 2, 3), 0)
        self.opened = set()
        self.now_ms = NOW_MS

    def write(self, producer, key):
        self.now_ms += 10
        value = b"%d" % self.model.end_offset
        if producer is None:
            data = batch(value, key=key, timestamp=self.now_ms)
            answer = self.plane.produce(data)
        else:
            data = batch(
                value, key=key, producer_id=producer, epoch=self.epochs[producer], sequence=self.sequences[producer],
                attributes=16, timestamp=self.now_ms,
            )  # fmt: skip
            answer = self.plane.produce(data, version=12 if self.strict else 11, transactional_id="x")
            self.sequences[producer] += 1
            self.opened.add(producer)
        assert (answer.error_code, answer.base_offset) == (0, self.model.end_offset)
        self.model.write(producer, key, value)

    def end(self, producer, commit):
        if self.strict and producer not in self.opened:
            return
        self.opened.discard(producer)
        if self.strict:
            self.epochs[producer] += 1
            self.sequences[producer] = 0
        version = 2 if self.strict else 1
        error = self.plane.end(commit=commit, producer_id=producer, epoch=self.epochs[producer], version=version)
        assert error == "NONE"
        self.model.end(producer, commit)

    def restart(self, how, seed):
        if how == "close":
            self.plane.topics.close()
        snapshot = f"{FOLDER}/t-0/producer-snapshot"
        if seed == 0 and not self.model.start_offset and self.plane.disk.exists(snapshot):
            # It can be torn. (A producer whose records were deleted then has to begin again.)
            self.plane.disk.remove(snapshot)
        self.plane.crashed(seed) if how == "crash" else self.plane.killed()

    def delete(self, share):
        partition = self.plane.topics.partition("t", 0)
        offset = partition.start_offset + round((partition.high_watermark - partition.start_offset) * share)
        partition.delete_before(offset)
        self.model.start_offset = offset

    def compact(self, now_ms):
        for log in self.plane.topics.compacted_logs():
            cleaning = clean(log, now_ms)
            for work in cleaning:
                if work is None:
                    continue
                try:
                    work()
                except PowerCut as error:
                    cleaning.throw(error)  # nothing of a dead process may happen later


_STEPS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from([None, 1, 2, 3]), st.sampled_from([b"a", b"b"])),
    st.tuples(st.just("write"), st.sampled_from([1, 2, 3]), st.sampled_from([b"a", b"b"])),
    st.tuples(st.just("end"), st.sampled_from([1, 2, 3]), st.booleans()),
    st.tuples(st.just("restart"), st.sampled_from(["close", "kill", "crash"]), st.integers(0, 3)),
    st.tuples(st.just("delete"), st.floats(0, 1)),
    st.tuples(st.just("compact"), st.integers(0, 4)),
)


@settings(max_examples=150)
@given(
    st.lists(_STEPS, max_size=40), st.booleans(), st.booleans(), st.sampled_from([1, 1 << 20]),
    st.sampled_from([-1, 1 << 20]),
)  # fmt: skip
def test_readers_see_exactly_the_committed_records(steps, compacts, strict, max_bytes, walk_bytes):
    walked, producer_walk.WALK_BYTES = producer_walk.WALK_BYTES, walk_bytes
    try:
        world = World(compacts=compacts, strict=strict)
        cleanings = 0
        for step in [*steps, ("compact", 1), ("restart", "kill", 0), ("compact", 9), ("restart", "crash", 1)]:
            match step:
                case "write", producer, key:
                    world.write(producer, key)
                case "end", producer, commit:
                    world.end(producer, commit)
                case "restart", how, seed:
                    world.restart(how, seed)
                case "delete", share:
                    world.delete(share)
                case "compact", days:
                    cleanings += days
                    world.compact(NOW_MS + cleanings * DAY_MS)
            found, stable_offset = seen(world.plane, max_bytes)
            assert stable_offset in world.model.stable_offsets()
            committed = world.model.committed(stable_offset)
            if compacts:
                assert set(found) <= set(committed)
                assert last_of_each_key(found) == last_of_each_key(committed)
            else:
                assert found == committed
    finally:
        producer_walk.WALK_BYTES = walked


@pytest.mark.parametrize("snapshots", [True, False])
def test_a_cleaning_survives_a_power_cut_at_any_moment(snapshots):
    """Segments and their lists of aborted transactions replace the old ones together, or not at all."""
    operations, finished = 1, False
    while not finished:
        for seed in range(4):
            world = World(compacts=True, strict=False)
            for step in range(12):
                world.write(1 + step % 2, b"%d" % (step % 5))
                world.write(None, b"%d" % (step % 3))
                if step % 3 == 2:
                    world.end(1, step % 2 == 0)
                    world.end(2, step % 4 == 1)
            world.compact(NOW_MS)
            if not snapshots:
                world.plane.disk.remove(f"{FOLDER}/t-0/producer-snapshot")
            committed = last_of_each_key(world.model.committed(world.model.end_offset))
            world.plane.disk.cut_after(operations)
            try:
                world.compact(NOW_MS + 10 * DAY_MS)
                finished = True
            except PowerCut:
                finished = False
            world.plane.disk.cut_never()
            world.restart("crash", seed)
            for again in (11, 12):
                found, _ = seen(world.plane, 1 << 20)
                assert last_of_each_key(found) == committed
                world.compact(NOW_MS + again * 10 * DAY_MS)
        operations += 1
