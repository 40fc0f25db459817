"""What consumers put into JoinGroup and SyncGroup: subscription and assignment of the protocol type "consumer".

The coordinator passes these bytes from member to member without reading them. It reads a subscription only where a rule needs
its topics (offset expiry, OffsetDelete) or the partitions that a member claims to own. Both formats begin with their version. A
newer version than ours is read as our newest, because these formats only ever grow at their end.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from coordinator.protocol.wire import DecodeError

NO_GENERATION = -1

TopicPartitions = Mapping[str, tuple[int, ...]]
"""Topic -> partitions, in the order given. If a topic occurs twice, its partitions are joined."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member asks for. `generation_id`: the generation in which it owned `owned` (v2, KIP-792), or -1."""

    topics: tuple[str, ...]
    user_data: bytes | None
    owned: TopicPartitions
    generation_id: int
    rack_id: str | None
    version: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions that a member was assigned."""

    partitions: TopicPartitions
    user_data: bytes | None
    version: int


def parse_subscription(data: bytes) -> Subscription:
    """Reads a member's metadata. Raises DecodeError if it is not a subscription."""
    name = "ConsumerProtocolSubscription"
    version = _version(data, name)
    message = cast(ConsumerProtocolSubscription, Codec.of().decoder(name, version)(data, 2)[0])
    owned = _merged((entry.topic, entry.partitions) for entry in message.owned_partitions)
    topics = tuple(message.topics)
    return Subscription(topics, message.user_data, owned, message.generation_id, message.rack_id, version)


def encode_subscription(subscription: Subscription) -> bytes:
    """Encodes a subscription in its version."""
    entry = ConsumerProtocolSubscription.TopicPartition
    message = ConsumerProtocolSubscription(
        topics=list(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[entry(topic, list(partitions)) for topic, partitions in subscription.owned.items()],
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    body = Codec.of().encoder("ConsumerProtocolSubscription", subscription.version)(message)
    return subscription.version.to_bytes(2, "big") + body


def parse_assignment(data: bytes) -> Assignment:
    """Reads a member's assignment. Raises DecodeError. Empty bytes, which SyncGroup may send, are an empty assignment."""
    if not data:
        return Assignment({}, None, 0)
    name = "ConsumerProtocolAssignment"
    version = _version(data, name)
    message = cast(ConsumerProtocolAssignment, Codec.of().decoder(name, version)(data, 2)[0])
    partitions = _merged((entry.topic, entry.partitions) for entry in message.assigned_partitions)
    return Assignment(partitions, message.user_data, version)


def encode_assignment(assignment: Assignment) -> bytes:
    """Encodes an assignment in its version."""
    entry = ConsumerProtocolAssignment.TopicPartition
    message = ConsumerProtocolAssignment(
        assigned_partitions=[entry(topic, list(partitions)) for topic, partitions in assignment.partitions.items()],
        user_data=assignment.user_data,
    )
    body = Codec.of().encoder("ConsumerProtocolAssignment", assignment.version)(message)
    return assignment.version.to_bytes(2, "big") + body


def _version(data: bytes, name: str) -> int:
    if len(data) < 2:
        raise DecodeError(f"{name} has no version")
    version: int = struct.unpack_from(">h", data)[0]
    known = Codec.of().versions(name)
    if version < known.lowest:
        raise DecodeError(f"{name} has version {version}")
    return min(version, known.highest)


def _merged(entries: Iterable[tuple[str, list[int]]]) -> dict[str, tuple[int, ...]]:
    partitions: dict[str, tuple[int, ...]] = {}
    for topic, indexes in entries:
        partitions[topic] = partitions.get(topic, ()) + tuple(indexes)
    return partitions
