"""The server's settings of topics, with Kafka's names and defaults.

Some of them are defaults that a topic can override under another name (`message.max.bytes` as `max.message.bytes`);
`topics/topic_settings.py` has the table.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsConfig:
    """Settings of topics, Produce and Fetch. Sizes in bytes, times in milliseconds."""

    num_partitions: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
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
    """Caps one Fetch answer whatever its asker wants; a larger first batch passes, or nobody could read it."""
    max_incremental_fetch_session_cache_slots: int = 1_000
    producer_id_expiration_ms: int = 86_400_000
    """A producer that wrote nothing to a partition so long is forgotten there."""
    producer_id_block_size: int = 1_000
    """Producer ids reserved by one record of the metadata log (Kafka reserves 1000 as well)."""
    limit_partitions: int = 100_000
    """Partitions of all topics together; each costs memory from the start, a written one a folder and files."""
    topic_partitions_max: int = 10_000
    """Most partitions that one request may ask for (Kafka's MAX_PARTITIONS_PER_BATCH)."""
