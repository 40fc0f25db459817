"""A member of a share group (Kafka: `ShareGroupMember`): its metadata, and the partitions that it reads with others."""

from dataclasses import dataclass, field, replace
from typing import Never

from coordinator.groups.assignors.assignor import Partitions
from coordinator.groups.committer import NO_REVOCATION_EPOCH
from coordinator.groups.epochs.member import LEAVING_EPOCH, ModernMember
from coordinator.groups.held_bytes import names_bytes

NO_PARTITIONS: Partitions = {}
STABLE = 0
"""The only state of a member; Kafka's number, as in its records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember(ModernMember):
    """A member: first its metadata (record type 10), then its partitions (type 14)."""

    topics: frozenset[str] = frozenset()
    """Names it subscribes to."""
    assigned: Partitions = field(default_factory=lambda: NO_PARTITIONS)

    def _metadata_bytes(self) -> int:
        return names_bytes(self.topics)

    @property
    def is_stable(self) -> bool:
        """Always: nobody waits for a partition until another member gives it up."""
        return True

    @property
    def has_revocation_deadline(self) -> bool:
        return False

    def away(self) -> Never:
        """Never called: share groups have no static members."""
        raise AssertionError

    def successor(self, member_id: str) -> Never:  # noqa: ARG002 - as ModernMember has it
        """Never called, either."""
        raise AssertionError

    def removed(self) -> "ShareMember":
        return replace(
            self,
            member_epoch=LEAVING_EPOCH,
            previous_member_epoch=LEAVING_EPOCH,
            assigned=NO_PARTITIONS,
            revocation_epoch=NO_REVOCATION_EPOCH,
        )
