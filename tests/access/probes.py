"""One request of each API in its interesting versions, with resources that exist, so that the answer shows what was checked.

The topics mine and yours, the groups g-mine, classic, consumer and streams, and the transactional id x-mine exist; what a
request makes or deletes has the user's name.
"""

from collections.abc import Callable

from tests.access.asked import TopicId
from tests.support.record_batch import TRANSACTIONAL, Batch
from tests.support.wire import Values

Ask = Callable[[str], Values]
RECORDS = Batch(values=[b"v"]).encode()
_PRODUCER = {"producer_id": 77_777, "producer_epoch": 0, "base_sequence": 0}
IDEMPOTENT_RECORDS = Batch(values=[b"v"], **_PRODUCER).encode()
TRANSACTIONAL_RECORDS = Batch(values=[b"v"], attributes=TRANSACTIONAL, **_PRODUCER).encode()
TOPIC, BROKER, GROUP = 2, 4, 32
"""Types of resources that have configs."""
KEYS = {TOPIC: "retention.ms", BROKER: "group.max.size", GROUP: "consumer.session.timeout.ms"}
NAMES = {TOPIC: "mine", BROKER: "1", GROUP: "g-mine"}


def with_partitions(*topics: str, **partition: object) -> list[Values]:
    return [{"name": topic, "partitions": [{"partition_index": 0} | partition]} for topic in topics]


def produce(*topics: Values, records: bytes = RECORDS, **more: object) -> Values:
    data = [topic | {"partition_data": [{"index": 0, "records": records}]} for topic in topics]
    return {"acks": -1, "timeout_ms": 10_000, "topic_data": data} | more


def fetch(*topics: Values, **more: object) -> Values:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    asked = [topic | {"partitions": [partition]} for topic in topics]
    return {"max_wait_ms": 0, "min_bytes": 0, "session_epoch": -1, "topics": asked} | more


def share_states(**partition: object) -> Values:
    """Of no group: whoever may ask gets nothing, also from a Kafka that has no share coordinator yet."""
    return {"group_id": "", "topics": [{"topic_id": TopicId("mine"), "partitions": [{"partition": 0} | partition]}]}


def commit(group: str, *topics: Values, **more: object) -> Values:
    data = [topic | {"partitions": [{"partition_index": 0, "committed_offset": 1}]} for topic in topics]
    return {"group_id": group, "generation_id_or_member_epoch": -1, "topics": data} | more


def join(group: str) -> Values:
    protocols = [{"name": "range", "metadata": b"\0\1\0\0\0\1\0\4mine\0\0\0\0"}]
    timeouts = {"session_timeout_ms": 1_800_000, "rebalance_timeout_ms": 60_000}
    return {"group_id": group, "protocol_type": "consumer", "protocols": protocols} | timeouts


def consumer_heartbeat(group: str, *topics: str, **more: object) -> Values:
    beginning = {"member_epoch": 0, "rebalance_timeout_ms": 60_000, "topic_partitions": []}
    return {"group_id": group, "member_id": "ann", "subscribed_topic_names": list(topics)} | beginning | more


def share_heartbeat(group: str, *topics: str, epoch: int = 0) -> Values:
    return {"group_id": group, "member_id": "ann", "member_epoch": epoch, "subscribed_topic_names": list(topics)}


def share_request(group: str, epoch: int, acknowledgements: list[Values], **more: object) -> Values:
    """Of a member that has a share session after its first fetch."""
    partition = {"partition_index": 0, "acknowledgement_batches": acknowledgements}
    topics = [{"topic_id": TopicId("mine"), "partitions": [partition]}]
    return {"group_id": group, "member_id": "ann", "share_session_epoch": epoch, "topics": topics} | more


def share_offsets(group: str, *topics: str) -> Values:
    partitions = [{"partition_index": 0, "start_offset": 1}]
    return {"group_id": group, "topics": [{"topic_name": topic, "partitions": partitions} for topic in topics]}


def streams_heartbeat(group: str, *sources: str, **subtopology: object) -> Values:
    one = {"subtopology_id": "0", "source_topics": list(sources)} | subtopology
    tasks = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    return {
        "group_id": group,
        "member_id": "ann",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "process_id": "p",
        "topology": {"epoch": 1, "subtopologies": [one]},
    } | tasks


def describe_configs(*resources: tuple[int, str]) -> Values:
    asked = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": [KEYS[kind]]} for kind, name in resources
    ]
    return {"resources": asked, "include_synonyms": False}


def alter_configs(*resources: tuple[int, str]) -> Values:
    value = {TOPIC: "1000000", BROKER: "100", GROUP: "45000"}
    wanted = [
        {"resource_type": kind, "resource_name": name, "configs": [{"name": KEYS[kind], "value": value[kind]}]}
        for kind, name in resources
    ]
    return {"resources": wanted, "validate_only": True}


def create_topics(*topics: str, validate_only: bool = True, **more: object) -> Values:
    wanted = [{"name": topic, "num_partitions": 1, "replication_factor": 1} | more for topic in topics]
    return {"topics": wanted, "timeout_ms": 10_000, "validate_only": validate_only}


def producer(transactional_id: str | None) -> Values:
    return {"transactional_id": transactional_id, "transaction_timeout_ms": 60_000}


def in_transaction(transactional_id: str, **more: object) -> Values:
    return {"transactional_id": transactional_id, "producer_id": 77_777, "producer_epoch": 0} | more


def txn_commit(transactional_id: str, group: str, *topics: str) -> Values:
    data = with_partitions(*topics, committed_offset=1)
    return in_transaction(transactional_id, group_id=group, topics=data)


def add_partitions(transactional_id: str, *topics: str) -> Values:
    return {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": 77_777,
        "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": [{"name": topic, "partitions": [0]} for topic in topics],
    }


def add_partitions_for_all(*transactional_ids: str) -> Values:
    topics = [{"name": "mine", "partitions": [0]}]
    return {"transactions": [in_transaction(each, verify_only=True, topics=topics) for each in transactional_ids]}


def write_markers(*topics: str) -> Values:
    marker = {"producer_id": 77_777, "producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0}
    return {"markers": [marker | {"topics": [{"name": topic, "partition_indexes": [0]} for topic in topics]}]}


def new_rule(user: str) -> Values:
    rule = {"resource_type": 2, "resource_name": "elsewhere", "principal": f"User:by-{user}", "host": "*"}
    return {"creations": [rule | {"operation": 3, "permission_type": 3}]}


def rule_filter(principal: str) -> Values:
    by_type = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
    about = {"principal_filter": principal, "host_filter": None, "operation": 1, "permission_type": 1}
    return by_type | about


TOKEN = {"owner_principal_type": "User", "owner_principal_name": "somebody", "max_lifetime_ms": 600_000}
PROBES: dict[tuple[str, int, str], Ask] = {
    ("Produce", 9, ""): lambda _: produce({"name": "written"}),
    ("Produce", 13, ""): lambda _: produce({"topic_id": TopicId("written")}),
    ("Produce", 9, "in a transaction"): lambda _: produce(
        {"name": "mine"}, records=TRANSACTIONAL_RECORDS, transactional_id="x-mine"
    ),
    ("Fetch", 12, ""): lambda _: fetch({"topic": "mine"}),
    ("Fetch", 17, ""): lambda _: fetch({"topic_id": TopicId("mine")}),
    ("Fetch", 12, "of a replica"): lambda _: fetch({"topic": "mine"}, replica_id=1),
    ("ListOffsets", 7, ""): lambda _: {"replica_id": -1, "topics": with_partitions("mine", timestamp=-1)},
    ("Metadata", 1, "of all topics"): lambda _: {"topics": None},
    ("Metadata", 10, "by name"): lambda _: {
        "topics": [{"name": "mine"}, {"name": "missing"}],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    },
    ("Metadata", 12, "by id"): lambda _: {"topics": [{"name": None, "topic_id": TopicId("mine")}]},
    ("Metadata", 12, "of a topic to create"): lambda _: {
        "topics": [{"name": "bad name"}],
        "allow_auto_topic_creation": True,
    },
    ("OffsetCommit", 9, ""): lambda user: commit(f"g-{user}", {"name": "mine"}),
    ("OffsetCommit", 10, ""): lambda user: commit(f"g-{user}", {"topic_id": TopicId("mine")}),
    ("OffsetFetch", 7, ""): lambda _: {
        "group_id": "g-mine",
        "topics": [{"name": "mine", "partition_indexes": [0]}],
    },
    ("OffsetFetch", 8, ""): lambda _: {
        "groups": [{"group_id": "g-mine", "topics": [{"name": "mine", "partition_indexes": [0]}]}]
    },
    ("OffsetFetch", 8, "of all topics"): lambda _: {"groups": [{"group_id": "g-mine", "topics": None}]},
    ("OffsetFetch", 10, ""): lambda _: {
        "groups": [{"group_id": "g-mine", "topics": [{"topic_id": TopicId("mine"), "partition_indexes": [0]}]}]
    },
    ("FindCoordinator", 3, "of a group"): lambda _: {"key": "g-mine", "key_type": 0},
    ("FindCoordinator", 6, "of groups"): lambda _: {"key_type": 0, "coordinator_keys": ["g-mine"]},
    ("FindCoordinator", 6, "of transactional ids"): lambda _: {"key_type": 1, "coordinator_keys": ["x-mine"]},
    ("FindCoordinator", 6, "of share keys"): lambda _: {"key_type": 2, "coordinator_keys": ["no key"]},
    ("JoinGroup", 0, ""): lambda user: join(f"old-{user}"),
    ("JoinGroup", 9, ""): lambda user: join(f"j-{user}"),
    ("Heartbeat", 4, ""): lambda _: {"group_id": "classic", "generation_id": 1, "member_id": "nobody"},
    ("LeaveGroup", 2, ""): lambda _: {"group_id": "classic", "member_id": "nobody"},
    ("LeaveGroup", 5, ""): lambda _: {"group_id": "classic", "members": [{"member_id": "nobody"}]},
    ("SyncGroup", 5, ""): lambda _: {
        "group_id": "classic",
        "generation_id": 1,
        "member_id": "nobody",
        "protocol_type": "consumer",
        "protocol_name": "range",
    },
    ("DescribeGroups", 6, ""): lambda _: {"groups": ["classic"], "include_authorized_operations": True},
    ("ListGroups", 5, ""): lambda _: {},
    ("CreateTopics", 4, ""): lambda user: create_topics(f"new-{user}"),
    ("CreateTopics", 7, ""): lambda user: create_topics(f"new-{user}"),
    ("DeleteTopics", 5, ""): lambda user: {"topic_names": [f"doomed-{user}"], "timeout_ms": 10_000},
    ("DeleteTopics", 6, "of no topic"): lambda _: {
        "topics": [{"name": None, "topic_id": TopicId("nowhere")}, {"name": "missing"}],
        "timeout_ms": 10_000,
    },
    ("DeleteRecords", 2, ""): lambda _: {"topics": with_partitions("mine", offset=0), "timeout_ms": 10_000},
    ("InitProducerId", 4, ""): lambda _: producer(None),
    ("InitProducerId", 4, "of a transactional id"): lambda user: producer(f"x-{user}"),
    ("OffsetForLeaderEpoch", 4, ""): lambda _: {
        "replica_id": -1,
        "topics": [{"topic": "mine", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 99}]}],
    },
    ("AddPartitionsToTxn", 3, ""): lambda _: add_partitions("x-mine", "mine"),
    ("AddPartitionsToTxn", 5, "of a broker"): lambda _: add_partitions_for_all("x-mine"),
    ("AddOffsetsToTxn", 4, ""): lambda _: in_transaction("x-mine", group_id="g-mine"),
    ("EndTxn", 5, ""): lambda _: in_transaction("x-mine", committed=True),
    ("WriteTxnMarkers", 1, ""): lambda _: write_markers("written"),
    ("InitializeShareGroupState", 0, ""): lambda _: share_states(state_epoch=1, start_offset=0),
    ("ReadShareGroupState", 0, ""): lambda _: share_states(leader_epoch=1),
    ("WriteShareGroupState", 1, ""): lambda _: share_states(state_epoch=1, leader_epoch=1, start_offset=0),
    ("DeleteShareGroupState", 0, ""): lambda _: share_states(),
    ("ReadShareGroupStateSummary", 1, ""): lambda _: share_states(leader_epoch=1),
    ("TxnOffsetCommit", 3, ""): lambda _: txn_commit("x-mine", "g-mine", "mine"),
    ("TxnOffsetCommit", 5, ""): lambda _: txn_commit("x-mine", "g-mine", "mine"),
    ("DescribeAcls", 3, ""): lambda _: rule_filter("User:somebody"),
    ("CreateAcls", 3, ""): new_rule,
    ("DeleteAcls", 3, ""): lambda _: {"filters": [rule_filter("User:somebody")]},
    ("DescribeConfigs", 4, "of a topic"): lambda _: describe_configs((TOPIC, "mine")),
    ("DescribeConfigs", 4, "of a broker"): lambda _: describe_configs((BROKER, "1")),
    ("DescribeConfigs", 4, "of a group"): lambda _: describe_configs((GROUP, "g-mine")),
    ("AlterConfigs", 2, "of a topic"): lambda _: alter_configs((TOPIC, "mine")),
    ("AlterConfigs", 2, "of a broker"): lambda _: alter_configs((BROKER, "7")),
    ("AlterConfigs", 2, "of a group"): lambda _: alter_configs((GROUP, "g-mine")),
    ("IncrementalAlterConfigs", 1, "of a topic"): lambda _: alter_configs((TOPIC, "mine")),
    ("IncrementalAlterConfigs", 1, "of a broker"): lambda _: alter_configs((BROKER, "7")),
    ("IncrementalAlterConfigs", 1, "of a group"): lambda _: alter_configs((GROUP, "g-mine")),
    ("DescribeClientQuotas", 1, ""): lambda _: {
        "components": [{"entity_type": "user", "match_type": 0, "match": "somebody"}]
    },
    ("AlterClientQuotas", 1, ""): lambda _: {
        "entries": [
            {
                "entity": [{"entity_type": "user", "entity_name": "somebody"}],
                "ops": [{"key": "request_percentage", "value": 7.0}],
            }
        ],
        "validate_only": True,
    },
    ("AlterReplicaLogDirs", 2, ""): lambda _: {
        "dirs": [{"path": "/nowhere", "topics": [{"name": "mine", "partitions": [0]}]}]
    },
    ("DescribeLogDirs", 4, ""): lambda _: {"topics": [{"topic": "mine", "partitions": [0]}]},
    ("SaslHandshake", 1, ""): lambda _: {"mechanism": "PLAIN"},
    ("SaslAuthenticate", 2, ""): lambda _: {"auth_bytes": b""},
    ("CreatePartitions", 3, ""): lambda _: {
        "topics": [{"name": "mine", "count": 1}],
        "timeout_ms": 10_000,
        "validate_only": True,
    },
    ("DeleteGroups", 2, ""): lambda _: {"groups_names": ["classic", "g-missing"]},
    ("ElectLeaders", 2, ""): lambda _: {
        "election_type": 0,
        "topic_partitions": [{"topic": "mine", "partitions": [0]}],
        "timeout_ms": 10_000,
    },
    ("AlterPartitionReassignments", 1, ""): lambda _: {
        "topics": with_partitions("mine", replicas=[7]),
        "timeout_ms": 10_000,
    },
    ("ListPartitionReassignments", 0, ""): lambda _: {"topics": None, "timeout_ms": 10_000},
    ("OffsetDelete", 0, ""): lambda _: {"group_id": "g-mine", "topics": with_partitions("other")},
    ("DescribeUserScramCredentials", 0, ""): lambda _: {"users": [{"name": "somebody"}]},
    ("AlterUserScramCredentials", 0, ""): lambda _: {"deletions": [{"name": "somebody", "mechanism": 1}]},
    ("CreateDelegationToken", 3, ""): lambda _: TOKEN,
    ("RenewDelegationToken", 2, ""): lambda _: {"hmac": b"none", "renew_period_ms": -1},
    ("ExpireDelegationToken", 2, ""): lambda _: {"hmac": b"none", "expiry_time_period_ms": -1},
    ("DescribeDelegationToken", 3, ""): lambda _: {"owners": [{"principal_type": "User", "principal_name": "owner"}]},
    ("UpdateFeatures", 2, ""): lambda _: {"feature_updates": [{"feature": "group.version", "max_version_level": 1}]},
    ("DescribeQuorum", 0, ""): lambda _: {
        "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    },
    ("DescribeCluster", 1, ""): lambda _: {"include_cluster_authorized_operations": True},
    ("DescribeProducers", 0, ""): lambda _: {"topics": [{"name": "team-a", "partition_indexes": [0]}]},
    ("DescribeTransactions", 0, ""): lambda _: {"transactional_ids": ["x-mine"]},
    ("ListTransactions", 2, ""): lambda _: {},
    ("ConsumerGroupHeartbeat", 1, ""): lambda user: consumer_heartbeat(f"c-{user}", "mine"),
    ("ConsumerGroupHeartbeat", 1, "by pattern"): lambda user: consumer_heartbeat(
        f"r-{user}", subscribed_topic_regex="mi.*|your.*"
    ),
    ("ConsumerGroupDescribe", 1, ""): lambda _: {"group_ids": ["consumer"], "include_authorized_operations": True},
    ("StreamsGroupHeartbeat", 1, ""): lambda user: streams_heartbeat(f"s-{user}", "mine"),
    ("StreamsGroupHeartbeat", 1, "with internal topics"): lambda user: streams_heartbeat(
        f"i-{user}", "mine", state_changelog_topics=[{"name": f"doomed-changelog-{user}"}]
    ),
    ("StreamsGroupDescribe", 1, ""): lambda _: {"group_ids": ["streams"], "include_authorized_operations": True},
    ("ShareGroupHeartbeat", 1, ""): lambda user: share_heartbeat(f"h-{user}", "mine"),
    ("AlterShareGroupOffsets", 0, ""): lambda user: share_offsets(f"o-{user}", "mine"),
    ("ShareFetch", 1, ""): lambda user: share_request(
        f"o-{user}", 0, [], max_wait_ms=1_000, min_bytes=1, max_bytes=1_000, max_records=1, batch_size=1
    ),
    ("ShareAcknowledge", 2, ""): lambda user: share_request(
        f"o-{user}", 1, [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}]
    ),
    ("ShareGroupDescribe", 1, ""): lambda _: {"group_ids": ["share"], "include_authorized_operations": True},
    ("DescribeShareGroupOffsets", 1, ""): lambda _: {
        "groups": [{"group_id": "share", "topics": [{"topic_name": "mine", "partitions": [0]}]}]
    },
    ("DeleteShareGroupOffsets", 0, ""): lambda _: {"group_id": "unused", "topics": [{"topic_name": "mine"}]},
    ("ListConfigResources", 1, ""): lambda _: {"resource_types": [BROKER]},
    ("DescribeTopicPartitions", 0, ""): lambda _: {
        "topics": [{"name": "mine"}, {"name": "missing"}],
        "response_partition_limit": 10,
    },
}
"""API, version, what is special about the request -> the request of a user of this name."""
