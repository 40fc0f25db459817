"""A group's rows as the data of its timeline.

The events are those about members and rebalances. What a log without events, or with gaps, knows from its records of state is
added in the form of such events.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coordinator.groups.group_history import COMPLETED, OVERTAKEN, STARTED, Rebalance
from coordinator.page.timeline import ClientName, KnownMember, Ownership, TimelineData
from pyspark_coordinator_log.jobs.group_data import GroupData, Row
from pyspark_coordinator_log.jobs.vocabulary import ACCEPTED

EVENTS_DRAWN_MAX = 20_000
"""The newest events of a group, so that a page stays below ten megabytes."""
_COLUMNS = (
    *((name, name) for name in ("type", "offset", "state_offset", "time_ms", "member_id", "client_id", "client_host", "epoch")),
    *((name, name) for name in ("cause", "reason", "duration_ms", "delay_ms", "timeout", "timeout_ms", "waited_for")),
    *((name, name) for name in ("api", "error_code", "undone_from_offset")),
    ("member_count", "members"),
    ("instance_id", "group_instance_id"),
)  # fmt: skip


def timeline_data(found: GroupData, by_epoch: Mapping[int, Rebalance]) -> TimelineData:
    """The data of the timeline. `by_epoch`: the rebalances as `find_causes` sees them; their kinds give bars a colour."""
    rows = sorted((*found.events, *found.openings), key=lambda row: row["offset"])[-EVENTS_DRAWN_MAX:]
    events = [_event(row) for row in rows]
    missing = [each for row in _without_events(found.rebalances, events) for each in _rebalance(row)]
    commits = [_commit(row) for row in found.marks]
    if missing or commits:
        events = sorted((*missing, *events, *commits), key=lambda event: event["time_ms"])
    for event in events:
        event["shard"] = found.group["shard"]
        if event["type"] == STARTED and event["epoch"] in by_epoch:
            event["kind"] = by_epoch[event["epoch"]].kind
    return TimelineData(
        group=found.name,
        events=events,
        ownership=[_ownership(row) for row in found.ownership],
        members=[_member(row) for row in found.members],
        clients=[ClientName(client_id=each.client_id, host=each.host) for each in found.names.ranked],
    )


def _event(row: Row) -> dict[str, Any]:
    return {name: row[column] for column, name in _COLUMNS if row.get(column) is not None}


def _without_events(rebalances: Iterable[Row], events: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    known = {event["epoch"] for event in events if event["type"] in {STARTED, COMPLETED, OVERTAKEN}}
    return (row for row in rebalances if row["epoch"] not in known and row["time_ms"] is not None)


def _rebalance(row: Row) -> Iterator[dict[str, Any]]:
    """A rebalance that only the records of state show, as its two events. One of unknown duration is as short as can be."""
    shared = {"epoch": row["epoch"], "member_id": row["cause_member_id"], "cause": row["cause"] or "unknown cause"}
    yield {"type": STARTED, "time_ms": row["time_ms"], "state_offset": row["offset"], "reason": row["reason"], **shared}
    duration_ms = row["duration_ms"]
    yield {
        "type": COMPLETED,
        "time_ms": row["time_ms"] + (duration_ms or 0),
        "duration_ms": -1 if duration_ms is None else duration_ms,
        "members": row["members"],
        **shared,
    }


def _commit(row: Row) -> dict[str, Any]:
    """A commit of a partition that its member did not own."""
    error = None if row["outcome"] == ACCEPTED else row["error"]
    partition = {"partition": row["partition"], "committed_offset": row["committed_offset"], "error_code": error}
    return {
        "type": "CommitDecided",
        "offset": row["offset"],
        "state_offset": row["state_offset"],
        "time_ms": row["time_ms"],
        "member_id": row["member_id"],
        "generation_id_or_member_epoch": row["commit_epoch"],
        "truth": row["truth"],
        "topics": [{"topic_name": row["topic"] or row["topic_key"], "partitions": [partition]}],
    }


def _ownership(row: Row) -> Ownership:
    return Ownership(
        topic=str(row["topic"] or row["topic_key"]),
        partition=row["partition"],
        member_id=row["member_id"],
        from_ms=row["from_ms"],
        to_ms=row["to_ms"],
    )


def _member(row: Row) -> KnownMember:
    return KnownMember(
        member_id=row["member_id"],
        client_id=row["client_id"] or "",
        client_host=row["client_host"] or "",
        from_ms=row["from_ms"],
        to_ms=row["to_ms"],
    )
