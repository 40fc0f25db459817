"""The options of a reader, parsed and validated. An invalid one is refused with a one-line message.

    view                  raw, commits (the default), state, events, history or share_state
    shards                "0,3,7-9": only these
    groups                "orders,billing": only these; use JSON for a name that contains a comma: ["a,b"]
    shardCount            with groups: the total number of shards, so that only the shards of these groups are read; not for
                          share_state, where the partitions of a group are in different shards
    since, until          records of [since, until): milliseconds since 1970, or ISO 8601 (UTC unless it has a zone)
    keyTypes              "1002,1004-1006": only records of these types, by number in Kafka or in the event log
    splitBytes            a task's share; by default 32 MB, four times that for large logs; accepts "64m"
    verifyCrc             true (the default) or false
    failOnDataLoss        true (the default) or false: continue without records that are gone
    logId                 the id of the log, for a folder that was copied without its meta.properties
    topic                 raw only: the topic to read instead of __consumer_offsets
    startingOffsets       streams: earliest (the default) or latest
    maxBytesPerTrigger    streams: bytes of the log per micro-batch; unlimited by default

Spark passes option names in any case and all values as text. There is no filter pushdown as an alternative, because Spark
keeps one plan for a DataFrame that is used twice, so that the filters of one use would silently apply to the other.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from coordinator.protocol.java import positive_hash
from pyspark_coordinator_log.columns import COMMITS, EVENTS, HISTORY, RAW, SCHEMAS, SHARE_STATE, VIEWS
from pyspark_coordinator_log.folders import EVENT_TOPIC, SHARE_STATE_TOPIC, STATE_TOPIC
from pyspark_coordinator_log.reading import Reading
from pyspark_coordinator_log.views import Wanted

SPLIT_BYTES = 32 * 1024 * 1024
LARGE_SPLIT_BYTES = 4 * SPLIT_BYTES
LARGE_LOG_BYTES = 50 * 1024 * 1024 * 1024
"""Above this size tasks are larger, because Spark's cost per task becomes noticeable."""
SPLIT_BYTES_MIN = 4096
_TOPICS = {EVENTS: EVENT_TOPIC, SHARE_STATE: SHARE_STATE_TOPIC}
"""The topics of views; the others read `__consumer_offsets`."""
EARLIEST, LATEST = "earliest", "latest"

_T = TypeVar("_T")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_NAMES = (
    "path",
    "view",
    "shards",
    "groups",
    "shardCount",
    "since",
    "until",
    "keyTypes",
    "splitBytes",
    "verifyCrc",
    "failOnDataLoss",
    "logId",
    "topic",
    "startingOffsets",
    "maxBytesPerTrigger",
)


class BadOption(ValueError):
    """An invalid option; the message names it, its value and the allowed values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All options, parsed."""

    path: str
    view: str
    shards: frozenset[int] | None
    groups: frozenset[str] | None
    since_ms: int | None
    until_ms: int | None
    key_types: frozenset[int] | None
    split_bytes: int | None
    verify_checksums: bool
    fail_on_data_loss: bool
    log_id: str | None
    topic: str
    starting_offsets: str
    trigger_bytes_max: int | None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to read."""
        return (STATE_TOPIC, EVENT_TOPIC) if self.view == HISTORY else (self.topic,)

    def reading(self, columns: Sequence[str]) -> Reading:
        """How a task reads, given the requested columns. Raises BadOption for an unknown column."""
        unknown = [name for name in columns if name not in SCHEMAS[self.view].names]
        if unknown:
            raise BadOption(f"the view {self.view} has no column {', '.join(unknown)}")
        wanted = Wanted(
            view=self.view,
            columns=tuple(columns),
            groups=self.groups,
            since_ms=self.since_ms,
            until_ms=self.until_ms,
            key_types=self.key_types,
        )
        return Reading(wanted=wanted, verify_checksums=self.verify_checksums, fail_on_data_loss=self.fail_on_data_loss)


def parse(given: Mapping[str, str]) -> Options:
    """Parses the options of a `load`. Raises BadOption."""
    options = {name.lower(): value for name, value in given.items()}
    unknown = sorted(set(options) - {name.lower() for name in _NAMES})
    if unknown:
        raise BadOption(f"unknown option {', '.join(unknown)}; the options are {', '.join(_NAMES)}")

    def option(name: str, read: Callable[[str], _T], otherwise: _T) -> _T:
        text = options.get(name.lower())
        if text is None:
            return otherwise
        try:
            return read(text.strip())
        except ValueError as error:
            raise BadOption(f"option {name}={text!r}: {error}") from error

    path = options.get("path")
    if not path:
        raise BadOption("the folder is missing: load(PATH)")
    view = option("view", _among(VIEWS), COMMITS)
    topic = option("topic", str, _TOPICS.get(view, STATE_TOPIC))
    if "topic" in options and view != RAW:
        raise BadOption(f"option topic={topic!r}: only the view {RAW} reads other topics")
    groups = option("groups", _groups, None)
    shards = option("shards", _shards, None)
    count = option("shardCount", _positive, None)
    if count is not None and view == SHARE_STATE:
        raise BadOption(f"option shardCount={count}: in the view {SHARE_STATE} a group is in many shards")
    if count is not None and groups is not None:
        of_groups = frozenset(shard_of(group, count) for group in groups)
        shards = of_groups if shards is None else shards & of_groups
    since_ms, until_ms = option("since", _time_ms, None), option("until", _time_ms, None)
    if since_ms is not None and until_ms is not None and until_ms < since_ms:
        raise BadOption(f"option until={options['until']!r} is before since={options['since']!r}")
    return Options(
        path=path,
        view=view,
        shards=shards,
        groups=groups,
        since_ms=since_ms,
        until_ms=until_ms,
        key_types=option("keyTypes", _key_types, None),
        split_bytes=option("splitBytes", _split_bytes, None),
        verify_checksums=option("verifyCrc", _boolean, otherwise=True),
        fail_on_data_loss=option("failOnDataLoss", _boolean, otherwise=True),
        log_id=option("logId", _non_empty, None),
        topic=topic,
        starting_offsets=option("startingOffsets", _among((EARLIEST, LATEST)), EARLIEST),
        trigger_bytes_max=option("maxBytesPerTrigger", _bytes, None),
    )


def shard_of(group: str, count: int) -> int:
    """The shard of a group, by Kafka's rule."""
    return positive_hash(group) % count


def _among(allowed: Sequence[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text.lower()

    return read


def _non_empty(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return text


def _groups(text: str) -> frozenset[str] | None:
    if text.startswith("["):
        names = json.loads(text)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("must be a JSON list of names")
        return frozenset(names)
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _shards(text: str) -> frozenset[int] | None:
    return _listed(text, "shards", 0x7FFFFFFF)


def _key_types(text: str) -> frozenset[int] | None:
    return _listed(text, "types", 0x7FFF)


def _listed(text: str, what: str, most: int) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if match is None:
            raise ValueError("must be numbers and ranges, such as 0,3,7-9")
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low or high > most:
            raise ValueError(f"{part.strip()} is not a range of {what}")
        found.update(range(low, high + 1))
    return frozenset(found)


def _positive(text: str) -> int | None:
    if not text.isdecimal() or int(text) == 0:
        raise ValueError("must be a positive number")
    return int(text)


def _bytes(text: str) -> int | None:
    match = re.fullmatch(r"(\d+)\s*([kmg]?)b?", text.lower())
    if match is None or int(match[1]) == 0:
        raise ValueError("must be a number of bytes, optionally followed by k, m or g")
    return int(match[1]) * _UNITS[match[2]]


def _split_bytes(text: str) -> int | None:
    size = _bytes(text)
    if size is not None and size < SPLIT_BYTES_MIN:
        raise ValueError(f"must be at least {SPLIT_BYTES_MIN}")
    return size


def _boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("must be true or false")
    return text.lower() == "true"


def _time_ms(text: str) -> int | None:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("must be milliseconds since 1970 or ISO 8601, such as 2026-11-21T15:00:00Z") from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
