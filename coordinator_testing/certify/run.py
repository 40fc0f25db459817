"""A certification: a server, all events, some of them at the same time, and the certificate.

Events that need several brokers, or clients that authenticate, have a server of their own, after the others.
"""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from coordinator_testing.certify.certificate import SCHEMA_VERSION, Certificate, EventReport, event_report, never_judged
from coordinator_testing.certify.event import Event
from coordinator_testing.certify.judge import judge
from coordinator_testing.certify.programs import now_ms
from coordinator_testing.certify.rehearsal import Plan, Rehearsal, rehearse
from coordinator_testing.certify.server import CertificationServer
from coordinator_testing.control.steps import View


class Certification(NamedTuple):
    """The certificate, and for each event by its name the events of its group."""

    certificate: Certificate
    timelines: Mapping[str, Sequence[View]]


async def certify(
    plan: Plan, events: Sequence[Event], jobs: int, on_report: Callable[[EventReport], None]
) -> Certification:
    """Runs the events, `jobs` at a time, and those that need the server to themselves after the others.

    Raises DidNotStart, and OSError if the command cannot be executed.
    """
    began_ms = now_ms()
    reports: dict[str, EventReport] = {}
    timelines: dict[str, Sequence[View]] = {}

    def take(event: Event, rehearsal: Rehearsal) -> None:
        findings = judge(rehearsal.evidence)
        reports[event.name] = event_report(event, rehearsal.evidence, findings, rehearsal.printed)
        timelines[event.name] = rehearsal.timeline
        on_report(reports[event.name])

    for brokers, has_sasl in sorted({(event.brokers, event.has_sasl) for event in events}):
        chosen = [event for event in events if (event.brokers, event.has_sasl) == (brokers, has_sasl)]
        await _run_on_server(plan, chosen, min(jobs, len(chosen)), take)
    certificate = Certificate(
        schema_version=SCHEMA_VERSION,
        server_version=version("kafka-group-coordinator"),
        protocol=plan.protocol,
        command=plan.command,
        instances=plan.instances,
        testimony=plan.testimony.source,
        topic_delay_ms=plan.topic_delay_ms,
        release=plan.release,
        outcome="passed"
        if all(each.outcome in ("passed", "not applicable") for each in reports.values())
        else "failed",
        not_judged=never_judged(reports.values()),
        began_ms=began_ms,
        ended_ms=now_ms(),
        events=[reports[event.name] for event in events],
    )
    return Certification(certificate, timelines)


async def _run_on_server(
    plan: Plan, events: Sequence[Event], jobs: int, take: Callable[[Event, Rehearsal], None]
) -> None:
    """Runs events that need the same server."""
    width = max(event.instances or plan.instances for event in events)
    with tempfile.TemporaryDirectory(prefix="coordinator-certify-") as folder:
        server = CertificationServer(
            Path(folder),
            jobs * width,
            plan.topic_delay_ms,
            events[0].brokers,
            plan.release,
            has_sasl=events[0].has_sasl,
        )
        server.start()  # not in a thread, which would go on when this task is cancelled
        slots: asyncio.Queue[Sequence[str]] = asyncio.Queue()
        for first in range(0, jobs * width, width):
            slots.put_nowait(server.listeners[first : first + width])

        async def run(event: Event) -> None:
            listeners = await slots.get()
            try:
                rehearsal = await rehearse(event, plan, server, listeners)
            finally:
                slots.put_nowait(listeners)
            take(event, rehearsal)

        try:
            await _run_all(run(event) for event in events if not event.is_alone)
            for event in events:
                if event.is_alone:
                    # The clock of a new process is the machine's, whatever an earlier event did to it.
                    await asyncio.to_thread(server.restart)
                    await run(event)
        finally:
            await asyncio.to_thread(server.stop)


async def _run_all(runs: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Runs all at the same time. The first error ends the others, and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for each in runs:
                group.create_task(each)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
