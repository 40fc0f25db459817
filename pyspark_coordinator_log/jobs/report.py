"""The report: one static HTML file per group, and an index if there are several. This module collects what pages.py renders.

A page can be opened from disk, sent by mail and printed: one file that loads nothing, and whose tables need no script. It
answers, from top to bottom: why did the group rebalance, and which client caused it; is anything wrong; when did the group
rebalance, and who owned which partition then; which invariants are broken, and at which log offset; what would another fencing
policy have done; which commits came from zombies; why each rebalance happened and how long it took.

The size of a page is bounded. For a group with many partitions, only those that changed owner are drawn; long lists show the
worst or newest entries and state the full length. The tables have everything.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coordinator.groups.rebalance_causes import TYPES
from pyspark_coordinator_log.jobs import group_data, pages
from pyspark_coordinator_log.jobs.arguments import PARQUET
from pyspark_coordinator_log.jobs.files import write_atomically
from pyspark_coordinator_log.jobs.intervals import GROUP, is_local, materialize
from pyspark_coordinator_log.jobs.tables import Derived, Store
from pyspark_coordinator_log.jobs.vocabulary import UNOWNED, ZOMBIES

GROUPS_MAX = 200
"""Maximum number of group pages: groups with the most broken invariants first, then those with the most rebalances."""
INDEX_MAX = 5_000


def write(
    derived: Derived,
    folder: Path,
    title: str | None,
    step: Callable[[str], None],
    what_ifs: Sequence[group_data.Row] = (),
) -> Iterator[Path]:
    """Writes the pages and yields their paths. If there is only one group, there is no index.

    `what_ifs`: answers of `coordinator groups what-if --json`, which stand on the pages of their groups.
    """
    folder.mkdir(parents=True, exist_ok=True)
    derived.keep = lambda _, frame: materialize(frame)
    spark = derived.source.state.sparkSession
    with TemporaryDirectory(dir=folder, prefix=".verdicts-") as verdicts:
        if is_local(spark):
            derived.judge = Store(spark, verdicts, PARQUET).judge
        yield from _write_all(derived, folder, title, step, what_ifs)


def _write_all(
    derived: Derived,
    folder: Path,
    title: str | None,
    step: Callable[[str], None],
    what_ifs: Sequence[group_data.Row],
) -> Iterator[Path]:
    chosen, count = _choose(derived)
    step(f"{count} groups")
    found = _collect(derived, chosen)
    step("collected")
    heading = title or derived.source.name
    only = len(found) == 1 and count == 1
    for each in found:
        each.what_ifs = [one for one in what_ifs if one["group"] == each.name]
        path = folder / pages.file_name(each.key)
        write_atomically(
            path,
            pages.group_page(
                each, heading, None if only else pages.INDEX, has_events=derived.commit_verdicts is not None
            ),
        )
        yield path
    if not only:
        listed = [row.asDict() for row in _by_interest(derived).limit(INDEX_MAX).collect()]
        totals = None if derived.policy_replay is None else [row.asDict() for row in _totals(derived.policy_replay)]
        gaps = None if derived.event_gaps is None else [row.asDict() for row in derived.event_gaps.collect()]
        write_atomically(
            folder / pages.INDEX, pages.fleet_page(listed, count, {each.key for each in found}, totals, gaps, heading)
        )
        yield folder / pages.INDEX


def _by_interest(derived: Derived) -> DataFrame:
    return derived.groups.orderBy(
        F.desc_nulls_last("broken"), F.desc_nulls_last("rebalances"), F.desc_nulls_last("offset_commits"), *GROUP
    )


def _choose(derived: Derived) -> tuple[list[group_data.Row], int]:
    rows: list[group_data.Row] = [row.asDict() for row in _by_interest(derived).limit(GROUPS_MAX).collect()]
    return rows, derived.groups.count()


def _totals(replay: DataFrame) -> Iterable[Any]:
    sums = [name for name, kind in replay.dtypes if kind in {"bigint", "int"} and name != "shard"]
    return replay.groupBy("replayed").agg(*(F.sum(name).alias(name) for name in sums)).collect()


def _collect(derived: Derived, groups: list[group_data.Row]) -> list[group_data.GroupData]:
    found = {tuple(row[name] for name in GROUP): group_data.GroupData(row) for row in groups}
    if not found:
        return []

    def take(frame: DataFrame, into: str, most: int, *order: Column) -> None:
        best = Window.partitionBy(*GROUP).orderBy(*order)
        rows = frame.where(F.col("group").isin([str(row["group"]) for row in groups]))
        counted = rows.withColumn("of", F.count("*").over(Window.partitionBy(*GROUP)))
        for row in counted.withColumn("place", F.row_number().over(best)).where(F.col("place") <= most).collect():
            one = found.get(tuple(row[name] for name in GROUP))
            if one is not None:
                getattr(one, into).append(row.asDict(recursive=True))
                one.counts[into] = row["of"]

    take(derived.rebalances, "rebalances", group_data.REBALANCES_MAX, F.desc("time_ms"))
    take(
        _partitions_to_draw(derived.ownership_intervals),
        "ownership",
        group_data.INTERVALS_MAX,
        F.desc("from_offset"),
    )
    take(derived.invariants_broken, "broken", group_data.BROKEN_MAX, F.col("offset"))
    members = derived.member_intervals.groupBy(*GROUP, "member_id").agg(
        F.max_by("client_id", "from_offset").alias("client_id"),
        F.max_by("client_host", "from_offset").alias("client_host"),
        F.max_by("instance_id", "from_offset").alias("instance_id"),
        F.min("epoch").alias("first_epoch"),
        F.max("epoch").alias("last_epoch"),
        F.min("from_ms").alias("from_ms"),
        F.max_by("to_ms", "from_offset").alias("to_ms"),
    )
    take(members, "members", group_data.MEMBERS_NAMED_MAX, F.desc("from_ms"))
    if derived.commit_verdicts is not None and derived.policy_replay is not None:
        seen = derived.commit_verdicts.where(F.col("truth").isin(*ZOMBIES, UNOWNED))
        take(seen, "marks", group_data.MARKS_MAX, F.col("outcome"), F.desc("offset"))
        take(derived.policy_replay, "policies", len(GROUP) * 8, F.col("replayed"))
        tallies = seen.groupBy(*GROUP, "truth", "outcome").count()
        for row in tallies.collect():
            one = found.get(tuple(row[name] for name in GROUP))
            if one is not None:
                one.tallies[row["truth"], row["outcome"]] = row["count"]
    if derived.source.events is not None:
        take(derived.source.events.where(F.col("type").isin(*TYPES)), "events", group_data.EVENTS_MAX, F.desc("offset"))
    if derived.source.openings is not None:
        for opening in derived.source.openings:
            for one in found.values():
                if one.key[:2] == (opening["log_id"], opening["shard"]):
                    one.openings.append(dict(opening))
    if derived.event_gaps is not None:
        for gap in derived.event_gaps.collect():
            for one in found.values():
                if one.key[:2] == (gap["log_id"], gap["shard"]):
                    one.gaps.append(gap.asDict())
    return list(found.values())


def _partitions_to_draw(ownership: DataFrame) -> DataFrame:
    """All partitions of a small group; for a large one, those that changed owner.

    Adds `partitions` (number of partitions in the group), `owners` and `moving` (number that changed owner).
    """
    by_partition = ownership.groupBy(*GROUP, "topic_key", "partition").agg(
        F.count_distinct("member_id").alias("owners")
    )
    whole = by_partition.groupBy(*GROUP).agg(
        F.count("*").alias("partitions"), F.count_if(F.col("owners") > 1).alias("moving")
    )
    shown = by_partition.join(whole, list(GROUP)).where(
        (F.col("partitions") <= pages.PARTITIONS_MAX) | (F.col("owners") > 1)
    )
    return ownership.join(shown, [*GROUP, "topic_key", "partition"])
