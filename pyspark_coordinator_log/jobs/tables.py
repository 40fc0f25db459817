"""The tables: how each is derived, and how they are written.

Each table is a function of the source and of earlier tables, so a table that has been written can be read back instead of
being computed again. The format is Parquet, one folder per table, partitioned by `day` (UTC, when the row began), or an open
table format with the same columns (open_tables.py).

A table is replaced as a whole: the new one is written beside it and renamed when complete, or becomes the next version of a
table in an open format, so a job that dies leaves the previous tables intact.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_coordinator_log.jobs import deliveries, intervals, invariants, rebalances, sources, transactions, verdicts
from pyspark_coordinator_log.jobs.arguments import PARQUET, local_folder
from pyspark_coordinator_log.jobs.files import DAY, DayFiles, write_atomically
from pyspark_coordinator_log.jobs.findings import Sums
from pyspark_coordinator_log.jobs.intervals import GROUP, frame_of, is_local, materialize
from pyspark_coordinator_log.jobs.judging import SCHEMA
from pyspark_coordinator_log.jobs.open_tables import open_table, rows_by_day
from pyspark_coordinator_log.jobs.sources import LogSource


@dataclass(kw_only=True)
class Derived:
    """Everything derived from the source; each frame is computed on first use.

    `keep` stores a frame so that it is not computed again (a table is written and read back), and later steps use the result;
    `keep_arrow` does so with a table that this process has made.
    `judge` writes the verdicts and collects the findings in one pass.
    """

    source: LogSource
    keep: Callable[[str, DataFrame], DataFrame] = field(default=lambda _, frame: frame)
    keep_arrow: Callable[[str, Any], DataFrame] | None = None
    judge: Callable[[verdicts.VerdictPass], tuple[DataFrame, DataFrame]] | None = None

    @cached_property
    def state(self) -> DataFrame:
        """The state log without commits, which make up most of it. It is scanned once."""
        return self.keep("state", self.source.state)

    def since(self, rows: DataFrame, end: str) -> DataFrame:
        """The rows that end within the period of the source. `end`: a column in milliseconds, null: not ended."""
        since_ms = self.source.since_ms
        return rows if since_ms is None else rows.where(F.col(end).isNull() | (F.col(end) >= since_ms))

    @cached_property
    def _members(self) -> DataFrame:
        """The whole history, also from before the period, as the next three."""
        name = "member_intervals" if self.source.since_ms is None else "members"
        return self.keep(name, intervals.member_intervals(self.state))

    @cached_property
    def member_intervals(self) -> DataFrame:
        if self.source.since_ms is None:
            return self._members
        return self.keep("member_intervals", self.since(self._members, "to_ms"))

    @cached_property
    def runs(self) -> DataFrame:
        held = intervals.held_partitions(intervals.merge_unchanged(self._members), self.source.complete_from)
        return self.keep("runs", intervals.merge_runs(held))

    @cached_property
    def _owners(self) -> DataFrame:
        return intervals.merge_ownerships(self.runs)

    @cached_property
    def ownership_intervals(self) -> DataFrame:
        return self.keep("ownership_intervals", self._named(self.since(self._owners, "to_ms")))

    @cached_property
    def _epochs(self) -> DataFrame:
        name = "epochs" if self.source.since_ms is None else "all epochs"
        return self.keep(name, rebalances.epochs(self.state))

    @cached_property
    def epochs(self) -> DataFrame:
        return (
            self._epochs if self.source.since_ms is None else self.keep("epochs", self.since(self._epochs, "time_ms"))
        )

    @cached_property
    def rebalances(self) -> DataFrame:
        made = rebalances.rebalances(self._epochs, self._members, self.source.events)
        return self.keep("rebalances", self.since(made, "time_ms"))

    @cached_property
    def _judged(self) -> tuple[DataFrame, DataFrame] | None:
        """The verdicts, and the findings derived from them."""
        source = self.source
        if source.commits_decided is None:
            return None
        judging = verdicts.VerdictPass(source.commits_decided(), self._members, self.runs, source.complete_from)
        if self.judge is not None:
            return self.judge(judging)
        return self.keep("commit_verdicts", judging.rows()), self.keep("found", judging.findings())

    @cached_property
    def commit_verdicts(self) -> DataFrame | None:
        return None if self._judged is None else self._judged[0]

    @cached_property
    def findings(self) -> DataFrame | None:
        """See findings.FINDINGS."""
        return None if self._judged is None else self._judged[1]

    @cached_property
    def sums(self) -> Sums | None:
        return None if self.findings is None else verdicts.sums(self.findings)

    @cached_property
    def policy_replay(self) -> DataFrame | None:
        return None if self.sums is None else self._kept("policy_replay", self.sums.replay)

    @cached_property
    def offset_commits(self) -> DataFrame:
        return self.keep("offset_commits", transactions.offset_commits(self.source.commits, self.source.markers))

    @cached_property
    def transactions(self) -> DataFrame | None:
        if self.source.markers is None:
            return None
        return self.keep("transactions", transactions.transactions(self.offset_commits))

    @cached_property
    def invariants_broken(self) -> DataFrame:
        source = self.source
        broken = invariants.check_invariants(
            self.state, self._owners, source.complete_from, self.findings, source.events
        )
        if self._share is not None:
            broken = broken.unionByName(deliveries.of_violations(self._share))
        broken = materialize(self.since(broken, "time_ms"))
        # To look for names may mean to read all commits.
        is_about_partitions = broken.where("topic_key is not null").take(1)
        named = self._named(broken) if is_about_partitions else broken.withColumn("topic", F.lit(None).cast("string"))
        return self.keep("invariants_broken", named)

    @cached_property
    def _share(self) -> DataFrame | None:
        """The deliveries of share groups, and the violations that they show."""
        logs = self.source.share_logs
        return None if logs is None else materialize(deliveries.found(logs))

    @cached_property
    def deliveries(self) -> DataFrame | None:
        if not self.source.has_share_logs:
            return None
        if self._share is None:
            return self._kept("deliveries", deliveries.DELIVERIES.empty_table())
        return self.keep("deliveries", self.since(deliveries.of_deliveries(self._share), "settled_ms"))

    @cached_property
    def lag(self) -> DataFrame:
        """The last offset of each partition, and how far it is from the end, where that is known."""
        last = materialize(transactions.last_commits(self.offset_commits))
        ends = sources.END_OFFSETS.empty_table()
        if self.source.end_offsets is not None:
            partitions = last.select("topic", "partition").distinct().collect()
            ends = self.source.end_offsets([(row["topic"], row["partition"]) for row in partitions])
        joined = last.join(F.broadcast(frame_of(last.sparkSession, ends)), ["topic", "partition"], "left")
        return self.keep(
            "lag",
            joined.select(*last.columns, "end_offset", (F.col("end_offset") - F.col("committed_offset")).alias("lag")),
        )

    def _named(self, rows: DataFrame) -> DataFrame:
        """Adds `topic`, the name that belongs to `topic_key`; null if no commit has it."""
        names = self.topics.select("topic_key", F.col("topic").alias("name"))
        # A key of another length is a name.
        known = F.coalesce("name", F.when(F.length("topic_key") != TOPIC_ID_LENGTH, F.col("topic_key")))
        return rows.join(F.broadcast(names), "topic_key", "left").select(*rows.columns, known.alias("topic"))

    @cached_property
    def gaps(self) -> Any:
        """`event_gaps` as an Arrow table."""
        return sources.event_gaps(self.source)

    @cached_property
    def event_gaps(self) -> DataFrame | None:
        return None if self.gaps is None else self._kept("event_gaps", self.gaps)

    def _kept(self, name: str, table: Any) -> DataFrame:
        if self.keep_arrow is not None:
            return self.keep_arrow(name, table)
        return self.keep(name, frame_of(self.source.state.sparkSession, table))

    @cached_property
    def topics(self) -> DataFrame:
        """(topic_key, topic): names of the topics that records identify by id."""
        named = [self.offset_commits.select(F.col("topic_id").alias("topic_key"), "topic")]
        if self.commit_verdicts is not None:
            named.append(self.commit_verdicts.select("topic_key", "topic"))
        rows = named[0] if len(named) == 1 else named[0].unionByName(named[1])
        found = (
            rows.where("topic_key is not null and topic is not null")
            .groupBy("topic_key")
            .agg(F.max("topic").alias("topic"))
        )
        return self.keep("topics", found)

    @cached_property
    def groups(self) -> DataFrame:
        """One row per group, with counts."""
        members = self.member_intervals.groupBy(*GROUP).agg(
            F.max_by("kind", "from_offset").alias("kind"),
            F.count_distinct("member_id").alias("members"),
            F.min("from_ms").alias("first_ms"),
            F.max("from_ms").alias("last_ms"),
        )
        moved = self.rebalances.groupBy(*GROUP).agg(F.count("*").alias("rebalances"))
        offsets = self.offset_commits.groupBy(*GROUP).agg(F.count("*").alias("offset_commits"))
        found = members.join(moved, list(GROUP), "full_outer").join(offsets, list(GROUP), "full_outer")
        wrong = self.invariants_broken.groupBy(*GROUP).agg(F.count("*").alias("broken"))
        return self.keep("groups", found.join(wrong, list(GROUP), "left"))


@dataclass(frozen=True, slots=True)
class Table:
    """A table for users: its name, and the millisecond column that determines `day`."""

    name: str
    time_column: str | None


TABLES = (
    Table("member_intervals", "from_ms"),
    Table("ownership_intervals", "from_ms"),
    Table("epochs", "time_ms"),
    Table("rebalances", "time_ms"),
    Table("commit_verdicts", "time_ms"),
    Table("policy_replay", None),
    Table("offset_commits", "time_ms"),
    Table("lag", "time_ms"),
    Table("transactions", "time_ms"),
    Table("deliveries", "time_ms"),
    Table("invariants_broken", "time_ms"),
    Table("event_gaps", "time_ms"),
    Table("topics", None),
    Table("groups", "first_ms"),
)
"""In the order in which they are written. `commit_verdicts`, `policy_replay` and `event_gaps` need events, `transactions` needs
control records, and `deliveries` the event log; without those the table does not exist.
"""
BY_NAME = {table.name: table for table in TABLES}
VERSION = 2
"""The version of the tables' columns (docs/tables.md). To raise when one is added, removed, or changes its type or meaning."""
CONTRACT = "tables.json"
"""The file beside the tables that has the version."""
TOPIC_ID_LENGTH = 22


def contract(table_format: str) -> str:
    """The text of the file that says which columns the tables have, and in which format they are."""
    return json.dumps({"version": VERSION, "format": table_format, "documentation": "docs/tables.md"}) + "\n"


def format_of(folder: Path) -> str | None:
    """The format of the tables in a folder; None if there are none."""
    try:
        found: str = json.loads((folder / CONTRACT).read_text()).get("format", PARQUET)
    except FileNotFoundError:
        return None
    return found


def save(name: str, frame: DataFrame, path: str) -> None:
    """Writes the Parquet files of a table, by day if it has one."""
    time_column = BY_NAME[name].time_column
    if time_column is None:
        frame.write.mode("overwrite").parquet(path)
    else:
        dated = frame.withColumn(DAY, F.to_date(F.timestamp_millis(time_column)))
        dated.write.mode("overwrite").partitionBy(DAY).parquet(path)


class Store:
    """A folder of tables."""

    def __init__(self, spark: SparkSession, folder: str, table_format: str) -> None:
        self._spark = spark
        local = local_folder(folder)
        self._folder, self._is_remote = str(local or folder), local is None
        self._format = table_format

    def path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def keep(self, name: str, frame: DataFrame) -> DataFrame:
        """Writes a frame that is a table; materializes any other."""
        return self.write(name, frame) if name in BY_NAME else materialize(frame)

    def write(self, name: str, frame: DataFrame) -> DataFrame:
        """Writes a table, replacing the previous one, and returns it as read back."""
        if self._is_remote:
            # Folders cannot be renamed on a remote file system, so this relies on Spark's own commit protocol.
            save(name, frame, self.path(name))
        else:
            with self._replaced(name, to_arrow_schema(frame.schema)) as new:
                save(name, frame, str(new))
        return self.read(name, frame.schema)

    def write_arrow(self, name: str, table: Any) -> DataFrame:
        """As `write`, for a table that this process has made: where it can, it writes the file itself."""
        if self._is_remote or not is_local(self._spark):
            return self.write(name, frame_of(self._spark, table))
        time_column = BY_NAME[name].time_column
        with self._replaced(name, table.schema) as new:
            if time_column is None:
                pq.write_table(table, new / "part-00000.parquet")
            else:
                with DayFiles(new, 0, time_column, table.schema.names) as files:
                    for batch in table.to_batches():
                        files.add(batch)
        return self.read(name, from_arrow_schema(table.schema))

    def judge(self, judging: verdicts.VerdictPass) -> tuple[DataFrame, DataFrame]:
        """Writes the verdicts; returns them and the findings."""
        name = "commit_verdicts"
        if self._is_remote or not is_local(self._spark):
            return self.write(name, judging.rows()), materialize(judging.findings())
        with self._replaced(name, SCHEMA) as new:
            found = materialize(judging.findings(new))
        return self.read(name, from_arrow_schema(SCHEMA)), found

    @contextmanager
    def _replaced(self, name: str, schema: pa.Schema) -> Iterator[Path]:
        """Yields a new folder for a table's files, which then replaces the old one. `schema` is without `day`."""
        path = Path(self.path(name)).absolute()
        new = path.with_name(f".{name}.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        yield new
        if next(new.rglob("*.parquet"), None) is None:
            # An empty folder would not show the columns of its table.
            pq.write_table(schema.empty_table(), new / "none.parquet")
        table = open_table(self._format, path)
        if table is None or not table.exists:
            shutil.rmtree(path, ignore_errors=True)
        if table is None:
            new.rename(path)
        else:
            table.write(rows_by_day(new, schema, is_by_day=BY_NAME[name].time_column is not None))
            shutil.rmtree(new)

    def read(self, name: str, schema: StructType) -> DataFrame:
        """Reads a table; `schema` is without `day`."""
        table = open_table(self._format, Path(self.path(name)))
        if table is None:
            made = self._spark.read.schema(schema).parquet(self.path(name))
        elif files := table.files:
            made = self._spark.read.schema(schema).option("basePath", self.path(name)).parquet(*files)
        else:
            made = self._spark.createDataFrame([], schema)
        return made.drop(DAY)

    def write_contract(self) -> None:
        """Writes the version of the tables beside them."""
        text = contract(self._format)
        if self._is_remote:
            rows = self._spark.createDataFrame([(text,)], "value string")
            rows.coalesce(1).write.mode("overwrite").text(self.path(CONTRACT))
        else:
            write_atomically(Path(self.path(CONTRACT)), text)

    def remove(self, name: str) -> None:
        """Removes a table that this source does not have, so that a previous job's is not mistaken for it."""
        table = open_table(self._format, Path(self.path(name)))
        if table is not None:
            table.remove()
        elif not self._is_remote:
            shutil.rmtree(self.path(name), ignore_errors=True)


def write_tables(derived: Derived, store: Store) -> Iterator[tuple[str, DataFrame | None]]:
    """Writes every table and yields it when done; None for a table that this source does not have."""
    derived.keep, derived.keep_arrow, derived.judge = store.keep, store.write_arrow, store.judge
    for table in TABLES:
        frame = getattr(derived, table.name)
        if frame is None:
            store.remove(table.name)
        yield table.name, frame
