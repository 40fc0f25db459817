"""The audit: what of all this is wrong, in numbers and rows.

It writes the tables that are evidence (`commit_verdicts`, `policy_replay`, `invariants_broken`, `event_gaps`) and
audit.json, which has the sums of them and says what could not be audited and why. Whether there is anything wrong is
the exit code's business (job.py): a gap in the events is not wrong, but nothing that is said of it is whole.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coordinator.pipeline.intervals import materialize
from coordinator.pipeline.tables import Derived, Store

WRITTEN = ("commit_verdicts", "policy_replay", "invariants_broken", "event_gaps")
SUMMARY = "audit.json"


def audit(derived: Derived, store: Store) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yields the name of each step when it is done; last "audit" and the summary."""

    def keep(name: str, frame: DataFrame) -> DataFrame:
        return store.write(name, frame) if name in WRITTEN else materialize(frame)

    derived.keep, derived.judge = keep, store.judge
    for name in WRITTEN:
        if getattr(derived, name) is None:
            store.remove(name)
        yield name, None
    yield "audit", summary(derived)


def summary(derived: Derived) -> dict[str, Any]:
    """All sums, as JSON has them. What there is no evidence for is null."""
    return {
        "log": derived.source.name,
        "commits": None if derived.sums is None else derived.sums.commits(),
        "policies": None if derived.sums is None else derived.sums.policies(),
        "broken": _counts(derived.invariants_broken, "rule"),
        "gaps": None if derived.event_gaps is None else [row.asDict() for row in derived.event_gaps.collect()],
        "unreadable": _unreadable(derived),
    }


def _counts(frame: DataFrame, column: str) -> dict[str, int]:
    return {row[0]: row[1] for row in frame.groupBy(column).count().orderBy(column).collect()}


def _unreadable(derived: Derived) -> dict[str, int]:
    """Records that were kept and could not be read, by type: unknown ones, and those in newer versions."""
    rows = derived.state.where("problem is not null").select("type", "problem")
    found = rows.groupBy(F.coalesce("type", F.lit("no type")).alias("type")).count().collect()
    return {row["type"]: row["count"] for row in found}


def write_summary(folder: Path, found: dict[str, Any]) -> None:
    """audit.json, whole or not at all."""
    new = folder / f".{SUMMARY}.new"
    new.write_text(json.dumps(found, indent=2) + "\n")
    new.replace(folder / SUMMARY)


def is_clean(found: dict[str, Any]) -> bool:
    """Whether nothing is broken. What every policy lets through (unowned partitions) is not."""
    return not found["broken"]


def lines(found: dict[str, Any]) -> Iterator[str]:
    """The summary in words."""
    commits = found["commits"]
    if commits is None:
        yield "commits: the log has no events, so who committed what, and what was refused, is not known"
    else:
        yield (
            f"commits: {commits['decisions']:,} decided, {commits['accepted']:,} accepted, {commits['refused']:,} refused, "
            f"{commits['failed']:,} failed"
        )
        yield f"zombies: {commits['zombies_accepted']:,} accepted, {commits['zombies_refused']:,} refused"
        yield f"unowned at the current epoch: {commits['unowned_accepted']:,} accepted, {commits['unowned_refused']:,} refused"
        if commits["cannot_say"]:
            yield f"cannot say: {commits['cannot_say']:,}"
    for row in found["policies"] or ():
        yield (
            f"policy {row['replayed'].replace('_', '-')}: {row['refused']:,} of {row['requests']:,} requests refused "
            f"({row['refused_rightly']:,} rightly, {row['refused_wrongly']:,} wrongly), "
            f"{row['accepted_zombies']:,} zombies accepted"
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
        yield f"not read: {count:,} records of type {kind}"
