"""The data folder belongs to one process and has one cluster id."""

import pytest

from coordinator.server import CannotStart
from coordinator.server.data_folder import cluster_id, lock, make_shard_folders
from coordinator.world.disk import RealDisk


class Entropy:
    """Gives the bytes of a list, one after the other."""

    def __init__(self, *values: bytes) -> None:
        self.values = list(values)

    def bytes(self, count):
        value = self.values.pop(0)
        assert len(value) == count
        return value

    def uuid(self):
        raise AssertionError


def test_a_cluster_id_is_chosen_once_and_kept(tmp_path):
    chosen = cluster_id(RealDisk(), str(tmp_path), Entropy(bytes(range(16))))
    assert chosen == "AAECAwQFBgcICQoLDA0ODw"
    assert cluster_id(RealDisk(), str(tmp_path), Entropy()) == chosen


def test_a_cluster_id_does_not_begin_with_a_dash(tmp_path):
    """On a command line it would read as an option; Kafka avoids it too."""
    chosen = cluster_id(RealDisk(), str(tmp_path), Entropy(b"\xf8" + bytes(15), bytes(16)))
    assert chosen == "A" * 22


def test_the_cluster_id_of_kafka_is_taken_over(tmp_path):
    (tmp_path / "meta.properties").write_text(
        "#\n#Sun Nov 22\ncluster.id=x1yZ2nQGS_mE4bIq5yQZ0A\nnode.id=1\nversion=1\n"
    )
    assert cluster_id(RealDisk(), str(tmp_path), Entropy()) == "x1yZ2nQGS_mE4bIq5yQZ0A"


def test_a_file_without_a_cluster_id_blocks_the_start(tmp_path):
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=\n")
    with pytest.raises(CannotStart, match=r"has no cluster\.id"):
        cluster_id(RealDisk(), str(tmp_path), Entropy())


def test_a_data_folder_is_locked_until_its_server_stops(tmp_path):
    folder = str(tmp_path / "new" / "data")
    with lock(folder), pytest.raises(CannotStart, match="in use by another server"):
        lock(folder)
    lock(folder).close()


def test_a_data_folder_that_cannot_be_made_blocks_the_start(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotStart, match="cannot be used"):
        lock(str(tmp_path / "file" / "data"))


def test_the_folder_of_an_event_log_may_fail_and_the_others_are_made(tmp_path):
    class Disk(RealDisk):
        def make_folder(self, path):
            if "events" in path:
                raise OSError("no room")
            super().make_folder(path)

    make_shard_folders(Disk(), str(tmp_path), [("__consumer_offsets", 2), ("__transaction_state", 1)], [("events", 1)])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "__consumer_offsets-0",
        "__consumer_offsets-1",
        "__transaction_state-0",
    ]
