"""The APIs of the data plane and of the cluster: responses in every version, as of Kafka 4.4."""

from dataclasses import replace

import pytest

from coordinator.groups.settings import GroupsConfig
from coordinator.protocol import messages
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeTopicPartitionsRequest,
    FetchRequest,
    IncrementalAlterConfigsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from coordinator.transactions.settings import TransactionsConfig
from tests.support.asking import CLUSTER_ID, ReplyTarget, Server, answer, ask
from tests.topics.data_plane import batch

TOPIC = "t"
EVERY_VERSION = [
    (name, version)
    for name, first, last in [
        ("Produce", 3, 13),
        ("Fetch", 4, 18),
        ("ListOffsets", 1, 11),
        ("Metadata", 0, 13),
        ("FindCoordinator", 0, 6),
        ("ApiVersions", 0, 5),
        ("CreateTopics", 2, 7),
        ("DeleteTopics", 1, 6),
        ("InitProducerId", 0, 5),
        ("DescribeCluster", 0, 2),
        ("DescribeConfigs", 1, 4),
        ("AlterConfigs", 0, 2),
        ("IncrementalAlterConfigs", 0, 1),
        ("CreatePartitions", 0, 3),
        ("DeleteRecords", 0, 2),
        ("OffsetForLeaderEpoch", 2, 4),
        ("DescribeLogDirs", 1, 5),
        ("DescribeTopicPartitions", 0, 0),
    ]
    for version in range(first, last + 1)
]


@pytest.fixture
def server():
    server = Server(num_partitions=3)
    server.plane.create(TOPIC, 2)
    return server


def names(*wanted):
    return [MetadataRequest.MetadataRequestTopic(name=name) for name in wanted]


def sensible(server, name, version):
    """Fields of a request that succeeds."""
    topic = {"topic_id": server.topics.topic_id(TOPIC)} if version >= 13 else {"topic": TOPIC}
    match name:
        case "Produce":
            named = {"topic_id": topic["topic_id"]} if version >= 13 else {"name": TOPIC}
            data = [ProduceRequest.PartitionProduceData(index=0, records=batch())]
            return {"acks": 1, "topic_data": [ProduceRequest.TopicProduceData(**named, partition_data=data)]}
        case "Fetch":
            asked = [FetchRequest.FetchPartition(partition=0, partition_max_bytes=100)]
            return {"topics": [FetchRequest.FetchTopic(**topic, partitions=asked)]}
        case "ListOffsets":
            asked = [ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)]
            return {"topics": [ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=asked)]}
        case "Metadata":
            return {"topics": names(TOPIC)}
        case "FindCoordinator":
            return {"key": "g"} if version < 4 else {"coordinator_keys": ["g", ""]}
        case "ApiVersions":
            return {"client_software_name": "a", "client_software_version": "1"}
        case "CreateTopics":
            return {
                "topics": [CreateTopicsRequest.CreatableTopic(name="new", num_partitions=-1, replication_factor=-1)]
            }
        case "DeleteTopics" if version < 6:
            return {"topic_names": [TOPIC]}
        case "DeleteTopics":
            return {"topics": [DeleteTopicsRequest.DeleteTopicState(name=TOPIC)]}
        case "InitProducerId":
            return {"transactional_id": None}
        case "CreatePartitions":
            return {"topics": [CreatePartitionsRequest.CreatePartitionsTopic(name=TOPIC, count=5, assignments=None)]}
        case "DeleteRecords":
            asked = [DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=0)]
            return {"topics": [DeleteRecordsRequest.DeleteRecordsTopic(name=TOPIC, partitions=asked)]}
        case "OffsetForLeaderEpoch":
            asked = [OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=0)]
            return {"topics": [OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=TOPIC, partitions=asked)]}
        case "DescribeLogDirs":
            return {"topics": [DescribeLogDirsRequest.DescribableLogDirTopic(topic=TOPIC, partitions=[0])]}
        case "DescribeTopicPartitions":
            return {"topics": [DescribeTopicPartitionsRequest.TopicRequest(name=TOPIC)]}
        case "DescribeConfigs":
            return {"resources": [DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name=TOPIC)]}
        case "AlterConfigs":
            return {"resources": [AlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name=TOPIC)]}
        case "IncrementalAlterConfigs":
            asked = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name=TOPIC)
            return {"resources": [asked]}
    return {}


def errors(message):
    """Every error code in a message and the structures in it."""
    found = []
    for field in getattr(message, "__slots__", ()):
        value = getattr(message, field)
        if field == "error_code":
            found.append(value)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, messages.Message):
                found += errors(item)
    return found


@pytest.mark.parametrize(("name", "version"), EVERY_VERSION)
def test_every_version_is_answered(server, name, version):
    given = answer(server, name, version, **sensible(server, name, version))
    assert set(errors(given)) <= {0}


@pytest.mark.parametrize(("name", "version"), EVERY_VERSION)
def test_every_version_can_be_refused(server, name, version):
    api = next(api for api in server.apis.values() if api.name == name)
    request = getattr(messages, f"{name}Request")(**sensible(server, name, version))
    message = api.refusal(request, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "why"), version)
    payload = Codec.of().encoder(f"{name}Response", version)(message)
    read, _ = Codec.of().decoder(f"{name}Response", version)(payload, 0)
    had_no_place_for_it = {("Fetch", 4), ("Fetch", 5), ("Fetch", 6), ("DescribeLogDirs", 1), ("DescribeLogDirs", 2)}
    assert (name, version) in had_no_place_for_it or ErrorCode.UNKNOWN_SERVER_ERROR in errors(read)


# --- ApiVersions ------------------------------------------------------------------------------------------------------


def test_api_versions_lists_the_supported_apis(server):
    ranges = {key.api_key: (key.min_version, key.max_version) for key in answer(server, "ApiVersions", 0).api_keys}
    assert list(ranges) == sorted(server.apis)
    assert ranges[0] == (0, 13), "librdkafka looks for Produce 0 and never sends it"
    assert {key: ranges[key] for key in ranges if key} == {key: api.versions for key, api in server.apis.items() if key}


@pytest.mark.parametrize(("version", "level"), [(2, 0), (3, 2), (4, 2), (4, 1), (4, 0)])
def test_the_levels_of_transactions_and_of_streams_groups_are_the_features(server, version, level):
    server.config = replace(server.config, transactions=TransactionsConfig(transaction_version=level))
    given = answer(server, "ApiVersions", version, client_software_name="a", client_software_version="1")
    supported = [(each.name, each.min_version, each.max_version) for each in given.supported_features]
    from_zero = [("share.version", 0, 2), ("streams.version", 0, 1), ("transaction.version", 0, 2)]
    assert (
        supported
        == {
            2: [],
            3: [("metadata.version", 33, 33)],
            4: [("group.version", 0, 1), ("metadata.version", 33, 33), *from_zero],
        }[version]
    )
    finalized = [(each.name, each.min_version_level, each.max_version_level) for each in given.finalized_features]
    levels = [("group.version", 1, 1), ("metadata.version", 33, 33), ("share.version", 2, 2), ("streams.version", 1, 1)]
    levels.append(("transaction.version", level, level))
    assert finalized == ([each for each in levels if each[1]] if version >= 3 else [])
    assert given.finalized_features_epoch == (0 if version >= 3 else -1)


def test_a_server_without_streams_groups_has_no_streams_version(server):
    groups = GroupsConfig(group_coordinator_rebalance_protocols=("classic", "consumer"))
    server.config = replace(server.config, groups=groups)
    given = answer(server, "ApiVersions", 4, client_software_name="a", client_software_version="1")
    assert "streams.version" in {each.name for each in given.supported_features}
    assert "streams.version" not in {each.name for each in given.finalized_features}


@pytest.mark.parametrize(("software", "version"), [("", "1"), ("a b", "1"), ("a", ""), ("-a", "1"), ("a", "1-")])
def test_the_name_of_the_client_software_is_validated(server, software, version):
    given = answer(server, "ApiVersions", 3, client_software_name=software, client_software_version=version)
    assert (given.error_code, given.api_keys) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (CLUSTER_ID, 1, "NONE"),
        (None, -1, "NONE"),
        (CLUSTER_ID, -1, "INVALID_REQUEST"),
        (None, 7, "INVALID_REQUEST"),
        ("x" * 22, 1, "REBOOTSTRAP_REQUIRED"),
        (CLUSTER_ID, 7, "REBOOTSTRAP_REQUIRED"),
    ],
)
def test_a_client_that_expects_another_node_must_rebootstrap(server, cluster_id, node_id, error):
    fields = {"client_software_name": "a", "client_software_version": "1"}
    given = answer(server, "ApiVersions", 5, cluster_id=cluster_id, node_id=node_id, **fields)
    assert ErrorCode(given.error_code).name == error
    assert bool(given.api_keys) is (error == "NONE")


def test_an_unsupported_version_gets_the_range_of_api_versions_alone(server):
    exchange = ReplyTarget(server.apis[18], 0, None, server.apis)
    server.apis[18].handle(server, exchange)
    assert exchange.payload.hex() == "0023" + "00000001" + "001200000005"


# --- Metadata ---------------------------------------------------------------------------------------------------------


def test_a_topic_is_described_as_led_by_the_one_node(server):
    given = answer(server, "Metadata", 13, topics=names(TOPIC))
    assert [(b.node_id, b.host, b.port, b.rack) for b in given.brokers] == [(1, "kafka.example", 9092, None)]
    assert (given.cluster_id, given.controller_id) == (CLUSTER_ID, 1)
    (topic,) = given.topics
    assert (topic.name, topic.topic_id, topic.is_internal) == (TOPIC, server.topics.topic_id(TOPIC), False)
    assert [
        (p.partition_index, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes, p.offline_replicas)
        for p in topic.partitions
    ] == [(0, 1, 0, [1], [1], []), (1, 1, 0, [1], [1], [])]


def test_a_partition_whose_log_is_damaged_has_no_leader_as_in_kafka(server):
    """Seen with 4.4.0: two log directories, one of them gone."""
    server.topics.offline[TOPIC] = frozenset({1})
    (topic,) = answer(server, "Metadata", 13, topics=names(TOPIC)).topics
    assert [
        (p.error_code, p.leader_id, p.replica_nodes, p.isr_nodes, p.offline_replicas) for p in topic.partitions
    ] == [(ErrorCode.NONE, 1, [1], [1], []), (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1], [], [1])]
    asked = [DescribeTopicPartitionsRequest.TopicRequest(name=TOPIC)]
    (described,) = answer(server, "DescribeTopicPartitions", 0, topics=asked).topics
    assert [
        (p.error_code, p.leader_id, p.isr_nodes, p.eligible_leader_replicas, p.offline_replicas)
        for p in described.partitions
    ] == [(ErrorCode.NONE, 1, [1], [], []), (ErrorCode.NONE, -1, [], [1], [1])]


@pytest.mark.parametrize("limit", [1, 2])
def test_an_answer_about_many_topics_is_encoded_in_pieces_whether_another_page_follows_or_not(server, limit):
    wanted = [f"n{number:03}" for number in range(300)] + [TOPIC]
    asked = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in wanted]
    exchange = ask(server, "DescribeTopicPartitions", 0, topics=asked, response_partition_limit=limit)
    assert [topic.name for topic in exchange.answer.topics] == wanted
    assert (exchange.answer.next_cursor is None) == (limit == 2)
    assert exchange.pieces > 12


@pytest.mark.parametrize(
    ("version", "topics", "count"), [(0, [], 1), (1, None, 1), (1, [], 0), (13, None, 1), (13, [], 0)]
)
def test_null_is_all_and_empty_is_none_except_in_version_0(server, version, topics, count):
    assert len(answer(server, "Metadata", version, topics=topics).topics) == count


def test_a_missing_topic_is_created_and_listed_the_next_time(server):
    (topic,) = answer(server, "Metadata", 1, topics=names("new")).topics
    assert (topic.error_code, topic.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    (topic,) = answer(server, "Metadata", 1, topics=names("new")).topics
    assert (topic.error_code, len(topic.partitions)) == (ErrorCode.NONE, 3)


@pytest.mark.parametrize("enabled", [True, False])
def test_a_topic_is_created_only_if_client_and_server_allow_it(enabled):
    server = Server(auto_create_topics_enable=enabled)
    answer(server, "Metadata", 12, topics=names("new"), allow_auto_topic_creation=not enabled)
    assert server.topics.topic_id("new") is None


def test_topics_of_invalid_colliding_and_internal_names_are_not_created(server):
    server.plane.create("a.b")
    given = answer(server, "Metadata", 12, topics=names("a b", "a_b", "__transaction_state", "a b"))
    assert [(t.name, ErrorCode(t.error_code).name, t.is_internal) for t in given.topics] == [
        ("a b", "INVALID_TOPIC_EXCEPTION", False),
        ("a_b", "UNKNOWN_TOPIC_OR_PARTITION", False),
        ("__transaction_state", "UNKNOWN_TOPIC_OR_PARTITION", True),
    ]
    assert set(server.topics.registry.topics) == {TOPIC, "a.b"}


def test_topics_by_id(server):
    wanted = MetadataRequest.MetadataRequestTopic
    known = server.topics.topic_id(TOPIC)
    asked = [wanted(topic_id=known, name=None), wanted(topic_id=b"x" * 16, name=None), wanted(name="other")]
    given = answer(server, "Metadata", 12, topics=asked)
    assert [(t.error_code, t.name, t.topic_id) for t in given.topics] == [
        (ErrorCode.UNKNOWN_TOPIC_ID, None, b"x" * 16),
        (ErrorCode.NONE, TOPIC, known),
    ]
    refused = answer(server, "Metadata", 11, topics=[wanted(topic_id=known, name=TOPIC)])
    assert (refused.brokers, refused.topics[0].error_code) == ([], ErrorCode.INVALID_REQUEST)


def test_authorized_operations_are_sent_on_request(server):
    asked = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    given = answer(server, "Metadata", 8, topics=names(TOPIC), **asked)
    assert (given.cluster_authorized_operations, given.topics[0].topic_authorized_operations) == (8096, 3576)
    given = answer(server, "Metadata", 8, topics=names(TOPIC))
    assert (given.cluster_authorized_operations, given.topics[0].topic_authorized_operations) == (-(2**31), -(2**31))


# --- the others -------------------------------------------------------------------------------------------------------


def test_the_cluster_is_one_node(server):
    given = answer(server, "DescribeCluster", 2, include_cluster_authorized_operations=True)
    assert (given.cluster_id, given.controller_id, given.cluster_authorized_operations) == (CLUSTER_ID, 1, 8096)
    assert [(b.broker_id, b.host, b.port, b.is_fenced) for b in given.brokers] == [(1, "kafka.example", 9092, False)]
    assert answer(server, "DescribeCluster", 1, endpoint_type=2).error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert answer(server, "DescribeCluster", 1, endpoint_type=3).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def test_this_node_coordinates_every_group(server):
    for version in range(1, 4):
        given = answer(server, "FindCoordinator", version, key="g")
        assert (given.error_code, given.error_message, given.node_id) == (0, "NONE", 1)
    given = answer(server, "FindCoordinator", 6, coordinator_keys=["g", "", "g"])
    assert [(c.key, c.node_id, c.host, c.port, c.error_code, c.error_message) for c in given.coordinators] == [
        (key, 1, "kafka.example", 9092, 0, "") for key in ("g", "", "g")
    ]


@pytest.mark.parametrize("key_type", [0, 1])
def test_groups_and_transactions_are_coordinated_by_this_node(server, key_type):
    given = answer(server, "FindCoordinator", 3, key="g", key_type=key_type)
    assert (given.error_code, given.node_id, given.host, given.port) == (0, 1, "kafka.example", 9092)


@pytest.mark.parametrize("key_type", [3, 9])
def test_nothing_else_is_coordinated(server, key_type):
    given = answer(server, "FindCoordinator", 3, key="g", key_type=key_type)
    assert (given.error_code, given.node_id, given.host, given.port) == (ErrorCode.INVALID_REQUEST, -1, "", -1)
    (given,) = answer(server, "FindCoordinator", 6, coordinator_keys=["g"], key_type=key_type).coordinators
    assert (given.error_code, given.node_id, given.host, given.port) == (ErrorCode.INVALID_REQUEST, -1, "", -1)


def test_an_idempotent_producer_gets_a_new_id_whatever_it_had(server):
    given = [answer(server, "InitProducerId", 4, transactional_id=None) for _ in range(2)]
    assert [(a.error_code, a.producer_id, a.producer_epoch) for a in given] == [(0, 0, 0), (0, 1, 0)]
    given = answer(server, "InitProducerId", 4, transactional_id=None, producer_id=0, producer_epoch=3)
    assert (given.producer_id, given.producer_epoch) == (2, 0)
    for fields in (
        {"transactional_id": None, "producer_id": 5},
        {"transactional_id": None, "producer_epoch": 5},
    ):
        given = answer(server, "InitProducerId", 4, **fields)
        assert (given.error_code, given.producer_id, given.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


def test_acks_0_has_no_response_and_its_failure_closes_the_connection(server):
    fields = sensible(server, "Produce", 9) | {"acks": 0}
    exchange = ask(server, "Produce", 9, **fields)
    assert (exchange.payload, exchange.closed) == (b"", None)
    fields["topic_data"][0].name = "nope"
    exchange = ask(server, "Produce", 9, **fields)
    assert (exchange.payload, exchange.closed) == (None, "a batch sent with acks=0 was refused")


def test_a_fetch_waits_for_records_and_is_cancelled_with_its_connection(server):
    fields = sensible(server, "Fetch", 12) | {"max_wait_ms": 500, "min_bytes": 1}
    waiting, dropped = ask(server, "Fetch", 12, **fields), ask(server, "Fetch", 12, **fields)
    assert (waiting.answer, dropped.answer) == (None, None)
    dropped.on_close()
    ask(server, "Produce", 9, **sensible(server, "Produce", 9))
    assert waiting.answer.responses[0].partitions[0].records
    assert dropped.answer is None
