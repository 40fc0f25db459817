"""The procedures of docs/backup.md with this server alone: backup while it runs, restore, upgrade and downgrade."""

import io
import os
import shutil
import subprocess
import tarfile
import threading
from pathlib import Path

import pytest

from coordinator import cli
from coordinator.log import catalog
from coordinator.operations.client import Client
from coordinator.protocol.messages import OffsetFetchRequest
from coordinator_testing.throwaway_server import DidNotStart
from tests.support.server_process import REPOSITORY, TOPICS, ServerProcess
from tests.support.waiting import WITHIN_S, wait_until
from tests.support.wire import Connection

EARLIER = "686d903"
"""A commit of 22 November 2026, before the journal."""
WRITES = {"durability": "write", "offsets.topic.num.partitions": 3}


def commit(link: Connection, group: str, offset: int) -> None:
    partition = {"partition_index": 0, "committed_offset": offset}
    answer = link.call("OffsetCommit", 8, group_id=group, topics=[{"name": "orders", "partitions": [partition]}])
    assert answer["topics"][0]["partitions"][0]["error_code"] == 0


def committed(bootstrap: str, group: str) -> int:
    """The offset of the group in `orders`, or -1."""
    with Client(bootstrap, WITHIN_S) as client:
        topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
        answer = client.ask_coordinator(group, OffsetFetchRequest(group_id=group, topics=[topic]), version_max=5)
    return answer.topics[0].partitions[0].committed_offset


class Committer(threading.Thread):
    """Commits 1, 2, 3 ... for a group until it is stopped. `acknowledged` is the last offset that the server accepted."""

    def __init__(self, bootstrap: str, group: str) -> None:
        super().__init__()
        self._address, self._group = bootstrap, group
        self.acknowledged = 0
        self._stopping = threading.Event()

    def run(self) -> None:
        with Connection(self._address) as link:
            while not self._stopping.is_set():
                commit(link, self._group, self.acknowledged + 1)
                self.acknowledged += 1

    def stop(self) -> None:
        self._stopping.set()
        self.join(WITHIN_S)
        assert not self.is_alive()


def checked(folder: Path) -> int:
    return cli.main(["log", "check", str(folder)])


def restored(tmp_path: Path, copy: Path, **options) -> ServerProcess:
    """A server with a copy as its data folder."""
    folder = tmp_path / f"restored-{copy.name}"
    folder.mkdir()
    shutil.move(copy, folder / "data")
    return ServerProcess(folder, settings=WRITES, **options)


def test_a_copy_of_a_paused_servers_folder_has_every_commit_that_was_acknowledged(tmp_path, coordinator_process):
    """And the server goes on, with the same connections."""
    server = coordinator_process(settings=WRITES)
    committers = [Committer(server.bootstrap, f"group-{number}") for number in range(4)]
    for each in committers:
        each.start()
    wait_until(lambda: all(each.acknowledged > 20 for each in committers), "some commits")
    server.pause()
    acknowledged = [each.acknowledged for each in committers]
    shutil.copytree(server.data_dir, tmp_path / "copy")
    server.resume()
    wait_until(
        lambda: all(each.acknowledged > before + 20 for each, before in zip(committers, acknowledged, strict=True)),
        "more commits",
    )
    for each in committers:
        each.stop()
    with restored(tmp_path, tmp_path / "copy") as copy:
        for number, before in enumerate(acknowledged):
            # A commit may have been written whose response was not sent.
            assert committed(copy.bootstrap, f"group-{number}") >= before
        copy.terminate()
        assert checked(copy.data_dir) == 0


def test_a_copy_of_a_stopped_servers_folder_passes_the_check_and_has_everything(tmp_path, coordinator_process):
    server = coordinator_process(settings=WRITES)
    with Connection(server.bootstrap) as link:
        commit(link, "billing", 7)
    assert server.terminate() == 0
    shutil.copytree(server.data_dir, tmp_path / "copy")
    assert checked(tmp_path / "copy") == 0
    with restored(tmp_path, tmp_path / "copy") as copy:
        assert committed(copy.bootstrap, "billing") == 7


def test_a_copy_with_files_of_different_moments_is_refused(tmp_path, coordinator_process, capsys):
    """As a copy that is made file by file while the server writes may be."""
    server = coordinator_process(settings=WRITES)
    with Connection(server.bootstrap) as link:
        commit(link, "billing", 7)
        server.restart()
    copy = tmp_path / "copy"
    copy.mkdir()
    (early,) = {log.parent for log in server.data_dir.glob("__consumer_offsets-*/*.log") if log.stat().st_size}
    shutil.copytree(early, copy / early.name)
    with Connection(server.bootstrap) as link:
        for offset in range(50):
            commit(link, "billing", offset)
    server.terminate()
    shutil.copytree(server.data_dir, copy, dirs_exist_ok=True, ignore=lambda folder, names: [early.name])
    assert checked(copy) == 1
    assert "problem" in capsys.readouterr().out
    broken = restored(tmp_path, copy)
    with pytest.raises(DidNotStart, match=early.name):
        broken.start()
    broken.stop()


def test_a_restored_server_may_have_other_addresses(tmp_path, coordinator_process):
    """The folder has none; clients get those that the new server advertises."""
    server = coordinator_process(settings=WRITES)
    with Connection(server.bootstrap) as link:
        commit(link, "billing", 7)
    server.terminate()
    shutil.copytree(server.data_dir, tmp_path / "copy")
    first = server.bootstrap
    with restored(tmp_path, tmp_path / "copy") as copy:
        assert copy.bootstrap != first
        assert committed(copy.bootstrap, "billing") == 7


def test_a_folder_has_one_server_at_a_time(coordinator_process):
    server = coordinator_process(settings=WRITES)
    other = subprocess.run(
        ServerProcess(server.folder).command(), capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert other.returncode == 1
    assert "in use by another server" in other.stderr


@pytest.mark.parametrize("number", [2, 5])
def test_a_start_with_another_number_of_partitions_for_groups_is_refused(coordinator_process, number):
    """Groups would be looked for in the wrong partitions, and nobody would find their offsets."""
    server = coordinator_process(settings=WRITES)
    with Connection(server.bootstrap) as link:
        for group in "abcdef":
            commit(link, group, 7)
    assert server.terminate() == 0
    changed = ServerProcess(server.folder, settings=WRITES | {"offsets.topic.num.partitions": number})
    refused = subprocess.run(changed.command(), capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert refused.returncode == 1
    assert refused.stderr.endswith(
        f"has 3 partitions of __consumer_offsets, and offsets.topic.num.partitions is {number}; set it to 3\n"
    )
    server.start()
    assert [committed(server.bootstrap, group) for group in "abcdef"] == [7] * 6


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_folder_of_kafka_with_another_number_of_partitions_for_groups_is_refused(coordinator_process, is_whole):
    """It has no catalog; the metadata log has the number, also where another broker has the last partition."""
    server = coordinator_process(settings=WRITES)
    with Connection(server.bootstrap) as link:
        commit(link, "billing", 7)
    assert server.terminate() == 0
    (server.data_dir / catalog.NAME).unlink()
    if not is_whole:
        shutil.rmtree(server.data_dir / "__consumer_offsets-2")
    changed = ServerProcess(server.folder, settings=WRITES | {"offsets.topic.num.partitions": 5})
    refused = subprocess.run(changed.command(), capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert refused.returncode == 1
    assert "has 3 partitions of __consumer_offsets, and offsets.topic.num.partitions is 5" in refused.stderr
    server.start()


@pytest.fixture(scope="module")
def earlier(tmp_path_factory) -> Path:
    """The sources of an earlier version, from the repository's history."""
    command = ["git", "-C", str(REPOSITORY), "archive", EARLIER, "coordinator", "protocol_schemas", "config"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"the history has no commit {EARLIER}: {archive.stderr.decode()[-200:]}")
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as sources:
        sources.extractall(folder, filter="data")
    return folder


class EarlierServer(ServerProcess):
    """A server of an earlier version."""

    def __init__(self, folder: Path, sources: Path):
        super().__init__(folder, settings={"topics": TOPICS, **WRITES}, config=sources / "config" / "test.yaml")
        self._sources = sources

    def command(self) -> list[str]:
        return ["env", "-C", str(self._sources), f"PYTHONPATH={self._sources}", *super().command()]


@pytest.mark.skipif(os.name != "posix", reason="starts the earlier version through env")
def test_an_upgrade_and_a_downgrade_keep_every_offset(tmp_path, earlier):
    old = EarlierServer(tmp_path, earlier)
    new = ServerProcess(tmp_path, settings=WRITES)
    for number, server in enumerate([old, new, old, new]):
        with server:
            if number:
                assert committed(server.bootstrap, "billing") == number - 1
            with Connection(server.bootstrap) as link:
                commit(link, "billing", number)
            assert server.terminate() == 0


@pytest.mark.skipif(os.name != "posix", reason="starts the earlier version through env")
def test_a_downgrade_after_a_crash_keeps_every_offset_once_the_journal_is_settled(tmp_path, earlier):
    with ServerProcess(tmp_path, settings=WRITES) as new, Connection(new.bootstrap) as link:
        for offset in range(100):
            commit(link, "billing", offset)
        new.kill()
    assert list(new.data_dir.glob("coordinator.journal*"))
    assert cli.main(["log", "settle", str(new.data_dir)]) == 0
    assert not list(new.data_dir.glob("coordinator.journal*"))
    with EarlierServer(tmp_path, earlier) as old:
        assert committed(old.bootstrap, "billing") == 99


def test_moving_to_kafka_refuses_a_folder_whose_last_records_are_only_in_the_journal(tmp_path):
    with ServerProcess(tmp_path, settings=WRITES) as server, Connection(server.bootstrap) as link:
        commit(link, "billing", 1)
        server.kill()
    script = REPOSITORY / "examples" / "move_to_kafka.sh"
    done = subprocess.run(["sh", script, server.data_dir, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"{server.data_dir} has a journal; run: coordinator log settle {server.data_dir}\n"
