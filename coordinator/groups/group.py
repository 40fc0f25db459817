"""What a group of any kind must be able to say (mirrors `org.apache.kafka.coordinator.group.Group`).

Operations that serve all kinds (deleting a group, expiring or deleting offsets, listing groups) ask these questions and never
which kind they have before them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from heapq import nlargest
from typing import Any, ClassVar, NamedTuple, Self

from coordinator.groups.catalog import Catalog
from coordinator.groups.committer import Committer, FencingPolicies
from coordinator.groups.fence import Fence
from coordinator.groups.held_bytes import GROUP_BYTES, PARTITION_BYTES, ShardHeldBytes, text_bytes
from coordinator.groups.kinds import Kind
from coordinator.groups.settings import GroupSettings
from coordinator.groups.share_states import ShareStates
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.result import Ask, Link, Timer

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of groups whose members are consumers; their metadata are subscriptions."""
REBALANCES_KEPT = 16
"""Rebalances that a group remembers for its view (`/v1/groups/{group}`)."""
WAITS_SHOWN_MAX = 10
"""The view of a rebalance has at most this many members, those that it waited longest for."""

ExpiryBase = Callable[[int], int]
"""The moment (wall clock, ms) from which the retention of an offset counts, by the time of its commit."""


def commit_timestamp_ms(committed_ms: int) -> int:
    """The expiry base of offsets that their group does not protect."""
    return committed_ms


def waited_longest_for(waits: Mapping[str, int]) -> str:
    """The member that a rebalance waited longest for; "" if it waited for none. `waits`: member id -> milliseconds."""
    member_id = max(waits, key=waits.__getitem__, default="")
    return member_id if waits.get(member_id) else ""


def longest_waits(waits: Mapping[str, int]) -> list[dict[str, Any]]:
    """The members that a rebalance waited longest for, for people."""
    longest = nlargest(WAITS_SHOWN_MAX, waits.items(), key=lambda wait: wait[1])
    return [{"member_id": member_id, "waited_ms": waited_ms} for member_id, waited_ms in longest if waited_ms]


class PastRebalance(NamedTuple):
    """When and why a group rebalanced, for its row in a list. Wall clock, ms."""

    started_ms: int
    ended_ms: int | None
    """None: it is in progress."""
    cause: str
    member_id: str = ""
    """The member that the cause names; empty: none."""


_LINKS_SPARE = 16


class Group(ABC):
    """A group of any kind."""

    __slots__ = ("derived_bytes", "fence", "group_id", "held_bytes", "links", "shard_held_bytes")

    kind: ClassVar[Kind]
    members: dict[str, Any]
    """Member id -> member; the class of members is the kind's own."""
    static_members: dict[str, str]
    """Instance id -> member id of its holder (KIP-345)."""

    def __init__(self, group_id: str, fence: Fence) -> None:
        self.group_id = group_id
        self.fence = fence
        """What members lost without a new epoch (fence.py). In the log; only replay changes it."""
        self.held_bytes = new_group_bytes(group_id)
        """The size of what its members sent and its leader assigned (held_bytes.py)."""
        self.derived_bytes = fence.size * PARTITION_BYTES
        """The size of what the coordinator made of it."""
        self.links: dict[str, Link] = {}
        """Member id -> the connection of its last request; not in the log. May have members that are gone."""
        self.shard_held_bytes: ShardHeldBytes | None = None
        """The count of the shard; None while the group is not in its state."""

    @property
    @abstractmethod
    def state(self) -> StrEnum:
        """What the group is doing; its value is Kafka's name of the state."""

    @property
    @abstractmethod
    def protocol_type(self) -> str | None:
        """What the members are, as ListGroups reports it; None for a simple group."""

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The generation of a classic group, the group epoch of any other."""

    @property
    @abstractmethod
    def durable(self) -> Any:
        """What the log must be able to bring back; None if it has no record of the group."""

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members, so that it may be deleted or replaced by a group of another kind."""
        return not self.members

    @property
    @abstractmethod
    def is_rebalancing(self) -> bool:
        """Whether a rebalance is in progress."""

    @property
    @abstractmethod
    def rebalance_ended_ms(self) -> int | None:
        """When the last rebalance ended, by the wall clock; None if one is in progress, or none since the log was read."""

    @property
    @abstractmethod
    def last_rebalance(self) -> PastRebalance | None:
        """The rebalance in progress, or the last one; None if there was none since the log was read."""

    @property
    @abstractmethod
    def past_rebalances(self) -> Sequence[PastRebalance]:
        """The last REBALANCES_KEPT since the log was read, the oldest first."""

    @property
    def is_simple(self) -> bool:
        """Whether the group exists only because of its offsets: the log has no record of the group itself."""
        return False

    @property
    def is_forgettable(self) -> bool:
        """Whether nothing but its offsets keeps the group: it is simple, and no member id of it was handed out."""
        return False

    def asks_at_end(self, states: ShareStates) -> Sequence[Ask]:  # noqa: ARG002 - share groups need it
        """What other parts of the server are asked when the group is deleted."""
        return ()

    # --- memory (held_bytes.py) ---------------------------------------------------------------------------------------

    def hold(self, count_bytes: int) -> None:
        """Counts what clients sent; a negative number takes it off again."""
        self.held_bytes += count_bytes
        if self.shard_held_bytes is not None:
            self.shard_held_bytes.add(count_bytes)

    def hold_derived(self, count_bytes: int) -> None:
        """Counts what the coordinator made of it; a negative number takes it off again."""
        self.derived_bytes += count_bytes
        if self.shard_held_bytes is not None:
            self.shard_held_bytes.add(count_bytes)

    def count_into(self, shard_held_bytes: ShardHeldBytes | None) -> None:
        """Makes the group part of a shard's count; None: of no shard's."""
        count_bytes = self.held_bytes + self.derived_bytes
        if self.shard_held_bytes is not None:
            self.shard_held_bytes.add(-count_bytes)
        if shard_held_bytes is not None:
            shard_held_bytes.add(count_bytes)
        self.shard_held_bytes = shard_held_bytes

    def note_link(self, member_id: str, link: Link) -> None:
        """Remembers the connection that a member's request came over."""
        links = self.links
        if links.get(member_id) is not link and member_id in self.members:
            links[member_id] = link
            if len(links) > 2 * len(self.members) + _LINKS_SPARE:
                self.links = {each: links[each] for each in self.members if each in links}

    # --- for commits (fencing.py) -------------------------------------------------------------------------------------

    has_member_epochs: ClassVar[bool] = True
    """Whether members have epochs of their own; if not, all have the generation, and static ones prove their instance id."""

    @abstractmethod
    def find_committer(self, member_id: str, catalog: Catalog) -> Committer | None:
        """The member as the fence sees it; None if there is no member of this id."""

    def holder(self, topic: str, topic_id: bytes, partition: int, catalog: Catalog) -> str | None:  # noqa: ARG002 - classic groups need it
        """The member that has a partition, which it may have to give up; None if none has it."""
        for member_id in self.members:
            held = self.find_committer(member_id, catalog)
            if held is not None and (
                partition in held.assigned.get(topic_id, ()) or partition in held.pending_revocation.get(topic_id, ())
            ):
                return member_id
        return None

    @abstractmethod
    def fencing_policies(self, settings: GroupSettings) -> FencingPolicies | None:
        """The policies about earlier epochs; None: no earlier one may commit."""

    def commit_timers(self, member_id: str) -> Sequence[Timer]:  # noqa: ARG002 - classic groups need it
        """The timers that an accepted commit of this member re-arms. May raise REBALANCE_IN_PROGRESS (OffsetCommit only)."""
        return ()

    def set_fence(self, fence: Fence) -> None:
        """For replay."""
        self.hold_derived((fence.size - self.fence.size) * PARTITION_BYTES)
        self.fence = fence

    # --- for offsets --------------------------------------------------------------------------------------------------

    has_offsets: ClassVar[bool] = True
    """Whether offsets are committed for the group. One without is kept until it is deleted, though it may be empty."""

    def no_offsets(self) -> KafkaError:
        """The refusal of a request about offsets of a group that has none."""
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group.")

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may be reading this topic, so that its offsets must stay."""

    @property
    def protects_all_offsets(self) -> bool:
        """Whether OffsetDelete must be refused as a whole, because it is unknown which topics the members read."""
        return False

    def expiry_base(self) -> ExpiryBase | None:
        """From when the retention of an offset counts; None while the group needs all of its offsets."""
        return commit_timestamp_ms

    def inherit_soft_state(self, uncommitted: Self) -> None:  # noqa: B027 - a classic group has none to hand over
        """Takes over what is not in the log from the object that the creating operation worked on."""


def new_group_bytes(group_id: str) -> int:
    """What a group without members holds."""
    return GROUP_BYTES + text_bytes(group_id)
