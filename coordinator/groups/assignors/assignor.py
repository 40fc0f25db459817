"""Which member reads which partition: the interface of an assignor, and the check of its answer.

An assignor is called when a consumer group's epoch was raised: it is given every member with its subscription and its part of
the target so far, and answers with the part that each member is to have from now on (the *target*). When and how members get
there is not its concern (consumer/reconcile.py). It must be a pure function: the same group gives the same answer, in
whatever order the members are listed.

Users add an assignor of their own as an entry point of the group `coordinator.assignors` and name it in
`group.consumer.assignors`. Code that we did not write must not be able to give a partition to two members, so its answer is
checked, and a failure of any kind fails the heartbeat that called it, not the server.

Kafka: `ConsumerGroupPartitionAssignor`, `GroupSpec`, `MemberSubscriptionAndAssignmentImpl`.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Protocol

Partitions = Mapping[bytes, frozenset[int]]
"""Topic id -> partitions. A topic without partitions is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """A member as an assignor sees it."""

    instance_id: str | None
    rack_id: str | None
    topics: frozenset[bytes]
    """Ids of the topics it subscribes to, by name or by pattern, and that exist."""
    assigned: Partitions
    """Its part of the target so far. May name topics that it no longer subscribes to or that no longer exist."""
    assigned_count: int = field(init=False, compare=False)
    """Partitions in `assigned`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "assigned_count", sum(map(len, self.assigned.values())))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A consumer group as an assignor sees it."""

    members: Mapping[str, MemberSpec]
    """By member id."""
    partitions: Mapping[bytes, int]
    """Topic id -> number of partitions, for every topic that a member subscribes to."""
    free: Mapping[bytes, AbstractSet[int]] | None = None
    """Topic id -> partitions that no part of the target so far contains, for every topic; an assignor need not use it.

    None unless each of the other partitions is in exactly one member's `assigned`, and nothing else is.
    """


class Assignor(Protocol):
    """Distributes the partitions of a group."""

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        """The partitions of each member. A member left out gets none."""


class BuiltIn:
    """An assignor of ours. Its answers are not checked: tests do that, and the check costs as much as the assignment."""


class AssignorError(Exception):
    """An assignor failed, or its answer is impossible."""


def run(name: str, assignor: Assignor, group: GroupSpec) -> dict[str, Partitions]:
    """The assignor's answer for every member. Raises AssignorError."""
    try:
        answer = assignor.assign(group)
    except Exception as error:
        raise AssignorError(f"assignor {name}: {type(error).__name__}: {error}") from error
    return _complete(group, answer if isinstance(assignor, BuiltIn) else _checked(name, group, answer))


def _complete(group: GroupSpec, answer: Mapping[str, Partitions]) -> dict[str, Partitions]:
    if len(answer) == len(group.members):
        return dict(answer)
    none: Partitions = {}
    return {member_id: answer.get(member_id, none) for member_id in group.members}


def _checked(name: str, group: GroupSpec, answer: Mapping[str, Partitions]) -> dict[str, Partitions]:
    taken: dict[bytes, set[int]] = {}
    for member_id, assigned in answer.items():
        member = group.members.get(member_id)
        if member is None:
            raise AssignorError(f"assignor {name}: {member_id} is no member")
        for topic_id, partitions in assigned.items():
            if topic_id not in member.topics:
                raise AssignorError(f"assignor {name}: {member_id} does not subscribe to topic {topic_id.hex()}")
            before = taken.get(topic_id)
            if before is None:
                taken[topic_id] = set(partitions)
                continue
            count = len(before)
            before |= partitions
            if len(before) != count + len(partitions):
                raise AssignorError(f"assignor {name}: a partition of topic {topic_id.hex()} is given twice")
    for topic_id, given in taken.items():
        if given and not (min(given) >= 0 and max(given) < group.partitions[topic_id]):
            raise AssignorError(f"assignor {name}: topic {topic_id.hex()} has no such partition")
    return {
        member_id: {topic_id: frozenset(parts) for topic_id, parts in assigned.items() if parts}
        for member_id, assigned in answer.items()
    }
