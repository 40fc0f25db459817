"""CreateTopics and DeleteTopics: every topic is validated by itself, with the error codes and messages of Kafka 4.4."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from coordinator.topics.create import create_topics
from coordinator.topics.create_partitions import create_partitions
from coordinator.topics.delete import delete_topics
from coordinator.topics.registry import NO_ID
from tests.topics.data_plane import FOLDER, DataPlane, batch

Assignment = CreateTopicsRequest.CreatableReplicaAssignment
State = DeleteTopicsRequest.DeleteTopicState


def judged(result):
    return ErrorCode(result.error_code).name, result.error_message


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("é", "'é' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
    ],
)
def test_illegal_names(name, reason):
    assert judged(DataPlane().create(name)) == ("INVALID_TOPIC_EXCEPTION", f"Topic name is invalid: {reason}")


def test_the_longest_legal_name():
    assert DataPlane().create("x" * 249).error_code == ErrorCode.NONE


THROTTLED = (
    "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: "
    "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("nope", "1", "Unknown topic config name: nope"),
        ("retention.ms", "x", "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("retention.ms", None, "Null value not supported for topic configs: retention.ms"),
        (
            "cleanup.policy",
            "zap",
            "Invalid value zap for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("segment.bytes", "10", "Invalid value 10 for configuration segment.bytes: Value must be at least 1048576"),
        (
            "min.cleanable.dirty.ratio",
            "2",
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "preallocate",
            "x",
            "Invalid value x for configuration preallocate: Expected value to be either true or false",
        ),
        (
            "leader.replication.throttled.replicas",
            "0:1,x",
            "Invalid value [0:1,x] for configuration leader.replication.throttled.replicas: " + THROTTLED,
        ),
    ],
)
def test_settings_out_of_range(key, value, message):
    assert judged(DataPlane().create("t", configs={key: value})) == ("INVALID_CONFIG", message)


@pytest.mark.parametrize("key", ["max.message.bytes", "retention.bytes"])
def test_a_number_longer_than_its_type_is_no_number(key):
    assert DataPlane().create("t", configs={key: "9" * 30}).error_code == ErrorCode.INVALID_CONFIG


def test_partitions_and_replicas_have_defaults_and_bounds():
    plane = DataPlane(num_partitions=7, topic_partitions_max=10)
    made = plane.create("default", -1, replication_factor=-1)
    assert (made.num_partitions, made.replication_factor) == (7, 1)
    assert judged(plane.create("none", 0))[0] == "INVALID_PARTITIONS"
    assert judged(plane.create("copies", 1, replication_factor=2))[0] == "INVALID_REPLICATION_FACTOR"
    assert judged(plane.create("zero", 1, replication_factor=0))[0] == "INVALID_REPLICATION_FACTOR"
    assert plane.create("most", 10).error_code == ErrorCode.NONE
    assert judged(plane.create("more", 11))[0] == "POLICY_VIOLATION"


def test_manual_assignments_are_to_the_one_node():
    plane = DataPlane()

    def assign(name, *assignments, partitions=-1, replication_factor=-1):
        given = [Assignment(partition_index=index, broker_ids=ids) for index, ids in assignments]
        return plane.create(name, partitions, replication_factor=replication_factor, assignments=given)

    assert assign("t", (0, [1]), (1, [1])).num_partitions == 2
    for wrong in [((0, [1]), (2, [1])), ((1, [1]),), ((0, [7]),), ((0, [1, 1]),), ((0, []),), ((0, [1]), (0, [1]))]:
        assert judged(assign("u", *wrong))[0] == "INVALID_REPLICA_ASSIGNMENT"
    assert judged(assign("u", (0, [1]), partitions=1))[0] == "INVALID_REQUEST"
    assert judged(assign("u", (0, [1]), replication_factor=1))[0] == "INVALID_REQUEST"


def test_existing_and_colliding_names():
    plane = DataPlane()
    plane.create("a.b")
    assert judged(plane.create("a.b")) == ("TOPIC_ALREADY_EXISTS", "Topic 'a.b' already exists.")
    assert judged(plane.create("a_b")) == (
        "INVALID_TOPIC_EXCEPTION",
        "Topic 'a_b' collides with existing topic: a.b",
    )


def test_validate_only_creates_nothing():
    plane = DataPlane()
    checked = plane.create("t", 3, validate_only=True)
    assert (checked.error_code, checked.num_partitions) == (ErrorCode.NONE, 3)
    assert checked.topic_id != NO_ID
    assert plane.topics.topic_id("t") is None


def test_the_response_lists_every_config_with_its_source():
    plane = DataPlane(message_max_bytes=5000)
    settings = {c.name: (c.value, c.config_source) for c in plane.create("t", configs={"retention.ms": "9"}).configs}
    assert settings["retention.ms"] == ("9", 1)
    assert settings["max.message.bytes"] == ("5000", 4)
    assert settings["segment.bytes"] == ("1073741824", 5)
    assert list(settings) == sorted(settings)
    assert len(settings) == 37


def test_a_request_with_one_wrong_topic_makes_the_others():
    plane = DataPlane()
    answers = []
    topics = [CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in "aabc."]
    create_topics(plane.topics, CreateTopicsRequest(topics=topics), answers.append)
    assert {topic.name: ErrorCode(topic.error_code).name for topic in answers[0].topics} == {
        "a": "INVALID_REQUEST",
        "b": "NONE",
        "c": "NONE",
        ".": "INVALID_TOPIC_EXCEPTION",
    }
    assert set(plane.topics.registry.topics) == {"b", "c"}


def delete(plane, *states, version=6):
    answers = []
    delete_topics(plane.topics, DeleteTopicsRequest(topics=list(states)), version, answers.append)
    return [(result.name, judged(result)) for result in answers[0].responses]


def test_deleting_by_name_and_by_id():
    plane = DataPlane()
    by_id = plane.create("a").topic_id
    plane.create("b")
    assert delete(plane, State(topic_id=by_id), State(name="b"), State(name="nope"), State(topic_id=b"x" * 16)) == [
        ("a", ("NONE", None)),
        ("b", ("NONE", None)),
        ("nope", ("UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition.")),
        (None, ("UNKNOWN_TOPIC_ID", "This server does not host this topic ID.")),
    ]


def test_a_topic_named_twice_is_not_deleted():
    plane = DataPlane()
    topic_id = plane.create("a").topic_id
    message = "The provided topic name maps to an ID that was already supplied."
    assert delete(plane, State(topic_id=topic_id), State(name="a")) == [("a", ("INVALID_REQUEST", message))]
    assert delete(plane, State(name="a"), State(name="a")) == [("a", ("INVALID_REQUEST", "Duplicate topic name."))]
    assert delete(plane, State(topic_id=topic_id), State(topic_id=topic_id)) == [
        (None, ("INVALID_REQUEST", "Duplicate topic id."))
    ]
    assert delete(plane, State(name="a", topic_id=topic_id)) == [
        ("a", ("INVALID_REQUEST", "You may not specify both topic name and topic id."))
    ]
    assert delete(plane, State()) == [(None, ("INVALID_REQUEST", "Neither topic name nor id were specified."))]
    assert plane.topics.topic_id("a") == topic_id


# --- topic.visibility.delay.ms ----------------------------------------------------------------------------------------


def test_with_a_delay_a_topic_is_created_at_once_and_visible_later():
    plane = DataPlane(topic_visibility_delay_ms=50)
    assert plane.create("orders", 3).error_code == ErrorCode.NONE
    plane.advance(49)
    assert "orders" not in plane.topics.registry.topics
    assert plane.topics.user_partition("orders", 0) is None
    plane.advance(1)
    assert plane.topics.registry.topics["orders"].partitions == 3
    assert plane.topics.user_partition("orders", 2) is not None


def test_with_a_delay_a_deleted_topic_is_still_there_for_a_moment():
    plane = DataPlane(topic_visibility_delay_ms=50)
    plane.create("orders")
    plane.advance(50)
    assert plane.delete("orders").error_code == ErrorCode.NONE
    assert plane.topics.user_partition("orders", 0) is not None
    assert plane.deleted == []
    plane.advance(50)
    assert plane.topics.user_partition("orders", 0) is None
    assert [name for name, _ in plane.deleted] == ["orders"]


def test_with_a_delay_a_name_is_taken_before_its_topic_is_visible():
    plane = DataPlane(topic_visibility_delay_ms=50)
    plane.create("orders")
    assert plane.create("orders").error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_with_a_delay_a_second_change_waits_for_the_first():
    plane = DataPlane(topic_visibility_delay_ms=50)
    plane.create("orders")
    answers = []
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name="orders", count=4, assignments=None)
    create_partitions(plane.topics, CreatePartitionsRequest(topics=[topic]), answers.append)
    assert answers == []
    plane.advance(50)
    assert answers[0].results[0].error_code == ErrorCode.NONE
    plane.advance(50)
    assert plane.topics.registry.topics["orders"].partitions == 4


def test_a_topic_that_was_created_and_not_visible_yet_survives_a_crash():
    plane = DataPlane(topic_visibility_delay_ms=50)
    plane.create("orders")
    assert "orders" in plane.killed().topics.registry.topics


def test_a_deletion_looks_only_for_folders_of_partitions_that_were_written(monkeypatch):
    """A look for each of thousands of folders would hold up other clients."""
    plane, looked_for = DataPlane(), []
    plane.create("large", 100)
    plane.produce(batch(), topic="large", partition=7)
    exists = plane.disk.exists
    monkeypatch.setattr(plane.disk, "exists", lambda path: looked_for.append(path) or exists(path))
    assert plane.delete("large").error_code == ErrorCode.NONE
    assert [path for path in looked_for if "/large-" in path] == []
    assert [name for name in plane.disk.list(FOLDER) if name.startswith("large-")] == []


def test_the_partitions_of_a_deleted_topic_are_stopped_some_at_a_time():
    plane, works = DataPlane(), []
    plane.create("large", 1_000)
    for index in (7, 8):
        plane.produce(batch(), topic="large", partition=index)
    plane.topics.in_background = works.append
    assert plane.delete("large") is None, "under way"
    assert "large" not in plane.topics.registry.topics
    assert judged(plane.create("large"))[0] == "TOPIC_ALREADY_EXISTS", "its folders are still there"
    (work,) = works
    pieces = sum(1 for _ in work)
    assert pieces >= 7, "some for partitions that were never written, and one for each folder"
    assert [name for name, _ in plane.deleted] == ["large"]
    assert [name for name in plane.disk.list(FOLDER) if name.startswith("large-")] == []
    assert plane.create("large").error_code == ErrorCode.NONE
