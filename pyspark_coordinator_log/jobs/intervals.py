"""Intervals: when each member was at each epoch, and when it owned each partition.

A record about a member's assignment is valid until the next record about that member. A classic group's record describes
all members at once and is valid until the group's next record; a member missing from it has left. Both become rows with
`from_offset` (of the record) and `to_offset` (of the record that ended it; null while it is still valid). A decision made
when the log ended at N sees the row with `from_offset < N <= to_offset`.

Ownership merges adjacent rows ("gaps and islands"): a partition that a member kept over five epochs is one row, and
`acquired_epoch` is the epoch in which the member got it. A member that was asked to revoke a partition owns it until it
confirms the revocation.

Consumer groups identify a partition by topic id and classic groups by topic name; `topic_key` is whichever the record has.
In a compacted log the beginning is lost: rows that start before `complete_from` may have started earlier, so their
`acquired_epoch` is the one in the record if there is one (KIP-1251), else null.
"""

from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.utils import is_remote

from pyspark_coordinator_log.jobs.vocabulary import CLASSIC, CONSUMER

SHARD = ("log_id", "shard")
GROUP = (*SHARD, "group")
MEMBER = (*GROUP, "member_id")
PARTITION = (*GROUP, "topic_key", "partition")
OPEN = (1 << 62) - 1
"""Replaces a null `to_offset` in comparisons: larger than every offset. Tables contain null."""

CURRENT_ASSIGNMENT = "ConsumerGroupCurrentMemberAssignment"
MEMBER_METADATA = "ConsumerGroupMemberMetadata"
STREAMS_ASSIGNMENT = "StreamsGroupCurrentMemberAssignment"
STREAMS_METADATA = "StreamsGroupMemberMetadata"
CLASSIC_GROUP = "GroupMetadata"
FORMING_GENERATION = "ClassicGroupGeneration"
FORCED_REBALANCE = "ClassicGroupForcedRebalance"
ACQUIRED = "struct<epoch: int, from_offset: bigint, from_ms: bigint, recorded: int, begin_is_known: boolean>"
"""How an ownership began. Null in a complete history, where it follows from earlier rows; `follow` carries it along for rows
whose predecessors it has dropped.
"""
HELD = f"array<struct<topic_key: string, partition: int, since: int, pending: boolean, acquired: {ACQUIRED}>>"


def is_local(spark: SparkSession) -> bool:
    """Whether driver and tasks run on this machine and share its disk."""
    return not is_remote() and str(spark.conf.get("spark.master")).startswith("local")


def materialize(frame: DataFrame) -> DataFrame:
    """Computes the rows once and keeps them while they are referenced.

    In local mode the lineage is cut too, because Spark would otherwise analyse it again for every step that follows. On a
    cluster the lineage is kept, so that the partitions of a lost executor can be recomputed.
    """
    if is_local(frame.sparkSession):
        return frame.localCheckpoint(storageLevel=StorageLevel.MEMORY_AND_DISK)
    return frame.persist(StorageLevel.MEMORY_AND_DISK)


def frame_of(spark: SparkSession, table: Any) -> DataFrame:
    """The rows of an Arrow table. Spark Connect infers no schema from an empty one."""
    return spark.createDataFrame(table, from_arrow_schema(table.schema))


def readable(rows: DataFrame) -> DataFrame:
    """Rows whose record could be decoded."""
    return rows.where(F.col("problem").isNull())


def member_intervals(state: DataFrame) -> DataFrame:
    """One row per record about a member: its epochs and its partitions (`held`), from when to when."""
    return consumer_intervals(state).unionByName(classic_intervals(state))


def consumer_intervals(state: DataFrame) -> DataFrame:
    """As `member_intervals`, for consumer groups. A member's tombstone ends its last interval."""
    in_order = Window.partitionBy(*MEMBER).orderBy("offset")
    about = F.when(
        (F.col("type") == MEMBER_METADATA) & ~F.col("tombstone"), F.struct("instance_id", "client_id", "client_host")
    )
    rows = (
        readable(state)
        .where(F.col("type").isin(CURRENT_ASSIGNMENT, MEMBER_METADATA))
        .select(*MEMBER, "type", "offset", "timestamp_ms", "tombstone", "member_epoch", "previous_member_epoch",
                "revocation_epoch", "state", "assignment", "pending_revocation", about.alias("about"))
        .withColumn("about", F.last("about", ignorenulls=True).over(in_order))
        .where(F.col("type") == CURRENT_ASSIGNMENT)
        .withColumn("to_offset", F.lead("offset").over(in_order))
        .withColumn("to_ms", F.lead("timestamp_ms").over(in_order))
        .where(~F.col("tombstone"))
    )  # fmt: skip
    return rows.select(
        *GROUP,
        F.lit(CONSUMER).alias("kind"),
        "member_id",
        "about.instance_id",
        "about.client_id",
        "about.client_host",
        F.col("member_epoch").alias("epoch"),
        F.col("previous_member_epoch").alias("previous_epoch"),
        "revocation_epoch",
        "state",
        F.col("offset").alias("from_offset"),
        "to_offset",
        F.col("timestamp_ms").alias("from_ms"),
        "to_ms",
        F.array_distinct(F.concat(_held("assignment", pending=False), _held("pending_revocation", pending=True))).alias(
            "held"
        ),
        F.lit(None).cast("binary").alias("unread_assignment"),
    )


def classic_intervals(state: DataFrame) -> DataFrame:
    """As `member_intervals`, for classic groups. `held` is null if the assignment's protocol is unknown."""
    in_order = Window.partitionBy(*GROUP).orderBy("offset")
    rows = (
        readable(state)
        .where(F.col("type") == CLASSIC_GROUP)
        .select(*GROUP, "offset", "timestamp_ms", "generation", "members")
        .withColumn("to_offset", F.lead("offset").over(in_order))
        .withColumn("to_ms", F.lead("timestamp_ms").over(in_order))
        .withColumn("member", F.explode("members"))
    )
    return rows.select(
        *GROUP,
        F.lit(CLASSIC).alias("kind"),
        "member.member_id",
        "member.instance_id",
        "member.client_id",
        "member.client_host",
        F.col("generation").alias("epoch"),
        F.lit(None).cast("int").alias("previous_epoch"),
        F.lit(None).cast("int").alias("revocation_epoch"),
        F.lit(None).cast("string").alias("state"),
        F.col("offset").alias("from_offset"),
        "to_offset",
        F.col("timestamp_ms").alias("from_ms"),
        "to_ms",
        F.when(
            F.col("member.assignment").isNotNull(), F.array_distinct(_held("member.assignment", pending=False))
        ).alias("held"),
        F.col("member.assignment_bytes").alias("unread_assignment"),
    )


def _held(column: str, *, pending: bool) -> Column:
    """Converts an assignment to the type of `held`; null becomes an empty list."""
    items = F.transform(
        column,
        lambda each: F.struct(
            F.coalesce(each["topic_id"], each["topic"]).alias("topic_key"),
            each["partition"].alias("partition"),
            each["epoch"].alias("since"),
            F.lit(pending).alias("pending"),
            F.lit(None).cast(ACQUIRED).alias("acquired"),
        ),
    )
    return F.coalesce(items, F.array().cast(HELD))


def ownership_intervals(members: DataFrame, complete_from: DataFrame) -> DataFrame:
    """One row per uninterrupted ownership of a partition by a member.

    `complete_from`: (log_id, shard, complete_from); the history before that offset is incomplete.
    """
    return merge_ownerships(merge_runs(held_partitions(merge_unchanged(members), complete_from)))


def merge_unchanged(members: DataFrame) -> DataFrame:
    """Merges adjacent rows of a member with the same `held`. `epoch` is that of the first row, `last_epoch` of the last.

    Most records written during a rebalance repeat the member's assignment; this avoids expanding their partitions.
    """
    in_order = Window.partitionBy(*MEMBER).orderBy("from_offset")
    goes_on = (F.lag("to_offset").over(in_order) == F.col("from_offset")) & F.lag("held").over(in_order).eqNullSafe(
        F.col("held")
    )
    first = F.when(F.col("begins"), F.struct("from_offset", "from_ms", "epoch"))
    return (
        members.select(*MEMBER, "kind", "epoch", "from_offset", "to_offset", "from_ms", "to_ms", "held")
        .withColumn("begins", ~F.coalesce(goes_on, F.lit(False)))
        .withColumn("ends", F.lead("begins", 1, True).over(in_order))
        .withColumn("first", F.last(first, ignorenulls=True).over(in_order))
        .where("ends")
        .select(*MEMBER, "kind", "first.epoch", F.col("epoch").alias("last_epoch"), "first.from_offset", "to_offset",
                "first.from_ms", "to_ms", "held")
    )  # fmt: skip


def held_partitions(members: DataFrame, complete_from: DataFrame) -> DataFrame:
    """One row per partition of each row of `members` (as returned by `merge_unchanged`).

    `acquired`: how the ownership began. `run_from`: the offset since which the records have described it identically.
    `ends_run` and `ends` mark the last row of such a run and of an ownership.
    """
    in_order = Window.partitionBy(*PARTITION, "member_id").orderBy("from_offset")
    begins = ~F.coalesce(F.lag("to_offset").over(in_order) == F.col("from_offset"), F.lit(False))
    ends = ~F.coalesce(F.lead("from_offset").over(in_order) == F.col("to_offset"), F.lit(False))
    begins_run = begins | ~F.lag("since").over(in_order).eqNullSafe(F.col("since"))
    ends_run = ends | ~F.lead("since").over(in_order).eqNullSafe(F.col("since"))
    rows = (
        members.select(*GROUP, "kind", "member_id", "epoch", "last_epoch", "from_offset", "to_offset", "from_ms", "to_ms",
                       F.explode("held").alias("each"))
        .join(F.broadcast(complete_from), list(SHARD), "left")
        .withColumn("begin_is_known", F.col("from_offset") >= F.coalesce("complete_from", F.lit(OPEN)))
        .select(*GROUP, "kind", "each.topic_key", "each.partition", "member_id", "last_epoch", "each.since", "each.pending",
                "from_offset", "to_offset", "from_ms", "to_ms", F.coalesce("each.acquired", _ownership_start()).alias("began"))
    )  # fmt: skip
    return (
        rows.withColumns({"begins": begins, "begins_run": begins_run, "ends": ends, "ends_run": ends_run})
        .withColumn("acquired", F.last(F.when(F.col("begins"), F.col("began")), ignorenulls=True).over(in_order))
        .withColumn(
            "run_from", F.last(F.when(F.col("begins_run"), F.col("from_offset")), ignorenulls=True).over(in_order)
        )
        .drop("began", "begins", "begins_run")
    )


def _ownership_start() -> Column:
    """An ownership that begins with this row. After a gap in the log only the record shows when it really began."""
    return F.struct(
        F.when(F.col("begin_is_known"), F.col("epoch")).otherwise(F.col("each.since")).alias("epoch"),
        F.col("from_offset").alias("from_offset"),
        F.col("from_ms").alias("from_ms"),
        F.col("each.since").alias("recorded"),
        F.col("begin_is_known").alias("begin_is_known"),
    ).cast(ACQUIRED)


def merge_runs(held: DataFrame) -> DataFrame:
    """Merges adjacent rows of `held_partitions` that say the same. This is all that is needed to look up owners."""
    return held.where("ends_run").select(
        *GROUP, "kind", "member_id", "topic_key", "partition", "since", F.col("run_from").alias("from_offset"), "to_offset",
        "to_ms", "last_epoch", "acquired", "ends",
    )  # fmt: skip


def merge_ownerships(runs: DataFrame) -> DataFrame:
    """Merges the rows of `merge_runs` that belong to one ownership."""
    return runs.where("ends").select(
        *PARTITION,
        "kind",
        "member_id",
        "acquired.from_offset",
        "to_offset",
        "acquired.from_ms",
        "to_ms",
        F.col("acquired.epoch").alias("acquired_epoch"),
        "last_epoch",
        F.col("acquired.recorded").alias("recorded_epoch"),
        "acquired.begin_is_known",
    )


def double_owners(ownership: DataFrame) -> DataFrame:
    """One row per ownership that began while another member still owned the partition."""
    in_order = Window.partitionBy(*PARTITION).orderBy("from_offset", F.coalesce("to_offset", F.lit(OPEN)), "member_id")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    until = F.coalesce("to_offset", F.lit(OPEN))
    return (
        ownership.withColumn(
            "other", F.max(F.struct(until.alias("to_offset"), "member_id", "from_offset")).over(before)
        )
        .where((F.col("other.to_offset") > F.col("from_offset")) & (F.col("other.member_id") != F.col("member_id")))
        .withColumn("both_until", F.least(until, "other.to_offset"))
        .select(
            *PARTITION,
            "kind",
            "member_id",
            F.col("other.member_id").alias("other_member_id"),
            F.col("from_offset").alias("offset"),
            F.when(F.col("both_until") < OPEN, F.col("both_until")).alias("until_offset"),
            F.col("from_ms").alias("time_ms"),
        )
    )
