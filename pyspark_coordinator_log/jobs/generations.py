"""Generations of classic groups that were given out twice.

A number belongs to one generation: one leader, one protocol and one list of members. A member that slept while its number was
given to others could commit with it, and no fence would see that. The log shows it where this server wrote the forming
generation (ClassicGroupGeneration), or where a group's record repeats a number: a Kafka that took the log over after a crash
may have done that, because it knows no forming generations.

A static member is the same member under each of its member ids. When an administrator evicts a member, the record is written
again without it, with a ClassicGroupForcedRebalance behind it: from there on the generation has fewer members. A group that is
deleted, or converted to another kind, starts again from its first generation. Compaction may have removed the record that shows
this, so records before `complete_from` are not compared.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pyspark_coordinator_log.jobs.intervals import (
    CLASSIC_GROUP,
    FORCED_REBALANCE,
    FORMING_GENERATION,
    GROUP,
    SHARD,
    readable,
)


def repeated_generations(state: DataFrame, complete_from: DataFrame) -> DataFrame:
    """One row per record whose content differs from that of the first record with the number of its generation, or of the
    last one that an eviction wrote.

    `complete_from`: (log_id, shard, complete_from).
    """
    in_order = Window.partitionBy(*GROUP).orderBy("offset")
    number = (*GROUP, "life", "generation")
    same_number = Window.partitionBy(*number).orderBy("offset")
    since_eviction = Window.partitionBy(*number, "evictions").orderBy("offset")
    is_forced = (F.lead("type").over(in_order) == FORCED_REBALANCE) & ~F.lead("tombstone").over(in_order)
    adds_nothing = F.size(F.array_except("members", F.lag("members").over(same_number))) == 0
    evicts = F.coalesce(F.col("is_forced") & adds_nothing, F.lit(False))
    ends = (F.col("type") == CLASSIC_GROUP) & F.col("tombstone")
    return (
        readable(state)
        .where(F.col("type").isin(CLASSIC_GROUP, FORMING_GENERATION, FORCED_REBALANCE))
        .select(*GROUP, "type", "offset", "timestamp_ms", "tombstone", "generation", "leader", "protocol", "members")
        .withColumns({"life": F.sum(ends.cast("int")).over(in_order), "is_forced": is_forced})
        .where((F.col("type") != FORCED_REBALANCE) & ~F.col("tombstone") & (F.col("generation") > 0))
        .join(F.broadcast(complete_from.select(*SHARD, "complete_from")), list(SHARD), "left")
        .where(F.col("offset") >= F.coalesce("complete_from", F.lit(0)))
        .withColumn("evictions", F.sum(evicts.cast("int")).over(same_number))
        .withColumn("content", _content())
        .withColumn("first", F.first(F.struct("offset", "content")).over(since_eviction))
        .where(F.col("content") != F.col("first.content"))
        .select(*GROUP, "offset", "timestamp_ms", "generation", "content", "first")
    )


def _content() -> Column:
    """Leader, protocol and members as text. A static member is named by its instance id."""
    names = F.array_sort(F.transform("members", lambda each: F.coalesce(each["instance_id"], each["member_id"])))
    leads = F.filter("members", lambda each: each["member_id"] == F.col("leader"))
    leader = F.get(F.transform(leads, lambda each: F.coalesce(each["instance_id"], each["member_id"])), 0)
    return F.format_string(
        "leader %s, %s, members %s", F.coalesce(leader, F.lit("none")), F.coalesce("protocol", F.lit("no protocol")),
        F.concat_ws(" ", names),
    )  # fmt: skip
