"""A leader that lacks the last records: they are lost, and the epochs say where, as after Kafka's unclean election."""

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from coordinator_testing.control import ControlRefused
from tests.nodes.world import World, fetched, next_replica
from tests.topics.data_plane import batch

OFFSET_OUT_OF_RANGE = 1


def lose(world: World, count: int, name: str = "orders", partition: int = 0) -> int | None:
    """Lets another replica lead, without the last records; returns where the log ends."""
    before = world.partition(name, partition)
    new = (
        before["replica_nodes"][1] if before["leader_id"] == before["replica_nodes"][0] else before["replica_nodes"][0]
    )
    return world.control.broker(new).lead(topic=name, partition=partition, lose=count).end_offset


def produce(world: World, **options: int) -> int:
    """Appends a record; returns its offset."""
    partition = world.produce(world.partition()["leader_id"], records=batch(**options))
    assert partition["error_code"] == 0, partition
    return partition["base_offset"]


def test_the_epochs_say_where_the_new_leaders_log_ended_also_after_a_restart(world: World) -> None:
    old, new = world.partition()["leader_id"], next_replica(world.partition())
    assert [produce(world) for _ in range(3)] == [0, 1, 2]
    led = world.control.broker(new).lead(topic="orders", partition=0, lose=2)
    assert (led.leader_epoch, led.end_offset) == (2, 1)  # nobody led in epoch 1
    assert world.partition()["leader_id"] == new != old
    with world.link(new) as link:
        world.fetch(link, 2, offset=3, last_epoch=0)
        answer = fetched(link)
        assert (answer["error_code"], answer["diverging_epoch"]) == (0, {"epoch": 0, "end_offset": 1})
        assert answer["high_watermark"] == 1
        world.fetch(link, 2, offset=3)
        assert fetched(link)["error_code"] == OFFSET_OUT_OF_RANGE
    assert produce(world) == 1
    for _ in range(2):
        assert [world.epoch_end(new, epoch) for epoch in range(3)] == [(0, 0, 1), (0, 0, 1), (0, 2, 2)]
        world.server.restart()


def test_a_batch_is_lost_as_a_whole(world: World) -> None:
    produce(world)
    world.produce(world.partition()["leader_id"], records=batch(b"a", b"b", b"c"))
    assert lose(world, 1) == 1


def test_everything_can_be_lost_and_the_next_record_is_the_first(world: World) -> None:
    produce(world)
    assert lose(world, 1) == 0
    assert produce(world) == 0
    world.server.restart()
    assert world.epoch_end(world.partition()["leader_id"], 2) == (0, 2, 1)


def test_the_new_leader_does_not_know_the_lost_batches_of_a_producer(world: World) -> None:
    for sequence in range(3):
        produce(world, producer_id=7, epoch=0, sequence=sequence)
    assert produce(world, producer_id=7, epoch=0, sequence=2) == 2  # a duplicate
    assert lose(world, 1) == 2
    assert produce(world, producer_id=7, epoch=0, sequence=1) == 1  # still known
    assert produce(world, producer_id=7, epoch=0, sequence=2) == 2
    assert world.epoch_end(world.partition()["leader_id"], 2) == (0, 2, 3)


def test_librdkafka_detects_that_records_it_has_read_are_lost(world: World) -> None:
    for _ in range(3):
        produce(world)
    consumer = Consumer({
        "bootstrap.servers": world.server.bootstrap_servers, "group.id": "g", "auto.offset.reset": "error",
        "topic.metadata.refresh.interval.ms": 200,
    })  # fmt: skip
    consumer.assign([TopicPartition("orders", 0, 0)])
    try:
        messages = [consumer.poll(30) for _ in range(3)]
        assert [each.offset() for each in messages if each is not None] == [0, 1, 2]
        assert lose(world, 2) == 1
        message = consumer.poll(30)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._AUTO_OFFSET_RESET
        assert "log truncation detected at offset 3 (leader epoch 0): broker end offset is 1" in error.str()
    finally:
        consumer.close()


@pytest.mark.parametrize("ends", [True, False], ids=["its end would be lost", "it is open"])
def test_a_transaction_keeps_its_end(world: World, ends: bool) -> None:
    producer = Producer({"bootstrap.servers": world.server.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"v", partition=0)
    producer.flush(30)
    if ends:
        producer.commit_transaction(30)
    with pytest.raises(ControlRefused, match="transaction") as refused:
        lose(world, 1)
    assert refused.value.status == 409
    if not ends:
        producer.commit_transaction(30)
    assert world.epoch_end(world.partition()["leader_id"], 0) == (0, 0, 2)
    assert lose(world, 2) == 0  # with all its records


def test_what_cannot_be_lost_is_refused_and_nothing_changes(world: World) -> None:
    produce(world)
    before = world.partition()
    for status, wanted in (
        (409, {"topic": "orders", "partition": 0, "lose": 2}),
        (409, {"topic": "__consumer_offsets", "partition": 0, "lose": 1}),
        (404, {"topic": "none", "partition": 0, "lose": 1}),
        (404, {"topic": "orders", "partition": 3, "lose": 1}),
        (422, {"group": "g", "lose": 1}),
        (422, {"topic": "orders", "partition": 0, "lose": 0}),
    ):
        with pytest.raises(ControlRefused) as refused:
            world.control.broker(next_replica(before)).lead(**wanted)
        assert refused.value.status == status, wanted
    assert world.partition() == before


def test_a_consumer_group_commits_beyond_the_end_and_is_out_of_range(world: World) -> None:
    """Committed offsets are not lost with the records, as in Kafka."""
    for _ in range(3):
        produce(world)
    group = {"bootstrap.servers": world.server.bootstrap_servers, "group.id": "g", "auto.offset.reset": "error"}
    consumer = Consumer(group)
    consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
    assert lose(world, 2) == 1
    (committed,) = consumer.committed([TopicPartition("orders", 0)], 30)
    assert committed.offset == 3
    consumer.assign([committed])
    message = consumer.poll(30)
    assert message is not None
    assert message.error() is not None
    consumer.close()
