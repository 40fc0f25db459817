"""The audit: everything the logs show to be wrong, as numbers and rows.

It writes the tables that hold the proof (WRITTEN), and audit.json, which sums them up and says what could not be audited and
why. The exit code (job.py) depends only on broken invariants: a gap in the events is not an error, but results for that stretch
of the log are incomplete.
"""

import json
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pyspark_coordinator_log.jobs.files import write_atomically
from pyspark_coordinator_log.jobs.intervals import materialize
from pyspark_coordinator_log.jobs.tables import Derived, Store
from pyspark_coordinator_log.jobs.vocabulary import ASSIGNMENT_INVALID, DISCARDED, REPORTED

WRITTEN = ("commit_verdicts", "policy_replay", "deliveries", "invariants_broken", "event_gaps")
SUMMARY = "audit.json"


def audit(derived: Derived, store: Store) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yields the name of each finished step; the last one is "audit", with the summary."""

    def keep(name: str, frame: DataFrame) -> DataFrame:
        return store.write(name, frame) if name in WRITTEN else materialize(frame)

    derived.keep, derived.keep_arrow, derived.judge = keep, store.write_arrow, store.judge
    for name in WRITTEN:
        if getattr(derived, name) is None:
            store.remove(name)
        yield name, None
    yield "audit", summary(derived)


def summary(derived: Derived) -> dict[str, Any]:
    """All sums, ready for JSON. A sum the log gives no basis for is null."""
    counts = _counts(derived)
    invalid = counts[_ASSIGNMENTS]
    return {
        "log": derived.source.name,
        "commits": None if derived.sums is None else derived.sums.commits(),
        "policies": None if derived.sums is None else derived.sums.policies(),
        "assignments": None
        if derived.source.events is None
        else {"invalid_received": invalid.get(REPORTED, 0), "invalid_refused": invalid.get(DISCARDED, 0)},
        "broken": counts[_BROKEN],
        "gaps": None if derived.gaps is None else derived.gaps.to_pylist(),
        "unreadable": counts[_UNREADABLE],
    }


_BROKEN, _ASSIGNMENTS, _UNREADABLE = "broken", "assignments", "unreadable"


def _counts(derived: Derived) -> dict[str, dict[str, int]]:
    """Counts violations by rule, leaders' invalid assignments by what became of them, and undecoded records by type.

    One query: each would cost more to plan than to run.
    """
    rows = [
        _named(_BROKEN, derived.invariants_broken, F.col("rule")),
        _named(
            _UNREADABLE,
            derived.since(derived.state, "timestamp_ms").where("problem is not null"),
            F.coalesce("type", F.lit("no type")),
        ),
    ]
    if derived.source.events is not None:
        invalid = derived.source.events.where(F.col("type") == ASSIGNMENT_INVALID)
        rows.append(_named(_ASSIGNMENTS, invalid, F.col("policy")))
    found: dict[str, dict[str, int]] = {_BROKEN: {}, _ASSIGNMENTS: {}, _UNREADABLE: {}}
    counted = reduce(DataFrame.unionByName, rows).groupBy("what", "name").count().orderBy("what", "name")
    for what, name, count in counted.collect():
        found[what][name] = count
    return found


def _named(what: str, rows: DataFrame, name: Column) -> DataFrame:
    return rows.select(F.lit(what).alias("what"), name.alias("name"))


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
