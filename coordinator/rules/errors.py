"""The errors that clients meet from each API, and where in its response they are.

From the comments of Kafka 4.4's response classes (`org.apache.kafka.common.requests`), the errors that its clients handle
(AbstractCoordinator, ConsumerCoordinator, the heartbeat request managers, FetchCollector, TransactionManager, the handlers of
KafkaAdminClient), and the code of its broker where both are silent. A rule that wants another one must say `force`.
"""

from functools import cache

from coordinator.api.payloads import has_field
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.schema import Definition, Structure

_E = ErrorCode
_ANY = {_E.UNKNOWN_SERVER_ERROR, _E.INVALID_REQUEST, _E.UNSUPPORTED_VERSION}
"""Any API may answer these (`AbstractRequest.getErrorResponse`)."""
_COORDINATOR = {_E.COORDINATOR_LOAD_IN_PROGRESS, _E.COORDINATOR_NOT_AVAILABLE, _E.NOT_COORDINATOR, _E.REQUEST_TIMED_OUT}
_GROUP = _COORDINATOR | {_E.GROUP_AUTHORIZATION_FAILED, _E.INVALID_GROUP_ID, _E.GROUP_ID_NOT_FOUND}
_MEMBER = _GROUP | {_E.UNKNOWN_MEMBER_ID, _E.FENCED_INSTANCE_ID}
_GENERATION = _MEMBER | {_E.ILLEGAL_GENERATION, _E.REBALANCE_IN_PROGRESS}
_EPOCH = _MEMBER | {
    _E.FENCED_MEMBER_EPOCH, _E.UNRELEASED_INSTANCE_ID, _E.GROUP_MAX_SIZE_REACHED, _E.TOPIC_AUTHORIZATION_FAILED,
}  # fmt: skip
_TRANSACTION = _COORDINATOR | {
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _E.INVALID_PRODUCER_EPOCH, _E.PRODUCER_FENCED, _E.INVALID_PRODUCER_ID_MAPPING,
    _E.INVALID_TXN_STATE, _E.CONCURRENT_TRANSACTIONS, _E.UNKNOWN_PRODUCER_ID, _E.TRANSACTION_ABORTABLE,
    _E.TRANSACTION_COORDINATOR_FENCED,
}  # fmt: skip
_TOPIC = {
    _E.UNKNOWN_TOPIC_OR_PARTITION, _E.UNKNOWN_TOPIC_ID, _E.INVALID_TOPIC_EXCEPTION, _E.TOPIC_AUTHORIZATION_FAILED,
}  # fmt: skip
_LEADER = _TOPIC | {
    _E.NOT_LEADER_OR_FOLLOWER, _E.LEADER_NOT_AVAILABLE, _E.REPLICA_NOT_AVAILABLE, _E.KAFKA_STORAGE_ERROR,
    _E.FENCED_LEADER_EPOCH, _E.UNKNOWN_LEADER_EPOCH, _E.REQUEST_TIMED_OUT,
}  # fmt: skip
_APPEND = _LEADER | {
    _E.CORRUPT_MESSAGE, _E.MESSAGE_TOO_LARGE, _E.RECORD_LIST_TOO_LARGE, _E.NOT_ENOUGH_REPLICAS,
    _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, _E.INVALID_REQUIRED_ACKS, _E.INVALID_PRODUCER_EPOCH, _E.CLUSTER_AUTHORIZATION_FAILED,
    _E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
}  # fmt: skip
_CONTROLLER = {
    _E.NOT_CONTROLLER, _E.REQUEST_TIMED_OUT, _E.CLUSTER_AUTHORIZATION_FAILED, _E.THROTTLING_QUOTA_EXCEEDED,
    _E.POLICY_VIOLATION, _E.BROKER_NOT_AVAILABLE,
}  # fmt: skip
_CONFIGS = _CONTROLLER | _TOPIC | {_E.INVALID_CONFIG, _E.GROUP_AUTHORIZATION_FAILED, _E.INVALID_GROUP_ID}
_COMMIT = _GENERATION | _TOPIC | {
    _E.OFFSET_METADATA_TOO_LARGE, _E.INVALID_COMMIT_OFFSET_SIZE, _E.STALE_MEMBER_EPOCH,
}  # fmt: skip

_MET: dict[str, set[ErrorCode]] = {
    "Produce": _APPEND | {
        _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _E.INVALID_RECORD, _E.INVALID_TXN_STATE, _E.INVALID_PRODUCER_ID_MAPPING,
        _E.CONCURRENT_TRANSACTIONS, _E.OUT_OF_ORDER_SEQUENCE_NUMBER, _E.DUPLICATE_SEQUENCE_NUMBER, _E.UNKNOWN_PRODUCER_ID,
        _E.INVALID_TIMESTAMP, _E.UNSUPPORTED_COMPRESSION_TYPE, _E.TRANSACTION_ABORTABLE, _E.POLICY_VIOLATION,
    },
    "Fetch": _LEADER | {
        _E.OFFSET_OUT_OF_RANGE, _E.INCONSISTENT_TOPIC_ID, _E.CORRUPT_MESSAGE, _E.UNSUPPORTED_COMPRESSION_TYPE,
        _E.FETCH_SESSION_ID_NOT_FOUND, _E.INVALID_FETCH_SESSION_EPOCH, _E.FETCH_SESSION_TOPIC_ID_ERROR,
        _E.OFFSET_NOT_AVAILABLE,
    },
    "ListOffsets": _LEADER | {_E.OFFSET_NOT_AVAILABLE, _E.UNSUPPORTED_FOR_MESSAGE_FORMAT},
    "Metadata": _TOPIC | {
        _E.LEADER_NOT_AVAILABLE, _E.REPLICA_NOT_AVAILABLE, _E.LISTENER_NOT_FOUND, _E.BROKER_NOT_AVAILABLE,
        _E.KAFKA_STORAGE_ERROR, _E.INVALID_REPLICATION_FACTOR, _E.REBOOTSTRAP_REQUIRED,
    },
    "OffsetCommit": _COMMIT,
    "OffsetFetch": _MEMBER | _TOPIC | {_E.STALE_MEMBER_EPOCH, _E.UNSTABLE_OFFSET_COMMIT},
    "FindCoordinator": {
        _E.COORDINATOR_NOT_AVAILABLE, _E.COORDINATOR_LOAD_IN_PROGRESS, _E.GROUP_AUTHORIZATION_FAILED, _E.INVALID_GROUP_ID,
        _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    },
    "JoinGroup": _GENERATION | {
        _E.INCONSISTENT_GROUP_PROTOCOL, _E.INVALID_SESSION_TIMEOUT, _E.MEMBER_ID_REQUIRED, _E.GROUP_MAX_SIZE_REACHED,
    },
    "SyncGroup": _GENERATION | {_E.INCONSISTENT_GROUP_PROTOCOL},
    "Heartbeat": _GENERATION - {_E.COORDINATOR_LOAD_IN_PROGRESS},
    "LeaveGroup": _MEMBER,
    "DescribeGroups": _GROUP,
    "ListGroups": _COORDINATOR | {_E.CLUSTER_AUTHORIZATION_FAILED},
    "ApiVersions": {_E.REBOOTSTRAP_REQUIRED, _E.CLUSTER_AUTHORIZATION_FAILED},
    "CreateTopics": _CONTROLLER | _TOPIC | {
        _E.TOPIC_ALREADY_EXISTS, _E.INVALID_PARTITIONS, _E.INVALID_REPLICATION_FACTOR, _E.INVALID_REPLICA_ASSIGNMENT,
        _E.INVALID_CONFIG,
    },
    "DeleteTopics": _CONTROLLER | _TOPIC | {_E.TOPIC_DELETION_DISABLED},
    "DeleteRecords": _LEADER | {_E.OFFSET_OUT_OF_RANGE, _E.POLICY_VIOLATION},
    "InitProducerId": _TRANSACTION | {_E.CLUSTER_AUTHORIZATION_FAILED, _E.INVALID_TRANSACTION_TIMEOUT},
    "OffsetForLeaderEpoch": _LEADER,
    "AddPartitionsToTxn": _TRANSACTION | _TOPIC | {_E.OPERATION_NOT_ATTEMPTED},
    "AddOffsetsToTxn": _TRANSACTION | {_E.GROUP_AUTHORIZATION_FAILED, _E.INVALID_GROUP_ID},
    "EndTxn": _TRANSACTION,
    "WriteTxnMarkers": _APPEND | {_E.TRANSACTION_COORDINATOR_FENCED},
    "TxnOffsetCommit": _COMMIT | _TRANSACTION | {_E.UNSUPPORTED_FOR_MESSAGE_FORMAT},
    "DescribeConfigs": _CONFIGS,
    "AlterConfigs": _CONFIGS,
    "IncrementalAlterConfigs": _CONFIGS,
    "AlterReplicaLogDirs": _LEADER | {_E.LOG_DIR_NOT_FOUND, _E.CLUSTER_AUTHORIZATION_FAILED},
    "DescribeLogDirs": {_E.CLUSTER_AUTHORIZATION_FAILED, _E.KAFKA_STORAGE_ERROR, _E.LOG_DIR_NOT_FOUND},
    "CreatePartitions": _CONTROLLER | _TOPIC | {
        _E.INVALID_PARTITIONS, _E.INVALID_REPLICA_ASSIGNMENT, _E.REASSIGNMENT_IN_PROGRESS,
    },
    "DeleteGroups": _GROUP | {_E.NON_EMPTY_GROUP, _E.GROUP_DELETION_FAILED},
    "ElectLeaders": _CONTROLLER | _TOPIC | {
        _E.ELECTION_NOT_NEEDED, _E.PREFERRED_LEADER_NOT_AVAILABLE, _E.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    },
    "AlterPartitionReassignments": _CONTROLLER | _TOPIC | {
        _E.NO_REASSIGNMENT_IN_PROGRESS, _E.INVALID_REPLICA_ASSIGNMENT,
    },
    "ListPartitionReassignments": _CONTROLLER | _TOPIC,
    "OffsetDelete": _GROUP | _TOPIC | {_E.NON_EMPTY_GROUP, _E.GROUP_SUBSCRIBED_TO_TOPIC},
    "DescribeQuorum": {
        _E.CLUSTER_AUTHORIZATION_FAILED, _E.BROKER_NOT_AVAILABLE, _E.NOT_LEADER_OR_FOLLOWER,
        _E.UNKNOWN_TOPIC_OR_PARTITION,
    },
    "DescribeCluster": {
        _E.CLUSTER_AUTHORIZATION_FAILED, _E.MISMATCHED_ENDPOINT_TYPE, _E.UNSUPPORTED_ENDPOINT_TYPE,
    },
    "DescribeProducers": _LEADER,
    "DescribeTransactions": _COORDINATOR | {
        _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _E.TRANSACTIONAL_ID_NOT_FOUND,
    },
    "ListTransactions": _COORDINATOR | {_E.INVALID_REGULAR_EXPRESSION},
    "ConsumerGroupHeartbeat": _EPOCH | {_E.UNSUPPORTED_ASSIGNOR, _E.INVALID_REGULAR_EXPRESSION},
    "ConsumerGroupDescribe": _GROUP | {_E.TOPIC_AUTHORIZATION_FAILED},
    "ListConfigResources": {_E.CLUSTER_AUTHORIZATION_FAILED},
    "DescribeTopicPartitions": _TOPIC | {_E.LEADER_NOT_AVAILABLE},
    "StreamsGroupHeartbeat": _EPOCH | {
        _E.CLUSTER_AUTHORIZATION_FAILED, _E.STREAMS_INVALID_TOPOLOGY, _E.STREAMS_INVALID_TOPOLOGY_EPOCH,
        _E.STREAMS_TOPOLOGY_FENCED,
    },
    "StreamsGroupDescribe": _GROUP | {_E.TOPIC_AUTHORIZATION_FAILED},
    "SaslHandshake": {_E.UNSUPPORTED_SASL_MECHANISM, _E.ILLEGAL_SASL_STATE},
    "SaslAuthenticate": {_E.SASL_AUTHENTICATION_FAILED, _E.ILLEGAL_SASL_STATE},
    "DescribeAcls": {_E.CLUSTER_AUTHORIZATION_FAILED, _E.SECURITY_DISABLED},
    "CreateAcls": _CONTROLLER | {_E.SECURITY_DISABLED, _E.POLICY_VIOLATION},
    "DeleteAcls": _CONTROLLER | {_E.SECURITY_DISABLED},
    "DescribeUserScramCredentials": {
        _E.CLUSTER_AUTHORIZATION_FAILED, _E.DUPLICATE_RESOURCE, _E.RESOURCE_NOT_FOUND,
    },
    "AlterUserScramCredentials": {
        _E.CLUSTER_AUTHORIZATION_FAILED, _E.NOT_CONTROLLER, _E.DUPLICATE_RESOURCE, _E.RESOURCE_NOT_FOUND,
        _E.UNACCEPTABLE_CREDENTIAL, _E.UNSUPPORTED_SASL_MECHANISM,
    },
    "DescribeClientQuotas": {_E.CLUSTER_AUTHORIZATION_FAILED},
    "AlterClientQuotas": {_E.CLUSTER_AUTHORIZATION_FAILED, _E.NOT_CONTROLLER, _E.THROTTLING_QUOTA_EXCEEDED},
}  # fmt: skip

SESSION_ERRORS = frozenset(
    {_E.FETCH_SESSION_ID_NOT_FOUND, _E.INVALID_FETCH_SESSION_EPOCH, _E.FETCH_SESSION_TOPIC_ID_ERROR}
)
"""A Fetch answers these as a whole; all others for each partition."""
_OF_WHOLE = {"Fetch": SESSION_ERRORS, "Metadata": frozenset({_E.REBOOTSTRAP_REQUIRED})}
"""Errors that are nothing that an element could have."""
OF_PARTITIONS = {
    "OffsetFetch": frozenset({*_TOPIC, _E.UNSTABLE_OFFSET_COMMIT}),
    "OffsetDelete": frozenset({*_TOPIC, _E.GROUP_SUBSCRIBED_TO_TOPIC}),
}
"""Errors of single partitions, where other errors of the API are those of a group."""
OF_MEMBERS = frozenset({_E.UNKNOWN_MEMBER_ID, _E.FENCED_INSTANCE_ID})
"""Errors of single members in a LeaveGroup."""


def errors_met(api: str) -> frozenset[ErrorCode]:
    """The errors that a rule may let this API answer without `force`."""
    return frozenset(_MET[api] | _ANY)


@cache
def can_carry(api: str, version: int, code: ErrorCode) -> bool:
    """Whether the response of this version has a place for the error, at its top or in an element."""
    if code in _OF_WHOLE.get(api, ()):
        return has_field(api, version, "error_code")
    return _carries_errors(api, version)


@cache
def _carries_errors(api: str, version: int) -> bool:
    definition = Codec.of().definition(f"{api}Response")
    return _has_error_code(definition, definition.root, version)


@cache
def has_partition_errors(api: str, version: int) -> bool:
    """Whether the response has an error code for each partition."""
    definition = Codec.of().definition(f"{api}Response")
    return any(
        {"partition_index", "index", "partition", "partition_id"} & {field.attribute for field in structure.fields}
        and any(field.attribute.endswith("error_code") and version in field.versions for field in structure.fields)
        for structure in definition.structures.values()
    )


def _has_error_code(definition: Definition, structure: Structure, version: int) -> bool:
    fields = [field for field in structure.fields if version in field.versions]
    return any(
        field.attribute.endswith("error_code")
        if not field.type.is_struct
        else _has_error_code(definition, definition.structures[field.type.name], version)
        for field in fields
    )
