"""`coordinator log repair`: a plan that changes nothing, its execution, and what it refuses."""

import json
import shutil
from pathlib import Path

import pytest

from coordinator import cli
from coordinator.log.batch import LogRecord
from coordinator.log.batch_builder import encode_batch, seal
from coordinator.log.catalog import Catalog, KnownLog
from coordinator.log.catalog import write as write_catalog
from coordinator.log.checkpoint import parse
from coordinator.operations.known_logs import registry_of
from coordinator.operations.repair import PRODUCER_IDS_SKIPPED
from coordinator.server.data_folder import lock
from coordinator.topics import metadata_records
from coordinator.topics.placements import on_one
from coordinator.topics.registry import Topic, creation
from coordinator.world.disk import RealDisk
from tests.operations.logs import checkpoint, commit, content, run, text, write

LOG = "__consumer_offsets-0"


def damaged(data: Path) -> Path:
    """A data folder with an offsets log whose second of three batches is damaged."""
    batches = [
        encode_batch([commit(0, "a")]),
        encode_batch([commit(1, "b"), commit(2, "b")]),
        encode_batch([commit(3, "c")]),
    ]
    batches[1] = batches[1][:-1] + b"\xff"
    path = write(data / LOG, *batches)
    checkpoint(data / LOG, 4)
    return path


def test_the_plan_names_the_damage_what_is_done_and_what_is_lost_and_changes_nothing(tmp_path, capsys):
    path = damaged(tmp_path / "data")
    before = content(tmp_path)
    code, out, err = run(capsys, "repair", tmp_path / "data")
    assert (code, err) == (1, "")
    assert content(tmp_path) == before
    lines = out.splitlines()
    assert lines[0].startswith(f"{path}: damage at position ")
    size, dropped = path.stat().st_size, len(encode_batch([commit(1, "b"), commit(2, "b")]))
    assert f"  to do: drop {dropped} of {size} bytes of {path.name}, and keep 2 batches" in lines
    assert "  lost: offsets 1 to 2, up to 2 records" in lines
    assert "  lost: perhaps the latest state of 2 groups: 'a', 'c'" in lines
    assert lines[-2].endswith(f"coordinator log repair {tmp_path / 'data'} --execute")
    assert "segment-list" in lines[-1]  # another server may have written to the folder


def test_a_repair_keeps_every_intact_batch_and_the_replaced_files(tmp_path, capsys):
    data = tmp_path / "data"
    path = damaged(data)
    before = {file: file.read_bytes() for file in (data / LOG).iterdir()}
    code, out, _ = run(capsys, "repair", data, "--execute")
    assert code == 0
    assert path.read_bytes() == encode_batch([commit(0, "a")]) + encode_batch([commit(3, "c")])
    (kept,) = (folder for folder in tmp_path.iterdir() if folder != data)
    assert out.splitlines()[-1] == f"repaired; what was replaced is in {kept}"
    assert {data / LOG / file.name: file.read_bytes() for file in (kept / LOG).iterdir()} == before
    offsets = parse((data / LOG / "log-checkpoint").read_bytes())
    assert (offsets.start_offset, offsets.recovery_offset, offsets.dense_offset) == (0, 4, 4)
    assert run(capsys, "check", data)[0] == 0
    assert run(capsys, "repair", data)[:2] == (0, "nothing to repair\n")


def test_a_log_that_lost_its_end_continues_where_it_was(tmp_path, capsys):
    folder = tmp_path / "orders-0"
    write(folder, encode_batch([text(0)]))
    checkpoint(folder, 7)
    code, out, _ = run(capsys, "repair", tmp_path, "--execute", "--json")
    assert code == 0
    (log,) = json.loads(out)["logs"]
    assert (log["lost_offsets"], log["next_offset"]) == ([[1, 7]], 7)
    assert sorted(path.name for path in folder.glob("*.log")) == [f"{0:020d}.log", f"{7:020d}.log"]
    shutil.rmtree(Path(json.loads(out)["replaced_files"]))


def test_a_batch_with_a_record_that_cannot_be_decoded_is_dropped(tmp_path, capsys):
    broken = commit(1)._replace(value=b"\0\3\0")
    path = write(tmp_path / "data" / LOG, encode_batch([commit(0)]), encode_batch([broken]))
    assert run(capsys, "repair", tmp_path / "data", "--execute")[0] == 0
    assert path.read_bytes() == encode_batch([commit(0)])


def test_records_of_users_are_kept_whatever_they_are(tmp_path, capsys):
    """The server serves such a batch; `log check` reports it."""
    batch = encode_batch([text(0)])
    write(tmp_path / "orders-0", seal(0, 0, batch[21:57] + (9).to_bytes(4), [batch[61:]]))
    assert run(capsys, "check", tmp_path)[0] == 1
    assert run(capsys, "repair", tmp_path)[:2] == (0, "nothing to repair\n")


def test_a_torn_tail_is_left_to_the_next_start(tmp_path, capsys):
    write(tmp_path / LOG, encode_batch([commit(0)]), encode_batch([commit(1)])[:-3])
    assert run(capsys, "repair", tmp_path)[:2] == (0, "nothing to repair\n")


def test_topics_that_the_metadata_log_lost_are_restored_from_the_catalog(tmp_path, capsys):
    data = tmp_path / "data"
    topics = [Topic("kept", b"k" * 16, 1), Topic("orders", b"o" * 16, 3)]
    batches = [metadata(0, list(creation(topics[0], on_one(1)))), metadata(2, list(creation(topics[1], on_one(1))))]
    write(data / "__cluster_metadata-0", batches[0], batches[1][:-1] + b"\xff")
    checkpoint(data / "__cluster_metadata-0", 6)
    entries = [("kept-0", "k"), ("orders-0", "o"), ("orders-2", "o")]
    catalog = Catalog("c", {name: KnownLog(name, (each * 16).encode().hex(), -1, 1, 0, -1) for name, each in entries})
    write_catalog(RealDisk(), str(data), catalog)
    (data / "meta.properties").write_text("version=1\ncluster.id=c\n")
    for name, _ in entries:
        write(data / name, encode_batch([text(0)]))
    code, out, _ = run(capsys, "repair", data)
    assert code == 1
    assert "  to do: restore the topic orders with 3 partitions; its settings are lost" in out.splitlines()
    assert run(capsys, "repair", data, "--execute")[0] == 0
    registry = registry_of(data)
    assert {topic.name: (topic.topic_id, topic.partitions) for topic in registry.topics.values()} == {
        "kept": (b"k" * 16, 1), "orders": (b"o" * 16, 3),
    }  # fmt: skip
    assert registry.next_producer_id == PRODUCER_IDS_SKIPPED
    assert run(capsys, "check", data)[0] == 0


def metadata(offset, messages):
    records = [LogRecord(offset + at, 0, None, metadata_records.encode(each)) for at, each in enumerate(messages)]
    return encode_batch(records)


def test_a_folder_in_use_is_not_repaired(tmp_path, capsys):
    damaged(tmp_path)
    with lock(str(tmp_path)):
        before = content(tmp_path / LOG)
        code, out, err = run(capsys, "repair", tmp_path, "--execute")
        assert (code, out) == (1, "")
        assert "is in use by another server" in err
        assert content(tmp_path / LOG) == before


@pytest.mark.parametrize("options", [[], ["--execute"]])
def test_only_a_data_folder_is_repaired(tmp_path, capsys, options):
    folder = damaged(tmp_path).parent
    for path in (folder, tmp_path / "missing"):
        code, out, err = run(capsys, "repair", path, *options)
        assert (code, out) == (2, "")
        assert str(path) in err
    assert cli.main(["log", "check", str(folder)]) == 1
