"""Each behaviour in the table of the releases is noticed: a question is answered otherwise when it is taken out.

release_answers.json has what brokers answered: those of the releases where a behaviour ends, and of those that follow.
test_release_histories.py asks live ones. Here one server in this process becomes one release after the other, also releases
of tables that lack a behaviour.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from coordinator.protocol.releases import NEWEST, Behaviours, Release, read_releases, releases
from coordinator.protocol.schema import SCHEMAS
from coordinator.requests.api_versions import as_release
from tests.requests.release_questions import QUESTIONS, ask
from tests.rules.world import World, running
from tests.support.background import Background

TABLE: list[dict[str, Any]] = json.loads((SCHEMAS / "releases" / "releases.json").read_bytes())
ANSWERS: dict[str, dict[str, str]] = {
    patch.rpartition(".")[0]: answers
    for patch, answers in json.loads(Path(__file__).with_name("release_answers.json").read_text()).items()
}
"""Release -> behaviour -> what a broker of the release answered to its question."""
SWITCHED = [(row["release"], behaviour) for row in TABLE for behaviour in row.get("behaviours", {})]
"""Where the table says that a behaviour differs from the next release."""
Asking = Callable[[Release, str], str]


@pytest.fixture(scope="module")
def as_a_release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """Asks a server that has become this release the question of a behaviour."""
    folder, started = tmp_path_factory.mktemp("behaviours"), threading.Event()
    world: list[World] = []
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with running(folder) as server:
            world.append(server)
            started.set()
            await ended.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    async def become(release: Release) -> None:
        server = world[0].server
        server.listeners[0].dispatcher.serve(as_release(server.apis, release), {})

    def asked(release: Release, behaviour: str) -> str:
        asyncio.run_coroutine_threadsafe(become(release), loop).result(10)
        return ask(world[0].bootstrap, behaviour)

    thread = Background(run)
    assert started.wait(30)
    yield asked
    loop.call_soon_threadsafe(ended.set)
    thread.finish()


def without(release: str, behaviour: str) -> Release:
    """The release of a table that does not say that the behaviour differs here from the next release."""
    table = deepcopy(TABLE)
    row = next(each for each in table if each["release"] == release)
    del row["behaviours"][behaviour]
    return read_releases(table)[release]


def test_each_behaviour_has_a_question_and_is_in_the_table() -> None:
    behaviours = {field.name for field in fields(Behaviours)}
    assert behaviours == QUESTIONS.keys() == {behaviour for _, behaviour in SWITCHED}


def test_brokers_of_both_sides_of_a_change_were_asked_and_differ() -> None:
    next_of = dict(zip(releases(), [NEWEST, *releases()], strict=False))
    for release, behaviour in SWITCHED:
        assert ANSWERS[release][behaviour] != ANSWERS[next_of[release]][behaviour]


@pytest.mark.parametrize("release", ANSWERS)
def test_a_server_that_is_a_release_answers_as_its_broker(as_a_release: Asking, release: str) -> None:
    given = {behaviour: as_a_release(releases()[release], behaviour) for behaviour in QUESTIONS}
    assert given == ANSWERS[release]


@pytest.mark.parametrize(("release", "behaviour"), SWITCHED)
def test_a_behaviour_that_is_taken_out_of_the_table_is_noticed(
    as_a_release: Asking, release: str, behaviour: str
) -> None:
    assert as_a_release(without(release, behaviour), behaviour) != ANSWERS[release][behaviour]
