"""What kafka-python's own admin tests ask of one node: configs of the broker, replicas, folders, the quorum, partitions."""

import warnings
from collections.abc import Iterator

import pytest

from tests.support.server_process import ServerProcess

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # in the importlib that it uses
    from kafka import KafkaAdminClient, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.errors import (
        ElectionNotNeededError,
        InvalidReplicationAssignmentError,
        LogDirNotFoundError,
        NoError,
        NoReassignmentInProgressError,
    )
    from kafka.structs import TopicPartitionReplica


@pytest.fixture(scope="module")
def admin(server: ServerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=server.bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic(admin, fresh) -> str:
    name = fresh("admin")
    admin.create_topics({name: {"num_partitions": 4, "replication_factor": 1}})
    return name


def test_the_configs_of_the_broker_are_described(admin, server):
    about = ConfigResource(ConfigResourceType.BROKER, 1)
    configs = admin.describe_configs([about], config_filter="all")["broker"]["1"]
    address = configs["advertised.listeners"]
    assert address["value"] == f"PLAINTEXT://{server.bootstrap}"
    assert (address["config_source"], address["config_type"]) == ("STATIC_BROKER_CONFIG", "LIST")
    assert (address["read_only"], address["is_sensitive"], address["synonyms"]) == (True, False, [])
    with pytest.raises(ValueError, match="str"):
        admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "str")])


def test_configs_of_topic_and_broker_are_described_together(admin, topic):
    both = [ConfigResource(ConfigResourceType.TOPIC, topic), ConfigResource(ConfigResourceType.BROKER, 1)]
    configs = admin.describe_configs(both, config_filter="all")
    assert configs["topic"][topic]["retention.bytes"]["value"] == "-1"
    assert len(configs["broker"]["1"]) > 100
    assert "broker" in admin.list_config_resources()


def test_a_replica_is_already_in_its_folder(admin, topic):
    (broker,) = admin.describe_log_dirs()
    (folder,) = broker["log_dirs"]
    replica = TopicPartitionReplica(topic, 0, broker["broker"])
    assert admin.alter_replica_log_dirs({replica: folder["log_dir"]}) == {replica: NoError}
    assert admin.alter_replica_log_dirs({replica: "/nowhere"}) == {replica: LogDirNotFoundError}


def test_the_quorum_is_the_one_node(admin):
    (topic,) = admin.describe_metadata_quorum()["topics"]
    (partition,) = topic["partitions"]
    assert (topic["topic_name"], partition["partition_index"], partition["error"]) == ("__cluster_metadata", 0, None)
    assert (partition["leader_id"], len(partition["current_voters"])) == (1, 1)
    assert partition["leader_epoch"] >= 0
    assert partition["high_watermark"] > 0


def test_a_partition_can_be_assigned_to_the_one_node_only(admin, topic):
    partition = TopicPartition(topic, 0)
    assert admin.alter_partition_reassignments({partition: [1]}) == {partition: None}
    assert admin.alter_partition_reassignments({partition: [7]}) == {partition: InvalidReplicationAssignmentError}
    assert admin.alter_partition_reassignments({partition: None}) == {partition: NoReassignmentInProgressError}
    assert admin.list_partition_reassignments() == {}
    assert admin.list_partition_reassignments([partition]) == {}


def test_no_leader_needs_an_election(admin, topic):
    (result,) = admin.elect_leaders(0, {topic: [0, 1, 2, 3]}).replica_election_results
    assert {partition[0]: partition[1] for partition in result[1]} == dict.fromkeys(
        range(4), ElectionNotNeededError.errno
    )


def test_partitions_are_described_page_by_page(admin, topic):
    found = []
    page = admin.describe_topic_partitions([topic], response_partition_limit=3)
    assert page["next_cursor"]["topic_name"] == topic
    found += page["topics"][0]["partitions"]
    page = admin.describe_topic_partitions([topic], response_partition_limit=3, cursor=page["next_cursor"])
    assert page["next_cursor"] is None
    found += page["topics"][0]["partitions"]
    assert [partition["partition_index"] for partition in found] == [0, 1, 2, 3]
