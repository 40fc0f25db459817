"""The outcome of offsets committed in transactions.

Such a commit is in the log immediately but has no effect until the producer's transaction ends. The next control record of
the same producer in the same shard says whether it was committed or aborted. If there is none, the transaction is still
open as far as this log goes, and the offset is pending.

The log is scanned backwards, so that a commit's marker is the last one seen; scanned forwards, each commit would have to
search everything after it.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pyspark_coordinator_log.jobs.intervals import GROUP, SHARD, readable

COMMITTED, ABORTED, PENDING, PLAIN = "committed", "aborted", "pending", "plain"
_COMMIT = 1
PRODUCER = (*SHARD, "producer_id")


def offset_commits(commits: DataFrame, markers: DataFrame | None) -> DataFrame:
    """Every committed offset and tombstone with its outcome: plain (no transaction), committed, aborted, pending.

    `effective_offset`: the log offset at which it took effect; null if it did not.
    """
    rows = readable(commits).select(
        *GROUP, "topic", "topic_id", "partition", "offset", F.col("timestamp_ms").alias("time_ms"), "committed_offset",
        "leader_epoch_committed", "metadata", "commit_timestamp_ms", "expire_timestamp_ms", "value_version",
        F.col("committed_offset").isNull().alias("tombstone"), "producer_id", "producer_epoch", "is_transactional",
    )  # fmt: skip
    if markers is None:
        return rows.withColumns({"outcome": F.lit(None).cast("string"), "effective_offset": F.lit(None).cast("bigint")})
    backwards = Window.partitionBy(*PRODUCER).orderBy(F.desc("offset"))
    plain = rows.where(~F.col("is_transactional")).withColumns(
        {"outcome": F.lit(PLAIN), "effective_offset": F.col("offset")}
    )
    end = F.when(F.col("is_marker"), F.struct("control_type", "offset"))
    transactional = (
        rows.where("is_transactional")
        .withColumn("is_marker", F.lit(False))
        .unionByName(
            markers.select(*PRODUCER, "offset", "control_type").withColumn("is_marker", F.lit(True)),
            allowMissingColumns=True,
        )
        .withColumn("end", F.last(end, ignorenulls=True).over(backwards))
        .where(~F.col("is_marker"))
        .withColumn(
            "outcome",
            F.when(F.col("end").isNull(), PENDING)
            .when(F.col("end.control_type") == _COMMIT, COMMITTED)
            .otherwise(ABORTED),
        )
        .withColumn("effective_offset", F.when(F.col("outcome") == COMMITTED, F.col("end.offset")))
        .select(*plain.columns)
    )
    return plain.unionByName(transactional)


def last_commits(offsets: DataFrame) -> DataFrame:
    """The last offset of each partition that took effect and was not deleted."""
    effect = F.when(F.col("outcome").isNull(), F.col("offset")).otherwise(F.col("effective_offset"))
    fields = ("topic_id", "time_ms", "committed_offset")
    return (
        offsets.where(effect.isNotNull())
        .groupBy(*GROUP, "topic", "partition")
        .agg(F.max_by(F.struct(*fields), F.struct(effect, "offset")).alias("last"))
        .where("last.committed_offset is not null")
        .select(*GROUP, "topic", "partition", *(f"last.{name}" for name in fields))
    )


def transactions(offsets: DataFrame) -> DataFrame:
    """One row per producer, outcome and group: the effect of a transaction on the group's offsets.

    Commits of a producer with the same end marker belong to one transaction.
    """
    return (
        offsets.where(F.col("outcome").isin(COMMITTED, ABORTED, PENDING))
        .groupBy(*GROUP, "producer_id", "producer_epoch", "outcome", "effective_offset")
        .agg(
            F.min("offset").alias("offset"),
            F.max("offset").alias("last_offset"),
            F.min("time_ms").alias("time_ms"),
            F.count("*").alias("commits"),
            F.count_distinct("topic", "partition").alias("partitions"),
        )
    )
