"""The same columns, from rows that Spark's Kafka source has read from `__consumer_offsets`.

    rows = read_offsets_topic(spark, "broker:9092", shards=50)
    commits = from_kafka(rows, "commits")

Use this for a cluster whose disks are out of reach: Kafka 2.4 or newer, or our server. It needs the connector's jar
(`--packages org.apache.spark:spark-sql-kafka-0-10_2.13:<Spark's version>`), which pip does not install with pyspark.

A consumer sees less than the log contains, and the columns it does not see are null here: producers, transactions, control
records, batches, leader epochs. Note the consequence: it is unknown which transactional commits took effect.
`kafka.isolation.level=read_committed` omits aborted ones, but stops at open transactions. `__consumer_offsets` contains no
decisions; refused requests and their reasons are only in our server's event log, which it serves as the topic
`__coordinator_events`.

To find the topic's bounds, Spark asks Kafka's admin client for the list of topics, which omits internal topics, so the source
would silently read nothing. The older way, through a consumer, finds them
(`spark.sql.streaming.kafka.useDeprecatedOffsetFetching`). `read_offsets_topic` enables it and assigns the partitions
explicitly, so that this consumer does not join a group, whose records would appear in the log being read.

Keys and values are decoded by column in Python workers (`mapInArrow`), as those of a file are. Decoding takes a tenth of the
time; passing rows to the workers takes the rest.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from pyspark_coordinator_log import commits, messages
from pyspark_coordinator_log.buffers import Buffer, Ints, Mask, numbers, padded
from pyspark_coordinator_log.columns import (
    COMMITS,
    EVENTS,
    FROM_KAFKA_UNKNOWN,
    HISTORY,
    RAW,
    SCHEMAS,
    SHARE_STATE,
    STATE,
    VIEWS,
    ddl,
)
from pyspark_coordinator_log.folders import STATE_TOPIC
from pyspark_coordinator_log.options import BadOption
from pyspark_coordinator_log.views import NO_TYPE, Makers, Places, commit_columns, record_columns, share_state_columns

_SHARD, _OFFSET, _TIME, _KEY, _VALUE = range(5)


def read_offsets_topic(
    spark: SparkSession,
    bootstrap: str,
    shards: int,
    *,
    topic: str = STATE_TOPIC,
    stream: bool = False,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Reads `__consumer_offsets` of a cluster. `shards` is its number of partitions (50 in Kafka by default).

    `topic` may be `__coordinator_events`, which our server serves with the same number of partitions, or `__share_group_state`
    (for the view `share_state`). `options` are further
    options of the Kafka source: `kafka.security.protocol`, `startingOffsets`, `maxOffsetsPerTrigger`. A stream begins at the
    start of the topic unless they say otherwise. Changes a setting of the session (see above).
    """
    spark.conf.set(_CONSUMER_FINDS_OFFSETS, "true")
    given = {
        "kafka.bootstrap.servers": bootstrap,
        "assign": json.dumps({topic: list(range(shards))}),
        "startingOffsets": "earliest",
    } | dict(options or {})
    return (spark.readStream if stream else spark.read).format("kafka").options(**given).load()


_CONSUMER_FINDS_OFFSETS = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


def from_kafka(rows: DataFrame, view: str = COMMITS, log_id: str | None = None) -> DataFrame:
    """Converts rows of Spark's Kafka source to a view, for batch or stream.

    `log_id` fills the column of that name, which a consumer does not see. Raises BadOption for an unknown view.
    """
    if view not in VIEWS:
        raise BadOption(f"unknown view {view!r}; the views are {', '.join(VIEWS)}")
    chosen = rows.selectExpr(
        "partition", "offset", "unix_millis(timestamp) AS timestamp_ms", "CAST(key AS BINARY) AS key", "value"
    )
    return chosen.mapInArrow(_decoder(view, log_id), ddl(view))


def _decoder(view: str, log_id: str | None) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def decode(parts: Iterable[Any]) -> Iterator[Any]:
        for part in parts:
            made = table(part, view, log_id)
            if made.num_rows:
                yield made

    return decode


def table(part: pa.RecordBatch, view: str, log_id: str | None) -> pa.RecordBatch:
    """Converts rows to a view. Columns: partition, offset, time in milliseconds, key, value."""
    keys, key_start, key_length = _binaries(part.column(_KEY))
    types = keys.at("i2", np.where(key_length >= 2, key_start, 0))
    types[key_length < 2] = NO_TYPE
    keep = _of_view(view, types)
    if not keep.all():
        part = part.filter(pa.array(keep))
        key_start, key_length, types = key_start[keep], key_length[keep], types[keep]
    makers = _envelope(part, log_id, SCHEMAS[view]) | _MAKERS[view](part, (keys, key_start, key_length), types)
    return pa.RecordBatch.from_arrays([makers[name]() for name in SCHEMAS[view].names], schema=SCHEMAS[view])


def _of_view(view: str, types: Any) -> Mask:
    is_commit: Mask = types.view(np.uint16) <= max(commits.KEY_TYPES)
    is_event = _is_event(types)
    match view:
        case "raw" | "share_state":
            return np.full(len(types), fill_value=True)
        case "commits":
            return is_commit
        case "events":
            return is_event
        case "state":
            return ~(is_commit | is_event)
        case _:
            return ~is_commit


def _is_event(types: Any) -> Mask:
    found: Mask = (types >= messages.EVENT_TYPES.start) & (types < messages.EVENT_TYPES.stop)
    return found


def _envelope(part: pa.RecordBatch, log_id: str | None, schema: pa.Schema) -> Makers:
    count = part.num_rows
    unknown: Makers = {
        name: partial(pa.nulls, count, schema.field(name).type) for name in FROM_KAFKA_UNKNOWN if name in schema.names
    }
    return unknown | {
        "shard": lambda: part.column(_SHARD),
        "log_id": lambda: pa.nulls(count, pa.string()) if log_id is None else pa.repeat(pa.scalar(log_id), count),
        "offset": lambda: part.column(_OFFSET),
        "state_offset": lambda: part.column(_OFFSET),
        "timestamp_ms": lambda: part.column(_TIME),
    }


def _raw(part: pa.RecordBatch, keys: Places, types: Any) -> Makers:
    values, start, length = _binaries(part.column(_VALUE))
    return {
        "key": lambda: part.column(_KEY).cast(pa.binary()),
        "value": lambda: part.column(_VALUE).cast(pa.binary()),
        "key_type": lambda: numbers(types, types != NO_TYPE),
        "value_version": lambda: numbers(values.at("i2", np.where(length >= 2, start, 0)), length >= 2),
        "control_type": lambda: pa.nulls(part.num_rows, pa.int16()),
    }


def _commits(part: pa.RecordBatch, keys: Places, types: Any) -> Makers:
    values = _binaries(part.column(_VALUE))
    return commit_columns(commits.decode(*keys, *values), keys[0], values[0])


def _share_states(part: pa.RecordBatch, keys: Places, types: Any) -> Makers:
    return share_state_columns(keys, _binaries(part.column(_VALUE)))


def _records(part: pa.RecordBatch, keys: Places, types: Any) -> Makers:
    makers = record_columns(types, keys, _binaries(part.column(_VALUE)))
    is_event = _is_event(types)
    decided_at = makers["state_offset"]
    makers["state_offset"] = lambda: pc.if_else(pa.array(is_event), decided_at(), part.column(_OFFSET))
    makers["is_state"] = lambda: numbers(~is_event)
    return makers


_MAKERS: dict[str, Callable[[pa.RecordBatch, Places, Any], Makers]] = {
    RAW: _raw,
    COMMITS: _commits,
    STATE: _records,
    EVENTS: _records,
    HISTORY: _records,
    SHARE_STATE: _share_states,
}


def _binaries(column: pa.Array) -> Places:
    """The buffer of a binary column, and the position and length of each value; a length of -1 is null."""
    plain = column.cast(pa.binary())
    _, offsets, content = plain.buffers()
    edges = np.frombuffer(offsets, np.int32)[plain.offset : plain.offset + len(plain) + 1].astype(np.int64)
    source = Buffer(padded(b"" if content is None else memoryview(content)))
    lengths: Ints = edges[1:] - edges[:-1]
    if plain.null_count:
        missing: Mask = plain.is_null().to_numpy(zero_copy_only=False)
        lengths = np.where(missing, -1, lengths)
    return source, edges[:-1], lengths
