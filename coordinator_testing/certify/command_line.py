"""What `coordinator certify` does: shows the events, or runs them, prints the table and writes the reports."""

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from coordinator_testing.certify import report_table
from coordinator_testing.certify.certificate import Certificate, EventReport
from coordinator_testing.certify.content import Template
from coordinator_testing.certify.event import Event, Protocol
from coordinator_testing.certify.rehearsal import Plan
from coordinator_testing.certify.report_junit import junit
from coordinator_testing.certify.report_page import page
from coordinator_testing.certify.run import Certification, certify
from coordinator_testing.certify.testimony import Terms
from coordinator_testing.run_command import NoSuchCommand

NOT_JUDGED = 3
"""The exit code of `--strict` if a promise was judged in no event, or there is a warning."""
TERMINATED = 128 + signal.SIGTERM


class Options(NamedTuple):
    """The options of the command."""

    protocol: Protocol
    instances: int
    jobs: int
    output: Path | None
    testimony: Terms
    records: Sequence[Template]
    topic_delay_ms: int
    release: str
    strict: bool
    command: Sequence[str]


def show(events: Sequence[Event]) -> int:
    """Prints the events with what happens in them. Returns the exit code."""
    width = max(len(event.name) for event in events)
    for event in events:
        click.echo(f"{event.name:{width}}  {event.happens}")
    return 0


def run(options: Options, events: Sequence[Event]) -> int:
    """Runs the events and returns the exit code. Raises NoSuchCommand, DidNotStart and OSError."""
    if shutil.which(options.command[0]) is None:
        raise NoSuchCommand(f"there is no command {options.command[0]}")
    names = [event.name for event in events]

    def show_row(report: EventReport) -> None:
        click.echo(report_table.row(report, names))

    click.echo(report_table.head(names, options.protocol))
    with ExitStack() as stack:
        folder = options.output or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="coordinator-certify-")))
        folder.mkdir(parents=True, exist_ok=True)
        plan = Plan(
            command=options.command,
            protocol=options.protocol,
            instances=options.instances,
            testimony=options.testimony,
            records=options.records,
            topic_delay_ms=options.topic_delay_ms,
            release=options.release,
            folder=folder,
        )
        try:
            certification = asyncio.run(_until_sigterm(certify(plan, events, min(options.jobs, len(events)), show_row)))
        except asyncio.CancelledError:
            return TERMINATED
        certificate = certification.certificate
        if options.output is not None:
            write(certification, options.output)
    for line in report_table.summary(certificate):
        click.echo(line)
    return exit_code(certificate, strict=options.strict)


def exit_code(certificate: Certificate, *, strict: bool) -> int:
    """What a certificate means to a shell."""
    if certificate.outcome != "passed":
        return 1
    warned = any(each.outcome == "warning" for event in certificate.events for each in event.findings)
    return NOT_JUDGED if strict and (certificate.not_judged or warned) else 0


async def _until_sigterm(work: Coroutine[Any, Any, Certification]) -> Certification:
    """SIGTERM cancels the work, which stops the server and the instances that it started. Raises CancelledError then."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work


def write(certification: Certification, folder: Path) -> None:
    """Writes certificate.json, junit.xml and index.html."""
    certificate = certification.certificate
    (folder / "certificate.json").write_bytes(msgspec.json.format(msgspec.json.encode(certificate), indent=1))
    (folder / "junit.xml").write_bytes(junit(certificate))
    (folder / "index.html").write_text(page(certificate, certification.timelines), encoding="utf-8")
