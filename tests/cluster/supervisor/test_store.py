"""What the supervisor takes from a worker, what survives its restarts, and what a replay of a compacted log has."""

import asyncio

import pytest

from coordinator.cluster.engine.engine import LogFailed, Piece, claim_one
from coordinator.log.batch import split
from coordinator.log.log import DamagedLog
from coordinator.server.epochs import FIRST, RESERVED, EpochSource, read_epoch
from coordinator.world.disk import RealDisk
from tests.cluster.engine.contract import worker
from tests.cluster.engine.local import LocalStore, batch, over, texts

LOG = "__consumer_offsets-0"


@pytest.fixture
async def store(tmp_path):
    store = LocalStore(tmp_path)
    yield store
    await store.close()


@pytest.fixture
async def engine(store):
    engine = over(await store.connect()).engine
    await engine.open()
    yield engine
    await engine.close()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(batch(b"x", 5), id="gap in the offsets"),
        pytest.param(batch(b"x", 0)[:-1], id="batch that is cut off"),
        pytest.param(batch(b"x", 0) + batch(b"y", 2), id="gap between two batches"),
        pytest.param(b"", id="no batch"),
        pytest.param(b"nonsense" * 20, id="no batch at all"),
    ],
)
async def test_a_piece_that_does_not_continue_the_log_is_refused_and_ends_the_claim(store, engine, data):
    claim = await claim_one(engine, LOG, worker(1))
    assert await engine.append([Piece(claim, 0, data)]) == {LOG}
    assert store.logs[LOG].end_offset == 0
    assert await engine.append([Piece(claim, 0, batch(b"x", 0))]) == {LOG}
    again = await claim_one(engine, LOG, worker(1))
    assert await engine.append([Piece(again, 0, batch(b"x", 0))]) == frozenset()


async def test_a_piece_behind_a_gap_in_the_sequences_is_refused(engine):
    claim = await claim_one(engine, LOG, worker(1))
    assert await engine.append([Piece(claim, 1, batch(b"x", 0))]) == {LOG}


async def test_a_log_goes_on_after_a_restart_with_a_higher_epoch(tmp_path):
    epochs = []
    for turn in range(3):
        store = LocalStore(tmp_path)
        engine = over(await store.connect()).engine
        await engine.open()
        claim = await claim_one(engine, LOG, worker(1))
        epochs.append(claim.epoch)
        found = [text async for _, data in engine.read(claim.log, claim) for text in texts(data)]
        assert found == [b"%d" % each for each in range(turn)]
        assert await engine.append([Piece(claim, claim.next_sequence, batch(b"%d" % turn, turn))]) == frozenset()
        await engine.close()
        await store.close()
    assert epochs == sorted(set(epochs))


async def test_a_replay_ends_where_the_log_does_although_its_last_batches_were_compacted_away(store, engine):
    claim = await claim_one(engine, LOG, worker(1))
    await engine.append([Piece(claim, number, batch(b"x", number)) for number in range(3)])
    log = store.logs[LOG]
    log.begin_segment()
    log.segments[0].file.truncate(len(batch(b"x", 0)))
    log.segments[0].size_bytes = len(batch(b"x", 0))
    again = await claim_one(engine, LOG, worker(2))
    headers = [header async for _, data in engine.read(LOG, again) for _, header in split(data)]
    assert [(header.base_offset, header.record_count) for header in headers] == [(0, 1), (2, 0)]
    assert [sequence async for sequence, _ in engine.read(LOG)][-1] == again.next_sequence - 1
    [(_, last)] = await engine.tail(LOG, again.next_sequence - 1)
    assert [(header.base_offset, header.record_count) for _, header in split(last)] == [(2, 0)]


async def test_workers_of_a_closed_connection_are_dead_at_once(store, engine):
    other = over(await store.connect(), beat_timeout_ms=60_000).engine
    await other.open()
    await other.beat(worker(2))
    assert await engine.workers() == [worker(2)]
    changed = asyncio.Event()
    engine.on_change = changed.set
    await other.close()
    await asyncio.wait_for(changed.wait(), 20)
    assert not await engine.workers()


def test_epochs_are_never_taken_back(tmp_path):
    disk, folder = RealDisk(), str(tmp_path)
    assert read_epoch(disk, folder) is None
    first = EpochSource(disk, folder)
    assert [first.after(0), first.after(FIRST), first.after(0)] == [FIRST, FIRST + 1, FIRST]
    killed = EpochSource(disk, folder)
    assert killed.after(0) > FIRST + RESERVED
    killed.settle()
    assert read_epoch(disk, folder) == killed.after(0)


def test_a_damaged_epoch_is_refused(tmp_path):
    EpochSource(RealDisk(), str(tmp_path)).after(0)
    file = tmp_path / "coordinator-epoch"
    file.write_bytes(file.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(DamagedLog):
        read_epoch(RealDisk(), str(tmp_path))


async def test_a_claim_of_a_failed_log_says_that_it_is_this_log(store, engine):
    """The engine is there, and other logs can be claimed."""
    store.logs[LOG].failed = OSError("broken")
    with pytest.raises(LogFailed, match=f"{LOG} cannot be written: broken"):
        await claim_one(engine, LOG, worker(1))
    assert (await claim_one(engine, "__consumer_offsets-1", worker(1))).epoch


async def test_a_log_that_cannot_be_read_is_a_failed_one(store, engine):
    claim = await claim_one(engine, LOG, worker(1))
    assert await engine.append([Piece(claim, 0, batch(b"x", 0))]) == frozenset()
    store.logs[LOG].begin_segment()
    store.logs[LOG].segments[0].file.truncate(1)
    with pytest.raises(LogFailed):
        await engine.tail(LOG, 0)
