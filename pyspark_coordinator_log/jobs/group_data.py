"""What a group's page shows: the rows that report.py collects, and the answers derived from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from coordinator.groups.rebalance_causes import JOINED, REWOUND, Client, Findings, GroupEvent, Step, find_causes
from pyspark_coordinator_log.jobs.intervals import GROUP
from pyspark_coordinator_log.jobs.names import Names
from pyspark_coordinator_log.jobs.times import duration

REBALANCES_MAX, INTERVALS_MAX, MARKS_MAX, BROKEN_MAX, MEMBERS_MAX = 1_000, 20_000, 2_000, 500, 300
MEMBERS_NAMED_MAX = 10_000
"""Members whose client the page knows, although its table has fewer."""
EVENTS_MAX = 100_000
Row = Mapping[str, Any]


@dataclass
class GroupData:
    """The data shown for one group."""

    group: Row
    rebalances: list[Row] = field(default_factory=list)
    ownership: list[Row] = field(default_factory=list)
    marks: list[Row] = field(default_factory=list)
    policies: list[Row] = field(default_factory=list)
    broken: list[Row] = field(default_factory=list)
    members: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    """The events about members and rebalances, newest first."""
    gaps: list[Row] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    """The full lengths of lists that may be truncated."""
    tallies: dict[tuple[str, str], int] = field(default_factory=dict)
    """(truth, outcome) -> partitions of commits, of which `marks` has the newest."""
    openings: list[Row] = field(default_factory=list)
    """The entries of the shard's event log about itself."""
    what_ifs: list[Row] = field(default_factory=list)
    """Answers of `coordinator groups what-if --json` about the group."""

    @property
    def key(self) -> tuple[Any, ...]:
        return tuple(self.group[name] for name in GROUP)

    @property
    def name(self) -> str:
        return str(self.group["group"])

    @cached_property
    def findings(self) -> Findings | None:
        """Why the group rebalanced; None if there are no events that say so."""
        if not self.events:
            return None
        rows = sorted((*self.events, *self.openings), key=lambda row: row["offset"])
        events = [_event(row) for row in rows]
        return find_causes(self.name, events, events[0].time_ms, events[-1].time_ms)

    @cached_property
    def names(self) -> Names:
        """The clients of the members."""
        clients = {
            row["member_id"]: Client(row["client_id"] or "", row["client_host"] or "")
            for row in (*self.members, *(row for row in self.events if row["type"] == JOINED))
        }
        ranked = [] if self.findings is None else [each.client for each in self.findings.clients]
        return Names(clients, ranked)

    def tally(self, truth: str, outcome: str) -> int:
        """How many partitions were committed with this truth and outcome."""
        return self.tallies.get((truth, outcome), 0)


def _event(row: Row) -> GroupEvent:
    waited = [(each["member_id"], each["waited_ms"]) for each in row["waited_for"] or ()]
    fields = {name: row[column] for name, column in _FIELDS if row.get(column) is not None}
    steps = [
        Step(
            each["topic"], each["partition"], each["previous_offset"], each["committed_offset"], each["owner_id"] or ""
        )
        for each in (row["partitions"] if row["type"] == REWOUND else ())
    ]
    return GroupEvent(type=row["type"], offset=row["offset"], waited_for=waited, steps=steps, **fields)


_FIELDS = (
    *((name, name) for name in ("time_ms", "member_id", "client_id", "client_host", "instance_id", "epoch", "cause")),
    *((name, name) for name in ("reason", "duration_ms", "delay_ms", "timeout", "timeout_ms")),
    ("members", "member_count"),
    ("port", "client_port"),
    ("connection_end", "connection_end"),
    ("principal", "principal"),
    ("previous_ms", "previous_time_ms"),
)


def lasted(row: Row) -> str:
    """The duration of a rebalance, or why there is none."""
    if row["duration_ms"] is not None:
        return duration(row["duration_ms"])
    if row["superseded"]:
        return "superseded"
    return "duration unknown" if row["completed"] else "not completed"


def partition_name(row: Row) -> str:
    """TOPIC-N; with the topic's id if its name is unknown."""
    return f"{row['topic'] or row['topic_key']}-{row['partition']}"


def known(value: Any) -> Any:
    """The value, or a question mark."""
    return "?" if value is None else value
