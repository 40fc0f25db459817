"""Internal topics are created once for all who request them; a failure is reported and not retried for a while."""

from functools import partial

from coordinator.topics.auto_creation import AutoTopicCreation, Creatable
from coordinator.topics.create import create_topics
from tests.topics.data_plane import DataPlane

KEEP_MS = 10_000


def creatable(name, replication_factor=-1):
    return Creatable(name=name, num_partitions=2, replication_factor=replication_factor)


def created(plane):
    return sorted(plane.topics.registry.topics)


def test_requested_topics_are_created():
    plane = DataPlane()
    auto_creation = AutoTopicCreation(partial(create_topics, plane.topics), plane.clock.monotonic_ms)
    auto_creation.create([creatable("a"), creatable("b")], KEEP_MS)
    assert created(plane) == ["a", "b"]
    assert plane.topics.registry.topics["a"].partitions == 2
    assert auto_creation.failures(["a", "b"]) == {}


def test_a_topic_in_progress_is_not_created_twice():
    plane = DataPlane(late=True)
    auto_creation = AutoTopicCreation(partial(create_topics, plane.topics), plane.clock.monotonic_ms)
    auto_creation.create([creatable("a")], KEEP_MS)
    auto_creation.create([creatable("a"), creatable("b")], KEEP_MS)
    plane.sync()
    assert created(plane) == ["a", "b"]
    assert auto_creation.failures(["a", "b"]) == {}


def test_a_topic_can_be_created_again_after_its_deletion():
    plane = DataPlane()
    auto_creation = AutoTopicCreation(partial(create_topics, plane.topics), plane.clock.monotonic_ms)
    auto_creation.create([creatable("a")], KEEP_MS)
    plane.delete("a")
    auto_creation.create([creatable("a")], KEEP_MS)
    assert created(plane) == ["a"]


def test_a_failure_is_reported_and_does_not_affect_other_topics():
    plane = DataPlane()
    auto_creation = AutoTopicCreation(partial(create_topics, plane.topics), plane.clock.monotonic_ms)
    auto_creation.create([creatable("a", replication_factor=3), creatable("b")], KEEP_MS)
    assert created(plane) == ["b"]
    failures = auto_creation.failures(["a", "b", "c"])
    assert list(failures) == ["a"]
    assert "replication factor of 3" in failures["a"]


def test_a_failed_topic_is_not_retried_until_the_failure_expires():
    plane = DataPlane()
    auto_creation = AutoTopicCreation(partial(create_topics, plane.topics), plane.clock.monotonic_ms)
    auto_creation.create([creatable("a", replication_factor=3)], KEEP_MS)
    auto_creation.create([creatable("a")], KEEP_MS)
    assert created(plane) == []
    plane.clock.advance(KEEP_MS)
    assert auto_creation.failures(["a"]) == {}
    auto_creation.create([creatable("a")], KEEP_MS)
    assert created(plane) == ["a"]


def test_the_number_of_remembered_failures_is_bounded(monkeypatch):
    monkeypatch.setattr("coordinator.topics.auto_creation.FAILURES_MAX", 2)
    plane = DataPlane()
    auto_creation = AutoTopicCreation(partial(create_topics, plane.topics), plane.clock.monotonic_ms)
    for name in "abc":
        auto_creation.create([creatable(name, replication_factor=3)], KEEP_MS)
        plane.clock.advance(1)
    assert list(auto_creation.failures("abc")) == ["b", "c"]
