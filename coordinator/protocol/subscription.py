"""What consumers put into JoinGroup and SyncGroup: subscription and assignment of the protocol type "consumer".

The coordinator passes these bytes from member to member without reading them. It reads a subscription only where a rule needs
its topics (offset expiry, OffsetDelete) or the partitions that a member claims to own. Both formats begin with their version. A
newer version than ours is read as our newest, because these formats only ever grow at their end.

KIP-792 wrote the fields of a subscription in another order than the one that became Kafka's: GenerationId before UserData. The
dialect of that name reads both.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from coordinator.protocol.wire import DecodeError

NO_GENERATION = -1
KIP_792 = "kip-792"
"""The dialect in which a subscription has its fields in that proposal's order."""
_GENERATION_SINCE = 2
_VERSION_BYTES = 2
_INT32 = struct.Struct(">i")

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
    dialect: str | None = None
    """The dialect in whose order the fields are encoded; None: Kafka's."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions that a member was assigned."""

    partitions: TopicPartitions
    user_data: bytes | None
    version: int


def parse_subscription(data: bytes, dialect: str | None = None) -> Subscription:
    """Reads a member's metadata. Raises DecodeError if it is not a subscription.

    With a dialect, bytes that have exactly its form are read so, and others in Kafka's form.
    """
    if dialect is not None:
        try:
            subscription, end = _subscription(data, dialect)
        except DecodeError:
            return _subscription(data, None)[0]
        if end == len(data) and subscription.version == int.from_bytes(data[:_VERSION_BYTES]):
            return subscription
    return _subscription(data, None)[0]


def is_in_kip_order(data: bytes) -> bool:
    """Whether these bytes are a subscription in the order of KIP-792, and none in Kafka's order."""
    if int.from_bytes(data[:_VERSION_BYTES]) != _GENERATION_SINCE:
        return False  # Earlier versions are the same in both, and the proposal has no later one.
    return not _is_exactly(data, None) and _is_exactly(data, KIP_792)


def _is_exactly(data: bytes, dialect: str | None) -> bool:
    try:
        return _subscription(data, dialect)[1] == len(data)
    except DecodeError:
        return False


def _subscription(data: bytes, dialect: str | None) -> tuple[Subscription, int]:
    """The subscription and its end."""
    name = "ConsumerProtocolSubscription"
    codec = Codec.of(dialect)
    version = _version(data, name, codec)
    decoded, end = codec.decoder(name, version)(data, _VERSION_BYTES)
    message = cast(ConsumerProtocolSubscription, decoded)
    owned = _merged((entry.topic, entry.partitions) for entry in message.owned_partitions)
    topics, rack_id = tuple(message.topics), message.rack_id
    return Subscription(topics, message.user_data, owned, message.generation_id, rack_id, version, dialect), end


def sticky_generation(user_data: bytes | None) -> int | None:
    """The generation in the user data of the assignor `cooperative-sticky`; None if there is none.

    Java's assignor writes it alone (`CooperativeStickyAssignor`). librdkafka and franz-go write it behind the previous
    assignment, as Java's eager assignor `sticky` does.
    """
    if user_data is None:
        return None
    at = 0
    try:
        if len(user_data) > _INT32.size:
            (topics,) = _INT32.unpack_from(user_data)
            at = _INT32.size
            for _ in range(topics):
                at += 2 + int.from_bytes(user_data[at : at + 2])
                (partitions,) = _INT32.unpack_from(user_data, at)
                at += _INT32.size * (1 + max(partitions, 0))
        (generation,) = _INT32.unpack_from(user_data, at)
    except struct.error:
        return None
    return generation if at + _INT32.size == len(user_data) and generation >= 0 else None


def encode_subscription(subscription: Subscription) -> bytes:
    """Encodes a subscription in its version and order."""
    entry = ConsumerProtocolSubscription.TopicPartition
    message = ConsumerProtocolSubscription(
        topics=list(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[entry(topic, list(partitions)) for topic, partitions in subscription.owned.items()],
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    codec = Codec.of(subscription.dialect)
    body = codec.encoder("ConsumerProtocolSubscription", subscription.version)(message)
    return subscription.version.to_bytes(2, "big") + body


def parse_assignment(data: bytes) -> Assignment:
    """Reads a member's assignment. Raises DecodeError. Empty bytes, which SyncGroup may send, are an empty assignment."""
    if not data:
        return Assignment({}, None, 0)
    name = "ConsumerProtocolAssignment"
    version = _version(data, name, Codec.of())
    message = cast(ConsumerProtocolAssignment, Codec.of().decoder(name, version)(data, _VERSION_BYTES)[0])
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


def _version(data: bytes, name: str, codec: Codec) -> int:
    if len(data) < _VERSION_BYTES:
        raise DecodeError(f"{name} has no version")
    version: int = struct.unpack_from(">h", data)[0]
    known = codec.versions(name)
    if version < known.lowest:
        raise DecodeError(f"{name} has version {version}")
    return min(version, known.highest)


def _merged(entries: Iterable[tuple[str, list[int]]]) -> dict[str, tuple[int, ...]]:
    partitions: dict[str, tuple[int, ...]] = {}
    for topic, indexes in entries:
        partitions[topic] = partitions.get(topic, ()) + tuple(indexes)
    return partitions
