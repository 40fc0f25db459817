"""Random histories of consumer groups whose members name and change assignors: Kafka raises the same epochs.

The same clients take the same steps in a group of Kafka's and in the core. After each step the errors are equal, and so are the
group's epoch, its assignor, the target's epoch and every member's part of the target. Each client goes on with the answers of
its own server, because a member that gives something up twice may be in another epoch here (consumer/reconcile.py).

Two orders are those of hash tables and not imitated, and so do not occur: in which `uniform` looks at several topics, and at
members whose ids are in the same bucket. All members subscribe to one topic, and no ids are in one bucket. No id is used twice,
because a member that returns under its id may need another epoch here (epochs/static_members.py).
"""

import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.groups.consumer.describe import describe_consumer_group
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.java import string_hash
from coordinator.protocol.messages import ConsumerGroupHeartbeatResponse
from tests.groups.consumer.consumer_world import ConsumerHarness, Modern
from tests.support.kafka_broker import KafkaBroker
from tests.support.waiting import wait_until
from tests.support.wire import Connection

PARTITIONS = 4
ASSIGNORS = (None, "range", "range", "uniform", "uniform")
INSTANCES = (None, None, "i", "j")
MEMBERS_MAX = 5
STEPS = 60


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A connection to a Kafka with the topic `t`."""
    settings = {"group.consumer.assignment.interval.ms": "0"}
    broker = KafkaBroker(Path(tmp_path_factory.mktemp("kafka")), settings).start()
    try:
        with Connection(broker.bootstrap, "client") as link:
            topic = {"name": "t", "num_partitions": PARTITIONS, "replication_factor": 1}
            link.call("CreateTopics", 7, topics=[topic], timeout_ms=10_000)

            def serves() -> bool:
                (found,) = link.call("FindCoordinator", 4, key_type=0, coordinator_keys=["g"])["coordinators"]
                (group,) = link.call("DescribeGroups", 5, groups=["g"])["groups"]
                (made,) = link.call("Metadata", 12, topics=[{"name": "t"}])["topics"]
                return not found["error_code"] and not group["error_code"] and not made["error_code"]

            wait_until(serves, "a coordinator that answers")
            yield link
    finally:
        broker.stop()


class Answered:
    """Kafka's answer to a heartbeat, as the harness shows one of the core."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.error = ErrorCode(answer["error_code"])
        self.ok = self.error is ErrorCode.NONE
        self.reply = ConsumerGroupHeartbeatResponse(member_epoch=answer["member_epoch"])
        given = answer["assignment"]
        self.assigned = (
            None if given is None else {"t": [p for topic in given["topic_partitions"] for p in topic["partitions"]]}
        )


class KafkaGroup:
    """A group of Kafka's that clients use as they use the core."""

    def __init__(self, link: Connection) -> None:
        self.link = link
        self.name = f"g-{uuid.uuid4().hex}"
        (topic,) = link.call("Metadata", 12, topics=[{"name": "t"}])["topics"]
        self.topic_id = topic["topic_id"]

    def beat(
        self,
        _group_id: str,
        member_id: str,
        epoch: int,
        *,
        topics: Any = None,
        regex: str | None = None,
        owned: Any = None,
        instance: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = -1,
    ) -> Answered:
        held = None if owned is None else [{"topic_id": self.topic_id, "partitions": each} for each in owned.values()]
        answer = self.link.call(
            "ConsumerGroupHeartbeat",
            1,
            group_id=self.name,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=held,
        )
        return Answered(answer)

    def assigned(self, answered: Answered) -> Any:
        return answered.assigned

    def seen(self) -> Any:
        (group,) = self.link.call("ConsumerGroupDescribe", 1, group_ids=[self.name])["groups"]
        targets = {
            each["member_id"]: [sorted(topic["partitions"]) for topic in each["target_assignment"]["topic_partitions"]]
            for each in group["members"]
        }
        return group["group_epoch"], group["assignment_epoch"], group["assignor_name"], targets


def _bucket(member_id: str) -> int:
    """The bucket of a java.util.HashMap with 16 of them."""
    return (string_hash(member_id) ^ string_hash(member_id) >> 16) & 15


class History:
    """Clients that come, go and change their minds, at both servers."""

    def __init__(self, kafka: KafkaGroup, seed: int) -> None:
        self.core = ConsumerHarness({"t": PARTITIONS}, group_consumer_assignment_interval_ms=0)
        self.kafka = kafka
        self.random = random.Random(seed)
        self.names = 0
        self.clients: list[tuple[Modern, Any]] = []
        self.said: list[Any] = []

    def run(self) -> None:
        steps = [self.comes, self.comes, self.votes, self.votes, self.leaves, self.steps_aside, self.joins_again]
        self.comes()
        for _ in range(STEPS):
            if self.random.random() < 0.5:
                self.random.choice(steps)()
            elif self.clients:
                self.both("beats", self.some(), lambda client: client.beat())
            if self.random.random() < 0.05:
                self.core.restart()
            self.compare()

    def some(self) -> tuple[Modern, Any]:
        return self.random.choice(self.clients)

    def both(self, what: str, pair: tuple[Modern, Any], step: Any) -> None:
        ours, theirs = (step(client) for client in pair)
        self.said.append((what, pair[0].id, pair[0].assignor, ours.error))
        assert ours.error == theirs.error, self.said[-8:]

    def compare(self) -> None:
        group = describe_consumer_group(self.core.groups, "g")
        targets = {
            each.member_id: [sorted(topic.partitions) for topic in each.target_assignment.topic_partitions]
            for each in group.members
        }
        ours = (group.group_epoch, group.assignment_epoch, group.assignor_name, targets)
        assert ours == self.kafka.seen(), self.said[-8:]

    def name(self) -> str:
        """A new member id in a bucket of its own."""
        taken = {_bucket(client.id) for client, _ in self.clients}
        while True:
            self.names += 1
            if _bucket(f"m{self.names}") not in taken:
                return f"m{self.names}"

    def comes(self) -> None:
        if len(self.clients) >= MEMBERS_MAX:
            return
        instance = self.random.choice(INSTANCES)
        if any(client.instance == instance for client, _ in self.clients if instance):
            return
        name, assignor = self.name(), self.random.choice(ASSIGNORS)
        servers: tuple[Any, Any] = (self.core, self.kafka)
        ours, theirs = (Modern(server, name, instance=instance, assignor=assignor) for server in servers)
        self.clients.append((ours, theirs))
        self.both("comes", (ours, theirs), lambda client: client.beat())

    def votes(self) -> None:
        """A client names another assignor, or the same again."""
        if self.clients:
            assignor = self.random.choice(ASSIGNORS)

            def vote(client: Modern) -> Any:
                client.assignor, client.says_all = assignor, True
                return client.beat()

            self.both("votes", self.some(), vote)

    def leaves(self) -> None:
        if self.clients:
            pair = self.some()
            self.clients.remove(pair)
            self.both("leaves", pair, lambda client: client.leave())

    def steps_aside(self) -> None:
        """A static client goes for a while and returns under another member id, perhaps with another vote."""
        pairs = [pair for pair in self.clients if pair[0].instance is not None]
        if pairs:
            pair, assignor = self.random.choice(pairs), self.random.choice(ASSIGNORS)
            name = self.name()
            self.both("steps aside", pair, lambda client: client.h.beat("g", client.id, -2, instance=client.instance))
            self.compare()

            def back(client: Modern) -> Any:
                client.forget()
                client.id, client.assignor = name, assignor
                return client.beat()

            self.both("is back", pair, back)

    def joins_again(self) -> None:
        if self.clients:

            def join(client: Modern) -> Any:
                client.forget()
                return client.beat()

            self.both("joins again", self.some(), join)


@pytest.mark.java
@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(10, 20))]
)
def test_the_epochs_of_a_random_history_are_those_of_kafka(kafka: Connection, seed: int) -> None:
    History(KafkaGroup(kafka), seed).run()
