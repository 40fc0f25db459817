"""Every story in this folder holds for our server, and for Kafka 4.4 unless it is marked as an extension.

A released Kafka answers the same again, so a story is played to it while its text is new; THOROUGH=1 plays all of them.
`pytest tests/scenarios --rewrite` replaces the answers: with Kafka's, or with our server's where a story is an extension.
"""

import contextlib
import hashlib
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.conftest import SETTINGS
from tests.scenarios.conversation import Brokers, Conversation, Differs
from tests.scenarios.story import Story, read_story, rewritten

ANSWERED = Path(__file__).with_name("answered_by_kafka.sums")
"""The digests of the stories that Kafka has answered. `--rewrite` writes it; of two branches all count."""
STORIES = sorted(
    map(read_story, Path(__file__).parent.glob("*.txt")),
    key=lambda story: (sorted(story.settings.items()), story.restarts, story.path),
)
RACES = 3
"""Attempts of a story with `wait`: it races against timeouts and may be too slow for one on a busy machine."""


def hold(story: Story, servers: Brokers, rewrite: bool) -> None:
    """Plays the story; if it does not hold, fails, or replaces its answers if `rewrite`."""
    broker = servers(story.settings, story.path.stem if story.restarts else "")
    for _ in range(RACES - 1 if story.is_timed else 0):
        with contextlib.suppress(Differs):
            Conversation(story, broker).run()
            return
    try:
        Conversation(story, broker).run()
    except Differs:
        if not rewrite:
            raise
        story.path.write_text(rewritten(story, Conversation(story, broker).run(rewrite)))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.path.stem)
def test_our_server_answers_as_in_the_story(story: Story, our_servers: Brokers, request: pytest.FixtureRequest) -> None:
    hold(story, our_servers, story.only is not None and request.config.getoption("--rewrite"))


def digest(story: Story) -> str:
    """Changes with all that Kafka sees of a story, and with the answers."""
    steps = [(step.text, step.answer) for step in story.steps]
    seen = (sorted((SETTINGS | story.settings).items()), story.names, story.topics, steps)
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:12]


def answered() -> set[str]:
    return set(ANSWERED.read_text().split())


def played_to_kafka() -> list[Any]:
    """Those that need a broker of their own, and those that Kafka has answered, are played when THOROUGH=1."""
    known = answered()

    def case(story: Story) -> Any:
        waits = story.settings or story.restarts or digest(story) in known
        return pytest.param(story, id=story.path.stem, marks=pytest.mark.thorough if waits else ())

    return [case(story) for story in STORIES if story.only is None]


@pytest.mark.java
@pytest.mark.parametrize("story", played_to_kafka())
def test_kafka_answers_as_in_the_story(story: Story, kafka_servers: Brokers, request: pytest.FixtureRequest) -> None:
    rewrite = request.config.getoption("--rewrite")
    hold(story, kafka_servers, rewrite)
    if rewrite:
        known = answered() | {digest(read_story(story.path))}
        kept = known & {digest(read_story(each.path)) for each in STORIES}
        ANSWERED.write_text(textwrap.fill(" ".join(sorted(kept)), 120) + "\n")
