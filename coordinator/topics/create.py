"""CreateTopics: every topic of the request is validated by itself, and the valid ones are created.

This is Kafka's ReplicationControlManager.createTopics, with its order of checks: a name twice in one request, the total number
of partitions, the name, existence, collision, settings, and last partitions, replicas and a manual assignment.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import CreateTopicsRequest, CreateTopicsResponse
from coordinator.topics import names, topic_settings
from coordinator.topics.placements import Place, Placement, assigned, check_brokers, check_factor, check_up
from coordinator.topics.registry import Topic
from coordinator.topics.topics import CountMutation, Topics, at_once, nobody_counts

_DEFAULT = -1
_PIECE_TOPICS = 20
"""Topics that are validated or created in about a millisecond."""
TOO_MANY = "The server would have more partitions than limit.partitions allows."
_Result = CreateTopicsResponse.CreatableTopicResult


def create_topics(
    topics: Topics,
    request: CreateTopicsRequest,
    reply: Callable[[CreateTopicsResponse], None],
    count_mutation: CountMutation = nobody_counts,
    run: Callable[[Iterator[None]], None] = at_once,
) -> None:
    """Calls `reply` when all valid topics are created and visible. `run` does the work, which may be in slices.

    The response has the errors of the others:

    INVALID_REQUEST              a duplicate name, a contradictory assignment, or `__cluster_metadata`
    POLICY_VIOLATION             too many partitions for one request, or for the server
    INVALID_TOPIC_EXCEPTION      an illegal name, or one that collides with another
    TOPIC_ALREADY_EXISTS
    INVALID_CONFIG
    INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT
    THROTTLING_QUOTA_EXCEEDED    `count_mutation` raises it
    KAFKA_STORAGE_ERROR          the metadata log cannot be written
    NOT_CONTROLLER               another server that shares it was quicker
    """
    metadata = topics.metadata
    metadata.when_leading(lambda: run(metadata.steps(_create(topics, request, reply, count_mutation))))


def _create(
    topics: Topics,
    request: CreateTopicsRequest,
    reply: Callable[[CreateTopicsResponse], None],
    count_mutation: CountMutation,
) -> Iterator[None]:
    """Validates or creates a few topics in each step."""
    results: dict[str, _Result] = {}
    valid: list[tuple[Topic, Place]] = []
    times_named = Counter(topic.name for topic in request.topics)
    partitions_requested = sum(_count(topics, topic) for topic in request.topics)
    configs = _DescribedConfigs(topics)
    for number, creatable in enumerate(request.topics, 1):
        if not number % _PIECE_TOPICS:
            yield
        name = creatable.name
        if name in results:
            continue
        try:
            _check_request(topics, times_named[name], partitions_requested)
            topic, place = _valid_topic(topics, creatable)
            count_mutation(topic.partitions)
        except KafkaError as error:
            results[name] = refusal(name, error)
        else:
            results[name] = _result(topic, len(place(0).replicas), configs)
            if not request.validate_only:
                valid.append((topic, place))
    left = len(valid)

    def answer() -> None:
        reply(CreateTopicsResponse(topics=list(results.values())))

    def finished(topic: Topic, error: ErrorCode) -> None:
        nonlocal left
        if error is not ErrorCode.NONE:
            results[topic.name] = refusal(topic.name, KafkaError(error))
        left -= 1
        if not left:
            answer()

    if not valid:
        answer()
    for number, (topic, place) in enumerate(valid, 1):
        if not number % _PIECE_TOPICS:
            yield
        key = names.collision_key(topic.name)
        if topics.registry.collisions.get(key) == topic.name:
            # Another request has created it since it was validated.
            finished(topic, ErrorCode.TOPIC_ALREADY_EXISTS)
        elif key in topics.claimed or key in topics.registry.collisions:
            # Two names of this request differ only in '.' and '_': the first one has claimed the key.
            finished(topic, ErrorCode.INVALID_TOPIC_EXCEPTION)
        else:
            topics.create(topic, partial(finished, topic), place)


def refusal(name: str, error: KafkaError) -> CreateTopicsResponse.CreatableTopicResult:
    """The result of a topic that was not created."""
    return _Result(name=name, error_code=error.code, error_message=error.message)


def hide_configs(result: CreateTopicsResponse.CreatableTopicResult) -> None:
    """Takes out of the result of a topic that was created what a client that may not describe configs must not see."""
    result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    result.num_partitions = result.replication_factor = -1
    result.configs = []


def _count(topics: Topics, creatable: CreateTopicsRequest.CreatableTopic) -> int:
    if creatable.assignments:
        return len(creatable.assignments)
    return topics.config.num_partitions if creatable.num_partitions == _DEFAULT else max(0, creatable.num_partitions)


def _check_request(topics: Topics, times_named: int, partitions_requested: int) -> None:
    if times_named > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if partitions_requested > topics.config.topic_partitions_max:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    if not topics.may_add(partitions_requested):
        raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_MANY)


def _valid_topic(topics: Topics, creatable: CreateTopicsRequest.CreatableTopic) -> tuple[Topic, Place]:
    name = creatable.name
    if name == names.CLUSTER_METADATA:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    reason = names.why_invalid(name)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
    key = names.collision_key(name)
    holder = topics.registry.collisions.get(key)
    if holder == name or key in topics.claimed:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if holder is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {holder}")
    overrides = topic_settings.check((config.name, config.value) for config in creatable.configs)
    if creatable.assignments:
        place = _assigned(topics, creatable)
    else:
        if creatable.num_partitions != _DEFAULT and creatable.num_partitions <= 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        factor = creatable.replication_factor
        if factor != _DEFAULT:
            check_factor(factor, topics.nodes)
        place = topics.spread(name) if factor == _DEFAULT else topics.spread(name, factor)
    return Topic(name, topics.new_topic_id(), _count(topics, creatable), MappingProxyType(overrides)), place


def _assigned(topics: Topics, creatable: CreateTopicsRequest.CreatableTopic) -> Place:
    """Where a manual assignment puts the partitions. Raises INVALID_REQUEST and INVALID_REPLICA_ASSIGNMENT."""
    conflict = "A manual partition assignment was specified, but {} was not set to -1."
    if creatable.replication_factor != _DEFAULT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, conflict.format("replication factor"))
    if creatable.num_partitions != _DEFAULT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, conflict.format("numPartitions"))
    seen: dict[int, Placement] = {}
    expected = None
    for assignment in creatable.assignments:
        if assignment.partition_index in seen:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {assignment.partition_index}",
            )
        check_brokers(topics.nodes, assignment.broker_ids, expected)
        check_up(topics.up, assignment.partition_index, assignment.broker_ids)
        expected = len(assignment.broker_ids)
        seen[assignment.partition_index] = assigned(assignment.broker_ids, topics.up)
    if seen.keys() != set(range(len(seen))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return seen.__getitem__


class _DescribedConfigs:
    """The settings that the response shows for each topic: forty, which are the same for topics with the same overrides."""

    def __init__(self, topics: Topics) -> None:
        self._config = topics.config
        self._known: dict[frozenset[tuple[str, str]], list[CreateTopicsResponse.CreatableTopicConfigs]] = {}

    def of(self, overrides: Mapping[str, str]) -> list[CreateTopicsResponse.CreatableTopicConfigs]:
        key = frozenset(overrides.items())
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = [
                CreateTopicsResponse.CreatableTopicConfigs(
                    name=value.name, value=value.value, config_source=value.source
                )
                for value in topic_settings.describe(overrides, self._config)
            ]
        return found


def _result(topic: Topic, replicas: int, configs: _DescribedConfigs) -> _Result:
    return _Result(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=topic.partitions,
        replication_factor=replicas,
        configs=configs.of(topic.configs),
    )
