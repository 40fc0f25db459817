"""Renders the pages of the report as HTML, from the data that report.py collects.

Each page is one file that loads nothing; its only script draws the timeline, as on the server's page. A truncated list states
its full length. A group's page opens with the answer to why the group rebalanced, the same that `coordinator groups why` gives.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from coordinator.groups.cause_words import sentence
from coordinator.groups.rebalance_causes import Rebalance
from coordinator.page.markup import Markup, tag
from coordinator.page.timeline import document, timeline_html
from pyspark_coordinator_log.jobs import page_tables
from pyspark_coordinator_log.jobs.group_data import (
    BROKEN_MAX,
    INTERVALS_MAX,
    MARKS_MAX,
    MEMBERS_MAX,
    REBALANCES_MAX,
    GroupData,
    Row,
)
from pyspark_coordinator_log.jobs.intervals import GROUP
from pyspark_coordinator_log.jobs.page_tables import marked, moment, table
from pyspark_coordinator_log.jobs.style import STYLE
from pyspark_coordinator_log.jobs.timeline_data import timeline_data
from pyspark_coordinator_log.jobs.times import clock, duration
from pyspark_coordinator_log.jobs.vocabulary import ACCEPTED, IN_FORCE, REFUSED, UNOWNED, ZOMBIES

PARTITIONS_MAX = 200
"""Above this number, only partitions that changed owner are drawn."""
INDEX = "index.html"


def file_name(key: Sequence[Any]) -> str:
    """A readable file name that is unique for each group."""
    text = re.sub(r"[^A-Za-z0-9._-]+", "-", str(key[-1])).strip("-.")[:60]
    mark = hashlib.sha256("\0".join(map(str, key)).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"group-{text or 'unnamed'}-{mark}.html"


# --- a group's page ---------------------------------------------------------------------------------------------------


def group_page(found: GroupData, title: str, index: str | None, *, has_events: bool) -> str:
    """Renders the page of one group."""
    from_ms, to_ms = _times(found)
    group = found.group
    kind = group["kind"]
    by_epoch = {} if found.findings is None else {each.epoch: each for each in found.findings.rebalances}
    body = [
        tag("p", tag("a", "all groups", href=index), class_="up") if index else None,
        tag("h1", found.name),
        tag(
            "p",
            f"{kind or 'simple'} group · {title} · shard {group['shard']} · {clock(from_ms)} to {clock(to_ms)} UTC",
            class_="about",
        ),
        *_why(found),
        _figures(found, has_events=has_events),
        *_notes(found, has_events=has_events),
        *(_section("What another setting would have changed", *page_tables.what_if(each)) for each in found.what_ifs),
        _section("Timeline", *_timeline(found, by_epoch)),
        _section("Broken invariants", *page_tables.broken(found, has_events=has_events)),
        _section("Replay of the fencing policies",
                 *page_tables.policies(found.policies, has_events=has_events, kind=kind)),
        _section("Commits of partitions the member did not own", *page_tables.marks(found, has_events=has_events)),
        _section("Rebalances", *page_tables.rebalances(found, by_epoch)),
        _section("Members", *page_tables.members(found)),
        _section("Partition ownership", *page_tables.ownership(found)),
        _footer(),
    ]  # fmt: skip
    return document(f"{found.name} - group report", *body, style=STYLE)


def _times(found: GroupData) -> tuple[int, int]:
    """The first and the last moment of what the page shows (ms)."""
    times = [each for row in found.ownership for each in (row["from_ms"], row["to_ms"]) if each is not None]
    times += [row["time_ms"] + (row["duration_ms"] or 0) for row in found.rebalances if row["time_ms"] is not None]
    times += [row["time_ms"] for row in (*found.rebalances, *found.marks) if row["time_ms"] is not None]
    return (min(times), max(times)) if times else (found.group["first_ms"] or 0, found.group["last_ms"] or 0)


def _section(heading: str, *content: Markup | None) -> Markup:
    return tag("section", tag("h2", heading), *content)


def _why(found: GroupData) -> Iterator[Markup]:
    """The answer: why the group rebalanced, and which client caused it."""
    findings = found.findings
    if findings is not None:
        yield tag("p", sentence(findings), class_="answer")
        yield from page_tables.causes(findings)
        yield from page_tables.clients(findings, found.names)
        yield from page_tables.rewinds(findings)


def _figures(found: GroupData, *, has_events: bool) -> Markup:
    lengths = sorted(row["duration_ms"] for row in found.rebalances if row["duration_ms"] is not None)
    through = sum(found.tally(each, ACCEPTED) for each in ZOMBIES)
    stopped = sum(found.tally(each, REFUSED) for each in ZOMBIES)
    unowned = found.tally(UNOWNED, ACCEPTED)
    broken = found.counts.get("broken", 0)
    figures = [
        ("rebalances", f"{found.counts.get('rebalances', 0):,}", ""),
        ("longest", duration(lengths[-1]) if lengths else "unknown", ""),
        ("members seen", f"{found.counts.get('members', 0):,}", ""),
        ("zombie commits accepted", f"{through:,}" if has_events else "unknown", "bad" if through else ""),
        ("zombie commits refused", f"{stopped:,}" if has_events else "unknown", ""),
        ("unowned, let through", f"{unowned:,}" if has_events else "unknown", "warn" if unowned else ""),
        ("broken invariants", *_invariants(broken, is_certain=has_events and not found.gaps)),
    ]
    return _tiles(figures)


def _invariants(broken: int, *, is_certain: bool) -> tuple[str, str]:
    """The figure and its state. Nothing found is an all-clear only where the log could show it."""
    if broken:
        return f"{broken:,}", "bad"
    return ("0", "good") if is_certain else ("none seen", "")


def _tiles(figures: Sequence[tuple[str, str, str]]) -> Markup:
    tiles = (tag("div", tag("dt", name), tag("dd", value), class_=state or None) for name, value, state in figures)
    return tag("dl", *tiles, class_="figures")


def _notes(found: GroupData, *, has_events: bool) -> Iterator[Markup]:
    if not has_events:
        yield tag(
            "p",
            "This log has no events, so committing members, refused commits and causes of rebalances are unknown. "
            "Unknown values are left out.",
            class_="note",
        )
    for gap in found.gaps:
        end = "the end of the log" if gap["to_state_offset"] is None else f"offset {gap['to_state_offset']:,}"
        yield tag(
            "p",
            f"Events {gap['what']} in this shard from state offset {gap['from_state_offset']:,} to {end}: {gap['detail']}. "
            "Results for that stretch are incomplete.",
            class_="note",
        )
    for name, most in (("rebalances", REBALANCES_MAX), ("marks", MARKS_MAX), ("broken", BROKEN_MAX),
                       ("ownership", INTERVALS_MAX), ("members", MEMBERS_MAX)):  # fmt: skip
        if found.counts.get(name, 0) > most:
            said = {"marks": "commits", "broken": "broken invariants"}.get(name, name)
            yield tag("p", f"Showing {most:,} of {found.counts[name]:,} {said}; the tables have all.", class_="note")


def _timeline(found: GroupData, by_epoch: dict[int, Rebalance]) -> Iterator[Markup]:
    if not found.rebalances and not found.ownership and not found.events:
        yield tag("p", "The log contains no rebalance and no readable assignment.", class_="nothing")
        return
    if found.ownership and found.ownership[0]["partitions"] > PARTITIONS_MAX:
        first = found.ownership[0]
        said = f"Showing the {first['moving']:,} of {first['partitions']:,} partitions that changed owner."
        yield tag("p", said, class_="note")
    yield timeline_html(timeline_data(found, by_epoch))


# --- the index page -----------------------------------------------------------------------------------------------------


def fleet_page(
    groups: Sequence[Row], count: int, paged: set[tuple[Any, ...]], policies: Sequence[Row] | None,
    gaps: Sequence[Row] | None, title: str,
) -> str:  # fmt: skip
    """Renders the index of all groups."""
    broken = sum(row["broken"] or 0 for row in groups)
    unowned = sum(row["accepted_unowned_partitions"] for row in policies or () if row["replayed"] == IN_FORCE)
    figures = [
        ("groups", f"{count:,}", ""),
        ("rebalances", f"{sum(row['rebalances'] or 0 for row in groups):,}", ""),
        ("unowned, let through", "unknown" if policies is None else f"{unowned:,}", "warn" if unowned else ""),
        ("broken invariants", *_invariants(broken, is_certain=gaps is not None and not gaps)),
        ("gaps in the events", "no events" if gaps is None else f"{len(gaps):,}", "warn" if gaps else ""),
    ]
    rows = []
    for row in groups:
        key = tuple(row[name] for name in GROUP)
        name = tag("a", str(row["group"]), href=file_name(key)) if key in paged else str(row["group"])
        rows.append((
            name, row["kind"] or "simple", row["shard"], f"{row['members'] or 0:,}", f"{row['rebalances'] or 0:,}",
            f"{row['offset_commits'] or 0:,}", marked(row["broken"] or 0, "bad"), moment(row["first_ms"]),
            moment(row["last_ms"]),
        ))  # fmt: skip
    notes = [*page_tables.unowned_accepted(unowned)]
    if count > len(groups):
        notes.append(tag("p", f"Showing {len(groups):,} of {count:,} groups.", class_="note"))
    if count > len(paged):
        notes.append(tag("p", f"{len(paged):,} groups have a page: those with the most broken invariants, then the most "
                              "rebalances. Use --group for others.", class_="note"))  # fmt: skip
    body = [
        tag("h1", "Consumer groups"),
        tag("p", title, class_="about"),
        _tiles(figures),
        *notes,
        _section("Groups", table(
            ("group", "kind", "shard", "members", "rebalances", "offsets", "broken", "first (UTC)", "last"), rows,
            (2, 3, 4, 5, 6), (0,), about="Groups")),
        _section("Replay of the fencing policies, all groups",
                 *page_tables.policies(policies or [], has_events=policies is not None, kind=None)),
        _section("Missing events", *_gaps(gaps)),
        _footer(),
    ]  # fmt: skip
    return document("Consumer groups - report", *body, style=STYLE)


def _gaps(gaps: Sequence[Row] | None) -> Iterator[Markup]:
    if gaps is None:
        yield tag("p", "There is no event log.", class_="nothing")
    elif not gaps:
        yield tag("p", "None: the events cover the whole state log.", class_="good")
    else:
        yield table(
            ("shard", "from state offset", "to", "events", "why", "time (UTC)"),
            (
                (gap["shard"], gap["from_state_offset"],
                 "the end" if gap["to_state_offset"] is None else gap["to_state_offset"], gap["what"], gap["detail"],
                 moment(gap["time_ms"]))
                for gap in gaps
            ),
            (0, 1, 2), (4,), about="Missing events",
        )  # fmt: skip


def _footer() -> Markup:
    return tag(
        "footer",
        "Order follows log offsets, never the clock; times are the server's. A decision is judged by the records before its "
        "state offset.",
    )
