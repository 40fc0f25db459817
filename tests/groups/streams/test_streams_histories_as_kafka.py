"""Random histories of streams groups are answered as Kafka answers them.

Every heartbeat goes to Kafka and to the core, and after each of them Kafka is asked for the whole group: all answers are
equal, and so are epochs, states, assignments and targets. Three things are not compared. Between members that are equal to it
Kafka's assignor chooses by the order of hash tables, so the core is given Kafka's target where it asks for one. A member that
does not name all tasks that it was given is sent them again here, and not in Kafka (`_sent_again`). And a member that waits for
a task may lose two answers in a row and stay one here, not in Kafka; so none does.
"""

import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.groups.streams import update
from coordinator.groups.streams.member import NO_TASKS, TasksTuple
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import StreamsGroupHeartbeatResponse
from tests.groups.streams.streams_world import STATEFUL, StreamsHarness, Thread, part, topology
from tests.support.kafka_broker import KafkaBroker
from tests.support.waiting import wait_until
from tests.support.wire import Connection

TOPICS = {"t": 4, "u": 2, "v": 3, "t-log": 4}
BOTH = topology(part("0", ("t",), changelogs=("t-log",)), part("1", ("u", "v")))
SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.num.standby.replicas": "1",
}
STEPS = 50
KINDS = ("active_tasks", "standby_tasks", "warmup_tasks")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A connection to a Kafka with the topics."""
    broker = KafkaBroker(Path(tmp_path_factory.mktemp("kafka")), SETTINGS).start()
    try:
        with Connection(broker.bootstrap, "client") as link:
            wanted = [
                {"name": name, "num_partitions": count, "replication_factor": 1} for name, count in TOPICS.items()
            ]
            link.call("CreateTopics", 7, topics=wanted, timeout_ms=10_000)

            def serves() -> bool:
                (found,) = link.call("FindCoordinator", 4, key_type=0, coordinator_keys=["g"])["coordinators"]
                (group,) = link.call("DescribeGroups", 5, groups=["g"])["groups"]
                return not found["error_code"] and not group["error_code"]

            wait_until(serves, "a coordinator that answers")
            yield link
    finally:
        broker.stop()


class Both(StreamsHarness):
    """The core, and a group of Kafka's that gets the same requests."""

    def __init__(self, kafka: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(TOPICS, group_streams_assignment_interval_ms=0, group_streams_num_standby_replicas=1)
        self.kafka = kafka
        self.name = f"g-{uuid.uuid4().hex}"
        self.said: list[Any] = []
        monkeypatch.setattr(update, "assign", lambda _: self.targets)

    def call(self, operation: Any, request: Any, version: int = 0, api: Any = None, **how: Any) -> Any:
        theirs = self.ask_kafka(request, version)
        group = self.described()
        self.targets = {each["member_id"]: _tasks(each["target_assignment"]) for each in group["members"]}
        ours = super().call(operation, request, version, api, **how)
        self.said.append((request, ours.reply))
        assert _sent_again(request, _plain(ours.reply), _plain(theirs)) == _plain(theirs), self.said[-5:]
        assert self.seen() == _seen(group), self.said[-5:]
        return ours

    def ask_kafka(self, request: Any, version: int) -> StreamsGroupHeartbeatResponse:
        request.group_id = self.name
        self.kafka.send_body("StreamsGroupHeartbeat", version, Codec.of().encoder(request.NAME, version)(request))
        request.group_id = "g"
        data = self.kafka.receive_bytes()
        self.kafka.unanswered.pop()
        answer, _ = Codec.of().decoder("StreamsGroupHeartbeatResponse", version)(data, 5)
        if answer.error_message:
            answer.error_message = answer.error_message.replace(self.name, "g")
        return answer

    def described(self) -> Any:
        return self.kafka.call("StreamsGroupDescribe", 1, group_ids=[self.name])["groups"][0]

    def seen(self) -> Any:
        group = self.groups.by_id.get("g")
        if group is None:
            return None
        members = {
            each.member_id: (each.member_epoch, _by_part(each.assigned), group.target.get(each.member_id, NO_TASKS))
            for each in group.members.values()
        }
        return group.state.value, group.group_epoch, group.target_epoch, members


def _seen(group: Any) -> Any:
    """The part of Kafka's description that `Both.seen` has."""
    if group["error_code"]:
        return None
    members = {
        each["member_id"]: (each["member_epoch"], _tasks(each["assignment"]), _tasks(each["target_assignment"]))
        for each in group["members"]
    }
    return group["group_state"], group["group_epoch"], group["assignment_epoch"], members


def _sent_again(request: Any, ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Our answer without the tasks that are sent again to a member that does not name all of them; Kafka does not do that."""
    if request.member_epoch > 0 and request.active_tasks is not None and theirs["active_tasks"] is None:
        return ours | dict.fromkeys(KINDS)
    return ours


def _tasks(described: Any) -> TasksTuple:
    return TasksTuple(
        *({each["subtopology_id"]: frozenset(each["partitions"]) for each in described[kind]} for kind in KINDS)
    )


def _by_part(held: Any) -> TasksTuple:
    return TasksTuple({each: frozenset(numbers) for each, numbers in held.active.items()}, held.standby, held.warmup)


def _plain(answer: Any) -> dict[str, Any]:
    """An answer with its lists in order."""
    fields = {name: getattr(answer, name) for name in answer.__slots__ if name != "throttle_time_ms"}
    for kind in KINDS:
        if fields[kind] is not None:
            fields[kind] = sorted((each.subtopology_id, sorted(each.partitions)) for each in fields[kind])
    entries = fields["partitions_by_user_endpoint"]
    if entries is not None:
        fields["partitions_by_user_endpoint"] = sorted(
            (
                each.user_endpoint.host,
                sorted((topic.topic, topic.partitions) for topic in each.active_partitions),
                sorted((topic.topic, topic.partitions) for topic in each.standby_partitions),
            )
            for each in entries
        )
    return fields


class History:
    """Threads of an application that come, go, lose answers, and sometimes talk nonsense."""

    def __init__(self, h: Both, seed: int) -> None:
        self.h = h
        self.random = random.Random(seed)
        self.sent = self.random.choice([STATEFUL, BOTH])
        self.threads: list[Thread] = []

    def run(self) -> None:
        self.comes()
        steps = [self.comes, self.leaves, self.steps_aside, self.forgets, self.loses_an_answer, self.talks_nonsense]
        for _ in range(STEPS):
            if self.random.random() < 0.4:
                self.random.choice(steps)()
            else:
                self.some().beat()

    def some(self) -> Thread:
        return self.random.choice(self.threads)

    def name(self) -> str:
        return f"m{self.random.randrange(10**6)}"

    def comes(self) -> None:
        instance = self.random.choice([None, None, None, "i", "j"])
        if len(self.threads) >= 6 or (instance and any(each.instance == instance for each in self.threads)):
            return
        name = self.name()
        self.threads.append(
            Thread(
                self.h,
                name,
                process=self.random.choice("pqr") if instance is None else f"p-{instance}",
                sent=self.sent,
                instance=instance,
                endpoint=self.random.choice([None, (f"host-{name}", 1)]),
            )
        )

    def leaves(self) -> None:
        thread = self.some()
        if thread.is_in:
            thread.leave()

    def steps_aside(self) -> None:
        thread = self.some()
        if thread.instance is not None and thread.is_in and thread.epoch > 0:
            thread.leave(-2)
            thread.id = self.name()

    def forgets(self) -> None:
        thread = self.some()
        if thread.instance is None:
            thread.forget()

    def loses_an_answer(self) -> None:
        thread = self.some()
        if not thread.says_all:
            thread.beat(lose_answer=True)

    def talks_nonsense(self) -> None:
        """A heartbeat with an epoch and tasks that may be right."""
        thread, chance = self.some(), self.random
        if thread.says_all:
            return

        def tasks() -> dict[str, list[int]] | None:
            return chance.choice([None, {}, {"0": chance.sample(range(4), chance.randrange(4))}])

        self.h.beat(
            thread.id,
            max(1, thread.epoch + chance.choice([-1, 0, 0, 1])),
            active=tasks(),
            standby=tasks(),
            instance=chance.choice([None, thread.instance]),
            tags=chance.choice([None, None, {"zone": chance.choice("xyz")}]),
            seen_endpoints=chance.randrange(4),
        )
        thread.says_all = True


@pytest.mark.java
@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(10, 20))]
)
def test_a_random_history_is_answered_as_kafka_answers_it(
    kafka: Connection, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    History(Both(kafka, monkeypatch), seed).run()
