"""A server's log reads the same from its segments and through Spark's Kafka source; for our server and Apache Kafka."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.pipeline import foreign_logs as made
from tests.pipeline.foreign_logs import Commit
from tests.pipeline.group_activity import LONG_SESSIONS, run_groups
from tests.support.kafka_broker import KafkaBroker
from tests.support.server_process import ServerProcess
from tests.support.spark_connector import connector_jars, why_no_connector
from tests.support.waiting import wait_until

LAST = b"note 5"
"""The metadata of the last commit."""


@pytest.fixture(params=["ours", pytest.param("kafka", marks=pytest.mark.java)])
def server(
    request: pytest.FixtureRequest, spark: Any, coordinator_process: Callable[..., ServerProcess]
) -> ServerProcess | KafkaBroker:
    """A server with groups in its log. Requests `spark` first, because without it the test skips anyway."""
    if request.param == "kafka":
        return request.getfixturevalue("kafka_with_history")
    ours = coordinator_process(settings=LONG_SESSIONS)
    run_groups(ours.bootstrap)
    # What is durable is in the journal first, and in the segments a moment later.
    wait_until(lambda: any(LAST in path.read_bytes() for path in ours.data_dir.glob("__consumer_offsets-*/*.log")))
    return ours


def load(spark: Any, server: ServerProcess | KafkaBroker, view: str) -> Any:
    return spark.read.format("coordinator_log").option("view", view).load(str(server.data_dir))


def through_kafka(spark: Any, server: ServerProcess | KafkaBroker, view: str) -> Any:
    from pyspark_coordinator_log.kafka import from_kafka, read_offsets_topic

    rows = read_offsets_topic(spark, server.bootstrap, shards=1)
    return from_kafka(rows, view, log_id="here")


def test_a_log_reads_the_same_from_its_segments_and_through_kafka(spark, server):
    commits = load(spark, server, "commits").orderBy("offset").collect()
    assert {row.problem for row in commits} == {None}
    simple_commits = [(row.partition, row.committed_offset) for row in commits if row.group == "simple"]
    assert simple_commits == [pair for n in range(20) for pair in ((0, n), (1, n * 2))] + [(1, None)]
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

    # Later records are ignored: a broker also writes on its own.
    end = max(row.offset for row in [*commits, *state])
    unknown = [*FROM_KAFKA_UNKNOWN, "log_id"]
    for view, ours in (("commits", commits), ("state", state)):
        theirs = through_kafka(spark, server, view).where(f"offset <= {end}").orderBy("offset").collect()
        assert [without(row, unknown) for row in theirs] == [without(row, unknown) for row in ours]
        assert {row[name] for row in theirs for name in FROM_KAFKA_UNKNOWN if name in row} == {None}
        assert {row.log_id for row in theirs} == {"here"}


def without(row: Any, names: list[str]) -> dict[str, Any]:
    return {name: value for name, value in row.asDict(recursive=True).items() if name not in names}


def test_rows_of_the_kafka_source_are_decoded_like_those_of_a_file(spark):
    """Without a broker, from the keys and values that the connector would deliver."""
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


def test_events_through_kafka_keep_their_state_offset():
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyspark")
    from coordinator.protocol import messages
    from pyspark_coordinator_log import kafka

    decision = messages.CommitDecidedValue(state_offset=7, member_id="m", error_code=25)
    left = messages.MemberLeftValue(state_offset=9, member_id="m")
    keyed = [
        (made.encoded(messages.CommitDecidedKey("g"), 0), made.encoded(decision, 0)),
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
