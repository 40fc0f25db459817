"""Requests to a broker that leads another partition or coordinates other groups, for ours and for a live Kafka."""

from typing import Any

from tests.support.waiting import wait_until
from tests.support.wire import Connection, Values
from tests.topics.data_plane import batch

NO_ID = bytes(16)
COMMIT = [{"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}]


def answers(bootstrap: str) -> dict[str, Any]:
    """Every answer by the name of its question. Ids of brokers and topics are replaced, and addresses left out."""
    with Connection(bootstrap.split(",", maxsplit=1)[0]) as link:
        wanted = [("replicated", 3, 3), ("single", 3, 1), ("four", 1, 4)]
        created = link.call("CreateTopics", 7, topics=[_topic(*each) for each in wanted], timeout_ms=10_000)
        metadata = wait_until(lambda: _metadata(link), "the topics to have leaders")
        nodes = {each["node_id"]: f"{each['host']}:{each['port']}" for each in metadata["brokers"]}
        group = wait_until(lambda: _coordinator(link, 0, "g"), "the coordinator of the group")
        transaction = wait_until(lambda: _coordinator(link, 1, "t"), "the coordinator of the transaction")
    found: dict[str, Any] = {"created": [[each["error_code"], each["error_message"]] for each in created["topics"]]}
    for topic in metadata["topics"]:
        leader = next(each["leader_id"] for each in topic["partitions"] if each["partition_index"] == 0)
        other = next(each for each in nodes if each != leader)
        with Connection(nodes[other]) as link:
            found |= {f"{topic['name']}: {name}": answer for name, answer in _of_topic(link, topic).items()}
        found = _plain(found, {leader: "leader", other: "other"})
    with Connection(nodes[next(each for each in nodes if each != group)]) as link:
        found |= _of_group(link)
    with Connection(nodes[next(each for each in nodes if each != transaction)]) as link:
        found |= _of_transaction(link)
    return _plain(found, {})


def _topic(name: str, partitions: int, factor: int) -> Values:
    return {"name": name, "num_partitions": partitions, "replication_factor": factor, "assignments": [], "configs": []}


def _metadata(link: Connection) -> Values | None:
    topics = [{"name": name, "topic_id": NO_ID} for name in ("replicated", "single")]
    metadata = link.call("Metadata", 12, topics=topics, allow_auto_topic_creation=False)
    partitions = [each for topic in metadata["topics"] for each in topic["partitions"]]
    return metadata if len(partitions) == 6 and all(each["leader_id"] >= 0 for each in partitions) else None


def _coordinator(link: Connection, key_type: int, key: str) -> int | None:
    (found,) = link.call("FindCoordinator", 4, key_type=key_type, coordinator_keys=[key])["coordinators"]
    return None if found["error_code"] else found["node_id"]


def _of_topic(link: Connection, topic: Values) -> Values:
    name = topic["name"]
    found: Values = {}
    for version in (9, 10, 13):
        named = {"topic_id": topic["topic_id"]} if version >= 13 else {"name": name}
        data = [named | {"partition_data": [{"index": 0, "records": batch()}]}]
        found[f"Produce {version}"] = link.call(
            "Produce", version, transactional_id=None, acks=-1, timeout_ms=1000, topic_data=data
        )
    for version, epoch in ((10, 0), (11, -1), (12, 0), (12, 5), (15, 0), (16, 0), (17, -1)):
        named = {"topic_id": topic["topic_id"]} if version >= 13 else {"topic": name}
        asked = {"partition": 0, "current_leader_epoch": epoch, "fetch_offset": 0, "partition_max_bytes": 1000}
        replica = {} if version >= 15 else {"replica_id": -1}
        found[f"Fetch {version}, epoch {epoch}"] = link.call(
            "Fetch", version, **replica, max_wait_ms=0, min_bytes=0, max_bytes=1000, isolation_level=0, session_id=0,
            session_epoch=-1, topics=[named | {"partitions": [asked]}], forgotten_topics_data=[],
        )  # fmt: skip
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    found["ListOffsets"] = link.call(
        "ListOffsets", 8, replica_id=-1, isolation_level=0, topics=[{"name": name, "partitions": [asked]}]
    )
    asked = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    found["OffsetForLeaderEpoch"] = link.call(
        "OffsetForLeaderEpoch", 4, replica_id=-1, topics=[{"topic": name, "partitions": [asked]}]
    )
    asked = {"partition_index": 0, "offset": 0}
    found["DeleteRecords"] = link.call("DeleteRecords", 2, timeout_ms=9, topics=[{"name": name, "partitions": [asked]}])
    found["DescribeProducers"] = link.call("DescribeProducers", 0, topics=[{"name": name, "partition_indexes": [0]}])
    return found


def _of_group(link: Connection) -> Values:
    member = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    ranges = [{"name": "range", "metadata": b"\0\0"}]
    return {
        "JoinGroup": link.call(
            "JoinGroup", 9, group_id="g", session_timeout_ms=6000, rebalance_timeout_ms=6000, member_id="",
            protocol_type="consumer", protocols=ranges,
        ),
        "SyncGroup": link.call(
            "SyncGroup", 5, **member, protocol_type="consumer", protocol_name="range", assignments=[]
        ),
        "Heartbeat": link.call("Heartbeat", 4, **member),
        "LeaveGroup": link.call("LeaveGroup", 5, group_id="g", members=[{"member_id": "m", "group_instance_id": None}]),
        "OffsetCommit": link.call(
            "OffsetCommit", 8, group_id="g", generation_id_or_member_epoch=-1, member_id="",
            topics=[{"name": "single", "partitions": COMMIT}],
        ),
        "OffsetFetch": link.call("OffsetFetch", 8, groups=[{"group_id": "g", "topics": None}], require_stable=False),
        "OffsetDelete": link.call("OffsetDelete", 0, group_id="g", topics=[]),
        "DescribeGroups": link.call("DescribeGroups", 5, groups=["g"]),
        "ConsumerGroupDescribe": link.call("ConsumerGroupDescribe", 1, group_ids=["g"]),
        "ConsumerGroupHeartbeat": link.call(
            "ConsumerGroupHeartbeat", 1, group_id="g", member_id="A" * 22, member_epoch=0, rebalance_timeout_ms=1000,
            subscribed_topic_names=["single"], topic_partitions=[],
        ),
        "DeleteGroups": link.call("DeleteGroups", 2, groups_names=["g"]),
        "ListGroups": link.call("ListGroups", 5, states_filter=[], types_filter=[]),
    }  # fmt: skip


def _of_transaction(link: Connection) -> Values:
    producer = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0}
    ids = {f"v3_and_below_{name}": value for name, value in producer.items()}
    return {
        "InitProducerId": link.call(
            "InitProducerId", 4, transactional_id="t", transaction_timeout_ms=9, producer_id=-1, producer_epoch=-1
        ),
        "AddPartitionsToTxn": link.call(
            "AddPartitionsToTxn", 3, **ids, v3_and_below_topics=[{"name": "single", "partitions": [0]}]
        ),
        "AddOffsetsToTxn": link.call("AddOffsetsToTxn", 3, **producer, group_id="g"),
        "EndTxn": link.call("EndTxn", 3, **producer, committed=True),
        "DescribeTransactions": link.call("DescribeTransactions", 0, transactional_ids=["t"]),
        "CreateTopics": [
            each["error_code"]
            for each in link.call("CreateTopics", 7, topics=[_topic("later", 1, -1)], timeout_ms=10_000)["topics"]
        ],
        "assignments": [
            [each["error_code"], each["error_message"]]
            for each in link.call("CreateTopics", 7, topics=[_assigned([3, 1], [2])], timeout_ms=10_000)["topics"]
        ],
    }


def _assigned(*replicas: list[int]) -> Values:
    assignments = [{"partition_index": index, "broker_ids": each} for index, each in enumerate(replicas)]
    return _topic("assigned", -1, -1) | {"assignments": assignments}


def _plain(value: Any, names: dict[int, str]) -> Any:
    """The value without what differs from run to run."""
    if isinstance(value, dict):
        return {
            key: names.get(each, each) if key in {"leader_id", "node_id"} else _plain(each, names)
            for key, each in value.items()
            if key not in {"topic_id", "host", "port"}
        }
    if isinstance(value, list):
        return [_plain(each, names) for each in value]
    return value.hex() if isinstance(value, bytes) else value
