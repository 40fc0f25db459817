"""Creates groups of every kind on a server, ours or Kafka's, so that its log contains all of them."""

import struct
from collections.abc import Callable
from typing import Any

from tests.support.waiting import wait_until
from tests.support.wire import Connection, commit

LONG_SESSIONS = {"group.consumer.max.session.timeout.ms": "1800000", "group.consumer.session.timeout.ms": "1800000"}
"""Server settings under which silent members stay until the log is read."""
SESSION_MS = 1_800_000


def retried(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The first response without an error: a server that has just started is not ready for groups."""
    answers: list[dict[str, Any]] = []

    def succeeds() -> bool:
        answers.append(call())
        return not answers[-1].get("error_code")

    wait_until(succeeds, lambda: answers[-1])
    return answers[-1]


def run_groups(bootstrap: str) -> None:
    """Creates a simple, a classic and a consumer group, a deleted offset and a deleted group."""
    with Connection(bootstrap) as link:
        wanted = {"name": "t", "num_partitions": 3, "replication_factor": 1}
        retried(lambda: link.call("CreateTopics", 7, topics=[wanted], timeout_ms=10_000)["topics"][0])
        retried(lambda: link.call("FindCoordinator", 2, key="simple", key_type=0))
        protocols = [{"name": "range", "metadata": struct.pack(">hii", 0, 0, -1)}]
        times = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": 60_000}
        who = {"group_id": "classic", "protocol_type": "consumer", "protocols": protocols}
        joined = retried(lambda: link.call("JoinGroup", 3, **who, **times))
        assignment = struct.pack(">hih1siiii", 1, 1, 1, b"t", 2, 0, 2, -1)
        mine = [{"member_id": joined["member_id"], "assignment": assignment}]
        sync = {"group_id": "classic", "generation_id": 1, "member_id": joined["member_id"], "assignments": mine}
        assert link.call("SyncGroup", 3, **sync, group_instance_id=None)["error_code"] == 0
        commit(link, "classic", {0: 7, 2: 9}, generation_id_or_member_epoch=1, member_id=joined["member_id"])
        for offset in range(20):
            commit(link, "simple", {0: offset, 1: offset * 2})
        link.call("OffsetDelete", 0, group_id="simple", topics=[{"name": "t", "partitions": [{"partition_index": 1}]}])
        commit(link, "gone", {0: 9})
        link.call("DeleteGroups", 2, groups_names=["gone"])

        def heartbeat() -> dict[str, Any]:
            return link.call(
                "ConsumerGroupHeartbeat", 1, group_id="modern", member_id="m", member_epoch=0,
                rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[],
            )  # fmt: skip

        # Kafka's coordinator learns about new topics with a delay.
        wait_until(lambda: (retried(heartbeat)["assignment"] or {}).get("topic_partitions"), "an assignment")
        commit(link, "modern", {1: 5}, generation_id_or_member_epoch=heartbeat()["member_epoch"], member_id="m")


def run_transactions(bootstrap: str) -> None:
    """Commits offsets in a committed and an aborted transaction."""
    from confluent_kafka import Producer, TopicPartition

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "tx", "log_level": 0})
    producer.init_transactions(60)
    for offset, comes_true in ((100, True), (200, False)):
        producer.begin_transaction()
        producer.produce("t", b"x", partition=0)
        producer.send_offsets_to_transaction([TopicPartition("t", 0, offset)], simple_group(bootstrap), 60)
        if comes_true:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)


def simple_group(bootstrap: str) -> Any:
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "transactional", "log_level": 0})
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()
