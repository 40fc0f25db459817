"""The APIs of topics, data, configs and the cluster behind an authorizer: what passes, what is refused, and what leaks.

The answers are those of Kafka 4.4 with the same ACLs, also in their order where Kafka's has one.
"""

from collections import Counter

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    ElectLeadersRequest,
    FetchRequest,
    IncrementalAlterConfigsRequest,
    ListOffsetsRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from coordinator.security import authorized_operations
from coordinator.security.access import (
    ALTER_CLUSTER,
    ALTER_CLUSTER_CONFIGS,
    ALTER_GROUP_CONFIGS,
    ALTER_TOPIC,
    ALTER_TOPIC_CONFIGS,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_GROUP_CONFIGS,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Access,
    AclOperation,
    ResourceType,
)
from coordinator.security.authorizer import CLUSTER_NAME
from tests.support.guarded_server import GuardedServer
from tests.support.permitting import ANY_NAME
from tests.topics.data_plane import batch

NONE, DENIED, NO_TOPIC = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NO_CLUSTER, NO_GROUP = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_ID = ErrorCode.UNKNOWN_TOPIC_ID
UNKNOWN_ID = b"x" * 16
TRANSACTIONAL = 1 << 4
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture
def server():
    """A server with topics `open` and `shut` of two partitions, where the client has no rights yet."""
    server = GuardedServer(num_partitions=2)
    server.plane.create("open", 2)
    server.plane.create("shut", 2)
    return server


# --- requests ---------------------------------------------------------------------------------------------------------


def produce(*places, acks=-1, transactional_id=None, attributes=0):
    def topic(name, index):
        named = {"topic_id": name} if isinstance(name, bytes) else {"name": name}
        records = batch(attributes=attributes, producer_id=7 if attributes else -1, epoch=0, sequence=0)
        return ProduceRequest.TopicProduceData(
            **named, partition_data=[ProduceRequest.PartitionProduceData(index=index, records=records)]
        )

    data = [topic(name, index) for name, index in places]
    return {"acks": acks, "transactional_id": transactional_id, "topic_data": data}


def fetch(*places, session=(0, -1), replica_id=-1, **fields):
    def topic(name, index):
        named = {"topic_id": name} if isinstance(name, bytes) else {"topic": name}
        asked = FetchRequest.FetchPartition(partition=index, partition_max_bytes=1000)
        return FetchRequest.FetchTopic(**named, partitions=[asked])

    return {
        "topics": [topic(name, index) for name, index in places],
        "session_id": session[0],
        "session_epoch": session[1],
        "replica_id": replica_id,
        "max_bytes": 1000,
        **fields,
    }


def list_offsets(*places, **fields):
    def topic(name, index):
        partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1)
        return ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=[partition])

    return {"topics": [topic(name, index) for name, index in places], **fields}


def epochs(*places):
    def topic(name, index):
        partition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=index, leader_epoch=0)
        return OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=name, partitions=[partition])

    return {"replica_id": -2, "topics": [topic(name, index) for name, index in places]}


def delete_records(*places):
    def topic(name, index):
        partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=0)
        return DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=[partition])

    return {"topics": [topic(name, index) for name, index in places]}


def producers(*places):
    return {
        "topics": [
            DescribeProducersRequest.TopicRequest(name=name, partition_indexes=[index]) for name, index in places
        ]
    }


def metadata(*names, ids=(), **fields):
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    topics += [MetadataRequest.MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
    return {"topics": topics, "allow_auto_topic_creation": False, **fields}


def pages(*names, limit=2000, cursor=None):
    return {
        "topics": [DescribeTopicPartitionsRequest.TopicRequest(name) for name in names],
        "response_partition_limit": limit,
        "cursor": cursor and DescribeTopicPartitionsRequest.Cursor(*cursor),
    }


def create(*names, partitions=1, **fields):
    made = [
        CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names
    ]
    return {"topics": made, **fields}


def delete(*names, ids=()):
    state = DeleteTopicsRequest.DeleteTopicState
    return {"topics": [state(name=name) for name in names] + [state(name=None, topic_id=topic_id) for topic_id in ids]}


def grow(*names, count=3):
    return {
        "topics": [
            CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None) for name in names
        ]
    }


def describe_configs(*resources):
    described = DescribeConfigsRequest.DescribeConfigsResource
    return {"resources": [described(kind, name, ["retention.ms"]) for kind, name in resources]}


def alter_configs(request, *resources):
    configs = {TOPIC: ("retention.ms", "1000"), BROKER_LOGGER: ("root", "INFO")}

    def resource(kind, name):
        config, value = configs.get(kind, ("consumer.session.timeout.ms", "45000"))
        return request.AlterConfigsResource(kind, name, [request.AlterableConfig(name=config, value=value)])

    return {"resources": [resource(kind, name) for kind, name in resources], "validate_only": True}


def incremental(*resources):
    return alter_configs(IncrementalAlterConfigsRequest, *resources)


def replacing(*resources):
    return alter_configs(AlterConfigsRequest, *resources)


def log_dirs(*names):
    topics = [DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=[0]) for name in names]
    return {"topics": topics}


def moves(*names):
    topics = [AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=name, partitions=[0]) for name in names]
    return {"dirs": [AlterReplicaLogDirsRequest.AlterReplicaLogDir(path="/data", topics=topics)]}


def elections(*names):
    return {"topic_partitions": [ElectLeadersRequest.TopicPartitions(topic=name, partitions=[0]) for name in names]}


def reassignments(*names):
    made = AlterPartitionReassignmentsRequest
    partition = made.ReassignablePartition(partition_index=0, replicas=[1])
    return {"timeout_ms": 1000, "topics": [made.ReassignableTopic(name=name, partitions=[partition]) for name in names]}


def listed_reassignments(*names):
    topic = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    return {"topics": [topic(name=name, partition_indexes=[0]) for name in names]}


def quorum(*names):
    data = DescribeQuorumRequest.PartitionData(partition_index=0)
    return {"topics": [DescribeQuorumRequest.TopicData(topic_name=name, partitions=[data]) for name in names]}


def both(requested):
    """A request about one topic by name."""
    return lambda name: requested((name, 0))


REQUESTS = {
    "AlterConfigs": (2, lambda name: replacing((TOPIC, name))),
    "AlterPartitionReassignments": (0, reassignments),
    "AlterReplicaLogDirs": (2, moves),
    "CreatePartitions": (3, grow),
    "CreateTopics": (7, create),
    "DeleteRecords": (2, both(delete_records)),
    "DeleteTopics": (6, delete),
    "DescribeConfigs": (4, lambda name: describe_configs((TOPIC, name))),
    "DescribeLogDirs": (4, log_dirs),
    "DescribeProducers": (0, both(producers)),
    "DescribeQuorum": (2, quorum),
    "DescribeTopicPartitions": (0, pages),
    "ElectLeaders": (2, elections),
    "Fetch": (12, both(fetch)),
    "IncrementalAlterConfigs": (1, lambda name: incremental((TOPIC, name))),
    "ListConfigResources": (1, lambda _name: {"resource_types": [TOPIC]}),
    "ListOffsets": (11, both(list_offsets)),
    "ListPartitionReassignments": (0, listed_reassignments),
    "Metadata": (12, lambda name: metadata(name, allow_auto_topic_creation=True)),
    "OffsetForLeaderEpoch": (4, both(epochs)),
    "Produce": (12, both(produce)),
}
"""One request about one topic for each API of this file: its version and its fields."""
ELSEWHERE = {
    "groups, offsets and transactions": {
        "AddOffsetsToTxn", "AddPartitionsToTxn", "ConsumerGroupDescribe", "ConsumerGroupHeartbeat", "DeleteGroups",
        "DescribeGroups", "DescribeTransactions", "EndTxn", "FindCoordinator", "Heartbeat", "InitProducerId", "JoinGroup",
        "LeaveGroup", "ListGroups", "ListTransactions", "OffsetCommit", "OffsetDelete", "OffsetFetch",
        "StreamsGroupDescribe", "StreamsGroupHeartbeat", "SyncGroup", "TxnOffsetCommit", "WriteTxnMarkers",
    },
    "users, ACLs, quotas and features": {
        "AlterClientQuotas", "AlterUserScramCredentials", "CreateAcls", "CreateDelegationToken", "DeleteAcls", "DescribeAcls",
        "DescribeClientQuotas", "DescribeDelegationToken", "DescribeUserScramCredentials", "UpdateFeatures",
    },
    "answers everybody; only its field of authorized operations depends on permissions": {"DescribeCluster"},
}  # fmt: skip


def codes(message):
    """All error codes in a message."""
    if isinstance(message, list):
        return [code for each in message for code in codes(each)]
    if not hasattr(message, "__slots__"):
        return []
    found = []
    for field in message.__slots__:
        value = getattr(message, field)
        found += [value] if field.endswith("error_code") else codes(value)
    return found


def shown(array, of="name", within="partitions"):
    """Topic -> the error codes of its partitions, in the order of the answer."""
    return [(getattr(topic, of), [each.error_code for each in getattr(topic, within)]) for topic in array]


# --- all of them ------------------------------------------------------------------------------------------------------


def test_every_api_that_declares_permissions_has_a_request_here(server):
    asking = {api.name for api in server.apis.values() if api.access}
    assert asking - set().union(*ELSEWHERE.values()) == set(REQUESTS)


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_a_client_without_permissions_gets_an_authorization_error_and_changes_nothing(name, server):
    version, request = REQUESTS[name]
    before = dict(server.topics.registry.topics)
    answer = server.ask(name, version, **request("shut"))
    assert set(codes(answer)) - {NONE} in ({DENIED}, {NO_CLUSTER})
    assert server.topics.registry.topics == before
    assert server.plane.fetch(topic="shut").records == b""


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_a_client_that_may_do_everything_gets_the_answer_of_a_server_without_an_authorizer(name, server):
    version, request = REQUESTS[name]
    for access in (Access(operation, kind) for operation in AclOperation for kind in ResourceType):
        server.allowed.allow(access, ANY_NAME)
    unguarded = GuardedServer(guarded=False, num_partitions=2)
    for topic in ("open", "shut"):
        unguarded.plane.create(topic, 2)
    assert server.body(name, version, **request("shut")) == unguarded.body(name, version, **request("shut"))
    assert not server.allowed.denied


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_a_refusal_does_not_say_whether_the_topic_exists(name, server):
    version, request = REQUESTS[name]
    assert server.body(name, version, **request("shut")) == server.body(name, version, **request("none")).replace(
        b"none", b"shut"
    )


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_every_version_can_say_that_the_client_is_not_authorized(name, server):
    first, last = next(api.versions for api in server.apis.values() if api.name == name)
    for version in range(first, last + 1):
        fields = request_of_version(server, name, version)
        assert set(codes(server.ask(name, version, **fields))) - {NONE} <= {DENIED, NO_CLUSTER}


def request_of_version(server, name, version):
    """The request about `shut` in a version that may name topics by id or lack fields of the newest one."""
    topic_id = server.topics.topic_id("shut")
    if name == "Produce" and version >= 13:
        return produce((topic_id, 0))
    if name == "Fetch":
        fields = fetch((topic_id if version >= 13 else "shut", 0))
        return fields | ({"session_epoch": 0} if version < 7 else {})
    if name == "Metadata":
        return metadata("shut", allow_auto_topic_creation=version < 4)
    if name == "DeleteTopics" and version < 6:
        return {"topic_names": ["shut"]}
    if name == "ListConfigResources" and version == 0:
        return {}
    if name == "OffsetForLeaderEpoch" and version < 3:
        return epochs(("shut", 0)) | {"replica_id": -2}
    return REQUESTS[name][1]("shut")


def test_a_server_without_an_authorizer_has_no_guards():
    server = GuardedServer(guarded=False)
    for api in server.apis.values():
        assert server._dispatcher._route(api.key, api.versions[1]).handle is api.handle


@pytest.mark.parametrize(
    ("name", "access"),
    [
        ("DescribeLogDirs", DESCRIBE_CLUSTER),
        ("DescribeQuorum", DESCRIBE_CLUSTER),
        ("ListPartitionReassignments", DESCRIBE_CLUSTER),
        ("ListConfigResources", DESCRIBE_CLUSTER_CONFIGS),
        ("AlterPartitionReassignments", ALTER_CLUSTER),
        ("AlterReplicaLogDirs", ALTER_CLUSTER),
        ("ElectLeaders", ALTER_CLUSTER),
    ],
)
def test_a_request_about_the_cluster_is_handled_or_refused_as_a_whole(name, access, server):
    version, request = REQUESTS[name]
    refused = server.ask(name, version, **request("shut"))
    assert NO_CLUSTER in codes(refused)
    assert getattr(refused, "error_message", None) in (None, "Cluster authorization failed.")
    server.allowed.allow(access, CLUSTER_NAME)
    assert NO_CLUSTER not in codes(server.ask(name, version, **request("shut")))


def test_a_refused_reassignment_names_its_partitions(server):
    listed = server.ask("ListPartitionReassignments", 0, **listed_reassignments("shut"))
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in listed.topics] == [
        ("shut", [0])
    ]
    assert server.ask("DescribeQuorum", 2, **quorum("shut")).topics == []


# --- data -------------------------------------------------------------------------------------------------------------


def test_what_a_client_may_write_is_written_and_the_rest_is_refused(server):
    server.allowed.allow(WRITE_TOPIC, "open", "missing")
    places = [("shut", 0), ("open", 0), ("none", 0), ("open", 9), ("missing", 0), ("shut", 9)]
    answer = server.ask("Produce", 12, **produce(*places))
    assert dict(shown(answer.responses, within="partition_responses")) == {
        "shut": [DENIED, DENIED],
        "open": [NONE, NO_TOPIC],
        "none": [DENIED],
        "missing": [NO_TOPIC],
    }
    assert server.plane.fetch(topic="open").records
    assert server.allowed.denied == [(WRITE_TOPIC, "shut"), (WRITE_TOPIC, "none")]


def test_ids_are_refused_like_names_and_unknown_ids_are_unknown(server):
    server.allowed.allow(WRITE_TOPIC, "open")
    opened, shut = server.topics.topic_id("open"), server.topics.topic_id("shut")
    answer = server.ask("Produce", 13, **produce((shut, 0), (UNKNOWN_ID, 0), (opened, 0)))
    assert shown(answer.responses, of="topic_id", within="partition_responses") == [
        (shut, [DENIED]),
        (UNKNOWN_ID, [NO_ID]),
        (opened, [NONE]),
    ]


def test_unknown_acks_are_an_error_of_what_the_client_may_write(server):
    server.allowed.allow(WRITE_TOPIC, "open")
    answer = server.ask("Produce", 12, **produce(("shut", 0), ("open", 0), acks=7))
    assert shown(answer.responses, within="partition_responses") == [
        ("shut", [DENIED]),
        ("open", [ErrorCode.INVALID_REQUIRED_ACKS]),
    ]


def test_the_transactional_id_comes_first_and_refuses_everything(server):
    server.allowed.allow(WRITE_TOPIC, "open")
    request = produce(("shut", 0), ("open", 0), transactional_id="bank", attributes=TRANSACTIONAL)
    answer = server.ask("Produce", 12, **request)
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert shown(answer.responses, within="partition_responses") == [("shut", [refused]), ("open", [refused])]
    server.allowed.allow(WRITE_TRANSACTIONAL_ID, "bank")
    answer = server.ask("Produce", 12, **produce(("shut", 0), transactional_id="bank", attributes=TRANSACTIONAL))
    assert shown(answer.responses, within="partition_responses") == [("shut", [DENIED])]


def test_an_id_without_transactional_batches_needs_no_permission(server):
    server.allowed.allow(WRITE_TOPIC, "open")
    answer = server.ask("Produce", 12, **produce(("open", 0), transactional_id="bank"))
    assert codes(answer) == [NONE]


@pytest.mark.parametrize("request_fields", [produce(("shut", 0), acks=0), produce(("open", 0), ("shut", 0), acks=0)])
def test_without_acks_a_refusal_closes_the_connection(request_fields, server):
    server.allowed.allow(WRITE_TOPIC, "open")
    assert server.send("Produce", 12, **request_fields) == b""
    assert server.transport.closed


def test_without_acks_a_refused_transactional_id_closes_the_connection(server):
    request = produce(("open", 0), acks=0, transactional_id="bank", attributes=TRANSACTIONAL)
    assert server.send("Produce", 12, **request) == b""
    assert server.transport.closed


def test_large_refused_batches_give_their_memory_back(server):
    before = server.memory.held_bytes
    request = produce(("open", 0), transactional_id="bank", attributes=TRANSACTIONAL)
    request["topic_data"][0].partition_data[0].records += bytes(200_000)
    assert set(codes(server.ask("Produce", 12, **request))) == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert server.memory.held_bytes == before


def test_refused_and_missing_partitions_are_fetched_behind_the_others(server):
    server.allowed.allow(READ_TOPIC, "open", "missing")
    places = [("shut", 0), ("open", 0), ("none", 0), ("open", 9), ("missing", 0), ("open", 1)]
    answer = server.ask("Fetch", 12, **fetch(*places))
    assert shown(answer.responses, of="topic") == [
        ("open", [NONE, NONE]),
        ("shut", [DENIED]),
        ("none", [DENIED]),
        ("open", [NO_TOPIC]),
        ("missing", [NO_TOPIC]),
    ]
    refused = answer.responses[1].partitions[0]
    assert (refused.high_watermark, refused.last_stable_offset, refused.log_start_offset) == (-1, -1, -1)


def test_unknown_ids_are_fetched_before_refused_ones(server):
    server.allowed.allow(READ_TOPIC, "open")
    opened, shut = server.topics.topic_id("open"), server.topics.topic_id("shut")
    answer = server.ask("Fetch", 13, **fetch((shut, 0), (UNKNOWN_ID, 0), (opened, 0), (shut, 9)))
    assert shown(answer.responses, of="topic_id") == [
        (opened, [NONE]),
        (UNKNOWN_ID, [NO_ID]),
        (shut, [DENIED, DENIED]),
    ]


def test_a_refused_partition_stays_in_its_session_until_the_client_may_read_it(server):
    server.allowed.allow(READ_TOPIC, "open")
    first = server.ask("Fetch", 12, **fetch(("shut", 0), ("open", 0), session=(0, 0)))
    assert first.session_id
    again = server.ask("Fetch", 12, **fetch(session=(first.session_id, 1)))
    assert shown(again.responses, of="topic") == [("shut", [DENIED])]
    server.allowed.allow(READ_TOPIC, "shut")
    allowed = server.ask("Fetch", 12, **fetch(session=(first.session_id, 2)))
    assert shown(allowed.responses, of="topic") == [("shut", [NONE])]
    server.plane.produce(batch(), topic="shut")
    server.allowed.forbid(READ_TOPIC, "shut")
    refused = server.ask("Fetch", 12, **fetch(session=(first.session_id, 3)))
    assert shown(refused.responses, of="topic") == [("shut", [DENIED])]
    assert refused.responses[0].partitions[0].records == b""


def test_a_refused_partition_does_not_end_the_wait_for_another(server):
    server.allowed.allow(READ_TOPIC, "open")
    waiting = fetch(("shut", 0), ("open", 0), max_wait_ms=500, min_bytes=1)
    assert server.send("Fetch", 12, **waiting) == b""
    server.plane.produce(batch(), topic="shut")
    server.run()
    assert not server.transport.written
    server.plane.produce(batch(), topic="open")
    server.run()
    assert server.transport.written


def test_a_fetch_of_nothing_but_refused_partitions_does_not_wait(server):
    answer = server.ask("Fetch", 12, **fetch(("shut", 0), max_wait_ms=500, min_bytes=1, isolation_level=7))
    assert shown(answer.responses, of="topic") == [("shut", [DENIED])]


@pytest.mark.parametrize("version", [12, 13])
def test_a_follower_needs_the_right_of_a_broker_for_every_partition(version, server):
    server.allowed.allow(READ_TOPIC, ANY_NAME)
    place = (UNKNOWN_ID, 0) if version >= 13 else ("missing", 0)
    shut = (server.topics.topic_id("shut"), 0) if version >= 13 else ("shut", 0)
    answer = server.ask("Fetch", version, **fetch(place, shut, replica_id=1))
    assert codes(answer) == [NONE, DENIED, DENIED]
    server.allowed.allow(CLUSTER_ACTION, CLUSTER_NAME)
    server.allowed.forbid(READ_TOPIC, ANY_NAME)
    answer = server.ask("Fetch", version, **fetch(place, shut, replica_id=1))
    assert DENIED not in codes(answer)


def test_a_follower_of_new_versions_is_a_follower(server):
    server.allowed.allow(READ_TOPIC, ANY_NAME)
    request = fetch((server.topics.topic_id("open"), 0)) | {
        "replica_state": FetchRequest.ReplicaState(replica_id=1, replica_epoch=1)
    }
    assert codes(server.ask("Fetch", 15, **request)) == [NONE, DENIED]


def test_refused_offsets_are_listed_behind_the_others(server):
    server.allowed.allow(DESCRIBE_TOPIC, "open", "missing")
    places = [("shut", 0), ("open", 0), ("none", 0), ("missing", 0), ("shut", 1)]
    answer = server.ask("ListOffsets", 11, **list_offsets(*places))
    assert shown(answer.topics) == [
        ("open", [NONE]),
        ("missing", [NO_TOPIC]),
        ("shut", [DENIED]),
        ("none", [DENIED]),
        ("shut", [DENIED]),
    ]
    refused = answer.topics[2].partitions[0]
    assert (refused.timestamp, refused.offset, refused.leader_epoch) == (-1, -1, -1)


def test_an_unknown_isolation_level_fails_the_whole_request_if_anything_is_allowed(server):
    request = list_offsets(("shut", 0), ("open", 0), isolation_level=7)
    assert codes(server.ask("ListOffsets", 11, **request)) == [DENIED, DENIED]
    server.allowed.allow(DESCRIBE_TOPIC, "open")
    assert codes(server.ask("ListOffsets", 11, **request)) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2


def test_a_consumer_learns_epochs_of_topics_that_it_may_describe_and_a_broker_all(server):
    server.allowed.allow(DESCRIBE_TOPIC, "open")
    places = [("shut", 0), ("open", 0), ("none", 0)]
    answer = server.ask("OffsetForLeaderEpoch", 4, **epochs(*places))
    assert shown(answer.topics, of="topic") == [("open", [NONE]), ("shut", [DENIED]), ("none", [DENIED])]
    assert server.allowed.denied == [(DESCRIBE_TOPIC, "shut"), (DESCRIBE_TOPIC, "none")]
    server.allowed.allow(CLUSTER_ACTION, CLUSTER_NAME)
    answer = server.ask("OffsetForLeaderEpoch", 4, **epochs(*places))
    assert shown(answer.topics, of="topic") == [("shut", [NONE]), ("open", [NONE]), ("none", [NO_TOPIC])]


def test_records_of_a_refused_topic_are_not_deleted(server):
    server.allowed.allow(DELETE_TOPIC, "open", "missing")
    answer = server.ask("DeleteRecords", 2, **delete_records(("shut", 0), ("open", 0), ("missing", 0), ("shut", 9)))
    assert shown(answer.topics) == [("shut", [DENIED, DENIED]), ("open", [NONE]), ("missing", [NO_TOPIC])]
    assert [each.low_watermark for each in answer.topics[0].partitions] == [-1, -1]


def test_an_illegal_name_is_refused_for_what_it_is_when_producers_are_described(server):
    server.allowed.allow(READ_TOPIC, "open", "missing")
    places = [("shut", 0), ("open", 0), ("bad name", 0), ("missing", 0), ("none", 0)]
    answer = server.ask("DescribeProducers", 0, **producers(*places))
    assert shown(answer.topics) == [
        ("shut", [DENIED]),
        ("open", [NONE]),
        ("bad name", [ErrorCode.INVALID_TOPIC_EXCEPTION]),
        ("missing", [NO_TOPIC]),
        ("none", [DENIED]),
    ]
    assert answer.topics[0].partitions[0].error_message == "Topic authorization failed."


# --- metadata ---------------------------------------------------------------------------------------------------------


def described(answer):
    return [(topic.name, topic.error_code, topic.topic_id != bytes(16)) for topic in answer.topics]


def test_named_topics_that_the_client_may_not_describe_come_last_and_without_their_ids(server):
    server.allowed.allow(DESCRIBE_TOPIC, "open", "missing", "bad name")
    answer = server.ask("Metadata", 12, **metadata("shut", "open", "none", "missing", "bad name", "__consumer_offsets"))
    assert described(answer) == [
        ("open", NONE, True),
        ("missing", NO_TOPIC, False),
        ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION, False),
        ("shut", DENIED, False),
        ("none", DENIED, False),
        ("__consumer_offsets", DENIED, False),
    ]
    assert [(topic.is_internal, topic.partitions) for topic in answer.topics[3:]] == [(False, [])] * 3


@pytest.mark.parametrize(("version", "all_topics"), [(0, []), (1, None), (13, None)])
def test_all_topics_are_those_that_the_client_may_describe_and_nothing_is_audited(version, all_topics, server):
    server.allowed.allow(DESCRIBE_TOPIC, "open")
    answer = server.ask("Metadata", version, topics=all_topics, allow_auto_topic_creation=True)
    assert [topic.name for topic in answer.topics] == ["open"]
    assert not server.allowed.denied


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_id_that_the_client_may_not_describe_has_no_name(version, server):
    server.allowed.allow(DESCRIBE_TOPIC, "open")
    opened, shut = server.topics.topic_id("open"), server.topics.topic_id("shut")
    answer = server.ask("Metadata", version, **metadata(ids=(shut, UNKNOWN_ID, opened)))
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in answer.topics] == [
        (None, UNKNOWN_ID, NO_ID),
        ("open", opened, NONE),
        (None, shut, DENIED),
    ]


def test_a_missing_topic_is_created_only_for_a_client_that_may_create_it(server):
    server.allowed.allow(DESCRIBE_TOPIC, "mine", "theirs", "bad name")
    server.allowed.allow(CREATE_TOPIC, "mine", "unseen")
    asked = metadata("theirs", "mine", "unseen", "bad name", "shut", allow_auto_topic_creation=True)
    answer = server.ask("Metadata", 12, **asked)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("mine", NO_TOPIC),
        ("theirs", DENIED),
        ("bad name", DENIED),
        ("unseen", DENIED),
        ("shut", DENIED),
    ]
    assert set(server.topics.registry.topics) >= {"mine"}
    assert not {"theirs", "unseen"} & set(server.topics.registry.topics)
    asked = metadata("theirs", "mine", allow_auto_topic_creation=False)
    assert dict(shown_codes(server.ask("Metadata", 12, **asked))) == {"theirs": NO_TOPIC, "mine": NONE}
    server.allowed.allow(CREATE_CLUSTER, CLUSTER_NAME)
    asked = metadata("theirs", allow_auto_topic_creation=True)
    assert shown_codes(server.ask("Metadata", 12, **asked)) == [("theirs", NO_TOPIC)]
    assert "theirs" in server.topics.registry.topics


def shown_codes(answer):
    return [(topic.name, topic.error_code) for topic in answer.topics]


def test_where_topics_are_not_created_nobody_is_asked_about_creation():
    server = GuardedServer(auto_create_topics_enable=False)
    server.allowed.allow(DESCRIBE_TOPIC, "missing")
    answer = server.ask("Metadata", 12, **metadata("missing", allow_auto_topic_creation=True))
    assert shown_codes(answer) == [("missing", NO_TOPIC)]


def test_kept_metadata_has_the_operations_of_each_client(server):
    fields = metadata("open", include_topic_authorized_operations=True)
    server.allowed.allow(DESCRIBE_TOPIC, "open")
    first = server.ask("Metadata", 12, **fields)
    kept_bytes = server.encoded_topics.kept_bytes
    assert server.ask("Metadata", 12, **fields) == first
    assert server.encoded_topics.kept_bytes == kept_bytes
    server.allowed.allow(READ_TOPIC, "open")
    second = server.ask("Metadata", 12, **fields)
    describe, read = 1 << AclOperation.DESCRIBE, 1 << AclOperation.READ
    assert [first.topics[0].topic_authorized_operations, second.topics[0].topic_authorized_operations] == [
        describe,
        describe | read,
    ]
    server.allowed.forbid(READ_TOPIC, "open")
    assert server.ask("Metadata", 12, **fields) == first


def test_missing_topics_have_operations_and_refused_ones_have_not(server):
    server.allowed.allow(DESCRIBE_TOPIC, "missing")
    answer = server.ask("Metadata", 12, **metadata("missing", "shut", include_topic_authorized_operations=True))
    assert [topic.topic_authorized_operations for topic in answer.topics] == [
        1 << AclOperation.DESCRIBE,
        authorized_operations.NOT_REQUESTED,
    ]


@pytest.mark.parametrize(("name", "version"), [("Metadata", 10), ("DescribeCluster", 2)])
def test_operations_of_the_cluster_are_none_for_a_client_that_may_not_describe_it(name, version, server):
    fields = {"include_cluster_authorized_operations": True}
    server.allowed.allow(ALTER_CLUSTER, CLUSTER_NAME)
    assert server.ask(name, version, **fields).cluster_authorized_operations == 0
    server.allowed.allow(DESCRIBE_CLUSTER, CLUSTER_NAME)
    assert server.ask(name, version, **fields).cluster_authorized_operations == (
        1 << AclOperation.DESCRIBE | 1 << AclOperation.ALTER
    )
    not_requested = server.ask(name, version, include_cluster_authorized_operations=False)
    assert not_requested.cluster_authorized_operations == authorized_operations.NOT_REQUESTED


def test_pages_of_topics_have_the_refused_names_behind_them(server):
    server.allowed.allow(DESCRIBE_TOPIC, "open", "missing")
    answer = server.ask("DescribeTopicPartitions", 0, **pages("shut", "open", "none", "missing"))
    assert described(answer) == [
        ("missing", NO_TOPIC, False),
        ("open", NONE, True),
        ("none", DENIED, False),
        ("shut", DENIED, False),
    ]
    assert answer.topics[1].topic_authorized_operations == 1 << AclOperation.DESCRIBE


def test_the_next_page_never_begins_with_a_topic_that_the_client_may_not_describe(server):
    server.plane.create("zebra")
    server.allowed.allow(DESCRIBE_TOPIC, "open")
    answer = server.ask("DescribeTopicPartitions", 0, **pages("open", "shut", "zebra", limit=2))
    assert answer.next_cursor is None
    server.allowed.allow(DESCRIBE_TOPIC, "zebra")
    answer = server.ask("DescribeTopicPartitions", 0, **pages("open", "shut", "zebra", limit=2))
    assert answer.next_cursor.topic_name == "zebra"
    denied = list(server.allowed.denied)
    everything = server.ask("DescribeTopicPartitions", 0, **pages())
    assert [topic.name for topic in everything.topics] == ["open", "zebra"]
    assert server.allowed.denied == denied


def test_a_cursor_that_names_a_refused_topic_says_nothing_of_its_partitions(server):
    answer = server.ask("DescribeTopicPartitions", 0, **pages("shut", cursor=("shut", 1)))
    assert described(answer) == [("shut", DENIED, False)]


# --- changes of topics ------------------------------------------------------------------------------------------------


def test_topics_that_the_client_may_not_create_are_refused_behind_the_others(server):
    server.allowed.allow(CREATE_TOPIC, "mine", "open")
    names = ["shut", "mine", "none", "open", "twice", "twice", "__cluster_metadata"]
    answer = server.ask("CreateTopics", 7, **create(*names))
    assert shown_codes(answer) == [
        ("mine", NONE),
        ("open", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("twice", ErrorCode.INVALID_REQUEST),
        ("__cluster_metadata", ErrorCode.INVALID_REQUEST),
        ("shut", DENIED),
        ("none", DENIED),
    ]
    assert answer.topics[-1].error_message == "Authorization failed."
    assert "none" not in server.topics.registry.topics
    assert server.allowed.denied == [(CREATE_TOPIC, "shut"), (CREATE_TOPIC, "none")]


def test_who_may_create_topics_of_the_cluster_may_create_every_topic(server):
    server.allowed.allow(CREATE_CLUSTER, CLUSTER_NAME)
    assert shown_codes(server.ask("CreateTopics", 7, **create("mine"))) == [("mine", NONE)]
    assert not server.allowed.denied


def test_a_created_topic_shows_its_configs_only_to_a_client_that_may_describe_them(server):
    server.allowed.allow(CREATE_TOPIC, "mine", "ours")
    server.allowed.allow(DESCRIBE_TOPIC_CONFIGS, "ours")
    mine, ours = server.ask("CreateTopics", 7, **create("mine", "ours", partitions=3)).topics
    assert (mine.topic_config_error_code, mine.num_partitions, mine.replication_factor, mine.configs) == (
        DENIED,
        -1,
        -1,
        [],
    )
    assert mine.topic_id == server.topics.topic_id("mine")
    assert (ours.topic_config_error_code, ours.num_partitions, ours.replication_factor) == (NONE, 3, 1)
    assert ours.configs


def test_refused_topics_do_not_count_against_the_partitions_of_a_request():
    server = GuardedServer(topic_partitions_max=5)
    server.allowed.allow(CREATE_TOPIC, "mine")
    answer = server.ask("CreateTopics", 7, **create("mine", "theirs", partitions=4))
    assert shown_codes(answer) == [("mine", NONE), ("theirs", DENIED)]


def deleted(answer):
    return sorted(
        (each.name or "", each.topic_id != bytes(16), ErrorCode(each.error_code).name) for each in answer.responses
    )


def test_a_topic_that_the_client_may_not_delete_stays_and_a_hidden_one_has_no_name(server):
    server.plane.create("seen")
    server.plane.create("mine")
    server.allowed.allow(DESCRIBE_TOPIC, "seen", "missing", "mine")
    server.allowed.allow(DELETE_TOPIC, "mine")
    by_name = server.ask("DeleteTopics", 6, **delete("shut", "seen", "none", "missing", "mine", "twice", "twice"))
    assert deleted(by_name) == [
        ("mine", True, "NONE"),
        ("missing", False, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("none", False, "TOPIC_AUTHORIZATION_FAILED"),
        ("seen", False, "TOPIC_AUTHORIZATION_FAILED"),
        ("shut", False, "TOPIC_AUTHORIZATION_FAILED"),
        ("twice", False, "INVALID_REQUEST"),
    ]
    ids = [server.topics.topic_id("shut"), server.topics.topic_id("seen"), UNKNOWN_ID]
    by_id = server.ask("DeleteTopics", 6, **delete(ids=ids))
    assert deleted(by_id) == [
        ("", True, "TOPIC_AUTHORIZATION_FAILED"),
        ("", True, "UNKNOWN_TOPIC_ID"),
        ("seen", True, "TOPIC_AUTHORIZATION_FAILED"),
    ]
    assert {each.error_message for each in by_id.responses if each.error_code == DENIED} == {
        "Topic authorization failed."
    }
    assert {"shut", "seen"} <= set(server.topics.registry.topics)


def test_a_refusal_does_not_say_that_a_name_and_an_id_are_the_same_topic(server):
    server.plane.create("mine")
    server.allowed.allow(DESCRIBE_TOPIC, "mine")
    server.allowed.allow(DELETE_TOPIC, "mine")
    ids = [server.topics.topic_id("shut"), server.topics.topic_id("mine")]
    answer = server.ask("DeleteTopics", 6, **delete("shut", "mine", ids=ids))
    assert deleted(answer) == [
        ("", True, "TOPIC_AUTHORIZATION_FAILED"),
        ("mine", False, "INVALID_REQUEST"),
        ("shut", False, "TOPIC_AUTHORIZATION_FAILED"),
    ]


def test_who_may_delete_the_cluster_may_delete_every_topic(server):
    server.allowed.allow(DELETE_CLUSTER, CLUSTER_NAME)
    assert deleted(server.ask("DeleteTopics", 6, **delete("shut", "none"))) == [
        ("none", False, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("shut", True, "NONE"),
    ]


def test_topics_that_the_client_may_not_alter_do_not_grow(server):
    server.allowed.allow(ALTER_TOPIC, "open", "missing")
    answer = server.ask("CreatePartitions", 3, **grow("open", "shut", "missing", "none", "twice", "twice"))
    assert [(each.name, each.error_code, each.error_message) for each in answer.results] == [
        ("shut", DENIED, None),
        ("none", DENIED, None),
        ("open", NONE, None),
        ("missing", NO_TOPIC, None),
        ("twice", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
    ]
    counts = {name: topic.partitions for name, topic in server.topics.registry.topics.items()}
    assert (counts["open"], counts["shut"]) == (3, 2)


# --- configs ----------------------------------------------------------------------------------------------------------

RESOURCES = [
    (TOPIC, "shut"),
    (TOPIC, "open"),
    (TOPIC, "none"),
    (BROKER, "1"),
    (BROKER, "x"),
    (BROKER_LOGGER, "1"),
    (CLIENT_METRICS, "m"),
    (GROUP, "mine"),
    (GROUP, "theirs"),
    (TOPIC, "missing"),
]


def configured(results):
    return [(each.resource_type, each.resource_name, each.error_code) for each in results]


def test_configs_that_the_client_may_not_describe_come_last(server):
    server.allowed.allow(DESCRIBE_TOPIC_CONFIGS, "open", "missing")
    server.allowed.allow(DESCRIBE_GROUP_CONFIGS, "theirs")
    answer = server.ask("DescribeConfigs", 4, **describe_configs(*[each for each in RESOURCES if each[1] != "theirs"]))
    assert configured(answer.results) == [
        (TOPIC, "open", NONE),
        (TOPIC, "missing", NO_TOPIC),
        (TOPIC, "shut", DENIED),
        (TOPIC, "none", DENIED),
        (BROKER, "1", NO_CLUSTER),
        (BROKER, "x", NO_CLUSTER),
        (BROKER_LOGGER, "1", NO_CLUSTER),
        (CLIENT_METRICS, "m", NO_CLUSTER),
        (GROUP, "mine", NO_GROUP),
    ]
    assert [each.error_message for each in answer.results[2:] if each.resource_type == GROUP] == [
        "Group authorization failed."
    ]


def test_who_may_describe_configs_of_the_cluster_sees_those_of_brokers_only(server):
    server.allowed.allow(DESCRIBE_CLUSTER_CONFIGS, CLUSTER_NAME)
    answer = server.ask("DescribeConfigs", 4, **describe_configs((TOPIC, "open"), (BROKER, "7"), (BROKER_LOGGER, "1")))
    assert configured(answer.results) == [
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "1", NONE),
        (TOPIC, "open", DENIED),
    ]


@pytest.mark.parametrize(
    ("name", "version", "request_for"), [("IncrementalAlterConfigs", 1, incremental), ("AlterConfigs", 2, replacing)]
)
def test_configs_are_altered_one_resource_at_a_time_in_the_order_of_the_request(name, version, request_for, server):
    resources = [each for each in RESOURCES if each[0] != BROKER_LOGGER and each[1] != "mine"]
    server.allowed.allow(ALTER_TOPIC_CONFIGS, "open", "missing")
    answer = server.ask(name, version, **request_for(*resources))
    assert configured(answer.responses) == [
        (TOPIC, "shut", DENIED),
        (TOPIC, "open", NONE),
        (TOPIC, "none", DENIED),
        (BROKER, "1", NO_CLUSTER),
        (BROKER, "x", NO_CLUSTER),
        (CLIENT_METRICS, "m", NO_CLUSTER),
        (GROUP, "theirs", NO_GROUP),
        (TOPIC, "missing", NO_TOPIC),
    ]
    messages = {each.resource_type: each.error_message for each in answer.responses if each.error_code}
    assert messages[BROKER] is None
    assert messages[CLIENT_METRICS] == "Cluster authorization failed."


def test_a_logger_needs_the_right_to_alter_configs_of_the_cluster(server):
    refused = server.ask("IncrementalAlterConfigs", 1, **incremental((BROKER_LOGGER, "1"), (BROKER_LOGGER, "7")))
    assert [(each.error_code, each.error_message) for each in refused.responses] == [(NO_CLUSTER, None)] * 2
    server.allowed.allow(ALTER_CLUSTER_CONFIGS, CLUSTER_NAME)
    server.allowed.allow(ALTER_GROUP_CONFIGS, ANY_NAME)
    allowed = server.ask("IncrementalAlterConfigs", 1, **incremental((BROKER_LOGGER, "1"), (BROKER_LOGGER, "7")))
    assert [each.error_code for each in allowed.responses] == [NONE, ErrorCode.INVALID_REQUEST]


def test_what_is_wrong_with_a_request_alone_is_said_before_anybody_is_asked(server):
    config = IncrementalAlterConfigsRequest.AlterableConfig
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    null, twice = [config("retention.ms", 0, None)], [config("retention.ms", 0, "1")] * 2
    unknown = [config("retention.ms", 9, "1")]
    answer = server.ask(
        "IncrementalAlterConfigs",
        1,
        resources=[
            resource(TOPIC, "a", null),
            resource(TOPIC, "b", twice),
            resource(TOPIC, "c", unknown),
            resource(3, "d", []),
            resource(TOPIC, "e", []),
            resource(TOPIC, "e", []),
        ],
    )
    invalid = ErrorCode.INVALID_REQUEST
    assert [each.error_code for each in answer.responses] == [invalid, invalid, DENIED, invalid, invalid, invalid]


# --- many names -------------------------------------------------------------------------------------------------------

MANY = [f"t{number}" for number in range(2_000)]


def asked_by_turn(server):
    """Turn -> how often the authorizer is asked in it."""
    asked, allows = Counter(), server.allowed.allows

    def allows_and_counts(*arguments, **keywords):
        asked[server.turns] += 1
        return allows(*arguments, **keywords)

    server.allowed.allows = allows_and_counts
    return asked


@pytest.mark.parametrize(
    ("name", "version", "fields"),
    [
        ("ListOffsets", 11, list_offsets(*[(each, 0) for each in MANY])),
        ("OffsetForLeaderEpoch", 4, epochs(*[(each, 0) for each in MANY])),
        ("Fetch", 12, fetch(*[(each, 0) for each in MANY])),
        ("Metadata", 12, metadata(*MANY)),
        ("DescribeTopicPartitions", 0, pages(*MANY)),
        ("DescribeConfigs", 4, describe_configs(*[(TOPIC, each) for each in MANY])),
    ],
)
def test_a_request_with_many_names_asks_about_them_in_slices(name, version, fields, server):
    for access in (DESCRIBE_TOPIC, READ_TOPIC, DESCRIBE_TOPIC_CONFIGS):
        server.allowed.allow(access, "t7")
    asked = asked_by_turn(server)
    answered = Counter(codes(server.ask(name, version, **fields)))
    assert (answered[NO_TOPIC], answered[DENIED]) == (1, len(MANY) - 1)
    assert max(asked.values()) <= 1_100
    assert sum(asked.values()) >= len(MANY)


@pytest.mark.parametrize(
    ("name", "version", "access", "fields", "passes"),
    [
        ("DescribeProducers", 0, READ_TOPIC, producers(*[(each, 0) for each in MANY]), NO_TOPIC),
        ("DeleteRecords", 2, DELETE_TOPIC, delete_records(*[(each, 0) for each in MANY]), NO_TOPIC),
        ("DeleteTopics", 6, DESCRIBE_TOPIC, delete(*MANY), NO_TOPIC),
        ("CreatePartitions", 3, ALTER_TOPIC, grow(*MANY), NO_TOPIC),
        ("CreateTopics", 7, CREATE_TOPIC, create(*MANY), NONE),
    ],
)
def test_a_request_to_change_many_topics_asks_about_them_in_slices(name, version, access, fields, passes, server):
    """The last slice about one permission and the first about the next one may be in the same turn."""
    server.allowed.allow(access, "t7")
    server.allowed.allow(DESCRIBE_TOPIC_CONFIGS, "t7")
    asked = asked_by_turn(server)
    answer = server.ask(name, version, **fields)
    answered = Counter(code for code in codes(answer) if code in {passes, DENIED})
    assert answered[DENIED] == len(MANY) - 1
    assert answered[passes] >= 1
    assert max(asked.values()) <= 1_601
    assert sum(asked.values()) >= len(MANY)
