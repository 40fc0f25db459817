"""Topics that applications need are made once for all who want them; what failed is told, and not tried again for a while."""

from coordinator.topics import auto_creation
from coordinator.topics.auto_creation import Creatable, WantedTopics
from tests.topics.data_plane import DataPlane

KEEP_MS = 10_000


def creatable(name, replication_factor=-1):
    return Creatable(name=name, num_partitions=2, replication_factor=replication_factor)


def made(plane):
    return sorted(plane.topics.registry.topics)


def test_what_is_wanted_is_made():
    plane = DataPlane()
    wanted = WantedTopics(plane.topics, plane.clock.monotonic_ms)
    wanted.make([creatable("a"), creatable("b")], KEEP_MS)
    assert made(plane) == ["a", "b"]
    assert plane.topics.registry.topics["a"].partitions == 2
    assert wanted.failures(["a", "b"]) == {}


def test_what_is_being_made_is_not_asked_for_again():
    plane = DataPlane(late=True)
    wanted = WantedTopics(plane.topics, plane.clock.monotonic_ms)
    wanted.make([creatable("a")], KEEP_MS)
    wanted.make([creatable("a"), creatable("b")], KEEP_MS)
    plane.sync()
    assert made(plane) == ["a", "b"]
    assert wanted.failures(["a", "b"]) == {}


def test_a_topic_that_was_made_and_deleted_can_be_made_again():
    plane = DataPlane()
    wanted = WantedTopics(plane.topics, plane.clock.monotonic_ms)
    wanted.make([creatable("a")], KEEP_MS)
    plane.delete("a")
    wanted.make([creatable("a")], KEEP_MS)
    assert made(plane) == ["a"]


def test_a_failure_is_told_and_stands_in_nobody_elses_way():
    plane = DataPlane()
    wanted = WantedTopics(plane.topics, plane.clock.monotonic_ms)
    wanted.make([creatable("a", replication_factor=3), creatable("b")], KEEP_MS)
    assert made(plane) == ["b"]
    failures = wanted.failures(["a", "b", "c"])
    assert list(failures) == ["a"]
    assert "replication factor of 3" in failures["a"]


def test_a_failure_is_not_tried_again_until_it_is_forgotten():
    plane = DataPlane()
    wanted = WantedTopics(plane.topics, plane.clock.monotonic_ms)
    wanted.make([creatable("a", replication_factor=3)], KEEP_MS)
    wanted.make([creatable("a")], KEEP_MS)
    assert made(plane) == []
    plane.clock.advance(KEEP_MS)
    assert wanted.failures(["a"]) == {}
    wanted.make([creatable("a")], KEEP_MS)
    assert made(plane) == ["a"]


def test_only_so_many_failures_are_kept(monkeypatch):
    monkeypatch.setattr(auto_creation, "FAILURES_MAX", 2)
    plane = DataPlane()
    wanted = WantedTopics(plane.topics, plane.clock.monotonic_ms)
    for name in "abc":
        wanted.make([creatable(name, replication_factor=3)], KEEP_MS)
        plane.clock.advance(1)
    assert list(wanted.failures("abc")) == ["b", "c"]
