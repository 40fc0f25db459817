"""Nothing that was acknowledged is lost, and nothing of an old owner stands behind a claim, whatever happens at once."""

from random import Random

import pytest

from coordinator.cluster.engine.engine import EngineSettings, claim_one
from coordinator_lab.simulation.loop import SimulatedLoop
from coordinator_lab.simulation.memory_engine import MemoryEngine, MemoryStore, Unreliable
from tests.cluster.engine.conftest import LONG
from tests.cluster.engine.contract import LOGS, take_over_in_turn, worker
from tests.cluster.engine.history import Appender, Record

TAKEOVERS = 500 if LONG else 40
SEEDS = range(500 if LONG else 15)


@pytest.mark.long
async def test_takeovers_race_with_appends_and_snapshots(connect_real, request):
    record, random = Record(), Random(7)
    # Brokers take their time; `ENGINE_TESTS=long` gives them as many as the others.
    takeovers = TAKEOVERS if LONG or "kafka" not in request.node.name else TAKEOVERS // 4
    appenders = [Appender(await connect_real(), worker(number), record) for number in range(3)]
    await take_over_in_turn(appenders, takeovers, random)
    assert len(record.claims) == (takeovers + 1) * len(LOGS)
    assert record.fenced >= takeovers
    assert sum(map(len, record.acknowledged.values())) > takeovers


@pytest.mark.parametrize("seed", SEEDS)
def test_takeovers_over_an_engine_that_loses_answers_and_repeats_statements(seed):
    random, record = Random(seed), Record()

    async def run() -> None:
        store, settings = MemoryStore(), EngineSettings(append_timeout_ms=20)
        unreliable = Unreliable(random, 0.1, late_s=0.04)
        engines = [MemoryEngine(store, settings, unreliable) for _ in range(3)]
        appenders = [Appender(engine, worker(number), record) for number, engine in enumerate(engines)]
        await take_over_in_turn(appenders, 50, random)

    loop = SimulatedLoop(random)
    loop.run_until_complete(run())
    loop.close()
    assert record.unknown > 0
    assert record.fenced > 0


@pytest.mark.snapshots
async def test_a_replay_is_bounded_by_its_snapshot(connect):
    engine = await connect()
    appender = Appender(engine, worker(1), Record())
    for _ in range(3):
        await appender.take(LOGS[0])
        for _ in range(40):
            await appender.append_once()
        claim = await claim_one(engine, LOGS[0], worker(1))
        appender.claims[LOGS[0]], appender.next[LOGS[0]] = claim, claim.next_sequence
        await appender.snapshot(LOGS[0])
    claim = await claim_one(engine, LOGS[0], worker(1))
    assert (claim.covered, claim.next_sequence) == (120, 120)
    # 120 pieces in parts of 50, and no tail.
    assert len([part async for part in engine.read(claim.log, claim)]) == 3
