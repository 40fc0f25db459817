"""As an earlier release of Kafka this server answers the stories as a broker of that release did.

answered_by_releases.json has what brokers answered otherwise than Kafka 4.4; the stories have the rest. One server becomes each
of the releases. THOROUGH=1 plays the stories to live brokers as well. `--rewrite` notes their answers again, with
`-k "test_a_live_broker and 3.9"` those of one release; what it was asked before an interruption is kept.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
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

RECORDED = Path(__file__).with_name("answered_by_releases.json")
"""Story -> its digest; the releases whose brokers were asked; those whose brokers did not answer twice the same, since the
story races a timer; position of a step -> what some answered otherwise."""
OLDEST_FIRST = list(reversed(releases()))
BUSY_S = 1.0
"""How long a broker on a busy machine may take for an answer that it does not hold back."""
AT_ONCE = 8
"""Stories that one broker is played: most of their time is waiting."""
ByStory = dict[str, Answers | None]
"""Story -> what a broker answered otherwise than it says; None: something else each time."""
NOT_IMITATED: dict[str, dict[str, set[int]]] = {
    "consumer_request_errors": {"4.0": {23}},
    "find_coordinator": {"3.0-3.9": {10}},
    "leave_old_versions": {"3.4": {20}},
    "list_offsets_by_time": {"2.4-2.8": {9}},
    "offset_delete": {"2.4-2.5": {20}},
    "offset_for_leader_epoch": {"2.4-2.7": {3, 4}},
    "txn_offset_commit_metadata_size": {"2.5-3.6": {4, 6}},
    "txn_offsets_are_taken_back": {"3.7-3.8": {7, 9, 16, 21, 22}},
    "txn_offsets_wait_for_the_marker": {"3.7-3.9": {8}, "3.0-3.4": {11, 12}},
}
"""Story -> releases -> the steps whose answers differ for a reason that docs/emulation.md gives."""
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
    """What the broker of each release answered to the stories that it was asked."""
    found: dict[str, ByStory] = {}
    for story, kept in json.loads(RECORDED.read_text()).items():
        given: dict[str, Answers] = {release: {} for release in releases_of(kept["asked"])}
        for position, answers in kept["otherwise"].items():
            for text, answer in answers.items():
                for release in releases_of(text):
                    given[release][int(position)] = answer
        for release, each in given.items():
            found.setdefault(release, {})[story] = each
        for release in releases_of(kept["varying"]):
            found.setdefault(release, {})[story] = None
    return found


def record(answers: Mapping[str, ByStory]) -> None:
    """Keeps what these releases have answered."""
    kept = {}
    for name in sorted(set().union(*answers.values())):
        asked = {release: answers[release][name] for release in OLDEST_FIRST if name in answers.get(release, ())}
        given = {release: each for release, each in asked.items() if each is not None}
        otherwise = {}
        for position in sorted(set().union(*given.values())):
            texts = dict.fromkeys(each[position] for each in given.values() if position in each)
            otherwise[position] = {
                spans([release for release, each in given.items() if each.get(position) == text]): text
                for text in texts
            }
        kept[name] = {
            "digest": digest(BY_NAME[name]),
            "asked": spans(given),
            "varying": spans(asked.keys() - given.keys()),
            "otherwise": otherwise,
        }
    RECORDED.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


ANSWERS = recorded()


def not_imitated(story: str, release: str) -> set[int]:
    """The steps of the story that this server answers otherwise than a broker of the release."""
    return set().union(*(steps for text, steps in NOT_IMITATED.get(story, {}).items() if release in releases_of(text)))


def all_of(release: str) -> dict[str, Answers]:
    """All that a broker of the release answers each time."""
    return {name: answers for name, answers in ANSWERS[release].items() if answers is not None}


def new_in(release: str) -> dict[str, Answers]:
    """What a broker of the next release has answered otherwise, or was not asked."""
    later = OLDEST_FIRST[OLDEST_FIRST.index(release) + 1 :]
    following = next((ANSWERS[each] for each in later if each in ANSWERS), {})
    return {name: answers for name, answers in all_of(release).items() if following.get(name) != answers}


def play(story: Story, broker: Broker, release: str, expected: Answers, quiet_s: float = QUIET_S) -> Answers:
    """What the broker answers otherwise than the story, in one attempt."""
    return EarlierConversation(story, broker, releases()[release], expected, quiet_s).play()


def ask(story: Story, broker: Broker, release: str, expected: Answers) -> Answers | None:
    """What a live broker answers otherwise than the story in two attempts, or in one as expected; None if it varies."""
    for _ in range(RACES):
        found = play(story, broker, release, expected, BUSY_S)
        if found == expected:
            return found
        expected = found
    return None


@pytest.fixture(scope="module")
def as_release(our_servers: Brokers) -> Iterator[Callable[[str], Broker]]:
    """Our server, which becomes the release."""
    broker = our_servers({}, "releases")
    with Control(broker.admin, answered_within_s=60) as control:

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
        excused = not_imitated(name, release)
        for _ in range(RACES):
            found = play(BY_NAME[name], broker, release, expected)
            differing = {position for position, _ in found.items() ^ expected.items()}
            if differing == excused:
                break
        for position in differing ^ excused:
            answers = [each.get(position, "as in the story") for each in (expected, found)]
            unexplained[f"{name} {position}: {BY_NAME[name].steps[position].text}"] = answers
    assert not unexplained


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("release", releases())
def test_a_live_broker_of_the_release_answers_as_recorded(
    tmp_path: Path, release: str, request: pytest.FixtureRequest
) -> None:
    settings = {name: value for name, value in SETTINGS.items() if not name.startswith(LATER)}
    kafka = EarlierKafka(tmp_path, releases()[release].recorded, settings)
    known = ANSWERS.get(release, {})
    found: ByStory = {}
    rewrites = request.config.getoption("--rewrite")
    asked = [
        name
        for name, story in BY_NAME.items()
        if (rewrites or known.get(name) is not None) and is_for(story, releases()[release])
    ]

    def note(name: str) -> None:
        found[name] = ask(BY_NAME[name], Broker(kafka.bootstrap, kafka.stop), release, known.get(name) or {})

    try:
        kafka.start().wait_until_serving()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(note, asked))
    finally:
        kafka.stop()
        if rewrites:
            record(recorded() | {release: known | found})
    assert rewrites or found == {name: known[name] for name in asked}
