"""Every field of a match, every action and every extent as real clients meet them, both protocols and transactions."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from msgspec.structs import fields

from coordinator.rules.model import Match
from coordinator_testing.control import Control
from tests.support.background import Background
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S, wait_until

REFUSED = "TOPIC_AUTHORIZATION_FAILED"
"""The client library gives a commit up at once that is answered with this."""
CONSUMER = {"group.protocol": "consumer"}
OFFSETS = 100
"""Commits go to ascending offsets, so that each differs from those before it."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("fields")) as process:
        yield process


@pytest.fixture
def control(server: ServerProcess) -> Iterator[Control]:
    with Control(server.admin) as control:
        yield control


class Client:
    """A consumer that commits offsets, as a member of its group if it has joined."""

    def __init__(self, server: ServerProcess, group: str, name: str, **settings: Any) -> None:
        self.group, self.name, self._offset = group, name, OFFSETS
        self.consumer = Consumer({
            "bootstrap.servers": server.bootstrap, "group.id": group, "client.id": name, "enable.auto.commit": False,
            "retry.backoff.ms": 10, "retry.backoff.max.ms": 20,
            "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 20, **settings,
        })  # fmt: skip

    def commit(self, *partitions: int) -> None:
        """Commits the next offset of each partition; of 0 if none is named. Raises KafkaException."""
        self._offset += 1
        offsets = [TopicPartition("orders", each, self._offset) for each in partitions or (0,)]
        self.consumer.commit(offsets=offsets, asynchronous=False)

    def is_refused(self) -> bool:
        """Whether a commit gets the error of the rule."""
        try:
            self.commit()
        except KafkaException as refusal:
            assert refusal.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
            return True
        return False

    def committed(self, partition: int = 0) -> int:
        """Which of its commits the group has: the first, the second, ...; 0 if none."""
        [found] = self.consumer.committed([TopicPartition("orders", partition)], timeout=WITHIN_S)
        return max(found.offset - OFFSETS, 0)


@pytest.fixture
def alone(server: ServerProcess) -> Iterator[Client]:
    """A client that is no member: nothing happens to its group but what it asks for."""
    client = Client(server, f"alone-{uuid.uuid4()}", "alone")
    yield client
    client.consumer.close()


class Pair(NamedTuple):
    """Two members of a classic group, and the version of their commits."""

    leader: Client
    follower: Client
    version: int


@pytest.fixture(scope="module")
def pair(server: ServerProcess) -> Iterator[Pair]:
    """Two static members of a classic group, the leader first."""
    group = f"pair-{uuid.uuid4()}"
    with ExitStack() as stack:
        clients = [Client(server, group, name, **{"group.instance.id": name}) for name in ("one", "two")]
        for each in clients:
            each.consumer.subscribe(["orders"])
            stack.callback(each.consumer.close)

        def share() -> bool:
            for each in clients:
                each.consumer.poll(0.05)
            return [len(each.consumer.assignment()) for each in clients] == [2, 2]

        wait_until(share, "both members to own two partitions")
        with Control(server.admin) as control:
            recording = control.record(api="OffsetCommit", group=group)
            clients[0].commit()
            [entry] = recording.wait(1)
            leader = control.group(group).describe()["leader"]
        clients.sort(key=lambda each: each.consumer.memberid() != leader)
        yield Pair(*clients, entry.version)


# --- match ------------------------------------------------------------------------------------------------------------

FIELDS: dict[str, Callable[[ServerProcess, Pair], tuple[Any, Any]]] = {
    "api": lambda server, pair: ("OffsetCom*", "OffsetFetch"),
    "version": lambda server, pair: (pair.version, pair.version - 1),
    "group": lambda server, pair: ("pair-*", "pair-?"),
    "topic": lambda server, pair: ("orders", "events"),
    "client_host": lambda server, pair: ("127.0.0.*", "10.*"),
    "listener": lambda server, pair: (server.bootstrap, "kafka:9092"),
    "principal": lambda server, pair: ("User:ANON*", "User:alice"),
    "where": lambda server, pair: ({"Topics[].Name": "ord*"}, {"Topics[].Name": "events"}),
    "group_state": lambda server, pair: ("Stable", ("Empty", "PreparingRebalance")),
}
"""Fields that the members of a group have in common: a value that matches both, and one that matches neither."""
MEMBER_FIELDS: dict[str, Callable[[Pair], Any]] = {
    "member_id": lambda pair: pair.leader.consumer.memberid(),
    "instance_id": lambda pair: pair.leader.name,
    "client_id": lambda pair: pair.leader.name,
    "role": lambda pair: "leader",
}
"""Fields in which they differ: a value that matches the leader."""
OTHERS = {"nth", "per", "transactional_id"}


def test_every_field_of_a_match_is_tested():
    assert FIELDS.keys() | MEMBER_FIELDS.keys() | OTHERS == {field.name for field in fields(Match)}


def refuse_commits(control: Control, pair: Pair, **rule: Any) -> Any:
    """A rule that refuses the commits of the pair; keywords narrow it."""
    return control.fault(**{"api": "OffsetCommit", "group": pair.leader.group, "error": REFUSED} | rule)


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_matches_the_requests_of_a_client_or_not(
    server: ServerProcess, control: Control, pair: Pair, field: str
):
    hit, missed = FIELDS[field](server, pair)
    missing = refuse_commits(control, pair, until="cleared", **{field: missed})
    assert [each.is_refused() for each in pair[:2]] == [False, False]
    assert missing.status().matched == 0
    refuse_commits(control, pair, until="cleared", **{field: hit})
    assert [each.is_refused() for each in pair[:2]] == [True, True]


@pytest.mark.parametrize("field", MEMBER_FIELDS)
def test_a_field_distinguishes_the_members_of_a_group(control: Control, pair: Pair, field: str):
    refuse_commits(control, pair, until="cleared", **{field: MEMBER_FIELDS[field](pair)})
    assert [each.is_refused() for each in pair[:2]] == [True, False]


def test_nth_lets_the_requests_before_it_pass(control: Control, pair: Pair):
    refuse_commits(control, pair, nth=2)
    assert [pair.leader.is_refused() for _ in range(3)] == [False, True, False]


@pytest.mark.parametrize("per", ["member", "connection"])
def test_per_counts_for_each_member_or_connection(control: Control, pair: Pair, per: Any):
    refuse_commits(control, pair, times=1, per=per)
    assert [each.is_refused() for each in (*pair[:2], *pair[:2])] == [True, True, False, False]


def test_per_group_counts_for_both_members_of_it_together(control: Control, pair: Pair, alone: Client):
    control.fault(api="OffsetCommit", error=REFUSED, per="group")
    assert [each.is_refused() for each in (*pair[:2], alone, alone)] == [True, False, True, False]


# --- both protocols, and transactions ---------------------------------------------------------------------------------


def test_a_transactional_id_is_distinguished_from_others(server: ServerProcess, control: Control):
    wrong, right = (
        Producer({"bootstrap.servers": server.bootstrap, "transactional.id": f"{name}-{uuid.uuid4()}"})
        for name in ("wrong", "right")
    )
    rule = control.fault(
        transactional_id="wrong-*", api="InitProducerId", error="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    )
    right.init_transactions(WITHIN_S)
    assert rule.status().matched == 0
    with pytest.raises(KafkaException) as refused:
        wrong.init_transactions(WITHIN_S)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("api", "rule"),
    [
        ("AddPartitionsToTxn", {"error": "CONCURRENT_TRANSACTIONS", "times": 2}),
        ("AddOffsetsToTxn", {"error": "CONCURRENT_TRANSACTIONS"}),
        ("TxnOffsetCommit", {"error": "COORDINATOR_LOAD_IN_PROGRESS"}),
        ("TxnOffsetCommit", {"lose": "request"}),
        ("TxnOffsetCommit", {"lose": "answer"}),
        ("EndTxn", {"error": "CONCURRENT_TRANSACTIONS"}),
        ("EndTxn", {"lose": "request"}),
        ("EndTxn", {"lose": "answer"}),
    ],
)
def test_a_transaction_takes_effect_once_whatever_a_rule_does_to_it(
    server: ServerProcess, control: Control, alone: Client, api: str, rule: Any
):
    name = f"transaction-{uuid.uuid4()}"
    producer = Producer({
        "bootstrap.servers": server.bootstrap, "transactional.id": name, "retry.backoff.ms": 10,
        "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 20,
    })  # fmt: skip
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    fault = control.fault(api=api, transactional_id=name, **rule)
    producer.produce(name, b"value")
    metadata = alone.consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition("orders", 0, OFFSETS + 1)], metadata, WITHIN_S)
    producer.commit_transaction(WITHIN_S)
    assert fault.status().acted == rule.get("times", 1)
    assert alone.committed() == 1
    control.transaction(name).wait("CompleteCommit")
    alone.consumer.assign([TopicPartition(name, 0, 0)])
    read = [message.value() for message in alone.consumer.consume(2, 1) if not message.error()]
    assert read == [b"value"]


def test_a_member_of_a_consumer_group_joins_again_when_a_rule_fences_it(server: ServerProcess, control: Control):
    member = Client(server, f"fenced-{uuid.uuid4()}", "fenced", **CONSUMER)
    member.consumer.subscribe(["orders"])
    wait_until(lambda: member.consumer.poll(0.05) is None and len(member.consumer.assignment()) == 4, "its assignment")
    recording = control.record(api="ConsumerGroupHeartbeat", group=member.group)
    member_id = member.consumer.memberid()
    control.fault(api="ConsumerGroupHeartbeat", member_id=member_id, error="FENCED_MEMBER_EPOCH")

    def epochs() -> list[int]:
        return [each.request["member_epoch"] for each in recording.entries() if each.outcome == "answered"]

    wait_until(lambda: member.consumer.poll(0.05) is None and 0 in epochs(), "it to join again")
    wait_until(lambda: member.consumer.poll(0.05) is None and len(member.consumer.assignment()) == 4, "its assignment")
    control.fault(api="OffsetCommit", group=member.group, error="STALE_MEMBER_EPOCH")
    with pytest.raises(KafkaException) as stale:
        member.commit()
    assert stale.value.args[0].code() == KafkaError.STALE_MEMBER_EPOCH
    member.commit()
    assert member.committed() == 2
    member.consumer.close()


# --- action -----------------------------------------------------------------------------------------------------------


@contextmanager
def committing(client: Client) -> Iterator[Callable[[], bool]]:
    """Commits in a thread of its own. Yields a function that says whether that is done."""
    thread = Background(client.commit)
    try:
        yield lambda: not thread.is_running
    finally:
        thread.finish()


def test_an_error_of_some_partitions_lets_the_client_commit_the_others(control: Control, alone: Client):
    control.fault(api="OffsetCommit", group=alone.group, error="UNKNOWN_TOPIC_OR_PARTITION", partitions=[1])
    with pytest.raises(KafkaException) as refused:
        alone.commit(0, 1)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert [alone.committed(each) for each in (0, 1)] == [1, 0]


def test_the_message_of_an_error_reaches_the_client(server: ServerProcess, control: Control):
    topic = f"topic-{uuid.uuid4()}"
    control.fault(api="CreateTopics", topic=topic, error="POLICY_VIOLATION", message="not on a Sunday")
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    with pytest.raises(KafkaException, match="not on a Sunday"):
        admin.create_topics([NewTopic(topic, 1)])[topic].result(WITHIN_S)


def test_a_forced_error_reaches_the_client(control: Control, alone: Client):
    control.fault(api="OffsetCommit", group=alone.group, error="TOPIC_ALREADY_EXISTS", force=True)
    with pytest.raises(KafkaException) as refused:
        alone.commit()
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(("way", "has_effect"), [("request", False), ("answer", True)])
def test_a_client_repeats_what_was_lost(control: Control, alone: Client, way: Any, has_effect: bool):
    recording = control.record(api="OffsetCommit", group=alone.group)
    lost = control.fault(api="OffsetCommit", group=alone.group, lose=way)
    alone.commit()
    first, second = recording.wait(2)
    assert (first.outcome, first.fault, first.response is not None) == ("lost", lost.id, has_effect)
    assert (second.outcome, second.connection == first.connection) == ("answered", False)
    assert alone.committed() == 1


@pytest.mark.parametrize(("when", "has_effect"), [("before", 0), ("after", 1)])
def test_a_client_waits_for_what_is_delayed(
    server: ServerProcess, control: Control, alone: Client, when: Any, has_effect: int
):
    """The time of the delay is that of the server's clock, which stands."""
    other = Client(server, alone.group, "other")
    control.clock.manual()
    delayed = control.fault(api="OffsetCommit", group=alone.group, delay_ms=30_000, when=when)
    with committing(alone) as done:
        delayed.wait(acted=1)
        assert (other.committed(), done()) == (has_effect, False)
        control.clock.advance(30_000)
    assert other.committed() == 1
    other.consumer.close()


@pytest.mark.parametrize(("way", "has_effect"), [("request", 0), ("answer", 1)])
def test_a_client_waits_for_what_is_held_until_it_is_released(
    server: ServerProcess, control: Control, alone: Client, way: Any, has_effect: int
):
    other = Client(server, alone.group, "other")
    held = control.fault(api="OffsetCommit", group=alone.group, hold=way)
    with committing(alone) as done:
        held.wait(held=1)
        assert (other.committed(), done()) == (has_effect, False)
        assert held.release() == 1
    assert other.committed() == 1
    other.consumer.close()


def test_a_connection_that_is_closed_behind_the_answer_costs_the_client_nothing(control: Control, alone: Client):
    recording = control.record(api="OffsetCommit", group=alone.group)
    control.fault(api="OffsetCommit", group=alone.group, close=True)
    alone.commit()
    alone.commit()
    first, second = recording.wait(2)
    assert (first.outcome, second.outcome) == ("answered", "answered")
    assert first.connection != second.connection


def test_a_producer_learns_that_it_is_throttled(server: ServerProcess, control: Control):
    heard = []
    settings = {"bootstrap.servers": server.bootstrap, "throttle_cb": lambda event: heard.append(event.throttle_time)}
    producer = Producer(settings)
    throttled = control.fault(api="Produce", topic="events", throttle_ms=70)
    producer.produce("events", b"value")
    assert producer.flush(WITHIN_S) == 0
    throttled.wait(acted=1)
    wait_until(lambda: producer.poll(0.05) is not None and bool(heard), "the callback")
    assert heard == [0.07]


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("moved", "NOT_COORDINATOR"),
        ("loading", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("unavailable", "COORDINATOR_NOT_AVAILABLE"),
    ],
)
def test_a_client_finds_its_coordinator_again(control: Control, alone: Client, state: Any, error: str):
    """The rule acts on the commit, or on a FindCoordinator of librdkafka's own that comes before it."""
    alone.commit()
    recording = control.record(group=alone.group)
    away = control.fault(group=alone.group, coordinator=state)
    alone.commit()
    assert away.status().acted == 1
    entries = recording.entries()
    assert [each.api for each in entries if each.fault] in (["OffsetCommit"], ["FindCoordinator"])
    assert error in str(next(each.response for each in entries if each.fault))
    assert entries[-1].response["partitions"][0]["error"] is None
    assert alone.committed() == 2


# --- extent -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extent", "refused"),
    [
        ({}, [True, False, False]),
        ({"times": 2}, [True, True, False]),
        ({"until": "cleared"}, [True, True, True]),
        ({"times": 2, "until": "cleared"}, [True, True, False]),
    ],
)
def test_a_rule_acts_as_often_as_its_extent_says(control: Control, alone: Client, extent: Any, refused: list[bool]):
    rule = control.fault(api="OffsetCommit", group=alone.group, error=REFUSED, **extent)
    assert [alone.is_refused() for _ in range(3)] == refused
    assert rule.status().active == refused[-1]
    rule.clear()
    assert not alone.is_refused()


@pytest.mark.parametrize(("extent", "refused"), [({}, [True, True]), ({"times": 1}, [True, False])])
def test_a_rule_acts_for_a_time_of_the_servers_clock(control: Control, alone: Client, extent: Any, refused: list[bool]):
    control.clock.manual()
    control.fault(api="OffsetCommit", group=alone.group, error=REFUSED, for_ms=500, **extent)
    assert [alone.is_refused() for _ in range(2)] == refused
    control.clock.advance(500)
    assert not alone.is_refused()


def test_clearing_a_scope_ends_its_rules_and_no_others(server: ServerProcess, control: Control, alone: Client):
    with Control(server.admin) as other:
        other.fault(api="OffsetCommit", group=alone.group, error=REFUSED, until="cleared")
        control.fault(api="OffsetFetch", group=alone.group, error=REFUSED, until="cleared")
        control.clear_faults()
        assert alone.committed() == 0
        assert alone.is_refused()
    assert not alone.is_refused()
