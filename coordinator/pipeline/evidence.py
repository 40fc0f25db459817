"""Where the rows come from, and what can be asked of them.

    a log folder      state log and event log, ours; or the state log alone, a Kafka broker's
    a Kafka cluster   its topic `__consumer_offsets` through Spark's Kafka source: no events, no control records
    an archive        what `follow` has kept of either (follow.py)

What a source cannot tell is None here, and nobody puts anything in its place. Events that never came true (gaps.py) are
taken out at this door, so that nobody meets them behind it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from coordinator.log.batch import HEADER_BYTES, key_values, read_header
from coordinator.pipeline import gaps
from coordinator.pipeline.intervals import SHARD
from pyspark_coordinator_log import columns, messages
from pyspark_coordinator_log import kafka as adapter
from pyspark_coordinator_log.folders import EVENT_TOPIC, STATE_TOPIC, DataFolder, NoLog, ShardFolder, open_folder

FORMAT = "coordinator_log"
ABOUT_ITSELF = (1000, 1001)
"""Record types of the event log about the event log."""
FIRST_EVENTS = "log_id string, shard int, first_offset bigint, first_state_offset bigint"
COMPLETE_FROM = "log_id string, shard int, complete_from bigint"
KAFKA_LOG = "kafka"
"""The `log_id` of what came through a consumer, which is not told whose log it is."""
ARCHIVE_NOTE = "archive.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The views of a log (columns.py of `pyspark_coordinator_log`), and where they are whole.

    `events` is None where there is no event log, `markers` (control records) None where they cannot be seen.
    `complete_from`: (log_id, shard, complete_from), before which the state log was compacted or deleted.
    """

    name: str
    state: DataFrame
    commits: DataFrame
    events: DataFrame | None
    markers: DataFrame | None
    openings: DataFrame | None
    """The events of the event log about itself."""
    first_events: DataFrame | None
    """(log_id, shard, first_offset, first_state_offset): the oldest event that is still there."""
    complete_from: DataFrame

    def of_groups(self, groups: Sequence[str]) -> "Evidence":
        """What is about these groups; all of it if there are none. Gaps and markers are nobody's, and stay."""
        if not groups:
            return self

        def of(frame: DataFrame | None) -> Any:
            return None if frame is None else frame.where(F.col("group").isin(*groups))

        return replace(self, state=of(self.state), commits=of(self.commits), events=of(self.events))


def check_log(path: str) -> None:
    """Raises NoLog unless there is a state log at that path."""
    open_folder(path, STATE_TOPIC)


def check_archive(path: str) -> None:
    """Raises NoLog unless `follow` wrote there."""
    if not (Path(path) / ARCHIVE_NOTE).is_file():
        raise NoLog(f"{path} holds no {ARCHIVE_NOTE}: it is no archive")


def from_log(spark: SparkSession, path: str, options: dict[str, str]) -> Evidence:
    """A data folder, or the folder of one shard. Raises NoLog before anything is read."""
    state = open_folder(path, STATE_TOPIC)
    bounds = [(state.log_id(), shard, complete_from(folder)) for shard, folder in state.shards.items()]
    return Evidence(
        name=path,
        state=_view(spark, path, columns.STATE, options),
        commits=_view(spark, path, columns.COMMITS, options),
        markers=_view(spark, path, columns.RAW, options).where("is_control"),
        complete_from=spark.createDataFrame(bounds, COMPLETE_FROM).cache(),
        **_events(spark, path, options),
    )


def from_kafka(spark: SparkSession, bootstrap: str, settings: Mapping[str, str]) -> Evidence:
    """The topic `__consumer_offsets` of a cluster. `settings` are the connector's own, under their names.

    What was compacted away is not known, so nothing is taken for the beginning of anything.
    """
    rows = kafka_rows(spark.read, bootstrap, settings).load()
    return Evidence(
        name=bootstrap,
        state=adapter.from_kafka(rows, columns.STATE, KAFKA_LOG),
        commits=adapter.from_kafka(rows, columns.COMMITS, KAFKA_LOG),
        events=None,
        markers=None,
        openings=None,
        first_events=None,
        complete_from=spark.createDataFrame([], COMPLETE_FROM),
    )


_Reader = TypeVar("_Reader", DataFrameReader, DataStreamReader)


def kafka_rows(reader: _Reader, bootstrap: str, settings: Mapping[str, str]) -> _Reader:
    """A reader of the topic, to be loaded."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": STATE_TOPIC, "startingOffsets": "earliest"}
    return reader.format("kafka").options(**{**options, **settings})


def event_folder(path: str) -> DataFolder | None:
    """The event log in a data folder; None if there is none."""
    try:
        return open_folder(path, EVENT_TOPIC)
    except NoLog:
        return None


def complete_from(folder: ShardFolder) -> int:
    """Where a state log begins to be whole: behind what was compacted, and what was deleted."""
    noted, segments = folder.noted(), folder.segments()
    start = max(segments[0].base_offset if segments else 0, 0 if noted is None else noted.start_offset)
    return max(folder.clean_offset(), start)


def _view(spark: SparkSession, path: str, view: str, options: dict[str, str]) -> DataFrame:
    return spark.read.format(FORMAT).options(**{**options, "view": view}).load(path)


def _events(spark: SparkSession, path: str, options: dict[str, str]) -> dict[str, DataFrame | None]:
    folder = event_folder(path)
    if folder is None:
        return {"events": None, "openings": None, "first_events": None}
    # Of these there are a handful among millions, so they are looked for by their type before anything is decoded.
    about_all = {name: value for name, value in options.items() if name != "groups"}
    raw = _view(spark, path, columns.RAW, {**about_all, "topic": EVENT_TOPIC})
    found = raw.where(F.col("key_type").isin(*ABOUT_ITSELF)).collect()
    openings = _rows(spark, [row.asDict() for row in found])
    events = gaps.came_true(_view(spark, path, columns.EVENTS, options), gaps.undone(openings))
    firsts = [(folder.log_id(), shard, *first) for shard, each in folder.shards.items() if (first := _first(each))]
    return {"events": events, "openings": openings, "first_events": spark.createDataFrame(firsts, FIRST_EVENTS)}


def _first(shard: ShardFolder) -> tuple[int, int | None] | None:
    """Offset and state offset of a log's oldest event. Only a log whose beginning was deleted need be looked into."""
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


def _rows(spark: SparkSession, raw: Sequence[dict[str, Any]]) -> DataFrame:
    names = columns.SCHEMAS[columns.EVENTS].names
    rows = []
    for each in raw:
        full = each | messages.row(_bytes(each["key"]), _bytes(each["value"]))
        rows.append(tuple(full.get(name) for name in names))
    return spark.createDataFrame(rows, columns.ddl(columns.EVENTS))


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def from_archive(spark: SparkSession, path: str) -> Evidence:
    """What `follow` kept. Raises NoLog if it kept nothing."""
    check_archive(path)
    note = json.loads((Path(path) / ARCHIVE_NOTE).read_text())

    def kept(view: str) -> DataFrame:
        # Its schema is given: a column that a batch has not is null, and no file need be opened to know it.
        return spark.read.schema(columns.ddl(view)).parquet(f"{path}/{view}")

    history = kept(columns.HISTORY)
    state = history.where("is_state").select(*columns.SCHEMAS[columns.STATE].names)
    events = openings = firsts = None
    if note["has_events"]:
        every = history.where("not is_state").select(*columns.SCHEMAS[columns.EVENTS].names)
        openings = gaps.openings(every)
        events = gaps.came_true(every, gaps.undone(openings))
        firsts = every.groupBy(*SHARD).agg(
            F.min("offset").alias("first_offset"), F.min_by("state_offset", "offset").alias("first_state_offset")
        )
    return Evidence(
        name=path,
        state=state,
        first_events=firsts,
        commits=kept(columns.COMMITS),
        events=events,
        markers=kept("markers") if note["has_markers"] else None,
        openings=openings,
        complete_from=spark.createDataFrame([tuple(each) for each in note["complete_from"]], COMPLETE_FROM).cache(),
    )


def event_gaps(evidence: Evidence) -> DataFrame | None:
    """Where the events are silent; None if there is no event log at all."""
    if evidence.openings is None or evidence.first_events is None:
        return None
    return gaps.event_gaps(evidence.openings, evidence.first_events)
