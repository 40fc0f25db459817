"""The service survives what a real cluster does to it once a month: every order is billed, and none is billed twice.

    pip install confluent-kafka pytest      # and this project, which brings the fixture kafka_coordinator
    pytest test_orders.py

There is no sleep in these tests. They wait for what they are about: a fault that acted, a state of the group, a bill.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer
from orders import Ledger, OrderService

from coordinator_testing.pytest_plugin import KafkaCoordinator

PARTITIONS = 4
SESSION_MS = 45_000
FAST = {
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": 100,
    "fetch.wait.max.ms": 50,
    "retry.backoff.ms": 20,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
}
"""The session is that of production; the rest keeps the client from waiting."""


class World:
    """A topic, a group, a ledger, and the instances of the service."""

    def __init__(self, kafka_coordinator: KafkaCoordinator, stack: ExitStack) -> None:
        self.control = kafka_coordinator.control
        self.bootstrap = kafka_coordinator.bootstrap_servers
        self.topic = kafka_coordinator.topic("orders", partitions=PARTITIONS)
        self.name = kafka_coordinator.group("billing")
        self.group = self.control.group(self.name)
        self.ledger = Ledger()
        self._stack = stack
        self._producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})
        self._count = 0

    def start(self, client_id: str = "billing-1") -> OrderService:
        """Starts an instance, and waits until it is a member."""
        service = OrderService(self.bootstrap, self.topic, self.name, self.ledger, **FAST, **{"client.id": client_id})
        thread = threading.Thread(target=service.run, name=client_id, daemon=True)
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(service.stop)
        return service

    def order(self, count: int = 20) -> list[str]:
        """Places orders over all partitions; returns their ids."""
        orders = [f"order-{self._count + number}" for number in range(count)]
        self._count += count
        for number, order in enumerate(orders):
            self._producer.produce(self.topic, f"{order} 995".encode(), partition=number % PARTITIONS)
        assert self._producer.flush(30) == 0
        return orders


@pytest.fixture
def world(kafka_coordinator: KafkaCoordinator) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(kafka_coordinator, stack)


@pytest.fixture
def running(world: World) -> World:
    """The world with one instance that has billed some orders already."""
    world.start()
    world.group.wait(state="Stable", members=1)
    assert world.ledger.wait_for(world.order())
    return world


def test_a_rebalance_loses_nothing_and_bills_nothing_twice(running: World) -> None:
    generation = running.group.describe()["generation"]
    running.group.rebalance("a test")
    running.group.wait(state="Stable", epoch=generation + 1)
    assert running.ledger.wait_for(running.order())
    assert running.ledger.repeated == []


def test_a_zombie_cannot_commit_what_another_instance_has_taken_over(running: World) -> None:
    """The first instance loses its session with a commit on the way. The second one reads those orders again."""
    recording = running.control.record(api="OffsetCommit", group=running.name)
    commits = running.control.fault(api="OffsetCommit", group=running.name, hold="request")
    orders = running.order()
    commits.wait(held=1)
    [zombie] = running.group.describe()["members"]
    running.group.expire_session(zombie["member_id"])
    running.start("billing-2")
    [successor] = running.group.wait(state="Stable", members=1)["members"]
    assert successor["client_id"] == "billing-2"
    commits.clear()
    running.group.wait(state="Stable", members=2)
    [answer] = [each.response for each in recording.entries() if each.fault == commits.id]
    assert {each["error"] for each in answer["partitions"]} == {"UNKNOWN_MEMBER_ID"}
    assert running.ledger.wait_for(orders + running.order())
    assert set(running.ledger.repeated) <= set(orders)


def test_a_pause_longer_than_the_session_loses_nothing(running: World) -> None:
    """The process stands still for longer than its session: the group goes on without it, and it comes back."""
    heartbeats = running.control.fault(api="Heartbeat", group=running.name, hold="request", until="cleared")
    heartbeats.wait(held=1)
    running.control.clock.manual()
    advanced = running.control.clock.advance(SESSION_MS)
    assert [each.timer for each in advanced.fired if each.group == running.name]
    running.group.wait(members=0)
    heartbeats.clear()
    running.group.wait(state="Stable", members=1)
    assert running.ledger.wait_for(running.order())


def test_the_lost_answer_to_a_commit_bills_nothing_twice(running: World) -> None:
    lost = running.control.fault(api="OffsetCommit", group=running.name, lose="answer")
    orders = running.order()
    lost.wait(acted=1)
    assert running.ledger.wait_for(orders + running.order())
    assert running.ledger.repeated == []


def test_a_fenced_commit_does_not_stop_the_service(running: World) -> None:
    fenced = running.control.fault(api="OffsetCommit", group=running.name, error="ILLEGAL_GENERATION")
    orders = running.order()
    fenced.wait(acted=1)
    assert running.ledger.wait_for(orders + running.order())


def test_the_service_follows_its_coordinator(running: World) -> None:
    """The broker says for a while that another one coordinates the group, as after a failover."""
    moved = running.control.fault(group=running.name, coordinator="moved", times=3)
    orders = running.order()
    moved.wait(acted=3)
    assert running.ledger.wait_for(orders + running.order())
    running.group.wait(state="Stable", members=1)


def test_a_coordinator_that_loads_its_log_keeps_the_commits(running: World) -> None:
    running.group.reload(for_ms=200)
    assert running.ledger.wait_for(running.order())
    running.group.wait(state="Stable", members=1)
