"""`coordinator control`: what it prints, for people and for scripts, and its exit codes."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from coordinator import cli
from coordinator_testing.control import Control
from tests.support.waiting import WITHIN_S


@pytest.fixture
def run(server, capsys):
    """`run("faults", "list")` returns what was printed; `expect` is the exit code."""

    def run(*words: str, expect: int = 0) -> str:
        code = cli.main(["control", *words, "--admin", server.admin])
        printed = capsys.readouterr()
        assert code == expect, printed.err or printed.out
        return printed.err if expect else printed.out

    return run


@pytest.fixture
def group(server, join, fresh):
    """A group with one member."""
    join(fresh("group"), client_id="ann")
    with Control(server.admin) as control:
        control.group(fresh("group")).wait(state="Stable", members=1)
    return fresh("group")


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


def test_a_rule_is_a_row_of_a_table(run, fresh):
    scope = fresh("scope")
    added = run(
        "faults", "add", "--api", "Heartbeat", "--api", "JoinGroup", "--group", "nobody*", "--version", "3-4",
        "--lose", "answer", "--times", "2", "--scope", scope,
    )  # fmt: skip
    header, row = rows(added)
    assert header == ["FAULT", "SCOPE", "MATCH", "ACTION", "EXTENT", "MATCHED", "ACTED", "HELD", "ACTIVE"]
    match = ["api=Heartbeat,JoinGroup", "version=3,4", "group=nobody*"]
    assert row[1:] == [scope, *match, "lose=answer", "times=2", "0", "0", "0", "yes"]
    assert run("faults", "list", "--scope", scope) == added
    assert run("faults", "clear", row[0]) == "cleared 1\n"
    assert rows(run("faults", "list", "--scope", scope)) == [header]


def test_every_option_of_a_rule_reaches_the_server(run, fresh):
    scope = fresh("scope")
    about = {
        "topic": "t", "group": "g", "member-id": "m", "instance-id": "i", "client-id": "c", "client-host": "h",
        "listener": "l:1", "role": "leader", "group-state": "Stable", "nth": "2", "per": "member",
    }  # fmt: skip
    words = [word for name, value in about.items() for word in (f"--{name}", value)]
    partial = ("--error", "UNKNOWN_MEMBER_ID", "--partition", "0", "--partition", "1", "--for-ms", "60000")
    run("faults", "add", "--api", "OffsetCommit", *words, *partial, "--scope", scope)
    run(
        "faults",
        "add",
        "--api",
        "EndTxn",
        "--transactional-id",
        "x",
        "--delay-ms",
        "5",
        "--when",
        "after",
        "--scope",
        scope,
    )
    run("faults", "add", "--api", "CreateTopics", "--error", "POLICY_VIOLATION", "--message", "no", "--scope", scope)
    run("faults", "add", "--api", "Heartbeat", "--error", "OFFSET_OUT_OF_RANGE", "--force", "--scope", scope)
    run(
        "faults", "add", "--api", "Metadata", "--client-id", "nobody", "--close", "--until", "cleared", "--scope", scope
    )
    run("faults", "add", "--api", "Fetch", "--client-id", "nobody", "--throttle-ms", "1", "--scope", scope)
    run("faults", "add", "--group", "nobody", "--coordinator", "loading", "--scope", scope)
    run(
        "faults", "add", "--api", "Heartbeat", "--principal", "User:x", "--where", '{"GenerationId": {">": 3}}',
        "--answer", '{"ErrorCode": 27}', "--instead", "--flip-bits", "1", "--size", "2", "--cut-after", "3",
        "--bytes-per-s", "4", "--probability", "0.5", "--seed", "6", "--scope", scope,
    )  # fmt: skip
    run("faults", "add", "--api", "Heartbeat", "--client-id", "x", "--observe", "--in-progress", "--scope", scope)
    listed = json.loads(run("faults", "list", "--scope", scope, "--json"))["faults"]
    assert listed.pop()["rule"] | {"scope": None} == {
        "match": {"api": "Heartbeat", "client_id": "x"}, "action": {"observe": True}, "extent": {"in_progress": True},
        "scope": None,
    }  # fmt: skip
    damaged = listed.pop()["rule"]
    assert (damaged["match"]["principal"], damaged["match"]["where"]) == ("User:x", {"GenerationId": {">": 3}})
    changed = {"answer": {"ErrorCode": 27}, "instead": True}
    assert damaged["action"] == changed | {"flip_bits": 1, "size": 2, "cut_after": 3, "bytes_per_s": 4}
    assert damaged["extent"] == {"probability": 0.5, "seed": 6}
    first = listed[0]["rule"]
    expected = {name.replace("-", "_"): value for name, value in about.items()}
    assert first["match"] == expected | {"api": "OffsetCommit", "nth": 2}
    assert first["action"] == {"error": "UNKNOWN_MEMBER_ID", "partitions": [0, 1]}
    assert first["extent"] == {"for_ms": 60000}
    assert [each["rule"]["action"] for each in listed[1:]] == [
        {"delay_ms": 5, "when": "after"},
        {"error": "POLICY_VIOLATION", "message": "no"},
        {"error": "OFFSET_OUT_OF_RANGE", "force": True},
        {"close": True},
        {"throttle_ms": 1},
        {"coordinator": "loading"},
    ]
    assert listed[4]["rule"]["extent"] == {"until": "cleared"}
    assert run("faults", "clear", "--scope", scope) == "cleared 9\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("faults", "add", "--api", "Hartbeat", "--close"), "Heartbeat"),
        (("faults", "add", "--api", "Heartbeat"), "at least one of"),
        (("faults", "add", "--version", "3-x", "--close"), "no version"),
        (("faults", "add", "--where", "MemberEpoch>3", "--close"), "no JSON"),
        (("faults", "add", "--api", "Heartbeat", "--where", '{"Generation": 3}', "--close"), "GenerationId"),
        (("faults", "clear"), "Exactly one of --fault, --scope and --all"),
        (("faults", "wait", "f1"), "Exactly one of --acted, --matched and --held"),
        (("groups", "wait", "g"), "At least one of --state, --members and --epoch"),
        (("groups", "wait", "g", "--state", "Stabel"), "Stable"),
        (("clock", "advance"), "Exactly one of --ms and --to-next"),
        (("clock", "--ms", "1"), "--ms belongs to `advance` and `set-wall`"),
        (("clock", "set-wall"), "--ms belongs to `advance` and `set-wall`"),
        (("events", "--after", "yesterday"), "neither an offset nor `now`"),
    ],
)
def test_wrong_arguments_exit_with_2_and_say_what_is_allowed(run, words, text):
    assert text in run(*words, expect=2)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("faults", "clear", "f999999"), "no fault f999999"),
        (("groups", "evict", "no-such-group", "nobody"), "no such group"),
        (("groups", "wait", "no-such-group", "--state", "Stable", "--timeout", "0"), "was not reached in 0 s"),
        (("clock", "advance", "--ms", "1"), "manual"),
    ],
)
def test_every_other_failure_exits_with_1(run, words, text):
    assert text in run(*words, expect=1)


def test_nothing_at_the_address_exits_with_1(capsys):
    assert cli.main(["control", "clock", "--admin", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith("coordinator: http://127.0.0.1:1: ")


def test_what_is_held_is_released_and_waited_for(run, group):
    [fault] = json.loads(
        run(
            "faults", "add", "--api", "Heartbeat", "--group", group, "--hold", "request", "--until", "cleared", "--json"
        )
    )["faults"]
    assert rows(run("faults", "wait", fault["id"], "--held", "1"))[1][-2] == "1"
    assert run("faults", "release", fault["id"], "--count", "1") == "released 1\n"
    assert json.loads(run("faults", "clear", fault["id"], "--json")) == {"cleared": 1}


def test_acts_on_a_group_are_rows(run, group):
    view = json.loads(run("groups", "wait", group, "--state", "Stable", "--json"))
    member = view["members"][0]["member_id"]
    shown = run("groups", "wait", group, "--state", "Stable", "--members", "1")
    assert rows(shown)[1][:5] == [group, "classic", "Stable", "1", "1"]
    assert ["MEMBER", "CLIENT", "HOST"] in rows(shown)
    assert rows(run("groups", "bump-epoch", group, "--reason", "a test"))[1][0] == group
    run("groups", "wait", group, "--state", "Stable", "--epoch", "2")
    acted = rows(run("groups", "evict", group, member))
    assert acted[0] == ["GROUP-ID", "KIND", "STATE", "EPOCH", "MEMBER-ID"]
    assert acted[1][-1] == member
    after = json.loads(run("groups", "wait", group, "--state", "Stable", "--members", "1", "--json"))
    other = after["members"][0]["member_id"]
    assert other != member
    run("groups", "expire-session", group, other)
    run("groups", "wait", group, "--state", "Stable", "--members", "1")
    assert rows(run("groups", "expire-offsets", group, "--topic", "events"))[1][0] == group
    assert rows(run("groups", "reload", group, "--for-ms", "10"))[1][0] == "__consumer_offsets"


def test_the_past_of_a_group_and_what_has_changed(run, group):
    at = json.loads(run("groups", "at", group, "0", "--json"))["at"]
    assert rows(run("groups", "at", group, "0"))[1][:3] == [group, "simple", "Dead"]
    last = str(at["last_offset"])
    assert rows(run("groups", "at", group, last))[1][:3] == [group, "classic", "Stable"]
    assert ["state", "Dead", "Stable"] in rows(run("groups", "diff", group, "0", last))
    assert "offsets from 0 to" in run("groups", "at", group, "123456789", expect=2)


def test_the_clock_is_shown_stopped_and_advanced(run, group):
    assert rows(run("clock"))[1][0] == "real"
    try:
        assert rows(run("clock", "manual"))[1][0] == "manual"
        before = json.loads(run("clock", "--json"))
        after = json.loads(run("clock", "advance", "--ms", "1500", "--json"))
        assert after["monotonic_ms"] - before["monotonic_ms"] == 1500
        ahead = after["wall_ms"] + 86_400_000
        assert json.loads(run("clock", "set-wall", "--ms", str(ahead), "--json"))["wall_ms"] == ahead
        fired = run("clock", "advance", "--to-next")
        assert "FIRED-AT-MS" in fired
    finally:
        run("clock", "set-wall", "--ms", str(time.time_ns() // 1_000_000))
        assert rows(run("clock", "real"))[1][0] == "real"


def test_requests_are_shown_as_they_are_answered(run, group):
    shown = run("record", "--api", "Heartbeat", "--group", group, "--count", "2").splitlines()
    assert len(shown) == 2
    assert re.search(rf" ann Heartbeat v\d group_id={group} .*-> answered: ", shown[0])
    lines = run("record", "--api", "Heartbeat", "--group", group, "--count", "2", "--json").splitlines()
    assert [json.loads(line)["number"] for line in lines] == [1, 2]


def test_events_are_shown_in_their_order(run, group):
    lines = [json.loads(line) for line in run("events", "--group", group, "--no-follow", "--json").splitlines()]
    assert [each["type"] for each in lines[:2]] == ["MemberJoined", "RebalanceStarted"]
    shown = run("events", "--group", group, "--limit", "2").splitlines()
    assert [line.split()[1:3] for line in shown] == [[group, "MemberJoined"], [group, "RebalanceStarted"]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_ends_a_stream_and_its_recording(server, group, number):
    """Ctrl-C and SIGTERM end a stream with exit code 0, and the recording with it."""
    command = [sys.executable, "-m", "coordinator", "control"]
    options = ["--group", group, "--admin", server.admin]
    with ExitStack() as stack:
        streams = [
            stack.enter_context(subprocess.Popen([*command, kind, *options], stdout=subprocess.PIPE, text=True))
            for kind in ("record", "events")
        ]
        for stream in streams:
            stack.callback(stream.kill)
            assert stream.stdout.readline()
            stream.send_signal(number)
        assert [stream.wait(WITHIN_S) for stream in streams] == [0, 0]
    control = Control(server.admin, scope=None)
    assert group not in {each.match.group for each in control.recordings()}
    control.disconnect()


def test_a_stream_in_the_background_of_a_shell_ends_with_sigterm(server, group):
    """A shell has SIGINT ignored for a command in its background, and the stream goes on after one."""
    command = [sys.executable, "-m", "coordinator", "control", "record", "--group", group, "--admin", server.admin]
    script = shlex.join(command) + " & echo $!; wait $!"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True) as shell:
        stream = int(shell.stdout.readline())
        assert shell.stdout.readline()
        os.kill(stream, signal.SIGINT)
        assert shell.stdout.readline()
        os.kill(stream, signal.SIGTERM)
        assert shell.wait(WITHIN_S) == 0


def test_exec_hands_the_address_to_the_command_line():
    inner = "from coordinator.cli import main; raise SystemExit(main(['control', 'clock', '--json']))"
    command = [sys.executable, "-m", "coordinator", "exec", "--", sys.executable, "-c", inner]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout)["mode"] == "real"
