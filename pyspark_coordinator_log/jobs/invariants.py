"""Invariants, checked over the whole history. Each violation names the rule, the log and the offset.

    epoch order        RevocationEpoch < MemberEpoch <= target epoch <= group epoch, at every record that changes one of them
    epoch fell         the RevocationEpoch of a member, or its assignment epoch of a partition, is lower than before
    two owners         a partition was assigned to a member while another member still owned it
    invalid assignment members of a classic group received what their leader assigned against a rule; refused ones do not count
    offset went back   a member committed an earlier offset of a partition that it does not have, so that records come again
    zombie accepted    a commit was accepted from a member that had lost the partition (see verdicts.py)
    generation twice   a generation number of a classic group was given out with another leader, protocol or other members
    since too early    a member's record claims ownership from an earlier epoch than history shows
    `told otherwise`   an event's member epoch or ownership contradicts the state log
    verdict            an event's verdict for a policy differs from the replayed one

The last two cross-check the server: different code writes events and state log, and they must agree.

The first two cover streams groups, too; their records have tasks instead of partitions, so only RevocationEpoch can be seen to
fall. The record of a static member that has left temporarily has no member epoch (-2), so there is nothing to compare. One with
member epoch 0 comes from Kafka or an older version of this server: these wrote it when they replaced a static member, and began
its epochs again.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coordinator.groups.group_history import REWOUND
from pyspark_coordinator_log.jobs import verdicts
from pyspark_coordinator_log.jobs.generations import repeated_generations
from pyspark_coordinator_log.jobs.intervals import (
    CURRENT_ASSIGNMENT,
    GROUP,
    MEMBER_METADATA,
    SHARD,
    STREAMS_ASSIGNMENT,
    STREAMS_METADATA,
    double_owners,
    readable,
)
from pyspark_coordinator_log.jobs.rebalances import GROUP_EPOCH, STREAMS_GROUP_EPOCH, STREAMS_TARGET_EPOCH, TARGET_EPOCH
from pyspark_coordinator_log.jobs.vocabulary import (
    ASSIGNMENT_INVALID,
    CONSUMER,
    EPOCH_FELL,
    EPOCH_ORDER,
    EVENT_LOG,
    GENERATION_TWICE,
    INVALID_ASSIGNMENT,
    OFFSET_WENT_BACK,
    REPORTED,
    SINCE_TOO_EARLY,
    STATE_LOG,
    TWO_OWNERS,
)

_GROUP_EPOCHS, _TARGET_EPOCHS = (GROUP_EPOCH, STREAMS_GROUP_EPOCH), (TARGET_EPOCH, STREAMS_TARGET_EPOCH)
_ASSIGNMENTS, _METADATA = (CURRENT_ASSIGNMENT, STREAMS_ASSIGNMENT), (MEMBER_METADATA, STREAMS_METADATA)


def check_invariants(
    state: DataFrame,
    ownership: DataFrame,
    complete_from: DataFrame,
    findings: DataFrame | None,
    events: DataFrame | None,
) -> DataFrame:
    """Checks all invariants. Without events (`findings` and `events` are None) only those that the state log alone can show.

    `complete_from`: (log_id, shard, complete_from).
    """
    rows = state_rules(state, ownership, complete_from)
    if events is not None:
        rows = rows.unionByName(invalid_assignments(events)).unionByName(offsets_went_back(events))
    return rows if findings is None else rows.unionByName(verdicts.broken_rules(findings))


def state_rules(state: DataFrame, ownership: DataFrame, complete_from: DataFrame) -> DataFrame:
    """Checks the invariants that the state log alone can show."""
    return (
        epoch_order(state)
        .unionByName(epochs_fell(state))
        .unionByName(two_owners(ownership))
        .unionByName(since_too_early(ownership))
        .unionByName(generation_twice(state, complete_from))
    )


def _row(
    rule: str, log: str, detail: Column, *, time_ms: str = "time_ms", member: str | None = "member_id",
    other: str | None = None, partition: bool = False, until: str | None = None,
) -> list[Column]:  # fmt: skip
    def or_null(name: str | None, kind: str) -> Column:
        return F.lit(None).cast(kind) if name is None else F.col(name)

    return [
        F.lit(rule).alias("rule"),
        *(F.col(name) for name in GROUP),
        or_null(member, "string").alias("member_id"),
        or_null(other, "string").alias("other_member_id"),
        or_null("topic_key" if partition else None, "string").alias("topic_key"),
        or_null("partition" if partition else None, "int").alias("partition"),
        F.lit(log).alias("log"),
        F.col("offset"),
        or_null(until, "bigint").alias("until_offset"),
        F.col(time_ms).alias("time_ms"),
        detail.alias("detail"),
    ]


def epoch_order(state: DataFrame) -> DataFrame:
    """Finds records that put the epochs of a consumer or streams group out of order."""
    in_order = Window.partitionBy(*GROUP, "group_kind").orderBy("offset")
    kind, epoch, lost = F.col("type"), F.col("member_epoch"), F.col("revocation_epoch")

    def last_of(names: tuple[str, ...], value: str) -> Column:
        return F.last(F.when(kind.isin(*names), F.struct(F.col(value).alias("epoch"))), ignorenulls=True).over(in_order)

    rows = (
        readable(state)
        .where(kind.isin(*_GROUP_EPOCHS, *_TARGET_EPOCHS, *_ASSIGNMENTS))
        .select(*SHARD, "group", "group_kind", "member_id", "offset", "timestamp_ms", "type", "tombstone", "epoch",
                "member_epoch", "revocation_epoch", F.coalesce("target_epoch", "epoch").alias("target_epoch"))
        .withColumn("group_now", last_of(_GROUP_EPOCHS, "epoch")["epoch"])
        .withColumn("target_now", last_of(_TARGET_EPOCHS, "target_epoch")["epoch"])
        .where(~F.col("tombstone"))
    )  # fmt: skip
    is_member = kind.isin(*_ASSIGNMENTS) & (epoch > 0)
    broken = F.concat_ws(
        "; ",
        F.when(is_member & (lost >= epoch), F.format_string("revocation epoch %d >= member epoch %d", lost, epoch)),
        F.when(
            is_member & (epoch > F.col("target_now")),
            F.format_string("member epoch %d > target's epoch %d", epoch, F.col("target_now")),
        ),
        F.when(
            is_member & (epoch > F.col("group_now")),
            F.format_string("member epoch %d > group epoch %d", epoch, F.col("group_now")),
        ),
        F.when(
            ~kind.isin(*_ASSIGNMENTS) & (F.col("target_now") > F.col("group_now")),
            F.format_string("target's epoch %d > group epoch %d", F.col("target_now"), F.col("group_now")),
        ),
    )
    return rows.where(F.length(broken) > 0).select(*_row(EPOCH_ORDER, STATE_LOG, broken, time_ms="timestamp_ms"))


def epochs_fell(state: DataFrame) -> DataFrame:
    """Finds members whose RevocationEpoch, or assignment epoch of a partition, is lower than in an earlier record."""
    of_same = Window.partitionBy(*_LIFE, "each.topic_key", "each.partition").orderBy("offset")
    now, before, is_assignment = F.col("each.epoch"), F.col("before"), F.col("each.partition").isNotNull()
    detail = F.format_string(
        "%s epoch %d after %d", F.when(is_assignment, "assignment").otherwise("revocation"), now, before
    )
    return (
        _lives(state)
        .select(*_LIFE, "member_id", "offset", "timestamp_ms", "member_epoch", F.explode("epochs").alias("each"))
        .where(is_assignment | now.isNotNull())
        .withColumn("before", F.lag(now).over(of_same))
        .where((before > now) & (~is_assignment | (F.col("member_epoch") > 0)))
        .withColumns({"topic_key": F.col("each.topic_key"), "partition": F.col("each.partition")})
        .select(*_row(EPOCH_FELL, STATE_LOG, detail, time_ms="timestamp_ms", partition=True))
    )


_LIFE = (*GROUP, "group_kind", "place", "life")
"""One member without a break, also under several member ids of one instance id."""
_EPOCHS = "array<struct<topic_key: string, partition: int, epoch: int>>"


def _lives(state: DataFrame) -> DataFrame:
    """The records about members' assignments, by the place in the group that the member has and how often it was left.

    A place is an instance id, else a member id. It is left where the member is removed and no other has it by the next record.
    `epochs`: RevocationEpoch (without topic and partition), and the assignment epochs unless they repeat the previous record's.
    """
    of_member = Window.partitionBy(*GROUP, "group_kind", "member_id").orderBy("offset")
    of_place = Window.partitionBy(*GROUP, "group_kind", "place").orderBy("offset")
    kind, tombstone, held = F.col("type"), F.col("tombstone"), F.col("held")
    joins, assigns = kind.isin(*_METADATA) & ~tombstone, kind.isin(*_ASSIGNMENTS) & ~tombstone
    both = F.coalesce(F.concat("assignment", "pending_revocation"), "assignment")
    instance = F.last(F.when(joins, F.struct("instance_id")), ignorenulls=True).over(of_member)["instance_id"]
    next_joins_at = F.lead(F.when(joins, F.col("offset"))).over(of_place)
    is_left = kind.isin(*_METADATA) & tombstone & ~F.coalesce(next_joins_at == F.col("offset") + 1, F.lit(False))
    begins_again = kind.isin(*_ASSIGNMENTS) & (F.col("member_epoch") == 0)
    carried = F.when(F.col("is_left"), F.array().cast(_EPOCHS)).when(assigns, held)
    held_before = F.last(carried, ignorenulls=True).over(of_place.rowsBetween(*_BEFORE))
    repeats = ~F.col("begins_again") & held_before.eqNullSafe(held)
    revocation = F.array(F.struct(F.lit(None), F.lit(None), "revocation_epoch")).cast(_EPOCHS)
    return (
        readable(state)
        .where(kind.isin(*_ASSIGNMENTS, *_METADATA))
        .select(*GROUP, "group_kind", "member_id", "offset", "timestamp_ms", "type", "tombstone", "member_epoch",
                "revocation_epoch", F.when(assigns, both).alias("held"), instance.alias("instance"))
        .withColumn("place", F.struct(F.col("instance").isNull().alias("is_dynamic"),
                                      F.coalesce("instance", "member_id").alias("id")))
        .withColumns({"is_left": F.coalesce(is_left, F.lit(False)), "begins_again": F.coalesce(begins_again, F.lit(False)),
                      "held": _epochs_of("held")})
        .withColumns({"life": F.count_if(F.col("is_left") | F.col("begins_again")).over(of_place),
                      "repeats": F.coalesce(repeats, F.lit(False))})
        .where(assigns)
        .withColumn("epochs", F.when(F.col("repeats") | held.isNull(), revocation).otherwise(F.concat(held, revocation)))
    )  # fmt: skip


_BEFORE = (Window.unboundedPreceding, -1)


def _epochs_of(assignment: str) -> Column:
    return F.transform(
        assignment,
        lambda each: F.struct(
            F.coalesce(each["topic_id"], each["topic"]).alias("topic_key"), each["partition"], each["epoch"]
        ),
    )


def two_owners(ownership: DataFrame) -> DataFrame:
    """Finds partitions that two members owned at the same time."""
    detail = F.when(F.col("until_offset").isNull(), "to the end of the log").otherwise(
        F.format_string("until offset %d", F.col("until_offset"))
    )
    return double_owners(ownership).select(
        *_row(TWO_OWNERS, STATE_LOG, detail, other="other_member_id", partition=True, until="until_offset")
    )


def since_too_early(ownership: DataFrame) -> DataFrame:
    """Finds assignment epochs earlier than history allows. A later one is legal: a partition may be revoked and reassigned."""
    wrong = F.col("begin_is_known") & (F.col("recorded_epoch") < F.col("acquired_epoch"))
    detail = F.format_string(
        "assignment epoch %d, and it got the partition in %d", F.col("recorded_epoch"), F.col("acquired_epoch")
    )
    return (
        ownership.where((F.col("kind") == CONSUMER) & wrong)
        .withColumn("offset", F.col("from_offset"))
        .select(*_row(SINCE_TOO_EARLY, STATE_LOG, detail, time_ms="from_ms", partition=True))
    )


def generation_twice(state: DataFrame, complete_from: DataFrame) -> DataFrame:
    """Finds generation numbers of classic groups that were given out twice."""
    detail = F.format_string(
        "generation %d: %s; at offset %d: %s", "generation", "content", "first.offset", "first.content"
    )
    return repeated_generations(state, complete_from).select(
        *_row(GENERATION_TWICE, STATE_LOG, detail, time_ms="timestamp_ms", member=None)
    )


def invalid_assignments(events: DataFrame) -> DataFrame:
    """Finds partitions that members received against a rule. An event names some of them, which may be fewer than there are."""
    rows = (
        readable(events)
        .where((F.col("type") == ASSIGNMENT_INVALID) & (F.col("policy") == REPORTED))
        .withColumn("each", F.explode("partitions"))
        .withColumns({"topic_key": F.col("each.topic"), "partition": F.col("each.partition")})
    )
    detail = F.format_string("%s: assigned by the leader in generation %d", F.col("each.error"), F.col("epoch"))
    return rows.select(*_row(INVALID_ASSIGNMENT, EVENT_LOG, detail, partition=True))


def offsets_went_back(events: DataFrame) -> DataFrame:
    """Finds offsets that a member took back although another one has the partition, or none. A member may seek in its own."""
    each = F.col("each")
    rows = (
        readable(events)
        .where((F.col("type") == REWOUND) & (F.col("member_id") != ""))
        .withColumn("each", F.explode("partitions"))
        .where(~each["owner_id"].eqNullSafe(F.col("member_id")))
        .withColumns({"topic_key": each["topic"], "partition": each["partition"], "owner_id": each["owner_id"]})
    )
    detail = F.format_string(
        "%d after %d: %d records come again", each["committed_offset"], each["previous_offset"],
        each["previous_offset"] - each["committed_offset"],
    )  # fmt: skip
    return rows.select(*_row(OFFSET_WENT_BACK, EVENT_LOG, detail, other="owner_id", partition=True))
