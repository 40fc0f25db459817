"""A share group (KIP-932): the state that its operations work on.

What it shares with consumer and streams groups, epochs and a target, is in epochs/group.py. Its members read the same
partitions together, record by record, so a partition has any number of them, and nobody waits until another one gives something
up: a member is at the target's epoch with its first heartbeat after it. There are no static members and no committed offsets;
how far the group has come in a partition is that partition's state (initialized.py).

    member epoch <= target assignment epoch <= group epoch

Kafka: `ShareGroup`.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from coordinator.groups.assignors.assignor import Partitions
from coordinator.groups.catalog import Catalog
from coordinator.groups.committer import FencingPolicies
from coordinator.groups.epochs.group import ModernGroup
from coordinator.groups.fence import NO_FENCE
from coordinator.groups.held_bytes import PARTITION_BYTES
from coordinator.groups.kinds import Kind
from coordinator.groups.settings import GroupSettings
from coordinator.groups.share.initialized import NO_STATE_PARTITIONS, StatePartitions
from coordinator.groups.share.member import NO_PARTITIONS, ShareMember
from coordinator.groups.share.soft_state import ShareSoftState
from coordinator.groups.share_states import ShareStates
from coordinator.groups.state import Groups
from coordinator.runtime.result import Ask, TimerKey

_KIND = Kind.SHARE


class State(StrEnum):
    """The state of a share group. Kafka knows no others, however far the target is behind."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup(ModernGroup[ShareMember, Partitions, ShareSoftState]):
    """One share group. Only replay.py calls what is under "replay"."""

    __slots__ = ("state_partitions", "subscribed")

    kind = _KIND
    protocol_type = _KIND.label
    has_offsets = False

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id, NO_FENCE, ShareSoftState())
        self.state_partitions: StatePartitions = NO_STATE_PARTITIONS

        # Follows from the members, and is kept up to date as they change.
        self.subscribed: dict[str, int] = {}
        """Topic name -> members that subscribe to it."""

    # --- questions ----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        return State.STABLE if self.members else State.EMPTY

    @property
    def durable(self) -> dict[str, Any]:
        return super().durable | {"state_partitions": self.state_partitions, "subscribed": self.subscribed}

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    def find_committer(self, member_id: str, catalog: Catalog) -> None:
        """Nobody commits offsets for a share group."""

    def fencing_policies(self, settings: GroupSettings) -> FencingPolicies:  # noqa: ARG002 - as Group has it
        """Raises GROUP_ID_NOT_FOUND: what asks for it is about to commit offsets."""
        raise self.no_offsets()

    def asks_at_end(self, states: ShareStates) -> Sequence[Ask]:
        partitions = self.state_partitions.partitions
        return (lambda _: states.delete(self.group_id, partitions),) if partitions else ()

    def _new_member(self, member_id: str) -> ShareMember:
        return ShareMember(member_id=member_id)

    # --- replay -------------------------------------------------------------------------------------------------------

    def set_group_epoch(self, epoch: int, metadata_hash: int) -> None:
        self.group_epoch = epoch
        self.metadata_hash = metadata_hash
        self.soft.on_epochs_changed()

    def set_state_partitions(self, partitions: StatePartitions) -> None:
        self.hold_derived(PARTITION_BYTES * (partitions.size - self.state_partitions.size))
        self.state_partitions = partitions
        self.soft.on_epochs_changed()

    def _index(self, old: ShareMember | None, new: ShareMember | None) -> None:
        before = frozenset() if old is None else old.topics
        after = frozenset() if new is None else new.topics
        for name in after - before:
            self.subscribed[name] = self.subscribed.get(name, 0) + 1
        for name in before - after:
            self.subscribed[name] -= 1
            if not self.subscribed[name]:
                del self.subscribed[name]
        if new is not None:
            self._hold_metadata(old, new)

    def _index_target(self, member_id: str, before: Partitions | None, after: Partitions | None) -> None:  # noqa: ARG002 - consumer groups need the id
        self.hold_derived(PARTITION_BYTES * (_size(after) - _size(before)))


def _size(part: Partitions | None) -> int:
    return sum(map(len, (NO_PARTITIONS if part is None else part).values()))


def find_share_group(groups: Groups, group_id: str) -> ShareGroup | None:
    """The share group of this id; None if there is no group, or one of another kind."""
    group = groups.by_id.get(group_id)
    if group is None or group.kind is not _KIND:
        return None
    return group  # type: ignore[return-value]  # the kind says the class


def share_group_or_new(groups: Groups, group_id: str) -> ShareGroup:
    """For replay: the share group of this id; created if there is none, in the place of a group of another kind."""
    group = find_share_group(groups, group_id)
    if group is None:
        group = ShareGroup(group_id)
        groups.put(group)
    return group


def session_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that ends a member's session."""
    return ("share-session", group_id, member_id)
