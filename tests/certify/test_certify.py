"""`coordinator certify` with real programs: a right one passes, and wrong ones fail where they must, each time alike.

The whole curriculum takes minutes: `THOROUGH=1 make test ARGS=tests/certify/test_certify.py` runs it too.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from coordinator_testing.certify.judge import SHARE_PROMISES
from tests.support.waiting import wait_until

PROGRAMS = Path(__file__).resolve().parents[1] / "compatibility" / "certified"
RIGHT_EVENTS = "heartbeat-illegal-generation,leader-dies-before-it-assigns,pause-and-zombie-commit"
RUNS = {
    "right": ("confluent_consumer", RIGHT_EVENTS),
    "right again": ("confluent_consumer", RIGHT_EVENTS),
    "commits first": ("wrong_commits_first", "follower-killed"),
    "ignores revocation": ("wrong_ignores_revocation", "pause-and-zombie-commit"),
    "zombie": ("wrong_zombie", "commit-illegal-generation"),
    "commits lost": ("wrong_commits lost", "rolling-restart"),
    "commits back": ("wrong_commits back", "rebalance-forced"),
    "commits too far": ("wrong_commits too_far", "rebalance-forced"),
    "commits outside": ("wrong_commits outside", "rebalance-forced"),
    "always transactional": ("confluent_transactions", "follower-killed,rebalance-forced"),
    "ends at once": ("no_such_program", "rebalance-forced"),
    "lines": ("speaks lines", "rebalance-forced", "--testimony", "lines", "--strict"),
    "http": ("speaks http", "rebalance-forced", "--testimony", "http", "--strict"),
    "lines too early": ("speaks lines early", "rebalance-forced", "--testimony", "lines"),
    "earlier release": ("confluent_consumer", "rebalance-forced,online-upgrade", "--emulate", "2.8"),
    "share": ("share_consumer", "holder-killed,lock-expires,acknowledgement-lost", "--protocol", "share"),
    "share accepts first": ("wrong_share first", "poison-record", "--protocol", "share"),
    "no output topic": ("confluent_consumer", "rebalance-forced", "--testimony", "none", "--strict"),
}
"""Name -> program, events and options."""
FAILURES = {
    "wrong_failures delivery": ("output-too-large", "records lost"),
    "wrong_failures impatient": ("transaction-hangs", "rebalances"),
    "wrong_failures latest": ("group-deleted", "records lost"),
    "wrong_failures remembers": ("offsets-reset", "records lost"),
    "wrong_skips": ("record-corrupt", "records lost"),
}
"""Program that is wrong when something fails -> an event in which it is, and the promise that it breaks."""
SLOW_FAILURES = {
    "wrong_failures decode": ("poison-record", "program ended"),
    "wrong_failures impatient": ("client-throttled", "rebalances"),
    "wrong_failures own_rack": ("replicas-change-racks", "seconds without progress"),
}
RUNS |= {program: (program, event) for program, (event, _) in FAILURES.items()}
THOROUGH = {
    *("commits first", "commits back", "commits too far", "commits outside", "http", "lines too early", "wrong_skips"),
    *("wrong_failures impatient", "wrong_failures latest", "wrong_failures remembers"),
}
"""Runs of which another one is like enough from day to day."""
AT_A_TIME = 3
"""Certifications that run at the same time: most of each is waiting."""
Certified = Callable[[str], tuple[int, Any]]


def chosen(name: str, *values: str) -> Any:
    return pytest.param(name, *values, marks=pytest.mark.thorough if name in THOROUGH else ())


def start(folder: Path, program: str, events: str, *options: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "coordinator",
        "certify",
        "--protocol",
        "classic",
        "--instances",
        "2",
        "--jobs",
        "3",
    ]
    script, *arguments = program.split()
    command += ["--output", str(folder), *(("--events", events) if events else ()), *options]
    return subprocess.Popen(
        [*command, "--", sys.executable, str(PROGRAMS / f"{script}.py"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certified]:
    """The exit code and the certificate of a certification. All begin with the first."""
    folder = tmp_path_factory.mktemp("certified")
    running: list[subprocess.Popen[str]] = []

    def run(name: str) -> tuple[int, str]:
        process = start(folder / name, *RUNS[name])
        running.append(process)
        output, _ = process.communicate(timeout=240)
        return process.returncode, output

    pool = ThreadPoolExecutor(AT_A_TIME)
    runs = {name: pool.submit(run, name) for name in RUNS if "THOROUGH" in os.environ or name not in THOROUGH}

    def wait_for(name: str) -> tuple[int, Any]:
        code, output = runs[name].result()
        print(output)
        return code, json.loads((folder / name / "certificate.json").read_text())

    try:
        yield wait_for
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for each in running:
            each.terminate()
        pool.shutdown()


def broken(certificate: Any) -> dict[str, list[str]]:
    """Event -> the promises that were broken in it."""
    return {
        event["name"]: [each["promise"] for each in event["findings"] if each["outcome"] == "broken"]
        for event in certificate["events"]
    }


def verdicts(certificate: Any) -> list[Any]:
    return [
        (event["name"], event["outcome"], [(each["promise"], each["outcome"]) for each in event["findings"]])
        for event in certificate["events"]
    ]


def test_a_right_program_passes_and_passes_again(certified):
    code, first = certified("right")
    assert (code, first["outcome"]) == (0, "passed"), broken(first)
    assert all(event["records"] > 0 for event in first["events"])
    assert verdicts(certified("right again")[1]) == verdicts(first)


@pytest.mark.thorough
def test_a_program_that_commits_before_it_processes_is_caught_whether_or_not_it_loses_records(certified):
    code, certificate = certified("commits first")
    assert code == 1
    assert "committed too early" in broken(certificate)["follower-killed"]


def test_a_program_that_always_works_in_transactions_passes_events_that_ask_for_none(certified):
    code, certificate = certified("always transactional")
    assert (code, certificate["outcome"]) == (0, "passed"), broken(certificate)


@pytest.mark.parametrize(
    ("program", "promise"),
    [
        chosen("commits lost", "committed by another"),
        chosen("commits back", "committed backwards"),
        chosen("commits too far", "committed too early"),
        chosen("commits outside", "committed too early"),
    ],
)
def test_a_program_that_commits_wrongly_is_caught_for_what_it_does(certified, program, promise):
    code, certificate = certified(program)
    assert code == 1
    assert [promise in each for each in broken(certificate).values()] == [True]


def test_a_right_share_consumer_passes(certified):
    code, certificate = certified("share")
    assert (code, certificate["outcome"]) == (0, "passed"), broken(certificate)
    assert {each["promise"] for event in certificate["events"] for each in event["findings"]} == set(SHARE_PROMISES)


def test_a_share_consumer_that_accepts_before_it_processes_is_caught(certified):
    code, certificate = certified("share accepts first")
    assert code == 1
    assert "accepted too early" in broken(certificate)["poison-record"]


@pytest.mark.parametrize("program", [chosen(program) for program in FAILURES])
def test_a_program_that_is_wrong_when_something_fails_is_caught(certified, program):
    code, certificate = certified(program)
    event, promise = FAILURES[program]
    assert code == 1
    assert promise in broken(certificate)[event]


def test_a_program_that_ignores_revocation_reads_what_another_owns(certified):
    code, certificate = certified("ignores revocation")
    assert code == 1
    assert "read by two at once" in broken(certificate)["pause-and-zombie-commit"]


def test_a_zombie_goes_on_after_a_fatal_error(certified):
    code, certificate = certified("zombie")
    assert code == 1
    assert "requests after a fatal error" in broken(certificate)["commit-illegal-generation"]


def test_a_program_that_ends_at_once_is_reported_at_once_with_its_exit_code_and_output(certified):
    code, certificate = certified("ends at once")
    assert code == 1
    [event] = certificate["events"]
    assert event["reason"].endswith("ended with exit code 2")
    assert "program ended" in broken(certificate)["rebalance-forced"]
    assert any("No such file" in each["printed"] for each in event["instances"])


@pytest.mark.parametrize("source", [chosen("lines"), chosen("http")])
def test_a_program_that_copies_nothing_testifies_by_its_own_words(certified, source):
    code, certificate = certified(source)
    assert (code, certificate["outcome"], certificate["not_judged"]) == (0, "passed", []), broken(certificate)


@pytest.mark.thorough
def test_a_program_whose_words_follow_its_commits_is_caught(certified):
    code, certificate = certified("lines too early")
    assert code == 1
    assert broken(certificate)["rebalance-forced"] == ["committed too early"]


def test_without_a_testimony_the_protocol_alone_is_judged_and_a_strict_run_says_so(certified):
    code, certificate = certified("no output topic")
    assert (code, certificate["outcome"]) == (3, "passed")
    assert certificate["not_judged"] == ["records lost", "delivered twice", "committed too early"]
    [event] = certificate["events"]
    outcomes = {each["promise"]: each["outcome"] for each in event["findings"]}
    assert outcomes["records lost"] == outcomes["delivered twice"] == outcomes["committed too early"] == "not judged"
    assert outcomes["rebalances"] == outcomes["read by two at once"] == "kept"


def test_an_earlier_release_has_the_events_that_can_happen_with_it(certified):
    code, certificate = certified("earlier release")
    assert (code, certificate["release"]) == (0, "2.8"), broken(certificate)
    assert [(each["outcome"], each["reason"]) for each in certificate["events"]] == [
        ("passed", None),
        ("not applicable", "it needs Kafka 4.0, and the server is Kafka 2.8"),
    ]


def test_sigterm_stops_the_server_and_the_instances(tmp_path):
    script = 'file="$0-$INSTANCE"; echo "$BOOTSTRAP $$" > "$file.part" && mv "$file.part" "$file" && exec sleep 600'
    run = subprocess.Popen(
        [sys.executable, "-m", "coordinator", "certify", "--protocol", "classic", "--instances", "2", "--events",
         "rebalance-forced", "--", "sh", "-c", script, str(tmp_path / "instance")],
    )  # fmt: skip
    wait_until((tmp_path / "instance-1").exists, "the instances to start")
    bootstrap, pid = (tmp_path / "instance-1").read_text().split()
    run.terminate()
    assert run.wait(60) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    host, port = bootstrap.split(":")
    with pytest.raises(ConnectionRefusedError), socket.create_connection((host, int(port))):
        pass


@pytest.mark.thorough
@pytest.mark.parametrize("program", SLOW_FAILURES)
@pytest.mark.timeout(600)
def test_a_program_whose_failure_stops_the_group_is_caught(tmp_path, program):
    event, promise = SLOW_FAILURES[program]
    start(tmp_path, program, event).communicate(timeout=500)
    assert promise in broken(json.loads((tmp_path / "certificate.json").read_text()))[event]


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_every_event_of_the_curriculum_is_reached(tmp_path):
    start(tmp_path, "confluent_consumer", "").communicate(timeout=1700)
    certificate = json.loads((tmp_path / "certificate.json").read_text())
    assert [event["name"] for event in certificate["events"] if event["outcome"] == "not reached"] == []
