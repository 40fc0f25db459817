"""From where on the logs say everything, and where they are silent.

Two things can be missing. The *state log* loses its past to compaction and retention: `complete_from` says from which offset
on every record is still there. The *event log* is written beside the state log and not waited for, so a power cut may take
its end; a server may be told to write fewer events, or none; its past is deleted by its own retention. Each stretch of the
state log that has no events, or not all of them, is a row: nothing that an audit says about it can be whole.

Events may also say too much: those that were decided just before the state log lost what they decided never came true. The
server says so when it opens the log again (`undone_from_offset`), and they are left out everywhere.
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
    """Events of a shard, from the first offset to before the second, that never came true."""

    log_id: str
    shard: int
    from_offset: int
    to_offset: int


def openings(events: DataFrame) -> DataFrame:
    """The event log's rows about itself. There are few: one or two per start of a server and shard."""
    return readable(events).where(F.col("type").isin(*ABOUT_ITSELF))


def undone(opened: DataFrame) -> Sequence[Undone]:
    """Which events never came true."""
    rows = opened.where((F.col("type") == OPENED) & (F.col("undone_from_offset") >= 0)).select(
        *SHARD, "undone_from_offset", "offset"
    )
    return [Undone(*row) for row in rows.collect()]


def without_undone(events: DataFrame, ranges: Sequence[Undone]) -> DataFrame:
    """The events without those."""
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
    """The same of an Arrow batch of one shard's events."""
    for each in ranges:
        if not batch.num_rows or batch.column("shard")[0].as_py() != each.shard:
            continue
        offset = batch.column("offset")
        keep = pc.or_(pc.less(offset, each.from_offset), pc.greater_equal(offset, each.to_offset))
        batch = batch.filter(keep)
    return batch


def event_gaps(opened: DataFrame, first_events: DataFrame) -> DataFrame:
    """Stretches of the state log, from `from_state_offset` to before `to_state_offset`, whose events are missing.

    `first_events` has (log_id, shard, first_offset, first_state_offset): of the oldest event that is still there.
    `to_state_offset` is null where the silence lasts to the end.
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
