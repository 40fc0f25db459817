"""As an earlier release of Kafka this server answers the stories as a broker of that release did.

release_answers.json has what brokers answered otherwise than Kafka 4.4; the stories have the rest. One server becomes each of
the releases. THOROUGH=1 plays the stories to live brokers as well, and `--rewrite` notes their answers again.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import groupby
from pathlib import Path

import pytest

from coordinator.protocol.releases import releases
from coordinator_testing.control import Control
from tests.scenarios.conftest import LATER, SETTINGS
from tests.scenarios.conversation import QUIET_S, Broker, Brokers
from tests.scenarios.earlier import Answers, EarlierConversation, is_for
from tests.scenarios.story import Story
from tests.scenarios.test_scenarios import RACES, STORIES, digest
from tests.support.earlier_kafka import EarlierKafka

RECORDED = Path(__file__).with_name("release_answers.json")
"""Story -> its digest; the releases whose brokers were asked; position of a step -> what some answered otherwise."""
OLDEST_FIRST = list(reversed(releases()))
BUSY_S = 1.0
"""How long a broker on a busy machine may take for an answer that it does not hold back."""
ByStory = dict[str, Answers]
NOT_IMITATED = {
    "consumer_alone": {13, 14, 15, 22, 23},
    "consumer_classic_joins": {19},
    "consumer_join_errors": {15, 16, 20, 21},
    "consumer_preferred_assignor": set(range(11, 30)),
    "list_offsets_by_time": {9},
}
"""Story -> the steps whose answers differ for a reason that docs/emulation.md gives."""
BY_NAME = {story.path.stem: story for story in STORIES}


def spans(chosen: Collection[str]) -> str:
    """Releases as text: "2.4-2.8 3.6"."""
    runs = (list(run) for is_chosen, run in groupby(OLDEST_FIRST, lambda release: release in chosen) if is_chosen)
    return " ".join("-".join(dict.fromkeys((run[0], run[-1]))) for run in runs)


def releases_of(text: str) -> Iterator[str]:
    """Inverts `spans`."""
    for span in text.split():
        first, _, last = span.partition("-")
        yield from OLDEST_FIRST[OLDEST_FIRST.index(first) : OLDEST_FIRST.index(last or first) + 1]


def recorded() -> dict[str, ByStory]:
    """Release -> each story that its broker was asked -> what it answered otherwise than the story says."""
    found: dict[str, ByStory] = {}
    for story, kept in json.loads(RECORDED.read_text()).items():
        for release in releases_of(kept["asked"]):
            found.setdefault(release, {})[story] = {}
        for position, answers in kept["otherwise"].items():
            for text, answer in answers.items():
                for release in releases_of(text):
                    found[release][story][int(position)] = answer
    return found


def record(answers: Mapping[str, ByStory]) -> None:
    """Keeps what these releases have answered."""
    kept = {}
    for name in sorted(set().union(*answers.values())):
        asked = [release for release in OLDEST_FIRST if name in answers.get(release, ())]
        otherwise = {}
        for position in sorted(set().union(*(answers[release][name] for release in asked))):
            given = {release: answers[release][name].get(position) for release in asked}
            texts = dict.fromkeys(text for text in given.values() if text is not None)
            otherwise[position] = {spans([each for each in asked if given[each] == text]): text for text in texts}
        kept[name] = {"digest": digest(BY_NAME[name]), "asked": spans(asked), "otherwise": otherwise}
    RECORDED.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


ANSWERS = recorded()


def all_of(release: str) -> ByStory:
    """All that a broker of the release was asked."""
    return ANSWERS[release]


def new_in(release: str) -> ByStory:
    """What a broker of the next release has answered otherwise, or was not asked."""
    later = OLDEST_FIRST[OLDEST_FIRST.index(release) + 1 :]
    following = next((ANSWERS[each] for each in later if each in ANSWERS), {})
    return {name: answers for name, answers in ANSWERS[release].items() if following.get(name) != answers}


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


def test_the_stories_are_still_those_that_were_asked() -> None:
    kept = json.loads(RECORDED.read_text())
    assert {name: digest(BY_NAME[name]) for name in kept} == {name: each["digest"] for name, each in kept.items()}


@pytest.mark.parametrize("chosen", [new_in, pytest.param(all_of, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("release", ANSWERS)
def test_this_server_answers_as_a_broker_of_the_release(
    as_release: Callable[[str], Broker], release: str, chosen: Callable[[str], ByStory]
) -> None:
    broker, unexplained = as_release(release), {}
    for name, expected in chosen(release).items():
        found = play(BY_NAME[name], broker, release, expected, QUIET_S)
        differing = {position for position, _ in found.items() ^ expected.items()}
        for position in differing - NOT_IMITATED.get(name, set()):
            answers = [each.get(position, "as in the story") for each in (expected, found)]
            unexplained[f"{name}: {BY_NAME[name].steps[position].text}"] = answers
    assert not unexplained


@pytest.mark.thorough
@pytest.mark.parametrize("release", releases())
def test_a_live_broker_of_the_release_answers_as_recorded(
    tmp_path: Path, release: str, request: pytest.FixtureRequest
) -> None:
    settings = {name: value for name, value in SETTINGS.items() if not name.startswith(LATER)}
    kafka = EarlierKafka(tmp_path, releases()[release].recorded, settings)
    known = ANSWERS.get(release, {})
    rewrites = request.config.getoption("--rewrite")
    asked = [
        name for name, story in BY_NAME.items() if (rewrites or name in known) and is_for(story, releases()[release])
    ]
    try:
        kafka.start().wait_until_serving()
        broker = Broker(kafka.bootstrap, kafka.stop)
        found = {name: play(BY_NAME[name], broker, release, known.get(name, {}), BUSY_S) for name in asked}
    finally:
        kafka.stop()
    if rewrites:
        record(recorded() | {release: found})
    else:
        assert found == known
