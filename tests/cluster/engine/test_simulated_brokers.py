"""The engine over Kafka keeps its promises whatever brokers and networks do, on a simulated loop."""

import asyncio
import random as chance
from random import Random

import pytest

from coordinator.cluster.engine.address import EngineAddress, engine_for
from coordinator.cluster.engine.engine import EngineSettings, EngineUnavailable
from coordinator.cluster.engine.kafka import cluster
from coordinator_lab.simulation.loop import SimulatedLoop
from coordinator_lab.simulation.memory_engine import Unreliable
from tests.cluster.engine.conftest import LONG
from tests.cluster.engine.contract import take_over_in_turn, worker
from tests.cluster.engine.history import Appender, Record
from tests.cluster.engine.simulated_brokers import SimulatedBrokers

SEEDS = range(500 if LONG else 3)
SETTINGS = EngineSettings(append_timeout_ms=40)
ADDRESS = EngineAddress("kafka://1:9092,2:9092,3:9092")


async def opened():
    while True:
        engine = engine_for(ADDRESS, SETTINGS)
        try:
            await engine.open()
        except EngineUnavailable:
            continue
        return engine


async def move_leaders(brokers: SimulatedBrokers, random: Random) -> None:
    while True:
        await asyncio.sleep(random.uniform(0, 0.3))
        brokers.move_leaders()


@pytest.mark.parametrize("is_apache", [True, False], ids=["with the second lock", "without it"])
@pytest.mark.parametrize("seed", SEEDS)
def test_takeovers_over_brokers_that_lose_answers_and_lead_in_turn(seed, is_apache, monkeypatch):
    random, record = Random(seed), Record()
    chance.seed(seed)
    brokers = SimulatedBrokers(random, Unreliable(random, 0.05, late_s=0.06), is_apache=is_apache)
    monkeypatch.setattr(cluster, "connect", brokers.connect)

    async def run() -> None:
        engines = [await opened() for _ in range(3)]
        appenders = [Appender(engine, worker(number), record) for number, engine in enumerate(engines)]
        moving = asyncio.ensure_future(move_leaders(brokers, random))
        await take_over_in_turn(appenders, 20, random)
        moving.cancel()
        for engine in engines:
            await engine.close()

    loop = SimulatedLoop(random)
    loop.run_until_complete(run())
    loop.close()
    assert record.unknown > 0
    assert record.fenced > 0
