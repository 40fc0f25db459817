"""Every story in this folder holds for our server, and for Kafka 4.4 unless it is marked as an extension.

`pytest tests/scenarios --rewrite` replaces the answers: with Kafka's, or with our server's where a story is an extension.
"""

import contextlib
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.conversation import Brokers, Conversation, Differs
from tests.scenarios.story import Story, read_story, rewritten

STORIES = sorted(
    map(read_story, Path(__file__).parent.glob("*.txt")),
    key=lambda story: (sorted(story.settings.items()), story.restarts, story.path),
)
RACES = 3
"""Attempts of a story with `wait`: it races against timeouts and may be too slow for one on a busy machine."""


def hold(story: Story, servers: Brokers, rewrite: bool) -> None:
    broker = servers(story.settings, story.path.stem if story.restarts else "")
    for _ in range(RACES - 1 if story.is_timed else 0):
        with contextlib.suppress(Differs):
            answers = Conversation(story, broker).run(rewrite)
            break
    else:
        answers = Conversation(story, broker).run(rewrite)
    if rewrite:
        story.path.write_text(rewritten(story, answers))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.path.stem)
def test_our_server_answers_as_in_the_story(story: Story, our_servers: Brokers, request: pytest.FixtureRequest) -> None:
    hold(story, our_servers, story.only is not None and request.config.getoption("--rewrite"))


def played_to_kafka(story: Story) -> Any:
    """What a released Kafka answers stays the same: from day to day the stories suffice that need no broker of their own."""
    needs_its_own = story.settings or story.restarts
    return pytest.param(story, id=story.path.stem, marks=pytest.mark.thorough if needs_its_own else ())


@pytest.mark.java
@pytest.mark.parametrize("story", [played_to_kafka(story) for story in STORIES if story.only is None])
def test_kafka_answers_as_in_the_story(story: Story, kafka_servers: Brokers, request: pytest.FixtureRequest) -> None:
    hold(story, kafka_servers, request.config.getoption("--rewrite"))
