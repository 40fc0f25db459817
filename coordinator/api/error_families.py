"""The families of errors that clients meet, of which API files compose theirs (`Api.errors`).

From the comments of Kafka 4.4's response classes (`org.apache.kafka.common.requests`), the errors that its clients handle
(AbstractCoordinator, ConsumerCoordinator, the heartbeat request managers, FetchCollector, TransactionManager, the handlers of
KafkaAdminClient), and the code of its broker where both are silent.
"""

from coordinator.protocol.errors import ErrorCode

ANY_ERRORS = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION})
"""Any API may answer these (`AbstractRequest.getErrorResponse`)."""
COORDINATOR_ERRORS = frozenset({
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
})  # fmt: skip
GROUP_ERRORS = COORDINATOR_ERRORS | {
    ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_ID_NOT_FOUND,
}  # fmt: skip
MEMBER_ERRORS = GROUP_ERRORS | {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}
GENERATION_ERRORS = MEMBER_ERRORS | {ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
EPOCH_ERRORS = MEMBER_ERRORS | {
    ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
}  # fmt: skip
TRANSACTION_ERRORS = COORDINATOR_ERRORS | {
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE, ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_COORDINATOR_FENCED,
}  # fmt: skip
TOPIC_ERRORS = frozenset({
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
})  # fmt: skip
LEADER_ERRORS = TOPIC_ERRORS | {
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.REQUEST_TIMED_OUT,
}  # fmt: skip
APPEND_ERRORS = LEADER_ERRORS | {
    ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
}  # fmt: skip
CONTROLLER_ERRORS = frozenset({
    ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.POLICY_VIOLATION, ErrorCode.BROKER_NOT_AVAILABLE,
})  # fmt: skip
CONFIGS_ERRORS = CONTROLLER_ERRORS | TOPIC_ERRORS | {
    ErrorCode.INVALID_CONFIG, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID,
}  # fmt: skip
COMMIT_ERRORS = GENERATION_ERRORS | TOPIC_ERRORS | {
    ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE, ErrorCode.STALE_MEMBER_EPOCH,
}  # fmt: skip
