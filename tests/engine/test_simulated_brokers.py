"""The engine over Kafka keeps its promises whatever brokers and networks do, on a simulated loop."""

import asyncio
import random as chance
from random import Random

import pytest

from coordinator.engine.address import EngineAddress
from coordinator.engine.engine import EngineSettings, EngineUnavailable
from coordinator.engine.factory import engine_for
from coordinator.engine.kafka import cluster
from coordinator.faults.loop import SimulatedLoop
from coordinator.faults.memory_engine import Unreliable
from tests.engine.conftest import LONG
from tests.engine.contract import worker
from tests.engine.history import Appender, Record
from tests.engine.simulated_brokers import SimulatedBrokers
from tests.engine.test_takeovers import take_over_in_turn

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
