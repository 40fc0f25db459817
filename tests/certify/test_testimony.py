"""What programs say of the records that they have processed: on stdout, over HTTP, and in their database."""

import asyncio
import sys
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from coordinator_testing.certify.case import InputRecord, InstanceHistory
from coordinator_testing.certify.content import Content
from coordinator_testing.certify.programs import Instance
from coordinator_testing.certify.testimony import LINE, CommandFailed, Terms, WrongPattern, pattern_of
from coordinator_testing.certify.testimony import Testimony as Heard
from tests.support.waiting import wait_until

INPUTS = {3: [InputRecord(17, 40, 0), InputRecord(17, 90, 1)]}
"""Partition 3 had record 40 at offset 17, and has record 90 there since the topic was made again."""


def instance(tmp_path, program: str = "") -> Instance:
    history = InstanceHistory(index=2, listener="127.0.0.1:1")
    return Instance(history, [sys.executable, "-c", program], {}, tmp_path / "output.log")


def said(testimony: Heard, recreated_ms=()) -> list[tuple[int, int, int | None]]:
    return [(each.partition, each.number, each.instance) for each in testimony.statements(INPUTS, recreated_ms)]


async def test_a_line_on_stdout_names_a_record_as_soon_as_it_is_printed(tmp_path):
    """The program does not flush, and runs on."""
    program = 'import time; print("other"); print("12:00 INFO processed in 3 17"); time.sleep(600)'
    testimony, process = Heard(Terms("lines"), "in", Content()), instance(tmp_path, program)
    await testimony.start([process])
    await process.start()
    await asyncio.to_thread(wait_until, lambda: said(testimony))
    await process.kill()
    assert said(testimony) == [(3, 40, 2)]
    assert process.printed() == "other\n12:00 INFO processed in 3 17\n"


async def test_an_http_call_is_answered_when_it_is_noted(tmp_path):
    testimony, process = Heard(Terms("http"), "in", Content()), instance(tmp_path)
    await testimony.start([process])
    url = process.environment["PROCESSED_URL"]

    def call(body: Any, path: str = "") -> int:
        with urlopen(Request(url + path, body)) as answer:
            return int(answer.status)

    try:
        assert await asyncio.to_thread(call, b"processed in 3 17\nprocessed another 3 17\n") == 204
        assert said(testimony) == [(3, 40, 2)]
        with pytest.raises(HTTPError, match="404"):
            await asyncio.to_thread(call, b"processed in 3 17", "/nobody")
        assert await asyncio.to_thread(call, iter([b"processed in", b" 3 17"])) == 204, "in chunks"
        assert said(testimony) == [(3, 40, 2)] * 2
    finally:
        await testimony.stop()


async def test_a_command_says_what_the_database_of_the_program_holds():
    testimony = Heard(Terms("command", command='echo "processed $TOPIC 3 17 1700000000000"'), "in", Content())
    await testimony.run_command({"TOPIC": "in"})
    [statement] = testimony.statements(INPUTS, [1_600_000_000_000])
    assert (statement.number, statement.time_ms, statement.instance) == (90, 1_700_000_000_000, None)


@pytest.mark.process  # its shell
async def test_a_line_means_the_record_that_had_the_offset_when_it_was_printed():
    command = 'for time in 1000 3000; do echo "processed in 3 17 $time"; done; echo "processed in 3 17"'
    testimony = Heard(Terms("command", command=command), "in", Content())
    await testimony.run_command({})
    inputs = {3: [InputRecord(17, 40, 0, 0, 2000), InputRecord(17, 90, 0, 2000)]}
    assert [each.number for each in testimony.statements(inputs, ())] == [40, 90, 90]


@pytest.mark.process  # its shell
async def test_a_command_that_fails_is_no_testimony():
    testimony = Heard(Terms("command", command="echo no table >&2; exit 3"), "in", Content())
    with pytest.raises(CommandFailed, match=r"exit code 3: no table$"):
        await testimony.run_command({})


async def test_a_line_may_name_the_value_of_a_record():
    content = Content()
    content.make(3, 40)
    terms = Terms("command", pattern_of("done (?P<value>.*)"), "echo done 3:40; echo done nothing")
    testimony = Heard(terms, "in", content)
    await testimony.run_command({})
    assert said(testimony) == [(3, 40, None)]


def test_other_sources_have_no_lines():
    assert Heard(Terms("topic"), "in", Content()).statements(INPUTS, ()) is None


@pytest.mark.parametrize(
    ("expression", "problem"),
    [("(", "no regular expression"), ("(?P<topic>x)", "names no record"), ("(?P<key>x)(?P<value>y)", "'key'")],
)
def test_a_pattern_that_cannot_name_a_record_is_refused(expression, problem):
    with pytest.raises(WrongPattern, match=problem):
        pattern_of(expression)


def test_the_line_that_the_documents_show_names_a_record():
    assert pattern_of(LINE).search("processed in 3 17").groupdict() == {
        "topic": "in", "partition": "3", "offset": "17", "time_ms": None,
    }  # fmt: skip
