"""A streams heartbeat with missing internal topics has them created behind its response, and reports failures."""

from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.groups.kinds import Kind
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import StreamsGroupHeartbeatRequest as Request
from coordinator.requests.streams_group_heartbeat import API, handle
from coordinator.topics.registry import Registry
from tests.groups.streams.streams_world import StreamsHarness, part, topology
from tests.support.permitting import EVERYTHING

MISSING = 3


class Wanted:
    """A stand-in for AutoTopicCreation."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.keep_ms = 0
        self.failed: dict[str, str] = {}

    def create(self, topics: Any, keep_ms: int) -> None:
        self.made += topics
        self.keep_ms = keep_ms

    def failures(self, names: Any) -> dict[str, str]:
        return {name: self.failed[name] for name in names if name in self.failed}


class Server:
    """A server of one shard."""

    def __init__(self, **config: Any) -> None:
        self.shard = StreamsHarness({"t": 4}, **config)
        self.config = SimpleNamespace(groups=self.shard.config)
        self.topics = SimpleNamespace(registry=Registry())
        self.auto_topic_creation = Wanted()
        self.groups = self
        self.after: list[Any] = []
        self.answer: Any = None

    def submit(self, group_id: str, operation: Any, exchange: Any) -> None:
        def with_after(*arguments: Any) -> Any:
            result = operation(*arguments)
            self.after = list(result.after)
            return result

        assert group_id == exchange.request.group_id
        self.answer = self.shard.call(with_after, exchange.request, 1, API).reply

    def beat(self, request: Any) -> Any:
        """The answer; an error that is raised before a shard is asked is one, too."""
        refused: list[ErrorCode] = []
        handle(self, SimpleNamespace(request=request, api_version=1, refuse=refused.append, permits=EVERYTHING))
        return refused[0] if refused else self.answer

    def join(self, *parts: Any, member_id: str = "m") -> Any:
        return self.beat(
            Request(
                group_id="g",
                member_id=member_id,
                rebalance_timeout_ms=1_000,
                process_id="p",
                topology=topology(*parts),
                active_tasks=[],
                standby_tasks=[],
                warmup_tasks=[],
            )
        )

    def after_all(self) -> None:
        for following in self.after:
            following()


def details(answer: Any) -> list[tuple[int, str]]:
    return [(each.status_code, each.status_detail) for each in answer.status]


def test_missing_topics_are_created_behind_the_response() -> None:
    server = Server()
    wanted = Request.TopicInfo("c", 0, 0, [Request.KeyValue("cleanup.policy", "compact")])
    answer = server.join(Request.Subtopology(subtopology_id="0", source_topics=["t"], state_changelog_topics=[wanted]))
    assert details(answer) == [(MISSING, "Internal topics are missing: c")]
    assert server.auto_topic_creation.made == []
    server.after_all()
    (made,) = server.auto_topic_creation.made
    assert (made.name, made.num_partitions, made.replication_factor) == ("c", 4, -1)
    assert [(config.name, config.value) for config in made.configs] == [("cleanup.policy", "compact")]
    assert server.auto_topic_creation.keep_ms == 2 * answer.heartbeat_interval_ms


def test_nothing_is_created_if_all_topics_exist() -> None:
    server = Server()
    assert details(server.join(part(sources=["t"]))) == []
    assert server.after == []


def test_failures_to_create_topics_are_reported() -> None:
    server = Server()
    server.auto_topic_creation.failed = {"c": "no room"}
    answer = server.join(part(changelogs=["c", "d"]))
    assert details(answer) == [(MISSING, "Internal topics are missing: c, d; Creation failed: c (no room).")]


def test_three_of_many_failures_are_listed() -> None:
    server = Server()
    server.auto_topic_creation.failed = dict.fromkeys("abcde", "no")
    ((_, detail),) = details(server.join(part(changelogs="abcde")))
    assert detail.endswith("; Creation failed: a (no), b (no), c (no) and 2 more.")


def test_the_replication_factor_of_the_topology_is_used() -> None:
    server = Server()
    wanted = Request.TopicInfo("c", 0, 3)
    server.join(Request.Subtopology(subtopology_id="0", source_topics=["t"], state_changelog_topics=[wanted]))
    server.after_all()
    assert server.auto_topic_creation.made[0].replication_factor == 3


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        (part(sources=["t", "__consumer_offsets"]), "__consumer_offsets"),
        (part(repartition_sinks=["__transaction_state"]), "__transaction_state"),
        (part(changelogs=["no spaces"]), "no spaces"),
        (part(repartition_sources=[".."]), r"\.\."),
    ],
)
def test_a_topology_with_invalid_topic_names_is_refused_at_once(parts: Any, named: str) -> None:
    server = Server()
    with pytest.raises(KafkaError, match=named) as refused:
        server.join(parts)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert server.answer is None


def test_a_server_without_streams_groups_refuses_the_request() -> None:
    server = Server(group_coordinator_rebalance_protocols=(Kind.CLASSIC.label, Kind.CONSUMER.label))
    assert server.join(part()) is ErrorCode.UNSUPPORTED_VERSION
