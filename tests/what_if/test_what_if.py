"""`coordinator groups what-if` foretells what the clients of a recorded group do under another setting."""

import json
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator.operations.group_events import read_folder
from coordinator_lab.cli.what_if import what_if
from coordinator_lab.what_if.answer import answer
from coordinator_lab.what_if.behaviour import behaviour
from coordinator_lab.what_if.recording import Recording
from coordinator_lab.what_if.replay import replay
from coordinator_lab.what_if.settings import Settings, changed
from tests.support.recorded_troubles import pauses, record, restarts, rollout

TOLERANCE = 0.2
HOUR_MS = 3_600_000


def ask(recorded, *options):
    done = CliRunner().invoke(
        what_if, ["orders", "--log", str(recorded.data), "--json", *options], standalone_mode=False
    )
    assert done.return_value == 0, done.output
    return json.loads(done.stdout)


def foretold(measures, truth):
    """The measures are those that were seen in the clients and in the group, within a fifth."""
    assert measures["rebalances"] == pytest.approx(truth.rebalances, rel=TOLERANCE)
    assert measures["rebalancing_seconds"] == pytest.approx(truth.rebalancing_s, rel=TOLERANCE, abs=0.5)
    seen = truth.partition_s_without_owner
    assert measures["partition_seconds_without_owner"] == pytest.approx(seen, rel=TOLERANCE)


TROUBLES = {
    "restarts hidden by static members": (
        restarts,
        ("membership=static", "session.timeout.ms=30000"),
        {"is_static": True, "session_s": 30},
    ),
    "pauses within a longer session": (pauses, ("session.timeout.ms=30000",), {"session_s": 30}),
    "a rollout hidden by static members": (rollout, ("membership=static",), {"is_static": True}),
    "an initial delay that is off": (pauses, ("group.initial.rebalance.delay.ms=0",), {"initial_delay_ms": 0}),
}


RECORDED = ("--recorded", "session.timeout.ms=10000", "--recorded", "max.poll.interval.ms=60000")


def settings_to_try(*given):
    return [option for each in given for option in ("--set", each)]


@pytest.mark.long
@pytest.mark.parametrize("trouble", TROUBLES)
def test_another_setting_does_what_was_foretold_when_it_is_run(trouble, tmp_path):
    happen, other, settings = TROUBLES[trouble]
    before, after = record(tmp_path / "before", happen), record(tmp_path / "after", happen, **settings)
    assert before.errors == after.errors == []
    found = ask(before, *RECORDED, *settings_to_try(*other))
    foretold(found["replayed_unchanged"], before)
    foretold(found["replayed_changed"], after)
    proof = found["proof"]
    assert proof["recorded_rebalances"] == before.rebalances
    assert proof["replayed_at_the_same_time"] >= (1 - TOLERANCE) * before.rebalances


@pytest.fixture(scope="module")
def restarted(tmp_path_factory):
    return record(tmp_path_factory.mktemp("restarts") / "folder", restarts)


def test_members_that_keep_their_partitions_are_without_them_for_a_shorter_time(restarted):
    answers = [
        ask(restarted, *RECORDED, *settings_to_try(each))
        for each in ("rebalance.protocol=cooperative", "group.protocol=consumer")
    ]
    for found in answers:
        eager = found["replayed_unchanged"]["partition_seconds_without_owner"]
        assert found["replayed_changed"]["partition_seconds_without_owner"] < 0.75 * eager
        assert found["replayed_changed"]["rebalances"] >= 6, "three restarts are six rebalances"


def test_the_replay_of_a_consumer_group_is_replayed_as_it_was(tmp_path):
    recording = Recording("orders")
    read_folder(record(tmp_path / "pauses", pauses).data, "orders", recording.batch, pytest.fail)
    window, modern = recording.window(HOUR_MS), ("session.timeout.ms=10000", "group.protocol=consumer")
    replayed = replay(behaviour(recording.events, window, HOUR_MS), changed(Settings(), modern), window)
    again = answer(replayed.events, window, (), ())
    assert again.matched == again.recorded.rebalances == again.replayed.rebalances > 6


def test_a_text_has_the_three_columns_the_proof_and_what_is_assumed(restarted):
    done = CliRunner().invoke(what_if, ["orders", "--log", str(restarted.data), *settings_to_try("membership=static")])
    assert "membership: as recorded -> static" in done.stdout
    assert "RECORDED" in done.stdout
    assert "recorded rebalances start within 1 s of their time" in done.stdout
    assert "session.timeout.ms was 45000, the default: no event shows it" in done.stdout


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ("session.timeout.ms=0", "milliseconds from 1 to 2147483647"),
        ("membership=some", "one of static, dynamic"),
        ("group.fencing=strict", "is not NAME=VALUE with one of the names session.timeout.ms"),
    ],
)
def test_a_wrong_setting_is_refused_and_the_allowed_values_are_named(restarted, option, error):
    done = CliRunner().invoke(what_if, ["orders", "--log", str(restarted.data), "--set", option], standalone_mode=False)
    assert done.return_value == 2
    assert error in done.stderr


def test_a_group_without_events_is_an_error(restarted):
    done = CliRunner().invoke(what_if, ["others", "--log", str(restarted.data)], standalone_mode=False)
    assert done.return_value == 1
    assert "have no group others" in done.stderr


def test_the_package_adds_the_command_to_the_groups_of_the_command_line():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    value = project["entry-points"]["coordinator.commands"]["groups what-if"]
    assert EntryPoint("groups what-if", value, "coordinator.commands").load() is what_if
