"""`coordinator groups what-if` foretells what the clients of a recorded group do under another setting."""

import json
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator.groups.kinds import Kind
from coordinator.operations.group_events import read_folder
from coordinator.protocol.messages import AssignmentDeliveredValue
from coordinator_lab.cli.what_if import what_if
from coordinator_lab.what_if.answer import answer
from coordinator_lab.what_if.behaviour import behaviour
from coordinator_lab.what_if.recording import Recording, Window
from coordinator_lab.what_if.replay import replay
from coordinator_lab.what_if.settings import Settings, changed
from tests.support.recorded_troubles import (
    BEGIN_S,
    CONSUMER,
    COOPERATIVE,
    SECONDS,
    STREAMS,
    pauses,
    record,
    restarts,
    rollout,
    stuck,
)

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

    def near(seen, least):
        return pytest.approx(seen, rel=TOLERANCE, abs=least)

    assert measures["rebalances"] == near(truth.rebalances, 0)
    # A group that waits for the heartbeat of a static member that came back is no rebalance.
    assert measures["rebalancing_seconds"] == near(truth.rebalancing_s if truth.rebalances else 0, 0.5)
    assert measures["partition_seconds_without_owner"] == near(truth.partition_s_without_owner, 0.5)
    assert measures["zombie_commits_refused"] == near(truth.commits_refused, 1)


WHOLE = {"begin_s": 0}
CONSUMERS = {"protocol": CONSUMER}
STREAMING = {"protocol": STREAMS}
LATE = {**CONSUMERS, "commit_takes_s": 3}
STRICT = {"group_consumer_fencing_policy": "strict"}
SHORT_POLL, LONG_POLL = {"max_poll_s": 10}, {"max_poll_s": 60}
LONGER = "session.timeout.ms=30000"
TROUBLES = {
    "restarts hidden by static members": (
        restarts, {}, ("membership=static", LONGER), {"is_static": True, "session_s": 30},
    ),
    "pauses within a longer session": (pauses, {}, (LONGER,), {"session_s": 30}),
    "a rollout hidden by static members": (rollout, {}, ("membership=static",), {"is_static": True}),
    "an initial delay that is off": (
        pauses, WHOLE, ("group.initial.rebalance.delay.ms=0",), {**WHOLE, "group_initial_rebalance_delay_ms": 0},
    ),
    "restarts of cooperative members": (
        restarts, {}, ("rebalance.protocol=cooperative",), {"protocol": COOPERATIVE},
    ),
    "pauses within a longer session of a streams group": (
        pauses, STREAMING, (LONGER,), {**STREAMING, "session_s": 30},
    ),
    "long polls": (stuck, SHORT_POLL, ("max.poll.interval.ms=60000",), LONG_POLL),
    "pauses in a consumer group": (pauses, {}, ("group.protocol=consumer",), CONSUMERS),
    "late commits under a strict policy": (
        restarts, LATE, ("group.consumer.fencing.policy=strict",), {**LATE, **STRICT},
    ),
    "pauses of cooperative members": (
        pauses, {"protocol": COOPERATIVE}, (LONGER,), {"protocol": COOPERATIVE, "session_s": 30},
    ),
    "pauses within a longer session of a consumer group": (
        pauses, CONSUMERS, (LONGER,), {**CONSUMERS, "session_s": 30},
    ),
    "restarts of a consumer group hidden by static members": (
        restarts, CONSUMERS, ("membership=static", LONGER), {**CONSUMERS, "is_static": True, "session_s": 30},
    ),
    "restarts of a streams group hidden by static members": (
        restarts, STREAMING, ("membership=static", LONGER), {**STREAMING, "is_static": True, "session_s": 30},
    ),
    "late commits of a streams group under a strict policy": (
        restarts, {**STREAMING, "commit_takes_s": 3}, ("group.streams.fencing.policy=strict",),
        {**STREAMING, "commit_takes_s": 3, "group_streams_fencing_policy": "strict"},
    ),
    "long polls in a consumer group": (
        stuck, {**CONSUMERS, **SHORT_POLL}, ("max.poll.interval.ms=60000",), {**CONSUMERS, **LONG_POLL},
    ),
}  # fmt: skip
"""What happens, the settings then, those to try, and those to run it with."""
DAILY = 9


def settings_to_try(*given):
    return [option for each in given for option in ("--set", each)]


def in_force(settings):
    """What the events do not show."""
    found = ["session.timeout.ms=10000", f"max.poll.interval.ms={settings.get('max_poll_s', 60)}000"]
    if settings.get("protocol") == COOPERATIVE:
        found.append("rebalance.protocol=cooperative")
    return [option for each in found for option in ("--recorded", each)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs a trouble under some settings, once."""
    found = {}

    def run_once(happen, settings):
        key = (happen, *sorted(settings.items()))
        if key not in found:
            found[key] = record(tmp_path_factory.mktemp("trouble") / "folder", happen, **settings)
        return found[key]

    return run_once


@pytest.mark.long
@pytest.mark.parametrize(
    "trouble",
    [pytest.param(each, marks=[pytest.mark.thorough] * (place >= DAILY)) for place, each in enumerate(TROUBLES)],
)
def test_another_setting_does_what_was_foretold_when_it_is_run(trouble, run):
    happen, then, other, now = TROUBLES[trouble]
    before, after = run(happen, then), run(happen, now)
    assert before.errors == after.errors == []
    counted = f"{SECONDS - then.get('begin_s', BEGIN_S)}s"
    found = ask(before, "--last", counted, *in_force(then), *settings_to_try(*other))
    if "protocol" not in then:
        assert found["recorded"]["records_read_twice"] == pytest.approx(before.read_twice, rel=TOLERANCE)
    foretold(found["replayed_unchanged"], before)
    foretold(found["replayed_changed"], after)
    proof = found["proof"]
    assert proof["recorded_rebalances"] == before.rebalances
    assert proof["differences"]["partition_seconds_without_owner"] <= TOLERANCE
    assert proof["replayed_at_the_same_time"] >= (1 - TOLERANCE) * before.rebalances


@pytest.fixture
def restarted(run):
    return run(restarts, {})


def test_the_replay_of_a_consumer_group_is_replayed_as_it_was(tmp_path):
    recording = Recording("orders")
    read_folder(record(tmp_path / "pauses", pauses).data, "orders", recording.batch, pytest.fail)
    window, modern = recording.window(HOUR_MS), ("session.timeout.ms=10000", "group.protocol=consumer")
    replayed = replay(behaviour(recording.events, window, HOUR_MS), changed(Settings(), modern), window)
    again = answer("orders", replayed.events, window, (), ())
    assert again.matched == again.recorded.rebalances == again.replayed.rebalances > 6


def test_a_text_has_the_three_columns_the_proof_and_what_is_assumed(restarted):
    done = CliRunner().invoke(what_if, ["orders", "--log", str(restarted.data), *settings_to_try("membership=static")])
    assert "membership: as recorded -> static" in done.stdout
    assert "RECORDED" in done.stdout
    assert "recorded rebalances start within 1 s of their time" in done.stdout
    assert "session.timeout.ms was 45000, the default: no event shows it" in done.stdout
    assert "No measure differs by more than 20%." in done.stdout


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


def test_a_streams_group_is_not_replayed_under_another_protocol(run):
    data = run(restarts, STREAMING).data
    arguments = ["orders", "--log", str(data), "--set", "group.protocol=classic"]
    done = CliRunner().invoke(what_if, arguments, standalone_mode=False)
    assert done.return_value == 2
    assert "a streams group can be replayed as a streams group only" in done.stderr


def test_topics_that_always_have_the_same_owner_are_read_by_the_same_tasks():
    def given(member_id, **topics):
        made = AssignmentDeliveredValue.TopicPartitions
        return AssignmentDeliveredValue(
            0, 0, Kind.STREAMS, member_id, 1, [made(name, b"", which) for name, which in topics.items()]
        )

    events = [
        given("a", orders=[0, 1], payments=[0, 1], alerts=[2], rates=[0]),
        given("b", orders=[2], payments=[2], alerts=[0, 1]),
    ]
    known = behaviour(events, Window(0, 1), HOUR_MS)
    assert known.subtopologies == [["alerts"], ["orders", "payments", "rates"]]


def test_a_group_without_events_is_an_error(restarted):
    done = CliRunner().invoke(what_if, ["others", "--log", str(restarted.data)], standalone_mode=False)
    assert done.return_value == 1
    assert "have no group others" in done.stderr


def test_the_package_adds_the_command_to_the_groups_of_the_command_line():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    value = project["entry-points"]["coordinator.commands"]["groups what-if"]
    assert EntryPoint("groups what-if", value, "coordinator.commands").load() is what_if
