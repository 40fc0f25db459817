"""The permissions that the APIs declare are those that Kafka asks for."""

import pytest

from coordinator import requests
from coordinator.api.declaration import supported_apis
from coordinator.security import authorized_operations
from coordinator.security.access import AclOperation, ResourceType

APIS = {api.name: api for api in supported_apis(requests).values()}

KAFKA = {
    "AddOffsetsToTxn": "WRITE TRANSACTIONAL_ID, READ GROUP",
    "AddPartitionsToTxn": "CLUSTER_ACTION CLUSTER, WRITE TRANSACTIONAL_ID, WRITE TOPIC",
    "AlterClientQuotas": "ALTER_CONFIGS CLUSTER",
    "AlterConfigs": "ALTER_CONFIGS CLUSTER, ALTER_CONFIGS TOPIC, ALTER_CONFIGS GROUP",
    "AlterPartitionReassignments": "ALTER CLUSTER",
    "AlterReplicaLogDirs": "ALTER CLUSTER",
    "AlterUserScramCredentials": "ALTER CLUSTER",
    "ApiVersions": "",
    "ConsumerGroupDescribe": "DESCRIBE GROUP, DESCRIBE TOPIC",
    "ConsumerGroupHeartbeat": "READ GROUP, DESCRIBE TOPIC",
    "CreateAcls": "ALTER CLUSTER",
    "CreateDelegationToken": "CREATE_TOKENS USER",
    "CreatePartitions": "ALTER TOPIC",
    "CreateTopics": "CREATE CLUSTER, CREATE TOPIC, DESCRIBE_CONFIGS TOPIC",
    "DeleteAcls": "ALTER CLUSTER",
    "DeleteGroups": "DELETE GROUP",
    "DeleteRecords": "DELETE TOPIC",
    "DeleteTopics": "DELETE CLUSTER, DESCRIBE TOPIC, DELETE TOPIC",
    "DescribeAcls": "DESCRIBE CLUSTER",
    "DescribeClientQuotas": "DESCRIBE_CONFIGS CLUSTER",
    "DescribeCluster": "DESCRIBE CLUSTER",
    "DescribeConfigs": "DESCRIBE_CONFIGS CLUSTER, DESCRIBE_CONFIGS TOPIC, DESCRIBE_CONFIGS GROUP",
    "DescribeDelegationToken": "DESCRIBE DELEGATION_TOKEN, DESCRIBE_TOKENS USER",
    "ExpireDelegationToken": "",
    "RenewDelegationToken": "",
    "UpdateFeatures": "ALTER CLUSTER",
    "DescribeGroups": "DESCRIBE GROUP",
    "DescribeLogDirs": "DESCRIBE CLUSTER",
    "DescribeProducers": "READ TOPIC",
    "DescribeQuorum": "DESCRIBE CLUSTER",
    "DescribeTopicPartitions": "DESCRIBE TOPIC",
    "DescribeUserScramCredentials": "DESCRIBE CLUSTER",
    "DescribeTransactions": "DESCRIBE TRANSACTIONAL_ID, DESCRIBE TOPIC",
    "ElectLeaders": "ALTER CLUSTER",
    "EndTxn": "WRITE TRANSACTIONAL_ID",
    "Fetch": "CLUSTER_ACTION CLUSTER, READ TOPIC",
    "FindCoordinator": "DESCRIBE GROUP, DESCRIBE TRANSACTIONAL_ID, CLUSTER_ACTION CLUSTER",
    "Heartbeat": "READ GROUP",
    "IncrementalAlterConfigs": "ALTER_CONFIGS CLUSTER, ALTER_CONFIGS TOPIC, ALTER_CONFIGS GROUP",
    "InitProducerId": "WRITE TRANSACTIONAL_ID, IDEMPOTENT_WRITE CLUSTER, WRITE TOPIC",
    "JoinGroup": "READ GROUP, DESCRIBE TOPIC",
    "LeaveGroup": "READ GROUP",
    "ListConfigResources": "DESCRIBE_CONFIGS CLUSTER",
    "ListGroups": "DESCRIBE CLUSTER, DESCRIBE GROUP",
    "ListOffsets": "DESCRIBE TOPIC",
    "ListPartitionReassignments": "DESCRIBE CLUSTER",
    "ListTransactions": "DESCRIBE TRANSACTIONAL_ID",
    "Metadata": "DESCRIBE TOPIC, CREATE CLUSTER, CREATE TOPIC, DESCRIBE CLUSTER",
    "OffsetCommit": "READ GROUP, READ TOPIC",
    "OffsetDelete": "DELETE GROUP, READ TOPIC",
    "OffsetFetch": "DESCRIBE GROUP, DESCRIBE TOPIC",
    "OffsetForLeaderEpoch": "CLUSTER_ACTION CLUSTER, DESCRIBE TOPIC",
    "Produce": "WRITE TRANSACTIONAL_ID, WRITE TOPIC",
    "SaslAuthenticate": "",
    "SaslHandshake": "",
    "StreamsGroupDescribe": "DESCRIBE GROUP, DESCRIBE TOPIC",
    "StreamsGroupHeartbeat": "READ GROUP, DESCRIBE TOPIC, CREATE CLUSTER, CREATE TOPIC",
    "SyncGroup": "READ GROUP",
    "TxnOffsetCommit": "WRITE TRANSACTIONAL_ID, READ GROUP, READ TOPIC",
    "WriteTxnMarkers": "ALTER CLUSTER, CLUSTER_ACTION CLUSTER",
}
"""What Kafka 4.3.1 asks its authorizer for each API, in order, read from the sources.

KafkaApis.scala, AclApis.scala, ConfigHelper.scala and AuthHelper.scala; ControllerApis.scala for those that a broker forwards
(CreateTopics, DeleteTopics, CreatePartitions, AlterConfigs, ElectLeaders, DescribeQuorum, those of reassignments).
TopicRegexResolver.java adds DESCRIBE TOPIC to JoinGroup: it matches the patterns of a consumer group.
TWO_PHASE_COMMIT of InitProducerId v6 is left out: that version is not supported here.
"""


def test_every_api_declares_the_permissions_that_kafka_asks_for():
    declared = {
        name: ", ".join(f"{each.operation.name} {each.resource_type.name}" for each in api.access)
        for name, api in APIS.items()
    }
    assert declared == KAFKA


@pytest.mark.parametrize("name", sorted(KAFKA))
def test_no_api_declares_a_permission_twice(name):
    assert len(set(APIS[name].access)) == len(APIS[name].access)


def test_operations_and_resource_types_have_the_codes_of_kafka():
    """AclOperation.java and ResourceType.java, in the order of their codes."""
    assert [each.name for each in sorted(AclOperation)] == [
        "UNKNOWN",
        "ANY",
        "ALL",
        "READ",
        "WRITE",
        "CREATE",
        "DELETE",
        "ALTER",
        "DESCRIBE",
        "CLUSTER_ACTION",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
        "IDEMPOTENT_WRITE",
        "CREATE_TOKENS",
        "DESCRIBE_TOKENS",
        "TWO_PHASE_COMMIT",
    ]
    assert [each.name for each in sorted(ResourceType)] == [
        "UNKNOWN",
        "ANY",
        "TOPIC",
        "GROUP",
        "CLUSTER",
        "TRANSACTIONAL_ID",
        "DELEGATION_TOKEN",
        "USER",
    ]
    assert [each.value for each in sorted(AclOperation)] == list(range(16))
    assert [each.value for each in sorted(ResourceType)] == list(range(8))


def test_authorized_operations_are_those_that_kafka_answers_without_an_authorizer():
    """The bits of Kafka's `AclEntry.supportedOperations`."""
    assert (authorized_operations.CLUSTER, authorized_operations.TOPIC, authorized_operations.GROUP) == (
        8096,
        3576,
        3400,
    )
