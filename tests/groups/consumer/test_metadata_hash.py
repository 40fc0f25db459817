"""The hash of a group's topics is Kafka's own, so that a log can move between the two without a rebalance.

The figures were computed with the library that Kafka uses (hash4j), by Kafka's rule; a live Kafka is asked in
tests/compatibility/test_log_formats.py.
"""

import pytest

from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.subscription import metadata_hash
from coordinator.groups.epochs.metadata_hash import topic_hash
from coordinator.groups.fence import NO_FENCE
from coordinator.protocol.messages import ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue
from coordinator.runtime.result import Record, Result
from tests.groups.consumer.consumer_world import ConsumerHarness
from tests.support.catalog import Catalog

ORDERS = bytes(range(1, 17))
NEGATIVE = b"\xff" * 15 + b"\xfe"


def catalog_of(**topics):
    """A catalog of these topics: name -> (id, partitions)."""
    return Catalog(
        {name: count for name, (_, count) in topics.items()}, {name: topic_id for name, (topic_id, _) in topics.items()}
    )


@pytest.mark.parametrize(
    ("name", "topic_id", "partitions", "expected"),
    [
        ("orders", ORDERS, 4, -7240866991083736570),
        ("x", bytes(7) + b"\1" + bytes(7) + b"\2", 1, -6915832793481979947),
        ("big", NEGATIVE, 10_000, -8386295971300745948),
        ("ä€😀", NEGATIVE, 3, -621087295449211890),
    ],
)
def test_a_topics_hash_is_kafkas(name, topic_id, partitions, expected):
    assert topic_hash(catalog_of(**{name: (topic_id, partitions)}), name) == expected


def test_a_groups_hash_is_of_its_topics_in_the_order_of_their_names():
    catalog = catalog_of(b=(ORDERS, 1), a=(ORDERS, 2))
    assert of(catalog, "a", "b") == of(catalog, "b", "a") != of(catalog, "a")


def test_topics_that_do_not_exist_do_not_count():
    catalog = catalog_of(a=(ORDERS, 2))
    assert of(catalog, "a", "nowhere") == of(catalog, "a")
    assert of(catalog, "nowhere") == of(catalog) == 0


def of(catalog, *topics):
    group = ConsumerGroup("g", NO_FENCE)
    group.put(ConsumerMember(member_id="m", topics=frozenset(topics)))
    return metadata_hash(group, set(), set(), catalog, is_known=False)


def test_a_group_that_was_read_from_a_log_finds_its_topics_unchanged():
    h = ConsumerHarness()
    h.join_modern(topics=("t", "u"))
    epoch = h.member().member_epoch
    h.restart()
    assert h.beat(epoch=epoch).reply.member_epoch == epoch == h.consumer().group_epoch


@pytest.mark.parametrize("restarts", [False, True])
def test_what_an_older_kafka_wrote_of_a_groups_topics_is_deleted_once(restarts):
    h, key = ConsumerHarness(), ConsumerGroupPartitionMetadataKey("g")
    h.join_modern()
    h._apply(Result(records=[Record(key, ConsumerGroupPartitionMetadataValue())]))
    if restarts:
        h.restart()
    h.join_modern(member_id="n")
    h.join_modern(member_id="o")
    assert [record.value for record in h.records if record.key == key][1:] == [None]
