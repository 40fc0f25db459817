"""The logs of any engine become a data folder, and a data folder becomes logs of any engine."""

import pytest

from coordinator.cluster.engine.engine import Engine, EngineSettings, claim_one
from coordinator.cluster.workers.joining import CLUSTER_LOG
from coordinator.operations import log_check
from coordinator.operations.journal_access import JournalFailed
from coordinator.operations.journal_export import copy_logs
from coordinator.operations.journal_import import import_logs
from coordinator.operations.log_folders import find_log_folders
from coordinator.world.disk import RealDisk
from coordinator_lab.simulation.memory_engine import MemoryEngine, MemoryStore
from tests.cluster.engine.contract import parts_of, pieces, replayed, worker
from tests.cluster.engine.copies import EVENTS, STATE, batch, offsets

pytestmark = pytest.mark.snapshots


async def filled(engine: Engine) -> None:
    """A compacted state, and events of which the beginning was deleted."""
    identity = await claim_one(engine, CLUSTER_LOG, worker(1))
    assert not await engine.append(pieces(identity, b"cluster-of-the-test"))
    state = await claim_one(engine, STATE, worker(1))
    assert not await engine.append(pieces(state, *(batch(offset, "a", "b") for offset in range(0, 10, 2))))
    await engine.snapshot(state, 4, parts_of([batch(3, "b") + batch(6, "a", "b")]))
    events = await claim_one(engine, EVENTS, worker(1))
    assert not await engine.append(pieces(events, *(batch(offset, "g") for offset in range(6))))
    await engine.snapshot(events, 3, parts_of([]))


async def test_logs_go_from_an_engine_into_a_folder_and_from_there_into_another_engine(connect, tmp_path):
    engine = await connect(append_timeout_ms=30_000)
    await filled(engine)
    found = await copy_logs(await connect(reads_only=True, append_timeout_ms=30_000), tmp_path, list)
    assert (found.cluster_id, found.logs) == ("cluster-of-the-test", 2)
    assert log_check.run(tmp_path, as_json=True) == 0
    with pytest.raises(JournalFailed, match="not empty"):
        await import_logs(engine, found.cluster_id, find_log_folders(tmp_path))
    is_in_memory = isinstance(engine, MemoryEngine)
    other = (
        MemoryEngine(MemoryStore(), EngineSettings())
        if is_in_memory
        else await connect(cluster="other_cluster", append_timeout_ms=30_000)
    )
    brought = await import_logs(other, found.cluster_id, find_log_folders(tmp_path))
    assert (brought.logs, brought.records) == (2, 8)
    assert await other.tail(CLUSTER_LOG, 0) == [(0, b"cluster-of-the-test")]
    for log, wanted in ((STATE, [3, 6, 7, 8, 9]), (EVENTS, [3, 4, 5])):
        data = b"".join(await replayed(other, await claim_one(other, log, worker(2))))
        assert offsets(data) == wanted


async def test_an_engine_that_nobody_has_used_is_not_copied(connect, tmp_path):
    engine = await connect()
    with pytest.raises(JournalFailed, match="no worker was ever started"):
        await copy_logs(engine, tmp_path, list)


async def test_only_the_logs_that_are_wanted_are_copied(connect, tmp_path):
    engine = await connect()
    identity = await claim_one(engine, CLUSTER_LOG, worker(1))
    await engine.append(pieces(identity, b"cluster"))
    for log in (STATE, EVENTS):
        claim = await claim_one(engine, log, worker(1))
        assert not await engine.append(pieces(claim, batch(0, "g")))
    await copy_logs(engine, tmp_path, lambda logs: [log for log in logs if log == EVENTS])
    assert RealDisk().list(str(tmp_path)) == [EVENTS, "meta.properties"]
    with pytest.raises(JournalFailed, match="no such log"):
        await copy_logs(engine, tmp_path, lambda _logs: [])
