"""A classic group: the state that the classic protocol's operations work on (mirrors `ClassicGroup`).

A classic group (Kafka's first group protocol, which most clients still speak) agrees on a *generation*: a numbered list of
members, one of which leads. All members join; when all have, or time is up, the generation is formed, and the leader receives
the member list with each member's `metadata` (opaque to the coordinator). The leader returns one `assignment` per member
(opaque too), the generation is written to the log, and the members receive their assignments.

So a group has two halves, which must not be mixed up:

    stored      what the log says: the last generation that was assigned, or that became empty. It is the record itself.
                Only replay.py sets it, live and at a load by the same line. It survives a crash.
    the round   everything else (round.py): soft state, which operations change in place and a crash loses.
"""

from typing import Any

from coordinator.groups.classic.member import ClassicMember
from coordinator.groups.classic.round import Round
from coordinator.groups.classic.states import State
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.protocol.messages import ClassicGroupResyncValue, GroupMetadataValue

_NO_TIME = -1
_KIND = Kind.CLASSIC


class ClassicGroup(Round):
    """One classic group, or a simple one: the offsets of consumers that use no groups."""

    __slots__ = ("resynced", "stored")

    def __init__(self, group_id: str, now_ms: int | None) -> None:
        super().__init__(group_id, now_ms)
        self.stored: GroupMetadataValue | None = None
        """The group's record in the log; None if there is none."""
        self.resynced: ClassicGroupResyncValue | None = None
        """The record behind it that says that the leader resynced the generation; None if there is none."""

    @property
    def durable(self) -> Any:
        return None if self.stored is None else (self.stored, self.resynced)

    @property
    def is_simple(self) -> bool:
        return self.stored is None and self.state is State.EMPTY

    @property
    def is_forgettable(self) -> bool:
        return self.is_simple and not self.pending_joins

    def resume(self, stored: GroupMetadataValue) -> None:
        """Starts the round from the stored half, when a shard has been loaded."""
        assert not self.members
        self.generation = stored.generation
        self.protocol_type = stored.protocol_type or None
        self.protocol_name = stored.protocol
        timestamp_ms = stored.current_state_timestamp
        self.state_timestamp_ms = None if timestamp_ms == _NO_TIME else timestamp_ms
        for each in stored.members:
            rebalance_timeout_ms = (
                each.rebalance_timeout if each.rebalance_timeout != _NO_TIME else each.session_timeout
            )
            # The log only holds the chosen one of the protocols that a member offers.
            member = ClassicMember(
                self.group_id, each.member_id, each.group_instance_id, each.client_id, each.client_host,
                ((stored.protocol or "", each.subscription),), each.assignment,
                each.session_timeout, rebalance_timeout_ms,
            )  # fmt: skip
            self.add(member, stored.protocol_type)
        self.state = State.STABLE if self.members else State.EMPTY
        if stored.leader in self.members:
            self.leader_id = stored.leader


def find_classic_group(groups: Groups, group_id: str) -> ClassicGroup | None:
    """The classic group of this id; None if there is no group, or one of another kind."""
    group = groups.by_id.get(group_id)
    if group is None or group.kind is not _KIND:
        return None
    return group  # type: ignore[return-value]  # the kind says the class


def classic_group_or_new(groups: Groups, group_id: str) -> ClassicGroup:
    """For replay: the classic group of this id; created if there is none, in the place of a group of another kind."""
    group = find_classic_group(groups, group_id)
    if group is None:
        group = ClassicGroup(group_id, None)
        groups.put(group)
    return group
