"""This server as an earlier release of Kafka, and three workers as 4.4, beside brokers of that release: equal answer by answer.

release_histories.json has what brokers answered to random histories of three members. It is compared always;
where Java and Maven are, also with a live broker, to which new histories are played as well. `--rewrite` records it again.
"""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.requests.release_history import Play, Step, draw
from tests.support.earlier_kafka import EarlierKafka, make_topics
from tests.support.java_support import KAFKA_VERSION
from tests.support.kafka_broker import KafkaBroker
from tests.support.server_process import ServerProcess

NEWEST = KAFKA_VERSION
RELEASES = ("2.8.2", "3.6.2", "3.9.1", NEWEST)
WORKERS = 3
SHARDS = {"offsets.topic.num.partitions": 4 * WORKERS, "transaction.state.log.num.partitions": 4 * WORKERS}
RECORDED = Path(__file__).with_name("release_histories.json")
SEEDS = (1, 2, 4)
"""Of the random histories that are recorded."""
NEW_SEEDS = (1001, 1002, 1003)
STEPS = 60
ATTEMPTS = 3
"""A request that a broker reads much later than others that were sent after it makes another history."""


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def ours(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of this server as the release, or of a worker."""
    folder = tmp_path_factory.mktemp("ours")
    if release == NEWEST:
        server = ServerProcess(folder, settings=SHARDS, arguments=("--workers", str(WORKERS)))
    else:
        server = ServerProcess(folder, settings={"emulate": release.rpartition(".")[0]})
    with server:
        yield server.bootstrap


@pytest.fixture(scope="module")
def kafka(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker of the release; skips with a reason where it cannot run."""
    folder = tmp_path_factory.mktemp("kafka")
    broker = KafkaBroker(folder) if release == NEWEST else EarlierKafka(folder, release)
    try:
        broker.start()
        make_topics(broker.bootstrap)
        drawn(broker.bootstrap, SEEDS[0])  # the first requests of a broker take longer than it waits for others
        yield broker.bootstrap
    finally:
        broker.stop()


def drawn(bootstrap: str, seed: int) -> list[tuple[Step, list[str]]]:
    """A random history, and what the broker answers to it."""
    dice, history = random.Random(seed), []
    has_static_members = dice.random() < 0.5
    with Play(bootstrap) as play:
        while len(history) < STEPS and (step := draw(dice, play, has_static_members)) is not None:
            history.append((step, play.perform(step)))
    return history


def compare(bootstrap: str, history: list[tuple[Step, list[str]]]) -> None:
    """Fails unless the broker gives the answers of the history."""
    with Play(bootstrap) as play:
        for number, (step, expected) in enumerate(history):
            assert play.perform(step) == expected, f"step {number}: {step}"


def with_attempts(run: Callable[[], None]) -> None:
    """Runs it until it succeeds: a busy machine may delay a request."""
    for attempt in range(ATTEMPTS):
        try:
            return run()
        except AssertionError:
            if attempt == ATTEMPTS - 1:
                raise
    return None


def record(bootstrap: str, release: str) -> None:
    cases = {f"seed {seed}": drawn(bootstrap, seed) for seed in SEEDS}
    kept = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    kept[release] = cases
    lines = []
    for each in sorted(kept):
        steps = {case: [json.dumps(step) for step in history] for case, history in sorted(kept[each].items())}
        texts = (f'"{case}": [\n' + ",\n".join(history) + "\n]" for case, history in steps.items())
        lines.append(f'"{each}": {{' + ",\n".join(texts) + "}")
    RECORDED.write_text("{" + ",\n".join(lines) + "}\n")


@pytest.mark.parametrize("seed", SEEDS)
def test_this_server_answers_as_a_broker_of_the_release_did(release: str, ours: str, seed: int) -> None:
    history = json.loads(RECORDED.read_text())[release][f"seed {seed}"]
    with_attempts(lambda: compare(ours, history))


@pytest.mark.thorough
def test_a_live_broker_of_the_release_answers_as_recorded(
    release: str, kafka: str, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--rewrite"):
        record(kafka, release)
    for history in json.loads(RECORDED.read_text())[release].values():
        with_attempts(lambda history=history: compare(kafka, history))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", NEW_SEEDS)
def test_this_server_answers_as_a_live_broker_of_the_release(kafka: str, ours: str, seed: int) -> None:
    with_attempts(lambda: compare(ours, drawn(kafka, seed)))
