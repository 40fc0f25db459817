"""A server with ACLs and users, as real clients meet it: what each may do to topics, configs and the cluster."""

from contextlib import suppress
from functools import cache

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from coordinator.client.login.sasl import Sasl
from coordinator.client.login.tls import Security
from coordinator.operations.client import Connection
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FetchRequest, MetadataRequest
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

USERS = ("admin", "alice", "bob", "nobody")
DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED
NO_CLUSTER = KafkaError.CLUSTER_AUTHORIZATION_FAILED
CLUSTER = "kafka-cluster"


def acl(user, kind, name, operation, *, pattern="LITERAL", permission="ALLOW"):
    return AclBinding(
        ResourceType[kind],
        name,
        ResourcePatternType[pattern],
        f"User:{user}",
        "*",
        AclOperation[operation],
        AclPermissionType[permission],
    )


ACLS = [
    acl("alice", "TOPIC", "mine-", "ALL", pattern="PREFIXED"),
    acl("alice", "TOPIC", "mine-secret", "READ", permission="DENY"),
    acl("alice", "TOPIC", "seen", "DESCRIBE"),
    acl("alice", "GROUP", "*", "READ"),
    acl("bob", "BROKER", CLUSTER, "DESCRIBE"),
    acl("bob", "BROKER", CLUSTER, "DESCRIBE_CONFIGS"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "users").write_text("".join(f"{user}:secret\n" for user in USERS))
    process = ServerProcess(
        folder,
        settings={
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.users.file": str(folder / "users"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
            "topics": [{"name": name} for name in ("mine-orders", "mine-secret", "seen", "shut", "revoked")],
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "durability": "write",
        },
    )
    process.start()
    try:
        finished(admin(process, "admin").create_acls(ACLS))
        yield process
    finally:
        admin.cache_clear()
        process.stop()


def config(server, user, **more):
    return {
        "bootstrap.servers": server.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": "secret",
        **more,
    }


@cache
def admin(server, user):
    """The user's client, which has to outlive its calls."""
    return AdminClient(config(server, user))


def connection(server, user):
    host, _, port = server.bootstrap.rpartition(":")
    return Connection((host, int(port)), 10, Security(sasl=Sasl(mechanism="PLAIN", user=user, password="secret")))


def finished(futures):
    """Name -> error code, or None, when all are done."""

    def code(future):
        try:
            future.result(10)
        except KafkaException as error:
            return error.args[0].code()
        return None

    return {getattr(key, "name", key): code(future) for key, future in futures.items()}


def names(server, user):
    return set(admin(server, user).list_topics(timeout=10).topics)


def produced(server, user, *topics):
    """Topic -> the error of the delivery, or None."""
    errors = {}
    producer = Producer(config(server, user, **{"message.timeout.ms": 5000}))
    for topic in topics:
        producer.produce(
            topic, b"v", on_delivery=lambda error, message: errors.update({message.topic(): error and error.code()})
        )
    assert producer.flush(10) == 0
    return errors


def test_a_client_lists_the_topics_that_it_may_describe(server):
    assert names(server, "alice") == {"mine-orders", "mine-secret", "seen"}
    assert names(server, "nobody") == set()
    assert {"shut", "__consumer_offsets"} <= names(server, "admin")


def test_a_producer_writes_to_its_own_topics(server):
    assert produced(server, "alice", "mine-orders", "shut", "seen") == {
        "mine-orders": None,
        "shut": DENIED,
        "seen": DENIED,
    }
    assert produced(server, "nobody", "mine-orders", "missing") == {"mine-orders": DENIED, "missing": DENIED}


def test_a_consumer_reads_its_own_topics_and_gets_an_error_for_the_others(server):
    produced(server, "admin", "mine-orders", "mine-secret")
    consumer = Consumer(config(server, "alice", **{"group.id": "g", "auto.offset.reset": "earliest"}))
    try:
        consumer.assign([TopicPartition("mine-orders", 0, 0), TopicPartition("mine-secret", 0, 0)])
        seen = {}

        def has_both():
            message = consumer.poll(0.2)
            if message is not None:
                seen[message.topic()] = message.error() and message.error().code()
            return len(seen) == 2

        wait_until(has_both, lambda: f"a record and an error; there are {seen}")
        assert seen == {"mine-orders": None, "mine-secret": DENIED}
    finally:
        consumer.close()


def test_topics_are_created_extended_and_deleted_by_who_may_do_so(server):
    alice = admin(server, "alice")
    new = [NewTopic(name, num_partitions=1, replication_factor=1) for name in ("mine-new", "theirs")]
    assert finished(alice.create_topics(new)) == {"mine-new": None, "theirs": DENIED}
    grown = [NewPartitions("mine-new", 2), NewPartitions("shut", 2)]
    assert finished(alice.create_partitions(grown)) == {"mine-new": None, "shut": DENIED}
    assert finished(alice.delete_topics(["mine-new", "shut", "seen"])) == {
        "mine-new": None,
        "shut": DENIED,
        "seen": DENIED,
    }
    assert {"shut", "seen"} <= names(server, "admin")


def test_configs_are_shown_to_who_may_describe_them(server):
    topics = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in ("mine-orders", "shut")]
    assert finished(admin(server, "alice").describe_configs(topics)) == {"mine-orders": None, "shut": DENIED}
    broker = [ConfigResource(ConfigResource.Type.BROKER, "1")]
    assert finished(admin(server, "alice").describe_configs(broker)) == {"1": NO_CLUSTER}
    assert finished(admin(server, "bob").describe_configs(broker)) == {"1": None}
    assert finished(admin(server, "bob").describe_configs(topics)) == {"mine-orders": DENIED, "shut": DENIED}


@pytest.mark.parametrize(("user", "operations"), [("alice", None), ("bob", {"DESCRIBE", "DESCRIBE_CONFIGS"})])
def test_operations_of_the_cluster_are_shown_to_who_may_describe_it(user, operations, server):
    described = admin(server, user).describe_cluster(include_authorized_operations=True).result(10)
    shown = {each.name for each in described.authorized_operations or ()}
    assert shown == (operations or set())


def fetch(session_id, epoch, *topics):
    asked = [FetchRequest.FetchPartition(partition=0, partition_max_bytes=1000)]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        max_bytes=1000,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=asked) for topic in topics],
    )


def test_a_right_that_is_taken_away_ends_an_open_fetch_session_and_hides_kept_metadata(server):
    right = acl("nobody", "TOPIC", "revoked", "READ")
    boss, nobody = admin(server, "admin"), connection(server, "nobody")
    wanted = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name="revoked")], allow_auto_topic_creation=False
    )
    try:
        finished(boss.create_acls([right]))
        began = nobody.ask(fetch(0, 0, "revoked"), version_max=12)
        assert [topic.partitions[0].error_code for topic in began.responses] == [ErrorCode.NONE]
        assert nobody.ask(wanted).topics[0].topic_id != bytes(16)
        selected = AclBindingFilter(
            right.restype, right.name, right.resource_pattern_type, right.principal, right.host, right.operation,
            right.permission_type,
        )  # fmt: skip
        finished(boss.delete_acls([selected]))
        (topic,) = nobody.ask(fetch(began.session_id, 1), version_max=12).responses
        assert (topic.topic, topic.partitions[0].error_code) == ("revoked", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        (hidden,) = nobody.ask(wanted).topics
        assert (hidden.error_code, hidden.topic_id, hidden.partitions) == (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            bytes(16),
            [],
        )
    finally:
        with suppress(OSError):
            nobody.close()
