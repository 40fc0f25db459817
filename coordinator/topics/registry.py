"""The registry of topics: a state machine whose records are Kafka's metadata records (ReplicationControlManager.replay).

It is kept in one small log, `__cluster_metadata-0`, in the same batch format as everything else. The obvious alternative,
Kafka's `partition.metadata` file in every partition folder and a scan of the folders, has no moment at which a topic with
twelve partitions exists: a crash leaves five of them, and no record of how many there should have been, or of the topic's
settings. Here a creation is one batch (topic, settings, partitions): its checksum makes it complete or absent, one sync makes
it durable, and folders are only created for topics in the log. A deletion is one record; folders that outlive it are removed at
the next start. Producer ids are reserved in the same log.

The log is a history, which would grow for ever on a server where topics come and go. So a start that finds many more records
than the present topics need writes these at the end of the log, durably, and then deletes all earlier records. After a crash in
between, a replay from any point gives the same registry, because a topic's record always begins it from scratch. Kafka keeps
snapshots in files of their own; here that would be one more kind of file that can be half-written.

`replay` is the only method that changes the state, and it is called when the record is durable: nobody sees a topic that
a crash could undo.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from coordinator.protocol.messages import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    Message,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from coordinator.topics import client_quotas, names
from coordinator.topics.metadata_records import TOPIC_RESOURCE
from coordinator.topics.placements import Place, Placements, on_one, placed

NO_ID = bytes(16)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic. It is never changed in place: a change makes a new object."""

    name: str
    topic_id: bytes
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    """The settings that the topic overrides, by Kafka's names."""

    @property
    def is_internal(self) -> bool:
        return self.name in names.INTERNAL


class Registry:
    """All topics by name and by id, the settings of other resources, users, ACLs, and the next producer id not reserved."""

    __slots__ = (
        "acls", "by_id", "changes", "client_quotas", "collisions", "delegation_tokens", "feature_levels",
        "next_producer_id", "other_configs", "partitions", "placements", "removed", "scram_credentials", "topics",
    )  # fmt: skip

    def __init__(self, placements: Placements | None = None) -> None:
        """`placements`: None on a server that is one broker, which has everything."""
        self.placements = placements
        self.topics: dict[str, Topic] = {}
        self.partitions = 0
        """The number of partitions of all topics that are not internal."""
        self.by_id: dict[bytes, Topic] = {}
        self.collisions: dict[str, str] = {}
        """Collision key (names.py) -> the topic that has it."""
        self.next_producer_id = 0
        self.changes = 0
        """A number that changes with every topic that is created, extended or deleted."""
        self.other_configs: dict[tuple[int, str], dict[str, str]] = {}
        """(resource type, resource name) -> settings, for resources other than topics that have any."""
        self.scram_credentials: dict[tuple[str, int], UserScramCredentialRecord] = {}
        """By user and Kafka's code of the mechanism."""
        self.client_quotas: client_quotas.Quotas = {}
        """By entity and key."""
        self.acls: dict[bytes, AccessControlEntryRecord] = {}
        """By id."""
        self.delegation_tokens: dict[str, DelegationTokenRecord] = {}
        """By id."""
        self.feature_levels: dict[str, int] = {}
        """The finalized levels that clients have set, by feature; 0 counts, too."""
        self.removed: dict[str, None] = {}
        """Names of deleted topics that were not created again: their folders can be removed."""

    def replay(self, message: Message) -> None:
        """Applies one record of the metadata log."""
        if isinstance(message, TopicRecord | PartitionRecord | RemoveTopicRecord):
            self.changes += 1
        if isinstance(message, TopicRecord):
            known = self.by_id.get(message.topic_id)
            if known is not None and not known.is_internal:
                self.partitions -= known.partitions
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
                if self.placements is not None:
                    self.placements.replay(message)
        elif isinstance(message, ConfigRecord):
            self._put_config(message)
        elif isinstance(message, RemoveTopicRecord):
            topic = self.by_id.pop(message.topic_id, None)
            if topic is not None:
                if not topic.is_internal:
                    self.partitions -= topic.partitions
                self.removed[topic.name] = None
                if self.placements is not None:
                    for index in range(topic.partitions):
                        self.placements.pop((topic.topic_id, index), None)
                self.topics.pop(topic.name, None)
                self.collisions.pop(names.collision_key(topic.name), None)
        elif isinstance(message, UserScramCredentialRecord):
            # Taken out first, so that the last credential is always the one that was set last.
            self.scram_credentials.pop((message.name, message.mechanism), None)
            self.scram_credentials[message.name, message.mechanism] = message
        elif isinstance(message, RemoveUserScramCredentialRecord):
            self.scram_credentials.pop((message.name, message.mechanism), None)
        elif isinstance(message, ClientQuotaRecord):
            client_quotas.replay(self.client_quotas, message)
        elif isinstance(message, AccessControlEntryRecord):
            self.acls[message.id] = message
        elif isinstance(message, RemoveAccessControlEntryRecord):
            self.acls.pop(message.id, None)
        elif isinstance(message, DelegationTokenRecord):
            self.delegation_tokens[message.token_id] = message
        elif isinstance(message, RemoveDelegationTokenRecord):
            self.delegation_tokens.pop(message.token_id, None)
        elif isinstance(message, FeatureLevelRecord):
            self.feature_levels[message.name] = message.feature_level
        elif isinstance(message, ProducerIdsRecord):
            self.next_producer_id = max(self.next_producer_id, message.next_producer_id)

    def snapshot(self, node_id: int) -> Iterator[list[Message]]:
        """Batches of records that make this registry, without the names of deleted topics."""
        yield [ProducerIdsRecord(broker_id=node_id, next_producer_id=self.next_producer_id)]
        for topic in self.topics.values():
            yield list(creation(topic, self._placed(topic, node_id)))
        for (resource_type, resource_name), configs in self.other_configs.items():
            yield [
                ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
                for name, value in configs.items()
            ]
        quotas = client_quotas.snapshot(self.client_quotas)
        tokens = self.delegation_tokens.values()
        for record in (*self.scram_credentials.values(), *self.acls.values(), *quotas, *tokens):
            yield [record]
        for name, level in self.feature_levels.items():
            yield [FeatureLevelRecord(name=name, feature_level=level)]

    def _placed(self, topic: Topic, node_id: int) -> Place:
        placements = self.placements
        return on_one(node_id) if placements is None else lambda index: placements[topic.topic_id, index]

    def removals(self, later: "Registry") -> Iterator[Message]:
        """The records that remove what is here and not in a later registry of the same cluster."""
        for topic_id in self.by_id.keys() - later.by_id.keys():
            yield RemoveTopicRecord(topic_id=topic_id)
        for (resource_type, resource_name), configs in self.other_configs.items():
            for name in configs.keys() - later.configs_of(resource_type, resource_name).keys():
                yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=None)
        for user, mechanism in self.scram_credentials.keys() - later.scram_credentials.keys():
            yield RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)
        for acl_id in self.acls.keys() - later.acls.keys():
            yield RemoveAccessControlEntryRecord(id=acl_id)
        for token_id in self.delegation_tokens.keys() - later.delegation_tokens.keys():
            yield RemoveDelegationTokenRecord(token_id=token_id)
        for entity, values in self.client_quotas.items():
            for key in values.keys() - later.client_quotas.get(entity, {}).keys():
                yield client_quotas.quota_record(dict(entity), key, None)

    def configs_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The settings that a resource overrides."""
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


def creation(topic: Topic, place: Place) -> Iterator[Message]:
    """The records that create a topic; they must be in one batch."""
    yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
    for name, value in topic.configs.items():
        yield ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
    yield from growth(topic.topic_id, range(topic.partitions), place)


def internal_topic(
    registry: Registry,
    name: str,
    partitions: int,
    segment_bytes: int | None,
    cleanup_policy: str,
    new_id: Callable[[], bytes],
    place: Place,
) -> list[Message]:
    """The records that a registry lacks of a topic whose partitions are the logs of shards. `segment_bytes`: of these logs."""
    settings = {"cleanup.policy": cleanup_policy, "compression.type": "producer"}
    if name == names.SHARE_GROUP_STATE:
        # Age does not matter: only its coordinator knows which records are needed, also if a Kafka broker takes the log over.
        settings["retention.ms"] = "-1"
    if segment_bytes is not None:
        settings["segment.bytes"] = str(segment_bytes)
    topic = registry.topics.get(name)
    if topic is None:
        return list(creation(Topic(name, new_id(), partitions, settings), place))
    if topic.configs == settings:
        return []
    return [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=name, name=key, value=settings.get(key))
        for key in settings | dict(topic.configs)
    ]


def growth(topic_id: bytes, indexes: Iterable[int], place: Place) -> Iterator[Message]:
    """The records that add partitions to a topic."""
    for index in indexes:
        yield placed(topic_id, index, place(index))
