"""Every kind of file in a data folder is lost, cut, doubled, emptied or put elsewhere; `serve` and `log check` notice it.

Both name the same file, and the check says the same again after the start. A start that is refused changes no file.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator import cli
from tests.support.record_batch import Batch, read_batches
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

NONE, OFFSET_OUT_OF_RANGE, LEADER_NOT_AVAILABLE, STORAGE_ERROR = 0, 1, 5, 56
SETTINGS = {
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "offsets.topic.segment.bytes": 1 << 12,
    "log.segment.bytes": 1 << 20,
}
OFFSETS, TRANSACTIONS, METADATA = "__consumer_offsets-0", "__transaction_state-0", "__cluster_metadata-0"
LARGE, SMALL = "orders-0", "orders-1"
GROUPS, LARGE_RECORDS, SMALL_RECORDS, DELETED = 40, 4, 60, 2
Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A data folder that has a log of every kind."""
    server = ServerProcess(tmp_path_factory.mktemp("original"), settings=SETTINGS)
    with server, Connection(server.bootstrap) as link:
        for number in range(5 * GROUPS):
            partition = {"partition_index": 0, "committed_offset": number, "committed_metadata": "m" * 40}
            topics = [{"name": "orders", "partitions": [partition]}]
            [topic] = link.call("OffsetCommit", 8, group_id=f"g-{number % GROUPS}", topics=topics)["topics"]
            assert topic["partitions"][0]["error_code"] == NONE
        for number in range(10):
            made = link.call("InitProducerId", 1, transactional_id=f"t-{number}", transaction_timeout_ms=60_000)
            assert made["error_code"] == NONE
        for partition, size, count in ((0, 600_000, LARGE_RECORDS), (1, 50, SMALL_RECORDS)):
            for number in range(count):
                assert produce(link, partition, bytes([number]) * size) == NONE
        delete = {"partitions": [{"partition_index": 1, "offset": DELETED}], "name": "orders"}
        [topic] = link.call("DeleteRecords", 1, timeout_ms=30_000, topics=[delete])["topics"]
        assert topic["partitions"][0]["error_code"] == NONE
        server.terminate()
    for folder in (OFFSETS, LARGE):
        assert len(segments(server.data_dir / folder)) > 3
    for folder in (TRANSACTIONS, METADATA, SMALL):
        assert len(segments(server.data_dir / folder)) == 1
    return server.data_dir


@pytest.fixture
def server(original, tmp_path):
    """A server that has not been started, on a copy of the folder."""
    server = ServerProcess(tmp_path, settings=SETTINGS)
    shutil.copytree(original, server.data_dir)
    yield server
    server.stop()


def produce(link: Connection, partition: int, value: bytes) -> int:
    data = [{"name": "orders", "partition_data": [{"index": partition, "records": Batch(values=[value]).encode()}]}]
    answer = link.call("Produce", 8, acks=-1, timeout_ms=30_000, topic_data=data)
    return answer["responses"][0]["partition_responses"][0]["error_code"]


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def content(folder: Path) -> dict[str, bytes]:
    """Every file, without the lock."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def problems(folder: Path, capsys) -> list[dict]:
    """What `log check` reports, and only the damage."""
    capsys.readouterr()
    code = cli.main(["log", "check", str(folder), "--json"])
    found = json.loads(capsys.readouterr().out)
    all_problems = found["problems"] + [problem for log in found["logs"] for problem in log["problems"]]
    assert code == bool(all_problems)
    return [problem for problem in all_problems if problem["kind"] != "torn tail"]


# --- kinds of damage --------------------------------------------------------------------------------------------------


def missing(folder: str, which: int) -> Damage:
    return lambda data: segments(data / folder)[which].unlink()


def gone(folder: str) -> Damage:
    return lambda data: shutil.rmtree(data / folder)


def emptied(folder: str) -> Damage:
    return lambda data: [path.unlink() for path in (data / folder).iterdir()]


def cut(folder: str, which: int, left: Callable[[bytes], int] = lambda whole: len(whole) - 1) -> Damage:
    def damage(data: Path) -> None:
        path = segments(data / folder)[which]
        whole = path.read_bytes()
        path.write_bytes(whole[: left(whole)])

    return damage


def first_batch_end(whole: bytes) -> int:
    return 12 + int.from_bytes(whole[8:12])


def flipped(folder: str, position: int, which: int = -1) -> Damage:
    def damage(data: Path) -> None:
        path = segments(data / folder)[which]
        whole = bytearray(path.read_bytes())
        whole[position] ^= 0xFF
        path.write_bytes(bytes(whole))

    return damage


def doubled(folder: str, which: int, ahead: int) -> Damage:
    def damage(data: Path) -> None:
        path = segments(data / folder)[which]
        shutil.copy(path, path.with_name(f"{int(path.stem) + ahead:020d}.log"))

    return damage


def replaced(folder: str, other: str, which: int) -> Damage:
    """A segment in place of the one of the same place in another log."""
    return lambda data: shutil.copy(segments(data / other)[which], segments(data / folder)[which])


def moved(folder: str, other: str) -> Damage:
    """The folder of another log in place of this one."""

    def damage(data: Path) -> None:
        shutil.rmtree(data / folder)
        shutil.copytree(data / other, data / folder)

    return damage


def without(name: str) -> Damage:
    return lambda data: (data / name).unlink()


def overwritten(name: str, text: bytes) -> Damage:
    return lambda data: (data / name).write_bytes(text)


STOPS = {
    "first offsets segment missing": (missing(OFFSETS, 0), OFFSETS),
    "offsets segment missing in the middle": (missing(OFFSETS, 2), OFFSETS),
    "last offsets segment missing": (missing(OFFSETS, -1), OFFSETS),
    "offsets folder gone": (gone(OFFSETS), OFFSETS),
    "offsets folder emptied": (emptied(OFFSETS), OFFSETS),
    "closed offsets segment cut in a batch": (cut(OFFSETS, 1), OFFSETS),
    "closed offsets segment cut at a batch": (cut(OFFSETS, 1, first_batch_end), OFFSETS),
    "last offsets segment cut in a batch": (cut(OFFSETS, -1), OFFSETS),
    "last offsets segment cut at a batch": (cut(OFFSETS, -1, first_batch_end), OFFSETS),
    "offsets segment emptied": (cut(OFFSETS, -1, lambda _: 0), OFFSETS),
    "offsets segment doubled": (doubled(OFFSETS, 0, 1), OFFSETS),
    "last offsets segment doubled": (doubled(OFFSETS, -1, 5_000), OFFSETS),
    "copy beside the last offsets segment": (doubled(OFFSETS, -1, 1), OFFSETS),
    "offsets segment of the other shard": (replaced(OFFSETS, "__consumer_offsets-1", 0), OFFSETS),
    "offsets folder of the other shard": (moved(OFFSETS, "__consumer_offsets-1"), OFFSETS),
    "bit rot in an offsets segment": (flipped(OFFSETS, 80, 0), OFFSETS),
    "bit rot at the end of the offsets": (flipped(OFFSETS, -1), OFFSETS),
    "offsets list damaged": (overwritten(f"{OFFSETS}/segment-list", b"0\n"), OFFSETS),
    "transactions missing": (missing(TRANSACTIONS, 0), TRANSACTIONS),
    "transactions folder gone": (gone(TRANSACTIONS), TRANSACTIONS),
    "transactions emptied": (cut(TRANSACTIONS, 0, lambda _: 0), TRANSACTIONS),
    "transactions cut": (cut(TRANSACTIONS, 0), TRANSACTIONS),
    "transactions of the other shard": (moved(TRANSACTIONS, "__transaction_state-1"), TRANSACTIONS),
    "first byte of the transactions": (flipped(TRANSACTIONS, 0), TRANSACTIONS),
    "metadata missing": (missing(METADATA, 0), METADATA),
    "metadata folder gone": (gone(METADATA), METADATA),
    "metadata folder emptied": (emptied(METADATA), METADATA),
    "metadata cut": (cut(METADATA, 0), METADATA),
    "metadata cut at a batch": (cut(METADATA, 0, first_batch_end), METADATA),
    "catalog damaged": (overwritten("log-catalog", b""), "log-catalog"),
    "cluster id gone": (without("meta.properties"), "meta.properties"),
    "cluster id of another folder": (overwritten("meta.properties", b"cluster.id=x\n"), "meta.properties"),
}
TAKES_OFFLINE = {
    "first segment missing": (missing(LARGE, 0), LARGE),
    "segment missing in the middle": (missing(LARGE, 1), LARGE),
    "last segment missing": (missing(LARGE, -1), LARGE),
    "closed segment cut": (cut(LARGE, 1), LARGE),
    "closed segment emptied": (cut(LARGE, 1, lambda _: 0), LARGE),
    "segment doubled": (doubled(LARGE, 0, 1_000), LARGE),
    "copy beside the only segment": (doubled(SMALL, 0, 1), SMALL),
    "folder gone": (gone(LARGE), LARGE),
    "only segment missing": (missing(SMALL, 0), SMALL),
    "only segment emptied": (cut(SMALL, 0, lambda _: 0), SMALL),
    "only segment cut": (cut(SMALL, 0), SMALL),
    "first byte": (flipped(SMALL, 0), SMALL),
    "small folder gone": (gone(SMALL), SMALL),
    "small folder emptied": (emptied(SMALL), SMALL),
    "folder of another partition": (moved(SMALL, LARGE), SMALL),
    "start of the log forgotten": (without(f"{SMALL}/log-checkpoint"), SMALL),
}
LOSES_NOTHING = {
    "list of segments missing": without(f"{OFFSETS}/segment-list"),
    "catalog missing": without("log-catalog"),
    "checkpoint missing": without(f"{LARGE}/log-checkpoint"),
    "checkpoint emptied": overwritten(f"{OFFSETS}/log-checkpoint", b""),
    "producers missing": without(f"{LARGE}/producer-snapshot"),
    "producers damaged": overwritten(f"{LARGE}/producer-snapshot", b"\xff"),
    "a folder that belongs to nothing": lambda data: (data / "other-0").mkdir(),
}


@pytest.mark.parametrize(("damage", "named"), STOPS.values(), ids=STOPS)
def test_damage_to_what_all_need_stops_the_start(server, capsys, damage, named):
    damage(server.data_dir)
    found = problems(server.data_dir, capsys)
    before = content(server.data_dir)
    assert cli.main(server.command()[4:]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    line = printed.err.splitlines()[-1]
    assert any(problem["file"] in line for problem in found), (line, found)
    assert f"/{named}" in line
    assert f"coordinator log repair {server.data_dir}" in line
    assert content(server.data_dir) == before
    assert problems(server.data_dir, capsys) == found


@pytest.mark.parametrize("folder", [OFFSETS, "__consumer_offsets-1", TRANSACTIONS])
def test_a_refused_start_after_a_kill_leaves_what_only_the_journal_has_in_the_journal(server, folder):
    """The damage lies where an opening does not look, so every other log has been read when it is noticed."""
    with server, Connection(server.bootstrap) as link:
        for number in range(GROUPS):
            partition = {"partition_index": 0, "committed_offset": number, "committed_metadata": ""}
            topics = [{"name": "orders", "partitions": [partition]}]
            link.call("OffsetCommit", 8, group_id=f"g-{number}", topics=topics)
            link.call("InitProducerId", 1, transactional_id=f"t-{number}", transaction_timeout_ms=60_000)
        server.kill()
    flipped(folder, first_batch_end(segments(server.data_dir / folder)[0].read_bytes()) - 1, 0)(server.data_dir)
    before = content(server.data_dir)
    assert cli.main(server.command()[4:]) == 1
    assert content(server.data_dir) == before


@pytest.mark.parametrize(("damage", "named"), TAKES_OFFLINE.values(), ids=TAKES_OFFLINE)
def test_damage_to_the_log_of_a_topic_takes_its_partition_offline(server, capsys, damage, named):
    damage(server.data_dir)
    found = problems(server.data_dir, capsys)
    assert all(f"/{named}" in problem["file"] for problem in found)
    assert found
    before = content(server.data_dir / named)
    index = int(named[-1])
    with server, Connection(server.bootstrap) as link:
        assert any(problem["file"] in server.log for problem in found), (server.log, found)
        (topic,) = link.call("Metadata", 9, topics=[{"name": "orders"}])["topics"]
        assert {each["partition_index"]: each["error_code"] for each in topic["partitions"]} == {
            each: LEADER_NOT_AVAILABLE if each == index else NONE for each in range(4)
        }
        for offset in (0, 3, 50, 1_000):
            assert fetch(link, index, offset)["error_code"] == STORAGE_ERROR
        for timestamp in (-1, -2, 0):
            assert list_offsets(link, index, timestamp)["error_code"] == STORAGE_ERROR
        assert produce(link, index, b"new") == STORAGE_ERROR
        other = 1 - index
        assert fetch(link, other, DELETED)["error_code"] == produce(link, other, b"new") == NONE
        server.terminate()
    assert content(server.data_dir / named) == before
    assert problems(server.data_dir, capsys) == found


@pytest.mark.parametrize("damage", LOSES_NOTHING.values(), ids=LOSES_NOTHING)
def test_a_missing_file_whose_content_follows_from_the_logs_is_no_damage(server, capsys, damage):
    damage(server.data_dir)
    assert problems(server.data_dir, capsys) == []
    with server, Connection(server.bootstrap) as link:
        check_complete(link)
        server.terminate()
    assert problems(server.data_dir, capsys) == []


def check_complete(link: Connection) -> None:
    """Every group has its last offset and every record is there."""
    for number in range(GROUPS):
        topics = [{"name": "orders", "partition_indexes": [0]}]
        answer = link.call("OffsetFetch", 5, group_id=f"g-{number}", topics=topics)
        assert answer["topics"][0]["partitions"][0]["committed_offset"] == 4 * GROUPS + number
    assert [list_offsets(link, 0, which)["offset"] for which in (-2, -1)] == [0, LARGE_RECORDS]
    assert [list_offsets(link, 1, which)["offset"] for which in (-2, -1)] == [DELETED, SMALL_RECORDS]


def fetch(link: Connection, partition: int, offset: int) -> dict:
    asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "orders", "partitions": [asked]}]
    return link.call("Fetch", 11, max_bytes=1 << 20, max_wait_ms=0, topics=topics)["responses"][0]["partitions"][0]


def list_offsets(link: Connection, partition: int, timestamp: int) -> dict:
    asked = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": -1}
    topics = [{"name": "orders", "partitions": [asked]}]
    return link.call("ListOffsets", 5, topics=topics)["topics"][0]["partitions"][0]


# --- repair -----------------------------------------------------------------------------------------------------------


SERVED_AFTER_REPAIR = {
    "offsets segment missing in the middle", "offsets folder of the other shard", "copy beside the last offsets segment",
    "bit rot in an offsets segment", "transactions missing", "metadata folder gone", "cluster id gone", "first byte",
    "small folder emptied", "start of the log forgotten",
}  # fmt: skip
"""For the other kinds of damage, `log check` of the repaired folder has to do."""


def repair(folder: Path, capsys, *options: str) -> tuple[int, dict]:
    capsys.readouterr()
    code = cli.main(["log", "repair", str(folder), "--json", *options])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("kind", STOPS | TAKES_OFFLINE)
def test_a_repair_shows_its_plan_then_saves_the_rest_and_keeps_what_it_replaces(server, capsys, kind):
    damage, named = (STOPS | TAKES_OFFLINE)[kind]
    data = server.data_dir
    damage(data)
    before = content(data)
    code, plan = repair(data, capsys)
    assert code == 1
    assert any(f"/{named}" in problem["file"] for each in [plan, *plan["logs"]] for problem in each["problems"])
    assert not plan["executed"]
    assert content(data) == before, "a plan changes nothing"
    code, done = repair(data, capsys, "--execute")
    assert code == 0
    assert done == plan | {"executed": True, "replaced_files": done["replaced_files"]}
    kept, after = content(Path(done["replaced_files"])), content(data)
    assert all(kept[name] == before[name] for name in before if after.get(name) != before[name]), (
        "all that changed is kept"
    )
    assert problems(data, capsys) == []
    assert repair(data, capsys)[0] == 0
    if kind not in SERVED_AFTER_REPAIR:
        return
    lost = {Path(log["folder"]).name: sum(end - first for first, end in log["lost_offsets"]) for log in plan["logs"]}
    with server, Connection(server.bootstrap) as link:
        check_saved(link, lost)
        server.terminate()
    assert problems(data, capsys) == []


def check_saved(link: Connection, lost: dict[str, int]) -> None:
    """Everything that is not reported as lost is there, and every log takes records at its old end."""
    for partition, first, end in ((0, 0, LARGE_RECORDS), (1, DELETED, SMALL_RECORDS)):
        assert list_offsets(link, partition, -1)["offset"] == end
        start = list_offsets(link, partition, -2)["offset"]
        found = set()
        offset = start
        while offset < end:
            batches = fetch(link, partition, offset)["records"]
            if not batches:
                break
            found |= {batch.base_offset for batch in read_batches(batches)}
            offset = max(found) + 1
        assert len(found) == end - first - lost.get(f"orders-{partition}", 0)
        assert produce(link, partition, b"new") == NONE
    offsets = []
    for number in range(GROUPS):
        topics = [{"name": "orders", "partition_indexes": [0]}]
        answer = link.call("OffsetFetch", 5, group_id=f"g-{number}", topics=topics)
        offsets.append(answer["topics"][0]["partitions"][0]["committed_offset"] == 4 * GROUPS + number)
    assert offsets.count(False) <= lost.get(OFFSETS, 0)
