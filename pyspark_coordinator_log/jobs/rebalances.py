"""The epochs and generations of a group: when they began, why, how long they took, and which member was slowest.

The state log has a record for every group epoch (consumer groups) and every generation (classic groups), which gives the
list. The event log adds the cause, the member that triggered it and the reason its client gave, the duration, and how long
each member was waited for, and how long because of a setting (`delay_ms`). Without events, the records of a consumer group
still show who joined or left since the previous epoch, and when each member reached the new one. For a classic generation
without events only the membership is known, so cause and duration are null.

An epoch that the next one overtook before every member had reached it is `superseded` and has no duration.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pyspark_coordinator_log.jobs.intervals import CLASSIC_GROUP, GROUP, MEMBER, MEMBER_METADATA, readable
from pyspark_coordinator_log.jobs.vocabulary import CLASSIC, CONSUMER

GROUP_EPOCH = "ConsumerGroupMetadata"
TARGET_EPOCH = "ConsumerGroupTargetAssignmentMetadata"
STREAMS_GROUP_EPOCH = "StreamsGroupMetadata"
STREAMS_TARGET_EPOCH = "StreamsGroupTargetAssignmentMetadata"
STARTED, COMPLETED, OVERTAKEN = "RebalanceStarted", "RebalanceCompleted", "RebalanceOvertaken"
_NO_TIME = -1


def epochs(state: DataFrame) -> DataFrame:
    """One row per group epoch and per generation, in log order."""
    return _consumer_epochs(state).unionByName(_classic_generations(state))


def _consumer_epochs(state: DataFrame) -> DataFrame:
    """`members`: the number of members when the epoch began. `change`: the last membership change since the previous epoch."""
    by_member = Window.partitionBy(*MEMBER).orderBy("offset")
    by_group = Window.partitionBy(*GROUP).orderBy("offset")
    memberships = (
        readable(state)
        .where(F.col("type") == MEMBER_METADATA)
        .select(*MEMBER, "offset", "tombstone")
        .withColumn("was_there", F.coalesce(~F.lag("tombstone").over(by_member), F.lit(False)))
        .where(~F.col("tombstone") | F.col("was_there"))
        .withColumn("by", (~F.col("tombstone")).cast("int") - F.col("was_there").cast("int"))
        .select(
            *GROUP,
            "offset",
            "by",
            F.struct(
                F.when(F.col("by") > 0, "member joined")
                .when(F.col("by") < 0, "member left")
                .otherwise("member changed")
                .alias("what"),
                "member_id",
                "offset",
            ).alias("change"),
        )
    )
    steps = (
        readable(state)
        .where(F.col("type").isin(GROUP_EPOCH, TARGET_EPOCH))
        .select(
            *GROUP, "offset", "type", "tombstone", "timestamp_ms", F.coalesce("target_epoch", "epoch").alias("epoch")
        )
    )
    rows = steps.withColumns({"by": F.lit(0), "change": F.lit(None).cast(memberships.schema["change"].dataType)})
    is_epoch = F.col("type") == GROUP_EPOCH
    walked = (
        rows.unionByName(memberships, allowMissingColumns=True)
        .withColumn("members", F.sum("by").over(by_group))
        .withColumn("change", F.last("change", ignorenulls=True).over(by_group))
        .where(F.col("type").isNotNull())
        .withColumn("previous", F.last(F.when(is_epoch, F.struct("epoch", "offset")), True).over(
            by_group.rowsBetween(Window.unboundedPreceding, -1)))
    )  # fmt: skip
    # A target assignment names its epoch, so epochs and targets are joined by number, not by position.
    targets = (
        walked.where((F.col("type") == TARGET_EPOCH) & ~F.col("tombstone"))
        .groupBy(*GROUP, "epoch")
        .agg(F.min("offset").alias("target_offset"), F.min("timestamp_ms").alias("target_ms"))
    )
    return (
        walked.where(is_epoch)
        .withColumn("next_offset", F.lead("offset").over(by_group))
        .withColumn("next_ms", F.lead("timestamp_ms").over(by_group))
        .where(~F.col("tombstone"))
        .where(F.col("previous").isNull() | F.col("previous.epoch").isNull() | (F.col("previous.epoch") != F.col("epoch")))
        .withColumn("change", F.when(F.col("change.offset") > F.coalesce("previous.offset", F.lit(-1)), F.col("change")))
        .join(targets, [*GROUP, "epoch"], "left")
        .select(*GROUP, F.lit(CONSUMER).alias("kind"), "epoch", "offset", F.col("timestamp_ms").alias("time_ms"),
                "next_offset", "next_ms", F.col("members").cast("int").alias("members"), "target_offset", "target_ms",
                F.lit(None).cast("string").alias("leader"), F.lit(None).cast("string").alias("protocol"),
                F.lit(None).cast("string").alias("protocol_type"),
                F.col("change.what").alias("change"), F.col("change.member_id").alias("changed_member_id"))
    )  # fmt: skip


def _classic_generations(state: DataFrame) -> DataFrame:
    """A record that repeats the previous generation (a static member replaced, an offset stored) starts no new one."""
    by_group = Window.partitionBy(*GROUP).orderBy("offset")
    return (
        readable(state)
        .where(F.col("type") == CLASSIC_GROUP)
        .select(*GROUP, "offset", "timestamp_ms", "tombstone", "generation", "leader", "protocol", "protocol_type",
                F.size("members").alias("members"))
        .withColumn("previous", F.lag("generation").over(by_group))
        .withColumn("begins", F.col("tombstone") | F.col("previous").isNull() | (F.col("previous") != F.col("generation")))
        .where("begins")
        .withColumn("next_offset", F.lead("offset").over(by_group))
        .withColumn("next_ms", F.lead("timestamp_ms").over(by_group))
        .where(~F.col("tombstone") & (F.col("generation") > 0))
        .select(*GROUP, F.lit(CLASSIC).alias("kind"), F.col("generation").alias("epoch"), "offset",
                F.col("timestamp_ms").alias("time_ms"), "next_offset", "next_ms", F.col("members").cast("int").alias("members"),
                F.col("offset").alias("target_offset"), F.col("timestamp_ms").alias("target_ms"),
                "leader", "protocol", "protocol_type", F.lit(None).cast("string").alias("change"),
                F.lit(None).cast("string").alias("changed_member_id"))
    )  # fmt: skip


def rebalances(epoch_rows: DataFrame, members: DataFrame, events: DataFrame | None) -> DataFrame:
    """One row per epoch or generation, and per rebalance that has events but no record.

    `duration_ms` and `slowest_member` come from the event if there is one, else from the members' records.
    """
    from_state = _from_state(epoch_rows, members)
    if events is None:
        return _columns(from_state.withColumns({name: F.lit(None).cast(kind) for name, kind in _EVENT_COLUMNS.items()}))
    reported = _from_events(events)
    return _columns(from_state.join(reported, [*GROUP, "kind", "epoch"], "full_outer"))


_EVENT_COLUMNS = {
    "event_cause": "string", "event_member_id": "string", "event_reason": "string", "started_ms": "bigint",
    "completed_ms": "bigint", "event_duration_ms": "bigint", "event_members": "int", "is_completed": "boolean",
    "is_overtaken": "boolean", "delay_ms": "bigint",
    "waited_for": "array<struct<member_id: string, waited_ms: bigint>>", "event_offset": "bigint",
}  # fmt: skip


def _from_state(epoch_rows: DataFrame, members: DataFrame) -> DataFrame:
    """When the members of a consumer group reached each epoch, if they did so before the next one began."""
    arrivals = (
        members.where((F.col("kind") == CONSUMER) & (F.col("state") == "STABLE"))
        .groupBy(*MEMBER, "epoch")
        .agg(F.min("from_offset").alias("at_offset"), F.min("from_ms").alias("at_ms"))
    )
    arrived = (
        epoch_rows.where(F.col("kind") == CONSUMER)
        .select(*GROUP, "epoch", "offset", "next_offset")
        .join(arrivals, [*GROUP, "epoch"])
        .where((F.col("at_offset") > F.col("offset"))
               & (F.col("next_offset").isNull() | (F.col("at_offset") < F.col("next_offset"))))
        .groupBy(*GROUP, "epoch", "offset")
        .agg(F.count("*").alias("arrived"), F.max("at_ms").alias("arrived_ms"),
             F.max_by("member_id", F.struct("at_ms", "at_offset")).alias("last_member"))
    )  # fmt: skip
    return epoch_rows.join(arrived, [*GROUP, "epoch", "offset"], "left")


def _from_events(events: DataFrame) -> DataFrame:
    """Start and end of each rebalance, by the epoch it leads to. A rebalance may have several start events."""
    rows = readable(events).where(F.col("type").isin(STARTED, COMPLETED, OVERTAKEN))
    is_end, is_start = F.col("type").isin(COMPLETED, OVERTAKEN), F.col("type") == STARTED
    return rows.groupBy(*GROUP, F.col("group_kind").alias("kind"), "epoch").agg(
        F.min_by("cause", F.when(is_start, F.col("offset"))).alias("started_cause"),
        F.min_by("member_id", F.when(is_start, F.col("offset"))).alias("started_by"),
        F.min_by("reason", F.when(is_start, F.col("offset"))).alias("event_reason"),
        F.min(F.when(is_start, F.col("time_ms"))).alias("started_ms"),
        F.max(F.when(is_end, F.col("time_ms"))).alias("completed_ms"),
        F.max_by("cause", F.when(is_end, F.col("offset"))).alias("ended_cause"),
        F.max_by("member_id", F.when(is_end, F.col("offset"))).alias("ended_by"),
        F.max_by("duration_ms", F.when(is_end, F.col("offset"))).alias("event_duration_ms"),
        F.max_by("member_count", F.when(is_end, F.col("offset"))).alias("event_members"),
        F.max_by("waited_for", F.when(is_end, F.col("offset"))).alias("waited_for"),
        F.max_by("delay_ms", F.when(is_end, F.col("offset"))).alias("delay_ms"),
        F.bool_or(F.col("type") == COMPLETED).alias("is_completed"),
        F.bool_or(F.col("type") == OVERTAKEN).alias("is_overtaken"),
        F.min("offset").alias("event_offset"),
    ).select(
        *GROUP, "kind", "epoch", F.coalesce("started_cause", "ended_cause").alias("event_cause"),
        F.coalesce("started_by", "ended_by").alias("event_member_id"), "event_reason", "started_ms", "completed_ms",
        "event_duration_ms", "event_members", "is_completed", "is_overtaken", "delay_ms", "waited_for", "event_offset",
    )  # fmt: skip


def _columns(rows: DataFrame) -> DataFrame:
    all_arrived = F.col("arrived") == F.col("members")
    is_reported = F.coalesce("is_completed", F.lit(False))
    cause = F.when(F.length("event_cause") > 0, F.col("event_cause"))
    event_ms = F.when(F.col("event_duration_ms") > _NO_TIME, F.col("event_duration_ms"))
    state_ms = F.when(all_arrived, F.col("arrived_ms") - F.col("time_ms"))
    waited = F.filter("waited_for", lambda each: each["waited_ms"] > 0)
    slowest = F.array_max(F.transform(waited, lambda each: F.struct(each["waited_ms"], each["member_id"])))
    completed = is_reported | F.coalesce(all_arrived, F.lit(False)) | (
        (F.col("kind") == CLASSIC) & F.col("offset").isNotNull() & F.col("is_completed").isNull()
    )  # fmt: skip
    return rows.withColumn("slowest", slowest).select(
        *GROUP,
        "kind",
        "epoch",
        "offset",
        "event_offset",
        F.coalesce("started_ms", "time_ms", "completed_ms").alias("time_ms"),
        F.coalesce("members", "event_members").alias("members"),
        F.coalesce(cause, "change").alias("cause"),
        F.when(cause.isNotNull(), F.col("event_member_id"))
        .otherwise(F.col("changed_member_id"))
        .alias("cause_member_id"),
        F.col("event_reason").alias("reason"),
        F.when(cause.isNotNull(), "event").when(F.col("change").isNotNull(), "state").alias("cause_from"),
        F.coalesce(event_ms, state_ms).alias("duration_ms"),
        F.when(F.size("waited_for") > 0, F.col("slowest.member_id"))
        .when(all_arrived, F.col("last_member"))
        .alias("slowest_member_id"),
        F.when(F.size("waited_for") > 0, F.col("slowest.waited_ms")).when(all_arrived, state_ms).alias("slowest_ms"),
        "delay_ms",
        "waited_for",
        completed.alias("completed"),
        (~completed & (F.col("next_offset").isNotNull() | F.coalesce("is_overtaken", F.lit(False)))).alias(
            "superseded"
        ),
        "leader",
        "protocol",
        "target_offset",
        "target_ms",
        "next_offset",
    )
