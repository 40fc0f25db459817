"""The commands and the Spark source on the folder of a server that was killed: the last batches are only in its journal."""

import json

import pytest

from coordinator import cli
from coordinator.journal.recovery import read_journal
from coordinator.journal.slot import slot_name, slot_numbers
from coordinator.log import catalog
from coordinator.log.batch import split
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.log import Log, LogSettings
from coordinator.world.disk import RealDisk
from pyspark_coordinator_log.folders import NoLog, open_folder
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

DISK = RealDisk()


@pytest.fixture
def killed(tmp_path):
    """A server that was killed right after it acknowledged a commit, before it could write a segment."""
    with ServerProcess(tmp_path, settings={"durability": "fsync"}) as server:
        with Connection(server.bootstrap) as link:
            link.call("CreateTopics", 5, topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1}])
            commit(link, 41)
            commit(link, 42)
            server.kill()
        yield server


def commit(link, offset):
    partitions = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}]
    answer = link.call("OffsetCommit", 8, group_id="g", topics=[{"name": "t", "partitions": partitions}])
    assert answer["topics"][0]["partitions"][0]["error_code"] == 0


def run(capsys, *arguments):
    code = cli.main(["log", *map(str, arguments)])
    return code, capsys.readouterr().out


def dumped(capsys, folder):
    _, out = run(capsys, "dump", folder, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    return [row["value"]["offset"] for row in rows if row["type"] == "OffsetCommit"]


def journal(folder):
    return [name for number in slot_numbers(DISK, str(folder)) if (folder / (name := slot_name(number))).exists()]


def test_dump_and_check_see_what_only_the_journal_has(killed, capsys):
    assert read_journal(DISK, str(killed.data_dir)).batches
    assert dumped(capsys, killed.data_dir)[-1] == 42
    assert run(capsys, "check", killed.data_dir)[0] == 0


def test_settle_writes_the_journal_into_the_logs_and_leaves_none(killed, capsys):
    code, out = run(capsys, "settle", killed.data_dir)
    assert code == 0
    assert "now they are in the segments" in out
    assert journal(killed.data_dir) == []
    assert not catalog.read(DISK, str(killed.data_dir)).has_journal
    assert dumped(capsys, killed.data_dir)[-1] == 42
    assert run(capsys, "settle", killed.data_dir)[0] == 0


def test_the_spark_source_asks_for_settle_instead_of_leaving_out_the_last_batches(killed, capsys):
    with pytest.raises(NoLog, match="coordinator log settle"):
        open_folder(str(killed.data_dir), "__consumer_offsets")
    run(capsys, "settle", killed.data_dir)
    assert open_folder(str(killed.data_dir), "__consumer_offsets").shards


def test_the_next_start_has_the_last_commit_and_a_stop_leaves_no_journal(killed, capsys):
    killed.start()
    killed.terminate()
    assert journal(killed.data_dir) == []
    assert dumped(capsys, killed.data_dir)[-1] == 42


def test_a_start_without_the_journal_is_refused_and_repair_says_what_is_lost(killed, capsys):
    for name in journal(killed.data_dir):
        (killed.data_dir / name).unlink()
    assert cli.main(["serve", "--data-dir", str(killed.data_dir), "--listen", "127.0.0.1:0"]) == 1
    assert "the journal is missing" in capsys.readouterr().err
    code, out = run(capsys, "repair", killed.data_dir)
    assert code == 1
    assert "records that only it has are lost" in out
    assert run(capsys, "repair", killed.data_dir, "--execute")[0] == 0
    killed.start()


def test_a_damaged_entry_before_a_durable_one_is_refused(killed, capsys):
    path = killed.data_dir / journal(killed.data_dir)[0]
    content = bytearray(path.read_bytes())
    content[540] ^= 1
    path.write_bytes(content)
    assert run(capsys, "check", killed.data_dir)[0] == 1
    assert cli.main(["serve", "--data-dir", str(killed.data_dir), "--listen", "127.0.0.1:0"]) == 1
    assert "entry 1 of the journal is missing or damaged" in capsys.readouterr().err


def test_another_server_that_has_written_since_is_found_and_repair_sets_the_journal_aside(killed, capsys):
    """It began a segment, so that its batches are in a closed one, and the log ends behind the journal."""
    name, pieces = next(
        each for each in read_journal(DISK, str(killed.data_dir)).batches.items() if "offsets" in each[0]
    )
    log = Log.open(DISK, str(killed.data_dir / name), LogSettings())
    for _ in range(sum(len(split(piece)) for piece in pieces) + 1):
        batch = BatchBuilder()
        batch.add(b"key", b"of another server")
        log.append(batch.build(log.end_offset, 0), 1, 0)
    log.begin_segment()
    log.close()
    serve = ["serve", "--data-dir", str(killed.data_dir), "--listen", "127.0.0.1:0"]
    topics = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    one = [word for topic in topics for word in ("--set", f"{topic}.num.partitions=1")]
    assert cli.main([*serve, *one]) == 1
    assert "another server has written here" in capsys.readouterr().err
    code, out = run(capsys, "check", killed.data_dir)
    assert code == 1
    assert f"{name}: the journal has another batch" in out
    assert "set the journal aside" in run(capsys, "repair", killed.data_dir)[1]
    run(capsys, "repair", killed.data_dir, "--execute")
    assert journal(killed.data_dir) == []
