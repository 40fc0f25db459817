"""The deliveries of share groups, and the violations that they show: share_history.py for each share partition."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pyspark_coordinator_log.folders import ShardFolder
from pyspark_coordinator_log.jobs.findings import BROKEN
from pyspark_coordinator_log.jobs.share_history import TYPES, Broken, DurableState, ShareHistory
from pyspark_coordinator_log.jobs.vocabulary import EVENT_LOG, SHARE_STATE_LOG

_PLACE = ("group", "topic_id", "partition")
EVENT_COLUMNS = (
    "log_id", "shard", "offset", "timestamp_ms", "time_ms", "type", "group", "member_id", "client_id", "cause", "error",
    "ranges", "loaded_ms", "event_number", "reason", "queue_topic", "queue_partition", "queue_offset", "partitions",
)  # fmt: skip
STATE_COLUMNS = (
    "log_id", "shard", "offset", "timestamp_ms", "type", *_PLACE, "tombstone", "state_epoch", "start_offset", "batches",
    "problem",
)  # fmt: skip
DELIVERIES = pa.schema([
    ("log_id", pa.string()), ("shard", pa.int32()), ("group", pa.string()), ("topic_key", pa.string()),
    ("topic", pa.string()), ("partition", pa.int32()), ("first_offset", pa.int64()), ("last_offset", pa.int64()),
    ("delivery_count", pa.int16()), ("member_id", pa.string()), ("client_id", pa.string()), ("acquired_offset", pa.int64()),
    ("acquired_ms", pa.int64()), ("outcome", pa.string()), ("evidence", pa.string()), ("archived", pa.bool_()),
    ("queue_topic", pa.string()), ("queue_partition", pa.int32()), ("queue_offset", pa.int64()), ("queue_error", pa.string()),
    ("cause", pa.string()), ("settled_offset", pa.int64()), ("settled_ms", pa.int64()), ("time_ms", pa.int64()),
])  # fmt: skip
"""The schema of the table deliveries."""
_FOUND = pa.schema([("delivery", pa.struct(list(DELIVERIES))), ("broken", BROKEN)])
"""Each row has exactly one of the two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLogs:
    """What is known of share partitions."""

    events: DataFrame
    """EVENT_COLUMNS of the events of TYPES."""
    states: DataFrame
    """STATE_COLUMNS of the view `share_state`, read later than the events."""
    path: str
    """The data folder, which may have the topics' logs, too."""

    def until(self, until_ms: int | None) -> "ShareLogs":
        """What happened before a time; None: no limit."""
        return self if until_ms is None else self._where(F.col("timestamp_ms") < until_ms)

    def for_groups(self, groups: Sequence[str]) -> "ShareLogs":
        """The share partitions of these groups."""
        return self._where(F.col("group").isin(*groups))

    def _where(self, condition: Column) -> "ShareLogs":
        return replace(self, events=self.events.where(condition), states=self.states.where(condition))


def found(logs: ShareLogs) -> DataFrame:
    """The deliveries and violations of all share partitions."""
    events = (
        logs.events.where(F.col("type").isin(*TYPES))
        .withColumn("place", F.explode("partitions"))
        .select(*EVENT_COLUMNS[:-1], "place.topic", "place.topic_id", "place.partition")
    )
    states = logs.states.where("problem is null")
    path = logs.path

    def judge(_place: Any, of_events: Any, of_states: Any) -> Any:
        return _judged(of_events, of_states, path)

    return events.groupBy(*_PLACE).cogroup(states.groupBy(*_PLACE)).applyInArrow(judge, from_arrow_schema(_FOUND))


def of_deliveries(rows: DataFrame) -> DataFrame:
    """The rows of the table."""
    return rows.where("delivery is not null").select("delivery.*")


def of_violations(rows: DataFrame) -> DataFrame:
    """The rows of invariants_broken."""
    return rows.where("broken is not null").select("broken.*")


def _judged(of_events: Any, of_states: Any, path: str) -> Any:
    events = of_events.sort_by("offset").to_pylist()
    if not events:
        return _FOUND.empty_table()
    states = of_states.sort_by("offset").to_pylist()
    place = events[0]
    topic = next((each["topic"] for each in events if each["topic"]), None)
    history = ShareHistory(events, DurableState(states), log_start(path, topic, place["partition"]))
    about = {"log_id": place["log_id"], "shard": place["shard"], "group": place["group"]}
    about |= {"topic_key": place["topic_id"], "partition": place["partition"]}
    deliveries = [about | {"topic": topic} | each.columns() for each in history.deliveries]
    last = states[-1] if states else None
    broken = [about | _broken(each, last) for each in history.broken]
    return pa.table(
        {
            "delivery": pa.array(deliveries + [None] * len(broken), _FOUND.field("delivery").type),
            "broken": pa.array([None] * len(deliveries) + broken, _FOUND.field("broken").type),
        },
        _FOUND,
    )


def _broken(each: Broken, last_state: Any) -> dict[str, Any]:
    """The columns of invariants_broken that are not those of the share partition."""
    columns = {"rule": each.rule, "member_id": each.member_id, "detail": each.detail}
    if each.event is None:
        return columns | {
            "log": SHARE_STATE_LOG, "shard": last_state["shard"], "offset": last_state["offset"],
            "time_ms": last_state["timestamp_ms"],
        }  # fmt: skip
    return columns | {
        "other_member_id": each.delivery.member_id, "log": EVENT_LOG, "offset": each.event["offset"],
        "time_ms": each.event["time_ms"],
    }  # fmt: skip


def log_start(path: str, topic: str | None, partition: int) -> int | None:
    """Where the log of a topic's partition begins; None if it is not in the data folder."""
    folder = Path(path.removeprefix("file://")) / f"{topic}-{partition}"
    if topic is None or not folder.is_dir():
        return None
    shard = ShardFolder(topic, partition, str(folder))
    noted, segments = shard.server_checkpoint(), shard.segments()
    return max(segments[0].base_offset if segments else 0, 0 if noted is None else noted.start_offset)
