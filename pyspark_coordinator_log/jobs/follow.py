"""Follows a log: keeps an archive of it, and the tables that can be written before it ends.

    OUT/archive/history, commits, markers,   every record, as rows of the views, for `--archive`
                share_state
    OUT/tables/commit_verdicts               as from the whole history
    OUT/tables/member_intervals              as from the whole history, written when an interval ends
    OUT/tables/ownership_intervals           likewise
    OUT/tables/invariants_broken             written when found; `until_offset` is null if the violation had not ended yet
    OUT/live                                 state of earlier batches that the next one needs
    OUT/checkpoints                          Spark's own
    OUT/journal                              with --journal: the copy that is followed (operations/journal_mirror.py)

A compacted log forgets; the archive does not. Tables that need more than a batch (rebalances, transactions, deliveries) are
therefore made from the archive by the other jobs, on demand.

*Exactly once.* Everything a batch writes is a folder named after the batch number. It gets that name when complete, and
replaces an existing folder. Spark numbers a batch and fixes its content before running it, so a batch that died runs again
with the same rows and the same snapshot and writes the same folders. Nothing is ever appended to. Before a batch writes, older
ones are compacted and the oldest deleted (batch_folders.py). What is deleted of the history leaves the last record of each
key, as the compaction of the log itself does, so that later commits are still judged by the members of that time.

*What a batch knows.* State and events arrive together (the view `history`), and no event arrives before the state it was
decided on. State, however, may be any number of batches ahead of events. So a snapshot contains, per shard, how far the
events have come (`settled_from`: no later event was decided on an earlier state), the last row of each key before that
offset, and all rows from there on. For those first rows it also records how the ownership of each partition began, because
the rows that would show it are dropped. The size of a snapshot is the live state plus the stretch by which events lag; in a
shard without events nothing lags.
"""

import json
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_coordinator_log import columns
from pyspark_coordinator_log.folders import STATE_TOPIC, open_folder
from pyspark_coordinator_log.jobs import intervals, invariants, tables, verdicts
from pyspark_coordinator_log.jobs.arguments import local_folder
from pyspark_coordinator_log.jobs.batch_folders import COMPACT_EVERY, BatchFolders
from pyspark_coordinator_log.jobs.files import write_atomically
from pyspark_coordinator_log.jobs.intervals import (
    CLASSIC_GROUP,
    CURRENT_ASSIGNMENT,
    FORCED_REBALANCE,
    FORMING_GENERATION,
    GROUP,
    HELD,
    MEMBER,
    MEMBER_METADATA,
    SHARD,
    STREAMS_ASSIGNMENT,
    STREAMS_METADATA,
    materialize,
    readable,
)
from pyspark_coordinator_log.jobs.judging import SCHEMA
from pyspark_coordinator_log.jobs.open_tables import Moved, OpenTable, open_table, rows_by_day
from pyspark_coordinator_log.jobs.rebalances import GROUP_EPOCH, STREAMS_GROUP_EPOCH, STREAMS_TARGET_EPOCH, TARGET_EPOCH
from pyspark_coordinator_log.jobs.sources import (
    ARCHIVE_NOTE,
    COMPLETE_FROM,
    complete_from,
    event_folder,
    packets_of,
    share_state_folder,
)
from pyspark_coordinator_log.source import FORMAT, DefaultSource

LIVE_TYPES = (
    CURRENT_ASSIGNMENT, MEMBER_METADATA, CLASSIC_GROUP, FORMING_GENERATION, FORCED_REBALANCE, GROUP_EPOCH, TARGET_EPOCH,
    STREAMS_ASSIGNMENT, STREAMS_METADATA, STREAMS_GROUP_EPOCH, STREAMS_TARGET_EPOCH,
)  # fmt: skip
"""Types of state records that a later batch may need."""
MARKERS = "markers"
SNAPSHOTS_KEPT = 2
TRIES = 4
"""How many times a batch is tried. On a slow machine Spark's Python workers do not always start within its ten seconds."""
_DAY_S = 86_400
NO_EVENTS = "The log has no events, so there will be no verdicts"
_SHARDS = "shards.json"
_OWNERSHIP_STARTS = f"log_id string, shard int, `group` string, member_id string, from_offset bigint, held {HELD}"
Step = Callable[[str], None]
Check = Callable[[], None]
"""Raises JournalFailed if the log cannot grow any more."""
Batch = Callable[[DataFrame, int], None]
"""Processes the rows of a batch, given its number."""


class FollowFailed(Exception):
    """A Spark query ended with an error."""


def follow(
    spark: SparkSession,
    options: Any,
    read_options: Mapping[str, str],
    step: Step,
    check: Check = lambda: None,
) -> None:
    """Follows a log until SIGTERM or SIGINT; with `options.once`, up to its current end. Raises FollowFailed, JournalFailed."""
    out = local_folder(options.out)
    assert out is not None
    source = _Source(spark, options, read_options)
    if not source.has_events:
        step(NO_EVENTS)
    retain_s = None if options.retain is None else options.retain * _DAY_S
    archive = Archive(out, source)
    (out / "tables").mkdir(parents=True, exist_ok=True)
    write_atomically(out / "tables" / tables.CONTRACT, tables.contract(options.format))
    history = History(spark, out, archive, options, step, retain_s)
    batches: list[tuple[str, Callable[[], DataFrame], Batch]] = [
        (columns.HISTORY, lambda: source.stream(columns.HISTORY), history.batch),
        (
            columns.COMMITS,
            lambda: source.stream(columns.COMMITS),
            archive.keep(columns.COMMITS, options.group, retain_s),
        ),
        (MARKERS, source.markers, archive.keep(MARKERS, (), None)),
    ]
    if share_state_folder(source.log) is not None:
        share_states = archive.keep(columns.SHARE_STATE, options.group, retain_s)
        batches.append((columns.SHARE_STATE, lambda: source.stream(columns.SHARE_STATE), share_states))
    failures: Counter[tuple[str, int]] = Counter()
    with _stop_signals() as signals:
        while not signals:
            queries: list[StreamingQuery] = []
            try:
                _run(batches, queries, out, options, signals, check)
            except AnalysisException:
                raise
            except (PySparkException, Py4JError) as error:
                name = next((each.name for each in queries if each.exception()), batches[len(queries) - 1][0])
                batch = (name, _last_committed(out, name))
                failures[batch] += 1
                reason, is_final = _reason(error)
                if is_final or failures[batch] == TRIES:
                    raise FollowFailed(reason) from error
                step(f"{name}: {reason}; trying again from the checkpoint ({failures[batch] + 1} of {TRIES})")
            else:
                return
            finally:
                for query in queries:
                    query.stop()


def _run(
    batches: Sequence[tuple[str, Callable[[], DataFrame], Batch]], queries: list[StreamingQuery], out: Path,
    options: Any, signals: list[int], check: Check,
) -> None:  # fmt: skip
    """Starts the queries, which it adds to `queries`, and waits until they are over."""
    for name, stream, batch in batches:
        if signals:
            break
        queries.append(_start(stream(), out, name, options, batch))
        _wait(queries, signals, check, until=_is_over if options.once else _is_under_way)
    _wait(queries, signals, check, until=_is_over)
    if not (options.once or signals):
        raise FollowFailed("the queries stopped unexpectedly")


def _checkpoint(out: Path, name: str) -> Path:
    return out / "checkpoints" / name


def _last_committed(out: Path, name: str) -> int:
    """The last batch that Spark will not repeat; -1 if there is none."""
    committed = (each.name for each in (_checkpoint(out, name) / "commits").glob("*"))
    return max((int(each) for each in committed if each.isdecimal()), default=-1)


def _start(stream: DataFrame, out: Path, name: str, options: Any, batch: Batch) -> StreamingQuery:
    writer = stream.writeStream.queryName(name).option("checkpointLocation", str(_checkpoint(out, name)))
    writer = (
        writer.trigger(availableNow=True)
        if options.once
        else writer.trigger(processingTime=f"{options.interval} seconds")
    )
    return writer.foreachBatch(batch).start()


def _wait(
    queries: list[StreamingQuery], signals: list[int], check: Check, *, until: Callable[[StreamingQuery], bool]
) -> None:
    """Waits until the last query satisfies `until`, a signal arrives, or any query or `check` fails.

    Queries are started one at a time, because each starts Python processes and Spark waits only ten seconds for them.
    """
    while queries and not signals and not until(queries[-1]):
        check()
        for query in queries:
            if query.awaitTermination(1) and query is queries[-1]:
                return


def _is_over(query: StreamingQuery) -> bool:
    return not query.isActive


def _is_under_way(query: StreamingQuery) -> bool:
    return not query.isActive or query.lastProgress is not None


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """Yields a list that receives SIGTERM and SIGINT."""
    signals: list[int] = []

    def stop(number: int, _: object) -> None:
        signals.append(number)

    before = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield signals
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _reason(error: Exception) -> tuple[str, bool]:
    """The relevant line of an error, which Spark wraps in the whole plan, and whether the reader refuses to go on."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if "pyspark_coordinator_log." in line and ": " in line]
    return (said[-1], True) if said else (lines[0], False)


class _Source:
    """The views as streams."""

    def __init__(self, spark: SparkSession, options: Any, read_options: Mapping[str, str]) -> None:
        self.spark = spark
        self.log: str = options.log
        self._read = {**read_options, "maxBytesPerTrigger": options.max_bytes}
        # Spark finds it by name only where it is installed, not in a checkout.
        spark.dataSource.register(DefaultSource)

    def stream(self, view: str) -> DataFrame:
        read = {**self._read, "view": view}
        if view == columns.SHARE_STATE:
            # A share partition is in the shard of its own key, not in that of its group.
            read.pop("shards", None)
        return self.spark.readStream.format(FORMAT).options(**read).load(self.log)

    def markers(self) -> DataFrame:
        """The control records."""
        return self.stream(columns.RAW).where("is_control").drop("key", "value")

    @property
    def has_events(self) -> bool:
        return event_folder(self.log) is not None

    def bounds(self) -> list[tuple[str, int, int]]:
        """The offset from which each shard's state log is complete, as of now."""
        folder = open_folder(self.log, STATE_TOPIC)
        return [(folder.log_id(), shard, complete_from(each)) for shard, each in folder.shards.items()]


class Archive:
    """The archive of all records read, or of those that are retained."""

    def __init__(self, out: Path, source: _Source) -> None:
        self.folder = out / "archive"
        self._source = source
        self._note = self.folder / ARCHIVE_NOTE
        self._bounds: dict[tuple[str, int], int] = {}
        if self._note.is_file():
            stored = json.loads(self._note.read_text())["complete_from"]
            self._bounds = {(log_id, shard): offset for log_id, shard, offset in stored}
        self.refresh({})

    def view(self, name: str) -> BatchFolders:
        return BatchFolders(self.folder / name)

    def keep(self, name: str, groups: tuple[str, ...], retain_s: float | None) -> Batch:
        """Returns a batch function that only archives."""
        batches = self.view(name)

        def batch(frame: DataFrame, number: int) -> None:
            batches.tidy(self._source.spark, number, retain_s)
            batches.write(number, frame.where(F.col("group").isin(*groups)) if groups else frame)

        return batch

    def tidy_history(self, batch: int, retain_s: float | None) -> None:
        """Compacts the history; of old batches only the last state of each key stays."""
        history = self.view(columns.HISTORY)
        history.compact(self._source.spark, batch)
        old = history.expired(batch, retain_s)
        # One folder is what the last deletion has left.
        rows = history.read(self._source.spark, old) if len(old) > 1 else None
        if rows is None:
            return
        ends = rows.where("is_state").groupBy(*SHARD).agg(F.max("offset").alias("last")).collect()
        for each in ends:
            key = (each["log_id"], each["shard"])
            self._bounds[key] = max(self._bounds.get(key, 0), each["last"] + 1)
        # The note first: an archive may be more complete than it says.
        self._write_note()
        history.remove(self._source.spark, old, _last_of_each_key)

    def refresh(self, ends: Mapping[tuple[str, int], int]) -> Mapping[tuple[str, int], int]:
        """Updates and returns the offset from which the archive is complete, given how far each shard was read.

        If compaction has passed the point that was read, it has removed records the archive does not have.
        """
        for log_id, shard, offset in self._source.bounds():
            known = self._bounds.get((log_id, shard))
            if known is None or offset > ends.get((log_id, shard), offset):
                self._bounds[log_id, shard] = max(known or 0, offset)
        self._write_note()
        return self._bounds

    def _write_note(self) -> None:
        bounds = sorted((*key, offset) for key, offset in self._bounds.items())
        note = {
            "has_events": self._source.has_events, "has_markers": True, "complete_from": bounds, "source": self._source.log,
        }  # fmt: skip
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._note, json.dumps(note))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shard:
    """Progress of a shard after a batch, in offsets of its state log."""

    complete_from: int
    first: int
    """First state record of the batch; if it has none, where it would be."""
    end: int
    settled_from: int
    """The batch does not know the complete state before this offset."""
    settled_to: int
    """No later event was decided on an earlier state."""
    has_events: bool

    @classmethod
    def after(cls, before: "_Shard | None", moved: Any | None, complete_from: int) -> "_Shard":
        """`moved`: the batch's row for this shard, if any."""
        end = before.end if before else 0
        events_reach = before.settled_to if before else 0
        has_events = before is not None and before.has_events
        first = end
        if moved is not None:
            first = end if moved["first"] is None else moved["first"]
            end = max(end, moved["end"] or 0)
            events_reach = max(events_reach, moved["events_reach"] or 0)
            has_events = has_events or moved["events_reach"] is not None
        return cls(
            complete_from=complete_from,
            first=first,
            end=end,
            settled_from=before.settled_to if before else 0,
            # In a shard without events there is nothing to wait for.
            settled_to=min(events_reach, end) if has_events else end,
            has_events=has_events,
        )


@dataclass(frozen=True, slots=True)
class OpenBatches:
    """A table in an open format, which has each batch once. The counterpart of BatchFolders."""

    name: str
    table: OpenTable

    def write(self, batch: int, frame: DataFrame) -> None:
        """Adds a batch, unless the table has it already."""
        self._add(batch, lambda new: tables.save(self.name, frame, str(new)), to_arrow_schema(frame.schema))

    def fill(self, batch: int, make: Callable[[Path], None]) -> None:
        """As `write`, for a function that creates the folder, of verdicts."""
        self._add(batch, make, SCHEMA)

    def _add(self, batch: int, make: Callable[[Path], None], schema: pa.Schema) -> None:
        new = self.table.folder.with_name(f".{self.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        make(new)
        if batch > self.table.last_batch:
            self.table.write(rows_by_day(new, schema, is_by_day=True), batch)
        shutil.rmtree(new)

    def tidy(self, _spark: SparkSession, batch: int, retain_s: float | None) -> None:
        """Merges files and removes old days, as often as folders are compacted."""
        if batch and batch % COMPACT_EVERY == 0:
            oldest = None if retain_s is None else datetime.fromtimestamp(time.time() - retain_s, UTC).date()
            self.table.tidy(oldest)


def _batches(name: str, folder: Path, table_format: str) -> BatchFolders | OpenBatches:
    """A table that `follow` writes. Raises FollowFailed if it cannot be continued."""
    table = open_table(table_format, folder)
    if table is None:
        return BatchFolders(folder)
    try:
        table.last_batch  # noqa: B018 - to see whether it can be read
    except Moved as error:
        raise FollowFailed(str(error)) from error
    return OpenBatches(name, table)


def _read_shards(folder: Path) -> dict[tuple[str, int], _Shard]:
    path = folder / _SHARDS
    if not path.is_file():
        return {}
    return {(log_id, shard): _Shard(**fields) for log_id, shard, fields in json.loads(path.read_text())}


def _write_shards(folder: Path, shards: Mapping[tuple[str, int], _Shard]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / _SHARDS, json.dumps([(*key, asdict(each)) for key, each in shards.items()]))


class History:
    """State and events: archives both and writes the tables that can be written immediately."""

    def __init__(
        self, spark: SparkSession, out: Path, archive: Archive, options: Any, step: Step, retain_s: float | None
    ) -> None:
        self._spark = spark
        self._archive = archive
        self._groups: list[str] = options.group
        self._step = step
        self._retain_s = retain_s
        self._shards, self._state, self._ownership_starts = (
            BatchFolders(out / "live" / name) for name in ("shards", "state", "begun")
        )
        self._tables = {
            name: _batches(name, out / "tables" / name, options.format)
            for name in ("commit_verdicts", "member_intervals", "ownership_intervals", "invariants_broken")
        }

    def batch(self, frame: DataFrame, number: int) -> None:
        """Processes one batch; idempotent."""
        if self._groups:
            frame = frame.where(F.col("group").isin(*self._groups) | F.col("group").isNull())
        self._archive.tidy_history(number, self._retain_s)
        for table in self._tables.values():
            table.tidy(self._spark, number, self._retain_s)
        rows = materialize(frame)
        self._archive.view(columns.HISTORY).write(number, rows)
        before = _read_shards(self._shards.path(number - 1))
        moved = self._moved(rows)
        bounds = self._archive.refresh({key: shard.end for key, shard in before.items()})
        now = {
            key: _Shard.after(before.get(key), moved.get(key), bounds.get(key, 0))
            for key in sorted(before.keys() | moved.keys() | bounds.keys())
        }
        self._derive(rows, F.broadcast(self._spark.createDataFrame(
            [(*key, each.complete_from, each.settled_from, each.settled_to, each.first) for key, each in now.items()],
            f"{COMPLETE_FROM}, settled_from bigint, settled_to bigint, first bigint",
        )), number)  # fmt: skip
        # Written last: it marks the batch as complete.
        _write_shards(self._shards.path(number), now)
        for each in (self._shards, self._state, self._ownership_starts):
            each.forget_before(number - SNAPSHOTS_KEPT + 1)
        self._step(f"batch {number}: {sum((each['rows'] for each in moved.values()), 0):,} records")

    def _snapshot(self, kept: BatchFolders, number: int) -> DataFrame | None:
        path = kept.path(number)
        return self._spark.read.parquet(str(path)) if path.is_dir() else None

    @staticmethod
    def _moved(rows: DataFrame) -> dict[tuple[str, int], Any]:
        """Per shard: start and end of the new state, and how far the events have come."""
        is_state = F.col("is_state")
        events_reach = F.greatest(F.col("state_offset"), F.col("state_end_offset"))
        found = rows.groupBy(*SHARD).agg(
            F.count("*").alias("rows"),
            F.min(F.when(is_state, F.col("offset"))).alias("first"),
            F.max(F.when(is_state, F.col("offset") + 1)).alias("end"),
            F.max(F.when(~is_state, events_reach)).alias("events_reach"),
        )
        return {(row["log_id"], row["shard"]): row for row in found.collect()}

    def _derive(self, rows: DataFrame, shards: DataFrame, number: int) -> None:
        spark = self._spark
        live = readable(rows.where(F.col("is_state") & F.col("type").isin(*LIVE_TYPES)))
        carried = self._snapshot(self._state, number - 1)
        names = columns.SCHEMAS[columns.STATE].names
        state = live.select(*names)
        if carried is not None:
            state = state.unionByName(carried.select(*names))
        state = materialize(state)
        starts = self._snapshot(self._ownership_starts, number - 1)
        starts = spark.createDataFrame([], _OWNERSHIP_STARTS) if starts is None else starts
        members = materialize(
            intervals.member_intervals(state)
            .join(starts.withColumnRenamed("held", "held_with_starts"), [*MEMBER, "from_offset"], "left")
            .withColumn("held", F.coalesce("held_with_starts", "held"))
            .drop("held_with_starts")
        )
        whole = shards.select("log_id", "shard", "complete_from")
        first = shards.select("log_id", "shard", "first")
        held = materialize(intervals.held_partitions(members.withColumn("last_epoch", F.col("epoch")), whole))
        runs = materialize(intervals.merge_runs(held))
        owned = intervals.merge_ownerships(runs)
        settled = shards.select("log_id", "shard", "complete_from", "settled_from")
        judging = verdicts.VerdictPass(packets_of(rows.where("not is_state")), members, runs, settled)

        def new(frame: DataFrame, column: str) -> DataFrame:
            """Rows that began or ended with this batch's records."""
            return frame.join(first, list(SHARD)).where(F.col(column) >= F.col("first")).drop("first")

        wrong = invariants.state_rules(state, owned, whole)
        in_events = verdicts.broken_rules(self._judge(judging, number)).unionByName(
            invariants.invalid_assignments(rows.where("not is_state"))
        )
        self._tables["member_intervals"].write(number, new(members, "to_offset"))
        self._tables["ownership_intervals"].write(number, new(owned, "to_offset"))
        self._tables["invariants_broken"].write(number, new(wrong, "offset").unionByName(in_events))
        kept = _kept(state, shards)
        self._state.write(number, kept.select(*names))
        self._ownership_starts.write(number, _first_ownerships(held, members, shards))

    def _judge(self, judging: verdicts.VerdictPass, number: int) -> DataFrame:
        """Writes the verdicts; returns the findings."""
        table = self._tables["commit_verdicts"]
        if not intervals.is_local(self._spark):
            table.write(number, judging.rows())
            return materialize(judging.findings())
        found: list[DataFrame] = []

        def written(new: Path) -> None:
            new.mkdir(parents=True)
            found.append(materialize(judging.findings(new)))

        table.fill(number, written)
        return found[0]


def _kept(state: DataFrame, shards: DataFrame) -> DataFrame:
    """Selects the rows that a later batch needs: the last settled row of each key, and all later rows."""
    key = (*GROUP, "type", "member_id")
    newest_first = Window.partitionBy(*key, "is_settled").orderBy(F.desc("offset"))
    rows = (
        state.join(shards.select("log_id", "shard", "settled_to"), list(SHARD), "left")
        .withColumn("is_settled", F.col("offset") < F.col("settled_to"))
        .withColumn("place", F.row_number().over(newest_first))
    )
    return rows.where(~F.col("is_settled") | ((F.col("place") == 1) & ~F.col("tombstone"))).drop(
        "settled_to", "is_settled", "place"
    )


def _last_of_each_key(history: DataFrame) -> DataFrame:
    """The rows that the compaction of the state log would leave."""
    newest_first = Window.partitionBy(*GROUP, "type", "member_id").orderBy(F.desc("offset"))
    live = readable(history.where(F.col("is_state") & F.col("type").isin(*LIVE_TYPES)))
    rows = live.withColumn("place", F.row_number().over(newest_first))
    return rows.where((F.col("place") == 1) & ~F.col("tombstone")).drop("place")


def _first_ownerships(held: DataFrame, members: DataFrame, shards: DataFrame) -> DataFrame:
    """How the ownerships began, for the rows that will be the first of their member."""
    settled = shards.select("log_id", "shard", "settled_to")
    last_settled = (
        members.join(settled, list(SHARD))
        .where(F.col("from_offset") < F.col("settled_to"))
        .groupBy(*MEMBER)
        .agg(F.max("from_offset").alias("from_offset"))
    )
    items = F.collect_list(F.struct("topic_key", "partition", "since", "pending", F.col("acquired"))).cast(HELD)
    return (
        held.join(last_settled, [*MEMBER, "from_offset"])
        .groupBy(*MEMBER, "from_offset")
        .agg(items.alias("held"))
        .select(*MEMBER, "from_offset", "held")
    )
