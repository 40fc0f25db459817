"""The settings that a topic may have of its own: names, types, ranges and defaults are Kafka's.

One row per setting. Every setting of Kafka 4.4 is known, so that topics of scripts written for a cluster can be made
here and described again; those that this server acts on are fields of `TopicSettings`, the others are kept and told.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.topics.settings import TopicsConfig

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

SOURCE_TOPIC = 1
SOURCE_STATIC_BROKER = 4
SOURCE_DEFAULT = 5


class Row(NamedTuple):
    """`complaint(value)` says why a text is no value of this setting, or None. `broker_field`: the server's default."""

    name: str
    default: str
    complaint: Callable[[str], str | None]
    broker_field: str = ""


def _number(kind: str, low: int | None, high: int | None = None) -> Callable[[str], str | None]:
    limit = {"INT": INT_MAX, "LONG": LONG_MAX}[kind]

    def complaint(text: str) -> str | None:
        if re.fullmatch(r"[+-]?[0-9]+", text.strip()) is None or not -limit - 1 <= int(text) <= limit:
            return f"Not a number of type {kind}"
        if low is not None and int(text) < low:
            return f"Value must be at least {low}"
        if high is not None and int(text) > high:
            return f"Value must be no more than {high}"
        return None

    return complaint


def _ratio(text: str) -> str | None:
    try:
        value = float(text)
    except ValueError:
        return "Not a number of type DOUBLE"
    if value < 0:
        return "Value must be at least 0"
    return "Value must be no more than 1" if value > 1 else None


def _boolean(text: str) -> str | None:
    return None if text.strip().lower() in {"true", "false"} else "Expected value to be either true or false"


def _one_of(*allowed: str) -> Callable[[str], str | None]:
    def complaint(text: str) -> str | None:
        return None if text in allowed else f"String must be one of: {', '.join(allowed)}"

    return complaint


def _list_of(*allowed: str) -> Callable[[str], str | None]:
    def complaint(text: str) -> str | None:
        items = [item.strip() for item in text.split(",")] if text.strip() else []
        return None if set(items) <= set(allowed) else f"String must be one of: {', '.join(allowed)}"

    return complaint


def _any(_text: str) -> str | None:
    return None


def _gzip_level(text: str) -> str | None:
    if text.strip() == "-1":
        return None
    return _number("INT", 1, 9)(text)


_BOOL = _boolean
_LONG_0, _LONG_MINUS_1, _LONG_MINUS_2 = _number("LONG", 0), _number("LONG", -1), _number("LONG", -2)
_INT_0 = _number("INT", 0)

ROWS = {
    row.name: row
    for row in (
        Row("cleanup.policy", "delete", _list_of("compact", "delete"), "log_cleanup_policy"),
        Row("compression.gzip.level", "-1", _gzip_level),
        Row("compression.lz4.level", "9", _number("INT", 1, 17)),
        Row(
            "compression.type",
            "producer",
            _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            "compression_type",
        ),
        Row("compression.zstd.level", "3", _number("INT", -131_072, 22)),
        Row("delete.retention.ms", "86400000", _LONG_0),
        Row("errors.deadletterqueue.group.enable", "false", _BOOL),
        Row("file.delete.delay.ms", "60000", _LONG_0),
        Row("flush.messages", str(LONG_MAX), _number("LONG", 1)),
        Row("flush.ms", str(LONG_MAX), _LONG_0),
        Row("follower.replication.throttled.replicas", "", _any),
        Row("index.interval.bytes", "4096", _INT_0, "log_index_interval_bytes"),
        Row("leader.replication.throttled.replicas", "", _any),
        Row("local.retention.bytes", "-2", _LONG_MINUS_2),
        Row("local.retention.ms", "-2", _LONG_MINUS_2),
        Row("max.compaction.lag.ms", str(LONG_MAX), _number("LONG", 1)),
        Row("max.decompressed.message.bytes", "2147483639", _INT_0),
        Row("max.message.bytes", "1048588", _INT_0, "message_max_bytes"),
        Row("message.timestamp.after.max.ms", "3600000", _LONG_0, "log_message_timestamp_after_max_ms"),
        Row("message.timestamp.before.max.ms", str(LONG_MAX), _LONG_0, "log_message_timestamp_before_max_ms"),
        Row(
            "message.timestamp.type",
            "CreateTime",
            _one_of("CreateTime", "LogAppendTime"),
            "log_message_timestamp_type",
        ),
        Row("min.cleanable.dirty.ratio", "0.5", _ratio),
        Row("min.compaction.lag.ms", "0", _LONG_0),
        Row("min.insync.replicas", "1", _number("INT", 1)),
        Row("preallocate", "false", _BOOL),
        Row("remote.copy.lag.bytes", "-1", _LONG_MINUS_1),
        Row("remote.copy.lag.ms", "0", _LONG_MINUS_1),
        Row("remote.log.copy.disable", "false", _BOOL),
        Row("remote.log.delete.on.disable", "false", _BOOL),
        Row("remote.storage.enable", "false", _BOOL),
        Row("retention.bytes", "-1", _LONG_MINUS_1, "log_retention_bytes"),
        Row("retention.ms", "604800000", _LONG_MINUS_1, "log_retention_ms"),
        Row("segment.bytes", "1073741824", _number("INT", 1_048_576), "log_segment_bytes"),
        Row("segment.index.bytes", "10485760", _number("INT", 4), "log_index_size_max_bytes"),
        Row("segment.jitter.ms", "0", _LONG_0),
        Row("segment.ms", "604800000", _number("LONG", 1), "log_roll_ms"),
        Row("unclean.leader.election.enable", "false", _BOOL),
    )
}


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What one topic's data plane acts on. Sizes in bytes, times in milliseconds."""

    max_message_bytes: int
    log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    segment_bytes: int
    segment_ms: int
    index_interval_bytes: int
    retention_bytes: int
    retention_ms: int
    compacts: bool
    """Whether records need keys."""
    deletes: bool
    """Whether retention applies: not to a topic that is only compacted."""


class ConfigValue(NamedTuple):
    """One setting as clients are told it; `source` in Kafka's numbers."""

    name: str
    value: str
    source: int


def check(overrides: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """The overrides of a topic, checked; of a name given twice the last counts. Raises KafkaError INVALID_CONFIG."""
    found: dict[str, str] = {}
    for name, value in overrides:
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
        found[name] = value
    for name, value in found.items():
        row = ROWS.get(name)
        if row is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        reason = row.complaint(value)
        if reason is not None:
            shown = str(float(value)) if row.complaint is _ratio and not reason.startswith("Not") else value
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid value {shown} for configuration {name}: {reason}")
    if found.get("remote.storage.enable", "").strip().lower() == "true":
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )
    return found


def described(overrides: Mapping[str, str], config: TopicsConfig) -> list[ConfigValue]:
    """Every setting of a topic in the order of the names, its own value or the server's."""
    values = []
    for name, row in ROWS.items():
        own = overrides.get(name)
        if own is not None:
            values.append(ConfigValue(name, own, SOURCE_TOPIC))
            continue
        broker = str(getattr(config, row.broker_field)) if row.broker_field else row.default
        values.append(ConfigValue(name, broker, SOURCE_DEFAULT if broker == row.default else SOURCE_STATIC_BROKER))
    return values


def settings(overrides: Mapping[str, str], config: TopicsConfig) -> TopicSettings:
    """What the data plane acts on, from a topic's own settings and the server's."""

    def number(name: str) -> int:
        own = overrides.get(name)
        return int(own) if own is not None else int(getattr(config, ROWS[name].broker_field))

    timestamp_type = overrides.get("message.timestamp.type", config.log_message_timestamp_type)
    return TopicSettings(
        max_message_bytes=number("max.message.bytes"),
        log_append_time=timestamp_type == "LogAppendTime",
        timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
        segment_bytes=number("segment.bytes"),
        segment_ms=number("segment.ms"),
        index_interval_bytes=number("index.interval.bytes"),
        retention_bytes=number("retention.bytes"),
        retention_ms=number("retention.ms"),
        compacts="compact" in overrides.get("cleanup.policy", config.log_cleanup_policy),
        deletes="delete" in overrides.get("cleanup.policy", config.log_cleanup_policy),
    )
