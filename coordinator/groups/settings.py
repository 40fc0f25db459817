"""The settings of groups, under Kafka's names (dots become underscores) and with Kafka's defaults.

The core has no other defaults: an operation decides from the request, the state and these settings.
"""

from dataclasses import dataclass
from typing import Protocol

from coordinator.groups.kinds import Kind
from coordinator.protocol.patterns import BYTES_MAX

STRICT = "strict"
REVOCATION_EPOCH = "revocation-epoch"
ASSIGNMENT_EPOCH = "assignment-epoch"
FENCING_POLICIES = (STRICT, REVOCATION_EPOCH, ASSIGNMENT_EPOCH)
"""Which member epochs of a consumer or streams group may commit offsets (fencing.py)."""

STICKY = "sticky"
"""The only assignor of streams groups, as in Kafka."""

DISABLED, UPGRADE, DOWNGRADE, BIDIRECTIONAL = "disabled", "upgrade", "downgrade", "bidirectional"
MIGRATION_POLICIES = (DISABLED, UPGRADE, DOWNGRADE, BIDIRECTIONAL)
"""Whether a group with members may change between the classic and the consumer protocol."""

ALL_EVENTS, REFUSED_EVENTS, NO_EVENTS = "all", "refused", "none"
EVENT_POLICIES = (ALL_EVENTS, REFUSED_EVENTS, NO_EVENTS)
"""What goes to the event log: everything, everything but accepted commits, or nothing."""


OFF, REPORT, REFUSE = "off", "report", "refuse"
VALIDATION_POLICIES = (OFF, REPORT, REFUSE)
"""What becomes of an invalid assignment of a classic group's leader (classic/assignment_validation.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicSettings:
    """The settings in force for one classic group: its overrides (resource type GROUP), else the server's values."""

    validate_assignments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The settings in force for one consumer group: its overrides (resource type GROUP), else the server's values."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    fencing_policy: str
    require_ownership: bool
    require_member: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsSettings:
    """The settings in force for one streams group: its overrides (resource type GROUP), else the server's values."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    initial_rebalance_delay_ms: int
    task_offset_interval_ms: int
    """The interval at which members report the offsets of their tasks."""
    acceptable_recovery_lag: int
    """A replica that lacks at most this many records counts as caught up. Members get this value."""
    num_standby_replicas: int
    rack_aware_assignment_tags: tuple[str, ...]
    """The client tags, such as `rack`, that every member must have."""
    assignor_name: str
    fencing_policy: str
    require_ownership: bool
    require_member: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShareSettings:
    """The settings in force for one share group: its overrides (resource type GROUP), else the server's values.

    They are the same object until one of them changes, and are asked for with every request.
    """

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    record_lock_duration_ms: int
    delivery_count_limit: int
    partition_max_record_locks: int
    auto_offset_reset: str
    """`latest`, `earliest`, or `by_duration:` and a duration."""
    isolation_level: str
    renew_acknowledge_enable: bool
    dead_letter_topic: str
    """The topic of the group's dead-letter queue; empty if it has none."""
    dead_letter_copies: bool
    """Whether dead letters have the keys and values of their records."""


class GroupSettings(Protocol):
    """The settings of single groups. The same object is given as long as nothing changes."""

    def classic(self, group_id: str) -> ClassicSettings: ...

    def consumer(self, group_id: str) -> ConsumerSettings: ...

    def streams(self, group_id: str) -> StreamsSettings: ...

    def share(self, group_id: str) -> ShareSettings: ...

    def rebalance_interval_ms(self, group_id: str) -> int:
        """0: the group does not rebalance periodically (rebalance_interval.py)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsConfig:
    """The server's settings for groups. config/settings.py documents them."""

    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2_147_483_647
    limit_groups: int = 100_000
    """Groups of all kinds, including groups that only have offsets."""
    limit_group_bytes: int = 16 << 20
    limit_groups_bytes: int = 256 << 20
    """See held_bytes.py."""
    limit_group_tasks: int = 10_000
    limit_pattern_bytes: int = BYTES_MAX
    limit_pattern_work: int = 100_000_000
    """See protocol/patterns.py; work is instructions of a compiled pattern times topics."""
    limit_pending_members: int = 10_000
    group_new_member_join_timeout_ms: int = 300_000
    """Used instead of the session timeout while a new member waits in its first JoinGroup."""
    group_classic_sanitize_owned_partitions: bool = False
    """See owned_partitions.py."""
    group_classic_validate_assignments: str = REPORT
    """One of `VALIDATION_POLICIES`; see assignment_validation.py."""

    coordinator_events: str = ALL_EVENTS
    """One of `EVENT_POLICIES`; see events.py."""

    group_rebalance_interval_ms: int = 0
    """See rebalance_interval.py."""
    group_min_rebalance_interval_ms: int = 10_000

    offset_metadata_max_bytes: int = 4_096
    """In UTF-16 characters, despite the name, as in Kafka."""
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000

    group_coordinator_rebalance_protocols: tuple[str, ...] = (
        Kind.CLASSIC.label, Kind.CONSUMER.label, Kind.STREAMS.label,
    )  # fmt: skip
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_assignment_interval_ms: int = 1_000
    """A target assignment is not replaced earlier than this (KIP-1263)."""
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """A group whose members choose none uses the first."""
    group_consumer_migration_policy: str = BIDIRECTIONAL
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_fencing_policy: str = REVOCATION_EPOCH
    """One of `FENCING_POLICIES`; see fencing.py."""

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
    group_streams_max_size: int = 2_147_483_647
    group_streams_num_standby_replicas: int = 0
    group_streams_max_standby_replicas: int = 2
    group_streams_rack_aware_assignment_tags: tuple[str, ...] = ()
    group_streams_assignors: tuple[str, ...] = (STICKY,)
    group_streams_task_offset_interval_ms: int = 60_000
    group_streams_min_task_offset_interval_ms: int = 15_000
    group_streams_acceptable_recovery_lag: int = 10_000
    group_streams_fencing_policy: str = REVOCATION_EPOCH
    """One of `FENCING_POLICIES`; see fencing.py."""

    group_share_session_timeout_ms: int = 45_000
    group_share_min_session_timeout_ms: int = 45_000
    group_share_max_session_timeout_ms: int = 60_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_min_heartbeat_interval_ms: int = 5_000
    group_share_max_heartbeat_interval_ms: int = 15_000
    group_share_assignment_interval_ms: int = 1_000
    group_share_min_assignment_interval_ms: int = 0
    group_share_max_assignment_interval_ms: int = 15_000
    group_share_max_size: int = 200
    group_share_initialize_retry_interval_ms: int = 30_000
    """When a share coordinator that has not answered is asked again."""
    group_share_record_lock_duration_ms: int = 30_000
    group_share_min_record_lock_duration_ms: int = 15_000
    group_share_max_record_lock_duration_ms: int = 60_000
    group_share_delivery_count_limit: int = 5
    group_share_min_delivery_count_limit: int = 2
    group_share_max_delivery_count_limit: int = 10
    group_share_partition_max_record_locks: int = 2_000
    group_share_min_partition_max_record_locks: int = 100
    group_share_max_partition_max_record_locks: int = 4_000
    group_share_max_share_sessions: int = 2_000

    fencing_require_ownership: bool = False
    fencing_require_member: bool = False
