"""The logs in the engine become a data folder that a single server goes on with, and a data folder goes into an engine."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from coordinator import cli
from coordinator.cluster.engine.engine import EngineUnavailable
from coordinator.log.checkpoint import Checkpoint
from coordinator.operations import journal_import, log_check
from coordinator.operations.journal_access import JournalFailed
from coordinator.operations.journal_export import copy_logs
from coordinator.operations.log_folders import find_log_folders
from coordinator.server.composition import Server
from coordinator.world.disk import RealDisk
from coordinator_lab.simulation.memory_engine import MemoryEngine
from tests.cluster.workers.events import EVENTS, STATE, check_agreement, in_force, read_all, stored
from tests.cluster.workers.world import PATIENT, SHARDS, commit, create_topic, eventually, fetch, workers
from tests.rules.world import Client, running

GROUPS = [f"group-{number}" for number in range(10)]


def run(coroutine):
    asyncio.run(coroutine)


@asynccontextmanager
async def single_server(folder: Path) -> AsyncIterator[tuple[Server, Client]]:
    """A server with an embedded journal."""
    RealDisk().make_folder(str(folder))
    settings = [f"offsets.topic.num.partitions={SHARDS}", f"transaction.state.log.num.partitions={SHARDS + 1}"]
    async with running(folder, settings) as world:
        yield world.server, await world.client()


async def copied(world, folder: Path):
    RealDisk().make_folder(str(folder))
    return await copy_logs(MemoryEngine(world.store, PATIENT), folder, list)


async def commit_all(world, first: int) -> None:
    for number, group in enumerate(GROUPS):
        owner = world.owner(world.running[0].server.groups.shard_of(group).index)
        client = await owner.client()
        await eventually(
            lambda group=group, number=number, client=client: commit(client, group, "t", first + number), 0
        )


async def test_a_single_server_goes_on_with_a_copy_of_what_workers_have(tmp_path, capsys):
    """Offsets and topics are there, compacted or not; events go on; and no check finds anything wrong."""
    async with workers(tmp_path) as world:
        first, _ = await world.start(1, 2)
        await world.until_spread()
        assert await create_topic(first, "t") == 0
        await world.until(lambda: all("t" in each.server.topics.registry.topics for each in world.running))
        for number in range(5):
            await commit_all(world, number)
        index = first.server.groups.shard_of(GROUPS[0]).index
        owner = world.owner(index)
        await owner.sharing.take_snapshot(f"{STATE}-{index}")
        await commit_all(world, 100)
        found = await copied(world, tmp_path / "copy")
        assert (found.cluster_id, found.workers) == (first.server.cluster_id, 2)
        assert found.logs == len(find_log_folders(tmp_path / "copy"))
        assert log_check.run(tmp_path / "copy", as_json=True) == 0
        checked = {Path(log["folder"]).name: log for log in json.loads(capsys.readouterr().out)["logs"]}
        assert {log["verdict"] for log in checked.values()} == {"good"}
        state = checked[f"{STATE}-{index}"]
        assert state["records"] < state["next_offset"]
        noted = Checkpoint(RealDisk(), str(tmp_path / "copy" / f"{STATE}-{index}")).offsets
        assert 0 < noted.clean_offset < state["next_offset"]
        before = stored(world, EVENTS, index)
    async with single_server(tmp_path / "copy") as (server, client):
        assert server.cluster_id == found.cluster_id
        for number, group in enumerate(GROUPS):
            assert await fetch(client, group, "t") == (0, 100 + number)
        assert await commit(client, GROUPS[0], "t", 1000) == 0
        events = await read_all(client, EVENTS, index)
        assert events[: len(before)] == before
        assert in_force(events)[1] == []


async def test_a_log_that_a_worker_shortens_meanwhile_is_read_again(tmp_path):
    async with workers(tmp_path) as world:
        (only,) = await world.start(1)
        assert await create_topic(only, "t") == 0
        await commit_all(world, 7)
        engine, failures = MemoryEngine(world.store, PATIENT), 2
        read = engine.read

        async def overtaken(log):
            nonlocal failures
            async for each in read(log):
                yield each
                if log.startswith(STATE) and failures:
                    failures -= 1
                    raise EngineUnavailable("a snapshot has replaced what was to be read")

        engine.read = overtaken
        RealDisk().make_folder(str(tmp_path / "copy"))
        await copy_logs(engine, tmp_path / "copy", list)
        assert failures == 0
        assert log_check.run(tmp_path / "copy", as_json=True) == 0
    async with single_server(tmp_path / "copy") as (_, client):
        for number, group in enumerate(GROUPS):
            assert await fetch(client, group, "t") == (0, 7 + number)


async def test_workers_go_on_with_the_groups_of_a_single_server(tmp_path, monkeypatch):
    """Its offsets, topics and events are in the engine, and the cluster is the same. What is not empty is refused."""

    async def imported(world):
        folders = find_log_folders(tmp_path / "data")
        engine = MemoryEngine(world.store, PATIENT)
        cluster_id = (tmp_path / "data" / "meta.properties").read_text().split("cluster.id=")[1].split()[0]
        return await journal_import.import_logs(engine, cluster_id, folders)

    async with single_server(tmp_path / "data") as (server, client):
        assert server.topics.declare("t", 2, {})
        for number, group in enumerate(GROUPS):
            assert await commit(client, group, "t", number) == 0
        index = server.groups.shard_of(GROUPS[0]).index
        cluster_id = server.cluster_id
    async with workers(tmp_path) as world:
        monkeypatch.setattr(journal_import, "PIECE_BYTES", 200)
        found = await imported(world)
        assert (found.cluster_id, found.left) == (cluster_id, [])
        assert found.records >= 2 * len(GROUPS)
        with pytest.raises(JournalFailed, match="not empty"):
            await imported(world)
        first, _ = await world.start(1, 2)
        await world.until_spread()
        assert first.server.cluster_id == cluster_id
        assert first.server.topics.partition_count("t") == 2
        for number, group in enumerate(GROUPS):
            owner = world.owner(first.server.groups.shard_of(group).index)
            assert await fetch(await owner.client(), group, "t") == (0, number)
        await commit_all(world, 50)
        assert in_force(stored(world, EVENTS, index))[1] == []
        assert sum(check_agreement(world, each) for each in range(SHARDS)) == 2 * len(GROUPS)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["log", "dump"], "DIR or --journal is required"),
        (["log", "check", "--journal", "-"], "the variable COORDINATOR_JOURNAL is not set"),
        (["log", "check", "--journal", "nowhere"], "an engine's address begins with postgresql://"),
        (["log", "export", "{folder}", "--journal", "nowhere"], "an engine's address begins with postgresql://"),
        (["log", "export", "{full}", "--journal", "nowhere"], "is not an empty folder"),
        (["log", "import", "{folder}", "--journal", "nowhere"], "{folder} is not a data folder"),
        (["log", "import", "{full}", "--journal", "nowhere"], "contains neither segment files"),
        (["pipeline", "audit", "--journal", "nowhere", "--out", "{folder}"], "an engine's address begins with"),
        (["pipeline", "follow", "--journal", "nowhere", "--out", "{folder}"], "an engine's address begins with"),
        (["pipeline", "follow", "--out", "{folder}"], "Exactly one of --log or --bootstrap or --journal"),
        (["groups", "why", "g", "--journal", "nowhere"], "an engine's address begins with"),
        (["groups", "why", "g", "--journal", "nowhere", "--log", "{full}"], "Only one of --log and --journal"),
        (["pipeline", "audit", "--out", "{folder}"], "Exactly one of --log or --bootstrap or --archive or --journal"),
    ],
)
def test_a_journal_that_cannot_be_read_is_named_with_what_is_allowed(tmp_path, monkeypatch, capsys, arguments, reason):
    monkeypatch.delenv("COORDINATOR_JOURNAL", raising=False)
    folder, full = str(tmp_path / "folder"), tmp_path / "full"
    full.mkdir()
    (full / "meta.properties").write_text("version=1\ncluster.id=cluster-of-the-test-00\n")
    assert cli.main([each.format(folder=folder, full=full) for each in arguments]) != 0
    assert not (tmp_path / "folder").exists()
    assert reason.format(folder=folder) in " ".join(capsys.readouterr().err.split())


def test_the_address_of_a_journal_may_be_in_the_variable(monkeypatch, capsys):
    monkeypatch.setenv("COORDINATOR_JOURNAL", "nowhere://")
    assert cli.main(["log", "check", "--journal", "-"]) != 0
    assert "nowhere://: an engine's address begins with" in capsys.readouterr().err


def test_a_folder_with_records_in_its_journal_is_settled_before_it_is_imported(tmp_path):
    """The logs of a server that was killed lack its last records."""

    async def scenario():
        async with single_server(tmp_path / "data") as (_, client):
            assert await commit(client, "g", "t", 1) in (0, 3)
            shutil.copytree(tmp_path / "data", tmp_path / "killed")

    run(scenario())
    with pytest.raises(JournalFailed, match="coordinator log settle"):
        journal_import.import_folder("nowhere://", PATIENT, tmp_path / "killed")
