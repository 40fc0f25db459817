"""Recorded requests as the judge reads them: partitions, errors and identities, whatever the API and its version."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from coordinator.rules.model import Entry
from coordinator_testing.certify.case import TopicPartition

NONE = "NONE"
_TOPIC_NAMES = ("topic", "topic_name", "name")
_PARTITION_NAMES = ("partition", "partition_index", "index")
_LISTS = ("partitions", "partition_indexes")


class Row(NamedTuple):
    """What a request or response has for one partition."""

    at: TopicPartition
    fields: Mapping[str, Any]

    def number(self, *names: str) -> int:
        """The first of these fields that there is; -1 if there is none."""
        return next((int(self.fields[name]) for name in names if self.fields.get(name) is not None), -1)

    @property
    def error(self) -> str:
        return error_of(self.fields)


def rows(message: Any, topic: str = "") -> Iterator[Row]:
    """The partitions of a request or response, at any depth, each with the topic that it stands under."""
    if isinstance(message, Mapping):
        topic = next((message[name] for name in _TOPIC_NAMES if isinstance(message.get(name), str)), topic)
        partition = next((message[name] for name in _PARTITION_NAMES if isinstance(message.get(name), int)), None)
        if partition is not None:
            yield Row(TopicPartition(topic, partition), message)
            return
        for name, value in message.items():
            if name in _LISTS and isinstance(value, list) and all(isinstance(each, int) for each in value):
                yield from (Row(TopicPartition(topic, each), {}) for each in value)
            else:
                yield from rows(value, topic)
    elif isinstance(message, list):
        for each in message:
            yield from rows(each, topic)


def error_of(fields: Mapping[str, Any]) -> str:
    """Kafka's name of an error."""
    found = fields.get("error", fields.get("error_code"))
    return NONE if found in (None, 0, "", NONE) else str(found)


def errors(entry: Entry) -> set[str]:
    """All errors in a response."""
    found: set[str] = set()

    def walk(value: Any) -> None:
        if isinstance(value, Mapping):
            found.add(error_of(value))
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    walk(entry.response or {})
    return found - {NONE}


def received(entry: Entry) -> Mapping[str, Any] | None:
    """The response, if the client got it."""
    return entry.response if entry.outcome == "answered" else None


def generation(fields: Mapping[str, Any]) -> int | None:
    """The generation or member epoch that a request claims."""
    for name in ("generation_id", "member_epoch", "epoch"):
        if fields.get(name) is not None:
            return int(fields[name])
    return None


def cite(entry: Entry) -> str:
    """How findings name an entry."""
    return f"entry {entry.number} at {entry.listener}"
