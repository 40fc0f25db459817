"""Renders the pages of the report as HTML, from the data that report.py collects.

Each page is one file without scripts that loads nothing. A truncated list states its full length.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator.pipeline import drawing
from coordinator.pipeline.drawing import Axis, Colours, clock, duration
from coordinator.pipeline.intervals import GROUP
from coordinator.pipeline.markup import Markup, join, page, tag
from coordinator.pipeline.vocabulary import CLASSIC, IN_FORCE, UNOWNED

PARTITIONS_MAX = 200
"""Above this number, only partitions that changed owner are drawn."""
REBALANCES_MAX, INTERVALS_MAX, MARKS_MAX, BROKEN_MAX, MEMBERS_MAX = 1_000, 20_000, 2_000, 500, 300
INDEX = "index.html"
Row = Mapping[str, Any]


@dataclass(slots=True)
class GroupData:
    """The data shown for one group."""

    group: Row
    rebalances: list[Row] = field(default_factory=list)
    ownership: list[Row] = field(default_factory=list)
    marks: list[Row] = field(default_factory=list)
    policies: list[Row] = field(default_factory=list)
    broken: list[Row] = field(default_factory=list)
    members: list[Row] = field(default_factory=list)
    gaps: list[Row] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    """The full lengths of lists that may be truncated."""

    @property
    def key(self) -> tuple[Any, ...]:
        return tuple(self.group[name] for name in GROUP)

    @property
    def name(self) -> str:
        return str(self.group["group"])


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
    body = [
        tag("p", tag("a", "all groups", href=index), class_="up") if index else None,
        tag("h1", found.name),
        tag(
            "p",
            f"{kind or 'simple'} group · {title} · shard {group['shard']} · {clock(axis.from_ms)} to "
            f"{clock(axis.to_ms)} UTC",
            class_="about",
        ),
        _figures(found, has_events=has_events),
        *_notes(found, has_events=has_events),
        _section("Epochs and rebalances", _epochs(found, axis)),
        _section("Partition ownership", *_ownership(found, axis)),
        _section("Broken invariants", *_broken(found)),
        _section("Replay of the fencing policies", *_policies(found.policies, has_events=has_events, kind=kind)),
        _section("Commits of partitions the member did not own", *_marks(found, has_events=has_events)),
        _section("Rebalances", *_rebalances(found)),
        _section("Members", *_members(found)),
        _footer(),
    ]
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


def _figures(found: GroupData, *, has_events: bool) -> Markup:
    lengths = sorted(row["duration_ms"] for row in found.rebalances if row["duration_ms"] is not None)
    zombies = [row for row in found.marks if row["truth"] != UNOWNED]
    through = sum(row["outcome"] == "accepted" for row in zombies)
    broken = found.counts.get("broken", 0)
    figures = [
        ("rebalances", f"{found.counts.get('rebalances', 0):,}", ""),
        ("longest", duration(lengths[-1]) if lengths else "unknown", ""),
        ("members seen", f"{found.counts.get('members', 0):,}", ""),
        ("zombie commits accepted", f"{through:,}" if has_events else "unknown", "bad" if through else ""),
        ("zombie commits refused", f"{len(zombies) - through:,}" if has_events else "unknown", ""),
        ("broken invariants", f"{broken:,}", "bad" if broken else "good"),
    ]
    return tag(
        "dl",
        *(tag("div", tag("dt", name), tag("dd", value), class_=state or None) for name, value, state in figures),
        class_="figures",
    )


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


def _epochs(found: GroupData, axis: Axis) -> Markup | None:
    rows = sorted((row for row in found.rebalances if row["time_ms"] is not None), key=_in_order)
    if not rows:
        return tag("p", "The log contains no rebalance.", class_="nothing")
    steps = [
        (row["time_ms"], row["epoch"], f"epoch {row['epoch']} at {clock(row['time_ms'])}, offset {row['offset']}")
        for row in rows
        if row["offset"] is not None
    ]
    bars = [
        (
            row["time_ms"],
            row["duration_ms"],
            row["cause"] or "unknown cause",
            f"epoch {row['epoch']}: {row['cause'] or 'unknown cause'}, {_lasted(row)}",
        )
        for row in rows
    ]
    causes = Colours()
    keys = {cause: (causes.of(cause), causes.is_repeated(cause)) for _, _, cause, _ in bars}
    return join(drawing.epochs(axis, steps, bars), drawing.legend(keys))


def _in_order(row: Row) -> tuple[int, int]:
    return row["time_ms"], row["epoch"]


def _lasted(row: Row) -> str:
    if row["duration_ms"] is not None:
        return duration(row["duration_ms"])
    if row["superseded"]:
        return "superseded"
    return "duration unknown" if row["completed"] else "not completed"


def _partition(row: Row) -> str:
    return f"{row['topic_name'] or row['topic_key']}-{row['partition']}"


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
    by_partition: dict[tuple[str, int], list[Row]] = {}
    for row in sorted(found.ownership, key=lambda row: row["from_offset"]):
        by_partition.setdefault((str(row["topic_name"] or row["topic_key"]), row["partition"]), []).append(row)
    colours = Colours()
    for row in sorted(found.ownership, key=lambda row: row["from_offset"]):
        colours.of(row["member_id"])
    rows = []
    for key in sorted(by_partition):
        bars = [(row["from_ms"], row["to_ms"], row["member_id"], _tenure(row)) for row in by_partition[key]]
        rows.append((f"{key[0]}-{key[1]}", bars))
    marks: dict[str, list[tuple[int, bool, str]]] = {}
    for row in found.marks:
        if row["truth"] != UNOWNED:
            tip = (
                f"{row['member_id']} committed {row['committed_offset']} with epoch {row['commit_epoch']}: {row['truth']}, "
                f"{row['outcome']}\n{clock(row['time_ms'])}, event {row['offset']}"
            )
            marks.setdefault(_partition(row), []).append((row["time_ms"], row["outcome"] == "accepted", tip))
    names = dict.fromkeys(row["member_id"] for row in sorted(found.ownership, key=lambda row: row["from_offset"]))
    yield drawing.gantt(axis, rows, marks, colours)
    if len(names) <= 40:
        yield drawing.legend({name: (colours.of(name), colours.is_repeated(name)) for name in names})
    yield tag(
        "p",
        "A red cross is an accepted zombie commit, a ring a refused one. Two bars in one row at the same "
        "time are two owners.",
        class_="key",
    )


def _tenure(row: Row) -> str:
    """The tool tip of an ownership."""
    return (
        f"{row['member_id']}\nepoch {_known(row['acquired_epoch'])} to {row['last_epoch']}\n"
        f"{clock(row['from_ms'])} to {clock(row['to_ms']) or 'the end'}\n"
        f"offsets {row['from_offset']} to {'the end' if row['to_offset'] is None else row['to_offset']}"
    )


def _known(value: Any) -> Any:
    return "?" if value is None else value


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[Markup | str | int | None]], numbers: Iterable[int] = ()
) -> Markup:
    right = set(numbers)
    return tag(
        "div",
        tag(
            "table",
            tag(
                "thead",
                tag("tr", *(tag("th", head, class_="n" if i in right else None) for i, head in enumerate(heads))),
            ),
            tag(
                "tbody",
                *(
                    tag("tr", *(tag("td", cell, class_="n" if i in right else None) for i, cell in enumerate(row)))
                    for row in rows
                ),
            ),
        ),
        class_="wide",
    )


def _rebalances(found: GroupData) -> Iterator[Markup]:
    rows = sorted(found.rebalances, key=lambda row: (row["time_ms"] or 0, row["epoch"]), reverse=True)
    if not rows:
        yield tag("p", "None.", class_="nothing")
        return
    causes: dict[str, list[int | None]] = {}
    for row in rows:
        causes.setdefault(row["cause"] or "unknown", []).append(row["duration_ms"])
    yield _table(
        ("cause", "count", "total", "longest"),
        (
            (cause, f"{len(lengths):,}", duration(sum(each for each in lengths if each is not None)),
             duration(max((each for each in lengths if each is not None), default=None)))
            for cause, lengths in sorted(causes.items(), key=lambda item: -len(item[1]))
        ),
        (1, 2, 3),
    )  # fmt: skip
    heads = ("began (UTC)", "epoch", "cause", "triggered by", "client's reason", "duration", "slowest member", "members",
             "offset")  # fmt: skip
    yield _table(
        heads,
        (
            (
                clock(row["time_ms"]),
                row["epoch"],
                row["cause"] or tag("i", "unknown"),
                row["cause_member_id"],
                row["reason"],
                _lasted(row),
                None
                if row["slowest_member_id"] is None
                else f"{row['slowest_member_id']} ({duration(row['slowest_ms'])})",
                row["members"],
                row["offset"],
            )
            for row in rows
        ),
        (1, 7, 8),
    )


def _policies(rows: Sequence[Row], *, has_events: bool, kind: str | None) -> Iterator[Markup]:
    if not has_events:
        yield tag("p", "The log has no events, so no policy can be replayed.", class_="nothing")
        return
    if not rows:
        text = (
            "Classic groups have no fencing policy." if kind == CLASSIC else "No member of a consumer group committed."
        )
        yield tag("p", text, class_="nothing")
        return
    order = {name: place for place, name in enumerate((IN_FORCE, "strict", "revocation_epoch", "assignment_epoch"))}
    shown = sorted(rows, key=lambda row: order.get(row["replayed"], 9))
    most = max(1, *(row["refused_wrongly"] + row["accepted_zombies"] for row in shown))
    yield tag(
        "p",
        "Each member's request was decided again under each policy, on the state that the log shows for that moment. "
        "A refusal is right if the member had lost some partition of the request, or had lost it and got it back.",
    )
    yield _table(
        ("policy", "requests", "refused", "rightly", "wrongly", "zombies accepted", "with unowned partitions",
         "wrong decisions"),
        (
            (
                _policy_name(row),
                f"{row['requests']:,}",
                f"{row['refused']:,}",
                f"{row['refused_rightly']:,}",
                _marked(row["refused_wrongly"], "warn"),
                _marked(row["accepted_zombies"], "bad"),
                f"{row['accepted_unowned']:,}",
                _bar(row, most),
            )
            for row in shown
        ),
        (1, 2, 3, 4, 5, 6),
    )  # fmt: skip


def _policy_name(row: Row) -> Markup | str:
    if row["replayed"] != IN_FORCE:
        return str(row["replayed"]).replace("_", "-")
    policy = row.get("policy_in_force")
    return tag("b", f"in force ({policy})" if policy else "in force")


def _marked(count: int, mark: str) -> Markup:
    return tag("span", f"{count:,}", class_=mark if count else None)


def _bar(row: Row, most: int) -> Markup:
    wrong, zombies = row["refused_wrongly"], row["accepted_zombies"]
    return tag(
        "svg",
        tag("rect", x=0, y=2, width=f"{wrong / most * 150:.1f}", height=10, fill="#d9a441"),
        tag("rect", x=f"{wrong / most * 150:.1f}", y=2, width=f"{zombies / most * 150:.1f}", height=10, fill="#c0392b"),
        width=150,
        height=14,
    )


def _broken(found: GroupData) -> Iterator[Markup]:
    if not found.broken:
        yield tag("p", "None: no epoch out of order, no partition with two owners, no zombie accepted.", class_="good")
        return
    heads = ("rule", "log", "offset", "until", "time (UTC)", "member", "other member", "partition", "detail")
    topics = {str(row["topic_key"]): _partition(row).rpartition("-")[0] for row in found.ownership}
    yield _table(
        heads,
        (
            (
                tag("b", row["rule"]),
                row["log"],
                row["offset"],
                row["until_offset"],
                clock(row["time_ms"]),
                row["member_id"],
                row["other_member_id"],
                None
                if row["partition"] is None
                else f"{topics.get(row['topic_key'], row['topic_key'])}-{row['partition']}",
                row["detail"],
            )
            for row in sorted(found.broken, key=lambda row: (row["rule"], row["offset"]))
        ),
        (2, 3),
    )


def _marks(found: GroupData, *, has_events: bool) -> Iterator[Markup]:
    if not has_events:
        yield tag("p", "The log has no events.", class_="nothing")
        return
    if not found.marks:
        yield tag("p", "None.", class_="nothing")
        return
    heads = ("time (UTC)", "event", "state offset", "member", "partition", "committed", "with epoch", "member epoch",
             "owned since", "verdict", "outcome")  # fmt: skip
    shown = sorted(found.marks, key=lambda row: (row["outcome"], row["offset"]))[:BROKEN_MAX]
    if len(shown) < len(found.marks):
        yield tag("p", f"Showing the first {len(shown):,} of {len(found.marks):,}.", class_="note")
    yield _table(
        heads,
        (
            (
                clock(row["time_ms"]), row["offset"], row["state_offset"], row["member_id"], _partition(row),
                row["committed_offset"], row["commit_epoch"], _known(row["member_epoch"]), _known(row["owned_since"]),
                row["truth"],
                tag("span", _outcome(row), class_="bad" if row["outcome"] == "accepted" and row["truth"] != UNOWNED else None),
            )
            for row in shown
        ),
        (1, 2, 5, 6, 7, 8),
    )  # fmt: skip


def _outcome(row: Row) -> str:
    return "accepted" if row["outcome"] == "accepted" else f"{row['outcome']}: {row['error']}"


def _members(found: GroupData) -> Iterator[Markup]:
    if not found.members:
        yield tag("p", "None.", class_="nothing")
        return
    yield _table(
        ("member", "instance", "client", "host", "from (UTC)", "to", "first epoch", "last epoch"),
        (
            (
                row["member_id"], row["instance_id"], row["client_id"], row["client_host"], clock(row["from_ms"]),
                clock(row["to_ms"]) or "still a member", row["first_epoch"], row["last_epoch"],
            )
            for row in sorted(found.members, key=lambda row: row["from_ms"])
        ),
        (6, 7),
    )  # fmt: skip


# --- the index page -----------------------------------------------------------------------------------------------------


def fleet_page(
    groups: Sequence[Row], count: int, paged: set[tuple[Any, ...]], policies: Sequence[Row] | None,
    gaps: Sequence[Row] | None, title: str,
) -> str:  # fmt: skip
    """Renders the index of all groups."""
    broken = sum(row["broken"] or 0 for row in groups)
    figures = [
        ("groups", f"{count:,}", ""),
        ("rebalances", f"{sum(row['rebalances'] or 0 for row in groups):,}", ""),
        ("broken invariants", f"{broken:,}", "bad" if broken else "good"),
        ("gaps in the events", "no events" if gaps is None else f"{len(gaps):,}", "warn" if gaps else ""),
    ]
    rows = []
    for row in groups:
        key = tuple(row[name] for name in GROUP)
        name = tag("a", str(row["group"]), href=file_name(key)) if key in paged else str(row["group"])
        rows.append((
            name, row["kind"] or "simple", row["shard"], f"{row['members'] or 0:,}", f"{row['rebalances'] or 0:,}",
            f"{row['offset_commits'] or 0:,}", _marked(row["broken"] or 0, "bad"), clock(row["first_ms"]),
            clock(row["last_ms"]),
        ))  # fmt: skip
    notes = []
    if count > len(groups):
        notes.append(tag("p", f"Showing {len(groups):,} of {count:,} groups.", class_="note"))
    if count > len(paged):
        notes.append(tag("p", f"{len(paged):,} groups have a page: those with the most broken invariants, then the most "
                              "rebalances. Use --group for others.", class_="note"))  # fmt: skip
    body = [
        tag("h1", "Consumer groups"),
        tag("p", title, class_="about"),
        tag("dl", *(tag("div", tag("dt", name), tag("dd", value), class_=state or None) for name, value, state in figures),
            class_="figures"),
        *notes,
        _section("Groups", _table(
            ("group", "kind", "shard", "members", "rebalances", "offsets", "broken", "first (UTC)", "last"), rows,
            (2, 3, 4, 5, 6))),
        _section("Replay of the fencing policies, all groups",
                 *_policies(policies or [], has_events=policies is not None, kind=None)),
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
        yield _table(
            ("shard", "from state offset", "to", "events", "why", "time (UTC)"),
            (
                (gap["shard"], gap["from_state_offset"],
                 "the end" if gap["to_state_offset"] is None else gap["to_state_offset"], gap["what"], gap["detail"],
                 clock(gap["time_ms"]))
                for gap in gaps
            ),
            (0, 1, 2),
        )  # fmt: skip


def _footer() -> Markup:
    return tag(
        "footer",
        "Order follows log offsets, never the clock; times are the server's. A decision is judged by the records before its "
        "state offset.",
    )


STYLE = """
:root{--ink:#1d2733;--soft:#5b6875;--line:#dfe4ea;--back:#fff;--tint:#f5f7f9;--bad:#b3261e;--good:#2c7a4b;--warn:#9a6700}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1240px;padding:28px 30px 40px;font:14px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;
color:var(--ink);background:var(--back)}
h1{font-size:26px;margin:0 0 2px;overflow-wrap:anywhere}
h2{font-size:17px;margin:34px 0 10px;padding-bottom:5px;border-bottom:1px solid var(--line)}
p{margin:6px 0 10px}
a{color:#2457a6;text-decoration:none}a:hover{text-decoration:underline}
.about,.key,footer,.nothing{color:var(--soft)}
.key{font-size:12px}
.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}.warn{color:var(--warn);font-weight:600}
.note{background:#fff8e6;border-left:3px solid #d9a441;padding:7px 12px}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:18px 0}
.figures div{background:var(--tint);border:1px solid var(--line);border-radius:6px;padding:10px 14px}
.figures dt{color:var(--soft);font-size:12px}
.figures dd{margin:0;font-size:22px;font-variant-numeric:tabular-nums}
.figures .bad{border-color:var(--bad);background:#fdf1f0}
.wide{overflow-x:auto;margin:0 0 16px}
table{border-collapse:collapse;width:100%;font-size:13px}
th{text-align:left;color:var(--soft);font-weight:600;font-size:12px;white-space:nowrap}
th,td{padding:5px 10px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
td{overflow-wrap:anywhere;min-width:48px}
.n{text-align:right;font-variant-numeric:tabular-nums;padding-right:14px;white-space:nowrap}
svg{display:block;overflow:visible}
svg text{font:11px system-ui,sans-serif;fill:var(--ink)}svg .tick{fill:var(--soft);font-size:10px}
.grid{stroke:var(--line)}.lane{fill:var(--tint)}
.steps{fill:none;stroke:#2457a6;stroke-width:2}.epoch{fill:#fff;stroke:#2457a6;stroke-width:1.5}
.rebalance{opacity:.9}
.cross{stroke:#c0392b;stroke-width:2.4;fill:none}.ring{fill:#fff;stroke:#444;stroke-width:1.6}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:12px;color:var(--soft);margin:8px 0}
.legend i{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:5px;vertical-align:-1px}
.legend .striped{background-image:repeating-linear-gradient(45deg,#fff8 0 2px,transparent 2px 5px)}
footer{margin-top:40px;border-top:1px solid var(--line);padding-top:10px;font-size:12px}
@media print{body{padding:0;max-width:none}.wide{overflow:visible}section{break-inside:avoid-page}}
"""
