"""The configuration that a plan gives the server."""

from coordinator.config.settings import (
    AdminConfig,
    DeclaredTopic,
    ListenerConfig,
    LogConfig,
    NetworkConfig,
    QuotasConfig,
    ServerConfig,
)
from coordinator.groups.settings import GroupsConfig
from coordinator.share_state.settings import ShareStateConfig
from coordinator.topics.config import TopicsConfig
from coordinator.transactions.settings import TransactionsConfig
from coordinator_lab.simulation import clients, data_clients, share_invariants, transaction_clients
from coordinator_lab.simulation.plan import Plan
from coordinator_lab.simulation.wire import ADMIN_PORT

ADDRESS = ("10.0.0.9", 9092)
LOG_DIR = "data"


def server_config(plan: Plan) -> ServerConfig:
    """Small limits and short times, so that a run of a minute reaches them."""
    return ServerConfig(
        log_dir=LOG_DIR,
        shutdown_time_ms=2_000,
        listeners=(ListenerConfig(host=ADDRESS[0], port=ADDRESS[1]),),
        admin=AdminConfig(host=ADDRESS[0], port=ADMIN_PORT, admin_control_enable=True, admin_anonymous="all"),
        network=NetworkConfig(
            connections_max_idle_ms=60_000, limit_frame_time_ms=10_000, socket_request_max_bytes=1 << 20
        ),
        quotas=QuotasConfig(quota_window_num=3),
        log=LogConfig(
            durability=plan.durability,
            offsets_topic_num_partitions=plan.shards,
            offsets_topic_segment_bytes=plan.segment_bytes,
            log_cleaner_backoff_ms=plan.cleaner_backoff_ms,
            log_cleaner_delete_retention_ms=plan.delete_retention_ms,
            coordinator_journal_file_bytes=plan.journal_file_bytes,
            coordinator_events_segment_bytes=plan.segment_bytes,
            transaction_state_log_num_partitions=plan.shards,
            transaction_state_log_segment_bytes=plan.segment_bytes,
            share_coordinator_state_topic_num_partitions=plan.shards,
            share_coordinator_state_topic_segment_bytes=plan.segment_bytes,
        ),
        topics=TopicsConfig(errors_deadletterqueue_auto_create_topics_enable=True),
        transactions=TransactionsConfig(transaction_abort_timed_out_transaction_cleanup_interval_ms=2_000),
        share_states=ShareStateConfig(
            share_coordinator_snapshot_update_records_per_snapshot=10,
            share_coordinator_cold_partition_snapshot_interval_ms=8_000,
            share_coordinator_state_topic_prune_interval_ms=5_000,
        ),
        groups=GroupsConfig(
            group_initial_rebalance_delay_ms=plan.initial_rebalance_delay_ms,
            group_new_member_join_timeout_ms=20_000,
            group_min_rebalance_interval_ms=1_000,
            group_consumer_session_timeout_ms=plan.session_ms,
            group_consumer_min_session_timeout_ms=plan.session_ms,
            group_consumer_assignment_interval_ms=plan.assignment_interval_ms,
            group_consumer_fencing_policy=plan.fencing_policy,
            offsets_retention_minutes=plan.offsets_retention_minutes,
            offsets_retention_check_interval_ms=5_000,
            group_streams_session_timeout_ms=plan.session_ms,
            group_streams_min_session_timeout_ms=plan.session_ms,
            group_streams_assignment_interval_ms=plan.assignment_interval_ms,
            group_streams_initial_rebalance_delay_ms=plan.initial_rebalance_delay_ms,
            group_streams_num_standby_replicas=plan.num_standby_replicas,
            group_streams_fencing_policy=plan.fencing_policy,
            group_share_session_timeout_ms=plan.session_ms,
            group_share_min_session_timeout_ms=plan.session_ms,
            group_share_assignment_interval_ms=plan.assignment_interval_ms,
            group_share_initialize_retry_interval_ms=3_000,
            group_share_min_record_lock_duration_ms=1_000,
        ),
        declared_topics=(
            *(DeclaredTopic(name=name, partitions=count) for name, count in clients.TOPICS.items()),
            *(
                DeclaredTopic(name=name, partitions=data_clients.PARTITIONS)
                for name in (data_clients.EVENTS, share_invariants.PARCELS)
            ),
            _LEDGER,
        ),
    )


_LEDGER = DeclaredTopic(
    name=transaction_clients.LEDGER, partitions=transaction_clients.PARTITIONS, configs=transaction_clients.CONFIGS
)
