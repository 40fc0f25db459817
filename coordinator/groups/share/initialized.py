"""The share partitions of a group that have a state, or are about to (record type 15).

A partition is given to members when the share coordinator has made its state (share_states.py). What the group has asked for is
`initializing`; what is done, `initialized`. Partitions that a topic gets later are asked for when a heartbeat finds them.
An answer may be lost with the server, so what has been asked for is asked again after a while, or after a start: making a state
again changes nothing.

Kafka: `ShareGroupStatePartitionMetadataInfo`, `GroupMetadataManager.subscribedTopicsChangeMap`.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from coordinator.groups.catalog import Catalog

UNKNOWN_NAME = "<UNKNOWN>"
"""Of a topic that is gone."""


class Initialized(NamedTuple):
    """Partitions of a topic."""

    name: str
    partitions: frozenset[int]


Topics = Mapping[bytes, Initialized]
"""By topic id."""
_NO_PARTITIONS: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class StatePartitions:
    """An immutable value: all of a group's partitions with a state."""

    initializing: Topics
    initialized: Topics
    deleting: Mapping[bytes, str]
    """Topic id -> name, of topics whose states were about to be deleted: an administrator may ask for it again."""

    def asked(self, asked: Topics) -> "StatePartitions":
        """The states of these partitions are being made."""
        return StatePartitions(
            _joined(self.initializing, asked),
            self.initialized,
            {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in asked},
        )

    def made(self, done: Topics) -> "StatePartitions":
        """The states of these partitions are there."""
        return replace(
            self, initializing=_without(self.initializing, done), initialized=_joined(self.initialized, done)
        )

    def failed(self, asked: Topics) -> "StatePartitions":
        """The states of these partitions could not be made."""
        return replace(self, initializing=_without(self.initializing, asked))

    def to_delete(self, topics: Topics) -> "StatePartitions":
        """The states of these topics are being deleted."""
        return StatePartitions(
            self.initializing,
            {each: topic for each, topic in self.initialized.items() if each not in topics},
            {**self.deleting, **{topic_id: topic.name for topic_id, topic in topics.items()}},
        )

    def deleted(self, topic_ids: Collection[bytes]) -> "StatePartitions":
        """The states of these topics are gone."""
        return replace(self, deleting={each: name for each, name in self.deleting.items() if each not in topic_ids})

    def without_topics(self, topic_ids: Collection[bytes]) -> "StatePartitions":
        """These topics were deleted; the same object if none of them is here."""
        if not any(
            each in topics for each in topic_ids for topics in (self.initializing, self.initialized, self.deleting)
        ):
            return self
        return StatePartitions(
            {each: topic for each, topic in self.initializing.items() if each not in topic_ids},
            {each: topic for each, topic in self.initialized.items() if each not in topic_ids},
            {each: name for each, name in self.deleting.items() if each not in topic_ids},
        )

    def missing(self, names: Iterable[str], catalog: Catalog, under_way: Collection[bytes]) -> dict[bytes, Initialized]:
        """The partitions of these topics that have no state. `under_way`: topics whose states are being made at the moment."""
        found = {}
        for name in names:
            topic_id, count = catalog.topic_id(name), catalog.partition_count(name)
            if topic_id is None or count is None:
                continue
            known = _partitions(self.initialized, topic_id)
            if topic_id in under_way:
                known |= _partitions(self.initializing, topic_id)
            if len(known) < count:
                found[topic_id] = Initialized(name, frozenset(range(count)) - known)
        return found

    def knows(self, topic_id: bytes) -> bool:
        return topic_id in self.initialized or topic_id in self.initializing

    @property
    def all_topics(self) -> Topics:
        """Those that are there, and those that are being made."""
        return _joined(self.initialized, self.initializing)

    @property
    def partitions(self) -> list[tuple[bytes, int]]:
        """All of them, by topic id."""
        return [
            (topic_id, number) for topic_id, topic in self.all_topics.items() for number in sorted(topic.partitions)
        ]

    @property
    def size(self) -> int:
        return sum(len(topic.partitions) for each in (self.initializing, self.initialized) for topic in each.values())


NO_STATE_PARTITIONS = StatePartitions({}, {}, {})


def _partitions(topics: Topics, topic_id: bytes) -> frozenset[int]:
    topic = topics.get(topic_id)
    return _NO_PARTITIONS if topic is None else topic.partitions


def _joined(topics: Topics, more: Topics) -> Topics:
    return {
        **topics,
        **{each: Initialized(new.name, _partitions(topics, each) | new.partitions) for each, new in more.items()},
    }


def _without(topics: Topics, less: Topics) -> Topics:
    left = {each: topic.partitions - _partitions(less, each) for each, topic in topics.items()}
    return {each: Initialized(topics[each].name, partitions) for each, partitions in left.items() if partitions}
