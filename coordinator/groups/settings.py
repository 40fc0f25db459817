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
STREAMS_FENCING_POLICIES = (STRICT, ASSIGNMENT_EPOCH)
"""The same for streams groups, whose records do not say when a member lost a task last."""

CLASSIC, CONSUMER, STREAMS = "classic", "consumer", "streams"
"""Kinds of groups, each with a rebalance protocol of its own."""

STICKY = "sticky"
"""The assignor of streams groups, Kafka's only one too."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsSettings:
    """What may be set for one streams group (resource type GROUP), the server's own values where nothing is set."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    initial_rebalance_delay_ms: int
    task_offset_interval_ms: int
    """How often members are told to report how far their tasks have come."""
    acceptable_recovery_lag: int
    """Records that a copy of a task's state may lack and still count as caught up; told to members."""
    num_standby_replicas: int
    rack_aware_assignment_tags: tuple[str, ...]
    """Tags of clients (`rack`, `zone`) by which the copies of a task are spread."""
    assignor_name: str
    fencing_policy: str
    require_ownership: bool
    require_member: bool


class GroupSettings(Protocol):
    """The settings of single groups. The same object is given as long as nothing changes."""

    def consumer(self, group_id: str) -> ConsumerSettings: ...

    def streams(self, group_id: str) -> StreamsSettings: ...


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

    group_coordinator_rebalance_protocols: tuple[str, ...] = (CLASSIC, CONSUMER, STREAMS)
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

    group_streams_session_timeout_ms: int = 45_000
    group_streams_min_session_timeout_ms: int = 45_000
    group_streams_max_session_timeout_ms: int = 60_000
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_min_heartbeat_interval_ms: int = 5_000
    group_streams_max_heartbeat_interval_ms: int = 15_000
    group_streams_assignment_interval_ms: int = 1_000
    group_streams_min_assignment_interval_ms: int = 0
    group_streams_max_assignment_interval_ms: int = 15_000
    group_streams_initial_rebalance_delay_ms: int = 3_000
    """An empty streams group waits this long for more members before its first assignment."""
    group_streams_max_size: int = 2_147_483_647
    group_streams_num_standby_replicas: int = 0
    """Copies of the state of each task beside the one in use."""
    group_streams_max_standby_replicas: int = 2
    group_streams_rack_aware_assignment_tags: tuple[str, ...] = ()
    group_streams_assignors: tuple[str, ...] = (STICKY,)
    group_streams_task_offset_interval_ms: int = 60_000
    group_streams_min_task_offset_interval_ms: int = 15_000
    group_streams_acceptable_recovery_lag: int = 10_000
    group_streams_fencing_policy: str = ASSIGNMENT_EPOCH
    """Ours; Kafka has no other rule for streams groups than its default."""

    fencing_require_ownership: bool = False
    """Ours: a commit at the current epoch is refused for partitions that the member does not own."""
    fencing_require_member: bool = False
    """Ours: a commit in a transaction is refused if it names no member, for then nobody can be fenced."""
