"""A member of a group with epochs: the part that consumer groups (KIP-848) and streams groups (KIP-1071) share.

Members are immutable values, fully backed by two log records: one for the member's metadata, one for its holdings. Each kind
adds its subscription or its tasks to this base (Kafka: `ModernGroupMember`, `StreamsGroupMember`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
LEAVING_FOR_A_WHILE_EPOCH = -2
"""Member epochs with a meaning of their own in a heartbeat (KIP-848). The last is for static members only."""

PartitionEpochs = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the epoch at which the member was given it (KIP-1251). No topic is empty."""
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

    @property
    @abstractmethod
    def is_stable(self) -> bool:
        """Whether the member holds its part of the target of its epoch."""

    @property
    @abstractmethod
    def has_revocation_deadline(self) -> bool:
        """Whether the member must give something up, and has its rebalance timeout to confirm that."""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.member_epoch == target_epoch and self.is_stable

    @abstractmethod
    def away(self) -> Self:
        """This static member after it has left for a while. Whoever takes its place counts as owner from the start."""

    @abstractmethod
    def successor(self, member_id: str) -> Self:
        """The member that joins under `member_id` in the place of this static member."""

    @abstractmethod
    def removed(self) -> Self:
        """This member between the tombstone of its assignment and that of its metadata: it holds nothing."""
