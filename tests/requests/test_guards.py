"""What an authorizer changes from one request to the next, or beside the answer; the answers are Kafka's (tests/access)."""

from collections import Counter

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.security.access import (
    ALTER_CLUSTER,
    ALTER_TOPIC,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_TOPIC,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    READ_TOPIC,
    WRITE_TOPIC,
    AclOperation,
)
from coordinator.security.authorizer import CLUSTER_NAME
from tests.access import probes
from tests.access.cases import names
from tests.support.guarded_server import GuardedServer
from tests.topics.data_plane import batch

NONE, DENIED, NO_TOPIC = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def server():
    """A server with topics `open` and `shut` of two partitions, where the client has no rights yet."""
    server = GuardedServer(num_partitions=2)
    server.plane.create("open", 2)
    server.plane.create("shut", 2)
    return server


def fetch(*topics, **more):
    return probes.fetch(*names(*topics, field="topic"), max_bytes=1000, **more)


def metadata(*topics, **more):
    return {"topics": names(*topics), "allow_auto_topic_creation": False} | more


def listed(*topics):
    return {"topics": probes.with_partitions(*topics, timestamp=-1)}


def epochs(*topics):
    asked = [{"topic": topic, "partitions": [{"partition": 0, "leader_epoch": 0}]} for topic in topics]
    return {"replica_id": -2, "topics": asked}


def codes(value, field=""):
    """All error codes in an answer."""
    if isinstance(value, dict):
        return [code for key, each in value.items() for code in codes(each, key)]
    if isinstance(value, list):
        return [code for each in value for code in codes(each)]
    return [value] if field.endswith("error_code") else []


def by_topic(answer):
    """(topic, error of its partition), in the order of the answer."""
    return [(topic["topic"], topic["partitions"][0]["error_code"]) for topic in answer["responses"]]


def test_a_server_without_an_authorizer_has_no_guards():
    server = GuardedServer(guarded=False)
    for api in server.apis.values():
        assert server._dispatcher._route(api.key, api.versions[1]).handle is api.handle


TWO = ("shut", "none")
AUDITED = [
    ("Produce", 12, probes.produce(*names("open", *TWO)), WRITE_TOPIC, TWO),
    ("Fetch", 12, fetch("open", *TWO), READ_TOPIC, TWO),
    ("ListOffsets", 7, listed("open", *TWO), DESCRIBE_TOPIC, TWO),
    ("OffsetForLeaderEpoch", 4, epochs("open", *TWO), DESCRIBE_TOPIC, TWO),
    ("Metadata", 12, metadata("open", *TWO), DESCRIBE_TOPIC, TWO),
    ("CreateTopics", 7, probes.create_topics("open", *TWO), CREATE_TOPIC, TWO),
    ("CreatePartitions", 3, {"topics": [{"name": name, "count": 3} for name in ("open", *TWO)]}, ALTER_TOPIC, TWO),
    ("DeleteTopics", 6, {"topics": names("shut")}, DESCRIBE_TOPIC, ("shut",)),
    ("WriteTxnMarkers", 1, probes.write_markers("open"), CLUSTER_ACTION, (CLUSTER_NAME,)),
    *(("Metadata", version, {"topics": [] if version == 0 else None}, DESCRIBE_TOPIC, ()) for version in (0, 1, 13)),
    ("DescribeTopicPartitions", 0, {"topics": [], "response_partition_limit": 9}, DESCRIBE_TOPIC, ()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "version", "values", "access", "denied"), AUDITED)
def test_a_refused_name_is_audited_once_and_a_filtered_one_never(name, version, values, access, denied, server):
    """Of several permissions that would do, only the one that Kafka names is."""
    server.allowed.allow(access, "open")
    server.ask(name, version, **values)
    assert server.allowed.denied == [(access, each) for each in denied]


@pytest.mark.parametrize(
    ("name", "version", "values", "access"),
    [
        ("CreateTopics", 7, probes.create_topics("shut", "new"), CREATE_TOPIC),
        ("Metadata", 12, metadata("shut", "open"), DESCRIBE_TOPIC),
    ],
)
def test_refused_names_come_last_where_kafka_has_the_order_of_a_hash_table(name, version, values, access, server):
    server.allowed.allow(access, "open", "new")
    assert codes(server.ask(name, version, **values))[-1] == DENIED


@pytest.mark.parametrize(
    ("access", "name", "version", "values"),
    [
        (CREATE_CLUSTER, "CreateTopics", 7, probes.create_topics("mine")),
        (DELETE_CLUSTER, "DeleteTopics", 6, {"topics": names("shut")}),
        (CLUSTER_ACTION, "OffsetForLeaderEpoch", 4, epochs("shut")),
        (ALTER_CLUSTER, "WriteTxnMarkers", 1, probes.write_markers()),
    ],
)
def test_a_right_for_the_whole_cluster_leaves_nothing_to_ask(access, name, version, values, server):
    server.allowed.allow(access, CLUSTER_NAME)
    server.ask(name, version, **values)
    assert not server.allowed.denied


def test_large_refused_batches_give_their_memory_back(server):
    before = server.memory.held_bytes
    records = probes.TRANSACTIONAL_RECORDS + bytes(200_000)
    request = probes.produce(*names("open"), transactional_id="bank", records=records)
    assert codes(server.ask("Produce", 12, **request)) == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    assert server.memory.held_bytes == before


def test_a_refused_partition_stays_in_its_session_until_the_client_may_read_it(server):
    server.allowed.allow(READ_TOPIC, "open")
    first = server.ask("Fetch", 12, **fetch("shut", "open", session_epoch=0))
    assert first["session_id"]

    def again(epoch):
        return server.ask("Fetch", 12, **fetch(session_id=first["session_id"], session_epoch=epoch))

    assert by_topic(again(1)) == [("shut", DENIED)]
    server.allowed.allow(READ_TOPIC, "shut")
    assert by_topic(again(2)) == [("shut", NONE)]
    server.plane.produce(batch(), topic="shut")
    server.allowed.forbid(READ_TOPIC, "shut")
    refused = again(3)
    assert by_topic(refused) == [("shut", DENIED)]
    assert not refused["responses"][0]["partitions"][0]["records"]


def test_a_refused_partition_does_not_end_the_wait_for_another(server):
    server.allowed.allow(READ_TOPIC, "open")
    assert server.send("Fetch", 12, **fetch("shut", "open", max_wait_ms=500, min_bytes=1)) == b""
    server.plane.produce(batch(), topic="shut")
    server.run()
    assert not server.transport.written
    server.plane.produce(batch(), topic="open")
    server.run()
    assert server.transport.written


def test_a_fetch_of_nothing_but_refused_partitions_does_not_wait(server):
    answer = server.ask("Fetch", 12, **fetch("shut", max_wait_ms=500, min_bytes=1, isolation_level=7))
    assert by_topic(answer) == [("shut", DENIED)]


def test_a_missing_topic_is_created_only_for_a_client_that_may_create_it(server):
    server.allowed.allow(DESCRIBE_TOPIC, "mine", "theirs")
    server.allowed.allow(CREATE_TOPIC, "mine", "unseen")
    server.ask("Metadata", 12, **metadata("theirs", "mine", "unseen", allow_auto_topic_creation=True))
    assert set(server.topics.registry.topics) - {"open", "shut"} == {"mine"}
    server.allowed.allow(CREATE_CLUSTER, CLUSTER_NAME)
    server.ask("Metadata", 12, **metadata("theirs", "unseen", allow_auto_topic_creation=True))
    assert set(server.topics.registry.topics) - {"open", "shut"} == {"mine", "theirs"}


def test_where_topics_are_not_created_nobody_is_asked_about_creation():
    server = GuardedServer(auto_create_topics_enable=False)
    server.allowed.allow(DESCRIBE_TOPIC, "missing")
    answer = server.ask("Metadata", 12, **metadata("missing", allow_auto_topic_creation=True))
    assert codes(answer) == [NO_TOPIC]
    assert not server.allowed.denied


def test_kept_metadata_has_the_operations_of_each_client(server):
    fields = metadata("open", include_topic_authorized_operations=True)
    server.allowed.allow(DESCRIBE_TOPIC, "open")
    first = server.ask("Metadata", 12, **fields)
    kept_bytes = server.encoded_topics.kept_bytes
    assert server.ask("Metadata", 12, **fields) == first
    assert server.encoded_topics.kept_bytes == kept_bytes
    server.allowed.allow(READ_TOPIC, "open")
    (topic,) = server.ask("Metadata", 12, **fields)["topics"]
    assert topic["topic_authorized_operations"] == 1 << AclOperation.DESCRIBE | 1 << AclOperation.READ
    server.allowed.forbid(READ_TOPIC, "open")
    assert server.ask("Metadata", 12, **fields) == first
    server.allowed.forbid(DESCRIBE_TOPIC, "open")
    (hidden,) = server.ask("Metadata", 12, **fields)["topics"]
    assert (hidden["error_code"], hidden["topic_id"], hidden["partitions"]) == (DENIED, bytes(16), [])


def test_refused_topics_do_not_count_against_the_partitions_of_a_request():
    server = GuardedServer(topic_partitions_max=5)
    server.allowed.allow(CREATE_TOPIC, "mine")
    wanted = probes.create_topics("mine", "theirs", validate_only=False, num_partitions=4)
    answer = server.ask("CreateTopics", 7, **wanted)
    assert {each["name"]: each["error_code"] for each in answer["topics"]} == {"mine": NONE, "theirs": DENIED}


def asked_by_index(*topics):
    return [{"name": topic, "partition_indexes": [0]} for topic in topics]


MANY = [f"t{number}" for number in range(2_000)]


@pytest.mark.parametrize(
    ("name", "version", "most", "access", "values", "passes"),
    [
        ("ListOffsets", 11, 1_100, DESCRIBE_TOPIC, listed(*MANY), NO_TOPIC),
        ("OffsetForLeaderEpoch", 4, 1_100, DESCRIBE_TOPIC, epochs(*MANY), NO_TOPIC),
        ("Fetch", 12, 1_100, READ_TOPIC, fetch(*MANY), NO_TOPIC),
        ("Metadata", 12, 1_100, DESCRIBE_TOPIC, metadata(*MANY), NO_TOPIC),
        ("DescribeTopicPartitions", 0, 1_100, DESCRIBE_TOPIC, {"topics": names(*MANY)}, NO_TOPIC),
        ("DescribeConfigs", 4, 1_100, DESCRIBE_TOPIC_CONFIGS, probes.describe_configs(*((2, each) for each in MANY)), NO_TOPIC),
        ("DescribeProducers", 0, 1_601, READ_TOPIC, {"topics": asked_by_index(*MANY)}, NO_TOPIC),
        ("DeleteRecords", 2, 1_601, DELETE_TOPIC, {"topics": probes.with_partitions(*MANY, offset=0)}, NO_TOPIC),
        ("DeleteTopics", 6, 1_601, DESCRIBE_TOPIC, {"topics": names(*MANY)}, DENIED),
        ("CreatePartitions", 3, 1_601, ALTER_TOPIC, {"topics": [{"name": name, "count": 3} for name in MANY]}, NO_TOPIC),
        ("CreateTopics", 7, 1_601, CREATE_TOPIC, probes.create_topics(*MANY), NONE),
    ],
)  # fmt: skip
def test_a_request_with_many_names_asks_about_them_in_slices(name, version, most, access, values, passes, server):
    """`most`: in one turn, which may have the last slice about one permission and the first slice about the next."""
    server.allowed.allow(access, "t7")
    asked, allows = Counter(), server.allowed.allows

    def allows_and_counts(*arguments, **keywords):
        asked[server.turns] += 1
        return allows(*arguments, **keywords)

    server.allowed.allows = allows_and_counts
    answered = Counter(codes(server.ask(name, version, **values)))
    assert answered[DENIED] >= len(MANY) - 1
    assert answered[passes]
    assert max(asked.values()) <= most
    assert sum(asked.values()) >= len(MANY)
