"""A member of a group with epochs: the part that consumer groups (KIP-848) and streams groups (KIP-1071) share.

Members are immutable values, fully backed by two log records: one for the member's metadata, one for its holdings. Each kind
adds its subscription or its tasks to this base (Kafka: `ModernGroupMember`, `StreamsGroupMember`).
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

from coordinator.groups.held_bytes import member_bytes, text_bytes

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
LEAVING_FOR_A_WHILE_EPOCH = -2
"""Member epochs with a meaning of their own in a heartbeat (KIP-848). The last is for static members only."""

NOT_ASSIGNED_YET = 0
"""As an assignment epoch: the member has taken the place of another, and has no epoch yet. No target has this epoch. Logs of
Kafka, and of older versions of this server, have it for good in the holdings of a static member that left for a while."""

PartitionEpochs = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the epoch at which the member was given it (KIP-1251). No topic is empty."""
Held = Mapping[bytes, Collection[int]]
"""The same, with or without the epochs."""
Owned = Iterable[tuple[bytes, Iterable[int]]] | None
"""The partitions that a member says it owns, by topic id; None: it does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModernMember(ABC):
    """The metadata that every member of a group with epochs has, and the epochs it has reached."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""

    member_epoch: int = JOINING_EPOCH
    previous_member_epoch: int = -1
    revocation_epoch: int = 0
    """The last member epoch in which it had a partition or an active task that it does not have any more (KAFKA-19779); -1 if
    the log does not say. It never falls, and is before the member epoch if that is positive."""

    @property
    @abstractmethod
    def is_stable(self) -> bool:
        """Whether the member holds its part of the target of its epoch."""

    @property
    @abstractmethod
    def has_revocation_deadline(self) -> bool:
        """Whether the member must give something up, and has its rebalance timeout to confirm that."""

    @property
    def held_bytes(self) -> int:
        """What the group holds of the member's metadata (held_bytes.py)."""
        return member_bytes(
            text_bytes(self.member_id)
            + text_bytes(self.instance_id or "")
            + text_bytes(self.rack_id or "")
            + text_bytes(self.client_id)
            + self._metadata_bytes()
        )

    @abstractmethod
    def _metadata_bytes(self) -> int:
        """The size of what the kind adds to the metadata."""

    @property
    def is_joining(self) -> bool:
        """Whether the member has no epoch: it is new, or it comes back after it left for a while."""
        return self.member_epoch <= JOINING_EPOCH

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.member_epoch == target_epoch and self.is_stable

    @abstractmethod
    def away(self) -> Self:
        """This static member after it has left for a while: what it had to give up is free.

        Its revocation epoch and its assignment epochs stay, so that they hold when it comes back under its member id.
        """

    @abstractmethod
    def successor(self, member_id: str) -> Self:
        """The member that joins under `member_id` in the place of this static member, and holds what it held.

        The same member keeps its assignment epochs. Under another id the holdings are `NOT_ASSIGNED_YET`: what that id may have
        committed before this member had them is out of date.
        """

    @abstractmethod
    def removed(self) -> Self:
        """This member between the tombstone of its assignment and that of its metadata: it holds nothing."""


Place = TypeVar("Place", bytes, str)


def unassigned(held: Mapping[Place, Iterable[int]]) -> Mapping[Place, Mapping[int, int]]:
    """The same partitions or tasks, `NOT_ASSIGNED_YET`."""
    return {place: dict.fromkeys(numbers, NOT_ASSIGNED_YET) for place, numbers in held.items()}


def is_unassigned(held: Mapping[Place, Mapping[int, int]]) -> bool:
    """Whether one of them is `NOT_ASSIGNED_YET`."""
    return any(NOT_ASSIGNED_YET in epochs.values() for epochs in held.values())


def assigned_at(held: Mapping[Place, Mapping[int, int]], epoch: int) -> Mapping[Place, Mapping[int, int]]:
    """The same partitions or tasks; those that were `NOT_ASSIGNED_YET` have this assignment epoch."""
    return {
        place: {number: since or epoch for number, since in numbers.items()}
        if NOT_ASSIGNED_YET in numbers.values()
        else numbers
        for place, numbers in held.items()
    }
