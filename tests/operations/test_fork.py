"""`coordinator serve --from`: what it makes of folders and servers, and that nothing half-made is left behind."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator import cli
from coordinator.client.login.tls import Security
from coordinator.config.settings import LogConfig, ServerConfig
from coordinator.groups.kinds import Kind
from coordinator.groups.offsets import value as values
from coordinator.log.batch import TRANSACTIONAL, read_header
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.end_transaction_marker import end_transaction
from coordinator.log.log import Log, LogSettings
from coordinator.operations.client import Client
from coordinator.operations.fork import ForkFailed, run
from coordinator.operations.fork.data_folder import ForkedFolder
from coordinator.operations.fork.source import OffsetRange
from coordinator.operations.fork.summary import Summary
from coordinator.operations.groups import describe, offsets
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from coordinator.topics.registry import Topic
from coordinator.topics.share.machine import ACCEPT, RELEASE
from coordinator.world.disk import RealDisk
from tests.compatibility.members import join_application
from tests.support.record_batch import Batch as RecordBatch
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S, wait_until
from tests.support.wire import Connection

NOW_MS = 1_800_000_000_000


def key_of(group: str, topic: str = "orders", partition: int = 0) -> bytes:
    return b"\0\1" + Codec.of().encoder("OffsetCommitKey", 0)(OffsetCommitKey(group, topic, partition))


def offset_of(offset: int, leader_epoch: int = 5, **fields: Any) -> bytes:
    committed = OffsetCommitValue(offset=offset, leader_epoch=leader_epoch, metadata="", commit_timestamp=1, **fields)
    return values.encode(committed)


def batch(log: Log, records: list[tuple[bytes, bytes | None]], **attributes: int) -> None:
    builder = BatchBuilder()
    builder.add_all(records)
    log.append(builder.build(log.end_offset, NOW_MS, **attributes), builder.count, NOW_MS)


def partition(folder: Path, index: int = 0, topic: str = "__consumer_offsets") -> Log:
    folder.mkdir(exist_ok=True)
    return Log.open(RealDisk(), str(folder / f"{topic}-{index}"), LogSettings())


def foreign(folder: Path) -> None:
    """Removes what only this server has in a partition folder."""
    for name in ("log-checkpoint", "segment-list"):
        for path in folder.rglob(name):
            path.unlink()


def fork(source: object, target: Path, *, keep_members: bool = False, partitions: int = 1) -> Summary:
    config = ServerConfig(log_dir=str(target), log=LogConfig(offsets_topic_num_partitions=partitions))
    return run.run(str(source), config, keep_members=keep_members, timeout_s=2.0, security=Security())


def refused(source: object, target: Path) -> str:
    """Why a fork is refused. Nothing is left behind."""
    with pytest.raises(ForkFailed) as failed:
        fork(source, target)
    assert not list(target.parent.glob(f"{target.name}*"))
    return str(failed.value)


def read_back(target: Path, index: int = 0) -> dict[bytes, bytes | None]:
    """The records of a partition of groups in a fork."""
    log = Log.open(RealDisk(), str(target / f"__consumer_offsets-{index}"), LogSettings())
    found = {key: value for records in log.replay_batches() for key, value in records if key is not None}
    log.close_files()
    return found


# --- what is copied ---------------------------------------------------------------------------------------------------


def test_the_last_record_of_each_key_counts_and_offsets_are_as_old_as_the_fork(tmp_path):
    """An old offset would expire at once. A consumer would wait for ever for the leader epoch of another cluster."""
    log = partition(tmp_path / "source")
    batch(log, [(key_of("billing"), offset_of(1)), (key_of("gone"), offset_of(9))])
    batch(log, [(key_of("billing"), offset_of(2)), (key_of("gone"), None)])
    batch(log, [(key_of("short"), offset_of(3, expire_timestamp=5_001))])
    log.close()
    summary = fork(tmp_path / "source", tmp_path / "forked")
    assert (summary.offsets, summary.groups, summary.records_read) == (2, {Kind.CLASSIC: 2}, 5)
    found = read_back(tmp_path / "forked")
    billing, short = values.decode(found[key_of("billing")]), values.decode(found[key_of("short")])
    assert (billing.offset, billing.leader_epoch, found.get(key_of("gone"))) == (2, -1, None)
    assert billing.commit_timestamp > NOW_MS / 2
    assert short.expire_timestamp - short.commit_timestamp == 5_000


def test_offsets_of_transactions_follow_their_markers_and_undecided_ones_are_left_out(tmp_path):
    log = partition(tmp_path / "source")
    for producer, offset in ((1, 11), (2, 22), (3, 33)):
        of_producer = {"producer_id": producer, "producer_epoch": 0, "attributes": TRANSACTIONAL}
        batch(log, [(key_of("g", partition=producer), offset_of(offset))], **of_producer)
    for producer, commits in ((1, True), (2, False)):
        marker = end_transaction(
            log.end_offset, NOW_MS, producer_id=producer, producer_epoch=0, commit=commits, coordinator_epoch=0
        )
        log.append(marker, 1, NOW_MS)
    log.close()
    summary = fork(tmp_path / "source", tmp_path / "forked")
    assert set(read_back(tmp_path / "forked")) == {key_of("g", partition=1)}
    assert [(each.group_id, each.partition, each.producer_id) for each in summary.pending] == [("g", 3, 3)]
    assert "left out, offsets of transactions that were not decided: g (producer 3)" in list(summary.lines())


def test_of_several_copies_of_a_partition_the_one_that_goes_furthest_counts(tmp_path):
    """Brokers side by side: each has some partitions, and replicas may lag."""
    for broker, commits in (("one", 1), ("two", 3)):
        log = partition(tmp_path / "source" / broker) if (tmp_path / "source").mkdir(exist_ok=True) is None else None
        assert log is not None
        for offset in range(commits):
            batch(log, [(key_of("billing"), offset_of(offset))])
        log.close()
    batched = partition(tmp_path / "source" / "one", 4)
    batch(batched, [(key_of("elsewhere"), offset_of(7))])
    batched.close()
    foreign(tmp_path / "source")
    assert fork(tmp_path / "source", tmp_path / "forked").offsets == 2
    assert values.decode(read_back(tmp_path / "forked")[key_of("billing")]).offset == 2


def test_a_classic_group_keeps_its_generation_and_loses_its_members(tmp_path):
    """Or keeps them. Its members of production know the generation, so it never goes back."""
    codec = Codec.of()
    member = GroupMetadataValue.MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="h",
        rebalance_timeout=1,
        session_timeout=1,
        subscription=b"",
        assignment=b"",
    )
    value = GroupMetadataValue("consumer", 41, "range", "m", 7, [member])
    key = b"\0\2" + codec.encoder("GroupMetadataKey", 0)(GroupMetadataKey("billing"))
    record = b"\0\3" + codec.encoder("GroupMetadataValue", 3)(value)
    long_empty = key[: -len("billing")] + b"another"
    emptied = b"\0\3" + codec.encoder("GroupMetadataValue", 3)(GroupMetadataValue("consumer", 3, None, None, 7, []))
    log = partition(tmp_path / "source")
    batch(log, [(key, record), (long_empty, emptied)])
    log.close()
    assert fork(tmp_path / "source", tmp_path / "kept", keep_members=True).members == 1
    assert read_back(tmp_path / "kept")[key] == record
    empty, _ = codec.decoder("GroupMetadataValue", 3)(read_back(tmp_path / "kept")[long_empty], 2)
    assert (empty.generation, empty.current_state_timestamp > 7) == (3, True)  # its offsets would have expired
    assert fork(tmp_path / "source", tmp_path / "dropped").members == 1
    empty, _ = codec.decoder("GroupMetadataValue", 3)(read_back(tmp_path / "dropped")[key], 2)
    assert (empty.generation, empty.protocol_type, empty.members, empty.leader) == (41, "consumer", [], None)
    assert empty.current_state_timestamp > 7


def test_a_gap_of_more_than_two_billion_records_is_spanned(tmp_path):
    """One batch cannot span it, nor can one segment."""
    folder = tmp_path / "data"
    folder.mkdir()
    made = ForkedFolder(RealDisk(), str(folder), partitions={}, segment_bytes=1 << 20, node_id=1, now_ms=NOW_MS)
    start, end = 1_000, 5_000_000_001_000
    made.add_topic(
        Topic("orders", b"o" * 16, 2), {0: OffsetRange(start, start + 5_000_000_000), 1: OffsetRange(end, end)}
    )
    made.close()
    log = Log.open(RealDisk(), str(folder / "orders-0"), LogSettings())
    assert (log.start_offset, log.end_offset) == (start, start + 5_000_000_000)
    assert read_header(log.read(start + 3_000_000_000, 1)).next_offset > start + 3_000_000_000
    log.close()
    log = Log.open(RealDisk(), str(folder / "orders-1"), LogSettings())
    assert (log.start_offset, log.end_offset, log.segments) == (end, end, [])
    log.close()


def test_a_group_in_a_partition_that_nobody_asks_for_it_is_left_out(tmp_path, coordinator_process):
    """Somebody has changed the number of partitions of the source."""
    server = coordinator_process(settings={"offsets.topic.num.partitions": 2})
    commit(server, "billing", 5)
    server.terminate()
    for index in (0, 1):
        log = partition(server.data_dir, index)
        batch(log, [(key_of("billing"), offset_of(index))])
        log.close()
    (server.data_dir / "log-catalog").unlink()
    summary = fork(server.data_dir, tmp_path / "forked")
    assert (summary.offsets, summary.misplaced_groups) == (1, ["billing"])


def commit(server: ServerProcess, group: str, offset: int) -> None:
    with Connection(server.bootstrap) as link:
        each = {"partition_index": 0, "committed_offset": offset}
        [topic] = link.call("OffsetCommit", 8, group_id=group, topics=[{"name": "orders", "partitions": [each]}])[
            "topics"
        ]
    assert topic["partitions"][0]["error_code"] == 0


def committed(server: ServerProcess, group: str) -> list[int | None]:
    with Client(server.bootstrap, WITHIN_S) as client:
        return [each.offset for each in offsets(client, describe(client, group))]


def test_a_fork_of_a_killed_server_has_what_only_its_journal_has(tmp_path, coordinator_process):
    """And a fork of a running one what its segments have."""
    server = coordinator_process()
    commit(server, "billing", 5)
    segments = server.data_dir / "__consumer_offsets-0"
    wait_until(lambda: any(each.stat().st_size for each in segments.glob("*.log")), "the segments to follow")
    assert fork(server.data_dir, tmp_path / "running").offsets == 1
    commit(server, "billing", 6)
    server.kill()
    with ServerProcess(tmp_path, arguments=("--from", str(server.data_dir))) as forked:
        assert committed(forked, "billing") == [6]


def test_a_streams_group_goes_on_with_its_topology_or_with_its_members(tmp_path, coordinator_process):
    source = coordinator_process(settings={"offsets.topic.num.partitions": 2})
    with Connection(source.bootstrap) as link:
        made = {"name": "t", "num_partitions": 3, "replication_factor": 1}
        link.call("CreateTopics", 4, topics=[made], timeout_ms=10_000)
        epoch = join_application(link)
        [before] = link.call("StreamsGroupDescribe", 1, group_ids=["app"])["groups"]
    kept = coordinator_process(arguments=("--from", source.bootstrap, "--from-members", "keep"))
    with Connection(kept.bootstrap) as link:
        [found] = link.call("StreamsGroupDescribe", 1, group_ids=["app"])["groups"]
        # The partitions of its internal topics are computed at the first heartbeat.
        assert found | {"topology": {}} == before | {"topology": {}}
    dropped = coordinator_process(arguments=("--from", source.bootstrap))
    assert "level=warning" not in dropped.log, "a fork lacks no events, since none were recorded before"
    with Connection(dropped.bootstrap) as link:
        [found] = link.call("StreamsGroupDescribe", 1, group_ids=["app"])["groups"]
        assert (found["group_state"], found["group_epoch"], found["members"]) == ("Empty", epoch, [])
        assert join_application(link) > epoch
        [found] = link.call("StreamsGroupDescribe", 1, group_ids=["app"])["groups"]
        assert found["topology"] == before["topology"]


def share_fetch(link: Connection, topic_id: bytes) -> list[Any]:
    """What a new member of group `shared` acquires in partition 0."""
    wanted = {"partition_index": 0, "acknowledgement_batches": []}
    answer = link.call(
        "ShareFetch", 1, group_id="shared", member_id="ann", share_session_epoch=0, max_wait_ms=300, min_bytes=1,
        max_bytes=1 << 20, max_records=10, batch_size=10, topics=[{"topic_id": topic_id, "partitions": [wanted]}],
    )  # fmt: skip
    return [
        tuple(acquired.values())
        for topic in answer["responses"]
        for each in topic["partitions"]
        for acquired in each["acquired_records"]
    ]


def share_offsets(link: Connection) -> Any:
    wanted = {"group_id": "shared", "topics": None}
    return link.call("DescribeShareGroupOffsets", 1, groups=[wanted])["groups"]


@pytest.mark.parametrize("how", ["network", "folder"])
def test_a_share_group_goes_on_with_the_states_of_its_partitions(how, coordinator_process):
    """Whatever the numbers of partitions of the internal topics are. What is done with does not come again."""
    source = coordinator_process(settings={"offsets.topic.num.partitions": 2})
    with Connection(source.bootstrap) as link:
        made = {"name": "jobs", "num_partitions": 2, "replication_factor": 1}
        [topic] = link.call("CreateTopics", 7, topics=[made], timeout_ms=10_000)["topics"]
        starts = [{"partition_index": index, "start_offset": 0} for index in (0, 1)]
        asked = [{"topic_name": "jobs", "partitions": starts}]
        assert link.call("AlterShareGroupOffsets", 0, group_id="shared", topics=asked)["error_code"] == 0
        produce_jobs(link, b"a", b"b", b"c", b"d")
        assert share_fetch(link, topic["topic_id"]) == [(0, 3, 1)]
        done = [{"first_offset": 0, "last_offset": 3, "acknowledge_types": [RELEASE, ACCEPT, RELEASE, RELEASE]}]
        acknowledged = {
            "topic_id": topic["topic_id"],
            "partitions": [{"partition_index": 0, "acknowledgement_batches": done}],
        }
        link.call(
            "ShareAcknowledge", 1, group_id="shared", member_id="ann", share_session_epoch=1, topics=[acknowledged]
        )
        before = share_offsets(link)
    arguments = ("--from", source.bootstrap)
    if how == "folder":
        source.kill()
        arguments = ("--from", str(source.data_dir))
    few = {"share.coordinator.state.topic.num.partitions": 3, "offsets.topic.num.partitions": 5}
    forked = coordinator_process(arguments=arguments, settings=few)
    assert "share partitions: 2, with their start offsets" in forked.log
    with Connection(forked.bootstrap) as link:
        assert share_offsets(link) == before
        produce_jobs(link, b"e")
        # A client finds no records at the earlier offsets, and acknowledges gaps.
        assert share_fetch(link, topic["topic_id"]) == [(0, 0, 2), (2, 3, 2), (4, 4, 1)]


def produce_jobs(link: Connection, *values: bytes) -> None:
    records = RecordBatch(values=list(values)).encode()
    topic = {"name": "jobs", "partition_data": [{"index": 0, "records": records}]}
    [answer] = link.call("Produce", 8, acks=-1, timeout_ms=10_000, topic_data=[topic])["responses"]
    assert answer["partition_responses"][0]["error_code"] == 0


def test_a_second_start_goes_on_with_the_fork_and_is_refused_with_from(tmp_path, coordinator_process, capsys):
    source = coordinator_process()
    commit(source, "billing", 5)
    with ServerProcess(tmp_path, arguments=("--from", source.bootstrap)) as forked:
        commit(forked, "billing", 6)
        forked.terminate()
        assert cli.main(["serve", "--from", source.bootstrap, "--data-dir", str(forked.data_dir)]) == 1
        assert "is not empty: start without --from" in capsys.readouterr().err
        forked.arguments = ()
        forked.start()
        assert committed(forked, "billing") == [6]
    assert committed(source, "billing") == [5]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path) -> Path:
    """A folder with two batches, as a broker would have it."""
    log = partition(tmp_path / "source")
    for offset in range(3):
        batch(log, [(key_of("billing"), offset_of(offset))])
    log.close()
    foreign(tmp_path / "source")
    return tmp_path / "source"


def test_a_damaged_segment_is_refused_with_its_file_and_position(source, tmp_path):
    [segment] = source.rglob("*.log")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    assert f"{segment}: damage at position" in refused(source, tmp_path / "forked")


def test_a_torn_tail_is_left_out(source, tmp_path):
    """A copy of a running server may end within a batch."""
    [segment] = source.rglob("*.log")
    segment.write_bytes(segment.read_bytes()[:-3])
    assert fork(source, tmp_path / "forked").records_read == 2


def test_a_record_of_a_newer_version_is_refused_with_its_offset(tmp_path):
    log = partition(tmp_path / "source")
    batch(log, [(key_of("billing"), offset_of(1)), (key_of("billing"), b"\0\x63" + offset_of(1)[2:])])
    log.close()
    reason = refused(tmp_path / "source", tmp_path / "forked")
    assert "00000000000000000000.log: a record of the batch at offset 0: OffsetCommitValue version 99" in reason


def test_records_of_unknown_types_are_counted(tmp_path):
    log = partition(tmp_path / "source")
    batch(log, [(b"\x01\x00x", b"y")])
    log.close()
    assert fork(tmp_path / "source", tmp_path / "forked").unknown_types == {256: 1}


def test_an_unknown_codec_is_refused(tmp_path):
    log = partition(tmp_path / "source")
    batch(log, [(key_of("billing"), offset_of(1))], attributes=7)
    log.close()
    assert "compressed with 7, an unknown codec" in refused(tmp_path / "source", tmp_path / "forked")


def test_a_data_folder_in_the_source_is_refused(source):
    assert "is in the folder that is to be forked" in refused(source, source / "data")


def test_folders_of_different_clusters_are_refused(tmp_path):
    for index in (0, 1):
        log = partition(tmp_path / "source", index)
        batch(log, [(key_of("billing"), offset_of(index))])
        log.close()
    assert "group billing is in the partitions 0 and 1" in refused(tmp_path / "source", tmp_path / "forked")


@pytest.mark.parametrize("content", ["empty", "topics only", "a file"])
def test_a_folder_that_is_no_copy_of_a_kafka_server_is_refused(tmp_path, content):
    folder = tmp_path / "source"
    folder.mkdir()
    if content == "topics only":
        partition(folder, topic="orders").close()
    elif content == "a file":
        (folder / "notes").write_text("x")
    assert "it is no copy of a Kafka server" in refused(folder, tmp_path / "forked")


@pytest.mark.parametrize("option", [["--from-members", "keep"], ["--from-tls"], ["--from-timeout", "3"]])
def test_options_for_a_source_are_refused_without_one(option, tmp_path, capsys):
    assert cli.main(["serve", *option, "--data-dir", str(tmp_path / "data")]) == 2
    assert f"{option[0]} requires --from" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["/nowhere", "nowhere", "kafka", "kafka:", "kafka:70000", "kafka:x", "", "a:1,b"])
def test_what_is_neither_a_folder_nor_an_address_is_refused(tmp_path, name):
    reason = refused(name, tmp_path / "forked")
    assert "is neither a folder nor HOST:PORT" in reason or "must be HOST:PORT" in reason


@pytest.mark.skipif("os.getuid() == 0", reason="root may read everything")
def test_a_file_that_must_not_be_read_is_named(source, tmp_path):
    [segment] = source.rglob("*.log")
    segment.chmod(0)
    assert f"{segment}: Permission denied" in refused(source, tmp_path / "forked")


@pytest.fixture
def strange_server() -> Iterator[Callable[[bytes], str]]:
    """Starts a server that answers everything with the same bytes and ends the connection; returns its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(answer: bytes) -> str:
            def accept() -> None:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer)

            threading.Thread(target=accept, daemon=True).start()
            return f"127.0.0.1:{listener.getsockname()[1]}"

        yield serve


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\4\0\0\0\1"])
def test_a_server_that_does_not_speak_kafkas_protocol_is_refused(strange_server, tmp_path, answer):
    assert "127.0.0.1:" in refused(strange_server(answer), tmp_path / "forked")


def test_a_fork_that_is_killed_leaves_no_data_folder_and_can_be_repeated(tmp_path, coordinator_process):
    """Whenever it is killed: either there is the whole fork, or there is none."""
    source = coordinator_process(settings={"offsets.topic.num.partitions": 20})
    groups = [f"group-{number}" for number in range(200)]
    for group in groups:
        commit(source, group, 5)
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        forked = ServerProcess(tmp_path / str(number), arguments=("--from", source.bootstrap))
        forked.start_and_kill(0.25 + 0.15 * number)
        exists = forked.data_dir.exists()
        if exists:
            forked.arguments = ()
        with forked:
            assert all(committed(forked, group) == [5] for group in groups[:: 1 if exists else 40])
            forked.terminate()
        assert [each.name for each in (tmp_path / str(number)).iterdir() if each.is_dir()] == ["data"]


def test_a_fork_that_is_stopped_while_it_waits_for_the_source_cleans_up(tmp_path):
    """SIGTERM, as a container's."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        forked = ServerProcess(tmp_path, arguments=("--from", address, "--from-timeout", "600"))
        forked.begin_to_start()
        silent.settimeout(60)
        with silent.accept()[0]:
            assert forked.terminate() == 128 + 15
        assert not list(tmp_path.glob("data*"))
        forked.stop()
