"""The sources of the rows, and the views that each can provide.

    a log folder      our state log and event log, or a Kafka broker's state log alone; of a cluster or
                      a journal job.py makes a copy
    an archive        what `follow` has kept of it (follow.py)

A view that a source cannot provide is None, never a substitute. Events whose decisions never took effect (gaps.py) are dropped
here, so that no other module sees them.
"""

import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from coordinator.groups import group_history
from coordinator.log.batch import HEADER_BYTES, key_values, read_header
from pyspark_coordinator_log import columns, messages, planning, positions
from pyspark_coordinator_log.folders import (
    EVENT_TOPIC,
    SHARE_STATE_TOPIC,
    STATE_TOPIC,
    DataFolder,
    NoLog,
    ShardFolder,
    open_folder,
)
from pyspark_coordinator_log.jobs import deliveries, gaps, judging, share_history
from pyspark_coordinator_log.jobs.deliveries import ShareLogs
from pyspark_coordinator_log.jobs.intervals import frame_of, materialize
from pyspark_coordinator_log.jobs.verdicts import ArrowBatches
from pyspark_coordinator_log.jobs.vocabulary import ASSIGNMENT_INVALID, COMMIT_DECIDED
from pyspark_coordinator_log.options import parse
from pyspark_coordinator_log.reading import Range, Reading, read

_PLACE = ("log_id", "shard", "offset", "timestamp_ms")
_COMMON = (
    "type",
    "group",
    "group_kind",
    "member_id",
    "client_id",
    "epoch",
    "member_epoch",
    "revocation_epoch",
    "problem",
)
STATE_COLUMNS = (
    *_PLACE, *_COMMON, "instance_id", "client_host", "tombstone", "previous_member_epoch", "target_epoch", "state",
    "generation", "leader", "protocol", "protocol_type", "assignment", "pending_revocation", "members",
)  # fmt: skip
EVENT_COLUMNS = (
    *_PLACE, *_COMMON, "state_offset", "time_ms", "cause", "reason", "duration_ms", "delay_ms", "member_count",
    "waited_for", "client_host", "instance_id", "timeout", "timeout_ms", "policy", "partitions",
    "client_port", "connection_end", "principal",
)  # fmt: skip
"""Columns of these events; commit events are read where they are judged."""
_IN_GROUPS = tuple(name for name in group_history.TYPES if name not in gaps.ABOUT_ITSELF)
"""The events about members and rebalances."""
COMMIT_COLUMNS = (
    *_PLACE, "group", "topic", "topic_id", "partition", "committed_offset", "leader_epoch_committed", "metadata",
    "commit_timestamp_ms", "expire_timestamp_ms", "value_version", "producer_id", "producer_epoch", "is_transactional",
    "problem",
)  # fmt: skip
MARKER_COLUMNS = ("log_id", "shard", "offset", "producer_id", "producer_epoch", "is_control", "control_type")
_SELDOM_COLUMNS = tuple(dict.fromkeys((*EVENT_COLUMNS, *gaps.OPENING_COLUMNS)))
COMPLETE_FROM = "log_id string, shard int, complete_from bigint"
_PACKET = pa.schema([("log_id", pa.string()), ("shard", pa.int32()), ("packet", pa.binary())])
END_OFFSETS = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("end_offset", pa.int64())])
ARCHIVE_NOTE = "archive.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """The views of a log (columns.py of `pyspark_coordinator_log`), and from where on they are complete.

    `events` is None without an event log, and `markers` (control records) is None if they cannot be read. `complete_from`:
    (log_id, shard, complete_from); before that offset the state log was compacted or deleted.
    """

    name: str
    state: DataFrame
    commits: DataFrame
    events: DataFrame | None
    """At least the events about members, rebalances and invalid assignments."""
    commits_decided: Callable[..., DataFrame] | None
    """The events about commits, as `packets_of` makes them; takes its limits."""
    markers: DataFrame | None
    openings: Sequence[gaps.Row] | None
    """The event log's entries about itself."""
    first_events: Sequence[gaps.FirstEvent] | None
    complete_from: DataFrame
    end_offsets: "EndOffsets | None" = None
    has_share_logs: bool = False
    """Whether deliveries of share groups can be read. None of the records of these logs means that there are none."""
    share_logs: ShareLogs | None = None
    since_ms: int | None = None
    """Rows of the tables end then or later. The state itself begins with the log, so that it is known who was there before."""

    def for_period(self, since_ms: int | None, until_ms: int | None) -> "LogSource":
        """Only what happened in `[since_ms, until_ms)`, in milliseconds since 1970; None: no limit."""
        if since_ms is None and until_ms is None:
            return self

        def of(frame: DataFrame, start_ms: int | None) -> DataFrame:
            return _in_period(frame, start_ms, until_ms)

        return replace(
            self,
            state=of(self.state, None),
            commits=of(self.commits, since_ms),
            events=None if self.events is None else of(self.events, since_ms),
            commits_decided=self._decided(since_ms=since_ms, until_ms=until_ms),
            # What was delivered in the period may have been delivered before it, too.
            share_logs=None if self.share_logs is None else self.share_logs.until(until_ms),
            # The ends are those of today.
            end_offsets=self.end_offsets if until_ms is None else None,
            since_ms=since_ms,
        )

    def for_groups(self, groups: Sequence[str]) -> "LogSource":
        """The rows of these groups; all rows if the list is empty. Gaps and markers belong to no group and stay."""
        if not groups:
            return self

        def of(frame: DataFrame | None) -> Any:
            return None if frame is None else frame.where(F.col("group").isin(*groups))

        decided = self._decided(groups=groups)
        return replace(
            self,
            state=of(self.state),
            commits=of(self.commits),
            events=of(self.events),
            commits_decided=decided,
            share_logs=None if self.share_logs is None else self.share_logs.for_groups(groups),
        )

    def _decided(self, **selected: Any) -> Callable[..., DataFrame] | None:
        return None if self.commits_decided is None else partial(self.commits_decided, **selected)

    def has_group(self, group: str) -> bool:
        """Whether anything in the log is about this group. It reads until it finds something."""
        frames = (self.state, self.commits, self.events)
        return any(frame.where(F.col("group") == group).limit(1).collect() for frame in frames if frame is not None)


def _in_period(rows: DataFrame, since_ms: int | None, until_ms: int | None) -> DataFrame:
    rows = rows if since_ms is None else rows.where(F.col("timestamp_ms") >= since_ms)
    return rows if until_ms is None else rows.where(F.col("timestamp_ms") < until_ms)


def packets_of(
    events: DataFrame, groups: Sequence[str] = (), since_ms: int | None = None, until_ms: int | None = None
) -> DataFrame:
    """The commits among some events, for `verdicts.VerdictPass`. A packet has the rows of one Arrow batch and shard."""
    rows = events.where(F.col("group").isin(*groups)) if groups else events
    rows = _in_period(rows, since_ms, until_ms).where(F.col("type") == COMMIT_DECIDED)
    return rows.select(*judging.EVENTS).mapInArrow(_packets, from_arrow_schema(_PACKET))


def _packets(batches: ArrowBatches) -> ArrowBatches:
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        for each in rows.group_by(list(_PACKET.names[:2])).aggregate([]).to_pylist():
            here = rows.filter((pc.field("log_id") == each["log_id"]) & (pc.field("shard") == each["shard"]))
            yield pa.RecordBatch.from_pylist([{**each, "packet": pickle.dumps(here.to_batches())}], _PACKET)


def _packets_in(
    spark: SparkSession, options: Mapping[str, str], undone: Sequence[gaps.Undone], *,
    groups: Sequence[str] = (), since_ms: int | None = None, until_ms: int | None = None,
) -> DataFrame:  # fmt: skip
    """The commits of a log, for `verdicts.VerdictPass`. A packet says where they are, and each task of the plan is a partition.

    Segments and batches outside of the period are not read.
    """
    given = {"since": since_ms, "until": until_ms, "groups": json.dumps(list(groups)) if groups else None}
    parsed = parse({**options} | {name: str(value) for name, value in given.items() if value is not None})
    tasks, how = planning.tasks(parsed), parsed.reading(judging.EVENTS)
    rows = [
        {"id": number, "log_id": log_id, "shard": shard, "packet": pickle.dumps(_Places(tuple(parts), how, undone))}
        for number, task in enumerate(tasks)
        for (log_id, shard), parts in groupby(task, lambda part: (part.log_id, part.folder.shard))
    ]
    places = frame_of(spark, pa.Table.from_pylist(rows, _PACKET.append(pa.field("id", pa.int64()))))
    return spark.range(0, len(tasks), 1, max(len(tasks), 1)).join(F.broadcast(places), "id").drop("id")


@dataclass(frozen=True, slots=True)
class _Places:
    """Ranges of a log; to iterate reads their events."""

    parts: tuple[Range, ...]
    how: Reading
    undone: Sequence[gaps.Undone]

    def __iter__(self) -> ArrowBatches:
        for part in self.parts:
            for batch in read(part, self.how):
                yield gaps.batch_without_undone(batch, self.undone)


def check_log(path: str) -> None:
    """Raises NoLog unless there is a state log at that path."""
    open_folder(path, STATE_TOPIC)


def log_bytes(path: str) -> int:
    """The size of the state log and the event log there. Raises NoLog."""
    folders = (open_folder(path, STATE_TOPIC), event_folder(path))
    shards = [shard for folder in folders if folder is not None for shard in folder.shards.values()]
    return sum(segment.size_bytes for shard in shards for segment in shard.segments())


def check_archive(path: str) -> None:
    """Raises NoLog unless `follow` wrote there."""
    if not (Path(path) / ARCHIVE_NOTE).is_file():
        raise NoLog(f"{path} is not an archive: it has no {ARCHIVE_NOTE}")


def from_log(spark: SparkSession, path: str, options: dict[str, str], name: str | None = None) -> LogSource:
    """Reads a data folder, or the folder of one shard. `name`: for messages. Raises NoLog before anything is read.

    The options `since` and `until` spare the reading of segments and batches, where that is safe; see `LogSource.for_period`.
    """
    always = {key: value for key, value in options.items() if key not in {"since", "until"}}
    before = {key: value for key, value in options.items() if key != "since"}
    state = open_folder(path, STATE_TOPIC)
    bounds = [(state.log_id(), shard, complete_from(folder)) for shard, folder in state.shards.items()]
    # What the event log says about itself counts for other times, too.
    events = _events(spark, path, always)
    return LogSource(
        name=name or path,
        state=_view(spark, path, columns.STATE, before, STATE_COLUMNS),
        commits=_view(spark, path, columns.COMMITS, options, COMMIT_COLUMNS),
        # A transaction may end after the period.
        markers=_view(spark, path, columns.RAW, always, MARKER_COLUMNS).where("is_control"),
        complete_from=_complete_from_rows(spark, bounds),
        end_offsets=EndOffsets(path),
        **_share_logs(spark, path, always, gaps.undone(events["openings"] or ())),
        **events,
    )


def _events_in(rows: DataFrame | None) -> dict[str, Any]:
    """What `LogSource` has of the rows of an event log; None: there is none."""
    if rows is None:
        return dict.fromkeys(("events", "commits_decided", "openings", "first_events"))
    openings = gaps.openings(rows)
    events = gaps.without_undone(rows, gaps.undone(openings))
    return {
        "events": events,
        "commits_decided": partial(packets_of, events),
        "openings": openings,
        "first_events": gaps.first_events(rows),
    }


@dataclass(frozen=True, slots=True)
class EndOffsets:
    """The ends of topics' partitions, if their logs are in the same data folder."""

    path: str

    def __call__(self, partitions: Sequence[tuple[str, int]]) -> Any:
        """An Arrow table (topic, partition, end_offset) of those partitions that are there."""
        rows = []
        for topic, partition in partitions:
            folder = Path(self.path.removeprefix("file://")) / f"{topic}-{partition}"
            if folder.is_dir():
                shard = ShardFolder(topic, partition, str(folder))
                end = positions.advance(shard, positions.earliest(shard), None, None)
                rows.append({"topic": topic, "partition": partition, "end_offset": end.offset})
        return pa.Table.from_pylist(rows, END_OFFSETS)


def event_folder(path: str) -> DataFolder | None:
    """The event log in a data folder; None if there is none."""
    return _folder(path, EVENT_TOPIC)


def share_state_folder(path: str) -> DataFolder | None:
    """`__share_group_state` in a data folder; None if there is none."""
    return _folder(path, SHARE_STATE_TOPIC)


def _folder(path: str, topic: str) -> DataFolder | None:
    try:
        return open_folder(path, topic)
    except NoLog:
        return None


def complete_from(folder: ShardFolder) -> int:
    """The offset from which a state log is complete: after all compacted or deleted records."""
    noted, segments = folder.server_checkpoint(), folder.segments()
    start = max(segments[0].base_offset if segments else 0, 0 if noted is None else noted.start_offset)
    return max(folder.clean_offset(), start)


def _complete_from_rows(spark: SparkSession, bounds: Sequence[Sequence[Any]]) -> DataFrame:
    """COMPLETE_FROM, as Arrow: rows given as Python objects would go through a Python worker of their own."""
    schema = to_arrow_schema(cast(StructType, StructType.fromDDL(COMPLETE_FROM)))
    rows = [dict(zip(schema.names, each, strict=True)) for each in bounds]
    return frame_of(spark, pa.Table.from_pylist(rows, schema))


def _view(spark: SparkSession, path: str, view: str, options: dict[str, str], names: Sequence[str]) -> DataFrame:
    """A view with only these columns. To create the data source would take longer than to read a small log."""
    parsed = parse({**options, "path": path, "view": view})
    tasks, how = planning.tasks(parsed), parsed.reading(names)
    schema = from_arrow_schema(pa.schema([columns.SCHEMAS[view].field(name) for name in names]))

    def batches(numbers: ArrowBatches) -> ArrowBatches:
        for number in numbers:
            for each in number.column(0).to_pylist():
                for part in tasks[each]:
                    for rows in read(part, how):
                        yield rows if view != columns.STATE else _without_targets(rows)

    return spark.range(0, len(tasks), 1, max(len(tasks), 1)).mapInArrow(batches, schema)


def _without_targets(rows: Any) -> Any:
    """Drops the target assignments of members: up to half of the rows, and no table is derived from them."""
    is_other = pc.invert(pc.ends_with(rows.column("type"), "TargetAssignmentMember"))
    return rows.filter(pc.or_kleene(is_other, pc.is_valid(rows.column("problem"))))


def _events(spark: SparkSession, path: str, options: dict[str, str]) -> dict[str, Any]:
    folder = event_folder(path)
    if folder is None:
        return _events_in(None)
    seldom = {**options, "keyTypes": _types((*gaps.ABOUT_ITSELF, *_IN_GROUPS, ASSIGNMENT_INVALID))}
    # Everything but commits: read once, because the reader has to pass by all commits for it.
    events = materialize(_view(spark, path, columns.EVENTS, seldom, _SELDOM_COLUMNS))
    openings = gaps.openings(events)
    undone = gaps.undone(openings)
    commits = {**options, "path": path, "view": columns.EVENTS, "keyTypes": _types((COMMIT_DECIDED,))}
    return {
        "events": gaps.without_undone(events, undone),
        "commits_decided": partial(_packets_in, spark, commits, undone),
        "openings": openings,
        "first_events": [
            gaps.FirstEvent(folder.log_id(), shard, *first)
            for shard, each in folder.shards.items()
            if (first := _first_event(each))
        ],
    }


def _share_logs(
    spark: SparkSession, path: str, options: dict[str, str], undone: Sequence[gaps.Undone]
) -> dict[str, Any]:
    """What `LogSource` has of share groups. The events are planned first, so that the state is not older than they are."""
    if event_folder(path) is None:
        return {}
    folder = share_state_folder(path)
    shards = [] if folder is None else list(folder.shards.values())
    if not any(segment.size_bytes for shard in shards for segment in shard.segments()):
        return {"has_share_logs": True}
    wanted = {**options, "keyTypes": _types(share_history.TYPES)}
    events = gaps.without_undone(_view(spark, path, columns.EVENTS, wanted, deliveries.EVENT_COLUMNS), undone)
    # A share partition is in the shard of its own key, not in that of its group.
    of_all = {key: value for key, value in options.items() if key != "shards"}
    states = _view(spark, path, columns.SHARE_STATE, of_all, deliveries.STATE_COLUMNS)
    return {"has_share_logs": True, "share_logs": ShareLogs(events=events, states=states, path=path)}


def _types(names: Sequence[str]) -> str:
    """The numbers of record types, as the option `keyTypes` takes them."""
    numbers = {name.removesuffix("Key"): number for number, name in messages.key_names().items()}
    return ",".join(str(numbers[name]) for name in names)


def _first_event(shard: ShardFolder) -> tuple[int, int | None] | None:
    """Offset and state offset of a log's oldest event. Only a log whose beginning was deleted needs to be opened."""
    segments = [segment for segment in shard.segments() if segment.size_bytes]
    if not segments:
        return None
    if segments[0].base_offset == 0:
        return 0, 0
    with Path(segments[0].path).open("rb") as file:
        header = read_header(file.read(HEADER_BYTES))
        file.seek(0)
        batch = file.read(header.size_bytes)
    offset, key, value = key_values(batch, 0, header)[0]
    return offset, messages.row(key, value).get("state_offset")


def from_archive(spark: SparkSession, path: str) -> LogSource:
    """Reads what `follow` kept. Raises NoLog if there is nothing."""
    check_archive(path)
    note = json.loads((Path(path) / ARCHIVE_NOTE).read_text())

    def kept(view: str, folder: str) -> DataFrame:
        # With an explicit schema no file is opened to infer it, and columns a batch lacks are null.
        return spark.read.schema(from_arrow_schema(columns.SCHEMAS[view])).parquet(f"{path}/{folder}")

    history = kept(columns.HISTORY, columns.HISTORY)
    state = history.where("is_state").select(*columns.SCHEMAS[columns.STATE].names)
    events = _events_in(
        history.where("not is_state").select(*columns.SCHEMAS[columns.EVENTS].names) if note["has_events"] else None
    )
    share_logs = None
    if note["has_events"] and (Path(path) / columns.SHARE_STATE).is_dir():
        share_logs = ShareLogs(
            events=events["events"], states=kept(columns.SHARE_STATE, columns.SHARE_STATE), path=None
        )
    return LogSource(
        name=path,
        state=state,
        commits=kept(columns.COMMITS, columns.COMMITS),
        markers=kept(columns.RAW, "markers") if note["has_markers"] else None,
        complete_from=_complete_from_rows(spark, note["complete_from"]),
        has_share_logs=note["has_events"],
        share_logs=share_logs,
        **events,
    )


def event_gaps(source: LogSource) -> Any:
    """Where events are missing, as an Arrow table; None if there is no event log."""
    if source.openings is None or source.first_events is None:
        return None
    return gaps.event_gaps(source.openings, source.first_events)
