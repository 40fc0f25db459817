"""Where the logs are complete, and where events are missing.

Two things can be missing. The *state log* loses its past to compaction and retention: `complete_from` is the offset from
which every record is still there. The *event log* is written beside the state log without being waited for, so a power
failure may cut off its end; a server may be configured to write fewer events or none; and retention deletes its oldest
events. Every stretch of the state log whose events are missing or incomplete is a row here, and audit results for such a
stretch are incomplete.

There may also be too many events: if the state log loses its end, the decisions recorded just before that never took
effect. The server notes this when it reopens the log (`undone_from_offset`), and those events are dropped everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from coordinator.pipeline.intervals import SHARD, readable

OPENED, CLOSED = "EventLogOpened", "EventLogClosed"
ABOUT_ITSELF = (OPENED, CLOSED)
ALL_EVENTS = "all"


@dataclass(frozen=True, slots=True)
class Undone:
    """Events `[from_offset, to_offset)` of a shard, whose decisions never took effect."""

    log_id: str
    shard: int
    from_offset: int
    to_offset: int


def openings(events: DataFrame) -> DataFrame:
    """The event log's entries about itself: one or two per shard and server start."""
    return readable(events).where(F.col("type").isin(*ABOUT_ITSELF))


def undone(opened: DataFrame) -> Sequence[Undone]:
    """Returns the ranges of events that never took effect."""
    rows = opened.where((F.col("type") == OPENED) & (F.col("undone_from_offset") >= 0)).select(
        *SHARD, "undone_from_offset", "offset"
    )
    return [Undone(*row) for row in rows.collect()]


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


def event_gaps(opened: DataFrame, first_events: DataFrame) -> DataFrame:
    """Finds the stretches `[from_state_offset, to_state_offset)` of the state log whose events are missing.

    `first_events`: (log_id, shard, first_offset, first_state_offset) of the oldest event still there. `to_state_offset` is
    null if events are missing up to the end of the log.
    """
    in_order = Window.partitionBy(*SHARD).orderBy("offset")
    starts = (
        opened.withColumn("next_state_offset", F.lead("state_offset").over(in_order))
        .where(F.col("type") == OPENED)
        .select(*SHARD, "offset", "time_ms", "state_offset", "previous_state_offset", "covered_state_offset",
                "cleanly_closed", "policy", "run_id", "next_state_offset")
    )  # fmt: skip
    covered = F.coalesce(
        F.when(F.col("covered_state_offset") >= 0, F.col("covered_state_offset")),
        F.when(F.col("previous_state_offset") >= 0, F.col("previous_state_offset")),
    )
    lost = starts.where(covered.isNotNull() & (covered < F.col("state_offset"))).select(
        *SHARD,
        F.lit("lost").alias("what"),
        covered.alias("from_state_offset"),
        F.col("state_offset").alias("to_state_offset"),
        F.col("offset").alias("event_offset"),
        "time_ms",
        F.when(F.col("cleanly_closed"), "the state log went on while no events were written")
        .otherwise("the event log was not closed: its end was lost, or the server was killed")
        .alias("detail"),
    )
    fewer = starts.where(F.col("policy") != ALL_EVENTS).select(
        *SHARD,
        F.lit("not written").alias("what"),
        F.col("state_offset").alias("from_state_offset"),
        F.col("next_state_offset").alias("to_state_offset"),
        F.col("offset").alias("event_offset"),
        "time_ms",
        F.concat(F.lit("events: "), F.col("policy")).alias("detail"),
    )
    trimmed = first_events.where((F.col("first_offset") > 0) & (F.col("first_state_offset") > 0)).select(
        *SHARD,
        F.lit("deleted").alias("what"),
        F.lit(0).cast("bigint").alias("from_state_offset"),
        F.col("first_state_offset").alias("to_state_offset"),
        F.col("first_offset").alias("event_offset"),
        F.lit(None).cast("bigint").alias("time_ms"),
        F.lit("the oldest events were deleted by their retention").alias("detail"),
    )
    before = (
        starts.where((F.col("previous_state_offset") < 0) | F.col("previous_state_offset").isNull())
        .where((F.col("offset") == 0) & (F.col("state_offset") > 0))
        .select(
            *SHARD,
            F.lit("not written").alias("what"),
            F.lit(0).cast("bigint").alias("from_state_offset"),
            F.col("state_offset").alias("to_state_offset"),
            F.col("offset").alias("event_offset"),
            "time_ms",
            F.lit("the state log is older than the event log").alias("detail"),
        )
    )
    return lost.unionByName(fewer).unionByName(trimmed).unionByName(before)
