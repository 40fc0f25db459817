"""The registry follows the topics of the cluster: names, ids, numbers of partitions. What is gone there is deleted here.

A deletion deletes committed offsets, so it must be certain. A broker that lags behind may not list a topic that was just
created, or list one that was just deleted. Hence:

    a topic with an id that is not known      is created, unless this server has seen its deletion
    a name that has another id now            the old topic is deleted and the new one is created: ids never come back
    more partitions                           are added
    a topic that is not listed                may be hidden from this server's account, and is asked for by its id; it is
                                              deleted when brokers, asked in turn, did not know it `UNKNOWN_MAX` times in a row

Several workers follow the same cluster, and any of them may write what it sees. Each change is decided again when this server
may write, so none is made twice.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import MetadataResponse
from coordinator.topics import names
from coordinator.topics.registry import NO_ID, Topic
from coordinator.topics.topics import Topics

_log = logging.getLogger(__name__)

UNKNOWN_MAX = 3
GONE_MAX = 10_000
"""The ids of deleted topics that are remembered."""


class Seen(NamedTuple):
    """A topic as the cluster lists it."""

    topic_id: bytes
    partitions: int


class TopicFollower:
    """Brings the registry in line with the cluster."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._unknown: dict[bytes, int] = {}
        """Id of a topic -> look-ups in a row that did not know it."""
        self._deleted: dict[bytes, None] = {}
        self.is_behind = False
        """Whether the last look-up showed changes, behind which there may be more."""

    def forget(self, topic_id: bytes) -> None:
        """Notes that a topic was deleted, by whichever worker: a list that has it is out of date."""
        self._unknown.pop(topic_id, None)
        self._deleted[topic_id] = None
        if len(self._deleted) > GONE_MAX:
            del self._deleted[next(iter(self._deleted))]

    def is_foreign(self, response: MetadataResponse) -> bool:
        """Whether the registry has topics, and the cluster has none of them: it is another cluster's."""
        return bool(self._here()) and self.unlisted(response) == self._here()

    def unlisted(self, response: MetadataResponse) -> set[bytes]:
        """The ids of topics of the registry that a list of all topics does not have."""
        return self._here() - {each.topic_id for each in response.topics}

    def _here(self) -> set[bytes]:
        return {topic.topic_id for topic in self._topics.registry.topics.values() if not topic.is_internal}

    def follow(self, response: MetadataResponse, unknown: Collection[bytes], done: Callable[[], None]) -> None:
        """Applies what a look-up of all topics has found; `done` is called when it is durable, or was refused.

        `unknown`: unlisted ids that the cluster did not know when it was asked for them.
        """
        seen = seen_in(response)
        self._unknown = {topic_id: self._unknown.get(topic_id, 0) + 1 for topic_id in unknown}
        is_up_to_date = self._is_up_to_date(seen)
        self.is_behind = bool(unknown) or not is_up_to_date
        if is_up_to_date:
            done()
        else:
            self._topics.metadata.in_turn(lambda: self._apply(seen, done))

    def _is_up_to_date(self, seen: Mapping[str, Seen]) -> bool:
        topics = self._topics.registry.topics
        if any(count >= UNKNOWN_MAX for count in self._unknown.values()):
            return False
        return all(
            name in topics and topics[name].topic_id == each.topic_id and topics[name].partitions >= each.partitions
            for name, each in seen.items()
            if each.topic_id not in self._deleted
        )

    def _apply(self, seen: Mapping[str, Seen], done: Callable[[], None]) -> None:
        """Runs when this server may write, and the registry is what everybody knows."""
        left = 1

        def finished(_error: ErrorCode) -> None:
            nonlocal left
            left -= 1
            if not left:
                done()

        for topic in list(self._topics.registry.topics.values()):
            if topic.is_internal or names.collision_key(topic.name) in self._topics.claimed:
                continue
            now = seen.get(topic.name)
            is_replaced = now is not None and now.topic_id != topic.topic_id and now.topic_id not in self._deleted
            if is_replaced or self._unknown.get(topic.topic_id, 0) >= UNKNOWN_MAX:
                _log.info("event=topic_deleted topic=%s", topic.name)
                self.forget(topic.topic_id)
                left += 1
                self._topics.remove(topic, finished)
        grown: dict[str, int] = {}
        for name, each in seen.items():
            here = self._topics.registry.topics.get(name)
            if each.topic_id in self._deleted or names.collision_key(name) in self._topics.claimed:
                continue
            if here is None:
                _log.info("event=topic_found topic=%s partitions=%d", name, each.partitions)
                left += 1
                self._topics.create(Topic(name, each.topic_id, each.partitions), finished)
            elif here.topic_id == each.topic_id and here.partitions < each.partitions:
                grown[name] = each.partitions
        if grown:
            left += 1
            self._topics.grow(grown, finished)
        finished(ErrorCode.NONE)


def seen_in(response: MetadataResponse) -> dict[str, Seen]:
    """The topics of a look-up, by name. Internal ones are not among them: the server has its own."""
    return {
        each.name: Seen(each.topic_id, len(each.partitions))
        for each in response.topics
        if each.name is not None
        and each.name not in names.INTERNAL
        and not each.error_code
        and each.topic_id != NO_ID
        and each.partitions
    }
