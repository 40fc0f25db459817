"""The member that a commit names, as the fence sees it: its epochs, whatever the kind of its group.

A member of a consumer group is one as it is. A member of a streams group becomes one through its tasks
(streams/committer.py): offsets are committed for partitions, not for tasks. All members of a classic group share one,
which only has the generation.
"""

from functools import lru_cache
from typing import NamedTuple, Protocol

from coordinator.groups.epochs.member import PartitionEpochs
from coordinator.groups.kinds import Kind

NO_REVOCATION_EPOCH = -1
"""It is not known when the member last lost a partition: its group has no such epoch, or a Kafka wrote its record that has
no such field."""
_GENERATIONS_CACHED = 1_024
_NOTHING: PartitionEpochs = {}


class Committer(Protocol):
    """An immutable value."""

    @property
    def member_epoch(self) -> int:
        """The generation, in a classic group."""

    @property
    def revocation_epoch(self) -> int:
        """The last member epoch in which the member lost a partition (KAFKA-19779); -1 if that is not known."""

    @property
    def uses_classic_protocol(self) -> bool:
        """Also true of members of consumer groups that join by JoinGroup (KIP-848, online migration)."""

    @property
    def assigned(self) -> PartitionEpochs: ...
    @property
    def pending_revocation(self) -> PartitionEpochs:
        """Partitions that the member must give up and still holds."""

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch at which the member was given the partition; None if it does not hold it."""


class FencingPolicies(Protocol):
    """The settings that decide which epochs of a member may commit."""

    @property
    def fencing_policy(self) -> str: ...
    @property
    def require_ownership(self) -> bool: ...


Origin = tuple[Kind, Committer | None, FencingPolicies | None]
"""Where a commit comes from: the kind of the group, the member that the request names, and the group's policies."""
NO_GROUP: Origin = (Kind.CLASSIC, None, None)
"""A commit to a group that does not exist, which will be a simple one."""


class ClassicCommitter(NamedTuple):
    """Any member of a classic group, in this generation. The coordinator does not know what it owns."""

    member_epoch: int
    revocation_epoch: int = NO_REVOCATION_EPOCH
    uses_classic_protocol: bool = True
    assigned: PartitionEpochs = _NOTHING
    pending_revocation: PartitionEpochs = _NOTHING

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:  # noqa: ARG002 - as others have
        return None


@lru_cache(_GENERATIONS_CACHED)
def classic_committer(generation: int) -> ClassicCommitter:
    """The committer of a generation; the same object each time, since there is one commit after the other."""
    return ClassicCommitter(generation)
