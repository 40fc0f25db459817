"""The settings of a single topic, with Kafka's names, types, ranges and defaults (Kafka's LogConfig).

There is one row per setting. All topic settings of Kafka 4.4 are accepted, so scripts written for a cluster can create topics
here and read their settings back. The settings that this server acts on are fields of `TopicSettings`; the others are stored
and reported but have no effect.

A setting that a topic does not override comes from the server, where it has another name. DescribeConfigs lists these
*synonyms*, the one in force first. As in Kafka, the list leaves out the built-in default where the server has the setting in
several units (`log.retention.hours`), and `min.insync.replicas` is reported as set for the whole cluster.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from coordinator.log.log import LogSettings
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.java import parse_double, parse_long
from coordinator.topics.config import TopicsConfig

SHORT_MAX = 2**15 - 1
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
VALUE_LENGTH_MAX = 2**15 - 1

SOURCE_TOPIC = 1
SOURCE_BROKER = 2
SOURCE_CLUSTER = 3
SOURCE_STATIC_BROKER = 4
SOURCE_DEFAULT = 5

MIN_INSYNC_REPLICAS = "min.insync.replicas"
GROUP_DEAD_LETTERS = "errors.deadletterqueue.group.enable"
BROKER_RESOURCE = 4
"""ConfigRecord.resource_type of brokers; the name \"\" stands for all of them."""
LARGER_UNITS = {"log.retention.ms": ("log.retention.hours", "168"), "log.roll.ms": ("log.roll.hours", "168")}
"""Settings of the server that Kafka has in hours, too, with the default there."""


class Kind(IntEnum):
    """Types of settings, with the numbers of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Row(NamedTuple):
    """One setting. `why_invalid(value)` returns None for a valid value, else the reason in Kafka's words.

    `synonym` is the setting's name on the server.
    """

    name: str
    kind: Kind
    default: str
    why_invalid: Callable[[str], str | None]
    about: str
    synonym: str = ""
    lists_default: bool = True
    """Whether the synonyms include the built-in default."""


def number(kind: str, low: int | None, high: int | None = None) -> Callable[[str], str | None]:
    """Why a text is no number of Kafka's type SHORT, INT or LONG in this range."""
    limit = {"SHORT": SHORT_MAX, "INT": INT_MAX, "LONG": LONG_MAX}[kind]

    def why_invalid(text: str) -> str | None:
        value = parse_long(text)
        if value is None or not -limit - 1 <= value <= limit:
            return f"Not a number of type {kind}"
        if low is not None and value < low:
            return f"Value must be at least {low}"
        if high is not None and value > high:
            return f"Value must be no more than {high}"
        return None

    return why_invalid


def _ratio(text: str) -> str | None:
    value = parse_double(text)
    if value is None:
        return "Not a number of type DOUBLE"
    if value < 0:
        return "Value must be at least 0"
    return "Value must be no more than 1" if value > 1 else None


def boolean(text: str) -> str | None:
    """Why a text is neither true nor false."""
    return None if text.strip().lower() in {"true", "false"} else "Expected value to be either true or false"


def one_of(*allowed: str) -> Callable[[str], str | None]:
    def why_invalid(text: str) -> str | None:
        return None if text in allowed else f"String must be one of: {', '.join(allowed)}"

    return why_invalid


def _list_of(*allowed: str) -> Callable[[str], str | None]:
    def why_invalid(text: str) -> str | None:
        items = [item.strip() for item in text.split(",")] if text.strip() else []
        return None if set(items) <= set(allowed) else f"String must be one of: {', '.join(allowed)}"

    return why_invalid


def _throttled(name: str) -> Callable[[str], str | None]:
    wanted = re.compile(r"\*|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*|")

    def why_invalid(text: str) -> str | None:
        if wanted.fullmatch(",".join(map(str.strip, text.split(",")))):
            return None
        return (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )

    return why_invalid


def _gzip_level(text: str) -> str | None:
    if text.strip() == "-1":
        return None
    return number("INT", 1, 9)(text)


_LONG_0, _LONG_MINUS_1, _LONG_MINUS_2 = number("LONG", 0), number("LONG", -1), number("LONG", -2)
_LONG_1, _INT_0 = number("LONG", 1), number("INT", 0)
_B, _S, _I, _L, _D, _LIST = Kind.BOOLEAN, Kind.STRING, Kind.INT, Kind.LONG, Kind.DOUBLE, Kind.LIST
_LONGEST = str(LONG_MAX)
_NO_TIER = "Stored but has no effect: there is no tiered storage."
_ONE_NODE = "Stored but has no effect: a single node replicates nothing."
_AS_SENT = "Stored but has no effect: batches stay as their producer compressed them."

# fmt: off
ROWS = {
    row.name: row
    for row in (
        Row("cleanup.policy", _LIST, "delete", _list_of("compact", "delete"),
            "delete: old segments are deleted by age and size. compact: the last record of each key is kept. Or both.",
            "log.cleanup.policy"),
        Row("compression.gzip.level", _I, "-1", _gzip_level, _AS_SENT, "compression.gzip.level"),
        Row("compression.lz4.level", _I, "9", number("INT", 1, 17), _AS_SENT, "compression.lz4.level"),
        Row("compression.type", _S, "producer",
            one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), _AS_SENT,
            "compression.type"),
        Row("compression.zstd.level", _I, "3", number("INT", -131_072, 22), _AS_SENT, "compression.zstd.level"),
        Row("delete.retention.ms", _L, "86400000", _LONG_0,
            "How long a compacted topic keeps a tombstone, so that consumers can see it.",
            "log.cleaner.delete.retention.ms"),
        Row(GROUP_DEAD_LETTERS, _B, "false", boolean, "Whether share groups may write their dead letters to the topic."),
        Row("file.delete.delay.ms", _L, "60000", _LONG_0, "Stored but has no effect: deleted segments are removed at once.",
            "log.segment.delete.delay.ms"),
        Row("flush.messages", _L, _LONGEST, _LONG_1, "Stored but has no effect: the setting durability decides.",
            "log.flush.interval.messages"),
        Row("flush.ms", _L, _LONGEST, _LONG_0, "Stored but has no effect: the setting durability decides."),
        Row("follower.replication.throttled.replicas", _LIST, "", _throttled("follower.replication.throttled.replicas"),
            _ONE_NODE),
        Row("index.interval.bytes", _I, "4096", _INT_0, "Bytes of log between two entries of a segment's index.",
            "log.index.interval.bytes"),
        Row("leader.replication.throttled.replicas", _LIST, "", _throttled("leader.replication.throttled.replicas"),
            _ONE_NODE),
        Row("local.retention.bytes", _L, "-2", _LONG_MINUS_2, _NO_TIER, "log.local.retention.bytes"),
        Row("local.retention.ms", _L, "-2", _LONG_MINUS_2, _NO_TIER, "log.local.retention.ms"),
        Row("max.compaction.lag.ms", _L, _LONGEST, _LONG_1,
            "A closed segment of a compacted topic is compacted at this age, however little there is to gain.",
            "log.cleaner.max.compaction.lag.ms"),
        Row("max.decompressed.message.bytes", _I, "2147483639", _INT_0,
            "Stored but has no effect: batches are not decompressed by the server.", "max.decompressed.message.bytes"),
        Row("max.message.bytes", _I, "1048588", _INT_0, "The largest record batch that the topic accepts.",
            "message.max.bytes"),
        Row("message.timestamp.after.max.ms", _L, "3600000", _LONG_0,
            "A record with a timestamp further in the future is refused.",
            "log.message.timestamp.after.max.ms"),
        Row("message.timestamp.before.max.ms", _L, _LONGEST, _LONG_0,
            "A record with a timestamp further in the past is refused.",
            "log.message.timestamp.before.max.ms"),
        Row("message.timestamp.type", _S, "CreateTime", one_of("CreateTime", "LogAppendTime"),
            "Whether a record has the time of its producer or the time at which the server appended it.",
            "log.message.timestamp.type"),
        Row("min.cleanable.dirty.ratio", _D, "0.5", _ratio,
            "A compacted topic is compacted when this share of it was written since the last compaction.",
            "log.cleaner.min.cleanable.ratio"),
        Row("min.compaction.lag.ms", _L, "0", _LONG_0, "How long a record stays uncompacted.",
            "log.cleaner.min.compaction.lag.ms"),
        Row(MIN_INSYNC_REPLICAS, _I, "1", number("INT", 1), _ONE_NODE, MIN_INSYNC_REPLICAS),
        Row("preallocate", _B, "false", boolean, "Stored but has no effect: segments grow as they are written.",
            "log.preallocate"),
        Row("remote.copy.lag.bytes", _L, "-1", _LONG_MINUS_1, _NO_TIER, "log.remote.copy.lag.bytes"),
        Row("remote.copy.lag.ms", _L, "0", _LONG_MINUS_1, _NO_TIER, "log.remote.copy.lag.ms"),
        Row("remote.log.copy.disable", _B, "false", boolean, _NO_TIER),
        Row("remote.log.delete.on.disable", _B, "false", boolean, _NO_TIER),
        Row("remote.storage.enable", _B, "false", boolean, _NO_TIER),
        Row("retention.bytes", _L, "-1", _LONG_MINUS_1,
            "The oldest segments of a partition larger than this are deleted; -1 keeps them.",
            "log.retention.bytes"),
        Row("retention.ms", _L, "604800000", _LONG_MINUS_1, "A segment older than this is deleted; -1 keeps it.",
            "log.retention.ms", lists_default=False),
        Row("segment.bytes", _I, "1073741824", number("INT", 1_048_576), "The active segment is closed at this size.",
            "log.segment.bytes"),
        Row("segment.index.bytes", _I, "10485760", number("INT", 4), "Stored but has no effect: indexes are kept in memory.",
            "log.index.size.max.bytes"),
        Row("segment.jitter.ms", _L, "0", _LONG_0, "Stored but has no effect: segments are closed exactly at segment.ms."),
        Row("segment.ms", _L, "604800000", _LONG_1, "The active segment is closed at this age.",
            "log.roll.ms", lists_default=False),
        Row("unclean.leader.election.enable", _B, "false", boolean, _ONE_NODE, "unclean.leader.election.enable"),
    )
}
# fmt: on
LISTS = {row.name: row.default for row in ROWS.values() if row.kind is Kind.LIST}
"""Settings of type LIST, whose values can be appended to or subtracted from, with their defaults."""


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of one topic that the data plane acts on. Sizes in bytes, times in milliseconds."""

    max_message_bytes: int
    log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    log: LogSettings
    compacts: bool
    """Whether records need keys."""
    deletes: bool
    """Whether retention applies. It does not if the topic is only compacted."""


class Synonym(NamedTuple):
    """A place where a setting can be set, with its name there. `source`: Kafka's ConfigSource number."""

    name: str
    value: str | None
    source: int


class ConfigValue(NamedTuple):
    """One setting as DescribeConfigs reports it. `source` and `kind` are Kafka's numbers; kind 0 is not reported."""

    name: str
    value: str | None
    source: int
    kind: int = 0
    about: str = ""
    synonyms: tuple[Synonym, ...] = ()
    read_only: bool = False
    is_sensitive: bool = False
    """Whether the value is a secret, or its type is not known, so that Kafka takes it for one."""


def check(overrides: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Returns a topic's overrides, validated (Kafka's ControllerConfigurationValidator.validate).

    The last of several values for one name counts. Raises INVALID_CONFIG.
    """
    found: dict[str, str] = {}
    for name, value in overrides:
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
        found[name] = value
    for name, value in found.items():
        check_length(value)
        row = ROWS.get(name)
        if row is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        reason = row.why_invalid(value)
        if reason is not None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Invalid value {_shown(row, value, reason)} for configuration {name}: {reason}",
            )
    shortest, longest = (
        _long(found.get(name, ROWS[name].default)) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if shortest > longest:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > max.compaction.lag.ms ({longest})",
        )
    if found.get("remote.storage.enable", "").strip().lower() == "true":
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )
    return found


def check_length(value: str) -> None:
    """Raises INVALID_CONFIG."""
    if len(value) > VALUE_LENGTH_MAX:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{VALUE_LENGTH_MAX} bytes.",
        )


def _long(text: str) -> int:
    """A valid number."""
    value = parse_long(text)
    assert value is not None, "a setting was validated before it was stored"
    return value


def _double(text: str) -> float:
    """A valid number."""
    value = parse_double(text)
    assert value is not None, "a setting was validated before it was stored"
    return value


def _shown(row: Row, value: str, reason: str) -> str:
    """An invalid value as Kafka formats it in its error message."""
    if row.why_invalid is _ratio and not reason.startswith("Not"):
        return str(_double(value))
    return f"[{value}]" if row.name.endswith("throttled.replicas") else value


def describe(overrides: Mapping[str, str], config: TopicsConfig) -> list[ConfigValue]:
    """All settings of a topic, sorted by name: the topic's own value, or else the server's."""
    return [_describe(row, overrides.get(name), config) for name, row in ROWS.items()]


def _describe(row: Row, own: str | None, config: TopicsConfig) -> ConfigValue:
    places = inherited(row, config) if row.synonym else [Synonym(row.name, row.default, SOURCE_DEFAULT)]
    if own is not None:
        places.insert(0, Synonym(row.name, canonical(row.kind, own), SOURCE_TOPIC))
    value, source = canonical(row.kind, places[0].value or ""), places[0].source
    if not row.synonym:
        places = [place for place in places if place.source != SOURCE_DEFAULT]
    elif not row.lists_default:
        places = [place for place in places if place.source != SOURCE_DEFAULT or place.name != row.synonym]
    return ConfigValue(row.name, value, source, row.kind, row.about, tuple(places))


def inherited(row: Row, config: TopicsConfig) -> list[Synonym]:
    """The values of a setting on the server, the one in force first."""
    places = [
        Synonym(row.synonym, settings[row.synonym], source)
        for source, settings in config.dynamic
        if row.synonym in settings
    ]
    if row.name == MIN_INSYNC_REPLICAS and not places:
        places.append(Synonym(row.synonym, row.default, SOURCE_CLUSTER))
    if places and row.synonym in LARGER_UNITS:
        # Then Kafka names the default in the unit that has one.
        places.append(Synonym(*LARGER_UNITS[row.synonym], SOURCE_DEFAULT))
    static = str(getattr(config, row.synonym.replace(".", "_"), row.default))
    if static != row.default:
        places.append(Synonym(row.synonym, static, SOURCE_STATIC_BROKER))
    return [*places, Synonym(row.synonym, row.default, SOURCE_DEFAULT)]


def canonical(kind: Kind, text: str) -> str:
    """A valid value as Kafka reports it: without the spaces and signs that its parser accepts."""
    if kind in {Kind.INT, Kind.LONG}:
        return str(_long(text))
    if kind is Kind.DOUBLE:
        return str(_double(text))
    if kind is Kind.BOOLEAN:
        return text.strip().lower()
    if kind is Kind.LIST:
        return ",".join(item.strip() for item in text.split(","))
    return text


def effective(overrides: Mapping[str, str], config: TopicsConfig) -> TopicSettings:
    """Combines a topic's own settings with the server's."""

    def text(name: str) -> str:
        own = overrides.get(name)
        return inherited(ROWS[name], config)[0].value or "" if own is None else own

    def integer(name: str) -> int:
        return _long(text(name))

    def limit(name: str) -> int | None:
        return value if 0 <= (value := integer(name)) < LONG_MAX else None

    policy = text("cleanup.policy")
    return TopicSettings(
        max_message_bytes=integer("max.message.bytes"),
        log_append_time=text("message.timestamp.type") == "LogAppendTime",
        timestamp_before_max_ms=integer("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=integer("message.timestamp.after.max.ms"),
        log=LogSettings(
            segment_bytes=integer("segment.bytes"),
            segment_ms=integer("segment.ms"),
            index_interval_bytes=integer("index.interval.bytes"),
            retention_bytes=limit("retention.bytes"),
            retention_ms=limit("retention.ms"),
            delete_retention_ms=integer("delete.retention.ms"),
            min_cleanable_dirty_ratio=_double(text("min.cleanable.dirty.ratio")),
            min_compaction_lag_ms=integer("min.compaction.lag.ms"),
            max_compaction_lag_ms=limit("max.compaction.lag.ms"),
        ),
        compacts="compact" in policy,
        deletes="delete" in policy,
    )
