"""Events from files: what they become, and how a wrong one is refused."""

from pathlib import Path

import pytest
import yaml

from coordinator_testing.certify.curriculum import NoSuchEvent, events_of
from coordinator_testing.certify.event import Allows
from coordinator_testing.certify.own_events import WrongEvent, read_event

DOCUMENTED = Path(__file__).resolve().parents[2] / "docs" / "certify.md"
MINIMAL = {"name": "own", "happens": "It rebalances.", "right_client": "follows", "steps": ["rebalance"]}


def write(tmp_path: Path, **fields: object) -> Path:
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(MINIMAL | fields))
    return path


def test_the_event_that_the_documents_show_is_one(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(DOCUMENTED.read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0])
    [event] = events_of("classic", [str(path)])
    assert (event.name, event.allows) == ("leader-is-evicted", Allows(rebalances=2, stall_s=30))


def test_an_event_of_another_protocol_does_not_exist(tmp_path):
    with pytest.raises(NoSuchEvent):
        events_of("streams", [str(write(tmp_path))])


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"steps": ["explode"]}, "step 1: there is no step 'explode'; allowed: fault, clear, "),
        (
            {"steps": ["stable", {"kill": "first"}]},
            "step 2: an instance is its number, leader or follower; found 'first'",
        ),
        ({"steps": [{"stable": 3}]}, "step 1: it takes no value; found 3"),
        ({"steps": [{"kill": 0, "start": 0}]}, "step 1: a step is one word with its value; found kill, start"),
        (
            {"steps": [{"fault": {"api": "Heartbeat", "error": "NO_SUCH"}}]},
            "step 1: Kafka has no error NO_SUCH; allowed: ",
        ),
        ({"steps": [{"fault": {"api": "Heartbeat"}}]}, "step 1: .*at least one of error, coordinator"),
        ({"steps": [{"fault": {"api": "Heartbeat", "eror": "NONE"}}]}, "step 1: .*eror"),
        ({"steps": [{"reload_s": 0}]}, "step 1: it takes a number up to 600; found 0"),
        ({"steps": [{"request": {"instance": 0}}]}, "step 1: a request is "),
        ({"allows": {"rebalance": 1}}, "Object contains unknown field `rebalance`"),
        ({"happens": None}, "Expected `str`, got `null`"),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_step(tmp_path, fields, problem):
    with pytest.raises(WrongEvent, match=f"own.yaml: {problem}"):
        read_event(write(tmp_path, **fields))


def test_a_file_that_is_missing_is_refused():
    with pytest.raises(WrongEvent, match=r"none.yaml: .*No such file"):
        read_event(Path("none.yaml"))
