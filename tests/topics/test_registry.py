"""The registry of topics: creation and deletion are atomic and survive crashes."""

from errno import EIO

import pytest

from coordinator.journal.journal import WRITE_BEHIND_MS
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import LogSettings
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AccessControlEntryRecord,
    ConfigRecord,
    PartitionRecord,
    RemoveAccessControlEntryRecord,
    TopicRecord,
)
from coordinator.topics import metadata_records
from coordinator_lab.simulation.disk import PowerCut
from tests.topics.data_plane import FOLDER, DataPlane, batch


def test_a_topic_survives_a_restart_with_its_id_partitions_and_settings():
    plane = DataPlane()
    made = plane.create("t", 3, {"retention.ms": "1000"})
    plane.killed()
    topic = plane.topics.registry.topics["t"]
    assert (topic.topic_id, topic.partitions, dict(topic.configs)) == (made.topic_id, 3, {"retention.ms": "1000"})
    assert plane.topics.topic_name(made.topic_id) == "t"
    assert plane.topics.partition_count("t") == 3


def test_a_topic_is_invisible_until_it_is_durable():
    plane = DataPlane(late=True)
    assert plane.create("t") is None
    assert plane.topics.topic_id("t") is None
    plane.sync()
    assert plane.topics.topic_id("t") is not None


def test_a_topic_that_is_being_created_cannot_be_created_again():
    plane = DataPlane(late=True)
    plane.create("a.b")
    assert plane.create("a.b").error_code == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("cut_at", range(1, 12))
def test_a_power_cut_during_a_creation_leaves_all_partitions_or_none(cut_at):
    plane = DataPlane()
    plane.create("before")
    plane.disk.cut_after(cut_at)
    try:
        answer = plane.create("t", 5)
    except PowerCut:
        answer = None
    acknowledged = answer is not None and answer.error_code == ErrorCode.NONE
    plane.crashed(seed=cut_at)
    count = plane.topics.partition_count("t")
    assert count in ({5} if acknowledged else {None, 5})
    assert plane.topics.partition_count("before") == 1


def test_the_metadata_log_is_kafkas():
    plane = DataPlane()
    made = plane.create("t", 2, {"retention.ms": "1000"})
    plane.advance(WRITE_BEHIND_MS)
    log = JournaledLog.open(plane.disk, f"{FOLDER}/__cluster_metadata-0", LogSettings())
    ((*values,),) = log.replay_batches()
    assert [metadata_records.decode(value) for _, value in values] == [
        TopicRecord(name="t", topic_id=made.topic_id),
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1000"),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=made.topic_id,
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[bytes(16)],
            )
            for index in range(2)
        ),
    ]
    assert values[0][1][:3] == bytes((1, 2, 0)), "frame version, record type, record version"


def test_records_of_other_types_are_skipped():
    assert metadata_records.decode(bytes((1, 17, 0)) + b"whatever a broker's registration holds") is None


def test_a_deleted_topic_is_gone_with_its_records_and_stays_gone():
    plane = DataPlane()
    made = plane.create("t")
    plane.produce(batch())
    assert plane.disk.exists(f"{FOLDER}/t-0")
    assert plane.delete("t").error_code == ErrorCode.NONE
    assert not plane.disk.exists(f"{FOLDER}/t-0")
    assert plane.deleted == [("t", made.topic_id)]
    plane.killed()
    assert plane.topics.topic_id("t") is None


def test_a_topic_created_again_has_another_id_and_is_empty():
    plane = DataPlane()
    first = plane.create("t")
    plane.produce(batch(b"old"))
    plane.delete("t")
    second = plane.create("t")
    assert second.topic_id != first.topic_id
    assert plane.produce(batch(b"new")).base_offset == 0


@pytest.mark.parametrize("cut_at", range(1, 16))
def test_a_power_cut_during_a_deletion_never_gives_old_records_to_a_new_topic(cut_at):
    plane = DataPlane()
    plane.create("t", 2)
    plane.produce(batch(b"old"))
    plane.disk.cut_after(cut_at)
    try:
        answer = plane.delete("t")
    except PowerCut:
        answer = None
    plane.crashed(seed=cut_at)
    if plane.topics.topic_id("t") is None:
        assert not plane.disk.exists(f"{FOLDER}/t-0"), "the start sweeps what the deletion left"
        plane.create("t")
        assert plane.produce(batch(b"new")).base_offset == 0
    else:
        assert answer is None, "an acknowledged deletion is not taken back"
        assert plane.fetch("t").high_watermark == 1


def test_a_deletion_waits_for_the_disk_work_of_its_partitions():
    plane = DataPlane(late=True)
    plane.create("t")
    plane.sync()
    plane.produce(batch())
    assert plane.delete("t") is None
    (written, deletion), plane.jobs = plane.jobs, []
    plane.jobs = [deletion]
    plane.sync()
    assert plane.create("t").error_code == ErrorCode.TOPIC_ALREADY_EXISTS, "the name is taken until the folder is gone"
    plane.jobs = [written]
    plane.sync()
    plane.advance(10)
    assert not plane.disk.exists(f"{FOLDER}/t-0")
    assert plane.create("t") is None
    plane.sync()
    assert plane.topics.topic_id("t") is not None


def test_folders_of_no_topic_are_reported_and_left_alone():
    plane = DataPlane()
    plane.disk.make_folder(f"{FOLDER}/somebody-0")
    plane.killed()
    assert plane.disk.exists(f"{FOLDER}/somebody-0")
    assert [fact.name for fact in plane.facts] == ["folder_of_no_topic"]


def test_a_full_disk_refuses_a_topic_and_takes_the_next_when_there_is_space():
    plane = DataPlane()
    plane.create("a")
    assert not plane.topics.metadata.problem
    plane.fill_disk()
    assert plane.create("b").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "full" in plane.topics.metadata.problem
    plane.disk.capacity_bytes = None
    assert not plane.topics.metadata.problem
    assert plane.create("b").error_code == ErrorCode.NONE
    plane.killed()
    assert set(plane.topics.registry.topics) == {"a", "b", "the-disk-is-full"}


def test_after_a_failed_sync_the_registry_takes_no_more():
    plane = DataPlane()
    plane.create("a")
    plane.disk.sync_errors.append(EIO)
    assert plane.create("b").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert plane.create("c").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert plane.topics.topic_id("b") is None
    assert "restart" in plane.topics.metadata.problem


def test_declared_topics_are_created_once():
    plane = DataPlane()
    assert plane.topics.declare("t", 2, {"cleanup.policy": "compact"})
    topic_id = plane.topics.topic_id("t")
    plane.killed()
    assert not plane.topics.declare("t", 7, {})
    assert (plane.topics.topic_id("t"), plane.topics.partition_count("t")) == (topic_id, 2)


def test_no_producer_id_is_allocated_twice():
    plane = DataPlane(producer_id_block_size=3)
    ids = [plane.producer_id() for _ in range(5)]
    plane.killed()
    ids += [plane.producer_id() for _ in range(2)]
    assert ids == [0, 1, 2, 3, 4, 6, 7], "the rest of a block is lost with the process"


def test_producer_ids_wait_for_their_block_to_be_durable():
    plane = DataPlane(late=True, producer_id_block_size=3)
    given = []
    for _ in range(4):
        plane.topics.next_producer_id(lambda error, producer_id: given.append(producer_id))
    assert given == []
    plane.sync()
    assert given == [0, 1, 2, 3]


def test_the_groups_log_is_an_internal_topic_that_keeps_its_id():
    plane = DataPlane()
    logs = [JournaledLog.open(plane.disk, f"{FOLDER}/__consumer_offsets-{index}", LogSettings()) for index in range(2)]
    plane.topics.attach_internal("__consumer_offsets", logs)
    topic = plane.topics.registry.topics["__consumer_offsets"]
    assert topic.is_internal
    plane.killed()
    plane.topics.attach_internal("__consumer_offsets", logs)
    assert plane.topics.registry.topics["__consumer_offsets"] == topic
    assert plane.delete("__consumer_offsets").error_code == ErrorCode.INVALID_REQUEST


def acl_record(acl_id):
    return AccessControlEntryRecord(acl_id.ljust(16), 2, "orders", 3, "User:alice", "*", 3, 2)


def came_and_went(monkeypatch, superfluous=20):
    """A data plane whose metadata log has many obsolete records."""
    monkeypatch.setattr("coordinator.topics.metadata_log.RECORDS_SUPERFLUOUS", superfluous)
    plane = DataPlane()
    plane.create("stays", 3, {"retention.ms": "5"})
    plane.produce(batch(b"kept"), topic="stays")
    plane.producer_id()
    commit = plane.topics.metadata.commit
    commit(
        [acl_record(b"kept"), acl_record(b"gone"), RemoveAccessControlEntryRecord(b"gone".ljust(16))], lambda _: None
    )
    for _ in range(10):
        plane.create("goes", 2)
        plane.delete("goes")
    return plane


def described(plane):
    registry = plane.topics.registry
    assert list(registry.acls) == [b"kept".ljust(16)]
    return dict(registry.topics), registry.next_producer_id, registry.collisions, dict(registry.acls)


def test_a_start_compacts_the_history_of_topics(monkeypatch):
    plane = came_and_went(monkeypatch)
    before, size = described(plane), plane.topics.metadata.size_bytes
    plane.killed()
    assert plane.topics.metadata.size_bytes < size / 2
    assert described(plane) == before
    assert plane.fetch("stays").high_watermark == 1
    assert plane.facts[-1].name == "metadata_log_compacted"
    plane.killed()
    assert described(plane) == before
    assert plane.create("goes").error_code == ErrorCode.NONE
    plane.crashed()
    assert {"goes", "stays"} == set(plane.topics.registry.topics)


@pytest.mark.parametrize("cut_at", range(1, 25))
def test_a_power_cut_while_the_metadata_log_is_rewritten_changes_nothing(monkeypatch, cut_at):
    plane = came_and_went(monkeypatch)
    before = described(plane)
    plane.disk.kill()
    plane.disk.cut_after(cut_at)
    try:
        plane.open()
    except PowerCut:
        plane.crashed(seed=cut_at)
    assert described(plane) == before
    plane.killed()
    assert described(plane) == before


def test_a_full_disk_leaves_the_metadata_log_as_it_was(monkeypatch):
    plane = came_and_went(monkeypatch)
    before = described(plane)
    plane.disk.capacity_bytes = plane.disk.used_bytes() + 100
    plane.killed()
    assert described(plane) == before
    assert plane.facts[-1].name == "metadata_log_not_compacted"
    plane.disk.capacity_bytes = None
    plane.killed()
    assert described(plane) == before
    assert plane.facts[-1].name == "metadata_log_compacted"
