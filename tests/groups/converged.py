"""Groups of each kind whose members have all that they should have."""

from typing import Any

from tests.groups.consumer.consumer_world import ConsumerHarness
from tests.groups.streams.streams_world import StreamsHarness


def consumer_group(**config: Any) -> ConsumerHarness:
    """A Stable consumer group of two members, at epoch 3."""
    h = ConsumerHarness(**{"group_consumer_assignment_interval_ms": 0} | config)
    h.join_modern("g", "a")
    h.join_modern("g", "b")
    converge(h)
    return h


def converge(h: ConsumerHarness, members: str = "ab") -> None:
    """Members beat until each has confirmed its part of the target."""
    for _ in range(4):
        for member_id in members:
            member = h.consumer().members[member_id]
            owned = {h.catalog.topic_name(topic_id) or "": list(held) for topic_id, held in member.assigned.items()}
            h.beat("g", member_id, member.member_epoch, owned=owned)
    assert not h.consumer().is_rebalancing


def streams_group(**config: Any) -> StreamsHarness:
    """A Stable streams group of one member."""
    h = StreamsHarness(**{"group_streams_assignment_interval_ms": 0} | config)
    h.arrive("m")
    assert not h.streams().is_rebalancing
    return h
