"""A server's log reads the same from its segments and from a copy over the network; for our server and Apache Kafka."""

from collections.abc import Callable
from typing import Any

import pytest

from coordinator.client.blocking import UNPROTECTED
from coordinator.operations.cluster_mirror import copied_cluster, mirrored_cluster
from coordinator.operations.journal_access import JournalFailed
from tests.pipeline.group_activity import LONG_SESSIONS, run_groups
from tests.support.kafka_broker import KafkaBroker
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection, commit

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


def test_a_log_reads_the_same_from_its_segments_and_from_a_copy(spark, server):
    from pyspark_coordinator_log.folders import open_folder

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

    # Later records are ignored: a broker also writes on its own.
    end = max(row.offset for row in [*commits, *state])
    views = {"commits": commits, "state": state}
    with copied_cluster(server.bootstrap, 30, UNPROTECTED) as folder:
        for view, ours in views.items():
            rows = spark.read.format("coordinator_log").option("view", view).load(str(folder))
            theirs = rows.where(f"offset <= {end}").orderBy("offset").collect()
            assert [without_id(row) for row in theirs] == [without_id(row) for row in ours]
        [shard] = open_folder(str(folder), "__consumer_offsets").shards.values()
        assert shard.clean_offset() > end  # how much was compacted is not known


def without_id(row: Any) -> dict[str, Any]:
    """A broker writes the topic's id into the id of its log."""
    return {name: value for name, value in row.asDict(recursive=True).items() if name != "log_id"}


def test_a_copy_grows_with_its_cluster(coordinator_process, tmp_path):
    server = coordinator_process(settings=LONG_SESSIONS)
    run_groups(server.bootstrap)

    def copied() -> bytes:
        return b"".join(path.read_bytes() for path in tmp_path.glob("copy/__consumer_offsets-*/*.log"))

    with mirrored_cluster(server.bootstrap, 30, UNPROTECTED, tmp_path / "copy", 0.01) as check:
        assert LAST in copied()
        with Connection(server.bootstrap) as link:
            commit(link, "a later commit", {0: 7})
        wait_until(lambda: b"a later commit" in copied(), "the later commit")
        check()
    names = {path.name for path in (tmp_path / "copy").iterdir()}
    assert names >= {"__consumer_offsets-0", "__coordinator_events-0", "meta.properties"}


def test_a_copy_of_another_cluster_does_not_go_on(coordinator_process, tmp_path):
    server = coordinator_process(settings=LONG_SESSIONS)
    run_groups(server.bootstrap)
    with mirrored_cluster(server.bootstrap, 30, UNPROTECTED, tmp_path, None):
        pass
    (tmp_path / "meta.properties").write_text("cluster.id=another\n")
    with (
        pytest.raises(JournalFailed, match="follows another cluster"),
        mirrored_cluster(server.bootstrap, 30, UNPROTECTED, tmp_path, None),
    ):
        pass
