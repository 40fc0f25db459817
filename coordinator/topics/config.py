"""The server's settings of topics, with Kafka's names and defaults.

Some of them are defaults that a topic can override under another name (`message.max.bytes` as `max.message.bytes`);
`topics/topic_settings.py` has the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass

Layers = tuple[tuple[int, Mapping[str, str]], ...]
"""Settings by name that clients have set, each layer with its source (topic_settings.py); the first has precedence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsConfig:
    """Sizes are in bytes, times in milliseconds. config/settings.py documents the settings."""

    num_partitions: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    errors_deadletterqueue_auto_create_topics_enable: bool = False
    errors_deadletterqueue_topic_name_prefix: str = "dlq."
    message_max_bytes: int = 1_048_588
    log_segment_bytes: int = 1_073_741_824
    log_roll_ms: int = 604_800_000
    log_retention_bytes: int = -1
    log_retention_ms: int = 604_800_000
    log_retention_check_interval_ms: int = 300_000
    log_cleanup_policy: str = "delete"
    log_index_interval_bytes: int = 4_096
    log_index_size_max_bytes: int = 10_485_760
    log_message_timestamp_type: str = "CreateTime"
    log_message_timestamp_before_max_ms: int = 9_223_372_036_854_775_807
    log_message_timestamp_after_max_ms: int = 3_600_000
    compression_type: str = "producer"
    fetch_max_bytes: int = 57_671_680
    max_incremental_fetch_session_cache_slots: int = 1_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_block_size: int = 1_000
    """Kafka's constant `PRODUCER_ID_BLOCK_SIZE`, which is 1000 too."""
    topic_visibility_delay_ms: int = 0
    limit_partitions: int = 100_000
    topic_partitions_max: int = 10_000
    """Kafka's constant `MAX_PARTITIONS_PER_BATCH`."""
    dynamic: Layers = ()
    """What clients have set instead of these values, and of defaults that only a topic can override otherwise."""
