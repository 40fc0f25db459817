"""As an earlier release of Kafka this server answers the stories as a broker of that release did.

release_answers.json has what brokers answered otherwise than Kafka 4.4; the stories have the rest. One server becomes each of
the releases. THOROUGH=1 plays the stories to live brokers as well, and `--rewrite` notes their answers again.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

import pytest

from coordinator.protocol.releases import releases
from coordinator_testing.control import Control
from tests.scenarios.conftest import LATER, SETTINGS
from tests.scenarios.conversation import QUIET_S, Broker, Brokers
from tests.scenarios.earlier import Answers, EarlierConversation, is_for
from tests.scenarios.story import Story
from tests.scenarios.test_scenarios import RACES, STORIES
from tests.support.earlier_kafka import EarlierKafka

RECORDED = Path(__file__).with_name("release_answers.json")
"""Which releases were recorded; story -> position of a step -> releases "first-last" -> what their brokers answered."""
OLDEST_FIRST = list(reversed(releases()))
BUSY_S = 1.0
"""How long a broker on a busy machine may take for an answer that it does not hold back."""
ByStory = dict[str, Answers]
NOT_IMITATED: dict[str, set[int]] = {}
"""Story -> the steps whose answers differ for a reason that docs/emulation.md gives."""


def recorded() -> dict[str, ByStory]:
    """Release -> story -> what a broker of the release answered otherwise than the story says."""
    kept = json.loads(RECORDED.read_text())
    found: dict[str, ByStory] = {release: {} for release in kept["recorded"]}
    for story, steps in kept["answers"].items():
        for position, runs in steps.items():
            for span, answer in runs.items():
                first, _, last = span.partition("-")
                for release in OLDEST_FIRST[OLDEST_FIRST.index(first) : OLDEST_FIRST.index(last or first) + 1]:
                    if release in found:
                        found[release].setdefault(story, {})[int(position)] = answer
    return found


def record(answers: Mapping[str, ByStory]) -> None:
    """Keeps the answers of these releases."""
    order = [release for release in OLDEST_FIRST if release in answers]
    steps = {(story, each) for by_story in answers.values() for story, found in by_story.items() for each in found}
    kept: dict[str, dict[str, dict[str, str]]] = {}
    for story, position in sorted(steps):
        runs = kept.setdefault(story, {})[str(position)] = {}
        for answer, run in groupby(order, lambda release: answers[release].get(story, {}).get(position)):
            if answer is not None:
                first, *rest = run
                runs["-".join([first, *rest[-1:]])] = answer
    RECORDED.write_text(json.dumps({"recorded": order, "answers": kept}, indent=1, ensure_ascii=False) + "\n")


ANSWERS = recorded()


def stories(release: str) -> list[Story]:
    """Those that the release can play."""
    return [story for story in STORIES if is_for(story, releases()[release])]


def new_in(release: str) -> list[Story]:
    """Those whose answers are not noted alike for the next release that was recorded."""
    later = [each for each in OLDEST_FIRST[OLDEST_FIRST.index(release) + 1 :] if each in ANSWERS]
    known = {story.path.stem for story in stories(later[0])} if later else set()
    return [
        story
        for story in stories(release)
        if story.path.stem not in known
        or ANSWERS[release].get(story.path.stem) != ANSWERS[later[0]].get(story.path.stem)
    ]


def play(story: Story, broker: Broker, release: str, expected: Answers, quiet_s: float) -> Answers:
    """What the broker answers otherwise than the story, in the attempt that meets the expectation, or else in the last."""
    for _ in range(RACES):
        found = EarlierConversation(story, broker, releases()[release], expected, quiet_s).play()
        if found == expected:
            break
    return found


@pytest.fixture(scope="module")
def as_release(our_servers: Brokers) -> Iterator[Callable[[str], Broker]]:
    """Our server, which becomes the release."""
    broker = our_servers({}, "releases")
    with Control(broker.admin) as control:

        def become(release: str) -> Broker:
            control.emulate(release)
            return broker

        yield become


@pytest.mark.parametrize("chosen", [new_in, pytest.param(stories, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("release", ANSWERS)
def test_this_server_answers_as_a_broker_of_the_release(
    as_release: Callable[[str], Broker], release: str, chosen: Callable[[str], list[Story]]
) -> None:
    broker, unexplained = as_release(release), {}
    for story in chosen(release):
        name = story.path.stem
        expected = ANSWERS[release].get(name, {})
        found = play(story, broker, release, expected, QUIET_S)
        differing = found.items() ^ expected.items()
        unexplained |= {
            f"{name}, {story.steps[each].text}": (expected.get(each, "as in the story"), found.get(each, "as in the story"))
            for each in {position for position, _ in differing} - NOT_IMITATED.get(name, set())
        }
    assert not unexplained


@pytest.mark.thorough
@pytest.mark.parametrize("release", releases())
def test_a_live_broker_of_the_release_answers_as_recorded(
    tmp_path: Path, release: str, request: pytest.FixtureRequest
) -> None:
    settings = {name: value for name, value in SETTINGS.items() if not name.startswith(LATER)}
    kafka = EarlierKafka(tmp_path, releases()[release].recorded, settings)
    known = ANSWERS.get(release, {})
    try:
        kafka.start().wait_until_serving()
        broker = Broker(kafka.bootstrap, kafka.stop)
        found = {
            story.path.stem: play(story, broker, release, known.get(story.path.stem, {}), BUSY_S)
            for story in stories(release)
        }
    finally:
        kafka.stop()
    found = {name: answers for name, answers in found.items() if answers}
    if request.config.getoption("--rewrite"):
        record(recorded() | {release: found})
    else:
        assert found == known
