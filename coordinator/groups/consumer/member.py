"""A member of a consumer group (Kafka: `ConsumerGroupMember`): its metadata, and the partitions it holds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from coordinator.groups.committer import NO_REVOCATION_EPOCH
from coordinator.groups.epochs.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_FOR_A_WHILE_EPOCH,
    ModernMember,
    PartitionEpochs,
    unassigned,
)
from coordinator.groups.held_bytes import names_bytes, text_bytes

NOTHING: PartitionEpochs = {}
_NO_EPOCHS: Mapping[int, int] = {}


class MemberState(IntEnum):
    """How far a member is on its way to the target; Kafka's numbers, as in its records."""

    STABLE = 0
    """It holds its part of the target of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It must give up partitions before it may go on, and still has the epoch in which it had them."""
    UNRELEASED_PARTITIONS = 2
    """It has reached the target's epoch; some of its partitions are still held by others."""
    UNKNOWN = 127
    """Written by a newer Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicPart:
    """The additional state of a member that speaks the classic protocol to a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Name and metadata of each, in the member's order; its responses say that the first was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember(ModernMember):
    """A member: first its metadata (record type 5), then its holdings (type 8)."""

    topics: frozenset[str] = frozenset()
    """Names it subscribes to."""
    regex: str = ""
    """A pattern it subscribes to as well; "" for none."""
    assignor: str | None = None
    """The server-side assignor that it asks for."""
    classic: ClassicPart | None = None
    """Set for a member that speaks the classic protocol."""

    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = field(default_factory=lambda: NOTHING)
    pending_revocation: PartitionEpochs = field(default_factory=lambda: NOTHING)
    """Partitions that it must give up and still holds: it has not confirmed their revocation yet."""

    def _metadata_bytes(self) -> int:
        protocols = () if self.classic is None else self.classic.protocols
        return (
            names_bytes(self.topics)
            + text_bytes(self.regex)
            + text_bytes(self.assignor or "")
            + sum(text_bytes(name) + len(metadata) for name, metadata in protocols)
        )

    @property
    def is_stable(self) -> bool:
        return self.state is MemberState.STABLE

    @property
    def has_revocation_deadline(self) -> bool:
        """A classic member has a time limit for its join instead."""
        return self.state is MemberState.UNREVOKED_PARTITIONS and self.classic is None

    def holding(
        self,
        *,
        member_epoch: int,
        previous_member_epoch: int,
        state: MemberState,
        assigned: PartitionEpochs,
        pending_revocation: PartitionEpochs,
        revocation_epoch: int,
    ) -> "ConsumerMember":
        """The same member with other holdings.

        `dataclasses.replace` takes three times as long, and every step of every member makes such a change.
        """
        return ConsumerMember(
            member_id=self.member_id,
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            client_id=self.client_id,
            client_host=self.client_host,
            topics=self.topics,
            regex=self.regex,
            assignor=self.assignor,
            classic=self.classic,
            member_epoch=member_epoch,
            previous_member_epoch=previous_member_epoch,
            state=state,
            assigned=assigned,
            pending_revocation=pending_revocation,
            revocation_epoch=revocation_epoch,
        )

    def away(self) -> "ConsumerMember":
        return replace(
            self,
            member_epoch=LEAVING_FOR_A_WHILE_EPOCH,
            state=MemberState.STABLE,
            pending_revocation=NOTHING,
            revocation_epoch=max(self.revocation_epoch, self.member_epoch)
            if self.pending_revocation
            else self.revocation_epoch,
        )

    def successor(self, member_id: str) -> "ConsumerMember":
        held = joined(self.assigned, self.pending_revocation)
        return replace(
            self,
            member_id=member_id,
            member_epoch=JOINING_EPOCH,
            previous_member_epoch=0,
            state=MemberState.STABLE,
            assigned=held if member_id == self.member_id else unassigned(held),
            pending_revocation=NOTHING,
        )

    def removed(self) -> "ConsumerMember":
        return self.holding(
            member_epoch=LEAVING_EPOCH,
            previous_member_epoch=LEAVING_EPOCH,
            state=MemberState.STABLE,
            assigned=NOTHING,
            pending_revocation=NOTHING,
            revocation_epoch=NO_REVOCATION_EPOCH,
        )

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch at which it was given the partition, which it may have to give up; None if it does not hold it."""
        epoch = self.assigned.get(topic_id, _NO_EPOCHS).get(partition)
        return self.pending_revocation.get(topic_id, _NO_EPOCHS).get(partition) if epoch is None else epoch


def joined(one: PartitionEpochs, other: PartitionEpochs) -> PartitionEpochs:
    """The partitions of both."""
    both = dict(one)
    for topic_id, held in other.items():
        both[topic_id] = {**both[topic_id], **held} if topic_id in both else held
    return both
