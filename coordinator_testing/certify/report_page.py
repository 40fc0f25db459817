"""The certificate as one self-contained HTML page: a table of all events, and for each its findings, timeline and output."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from coordinator.page.markup import Markup, tag
from coordinator.page.timeline import document, is_refused, timeline_html
from coordinator_testing.certify.certificate import Certificate, EventReport, FindingReport
from coordinator_testing.certify.judge import promises_of
from coordinator_testing.certify.report_table import MARKS

GroupEvents = Sequence[Mapping[str, Any]]
STYLE = "pre{overflow:auto;max-height:24rem;font-size:12px}summary{cursor:pointer;color:var(--soft)}"
_CLASSES = {"passed": "good", "failed": "bad", "not reached": "warn", "not applicable": "about"}


def page(certificate: Certificate, group_events: Mapping[str, GroupEvents]) -> str:
    """The document. `group_events`: name of an event -> the events of its group, as `/v1/events` has them."""
    title = f"Certificate: {certificate.protocol} groups, {certificate.outcome}"
    if certificate.not_judged:
        title += f", {len(certificate.not_judged)} promises not judged"
    began = datetime.fromtimestamp(certificate.began_ms / 1000, UTC).isoformat(timespec="seconds")
    intro = tag(
        "p",
        tag("code", " ".join(certificate.command)),
        f" in {certificate.instances} instances, {began}, server {certificate.server_version}.",
    )
    sections = [_event(report, group_events.get(report.name, ())) for report in certificate.events]
    return document(
        title, tag("main", tag("h1", title), intro, _overview(certificate), _rules(certificate), *sections), style=STYLE
    )


def _overview(certificate: Certificate) -> Markup:
    promises = promises_of(certificate.protocol)
    heads = [
        tag("th", each, scope="col") for each in ("event", "outcome", *(each.column for each in promises.values()))
    ]
    rows = [
        tag(
            "tr",
            tag("th", tag("a", report.name, href=f"#{report.name}"), scope="row"),
            tag("td", report.outcome, class_=_CLASSES[report.outcome]),
            *(_cell(each) for each in report.findings),
        )
        for report in certificate.events
    ]
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows))
    return tag("div", table, class_="wide", tabindex=0, role="region", aria_label="All events")


def _cell(finding: FindingReport) -> Markup:
    if finding.outcome == "not judged" or finding.count is None:
        return tag("td", "-", title=finding.text)
    classes = {"class_": "broken"} if finding.outcome == "broken" else {}
    return tag("td", f"{finding.count:g}{MARKS.get(finding.outcome, ('',))[0]}", title=finding.text, **classes)


def _rules(certificate: Certificate) -> Markup:
    promises = promises_of(certificate.protocol)
    terms = [each for name, promise in promises.items() for each in (tag("dt", name), tag("dd", promise.rule))]
    return tag("details", tag("summary", "How each promise is judged"), tag("dl", *terms))


def _event(report: EventReport, events: GroupEvents) -> Markup:
    parts = [
        tag("h2", report.name, ": ", tag("span", report.outcome, class_=_CLASSES[report.outcome]), id=report.name),
        tag("p", report.happens, " A right client ", report.right_client, "."),
    ]
    if report.reason:
        parts.append(tag("p", report.reason, class_="warn"))
    parts.append(tag("ul", *(_finding(each) for each in report.findings)))
    if events:
        parts.append(timeline_html({"group": report.group, "events": list(_thinned(events))}))
    sources = [tag("li", tag("code", each.where), ": ", each.says) for each in report.sources]
    parts.append(tag("details", tag("summary", "Where Kafka says so"), tag("ul", *sources)))
    notes = [
        tag("li", f"{(each.time_ms - (report.provoked_ms or report.began_ms)) / 1000:+.1f} s: {each.text}")
        for each in report.notes
    ]
    parts.append(tag("details", tag("summary", "What was done, by ", report.provoked), tag("ol", *notes)))
    for each in report.instances:
        about = tag("summary", f"Output of instance {each.index} at {each.listener}")
        parts.append(tag("details", about, tag("pre", each.printed or "nothing")))
    return tag("section", *parts, aria_labelledby=report.name)


def _thinned(events: GroupEvents) -> Iterator[Mapping[str, Any]]:
    """The events with one accepted commit per member and second: a program may commit every record."""
    shown: set[tuple[str, int]] = set()
    for each in events:
        if each["type"] == "CommitDecided" and not is_refused(each):
            key = (each["member_id"], each["time_ms"] // 1000)
            if key in shown:
                continue
            shown.add(key)
        yield each


def _finding(finding: FindingReport) -> Markup:
    evidence = [tag("li", tag("code", each)) for each in finding.evidence]
    outcome = tag("span", finding.outcome, class_={"broken": "bad", "warning": "warn"}.get(finding.outcome))
    return tag("li", finding.promise, ": ", outcome, f", {finding.text}", *([tag("ul", *evidence)] if evidence else []))
