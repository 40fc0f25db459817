"""The settings of groups, under Kafka's names (dots become underscores) and with Kafka's defaults.

The core has no other defaults: what a handler decides, it decides from the request, the state and this.
"""

from dataclasses import dataclass
from typing import Protocol

STRICT = "strict"
REVOCATION_EPOCH = "revocation-epoch"
ASSIGNMENT_EPOCH = "assignment-epoch"
FENCING_POLICIES = (STRICT, REVOCATION_EPOCH, ASSIGNMENT_EPOCH)
"""Which epochs a member of a consumer group may commit with (fencing.py)."""

CLASSIC, CONSUMER = "classic", "consumer"
"""Kinds of groups, each with a rebalance protocol of its own."""

DISABLED, UPGRADE, DOWNGRADE, BIDIRECTIONAL = "disabled", "upgrade", "downgrade", "bidirectional"
MIGRATION_POLICIES = (DISABLED, UPGRADE, DOWNGRADE, BIDIRECTIONAL)
"""Whether a group with members may change between the classic and the consumer protocol."""

ALL_EVENTS, REFUSED_EVENTS, NO_EVENTS = "all", "refused", "none"
EVENT_POLICIES = (ALL_EVENTS, REFUSED_EVENTS, NO_EVENTS)
"""What the event log gets: everything, all but accepted commits, nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """What may be set for one consumer group (resource type GROUP), the server's own values where nothing is set."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    fencing_policy: str
    require_ownership: bool
    require_member: bool


class GroupSettings(Protocol):
    """The settings of single groups. The same object is given as long as nothing changes."""

    def consumer(self, group_id: str) -> ConsumerSettings: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsConfig:
    """What an operator may set about groups."""

    group_initial_rebalance_delay_ms: int = 3_000
    """An empty group waits this long for more members before its first generation."""
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2_147_483_647
    """Members of one group."""
    limit_groups: int = 100_000
    """Ours: groups of all kinds, simple ones too."""
    limit_pending_members: int = 10_000
    """Ours: member ids that a group has given out and that have not joined."""
    group_new_member_join_timeout_ms: int = 300_000
    """A member whose first join is parked cannot send heartbeats; it is given up after this long (a constant in Kafka)."""
    group_classic_sanitize_owned_partitions: bool = False
    """Ours: claims on partitions from an older generation are cleared in what the leader sees (owned_partitions.py)."""

    coordinator_events: str = ALL_EVENTS
    """Ours: what is told to the event log (events.py)."""

    offset_metadata_max_bytes: int = 4_096
    """UTF-16 characters, in spite of the name, as in Kafka."""
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000

    group_coordinator_rebalance_protocols: tuple[str, ...] = (CLASSIC, CONSUMER)
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    """Told to the members of consumer groups: it is the server that decides how often they are heard of."""
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_assignment_interval_ms: int = 1_000
    """A target assignment is not replaced by another before this time, so that many joins make one rebalance (KIP-1263)."""
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The first is for groups whose members name none."""
    group_consumer_migration_policy: str = BIDIRECTIONAL
    group_consumer_regex_refresh_interval_ms: int = 600_000
    """Patterns are matched anew at least so often; and, whatever it says, soon after topics come or go."""
    group_consumer_fencing_policy: str = REVOCATION_EPOCH
    """Ours."""
    fencing_require_ownership: bool = False
    """Ours: a commit at the current epoch is refused for partitions that the member does not own."""
    fencing_require_member: bool = False
    """Ours: a commit in a transaction is refused if it names no member, for then nobody can be fenced."""
