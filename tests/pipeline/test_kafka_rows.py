"""A log that a server wrote for clients: from its segments and through Spark's Kafka source, ours and Apache Kafka's."""

import contextlib
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_broker import KafkaBroker
from pipeline import foreign_logs as made
from pipeline.foreign_logs import Commit
from server_process import ServerProcess
from spark_connector import connector_jars, why_no_connector
from wire import Connection

SETTLES_WITHIN_S = 60


@pytest.fixture(params=["ours", pytest.param("kafka", marks=pytest.mark.java)])
def server(
    request: pytest.FixtureRequest, spark: Any, tmp_path: Path, coordinator_process: Callable[..., ServerProcess]
) -> Iterator[ServerProcess | KafkaBroker]:
    """A running server whose log and Kafka protocol are both at hand. After `spark`: without it there is nothing to run."""
    if request.param == "ours":
        yield coordinator_process()
        return
    broker = KafkaBroker(tmp_path / "kafka").start()
    with contextlib.ExitStack() as stack:
        stack.callback(broker.stop)
        yield broker


def patiently(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The first answer without an error; a server that has just started is not ready for groups yet."""
    deadline = time.monotonic() + SETTLES_WITHIN_S
    while True:
        answer = call()
        if not answer.get("error_code"):
            return answer
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)


def commit(link: Connection, group: str, offsets: dict[int, int], **who: Any) -> None:
    partitions = [
        {"partition_index": partition, "committed_offset": offset, "committed_metadata": f"note {offset}"}
        for partition, offset in offsets.items()
    ]
    who = {"generation_id_or_member_epoch": -1, "member_id": ""} | who
    answer = link.call("OffsetCommit", 9, group_id=group, **who, topics=[{"name": "t", "partitions": partitions}])
    assert all(one["error_code"] == 0 for one in answer["topics"][0]["partitions"]), answer


def live_through(bootstrap: str) -> None:
    """A simple group, a classic and a consumer group, a deleted offset and a deleted group."""
    with Connection(bootstrap) as link:
        wanted = {"name": "t", "num_partitions": 3, "replication_factor": 1}
        patiently(lambda: link.call("CreateTopics", 7, topics=[wanted], timeout_ms=10_000)["topics"][0])
        patiently(lambda: link.call("FindCoordinator", 2, key="simple", key_type=0))
        protocols = [{"name": "range", "metadata": struct.pack(">hii", 0, 0, -1)}]
        times = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000}
        who = {"group_id": "classic", "protocol_type": "consumer", "protocols": protocols}
        joined = patiently(lambda: link.call("JoinGroup", 3, **who, **times))
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

        deadline = time.monotonic() + SETTLES_WITHIN_S
        while not (patiently(heartbeat)["assignment"] or {"topic_partitions": []})["topic_partitions"]:
            # Kafka's coordinator hears of new topics a moment later.
            assert time.monotonic() < deadline
        commit(link, "modern", {1: 5}, generation_id_or_member_epoch=heartbeat()["member_epoch"], member_id="m")


def in_a_transaction(bootstrap: str) -> None:
    """Offsets of one transaction that came true and of one that did not."""
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


def load(spark: Any, server: ServerProcess | KafkaBroker, view: str) -> Any:
    return spark.read.format("coordinator_log").option("view", view).load(str(server.data_dir))


def through_kafka(spark: Any, server: ServerProcess | KafkaBroker, view: str) -> Any:
    from pyspark_coordinator_log.kafka import from_kafka, read_offsets_topic

    rows = read_offsets_topic(spark, server.bootstrap, shards=1)
    return from_kafka(rows, view, log_id="here")


def test_a_servers_log_is_the_same_from_its_segments_and_through_kafka(spark, server):
    live_through(server.bootstrap)
    if isinstance(server, KafkaBroker):
        in_a_transaction(server.bootstrap)
    commits = load(spark, server, "commits").orderBy("offset").collect()
    assert {row.problem for row in commits} == {None}
    told = [(row.partition, row.committed_offset) for row in commits if row.group == "simple"]
    assert told == [pair for n in range(20) for pair in ((0, n), (1, n * 2))] + [(1, None)]
    [last] = {(row.group, row.committed_offset, row.metadata) for row in commits if row.group == "modern"}
    assert last == ("modern", 5, "note 5")

    state = load(spark, server, "state").orderBy("offset").collect()
    assert {row.problem for row in state} == {None}
    given = [member for row in state if row.group == "classic" for member in row.members or []]
    assert [(one.topic, one.partition) for one in given[-1].assignment] == [("t", 0), ("t", 2)]
    current = [row for row in state if row.type == "ConsumerGroupCurrentMemberAssignment" and not row.tombstone]
    assert sorted(one.partition for one in current[-1].assignment) == [0, 1, 2]
    assert {row.log_id for row in state} == {commits[0].log_id}

    if isinstance(server, KafkaBroker):
        raw = load(spark, server, "raw").where("is_transactional").orderBy("offset").collect()
        assert [(row.is_control, row.control_type) for row in raw] == [
            (False, None),
            (True, 1),
            (False, None),
            (True, 0),
        ]
        pending = [row.committed_offset for row in commits if row.is_transactional]
        assert pending == [100, 200]

    if connector_jars() is None:
        pytest.skip(f"read from the segments; Spark's Kafka connector is missing: {why_no_connector()}")
    from pyspark_coordinator_log.columns import FROM_KAFKA_UNKNOWN

    # What came behind it meanwhile is not compared: a broker writes on its own account too.
    end = max(row.offset for row in [*commits, *state])
    unknown = [*FROM_KAFKA_UNKNOWN, "log_id"]
    for view, ours in (("commits", commits), ("state", state)):
        theirs = through_kafka(spark, server, view).where(f"offset <= {end}").orderBy("offset").collect()
        assert [without(row, unknown) for row in theirs] == [without(row, unknown) for row in ours]
        assert {tuple(row[name] for name in FROM_KAFKA_UNKNOWN) for row in theirs} == {
            (None,) * len(FROM_KAFKA_UNKNOWN)
        }
        assert {row.log_id for row in theirs} == {"here"}


def without(row: Any, names: list[str]) -> dict[str, Any]:
    return {name: value for name, value in row.asDict(recursive=True).items() if name not in names}


def test_rows_of_the_kafka_source_are_decoded_as_a_files(spark):
    """Without a broker: the same keys and values as the connector would hand them over."""
    from datetime import UTC, datetime

    from pyspark_coordinator_log.kafka import from_kafka

    commits = [Commit("g", "t", n, n * 10, version=version) for n, version in enumerate([0, 1, 2, 3, 4, None])]
    moment = datetime.fromtimestamp(made.NOW_MS / 1000, UTC)
    keyed = [made.key_value(commit) for commit in commits] + [(b"\0\2\0\1g", None), (b"\0\x63", b"x"), (None, b"x")]
    rows = [(key, value, "__consumer_offsets", 4, offset, moment, 0) for offset, (key, value) in enumerate(keyed)]
    schema = (
        "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
    )
    table = spark.createDataFrame(rows, schema)
    found = from_kafka(table).orderBy("offset").collect()
    assert [(row.shard, row.offset, row.partition, row.committed_offset) for row in found] == [
        *((4, n, n, n * 10) for n in range(5)),
        (4, 5, 5, None),
    ]
    assert {row.timestamp_ms for row in found} == {made.NOW_MS}
    state = from_kafka(table, "state").orderBy("offset").collect()
    assert [(row.offset, row.type) for row in state] == [(6, "GroupMetadata"), (7, "Unknown(99)"), (8, None)]
    assert from_kafka(table, "raw").count() == len(keyed)


def test_events_through_kafka_keep_the_state_that_they_were_decided_on():
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyspark")
    from coordinator.protocol import messages
    from pyspark_coordinator_log import kafka

    decided = messages.CommitDecidedValue(state_offset=7, member_id="m", error_code=25)
    left = messages.MemberLeftValue(state_offset=9, member_id="m")
    keyed = [
        (made.encoded(messages.CommitDecidedKey("g"), 0), made.encoded(decided, 0)),
        (made.encoded(messages.GroupMetadataKey("g"), 0), None),
        (made.encoded(messages.MemberLeftKey("g"), 0), made.encoded(left, 0)),
    ]
    columns = {"partition": pa.int32(), "offset": pa.int64(), "timestamp_ms": pa.int64(), "key": pa.binary()}
    rows = [
        {"partition": 0, "offset": offset, "timestamp_ms": made.NOW_MS, "key": key, "value": value}
        for offset, (key, value) in enumerate(keyed)
    ]
    part = pa.RecordBatch.from_pylist(rows, pa.schema([*columns.items(), ("value", pa.binary())]))
    events = kafka.table(part, "events", None).to_pylist()
    assert [(row["type"], row["state_offset"], row["error"]) for row in events] == [
        ("CommitDecided", 7, "UNKNOWN_MEMBER_ID"),
        ("MemberLeft", 9, None),
    ]
    history = kafka.table(part, "history", None).to_pylist()
    assert [(row["is_state"], row["state_offset"]) for row in history] == [(False, 7), (True, 1), (False, 9)]
