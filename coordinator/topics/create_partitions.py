"""CreatePartitions: adds partitions to existing topics, whose number can never shrink.

This is Kafka's ReplicationControlManager.createPartitions.

The valid topics get their partitions in one batch of the metadata log.
"""

from collections import Counter
from collections.abc import Callable

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import CreatePartitionsRequest, CreatePartitionsResponse
from coordinator.topics import names
from coordinator.topics.create import TOO_MANY
from coordinator.topics.placements import Place, assigned, check_brokers, check_up
from coordinator.topics.topics import CountMutation, Topics, nobody_counts

_Result = CreatePartitionsResponse.CreatePartitionsTopicResult


def create_partitions(
    topics: Topics,
    request: CreatePartitionsRequest,
    reply: Callable[[CreatePartitionsResponse], None],
    count_mutation: CountMutation = nobody_counts,
) -> None:
    """Calls `reply` when the new partitions are visible. The response has the errors of the topics that were not extended:

    INVALID_REQUEST               a duplicate name
    POLICY_VIOLATION              too many partitions for one request or for the server, or the log of a shard
    UNKNOWN_TOPIC_OR_PARTITION
    INVALID_PARTITIONS            the topic has as many already, or more
    INVALID_REPLICA_ASSIGNMENT
    THROTTLING_QUOTA_EXCEEDED     `count_mutation` raises it
    KAFKA_STORAGE_ERROR           the metadata log cannot be written
    NOT_CONTROLLER                another server that shares it was quicker
    """
    topics.metadata.in_turn(lambda: _create(topics, request, reply, count_mutation))


def refusal(name: str, error: KafkaError) -> CreatePartitionsResponse.CreatePartitionsTopicResult:
    """The result of a topic that was not extended."""
    return _Result(name=name, error_code=error.code, error_message=error.message)


def _create(
    topics: Topics,
    request: CreatePartitionsRequest,
    reply: Callable[[CreatePartitionsResponse], None],
    count_mutation: CountMutation,
) -> None:
    times_named = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatePartitionsResponse.CreatePartitionsTopicResult] = {}
    wanted: dict[str, int] = {}
    places: dict[str, Place] = {}
    added = sum(_added(topics, topic) for topic in request.topics)
    for topic in request.topics:
        try:
            _check_request(topics, times_named[topic.name], added)
            _check(topics, topic)
            count_mutation(_added(topics, topic))
        except KafkaError as error:
            results[topic.name] = refusal(topic.name, error)
        else:
            results[topic.name] = _Result(name=topic.name)
            wanted[topic.name] = topic.count
            if topic.assignments is not None:
                first, replicas = topics.partition_count(topic.name) or 0, topic.assignments
                places[topic.name] = lambda index, first=first, replicas=replicas: assigned(  # type: ignore[misc]
                    replicas[index - first].broker_ids, topics.up
                )

    def finished(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            results.update({name: refusal(name, KafkaError(error)) for name in wanted})
        reply(CreatePartitionsResponse(results=list(results.values())))

    if wanted and not request.validate_only:
        topics.grow(wanted, finished, places)
    else:
        finished(ErrorCode.NONE)


def _added(topics: Topics, wanted: CreatePartitionsRequest.CreatePartitionsTopic) -> int:
    return max(0, wanted.count - (topics.partition_count(wanted.name) or 0))


def _check_request(topics: Topics, times_named: int, added: int) -> None:
    if times_named > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if added > topics.config.topic_partitions_max:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of additional partitions per request.")
    if added and not topics.may_add(added):
        raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_MANY)


def _check(topics: Topics, wanted: CreatePartitionsRequest.CreatePartitionsTopic) -> None:
    topic = topics.registry.topics.get(wanted.name)
    if topic is None or names.collision_key(wanted.name) in topics.claimed:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if wanted.count == topic.partitions:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {topic.partitions} partition(s).")
    if wanted.count < topic.partitions:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {topic.partitions} partition(s); "
            f"{wanted.count} would not be an increase.",
        )
    if topics.is_served_by_shards(topic.name):
        # A group is stored in the partition that its name hashes to, and would no longer be found.
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"The partitions of internal topic {topic.name} are its shards.")
    if wanted.assignments is not None:
        more = wanted.count - topic.partitions
        if len(wanted.assignments) != more:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {more} additional partition(s), but only {len(wanted.assignments)} "
                "assignment(s) were specified.",
            )
        for index, assignment in enumerate(wanted.assignments, topic.partitions):
            check_brokers(topics.nodes, assignment.broker_ids)
            check_up(topics.up, index, assignment.broker_ids)
