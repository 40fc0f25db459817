"""Every commit that was decided, beside what history says about it.

The event log says who committed what with which epoch, and what was answered. The state log says, independently, what the
member's epoch was at that moment and since when each partition was its. Put together, a commit of a partition is

    safe            the member had the partition in the epoch it commits with, and has had it ever since
    lost            it has it not, or got it again later: what it says may be older than what the next owner said (a zombie)
    ahead           its epoch is not the member's, and not an earlier one either (a zombie)
    not a member    nobody by that id was in the group (a zombie)
    unowned         its epoch is the member's of that moment, and the partition is not: every policy lets it through
    unclaimed       it does not claim to come from a member: a simple consumer, an admin's tool; not judged
    unknown         the log cannot say: a compacted past, an assignment in a protocol that nobody here knows, a classic
                    round that was not written yet

The policies are replayed on the same facts (groups/fencing.py has their words). A request is one decision, since one
partition that fails fails all of it; a policy refuses *rightly* if some partition of the request is a zombie's (or unowned,
where the group's settings look at that), and *wrongly* if none is. What history has is used before what the event tells; where
the state log was compacted only the event is left, and `evidence` says so.

Two look-ups into the past, by windows over intervals and decisions together: the member's row by (group, member), then, one
row per partition, the partition's by (group, member, topic, partition). The second finds its rows where the first left them,
so that all of it moves each decision between executors once.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coordinator.pipeline.intervals import ACQUIRED, CLASSIC, GROUP, MEMBER, OPEN, SHARD, readable

COMMIT_DECIDED = "CommitDecided"
SAFE, LOST, AHEAD, NOT_A_MEMBER, UNOWNED, UNCLAIMED, UNKNOWN = (
    "safe", "lost", "ahead", "not a member", "unowned", "unclaimed", "unknown",
)  # fmt: skip
ZOMBIES = (LOST, AHEAD, NOT_A_MEMBER)
POLICIES = ("strict", "revocation_epoch", "assignment_epoch")
VERDICTS = tuple(f"{name}_accepts" for name in POLICIES)
"""The columns with what each policy says; `told_` before it: what the event said."""
IN_FORCE = "in force"
"""In the place of a policy's name: what was really answered."""
FENCING_ERRORS = (
    "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH", "FENCED_MEMBER_EPOCH", "FENCED_INSTANCE_ID",
    "REBALANCE_IN_PROGRESS", "GROUP_ID_NOT_FOUND", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED",
)  # fmt: skip
"""Who commits is refused. Any other error is about what is committed, and such a commit is not judged."""

_ITEM = (
    "array<struct<topic_key: string, partition: int, since: int, topic: string, committed_offset: bigint, error: string, "
    f"acquired: {ACQUIRED}>>"
)
_REQUEST = (
    "time_ms", "group_kind", "epoch", "member_epoch", "revocation_epoch", "error", "policy", "strict_accepts",
    "revocation_epoch_accepts", "assignment_epoch_accepts", "client_id", "transactional_id", "commit_producer_id",
)  # fmt: skip


def commit_verdicts(events: DataFrame, members: DataFrame, complete_from: DataFrame) -> DataFrame:
    """One row per partition of each CommitDecided event.

    `complete_from` may have a column `settled_from`: what `members` says of the state before that offset is not whole,
    though it says how each ownership began that was left then.
    """
    return judged(with_history(decisions(events), members, complete_from))


def decisions(events: DataFrame) -> DataFrame:
    """The events about commits, with what is needed of them."""
    return (
        readable(events)
        .where(F.col("type") == COMMIT_DECIDED)
        .select(*GROUP, F.coalesce("member_id", F.lit("")).alias("member_id"), "offset", "state_offset", *_REQUEST,
                "partitions")
    )  # fmt: skip


def with_history(requests: DataFrame, members: DataFrame, complete_from: DataFrame) -> DataFrame:
    """A row per partition of each request, with the member (`now`) and the partition (`had`) as the state log has them."""
    in_order = ("position", "is_state", "offset")
    so_far = (Window.unboundedPreceding, Window.currentRow)
    by_member = Window.partitionBy(*MEMBER).orderBy(*in_order).rowsBetween(*so_far)
    by_partition = Window.partitionBy(*MEMBER, "topic_key", "partition").orderBy(*in_order).rowsBetween(*so_far)
    before = by_partition.rowsBetween(Window.unboundedPreceding, -1)
    seen = (F.col("now.to_offset") >= F.col("position")) & ~F.col("is_state")
    rows = (
        _asked(requests)
        .unionByName(_known(members))
        .withColumn("now", F.last("now", ignorenulls=True).over(by_member))
        .withColumn("now", F.when(F.col("is_state") | seen, F.col("now")))
        .select(*MEMBER, *in_order, "now", "from_offset", "request", F.explode("items").alias("each"))
        .select(*MEMBER, *in_order, "now", "from_offset", "request", "each.*")
        .withColumn("previous_to", F.last(F.when(F.col("is_state"), F.col("now.to_offset")), True).over(before))
    )
    begins = F.col("is_state") & ~F.coalesce(F.col("previous_to") == F.col("from_offset"), F.lit(False))
    began = F.struct(F.col("now.epoch").alias("epoch"), "from_offset", F.col("since").alias("recorded"))
    carried = F.struct("acquired.epoch", "acquired.from_offset", "acquired.recorded")
    acquired = F.when(F.col("acquired").isNotNull(), carried).otherwise(began)
    holds = F.struct(F.col("now.to_offset").alias("to_offset"), "since")
    return (
        rows.withColumns(
            {
                "acquired": F.last(F.when(begins, acquired), True).over(by_partition),
                "had": F.last(F.when(F.col("is_state"), holds), True).over(by_partition),
            }
        )
        .where(~F.col("is_state"))
        .withColumn("had", F.when(F.col("had.to_offset") >= F.col("position"), F.col("had")))
        .join(F.broadcast(_settled(complete_from)), list(SHARD), "left")
    )


def _settled(complete_from: DataFrame) -> DataFrame:
    if "settled_from" in complete_from.columns:
        return complete_from
    return complete_from.withColumn("settled_from", F.lit(None).cast("bigint"))


def _asked(requests: DataFrame) -> DataFrame:
    def topic_key(each: Column) -> Column:
        return F.coalesce(F.when(F.col("group_kind") == CLASSIC, each["topic"]), each["topic_id"], each["topic"])

    items = F.transform(
        "partitions",
        lambda each: F.struct(
            topic_key(each).alias("topic_key"),
            each["partition"].alias("partition"),
            each["assignment_epoch"].alias("since"),
            each["topic"].alias("topic"),
            each["committed_offset"].alias("committed_offset"),
            each["error"].alias("error"),
            F.lit(None).cast(ACQUIRED).alias("acquired"),
        ),
    )
    return requests.select(
        *MEMBER,
        F.col("state_offset").alias("position"),
        F.lit(False).alias("is_state"),
        "offset",
        F.lit(None).cast("struct<epoch: int, revocation_epoch: int, to_offset: bigint, holds: boolean>").alias("now"),
        F.lit(None).cast("bigint").alias("from_offset"),
        F.struct(*_REQUEST, F.size("partitions").alias("partitions")).alias("request"),
        items.cast(_ITEM).alias("items"),
    )


def _known(members: DataFrame) -> DataFrame:
    items = F.transform(
        "held",
        lambda each: F.struct(
            each["topic_key"].alias("topic_key"),
            each["partition"].alias("partition"),
            each["since"].alias("since"),
            F.lit(None).cast("string").alias("topic"),
            F.lit(None).cast("bigint").alias("committed_offset"),
            F.lit(None).cast("string").alias("error"),
            each["acquired"].alias("acquired"),
        ),
    )
    now = F.struct(
        "epoch",
        "revocation_epoch",
        F.coalesce("to_offset", F.lit(OPEN)).alias("to_offset"),
        F.col("held").isNotNull().alias("holds"),
    )
    return members.select(
        *MEMBER,
        F.col("from_offset").alias("position"),
        F.lit(True).alias("is_state"),
        F.col("from_offset").alias("offset"),
        now.alias("now"),
        "from_offset",
        F.lit(None).cast(_REQUEST_TYPE).alias("request"),
        items.cast(_ITEM).alias("items"),
    )


_REQUEST_TYPE = (
    "struct<time_ms: bigint, group_kind: string, epoch: int, member_epoch: int, revocation_epoch: int, error: string, "
    "policy: string, strict_accepts: boolean, revocation_epoch_accepts: boolean, assignment_epoch_accepts: boolean, "
    "client_id: string, transactional_id: string, commit_producer_id: bigint, partitions: int>"
)


def judged(rows: DataFrame) -> DataFrame:
    """What `with_history` found, as the table has it."""
    by_state = F.coalesce(F.col("position") >= F.coalesce("settled_from", "complete_from"), F.lit(False))
    whole = F.col("acquired.from_offset") >= F.col("complete_from")
    acquired = F.when(whole, F.col("acquired.epoch")).otherwise(F.col("acquired.recorded"))
    facts = rows.select(
        *GROUP,
        F.col("request.group_kind").alias("kind"),
        "member_id",
        "offset",
        F.col("position").alias("state_offset"),
        "request.time_ms",
        F.col("request.partitions").alias("request_partitions"),
        "topic_key",
        "topic",
        "partition",
        "committed_offset",
        F.col("request.epoch").alias("commit_epoch"),
        F.coalesce("error", "request.error").alias("error"),
        F.col("request.error").alias("request_error"),
        "request.policy",
        F.when(by_state, "state").otherwise("event").alias("evidence"),
        F.when(by_state, F.col("now.epoch")).otherwise(F.col("request.member_epoch")).alias("member_epoch"),
        F.when(by_state, F.col("now.revocation_epoch"))
        .otherwise(F.col("request.revocation_epoch"))
        .alias("revocation_epoch"),
        F.when(by_state, F.col("had").isNotNull()).otherwise(F.col("since").isNotNull()).alias("is_owned"),
        F.when(by_state, F.when(F.col("had").isNotNull(), acquired)).otherwise(F.col("since")).alias("owned_since"),
        F.when(by_state, F.coalesce("had.since", F.when(F.col("had").isNotNull(), acquired)))
        .otherwise(F.col("since"))
        .alias("recorded_since"),
        F.when(by_state, F.coalesce("now.holds", F.lit(True)))
        .otherwise(F.col("request.group_kind") != CLASSIC)
        .alias("ownership_is_known"),
        F.col("request.member_epoch").alias("told_member_epoch"),
        F.col("since").alias("told_since"),
        *(F.col(f"request.{name}").alias(f"told_{name}") for name in VERDICTS),
        "request.client_id",
        "request.transactional_id",
        F.col("request.commit_producer_id").alias("producer_id"),
    )
    return (
        facts.withColumn("truth", _truth())
        .withColumns({name: _verdict(rule) for name, rule in _rules().items()})
        .withColumn("outcome", _outcome())
        .drop("ownership_is_known", "request_error")
    )


def _truth() -> Column:
    """See the module's text."""
    e, now, since = F.col("commit_epoch"), F.col("member_epoch"), F.col("owned_since")
    is_classic = F.col("kind") == CLASSIC
    unwritten_round = is_classic & (e > now) & (e == F.col("told_member_epoch"))
    return (
        F.when(now.isNull() & ((e < 0) | e.isNull()), UNCLAIMED)
        .when(now.isNull() & is_classic & (e == F.col("told_member_epoch")), UNKNOWN)
        .when(now.isNull(), NOT_A_MEMBER)
        .when(unwritten_round, UNKNOWN)
        .when(e > now, AHEAD)
        .when(~F.col("ownership_is_known"), F.when(e < now, LOST).otherwise(UNKNOWN))
        .when(~F.col("is_owned"), F.when(e == now, UNOWNED).otherwise(LOST))
        .when(e == now, SAFE)
        .when(since.isNull(), UNKNOWN)
        .when(since <= e, SAFE)
        .otherwise(LOST)
    )


def _rules() -> dict[str, Column]:
    """What each policy says of one partition. They know of ownership what is written in the member's record."""
    e, now, lost, since = (
        F.col(each) for each in ("commit_epoch", "member_epoch", "revocation_epoch", "recorded_since")
    )
    had_it_then = F.col("is_owned") & (since <= e)
    return {
        "strict_accepts": e == now,
        "revocation_epoch_accepts": (e == now) | ((e < now) & (lost >= 0) & (lost < e) & had_it_then),
        "assignment_epoch_accepts": (e == now) | ((e < now) & had_it_then),
    }


def _verdict(accepts: Column) -> Column:
    """Null where no policy is asked: in classic groups, and of who does not claim to be a member."""
    judged_by_policy = (F.col("kind") != CLASSIC) & (F.col("truth") != UNCLAIMED)
    return F.when(judged_by_policy, F.coalesce(accepts, F.lit(False)))


def _outcome() -> Column:
    """accepted; refused, because of who asked; failed, because of what was asked."""
    is_fenced = F.coalesce("request_error", "error").isin(*FENCING_ERRORS)
    return F.when(F.col("error").isNull(), "accepted").when(is_fenced, "refused").otherwise("failed")


def policy_replay(verdicts: DataFrame) -> DataFrame:
    """A row per group and policy, `in force` among them: requests, and what was refused and let through, rightly or not."""
    requests = requests_of(verdicts).where((F.col("kind") != CLASSIC) & ~F.col("is_unclaimed") & ~F.col("is_failed"))
    names = {**dict(zip(VERDICTS, POLICIES, strict=True)), "in_force": IN_FORCE}
    counts = requests.groupBy(*GROUP, "policy").agg(
        F.count("*").alias("requests"),
        F.count_if("is_unknown").alias("cannot_say"),
        *(each.alias(f"{name}:{what}") for name in names for what, each in _tally(name).items()),
    )
    columns = ["refused", *_tally("in_force")]
    tallies = F.array(
        *(
            F.struct(
                F.lit(shown).alias("replayed"),
                *(F.col(f"{name}:{what}").alias(what) for what in _tally(name)),
            )
            for name, shown in names.items()
        )
    )
    return (
        counts.withColumn("each", F.explode(tallies))
        .select(*GROUP, F.col("policy").alias("policy_in_force"), "requests", "cannot_say", "each.*")
        .withColumn("refused", F.col("refused_rightly") + F.col("refused_wrongly") + F.col("refused_unknown"))
        .select(*GROUP, "policy_in_force", "replayed", "requests", "cannot_say", *columns)
    )


def _tally(name: str) -> dict[str, Column]:
    accepts, zombies = F.col(name), F.col("zombies") > 0
    wrong = zombies | (F.col("unowned") > 0)
    return {
        "refused_rightly": F.count_if(~accepts & wrong),
        "refused_wrongly": F.count_if(~accepts & ~wrong & ~F.col("is_unknown")),
        "refused_unknown": F.count_if(~accepts & ~wrong & F.col("is_unknown")),
        "accepted_zombies": F.count_if(accepts & zombies),
        "accepted_zombie_partitions": F.coalesce(F.sum(F.when(accepts, F.col("zombies"))), F.lit(0)),
        "accepted_unowned": F.count_if(accepts & (F.col("unowned") > 0)),
        "accepted_unowned_partitions": F.coalesce(F.sum(F.when(accepts, F.col("unowned"))), F.lit(0)),
    }


def requests_of(verdicts: DataFrame) -> DataFrame:
    """A row per request. Most are of one partition, and are not grouped."""
    truth, outcome = F.col("truth"), F.col("outcome")
    rows = verdicts.select(
        *GROUP,
        "member_id",
        "offset",
        "time_ms",
        "kind",
        "policy",
        "request_partitions",
        truth.isin(*ZOMBIES).cast("int").alias("zombies"),
        (truth == UNOWNED).cast("int").alias("unowned"),
        (truth == UNKNOWN).alias("is_unknown"),
        (truth == UNCLAIMED).alias("is_unclaimed"),
        (outcome == "failed").alias("is_failed"),
        (outcome == "accepted").alias("in_force"),
        *VERDICTS,
        *(f"told_{name}" for name in VERDICTS),
    )
    # A partition that failed for what it said (its metadata is too long) leaves the others of its request alone.
    alone = rows.where("request_partitions = 1")
    together = (
        rows.where("request_partitions > 1")
        # What is the same in all rows of a request is a key as well: Spark sorts for texts that it is to keep.
        .groupBy(*GROUP, "offset", "member_id", "time_ms", "kind", "policy", "request_partitions")
        .agg(
            F.sum(F.when(~F.col("is_failed"), F.col("zombies")).otherwise(0)).cast("int").alias("zombies"),
            F.sum(F.when(~F.col("is_failed"), F.col("unowned")).otherwise(0)).cast("int").alias("unowned"),
            F.bool_or("is_unknown").alias("is_unknown"),
            F.bool_and("is_unclaimed").alias("is_unclaimed"),
            F.bool_and("is_failed").alias("is_failed"),
            F.bool_and(F.col("in_force") | F.col("is_failed")).alias("in_force"),
            *(F.bool_and(F.col(name) | F.col("is_failed")).alias(name) for name in VERDICTS),
            *(F.first(f"told_{name}").alias(f"told_{name}") for name in VERDICTS),
        )
    )
    return alone.unionByName(together)
