"""Checks the partitions that members claim to own, across the group (KIP-792).

A cooperative rebalance is incremental: a member keeps reading what it owns while the group rebalances, and lists it in its
subscription. The leader believes it. A member that missed a generation (a long pause, a lost response) still claims what has
meanwhile gone to another member. A leader that accepts both claims assigns the partition twice, takes it from its
real owner, or never converges (KAFKA-12984, KAFKA-13406).

Since version 2 a subscription names the generation in which it was true. That is enough for the coordinator to judge a claim
without understanding any assignor:

    stale       made in an older generation than the last one that was assigned, or in one that this group never had
    contested   claimed by several members whose claims are not stale

Clients see no effect: findings are counted, emitted and shown in the admin view. With
`group.classic.sanitize.owned.partitions` stale claims are also cleared in the copy that the leader gets; a contested
partition stays as it is, because the coordinator cannot know which member owns it. Members that send their generation with
the join itself (join.py) are fenced earlier.

Claims of versions 0 and 1 carry no generation of their own. The assignor `cooperative-sticky` carries it in its user data,
which was Kafka's remedy before KIP-792. It is used where the field is missing, as Kafka's assignor uses it, and is the
generation whose assignment the member received last. Without any generation a claim can only be contested. (The eager
assignor `sticky` also writes a previous assignment and its generation there. That is a wish and no claim: the member has
given everything up.)
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from coordinator.groups.held_bytes import NAME_BYTES, names_bytes, text_bytes
from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.messages import ConsumerProtocolSubscription
from coordinator.protocol.subscription import (
    KIP_792,
    NO_GENERATION,
    Subscription,
    encode_subscription,
    is_in_kip_order,
    parse_subscription,
    sticky_generation,
)

FINDINGS_KEPT = 100
"""A group keeps this many findings of each kind, and as many partitions of each; the counts cover all of them."""

COOPERATIVE_STICKY = "cooperative-sticky"
"""The assignor's name in all clients."""
_GENERATION_SINCE = 2
_VERSION_BYTES = 2


class StaleClaim(NamedTuple):
    """A member's claims from a generation that is not the group's."""

    member_id: str
    generation_id: int
    """-1: the member does not know its generation."""
    partitions: tuple[tuple[str, int], ...]


class Contested(NamedTuple):
    """A partition that several members claim."""

    topic: str
    partition: int
    member_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The invalid claims of one generation."""

    generation: int
    stale: tuple[StaleClaim, ...]
    stale_count: int
    """Partitions."""
    contested: tuple[Contested, ...]
    contested_count: int
    """Partitions."""
    cleared: dict[str, bytes]
    """Member id -> the metadata that the leader receives instead, when stale claims are cleared."""


class Reading(NamedTuple):
    """A member's metadata, as far as the coordinator can parse it."""

    metadata: bytes
    topics: frozenset[str] | None
    """None if the metadata are not a subscription."""
    subscription: Subscription | None
    """None if any part of the metadata is malformed."""
    dialect: str | None
    """That of the member's listener."""
    held_bytes: int
    """The size of this, besides the metadata themselves."""
    is_in_kip_order: bool
    """Whether the fields are in the order of KIP-792, which the member's listener does not speak."""


def read_metadata(metadata: bytes, dialect: str | None) -> Reading:
    """Parses metadata of protocol type "consumer". Finds the topics even if the fields behind them are malformed."""
    if dialect != KIP_792 and is_in_kip_order(metadata):
        return _topics_alone(metadata, dialect, is_in_kip_order=True)
    try:
        subscription = parse_subscription(metadata, dialect)
    except DecodeError:
        return _topics_alone(metadata, dialect, is_in_kip_order=False)
    topics = frozenset(subscription.topics)
    return Reading(metadata, topics, subscription, dialect, _held_bytes(topics, subscription), False)


def unread(metadata: bytes, dialect: str | None) -> Reading:
    """Metadata that are too large to be parsed."""
    return Reading(metadata, None, None, dialect, 0, False)


def _topics_alone(metadata: bytes, dialect: str | None, *, is_in_kip_order: bool) -> Reading:
    topics = _topics(metadata)
    return Reading(metadata, topics, None, dialect, names_bytes(topics or ()), is_in_kip_order)


def _held_bytes(topics: frozenset[str], subscription: Subscription) -> int:
    user_data, owned = subscription.user_data, subscription.owned
    return (
        names_bytes(topics)
        + (0 if user_data is None else len(user_data))
        + sum(NAME_BYTES * (1 + len(indexes)) + text_bytes(topic) for topic, indexes in owned.items())
    )


def check_claims(
    subscriptions: Iterable[tuple[str, Subscription]],
    *,
    forming: int,
    assigned: int,
    assignor: str | None,
    sanitize: bool,
) -> Claims | None:
    """Checks the claims of (member id, subscription) for the generation `forming`; None if all are valid.

    `assigned`: the last generation whose members received assignments.
    """
    stale: list[StaleClaim] = []
    stale_count = 0
    cleared: dict[str, bytes] = {}
    claimants: dict[tuple[str, int], str | list[str]] = {}
    contested: list[tuple[str, int]] = []
    for member_id, subscription in subscriptions:
        owned = subscription.owned
        if not owned:
            continue
        generation = claimed_generation(subscription, assignor)
        if generation is not None and is_stale(generation, forming, assigned):
            partitions = tuple((topic, index) for topic, indexes in owned.items() for index in indexes)
            if not partitions:
                continue
            stale_count += len(partitions)
            stale.append(StaleClaim(member_id, generation, partitions[:FINDINGS_KEPT]))
            if sanitize:
                cleared[member_id] = encode_subscription(replace(subscription, owned={}, generation_id=NO_GENERATION))
            continue
        for topic, indexes in owned.items():
            for index in indexes:
                partition = (topic, index)
                others = claimants.setdefault(partition, member_id)
                if others == member_id:
                    continue
                if isinstance(others, list):
                    if others[-1] != member_id:
                        others.append(member_id)
                else:
                    claimants[partition] = [others, member_id]
                    contested.append(partition)
    if not stale and not contested:
        return None
    return Claims(
        generation=forming,
        stale=tuple(stale[:FINDINGS_KEPT]),
        stale_count=stale_count,
        contested=tuple(Contested(*each, tuple(claimants[each])) for each in contested[:FINDINGS_KEPT]),
        contested_count=len(contested),
        cleared=cleared,
    )


def claimed_generation(subscription: Subscription, assignor: str | None) -> int | None:
    """The generation of a member's claims; -1 if the member does not know it, None if the subscription cannot say it.

    Mirrors `CooperativeStickyAssignor.memberData`.
    """
    if subscription.generation_id != NO_GENERATION:
        return subscription.generation_id
    if assignor == COOPERATIVE_STICKY:
        generation = sticky_generation(subscription.user_data)
        if generation is not None:
            return generation
    return NO_GENERATION if subscription.version >= _GENERATION_SINCE else None


def is_stale(generation: int, forming: int, assigned: int) -> bool:
    """Whether claims of this generation are from before `assigned`, or not from before `forming`."""
    return not assigned <= generation < forming


def _topics(metadata: bytes) -> frozenset[str] | None:
    """The topics alone; every version begins like version 0."""
    if int.from_bytes(metadata[:_VERSION_BYTES], "big", signed=True) < 0 or len(metadata) < _VERSION_BYTES:
        return None
    try:
        message, _ = Codec.of().decoder("ConsumerProtocolSubscription", 0)(metadata, _VERSION_BYTES)
    except DecodeError:
        return None
    assert isinstance(message, ConsumerProtocolSubscription)
    return frozenset(message.topics)
