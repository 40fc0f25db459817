"""The rules that the assignments of a classic group's leader must keep (KIP-792).

    two_members      a partition was assigned to more than one member
    no_subscriber    a partition of a topic was assigned that no member subscribes to
    not_revoked      a partition was taken from its owner and assigned to another member in one round of a cooperative assignor,
                     although the owner has not revoked it: the owner may go on reading it until its own SyncGroup response

The first two hold for every assignor. The third is that of Java's `ConsumerCoordinator.validateCooperativeAssignment`, which
runs in the leader's process, for Java's leaders only, and trusts all claims. Here an owner is a member whose claim is valid
(owned_partitions.py) and the only one for that partition: which of several claimants is the owner, nobody can say.

A member may be assigned a topic that another member subscribes to: with a pattern, the leader may have seen a new topic first.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coordinator.protocol.subscription import TopicPartitions

TWO_MEMBERS, NO_SUBSCRIBER, NOT_REVOKED = "two_members", "no_subscriber", "not_revoked"
RULES = (TWO_MEMBERS, NO_SUBSCRIBER, NOT_REVOKED)

PARTITIONS_NAMED_MAX = 10
"""A violation names at most this many partitions; its count covers all of them."""
HOLDERS_NAMED_MAX = 10
"""A partition names at most this many of the members that it was assigned to."""

_Partition = tuple[str, int]


class InvalidPartition(NamedTuple):
    """A partition that breaks a rule."""

    topic: str
    partition: int
    member_ids: tuple[str, ...]
    """The members that it was assigned to; at most HOLDERS_NAMED_MAX of them."""
    owner_id: str | None
    """The member that has not revoked it; None under the other rules."""


class Violation(NamedTuple):
    """A rule that the assignments of a generation break."""

    rule: str
    size: int
    """The number of partitions."""
    partitions: tuple[InvalidPartition, ...]


class InvalidAssignment(NamedTuple):
    """The assignment of one generation, which breaks rules."""

    generation: int
    leader_id: str
    protocol: str
    is_refused: bool
    """Whether the members had to join again; otherwise they received it."""
    violations: tuple[Violation, ...]


def find_violations(
    assignments: Mapping[str, TopicPartitions],
    subscribed: frozenset[str] | None,
    claims: Iterable[tuple[str, TopicPartitions]],
) -> tuple[Violation, ...]:
    """Returns the rules that the assignments (by member id) break, in the order of RULES.

    `subscribed`: the topics of all members; None if a subscription cannot be read. `claims`: the partitions that members have
    not revoked, without invalid claims; empty unless the assignor is cooperative.
    """
    holders: dict[str, dict[int, str]] = {}
    doubled: dict[_Partition, list[str]] = {}
    for member_id, partitions in assignments.items():
        for topic, indexes in partitions.items():
            given = dict.fromkeys(indexes, member_id)
            held = holders.setdefault(topic, given)
            if held is not given:
                for index in held.keys() & given.keys():
                    doubled.setdefault((topic, index), [held[index]]).append(member_id)
                held |= given

    def violation(rule: str, owners: Mapping[_Partition, str | None]) -> Violation:
        named = [
            InvalidPartition(
                topic, index, tuple(doubled.get((topic, index), [holders[topic][index]])[:HOLDERS_NAMED_MAX]), owner_id
            )
            for (topic, index), owner_id in sorted(owners.items())[:PARTITIONS_NAMED_MAX]
        ]
        return Violation(rule, len(owners), tuple(named))

    found: dict[str, Mapping[_Partition, str | None]] = {
        TWO_MEMBERS: dict.fromkeys(doubled),
        NO_SUBSCRIBER: _without_subscriber(holders, subscribed),
        NOT_REVOKED: _not_revoked(assignments, holders, list(claims)),
    }
    return tuple(violation(rule, owners) for rule, owners in found.items() if owners)


def _without_subscriber(
    holders: Mapping[str, Mapping[int, str]], subscribed: frozenset[str] | None
) -> dict[_Partition, None]:
    if subscribed is None:
        return {}
    return dict.fromkeys((topic, index) for topic in holders.keys() - subscribed for index in holders[topic])


def _not_revoked(
    assignments: Mapping[str, TopicPartitions],
    holders: Mapping[str, Mapping[int, str]],
    claims: list[tuple[str, TopicPartitions]],
) -> dict[_Partition, str]:
    """Partition -> its owner, for those that another member was assigned and the owner was not."""
    moved: dict[str, set[int]] = {}
    for member_id, owned in claims:
        kept = assignments.get(member_id, {})
        for topic, indexes in owned.items():
            lost = holders.get(topic, {}).keys() & set(indexes).difference(kept.get(topic, ()))
            if lost:
                moved.setdefault(topic, set()).update(lost)
    claimants: dict[_Partition, list[str]] = {}
    for member_id, owned in claims if moved else ():
        for topic, indexes in owned.items():
            for index in moved.get(topic, set()).intersection(indexes):
                claimants.setdefault((topic, index), []).append(member_id)
    return {partition: who[0] for partition, who in claimants.items() if len(who) == 1}
