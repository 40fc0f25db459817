"""The audit: everything the logs show to be wrong, as numbers and rows.

It writes the tables that hold the proof (`commit_verdicts`, `policy_replay`, `invariants_broken`, `event_gaps`) and
audit.json, which sums them up and says what could not be audited and why. The exit code (job.py) depends only on broken
invariants: a gap in the events is not an error, but results for that stretch of the log are incomplete.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coordinator.pipeline.files import write_atomically
from coordinator.pipeline.intervals import materialize
from coordinator.pipeline.tables import Derived, Store
from coordinator.pipeline.vocabulary import ASSIGNMENT_INVALID, DISCARDED, REPORTED

WRITTEN = ("commit_verdicts", "policy_replay", "invariants_broken", "event_gaps")
SUMMARY = "audit.json"


def audit(derived: Derived, store: Store) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yields the name of each finished step; the last one is "audit", with the summary."""

    def keep(name: str, frame: DataFrame) -> DataFrame:
        return store.write(name, frame) if name in WRITTEN else materialize(frame)

    derived.keep, derived.judge = keep, store.judge
    for name in WRITTEN:
        if getattr(derived, name) is None:
            store.remove(name)
        yield name, None
    yield "audit", summary(derived)


def summary(derived: Derived) -> dict[str, Any]:
    """All sums, ready for JSON. A sum the log gives no basis for is null."""
    return {
        "log": derived.source.name,
        "commits": None if derived.sums is None else derived.sums.commits(),
        "policies": None if derived.sums is None else derived.sums.policies(),
        "assignments": None if derived.source.events is None else _invalid_assignments(derived.source.events),
        "broken": _counts(derived.invariants_broken, "rule"),
        "gaps": None if derived.event_gaps is None else [row.asDict() for row in derived.event_gaps.collect()],
        "unreadable": _unreadable(derived),
    }


def _invalid_assignments(events: DataFrame) -> dict[str, int]:
    """Counts the assignments of classic groups' leaders that broke a rule."""
    found = _counts(events.where(F.col("type") == ASSIGNMENT_INVALID), "policy")
    return {"invalid_received": found.get(REPORTED, 0), "invalid_refused": found.get(DISCARDED, 0)}


def _counts(frame: DataFrame, column: str) -> dict[str, int]:
    return {row[0]: row[1] for row in frame.groupBy(column).count().orderBy(column).collect()}


def _unreadable(derived: Derived) -> dict[str, int]:
    """Counts the records that could not be decoded, by type: unknown types and newer versions."""
    rows = derived.state.where("problem is not null").select("type", "problem")
    found = rows.groupBy(F.coalesce("type", F.lit("no type")).alias("type")).count().collect()
    return {row["type"]: row["count"] for row in found}


def write_summary(folder: Path, found: dict[str, Any]) -> None:
    """Writes audit.json atomically."""
    write_atomically(folder / SUMMARY, json.dumps(found, indent=2) + "\n")


def is_clean(found: dict[str, Any]) -> bool:
    """Whether no invariant is broken. Commits that every policy accepts (unowned partitions) do not count."""
    return not found["broken"]


def lines(found: dict[str, Any]) -> Iterator[str]:
    """The summary as lines of text."""
    commits = found["commits"]
    if commits is None:
        yield "commits: unknown, because the log has no events"
    else:
        yield (
            f"commits: {commits['decisions']:,} decided, {commits['accepted']:,} accepted, {commits['refused']:,} refused, "
            f"{commits['failed']:,} failed"
        )
        yield f"zombies: {commits['zombies_accepted']:,} accepted, {commits['zombies_refused']:,} refused"
        yield (
            f"unowned partitions at the current epoch: {commits['unowned_accepted']:,} accepted, "
            f"{commits['unowned_refused']:,} refused"
        )
        if commits["cannot_say"]:
            yield f"undecidable: {commits['cannot_say']:,}"
    for row in found["policies"] or ():
        yield (
            f"policy {row['replayed'].replace('_', '-')}: {row['refused']:,} of {row['requests']:,} requests refused "
            f"({row['refused_rightly']:,} rightly, {row['refused_wrongly']:,} wrongly), "
            f"{row['accepted_zombies']:,} zombies accepted"
        )
    assignments = found["assignments"]
    if assignments is not None and any(assignments.values()):
        yield (
            f"invalid assignments of leaders: {assignments['invalid_received']:,} received, "
            f"{assignments['invalid_refused']:,} refused"
        )
    for rule, count in found["broken"].items():
        yield f"broken: {rule}: {count:,}"
    if not found["broken"]:
        yield "broken: nothing"
    for gap in found["gaps"] or ():
        end = "the end" if gap["to_state_offset"] is None else gap["to_state_offset"]
        yield (
            f"gap: shard {gap['shard']}, state offsets {gap['from_state_offset']} to {end}: events {gap['what']} "
            f"({gap['detail']})"
        )
    for kind, count in found["unreadable"].items():
        yield f"undecoded: {count:,} records of type {kind}"
