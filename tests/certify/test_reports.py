"""The reports of a certification: the table, certificate.json, JUnit XML and the page."""

import json
import xml.etree.ElementTree as ET
from html import unescape

import msgspec
import pytest

from coordinator import cli
from coordinator_testing.certify import command_line, report_table
from coordinator_testing.certify.case import Note
from coordinator_testing.certify.certificate import SCHEMA_VERSION, Certificate, event_report
from coordinator_testing.certify.curriculum import events_of
from coordinator_testing.certify.judge import judge
from coordinator_testing.certify.run import Certification
from tests.certify.cases import B, Case, ms, right

PASSED, FAILED, LATE, FOREIGN = [each.name for each in events_of("classic")][:4]


def failed() -> Case:
    case = right()
    case.outputs.pop()
    return case


@pytest.fixture
def certification() -> Certification:
    """One event of each outcome."""
    cases = {
        PASSED: right(),
        FAILED: failed(),
        LATE: right(settled_ms=None, not_reached="the event is provoked: no <request> came"),
        FOREIGN: right(not_applicable="the program has no static members"),
    }
    events = {event.name: event for event in events_of("classic")}
    reports = []
    for name, case in cases.items():
        evidence = case.evidence()
        evidence.notes = [Note(ms(11), "a note & more")]
        reports.append(event_report(events[name], evidence, judge(evidence), {0: "printed <b>\x00\x1b[31m"}))
    certificate = Certificate(
        schema_version=SCHEMA_VERSION,
        server_version="1",
        protocol="classic",
        command=["python", "consumer.py"],
        instances=2,
        testimony="topic",
        topic_delay_ms=0,
        release="4.4",
        outcome="failed",
        not_judged=[],
        began_ms=ms(0),
        ended_ms=ms(60),
        events=reports,
    )
    event = {
        "type": "RebalanceStarted",
        "shard": 0,
        "offset": 1,
        "time_ms": ms(11),
        "group": "g",
        "epoch": 2,
        "cause": "c",
    }
    return Certification(certificate, {PASSED: [event]})


def test_a_warning_is_shown_and_fails_nothing_but_a_strict_run(certification):
    case = right()
    case.instances[1].pauses.append((ms(16.5), ms(17)))
    evidence = case.commit(18, B, 8).evidence()
    report = event_report(events_of("classic")[0], evidence, judge(evidence), {})
    assert report.outcome == "passed"
    assert "1?" in report_table.row(report, [PASSED])
    certificate = msgspec.structs.replace(certification.certificate, events=[report], outcome="passed")
    assert any("warning: committed backwards" in line for line in report_table.summary(certificate))
    assert [command_line.exit_code(certificate, strict=strict) for strict in (False, True)] == [0, 3]


def test_the_outcomes_of_events(certification):
    assert [each.outcome for each in certification.certificate.events] == [
        "passed", "failed", "not reached", "not applicable",
    ]  # fmt: skip


def test_the_folder_has_the_certificate_as_json_junit_xml_and_a_page(certification, tmp_path):
    command_line.write(certification, tmp_path)
    certificate = json.loads((tmp_path / "certificate.json").read_text())
    assert msgspec.convert(certificate, Certificate) == msgspec.convert(
        msgspec.to_builtins(certification.certificate), Certificate
    )
    suite = ET.parse(tmp_path / "junit.xml").getroot()
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4", "failures": "1", "errors": "1", "skipped": "1",
    }  # fmt: skip
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert "in-0@9" in cases[FAILED].find("failure").text
    assert "no <request> came" in cases[LATE].find("error").get("message")
    assert cases[PASSED].find("failure") is None
    page = (tmp_path / "index.html").read_text()
    assert "in-0@9" in page
    assert "printed &lt;b&gt;" in page
    assert "data-timeline" in page


def test_the_page_of_a_certificate_loads_nothing(certification, tmp_path):
    command_line.write(certification, tmp_path)
    page = unescape((tmp_path / "index.html").read_text())
    assert "default-src 'none'" in page
    assert ' src="' not in page
    assert "<link" not in page


def test_the_timeline_shows_one_accepted_commit_per_member_and_second_and_every_refused_one(certification, tmp_path):
    topics = [{"topic_name": "in", "partitions": [{"partition": 0, "error_code": 0}]}]
    commit = {"type": "CommitDecided", "shard": 0, "group": "g", "member_id": "m", "error_code": 0, "topics": topics}
    events = [commit | {"offset": offset, "time_ms": ms(offset / 4)} for offset in range(8)]
    events += [commit | {"offset": offset, "time_ms": ms(1), "error_code": 22} for offset in (10, 11)]
    certification.timelines[PASSED].extend(events)
    command_line.write(certification, tmp_path)
    assert (tmp_path / "index.html").read_text().count('"CommitDecided","shard"') == 4


def test_the_table_marks_what_is_broken_and_leaves_open_what_was_not_judged(certification):
    names = [each.name for each in certification.certificate.events]
    row = report_table.row(certification.certificate.events[1], names)
    assert "1!" in row
    summary = "\n".join(report_table.summary(certification.certificate))
    assert "records lost: 1 records are committed and have no copy in the output topic\n    in-0@9" in summary
    assert summary.endswith("failed: 1 passed, 1 failed, 1 not reached, 1 not applicable")


def test_the_command_lists_the_events_of_a_protocol(capsys):
    assert cli.main(["certify", "--protocol", "classic", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        event.name for event in events_of("classic")
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--protocol", "classic"], 2, "which program?"),
        (["--protocol", "classic", "--events", "no-such-event", "--", "true"], 2, "there is no event no-such-event"),
        (["--protocol", "simple", "--", "true"], 2, "is not one of"),
        (["--", "true"], 2, "--protocol"),
        (["--protocol", "classic", "--instances", "1", "--", "true"], 2, "not in the range"),
        (["--protocol", "classic", "--jobs", "32", "--instances", "4", "--", "true"], 2, "at most 100 instances"),
        (["--protocol", "classic", "--emulate", "1.0", "--", "true"], 2, "there is no release '1.0' to emulate"),
        (["--protocol", "consumer", "--emulate", "3.6", "--", "true"], 2, "Kafka 3.6 has no consumer groups"),
        (["--protocol", "classic", "--", "no-such-command"], 127, "there is no command no-such-command"),
    ],
)
def test_a_wrong_command_line_is_refused_with_what_is_allowed(arguments, code, text, capsys):
    assert cli.main(["certify", *arguments]) == code
    assert text in capsys.readouterr().err
