"""Lists, creates, describes, changes and deletes topics over the Kafka protocol.

In Kafka the controller creates and deletes topics. Every broker passes such requests on to it (KIP-590), so any server will do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordinator.client.reading import EARLIEST, LATEST
from coordinator.operations.client import Client, OperationFailed, error_name, refuse_error
from coordinator.operations.groups import Partition, positions
from coordinator.operations.json_values import topic_id_text
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    MetadataRequest,
    MetadataResponse,
)

_TOPIC = 2
"""The type of a topic in the APIs of configs."""
_SET, _DELETE = 0, 1
"""The operations of IncrementalAlterConfigs."""
_SOURCE_TOPIC = 1
"""The source of a config that the topic itself has, in DescribeConfigs."""
_BY_NAME = 5
"""The newest version of DeleteTopics that has a list of names."""
_NO_ID = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTopic:
    """A row of the list. `replicas` is the replication factor of the first partition."""

    name: str
    partitions: int
    replicas: int
    internal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedPartition:
    """A partition. `leader` is None if it has none, and then `start` and `end`, the offsets of its log, are None, too."""

    partition: int
    leader: int | None
    replicas: Sequence[int]
    in_sync: Sequence[int]
    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTopic:
    """A topic. `topic_id` is None if the server is too old for ids. `configs` are those that the topic itself has."""

    name: str
    topic_id: str | None
    internal: bool
    configs: Mapping[str, str | None]
    partitions: Sequence[DescribedPartition]


def list_topics(client: Client) -> list[ListedTopic]:
    """All topics, in the order of their names."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer = client.any().ask(request)
    found = [
        ListedTopic(
            name=topic.name or "",
            partitions=len(topic.partitions),
            replicas=len(topic.partitions[0].replica_nodes) if topic.partitions else 0,
            internal=topic.is_internal,
        )
        for topic in answer.topics
    ]
    return sorted(found, key=lambda topic: topic.name)


def create(client: Client, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> bool:
    """Creates a topic; -1 is the server's default. Returns False if it exists already. Raises OperationFailed."""
    topic = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=client.timeout_ms)
    [outcome] = client.any().ask(request).topics
    if outcome.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
        return False
    refuse_error(outcome.error_code, f"cannot create topic {name}", outcome.error_message)
    return True


def delete(client: Client, names: Sequence[str]) -> dict[str, str | None]:
    """Deletes topics. Returns for each the reason why it still exists, or None."""
    request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=client.timeout_ms)
    answer = client.any().ask(request, version_max=_BY_NAME)
    errors = {
        each.name: each.error_message or error_name(each.error_code) for each in answer.responses if each.error_code
    }
    return {name: errors.get(name) for name in names}


def alter(client: Client, name: str, partitions: int | None, configs: Mapping[str, str], unset: Sequence[str]) -> None:
    """Sets and unsets configs of a topic, and gives it more partitions. Raises OperationFailed."""
    changes = [
        *(
            IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=_SET, value=text)
            for key, text in configs.items()
        ),
        *(
            IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=_DELETE, value=None)
            for key in unset
        ),
    ]
    if changes:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=_TOPIC, resource_name=name, configs=changes
        )
        altered = client.any().ask(IncrementalAlterConfigsRequest(resources=[resource]))
        refuse_error(altered.responses[0].error_code, f"cannot alter topic {name}", altered.responses[0].error_message)
    if partitions is not None:
        topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=partitions, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=client.timeout_ms)
        [outcome] = client.any().ask(request).results
        refuse_error(outcome.error_code, f"cannot add partitions to topic {name}", outcome.error_message)


def describe(client: Client, names: Sequence[str]) -> list[DescribedTopic]:
    """Topics with their partitions and configs. Raises OperationFailed if one does not exist."""
    answer = client.metadata(list(names))
    topics = {topic.name or "": topic for topic in answer.topics}
    for name, topic in topics.items():
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise OperationFailed(f"there is no topic {name}")
        refuse_error(topic.error_code, f"cannot describe topic {name}")
    led = [(name, each.partition_index) for name in names for each in topics[name].partitions if each.leader_id >= 0]
    starts = positions(client, dict.fromkeys(led, EARLIEST))
    ends = positions(client, dict.fromkeys(led, LATEST))
    configs = _configs(client, names)
    return [_described(topics[name], configs[name], starts, ends) for name in names]


def _described(
    topic: MetadataResponse.MetadataResponseTopic,
    configs: Mapping[str, str | None],
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
) -> DescribedTopic:
    name = topic.name or ""
    return DescribedTopic(
        name=name,
        topic_id=None if topic.topic_id == _NO_ID else topic_id_text(topic.topic_id),
        internal=topic.is_internal,
        configs=configs,
        partitions=[
            DescribedPartition(
                partition=each.partition_index,
                leader=each.leader_id if each.leader_id >= 0 else None,
                replicas=each.replica_nodes,
                in_sync=each.isr_nodes,
                start=starts.get((name, each.partition_index)),
                end=ends.get((name, each.partition_index)),
            )
            for each in sorted(topic.partitions, key=lambda each: each.partition_index)
        ],
    )


def _configs(client: Client, names: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """The configs that each topic itself has."""
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=_TOPIC, resource_name=name, configuration_keys=None
        )
        for name in names
    ]
    answer = client.any().ask(DescribeConfigsRequest(resources=resources))
    found: dict[str, dict[str, str | None]] = {}
    for each in answer.results:
        refuse_error(each.error_code, f"cannot describe the configs of topic {each.resource_name}", each.error_message)
        own = [entry for entry in each.configs if entry.config_source == _SOURCE_TOPIC]
        found[each.resource_name] = {entry.name: entry.value for entry in own}
    return found
