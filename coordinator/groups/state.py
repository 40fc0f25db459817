"""The groups of one shard and their committed offsets: the state that every operation works on.

    operation(groups, request, context, now_ms) -> Result      groups/<kind>/<operation>.py

A group id belongs to one kind of group at a time, so there is one dictionary, from group id to group. This module knows no
kind: an operation of one kind asks for a group of its own kind (`find_classic_group` and its siblings, beside the classes), and
operations for all kinds use what every group can say (group.py). `machine.py` completes this class with what needs
to know all kinds: replay, timers, loading, and the records that end a group.

A group exists as long as anything is known about it: a record in the log, an offset, or a rebalance in progress.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from coordinator.groups.assignors.assignor import Assignor
from coordinator.groups.assignors.range import RangeAssignor
from coordinator.groups.assignors.uniform import UniformAssignor
from coordinator.groups.catalog import Catalog
from coordinator.groups.group import Group, new_group_bytes
from coordinator.groups.group_configs import ConfiguredGroups
from coordinator.groups.held_bytes import SMALL_DERIVED_BYTES, HeldBytes, ShardHeldBytes
from coordinator.groups.kinds import Kind
from coordinator.groups.offsets.store import Offsets
from coordinator.groups.settings import ALL_EVENTS, NO_EVENTS, GroupsConfig, GroupSettings
from coordinator.groups.share_states import NO_SHARE_STATES, ShareStates
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.patterns import MatchPatterns, match_at_once
from coordinator.protocol.releases import Behaviours
from coordinator.runtime.result import Link, Record, Result, Timer, TimerKey

G = TypeVar("G", bound=Group)

BUILT_IN_ASSIGNORS: Mapping[str, Assignor] = MappingProxyType({"uniform": UniformAssignor(), "range": RangeAssignor()})


class Counters:
    """Counts for metrics since the shard was loaded; not part of the durable state."""

    __slots__ = ("fenced", "invalid_partitions", "offsets", "too_large", "txn_requests")

    def __init__(self) -> None:
        self.offsets = 0
        """Offsets committed, those in transactions included."""
        self.fenced: dict[str, int] = {}
        """Commits refused because of their epoch, by reason (fencing.py)."""
        self.txn_requests: dict[str, int] = {}
        """TxnOffsetCommit requests, by whether the member they name could be checked (fencing.py)."""
        self.invalid_partitions: dict[str, int] = {}
        """Partitions that leaders of classic groups assigned against a rule, by rule (classic/assignment_rules.py)."""
        self.too_large: dict[str, int] = {}
        """Requests refused because groups would hold too much, by setting (held_bytes.py)."""

    def count_fenced(self, reason: str) -> None:
        self.fenced[reason] = self.fenced.get(reason, 0) + 1

    def count_txn_request(self, checked: str) -> None:
        self.txn_requests[checked] = self.txn_requests.get(checked, 0) + 1

    def count_too_large(self, setting: str) -> None:
        self.too_large[setting] = self.too_large.get(setting, 0) + 1

    def count_invalid_partitions(self, rule: str, count: int) -> None:
        self.invalid_partitions[rule] = self.invalid_partitions.get(rule, 0) + count


class Groups(ABC):
    """The groups of one shard. Operations read everything freely and change only what is not in the log."""

    __slots__ = (
        "_count_all", "assignors", "by_id", "catalog", "config", "counters", "emits_accepted", "emits_refused", "held_bytes",
        "match_patterns", "offsets", "settings", "share_states", "uncommitted_groups",
    )  # fmt: skip

    def __init__(
        self,
        config: GroupsConfig,
        catalog: Catalog,
        *,
        settings: GroupSettings | None = None,
        assignors: Mapping[str, Assignor] = BUILT_IN_ASSIGNORS,
        count_all: Callable[[], int] | None = None,
        held_bytes: ShardHeldBytes | None = None,
        match_patterns: MatchPatterns = match_at_once,
        share_states: ShareStates = NO_SHARE_STATES,
    ) -> None:
        """`settings`: of single groups; `assignors`: by name, the first is the default; `count_all`: groups of all shards;
        `held_bytes`: the count of this shard as part of that of all; `match_patterns`: the way to the thread that does it;
        `share_states`: the share coordinator."""
        self.config = config
        self.catalog = catalog
        self.settings = ConfiguredGroups(config) if settings is None else settings
        self.assignors = assignors
        self._count_all: Callable[[], int] = count_all or (lambda: self.count)
        self.emits_accepted = config.coordinator_events == ALL_EVENTS
        """Whether accepted commits become events."""
        self.emits_refused = config.coordinator_events != NO_EVENTS
        """Whether refused commits and fenced members become events."""
        self.held_bytes = HeldBytes().of_shard(0) if held_bytes is None else held_bytes
        self.match_patterns = match_patterns
        self.share_states = share_states
        self.by_id: dict[str, Group] = {}
        """Changed by `put`, `place` and `remove` alone, which count what the groups hold."""
        self.uncommitted_groups: dict[str, Group] = {}
        """Groups as the operation saw them whose records, not yet replayed, create them."""
        self.offsets = Offsets()
        self.counters = Counters()

    # --- looking up ---------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Groups of all kinds."""
        return len(self.by_id)

    def of_kind(self, kind: Kind) -> Iterator[Group]:
        return (group for group in self.by_id.values() if group.kind is kind)

    def not_found(self, group_id: str, kind: Kind) -> KafkaError:
        """GROUP_ID_NOT_FOUND with Kafka's text: there is no such group, or it is of another kind."""
        if group_id in self.by_id:
            return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind.label} group.")
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind.label.capitalize()} group {group_id} not found.")

    def admit(self, group_id: str) -> None:
        """Call before an operation creates a group. Raises GROUP_MAX_SIZE_REACHED, COORDINATOR_NOT_AVAILABLE."""
        if self._count_all() >= self.config.limit_groups:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, "The server has as many groups as limit.groups allows.")
        self._fence_total(new_group_bytes(group_id))

    def fence_growth(self, group: Group, by_bytes: int) -> None:
        """Call before an operation changes what a group holds by so many bytes of what clients sent.

        Raises GROUP_MAX_SIZE_REACHED if the group would be too large: more of the same will never fit. Raises
        COORDINATOR_NOT_AVAILABLE if all groups together would: other clients take the room, and this one should try again.
        """
        if by_bytes > 0:
            self._fence_group(group.held_bytes + by_bytes)
            self._fence_total(by_bytes)

    def fence_grown(self, group: Group, by_bytes: int) -> None:
        """The same for a change that has been made, and can be undone."""
        if by_bytes > 0:
            self._fence_group(group.held_bytes)
            self._fence_total(0)

    def fence_derived(self, group: Group, derived_bytes: int) -> None:
        """Call before an operation makes so many bytes of what clients sent, such as a target.

        As much as small members are charged for is never refused. Raises COORDINATOR_NOT_AVAILABLE if the groups together would
        hold too much.
        """
        by_bytes = derived_bytes - group.derived_bytes
        if by_bytes > SMALL_DERIVED_BYTES:
            self._fence_total(by_bytes)

    def _fence_group(self, held_bytes: int) -> None:
        if held_bytes > self.config.limit_group_bytes:
            self.counters.count_too_large("limit.group.bytes")
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, "The group would hold more bytes than limit.group.bytes allows."
            )

    def _fence_total(self, by_bytes: int) -> None:
        if self.held_bytes.all_shards.total + by_bytes > self.config.limit_groups_bytes:
            self.counters.count_too_large("limit.groups.bytes")
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "The groups would hold more bytes than limit.groups.bytes allows."
            )

    def note_link(self, group_id: str, member_id: str, link: Link) -> None:
        """Remembers the connection of a member's request."""
        group = self.by_id.get(group_id)
        if group is not None:
            group.note_link(member_id, link)

    def find(self, group_id: str, kind: type[G]) -> G | None:
        """The group of this id; None if there is no group, or one of another kind."""
        group = self.by_id.get(group_id)
        return group if isinstance(group, kind) else None

    # --- for replay ---------------------------------------------------------------------------------------------------

    def put(self, group: Group) -> None:
        """Adds a group, in the place of any group with its id; it takes over the soft state of the uncommitted one."""
        uncommitted = self.uncommitted_groups.pop(group.group_id, None)
        if uncommitted is not None and uncommitted.kind is group.kind:
            group.inherit_soft_state(uncommitted)
        self.place(group)

    def place(self, group: Group) -> None:
        """Puts the group in the place of any group with its id."""
        replaced = self.by_id.get(group.group_id)
        if replaced is not None:
            replaced.count_into(None)
        self.by_id[group.group_id] = group
        group.count_into(self.held_bytes)

    def get_or_simple(self, group_id: str) -> Group:
        """The group; a simple one is created if nothing was known about it."""
        group = self.by_id.get(group_id)
        if group is None:
            group = self.simple_group(group_id)
            self.place(group)
        return group

    def remove(self, group_id: str, kind: Kind) -> None:
        """Forgets the group if it is of this kind; if it has offsets, a simple group remains."""
        group = self.by_id.get(group_id)
        if group is not None and group.kind is not kind:
            return
        self._forget(group_id)
        if self.offsets.knows(group_id):
            self.get_or_simple(group_id)

    def remove_if_unknown(self, group_id: str) -> None:
        """Forgets a simple group that lost its last offset."""
        group = self.by_id.get(group_id)
        if group is not None and group.is_forgettable and not self.offsets.knows(group_id):
            self._forget(group_id)

    def _forget(self, group_id: str) -> None:
        group = self.by_id.pop(group_id, None)
        if group is not None:
            group.count_into(None)

    # --- what needs to know the kinds (machine.py) --------------------------------------------------------------------

    @abstractmethod
    def simple_group(self, group_id: str) -> Group:
        """A new simple group, which is not in the state yet."""

    @abstractmethod
    def start_rebalance(self, group: Group, cause: str, reason: str | None, now_ms: int) -> Result | None:
        """Starts a rebalance of a group with members, although nothing in it has changed.

        None if the group is at the start of one: it has not made the next assignment yet.
        """

    @abstractmethod
    def fire(self, key: TimerKey, now_ms: int) -> Result:
        """Runs what a timer was armed for; what it watched may be gone, and then nothing happens."""

    @abstractmethod
    def session_key(self, group: Group, member_id: str) -> TimerKey:
        """The timer that ends the session of a member."""

    @abstractmethod
    def evict(self, group: Group, member_id: str, cause: str, reason: str | None, now_ms: int) -> Result:
        """Removes a member, whatever it is doing."""

    @abstractmethod
    def removal_records(self, group: Group, member_id: str, cause: str, reason: str | None) -> list[Record]:
        """The records without which a crash would bring back a member that was removed without any."""

    @abstractmethod
    def bump_epoch(self, group: Group, cause: str, reason: str | None, now_ms: int) -> Result:
        """Raises the generation or group epoch of a group with members. Raises INVALID_REQUEST."""

    @abstractmethod
    def update_to_join(self, group_id: str, member_id: str, behaviours: Behaviours, now_ms: int) -> Any:
        """The ConsumerUpdate of the consumer group that a member joins: existing, new, or converted from a classic group.

        Raises GROUP_ID_NOT_FOUND if a group of another kind cannot become a consumer group.
        """

    @abstractmethod
    def downgrades_without(self, update: Any, leaving: Sequence[Any]) -> bool:
        """Converts a consumer group to a classic one if only classic members stay when these leave; returns whether it did."""

    @abstractmethod
    def end(self, group: Group) -> tuple[list[Record], Sequence[Timer]]:
        """The tombstones that delete an empty group, and its timers, disarmed."""
