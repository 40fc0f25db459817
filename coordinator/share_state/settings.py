"""The settings of the share coordinator, under Kafka's names (dots become underscores) and with Kafka's defaults."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateConfig:
    """The server's settings for the state of share partitions. config/settings.py documents them."""

    share_coordinator_snapshot_update_records_per_snapshot: int = 500
    share_coordinator_write_timeout_ms: int = 5_000
    share_coordinator_cold_partition_snapshot_interval_ms: int = 300_000
    share_coordinator_state_topic_prune_interval_ms: int = 300_000
