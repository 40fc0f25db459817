"""ACLs by kafka-acls and the admin clients of librdkafka and kafka-python, as they are; and what the ACLs change at once."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from coordinator.config.access_control import STANDARD_AUTHORIZER
from tests.support.java_support import kafka_classpath, run_java
from tests.support.kafka_broker import KAFKA_TOOLS, TOOLS
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # in the importlib that it uses
    from kafka import KafkaAdminClient
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ResourcePattern,
        ResourcePatternFilter,
    )
    from kafka.admin import ResourceType as KafkaPythonResourceType
    from kafka.errors import ClusterAuthorizationFailedError

USERS = ("admin", "alice", "bob")
WITHIN_S = 20.0


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with an authorizer; admin is a super user, and each user's password is the name."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "users").write_text("".join(f"{user}:{user}\n" for user in USERS))
    server = ServerProcess(
        folder,
        settings={
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.users.file": str(folder / "users"),
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:admin",
        },
    )
    with server:
        yield server


def librdkafka(server: ServerProcess, user: str) -> dict[str, str | int]:
    return {
        "bootstrap.servers": server.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": user,
        "log_level": 0,
    }


def binding(
    resource: ResourceType,
    name: str,
    operation: AclOperation,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    *,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    user: str = "User:alice",
) -> AclBinding:
    return AclBinding(resource, name, pattern, user, "*", operation, permission)


ALL = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)  # fmt: skip


def test_a_client_of_librdkafka_creates_lists_and_deletes_acls(guarded: ServerProcess) -> None:
    admin = AdminClient(librdkafka(guarded, "admin"))
    rules = [
        binding(ResourceType.TOPIC, "rd", AclOperation.READ),
        binding(ResourceType.GROUP, "rd-", AclOperation.ALL, pattern=ResourcePatternType.PREFIXED),
        binding(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE, AclPermissionType.DENY),
    ]
    for future in admin.create_acls(rules).values():
        future.result(WITHIN_S)
    assert sorted(admin.describe_acls(ALL).result(WITHIN_S)) == sorted(rules)
    (deleted,) = admin.delete_acls([ALL]).values()
    assert sorted(deleted.result(WITHIN_S)) == sorted(rules)
    assert admin.describe_acls(ALL).result(WITHIN_S) == []


def test_a_client_that_may_not_change_acls_gets_an_error(guarded: ServerProcess) -> None:
    alice = AdminClient(librdkafka(guarded, "alice"))
    (created,) = alice.create_acls([binding(ResourceType.TOPIC, "mine", AclOperation.ALL)]).values()
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        created.result(WITHIN_S)


def test_a_client_of_librdkafka_uses_the_topics_that_are_its_own_and_gets_an_error_for_each_other(
    guarded: ServerProcess,
) -> None:
    admin, alice = (AdminClient(librdkafka(guarded, user)) for user in ("admin", "alice"))
    topics = [NewTopic(name, num_partitions=1, replication_factor=1) for name in ("own-open", "own-secret", "others")]
    rules = [
        binding(ResourceType.TOPIC, "own-", AclOperation.ALL, pattern=ResourcePatternType.PREFIXED),
        binding(ResourceType.TOPIC, "own-secret", AclOperation.READ, AclPermissionType.DENY),
        binding(ResourceType.GROUP, "*", AclOperation.READ),
    ]
    for future in (*admin.create_topics(topics).values(), *admin.create_acls(rules).values()):
        future.result(WITHIN_S)
    assert set(alice.list_topics(timeout=WITHIN_S).topics) == {"own-open", "own-secret"}
    errors: dict[str, str | None] = {}
    producer = Producer(librdkafka(guarded, "alice") | {"message.timeout.ms": 10_000})
    for each in topics:
        producer.produce(
            each.topic,
            b"v",
            on_delivery=lambda error, message: errors.update({message.topic(): error and error.name()}),
        )
    producer.flush(WITHIN_S)
    assert errors == {"own-open": None, "own-secret": None, "others": "TOPIC_AUTHORIZATION_FAILED"}
    consumer = Consumer(librdkafka(guarded, "alice") | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("own-open", 0, 0), TopicPartition("own-secret", 0, 0)])
    errors.clear()

    def has_both() -> bool:
        message = consumer.poll(0.2)
        if message is not None:
            errors[message.topic()] = message.error() and message.error().name()
        return len(errors) == 2

    wait_until(has_both, lambda: f"a record and an error; there are {errors}", WITHIN_S)
    consumer.close()
    assert errors == {"own-open": None, "own-secret": "TOPIC_AUTHORIZATION_FAILED"}
    admin.delete_acls([ALL])[ALL].result(WITHIN_S)


def kafka_python(server: ServerProcess, user: str) -> KafkaAdminClient:
    return KafkaAdminClient(
        bootstrap_servers=server.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username=user,
        sasl_plain_password=user,
    )


def test_a_client_of_kafka_python_creates_lists_and_deletes_acls(guarded: ServerProcess) -> None:
    pattern = ResourcePattern(KafkaPythonResourceType.TOPIC, "py-", ACLResourcePatternType.PREFIXED)
    rule = ACL("User:bob", "10.0.0.0/8", ACLOperation.WRITE, ACLPermissionType.DENY, pattern)
    about = ResourcePatternFilter(KafkaPythonResourceType.TOPIC, "py-topic", ACLResourcePatternType.MATCH)
    matching = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, about)
    admin = kafka_python(guarded, "admin")
    try:
        assert admin.create_acls([rule]) == {"succeeded": [rule], "failed": []}
        assert admin.describe_acls(matching)[0] == [rule]
        ((_, deleted, _),) = admin.delete_acls([matching])
        assert deleted == [rule]
        assert admin.describe_acls(matching)[0] == []
    finally:
        admin.close()
    alice = kafka_python(guarded, "alice")
    try:
        with pytest.raises(ClusterAuthorizationFailedError):
            alice.describe_acls(matching)
    finally:
        alice.close()


@pytest.mark.java
def test_kafka_acls_gives_a_consumer_and_a_producer_what_they_need(guarded: ServerProcess, tmp_path: Path) -> None:
    """`--producer` and `--consumer` are its shorthands for the ACLs of a client."""
    classpath = kafka_classpath((*TOOLS, f"org.apache.kafka:kafka_2.13:{KAFKA_TOOLS}"))
    command_config = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    command_config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="admin" password="admin";\n'
    )

    def kafka_acls(*arguments: str) -> str:
        where = ("--bootstrap-server", guarded.bootstrap, "--command-config", str(command_config))
        done = run_java(classpath, "org.apache.kafka.tools.AclCommand", *where, *arguments)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    topic = ("--topic", "tool-topic", "--allow-principal", "User:alice")
    kafka_acls("--add", *topic, "--producer")
    kafka_acls("--add", *topic, "--consumer", "--group", "tool-", "--resource-pattern-type", "prefixed")
    listed = kafka_acls("--list")
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        assert f"(principal=User:alice, host=*, operation={operation}, permissionType=ALLOW)" in listed
    assert "ResourcePattern(resourceType=GROUP, name=tool-, patternType=PREFIXED)" in listed

    def denied(user: str) -> set[str]:
        """The errors of a client that produces a record, and then consumes it."""
        found = set()
        producer = Producer(librdkafka(guarded, user) | {"message.timeout.ms": 10_000})
        producer.produce("tool-topic", b"v", on_delivery=lambda error, _: error and found.add(error.name()))
        producer.flush(WITHIN_S)
        settings = {"group.id": "tool-group", "auto.offset.reset": "earliest"}
        consumer = Consumer(librdkafka(guarded, user) | settings)
        consumer.subscribe(["tool-topic"])

        def ended() -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error():
                found.add(message.error().name())
            return message is not None

        wait_until(ended, "a record or an error", WITHIN_S)
        consumer.close()
        return found

    assert denied("alice") == set()
    assert denied("bob") == {"TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"}
    kafka_acls(
        "--remove", "--force", "--topic", "tool-topic", "--group", "tool-group", "--resource-pattern-type", "match"
    )
    assert kafka_acls("--list").split() == []
    assert "TOPIC_AUTHORIZATION_FAILED" in denied("alice")
