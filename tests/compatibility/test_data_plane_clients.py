"""The data plane as users of librdkafka and kafka-python see it: codecs, timestamps, and admin operations."""

import time
import warnings
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_END, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # in the importlib that it uses
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as PythonPartition
    from kafka.admin import ConfigResource as PythonResource
    from kafka.admin import ConfigResourceType

QUIET = {"log_level": 0}  # some outlive their server


@pytest.fixture(scope="module")
def admin(server: ServerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": server.bootstrap, **QUIET})


@pytest.fixture(scope="module")
def python_admin(server: ServerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=server.bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic(admin, fresh) -> str:
    name = fresh("data")
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(WITHIN_S)
    return name


def write(server, topic, values, partition=0, times=None, **settings):
    """Writes values and returns their offsets."""
    offsets = []

    def delivered(error, message):
        assert error is None, error
        offsets.append(message.offset())

    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 20, **QUIET} | settings)
    for index, value in enumerate(values):
        more = {"timestamp": times[index]} if times else {}
        producer.produce(topic, value, key=b"k%d" % index, partition=partition, on_delivery=delivered, **more)
    assert producer.flush(WITHIN_S) == 0
    return offsets


def read(server, topic, count, partition=0, offset=0, **settings):
    """Reads this many values from an offset."""
    consumer = Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": "reader", "enable.auto.commit": False, **QUIET} | settings
    )
    consumer.assign([TopicPartition(topic, partition, offset)])
    values = []
    deadline = time.monotonic() + WITHIN_S
    while len(values) < count and time.monotonic() < deadline:
        values += [message.value() for message in consumer.consume(count - len(values), 0.5) if not message.error()]
    consumer.close()
    return values


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_records_come_back_as_they_were_sent_with_every_codec(server, topic, codec, idempotent):
    values = [b"%d" % number * 50 for number in range(300)]
    settings = {"compression.type": codec, "enable.idempotence": idempotent}
    assert write(server, topic, values, **settings) == list(range(300))
    assert read(server, topic, 300) == values
    assert read(server, topic, 1, offset=123) == [values[123]]


def test_kafka_python_reads_what_librdkafka_wrote_and_the_other_way_round(server, topic):
    values = [b"value-%d" % number for number in range(50)]
    write(server, topic, values, **{"compression.type": "gzip"})
    consumer = KafkaConsumer(bootstrap_servers=server.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=5000)
    consumer.assign([PythonPartition(topic, 0)])
    assert [next(consumer).value for _ in values] == values
    producer = KafkaProducer(bootstrap_servers=server.bootstrap, compression_type="gzip")
    for value in values:
        producer.send(topic, value, partition=1)
    producer.close()
    assert read(server, topic, 50, partition=1) == values
    # A fetch session exists by now: new data is returned without naming the partitions.
    write(server, topic, [b"late"])
    assert next(consumer).value == b"late"
    consumer.close()


def test_consuming_from_a_time(server, topic):
    began = int(time.time() * 1000) - 100_000
    write(server, topic, [b"a", b"b", b"c"], times=[began, began + 1000, began + 2000], **{"linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "times", **QUIET})
    wanted = [began, began + 1, began + 2000, began + 2001]
    found = [consumer.offsets_for_times([TopicPartition(topic, 0, at)], WITHIN_S)[0].offset for at in wanted]
    assert found == [0, 1, 2, OFFSET_END]
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), WITHIN_S) == (0, 3)
    consumer.close()
    python = KafkaConsumer(bootstrap_servers=server.bootstrap)
    at = python.offsets_for_times({PythonPartition(topic, 0): began + 500})[PythonPartition(topic, 0)]
    assert (at.offset, at.timestamp) == (1, began + 1000)
    python.close()


def test_offsets_of_partitions_by_an_admin_client(server, admin, topic):
    at = int(time.time() * 1000)
    write(server, topic, [b"a", b"b"], times=[at + 5, at + 1])
    for spec, offset in [
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 2),
        (OffsetSpec.max_timestamp(), 0),
        (OffsetSpec.for_timestamp(at + 2), 0),
    ]:
        (future,) = admin.list_offsets({TopicPartition(topic, 0): spec}).values()
        assert future.result(WITHIN_S).offset == offset


def test_partitions_are_added_while_a_producer_is_at_work(server, admin, topic):
    write(server, topic, [b"before"])
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(WITHIN_S)
    assert len(admin.list_topics(topic, WITHIN_S).topics[topic].partitions) == 4
    assert write(server, topic, [b"after"], partition=3) == [0]
    with pytest.raises(KafkaException, match="would not be an increase"):
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(WITHIN_S)


def test_records_are_deleted(server, admin, python_admin, topic):
    write(server, topic, [b"%d" % number for number in range(10)])
    (future,) = admin.delete_records([TopicPartition(topic, 0, 4)]).values()
    assert future.result(WITHIN_S).low_watermark == 4
    assert read(server, topic, 6, offset=4) == [b"%d" % number for number in range(4, 10)]
    deleted = python_admin.delete_records({PythonPartition(topic, 0): -1})
    assert deleted[PythonPartition(topic, 0)]["low_watermark"] == 10


def test_settings_are_changed_and_reported(server, admin, topic):
    entry = ConfigEntry("max.message.bytes", "200", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(WITHIN_S)
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    configs = future.result(WITHIN_S)
    assert len(configs) == 37
    assert (configs["max.message.bytes"].value, configs["max.message.bytes"].source) == ("200", 1)
    with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE"):
        write(server, topic, [b"x" * 300])
    (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    broker = future.result(WITHIN_S)
    assert broker["node.id"].is_read_only and not broker["message.max.bytes"].is_read_only


def test_settings_by_kafka_python(python_admin, topic):
    resource = PythonResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "60000"})
    python_admin.alter_configs([resource])
    configs = python_admin.describe_configs([PythonResource(ConfigResourceType.TOPIC, topic)])
    assert configs["topic"][topic]["retention.ms"]["value"] == "60000"
    python_admin.create_partitions({topic: 5})
    assert len(python_admin.describe_topics([topic])[0]["partitions"]) == 5
    (folder,) = python_admin.describe_log_dirs({topic: [0, 1]})
    assert folder


def test_a_topic_that_is_compacted_keeps_the_last_of_each_key(server, admin, fresh):
    name = fresh("compacted")
    admin.create_topics([NewTopic(name, 1, 1, config={"cleanup.policy": "compact"})])[name].result(WITHIN_S)
    write(server, name, [b"a", b"b"])
    producer = Producer({"bootstrap.servers": server.bootstrap, **QUIET})
    refused = []
    producer.produce(name, b"no key", on_delivery=lambda error, message: refused.append(error))
    producer.flush(WITHIN_S)
    assert refused[0] is not None
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
    assert future.result(WITHIN_S)["cleanup.policy"].value == "compact"


def test_topics_configs_and_records_survive_a_kill(coordinator_process):
    own = coordinator_process()
    admin = AdminClient({"bootstrap.servers": own.bootstrap, **QUIET})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(WITHIN_S)
    admin.create_partitions([NewPartitions("t", 2)])["t"].result(WITHIN_S)
    entry = ConfigEntry("retention.ms", "123456789", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(WITHIN_S)
    write(own, "t", [b"%d" % number for number in range(20)], **{"enable.idempotence": True})
    (future,) = admin.delete_records([TopicPartition("t", 0, 5)]).values()
    future.result(WITHIN_S)
    own.restart(kill=True)
    admin = AdminClient({"bootstrap.servers": own.bootstrap, **QUIET})
    assert len(admin.list_topics("t", WITHIN_S).topics["t"].partitions) == 2
    (future,) = admin.describe_configs([resource]).values()
    assert future.result(WITHIN_S)["retention.ms"].value == "123456789"
    assert read(own, "t", 15, offset=5) == [b"%d" % number for number in range(5, 20)]
    (future,) = admin.list_offsets({TopicPartition("t", 0): OffsetSpec.earliest()}).values()
    assert future.result(WITHIN_S).offset == 5
