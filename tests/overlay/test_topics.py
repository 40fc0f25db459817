"""The registry follows the cluster, and deletes only what is certainly gone."""

from coordinator.overlay.topics import UNKNOWN_MAX, TopicFollower
from coordinator.protocol.messages import MetadataResponse
from tests.topics.data_plane import DataPlane

_Topic = MetadataResponse.MetadataResponseTopic
_Partition = MetadataResponse.MetadataResponsePartition
OLD, NEW = bytes([1] * 16), bytes([2] * 16)


class Followed:
    """A follower and the registry that it changes."""

    def __init__(self) -> None:
        self.plane = DataPlane()
        self.follower = TopicFollower(self.plane.topics)
        self.plane.topics.on_topics_deleted = self.deleted
        self.deletions: list[bytes] = []

    def deleted(self, topics: list[tuple[str, bytes]]) -> None:
        for _, topic_id in topics:
            self.deletions.append(topic_id)
            self.follower.forget(topic_id)

    def see(self, *listed: tuple[str, bytes, int], unknown: tuple[bytes, ...] = ()) -> dict[str, tuple[bytes, int]]:
        """A look-up; returns the topics of the registry."""
        topics = [
            _Topic(name=name, topic_id=topic_id, partitions=[_Partition(partition_index=n) for n in range(count)])
            for name, topic_id, count in listed
        ]
        done: list[bool] = []
        self.follower.follow(MetadataResponse(topics=topics), unknown, lambda: done.append(True))
        self.plane.sync()
        assert done == [True]
        return {topic.name: (topic.topic_id, topic.partitions) for topic in self.plane.topics.registry.topics.values()}


def test_topics_are_created_and_grow_as_on_the_cluster() -> None:
    followed = Followed()
    assert followed.see(("t", OLD, 2)) == {"t": (OLD, 2)}
    assert followed.see(("t", OLD, 5), ("u", NEW, 1)) == {"t": (OLD, 5), "u": (NEW, 1)}
    assert followed.see(("t", OLD, 3), ("u", NEW, 1))["t"] == (OLD, 5), "a list that is out of date shrinks nothing"


def test_a_topic_is_deleted_when_brokers_do_not_know_it_again_and_again() -> None:
    """A list without it is not enough: the account may not see it any more."""
    followed = Followed()
    followed.see(("t", OLD, 1))
    for _ in range(5):
        assert "t" in followed.see()
    for _ in range(UNKNOWN_MAX - 1):
        assert "t" in followed.see(unknown=(OLD,))
    assert "t" in followed.see(("t", OLD, 1)), "a broker knows it: the count begins again"
    for _ in range(UNKNOWN_MAX - 1):
        assert "t" in followed.see(unknown=(OLD,))
    assert "t" not in followed.see(unknown=(OLD,))
    assert followed.deletions == [OLD]


def test_a_name_with_another_id_is_another_topic_and_the_old_id_never_comes_back() -> None:
    followed = Followed()
    followed.see(("t", OLD, 1))
    followed.see(("t", NEW, 2))
    assert followed.deletions == [OLD]
    assert followed.see(("t", NEW, 2)) == {"t": (NEW, 2)}
    assert followed.see(("t", OLD, 1)) == {"t": (NEW, 2)}, "a broker that lags behind still lists the old one"


def test_topics_of_another_cluster_are_recognized() -> None:
    followed = Followed()
    assert not followed.follower.is_foreign(MetadataResponse())
    followed.see(("t", OLD, 1))
    assert followed.follower.is_foreign(MetadataResponse(topics=[_Topic(name="t", topic_id=NEW)]))
    assert not followed.follower.is_foreign(MetadataResponse(topics=[_Topic(name="t", topic_id=OLD)]))
