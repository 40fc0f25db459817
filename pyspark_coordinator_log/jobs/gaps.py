"""Where the logs are complete, and where events are missing.

Two things can be missing. The *state log* loses its past to compaction and retention: `complete_from` is the offset from
which every record is still there. The *event log* is written beside the state log without being waited for, so a power
failure may cut off its end; a server may be configured to write fewer events or none; and retention deletes its oldest
events. Every stretch of the state log whose events are missing or incomplete is a row here, and audit results for such a
stretch are incomplete.

There may also be too many events: if the state log loses its end, the decisions recorded just before that never took
effect. The server notes this when it reopens the log (`undone_from_offset`), and those events are dropped everywhere.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_coordinator_log.jobs.intervals import SHARD, readable

OPENED, CLOSED = "EventLogOpened", "EventLogClosed"
ABOUT_ITSELF = (OPENED, CLOSED)
ALL_EVENTS = "all"
OPENING_COLUMNS = (
    *SHARD, "offset", "type", "time_ms", "state_offset", "previous_state_offset", "covered_state_offset",
    "undone_from_offset", "cleanly_closed", "policy", "cause", "previous_time_ms",
)  # fmt: skip
"""Columns needed of these entries."""
GAPS = pa.schema([
    ("log_id", pa.string()), ("shard", pa.int32()), ("what", pa.string()), ("from_state_offset", pa.int64()),
    ("to_state_offset", pa.int64()), ("event_offset", pa.int64()), ("time_ms", pa.int64()), ("detail", pa.string()),
])  # fmt: skip
"""The schema of the table event_gaps."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Undone:
    """Events `[from_offset, to_offset)` of a shard, whose decisions never took effect."""

    log_id: str
    shard: int
    from_offset: int
    to_offset: int


class FirstEvent(NamedTuple):
    """The oldest event of a shard that is still there."""

    log_id: str
    shard: int
    offset: int
    state_offset: int | None


def openings(events: DataFrame) -> Sequence[Row]:
    """The event log's entries about itself, in order: one or two per shard and server start."""
    found = readable(events).where(F.col("type").isin(*ABOUT_ITSELF)).collect()
    return sorted((row.asDict(recursive=True) for row in found), key=itemgetter(*SHARD, "offset"))


def first_events(events: DataFrame) -> Sequence[FirstEvent]:
    """The oldest event of each shard."""
    found = events.groupBy(*SHARD).agg(F.min("offset"), F.min_by("state_offset", "offset"))
    return [FirstEvent(*row) for row in found.collect()]


def undone(opened: Sequence[Row]) -> Sequence[Undone]:
    """Returns the ranges of events that never took effect."""
    return [
        Undone(row["log_id"], row["shard"], row["undone_from_offset"], row["offset"])
        for row in opened
        if row["type"] == OPENED and _is_known(row["undone_from_offset"])
    ]


def _is_known(offset: int | None) -> bool:
    return offset is not None and offset >= 0


def without_undone(events: DataFrame, ranges: Sequence[Undone]) -> DataFrame:
    """Drops the events in these ranges."""
    for each in ranges:
        is_it = (
            (F.col("log_id") == each.log_id)
            & (F.col("shard") == each.shard)
            & (F.col("offset") >= each.from_offset)
            & (F.col("offset") < each.to_offset)
        )
        events = events.where(~is_it)
    return events


def batch_without_undone(batch: Any, ranges: Sequence[Undone]) -> Any:
    """As `without_undone`, for an Arrow batch with events of one shard."""
    for each in ranges:
        if not batch.num_rows or batch.column("shard")[0].as_py() != each.shard:
            continue
        offset = batch.column("offset")
        keep = pc.or_(pc.less(offset, each.from_offset), pc.greater_equal(offset, each.to_offset))
        batch = batch.filter(keep)
    return batch


def event_gaps(opened: Sequence[Row], firsts: Sequence[FirstEvent]) -> Any:
    """Finds the stretches `[from_state_offset, to_state_offset)` of the state log whose events are missing.

    Returns an Arrow table. `to_state_offset` is null if events are missing up to the end of the log.
    """
    rows = [*_deleted(firsts)]
    for shard, entries in groupby(opened, itemgetter(*SHARD)):
        about = dict(zip(SHARD, shard, strict=True))
        rows += [about | gap for gap in _gaps_of_shard(list(entries))]
    return pa.Table.from_pylist(rows, GAPS)


def _deleted(firsts: Sequence[FirstEvent]) -> Iterator[dict[str, Any]]:
    for first in firsts:
        if first.offset > 0 and first.state_offset:
            yield {
                "log_id": first.log_id, "shard": first.shard, "what": "deleted", "from_state_offset": 0,
                "to_state_offset": first.state_offset, "event_offset": first.offset,
                "detail": "the oldest events were deleted by their retention",
            }  # fmt: skip


def _gaps_of_shard(entries: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yields what each opening of the log shows. The next entry ends the stretch without some of the events."""
    for place, entry in enumerate(entries):
        if entry["type"] != OPENED:
            continue
        start, previous = entry["state_offset"], entry["previous_state_offset"]
        covered = next((each for each in (entry["covered_state_offset"], previous) if _is_known(each)), start)
        at = {"event_offset": entry["offset"], "time_ms": entry["time_ms"]}
        if covered < start:
            detail = "the event log was not closed: its end was lost, or the server was killed"
            if entry["cleanly_closed"]:
                detail = "the state log went on while no events were written"
            yield at | {"what": "lost", "from_state_offset": covered, "to_state_offset": start, "detail": detail}
        if entry["policy"] not in {ALL_EVENTS, None}:
            following = entries[place + 1 : place + 2]
            end = following[0]["state_offset"] if following else None
            detail = f"events: {entry['policy']}"
            yield at | {"what": "not written", "from_state_offset": start, "to_state_offset": end, "detail": detail}
        if not _is_known(previous) and entry["offset"] == 0 and start > 0:
            detail = "the state log is older than the event log"
            yield at | {"what": "not written", "from_state_offset": 0, "to_state_offset": start, "detail": detail}
