"""Each behaviour in the table of the releases is noticed: a question is answered otherwise when it is taken out.

release_answers.json has what brokers answered: those of the releases where a behaviour ends, and of those that follow.
test_release_histories.py asks live ones. Here one server in this process becomes one release after the other, also releases
of tables that lack a behaviour. The behaviours of the preview of KIP-848 are shown by stories (tests/scenarios/preview_*.txt).
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from coordinator.protocol.releases import NEWEST, PREVIEW_PROTOCOLS, Behaviours, Release, read_releases, releases
from coordinator.protocol.schema import SCHEMAS
from coordinator.requests.api_versions import as_release
from tests.requests.release_questions import QUESTIONS, ask
from tests.rules.world import World, running
from tests.scenarios.conftest import OURS, SETTINGS
from tests.scenarios.conversation import Broker, Conversation, Differs
from tests.scenarios.earlier import EarlierConversation
from tests.scenarios.story import Story, read_story
from tests.scenarios.test_releases import BY_NAME, recorded
from tests.support.background import Background

TABLE: list[dict[str, Any]] = json.loads((SCHEMAS / "releases" / "releases.json").read_bytes())
ANSWERS: dict[str, dict[str, str]] = {
    patch.rpartition(".")[0]: answers
    for patch, answers in json.loads(Path(__file__).with_name("release_answers.json").read_text()).items()
}
"""Release -> behaviour -> what a broker of the release answered to its question."""
SWITCHED = [(row["release"], behaviour) for row in TABLE for behaviour in row.get("behaviours", {})]
"""Where the table says that a behaviour differs from the next release."""
BY_STORIES = {
    "empty_groups_keep_an_assignment_epoch": "consumer_alone",
    "groups_have_no_config_operations": "describe_versions",
    "malformed_subscriptions_are_unexpected": "consumer_join_errors",
    "offsets_of_no_groups_are_not_sent": "fetch_offsets_of_many_groups",
    "preferring_an_assignor_is_no_reason": "consumer_preferred_assignor",
    "streams_groups_are_basic": "streams_task_offsets",
    "successors_need_a_place": "consumer_group_is_full",
}
"""Behaviour -> the story that shows it instead of a question (tests/scenarios/answered_by_releases.json)."""
ASKED = [each for each in SWITCHED if each[1] in QUESTIONS]
OF_PREVIEWS = [(row["release"], each) for row in TABLE for each in row.get("preview", {}).get("behaviours", {})]
PREVIEW_STORIES = [read_story(path) for path in sorted((Path(__file__).parents[1] / "scenarios").glob("preview_*.txt"))]
Becoming = Callable[[Release], str]
Asking = Callable[[Release, str], str]


@contextmanager
def becoming(folder: Path, settings: Sequence[str] = ()) -> Iterator[Becoming]:
    """A server that becomes a release, and returns its address."""
    started = threading.Event()
    world: list[World] = []
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with running(folder, settings) as server:
            world.append(server)
            started.set()
            await ended.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    async def serve_as(release: Release) -> str:
        server = world[0].server
        server.listeners[0].dispatcher.serve(as_release(server.apis, release), {})
        return world[0].bootstrap

    thread = Background(run)
    assert started.wait(30)
    yield lambda release: asyncio.run_coroutine_threadsafe(serve_as(release), loop).result(10)
    loop.call_soon_threadsafe(ended.set)
    thread.finish()


@pytest.fixture(scope="module")
def as_a_release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """Asks a server that has become this release the question of a behaviour."""
    with becoming(tmp_path_factory.mktemp("behaviours")) as become:
        yield lambda release, behaviour: ask(become(release), behaviour)


@pytest.fixture(scope="module")
def previews(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Story, Becoming]]]:
    """The stories of the preview, each with a server that has its settings."""
    with ExitStack() as stack:
        servers = []
        for story in PREVIEW_STORIES:
            settings = [f"{name}={value}" for name, value in (OURS | SETTINGS | story.settings).items()]
            servers.append((story, stack.enter_context(becoming(tmp_path_factory.mktemp("preview"), settings))))
        yield servers


def without(release: str, behaviour: str, *, in_preview: bool = False) -> Release:
    """The release of a table that does not say that the behaviour differs here from the next release."""
    table = deepcopy(TABLE)
    row = next(each for each in table if each["release"] == release)
    del (row["preview"] if in_preview else row)["behaviours"][behaviour]
    return read_releases(table)[release]


def test_each_behaviour_has_a_question_and_is_in_the_table() -> None:
    behaviours = {field.name for field in fields(Behaviours)}
    assert {behaviour for _, behaviour in SWITCHED} == QUESTIONS.keys() | BY_STORIES.keys()
    assert behaviours == QUESTIONS.keys() | BY_STORIES.keys() | {behaviour for _, behaviour in OF_PREVIEWS}


def test_brokers_of_both_sides_of_a_change_were_asked_and_differ() -> None:
    next_of = dict(zip(releases(), [NEWEST, *releases()], strict=False))
    for release, behaviour in ASKED:
        assert ANSWERS[release][behaviour] != ANSWERS[next_of[release]][behaviour]


@pytest.mark.parametrize("release", ANSWERS)
def test_a_server_that_is_a_release_answers_as_its_broker(as_a_release: Asking, release: str) -> None:
    given = {behaviour: as_a_release(releases()[release], behaviour) for behaviour in QUESTIONS}
    assert given == ANSWERS[release]


@pytest.mark.parametrize(("release", "behaviour"), ASKED)
def test_a_behaviour_that_is_taken_out_of_the_table_is_noticed(
    as_a_release: Asking, release: str, behaviour: str
) -> None:
    assert as_a_release(without(release, behaviour), behaviour) != ANSWERS[release][behaviour]


@pytest.mark.parametrize(("release", "behaviour"), [each for each in SWITCHED if each[1] in BY_STORIES])
def test_a_story_notices_a_behaviour_that_is_taken_out_of_the_table(
    tmp_path: Path, release: str, behaviour: str
) -> None:
    name, lacking = BY_STORIES[behaviour], without(release, behaviour)
    answers = recorded()[release][name]
    settings = [f"{key}={value}" for key, value in (OURS | SETTINGS).items()]
    with becoming(tmp_path, settings) as become:
        broker = Broker(become(lacking), restart=lambda: None)
        assert EarlierConversation(BY_NAME[name], broker, lacking, answers).play() != answers


@pytest.mark.parametrize(("release", "behaviour"), OF_PREVIEWS)
def test_a_behaviour_that_is_taken_out_of_the_preview_is_noticed(
    previews: list[tuple[Story, Becoming]], release: str, behaviour: str
) -> None:
    """A story that a broker has answered does not hold any more."""
    lacking = without(release, behaviour, in_preview=True).configured(PREVIEW_PROTOCOLS)
    with pytest.raises(Differs):
        for story, become in previews:
            Conversation(story, Broker(become(lacking), restart=lambda: None)).run()


def test_only_the_protocols_of_the_preview_switch_it_on() -> None:
    release = releases()["3.9"]
    assert release.configured(("classic", "consumer", "streams")) is release.configured(("classic",)) is release
    assert release.configured(("consumer", "classic")).refused == frozenset()
    assert releases()["3.7"].configured(PREVIEW_PROTOCOLS).refused
