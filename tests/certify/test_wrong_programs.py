"""The judge, judged: wrong and right programs in three languages, written from docs/certify.md and without its code.

A wrong program breaks the promise that names its mistake in three events; a right one breaks none. In the suite runs a part, in
one event each. All of it, five times over:

    THOROUGH=1 CERTIFY_RUNS=5 make test ARGS=tests/certify/test_wrong_programs.py
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.certify.judged_programs import (
    IN_SUITE,
    RIGHT,
    RIGHT_CONSUMER,
    RIGHT_SHARE,
    WRONG,
    WRONG_CONSUMER,
    WRONG_SHARE,
    Wrong,
)
from tests.compatibility.certified.programs import command_of

ALL = "THOROUGH" in os.environ
RUNS = int(os.environ.get("CERTIFY_RUNS", "1"))
JOBS = 3
"""Events of a certification that run at the same time."""


def certify(folder: Path, program: str, events: str, protocol: str = "classic") -> Any:
    command = [sys.executable, "-m", "coordinator", "certify", "--protocol", protocol, "--instances", "2"]
    command += ["--jobs", str(JOBS), "--output", str(folder), "--events", events, "--", *command_of(program)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout)
    return json.loads((folder / "certificate.json").read_text())


def broken(certificate: Any) -> dict[str, list[str]]:
    """Event -> the promises that were broken in it."""
    return {
        event["name"]: [each["promise"] for each in event["findings"] if each["outcome"] == "broken"]
        for event in certificate["events"]
    }


def chosen(program: str, events: str, in_suite: bool, *more: Any, name: str = "") -> Any:
    marks = [] if in_suite else [pytest.mark.thorough]
    if not program.startswith("python"):
        marks.append(pytest.mark.foreign)
    events = events if ALL else events.split(",", maxsplit=1)[0]
    return pytest.param(program, events, *more, id=name or program, marks=marks)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("run", range(RUNS))
@pytest.mark.parametrize(
    ("program", "events", "wrong"),
    [
        chosen(name, each.events, each.in_suite, each, name=f"{name} {each.protocol}")
        for table in (WRONG, WRONG_CONSUMER, WRONG_SHARE)
        for name, each in table.items()
    ],
)
def test_a_wrong_program_fails_for_its_named_reason(tmp_path, program: str, events: str, wrong: Wrong, run: int):
    found = broken(certify(tmp_path, program, events, wrong.protocol))
    assert [name for name, promises in found.items() if wrong.promise not in promises] == [], found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("run", range(RUNS))
@pytest.mark.parametrize(("program", "events"), [chosen(name, each, name in IN_SUITE) for name, each in RIGHT.items()])
def test_a_right_program_breaks_no_promise(tmp_path, program, events, run):
    found = broken(certify(tmp_path, program, events))
    assert {name: promises for name, promises in found.items() if promises} == {}


@pytest.mark.timeout(900)
@pytest.mark.thorough
@pytest.mark.foreign
@pytest.mark.parametrize("run", range(RUNS))
@pytest.mark.parametrize("program", ["go", "python confluent_consumer"])
def test_a_right_program_of_the_consumer_protocol_breaks_no_promise(tmp_path, program, run):
    found = broken(certify(tmp_path, program, RIGHT_CONSUMER, "consumer"))
    assert {name: promises for name, promises in found.items() if promises} == {}


@pytest.mark.timeout(1200)
@pytest.mark.thorough
@pytest.mark.foreign
@pytest.mark.parametrize("run", range(RUNS))
@pytest.mark.parametrize("program", ["go", "python share_consumer"])
def test_a_right_share_consumer_breaks_no_promise(tmp_path, program, run):
    found = broken(certify(tmp_path, program, RIGHT_SHARE, "share"))
    assert {name: promises for name, promises in found.items() if promises} == {}
