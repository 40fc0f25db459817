"""Renders the pages of the report as HTML, from the data that report.py collects.

Each page is one file without scripts that loads nothing. A truncated list states its full length. A group's page opens with the
answer to why the group rebalanced, the same that `coordinator groups why` gives.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from coordinator.operations.groups_why import sentence
from coordinator.operations.rebalance_causes import Client, Rebalance
from coordinator.pipeline import drawing, page_tables
from coordinator.pipeline.drawing import Axis, Bar, Mark, clock, duration
from coordinator.pipeline.group_data import (
    BROKEN_MAX,
    INTERVALS_MAX,
    MARKS_MAX,
    MEMBERS_MAX,
    REBALANCES_MAX,
    GroupData,
    Row,
    known,
    lasted,
    partition_name,
)
from coordinator.pipeline.intervals import GROUP
from coordinator.pipeline.markup import Markup, page, tag
from coordinator.pipeline.names import CAUSES, cause_colour, swatches
from coordinator.pipeline.page_tables import marked, moment, table
from coordinator.pipeline.style import STYLE
from coordinator.pipeline.vocabulary import ACCEPTED, IN_FORCE, REFUSED, UNOWNED, ZOMBIES

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
    axis = _axis(found)
    group = found.group
    kind = group["kind"]
    by_epoch = {} if found.findings is None else {each.epoch: each for each in found.findings.rebalances}
    body = [
        tag("p", tag("a", "all groups", href=index), class_="up") if index else None,
        tag("h1", found.name),
        tag(
            "p",
            f"{kind or 'simple'} group · {title} · shard {group['shard']} · {clock(axis.from_ms)} to "
            f"{clock(axis.to_ms)} UTC",
            class_="about",
        ),
        *_why(found),
        _figures(found, has_events=has_events),
        *_notes(found, has_events=has_events),
        _section("Epochs and rebalances", *_epochs(found, axis, by_epoch)),
        _section("Partition ownership", *_ownership(found, axis)),
        _section("Broken invariants", *page_tables.broken(found, has_events=has_events)),
        _section("Replay of the fencing policies",
                 *page_tables.policies(found.policies, has_events=has_events, kind=kind)),
        _section("Commits of partitions the member did not own", *page_tables.marks(found, has_events=has_events)),
        _section("Rebalances", *page_tables.rebalances(found, by_epoch)),
        _section("Members", *page_tables.members(found)),
        _footer(),
    ]  # fmt: skip
    return page(f"{found.name} - group report", STYLE, *body)


def _axis(found: GroupData) -> Axis:
    times = [each for row in found.ownership for each in (row["from_ms"], row["to_ms"]) if each is not None]
    times += [row["time_ms"] + (row["duration_ms"] or 0) for row in found.rebalances if row["time_ms"] is not None]
    times += [row["time_ms"] for row in found.marks]
    times += [row["time_ms"] for row in found.rebalances if row["time_ms"] is not None]
    if not times:
        return Axis(found.group["first_ms"] or 0, (found.group["last_ms"] or 0) + 1)
    first, last = min(times), max(times)
    # Leaves room on the right, so that intervals still open at the end are visible.
    return Axis(first, last + max((last - first) // 50, 1))


def _section(heading: str, *content: Markup | None) -> Markup:
    return tag("section", tag("h2", heading), *content)


def _why(found: GroupData) -> Iterator[Markup]:
    """The answer: why the group rebalanced, and which client caused it."""
    findings = found.findings
    if findings is not None:
        yield tag("p", sentence(findings), class_="answer")
        yield from page_tables.causes(findings)
        yield from page_tables.clients(findings, found.names)


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


def _epochs(found: GroupData, axis: Axis, by_epoch: dict[int, Rebalance]) -> Iterator[Markup]:
    rows = sorted((row for row in found.rebalances if row["time_ms"] is not None), key=_in_order)
    if not rows:
        yield tag("p", "The log contains no rebalance.", class_="nothing")
        return
    steps = [(row["time_ms"], row["epoch"]) for row in rows if row["offset"] is not None]
    bars, kinds = [], set()
    for row in rows:
        rebalance = by_epoch.get(row["epoch"])
        kind = rebalance.kind if rebalance is not None else None
        kinds.add(kind)
        label = "" if rebalance is None or rebalance.client is None else found.names.label(rebalance.client)
        in_progress = rebalance is not None and rebalance.ended_ms is None
        until = None if in_progress else row["time_ms"] + (row["duration_ms"] or 0)
        tip = _rebalance_tip(found, row, rebalance)
        bars.append(Bar(row["time_ms"], until, cause_colour(kind), label, tip, f"#{page_tables.anchor(row)}"))
    yield drawing.epochs(axis, steps, bars)
    legend = {cause_colour(kind): words for kind, words in CAUSES.items() if kind in kinds}
    if None in kinds:
        legend[cause_colour(None)] = "cause unknown"
    yield swatches(legend)


def _rebalance_tip(found: GroupData, row: Row, rebalance: Rebalance | None) -> str:
    lines = [f"epoch {row['epoch']}: {row['cause'] or 'unknown cause'}, {lasted(row)}"]
    if row["cause_member_id"]:
        lines.append(f"caused by {found.names.member(row['cause_member_id'])}")
    if rebalance is not None and rebalance.waited_longest_for is not None:
        longest = rebalance.waited_longest_for
        lines.append(f"waited longest for {found.names.label(longest)}: {duration(rebalance.waits[longest])}")
    lines.append(f"{clock(row['time_ms'])}, offset {known(row['offset'])}")
    return "\n".join(lines)


def _in_order(row: Row) -> tuple[int, int]:
    return row["time_ms"], row["epoch"]


def _ownership(found: GroupData, axis: Axis) -> Iterator[Markup]:
    if not found.ownership:
        yield tag("p", "The log contains no readable assignment.", class_="nothing")
        return
    first = found.ownership[0]
    if first["partitions"] > PARTITIONS_MAX:
        yield tag(
            "p",
            f"Showing the {first['moving']:,} of {first['partitions']:,} partitions that changed owner.",
            class_="note",
        )
    names = found.names
    clients: dict[Client, None] = {}
    by_partition: dict[tuple[str, int], list[Bar]] = {}
    for row in sorted(found.ownership, key=lambda row: row["from_offset"]):
        client = names.client(row["member_id"])
        clients[client] = None
        bar = Bar(row["from_ms"], row["to_ms"], names.colour(client), names.label(client), _tenure(found, row))
        by_partition.setdefault((str(row["topic_name"] or row["topic_key"]), row["partition"]), []).append(bar)
    marks: dict[str, list[Mark]] = {}
    for row in found.marks:
        if row["truth"] != UNOWNED:
            tip = (
                f"{names.member(row['member_id'])} committed {row['committed_offset']} with epoch {row['commit_epoch']}: "
                f"{row['truth']}, {row['outcome']}\n{clock(row['time_ms'])}, event {row['offset']}"
            )
            mark = Mark(row["time_ms"], row["outcome"] == ACCEPTED, tip)
            marks.setdefault(partition_name(row), []).append(mark)
    yield names.legend(clients)
    yield drawing.skip("after-ownership")
    rows = [(f"{topic}-{partition}", by_partition[topic, partition]) for topic, partition in sorted(by_partition)]
    yield drawing.gantt(axis, rows, marks)
    yield tag(
        "p",
        "One colour is one client; a thin line divides its members. A red cross is an accepted zombie commit, a ring a refused "
        "one. Two bars in one row at the same time are two owners.",
        class_="key",
        id="after-ownership",
    )


def _tenure(found: GroupData, row: Row) -> str:
    """The tool tip of an ownership."""
    return (
        f"{found.names.member(row['member_id'])}\nepoch {known(row['acquired_epoch'])} to {row['last_epoch']}\n"
        f"{clock(row['from_ms'])} to {clock(row['to_ms']) or 'the end'}\n"
        f"offsets {row['from_offset']} to {'the end' if row['to_offset'] is None else row['to_offset']}"
    )


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
    return page("Consumer groups - report", STYLE, *body)


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
