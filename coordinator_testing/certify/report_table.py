"""The table on the terminal: a row per event as it ends, and what was broken behind the last one."""

from collections.abc import Iterator, Sequence

import click

from coordinator_testing.certify.certificate import Certificate, EventReport, FindingReport
from coordinator_testing.certify.event import Protocol
from coordinator_testing.certify.judge import promises_of

_COLOURS = {"passed": "green", "failed": "red", "not reached": "yellow", "not applicable": "white"}
_OUTCOME = 14
MARKS = {"broken": ("!", "red"), "warning": ("?", "yellow")}
"""Outcome of a finding -> what marks its number, and its colour on the terminal."""


def head(names: Sequence[str], protocol: Protocol) -> str:
    """The head of the table."""
    cells = "".join(f"{promise.column:>8}" for promise in promises_of(protocol).values())
    return f"{'event':{_width(names)}}  {'outcome':{_OUTCOME}}{cells}"


def row(report: EventReport, names: Sequence[str]) -> str:
    """The row of an event. A promise that was not judged has a dash, a broken one is marked."""
    outcome = click.style(f"{report.outcome:{_OUTCOME}}", fg=_COLOURS[report.outcome])
    return f"{report.name:{_width(names)}}  {outcome}{''.join(_cell(each) for each in report.findings)}"


def _cell(finding: FindingReport) -> str:
    if finding.outcome == "not judged" or finding.count is None:
        return f"{'-':>8}"
    mark, colour = MARKS.get(finding.outcome, ("", None))
    return click.style(f"{f'{finding.count:g}{mark}':>8}", fg=colour)


def _width(names: Sequence[str]) -> int:
    return max(map(len, names), default=5)


def summary(certificate: Certificate) -> Iterator[str]:
    """What was broken or not reached, with the evidence, and how many events passed."""
    for report in certificate.events:
        for finding in report.findings:
            if finding.outcome == "warning":
                yield ""
                yield f"{report.name}: warning: {finding.promise}: {finding.text}"
                yield from (f"    {each}" for each in finding.evidence)
        if report.outcome in ("passed", "not applicable"):
            continue
        yield ""
        yield f"{report.name}: {report.happens}"
        yield f"  A right client {report.right_client}."
        if report.reason:
            yield f"  not reached: {report.reason}"
        for finding in report.findings:
            if finding.outcome == "broken":
                yield f"  {finding.promise}: {finding.text}"
                yield from (f"    {each}" for each in finding.evidence)
    counts = [
        (outcome, sum(each.outcome == outcome for each in certificate.events))
        for outcome in ("passed", "failed", "not reached", "not applicable")
    ]
    yield ""
    yield f"{certificate.outcome}: " + ", ".join(f"{count} {outcome}" for outcome, count in counts if count)
    if open_promises := certificate.not_judged:
        yield f"{len(open_promises)} promises were not judged in any event: {', '.join(open_promises)}"
