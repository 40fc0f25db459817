"""The certificate: what a certification found, in the shape of certificate.json.

A change that a reader of the file could notice gets another SCHEMA_VERSION; new fields do not.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from coordinator_testing.certify.case import Evidence
from coordinator_testing.certify.event import Event, Protocol
from coordinator_testing.certify.judge.findings import Finding

SCHEMA_VERSION = 2

EventOutcome = Literal["passed", "failed", "not reached", "not applicable"]


class FindingReport(Struct, frozen=True, kw_only=True):
    """What the judge says of one promise."""

    promise: str
    outcome: Literal["kept", "broken", "warning", "not judged"]
    count: float | None
    text: str
    evidence: Sequence[str]


class RunReport(Struct, frozen=True, kw_only=True):
    """A process of an instance. Times are in ms."""

    pid: int
    started_ms: int
    ended_ms: int | None
    ended_by: Literal["stage", "itself"] | None
    exit_code: int | None


class InstanceReport(Struct, frozen=True, kw_only=True):
    """An instance of the program. `printed` is the end of what it wrote to stdout and stderr."""

    index: int
    listener: str
    runs: Sequence[RunReport]
    pauses: Sequence[tuple[int, int]]
    printed: str


class NoteReport(Struct, frozen=True, kw_only=True):
    """What the stage did."""

    time_ms: int
    text: str


class SourceReport(Struct, frozen=True, kw_only=True):
    """Where Kafka says what a right client does."""

    where: str
    says: str


class EventReport(Struct, frozen=True, kw_only=True):
    """An event and what the program did in it."""

    name: str
    outcome: EventOutcome
    reason: str | None
    """Why the event was not reached or is not applicable."""
    happens: str
    right_client: str
    provoked: str
    sources: Sequence[SourceReport]
    group: str
    topic: str
    began_ms: int
    provoked_ms: int | None
    settled_ms: int | None
    stopped_ms: int
    records: int
    """Records that the stage appended."""
    findings: Sequence[FindingReport]
    notes: Sequence[NoteReport]
    instances: Sequence[InstanceReport]


class Certificate(Struct, frozen=True, kw_only=True):
    """All events of a certification."""

    schema_version: int
    server_version: str
    protocol: Protocol
    command: Sequence[str]
    instances: int
    testimony: str
    """What shows that a record was processed: topic, lines, http, command or none."""
    topic_delay_ms: int
    """How much later clients saw that a topic was made, grown or deleted."""
    release: str
    """The release of Kafka that the server was for the program."""
    outcome: Literal["passed", "failed"]
    """passed: every event that applies was reached, and no promise was broken."""
    not_judged: Sequence[str]
    """Promises that nothing showed in any event, neither kept nor broken."""
    began_ms: int
    ended_ms: int
    events: Sequence[EventReport]


def outcome_of(evidence: Evidence, findings: Sequence[Finding]) -> EventOutcome:
    """failed: a promise is broken. not reached: none is, but the event or the recovery did not come."""
    if evidence.not_applicable is not None:
        return "not applicable"
    if any(each.outcome == "broken" for each in findings):
        return "failed"
    return "passed" if evidence.settled_ms is not None else "not reached"


def never_judged(events: Collection[EventReport]) -> Sequence[str]:
    """The promises that no event could judge."""
    found = [each for event in events if event.outcome != "not applicable" for each in event.findings]
    judged = {each.promise for each in found if each.outcome != "not judged"}
    return [name for name in dict.fromkeys(each.promise for each in found) if name not in judged]


def event_report(
    event: Event, evidence: Evidence, findings: Sequence[Finding], printed: Mapping[int, str]
) -> EventReport:
    """The report of one event. `printed`: index of an instance -> the end of its output."""
    return EventReport(
        name=event.name,
        outcome=outcome_of(evidence, findings),
        reason=evidence.not_applicable or evidence.not_reached,
        happens=event.happens,
        right_client=event.right_client,
        provoked=event.provoked,
        sources=[SourceReport(where=each.where, says=each.says) for each in event.sources],
        group=evidence.group,
        topic=evidence.topic,
        began_ms=evidence.began_ms,
        provoked_ms=evidence.provoked_ms,
        settled_ms=evidence.settled_ms,
        stopped_ms=evidence.stopped_ms,
        records=sum(map(len, evidence.inputs.values())),
        findings=[
            FindingReport(
                promise=each.promise,
                outcome=each.outcome,
                count=each.count,
                text=each.text,
                evidence=each.evidence,
            )
            for each in findings
        ],
        notes=[NoteReport(time_ms=each.time_ms, text=each.text) for each in evidence.notes],
        instances=[
            InstanceReport(
                index=each.index,
                listener=each.listener,
                runs=[
                    RunReport(
                        pid=run.pid,
                        started_ms=run.started_ms,
                        ended_ms=run.ended_ms,
                        ended_by=run.ended_by,
                        exit_code=run.exit_code,
                    )
                    for run in each.runs
                ],
                pauses=each.pauses,
                printed=printed.get(each.index, ""),
            )
            for each in evidence.instances
        ],
    )
