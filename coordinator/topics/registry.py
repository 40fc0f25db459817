"""Which topics there are: a state machine whose records are Kafka's own metadata records.

Where is it kept? In one small log, `__cluster_metadata-0`, in the same batch format as everything else. The obvious
alternative, Kafka's `partition.metadata` file in every partition folder and a scan of the folders, has no moment at
which a topic of twelve partitions exists: a crash in the middle leaves five of them, and nothing that says how many
there should have been, nor the topic's settings. Here a creation is one batch (topic, settings, partitions): its
checksum makes it whole or absent, one sync makes it durable, and folders are only ever made for topics that the log
has. Deletion is one record likewise; folders that outlive it are swept at the next start. Producer ids are reserved
in the same log.

The log tells how things came to be, and a server on which topics come and go would tell for ever. So a start that finds
many more records than the topics there are need writes these anew at the log's end, durably, and then lets go of what
was before. Read from any point between, by way of a crash, the log says the same; that is why a topic's record begins
it from nothing. Kafka keeps snapshots in files of their own; here one more kind of file would be one more thing to be
found half-written.

`replay` is the only thing that changes the state, and it is called when the record is durable: nobody sees a topic that
a crash could take back.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from coordinator.protocol.messages import (
    ConfigRecord,
    Message,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from coordinator.topics import names
from coordinator.topics.metadata_records import NO_DIRECTORY, TOPIC_RESOURCE

NO_ID = bytes(16)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic; a changed one is another object."""

    name: str
    topic_id: bytes
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    """The settings it has of its own, by Kafka's names."""

    @property
    def is_internal(self) -> bool:
        return self.name in names.INTERNAL


class Registry:
    """All topics by name and by id, settings of other resources, and the next producer id that nobody holds."""

    __slots__ = (
        "by_id",
        "changes",
        "collisions",
        "next_producer_id",
        "other_configs",
        "partitions",
        "removed",
        "topics",
    )

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.partitions = 0
        """Of all topics but the server's own."""
        self.by_id: dict[bytes, Topic] = {}
        self.collisions: dict[str, str] = {}
        """Collision key (names.py) -> the name that holds it."""
        self.next_producer_id = 0
        self.changes = 0
        """Another number after every topic that is made, grown or removed."""
        self.other_configs: dict[tuple[int, str], dict[str, str]] = {}
        """Resource type and name -> settings, of resources that are no topics and have some."""
        self.removed: dict[str, None] = {}
        """Names of topics whose removal this log tells, and that were not made again: their folders may go."""

    def replay(self, message: Message) -> None:
        if isinstance(message, TopicRecord | PartitionRecord | RemoveTopicRecord):
            self.changes += 1
        if isinstance(message, TopicRecord):
            self._put(Topic(message.name, message.topic_id, 0))
            self.collisions[names.collision_key(message.name)] = message.name
            self.removed.pop(message.name, None)
        elif isinstance(message, PartitionRecord):
            topic = self.by_id.get(message.topic_id)
            if topic is not None:
                count = max(topic.partitions, message.partition_id + 1)
                if not topic.is_internal:
                    self.partitions += count - topic.partitions
                self._put(Topic(topic.name, topic.topic_id, count, topic.configs))
        elif isinstance(message, ConfigRecord):
            self._put_config(message)
        elif isinstance(message, RemoveTopicRecord):
            topic = self.by_id.pop(message.topic_id, None)
            if topic is not None:
                if not topic.is_internal:
                    self.partitions -= topic.partitions
                self.removed[topic.name] = None
                self.topics.pop(topic.name, None)
                self.collisions.pop(names.collision_key(topic.name), None)
        elif isinstance(message, ProducerIdsRecord):
            self.next_producer_id = max(self.next_producer_id, message.next_producer_id)

    def snapshot(self, node_id: int) -> Iterator[list[Message]]:
        """Batches of records that make this registry, the names of removed topics left out."""
        yield [ProducerIdsRecord(broker_id=node_id, next_producer_id=self.next_producer_id)]
        for topic in self.topics.values():
            yield list(creation(topic, node_id))
        for (resource_type, resource_name), configs in self.other_configs.items():
            yield [
                ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
                for name, value in configs.items()
            ]

    def configs_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The settings that a resource has of its own."""
        if resource_type == TOPIC_RESOURCE:
            topic = self.topics.get(name)
            return topic.configs if topic is not None else {}
        return self.other_configs.get((resource_type, name), {})

    def _put_config(self, record: ConfigRecord) -> None:
        resource = record.resource_type, record.resource_name
        configs = {name: value for name, value in self.configs_of(*resource).items() if name != record.name}
        if record.value is not None:
            configs[record.name] = record.value
        if record.resource_type != TOPIC_RESOURCE:
            self.other_configs[resource] = configs
            if not configs:
                del self.other_configs[resource]
        elif record.resource_name in self.topics:
            topic = self.topics[record.resource_name]
            self._put(Topic(topic.name, topic.topic_id, topic.partitions, MappingProxyType(configs)))

    def _put(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        self.by_id[topic.topic_id] = topic


def creation(topic: Topic, node_id: int) -> Iterator[Message]:
    """The records that make a topic: one batch."""
    yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
    for name, value in topic.configs.items():
        yield ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
    yield from growth(topic.topic_id, range(topic.partitions), node_id)


def growth(topic_id: bytes, indexes: Iterable[int], node_id: int) -> Iterator[Message]:
    """The records that give a topic partitions."""
    for index in indexes:
        yield PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=[node_id],
            isr=[node_id],
            leader=node_id,
            leader_epoch=0,
            partition_epoch=0,
            directories=[NO_DIRECTORY],
        )
