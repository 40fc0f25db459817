"""The settings of groups, under Kafka's names (dots become underscores) and with Kafka's defaults.

The core has no other defaults: what a handler decides, it decides from the request, the state and this.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsConfig:
    """What an operator may set about groups."""

    group_initial_rebalance_delay_ms: int = 3_000
    """An empty group waits this long for more members before its first generation."""
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2_147_483_647
    """Members of one group."""
    group_new_member_join_timeout_ms: int = 300_000
    """A member whose first join is parked cannot send heartbeats; it is given up after this long (a constant in Kafka)."""
    group_classic_sanitize_owned_partitions: bool = False
    """Ours: claims on partitions from an older generation are cleared in what the leader sees (owned_partitions.py)."""

    offset_metadata_max_bytes: int = 4_096
    """UTF-16 characters, in spite of the name, as in Kafka."""
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
