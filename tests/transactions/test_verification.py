"""The answers to a write that claims to belong to a transaction."""

import pytest

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.result import Producer
from coordinator.runtime.shard import Status
from coordinator.transactions.verification import ADD_RETRY_MS, ADD_RETRY_MS_MAX, Verification
from tests.transactions.transactions_world import ID, World


class Shards:
    """A router whose shards answer at once."""

    index = 3

    def __init__(self, world):
        self.world = world
        self.asked = 0
        self.status = Status.ACTIVE

    def shard_of(self, _key):
        return self

    def submit(self, _key, operation, request):
        self.asked += 1
        try:
            request.send(self.world.do(operation, request.request))
        except KafkaError as error:
            request.send(error)


class Client:
    def __init__(self, enabled=True):
        self.world = World()
        self.shards = Shards(self.world)
        self.timers = []
        self.verification = Verification(
            self.shards, enabled=enabled, schedule=lambda delay_ms, callback: self.timers.append((delay_ms, callback))
        )

    def check(self, producer, partitions, *, adds, **more):
        answers = []
        self.verification.check(ID, Producer(*producer), partitions, adds, answers.append, **more)
        return answers


@pytest.fixture
def client():
    return Client()


def test_a_partition_must_have_been_added(client):
    producer = client.world.init()
    client.world.add(producer, ("t", 0), ("t", 2))
    partitions = {"t": [0, 1, 2], "u": [0]}
    assert client.check(producer, partitions, adds=False) == [
        {("t", 1): ErrorCode.TRANSACTION_ABORTABLE, ("u", 0): ErrorCode.TRANSACTION_ABORTABLE}
    ]
    assert client.check(producer, {"t": [0]}, adds=False) == [{}]


def test_an_older_client_gets_an_error_that_it_knows(client):
    producer = client.world.init()
    assert client.check(producer, {"t": [0]}, adds=False, abortable=False) == [{("t", 0): ErrorCode.INVALID_TXN_STATE}]


def test_an_addition_begins_the_transaction(client):
    producer = client.world.init()
    assert client.check(producer, {"t": [0, 1]}, adds=True) == [{}]
    assert client.world.known.partitions == {("t", 0), ("t", 1)}
    assert client.world.known.client_version == 2


@pytest.mark.parametrize("adds", [False, True])
def test_another_producer_is_refused_for_every_partition(client, adds):
    client.world.init()
    client.world.init()
    for producer, error in [
        ((1000, 0), ErrorCode.INVALID_PRODUCER_EPOCH),
        ((1000, 2), ErrorCode.INVALID_PRODUCER_EPOCH),
        ((999, 1), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ]:
        assert client.check(producer, {"t": [0, 1]}, adds=adds) == [{("t", 0): error, ("t", 1): error}]


def test_an_addition_waits_a_moment_for_the_end_before_it(client):
    producer = client.world.init()
    client.world.add(producer, ("t", 0))
    after = client.world.end(producer)
    answers = client.check(after, {"t": [0]}, adds=True)
    assert answers == []
    delay_ms, again = client.timers.pop()
    assert delay_ms == ADD_RETRY_MS
    again()
    assert answers == []
    client.world.finish()
    client.timers.pop()[1]()
    assert answers == [{}]


def test_an_addition_does_not_wait_for_ever(client):
    producer = client.world.init()
    client.world.add(producer, ("t", 0))
    answers = client.check(client.world.end(producer), {"t": [0]}, adds=True)
    for _ in range(ADD_RETRY_MS_MAX // ADD_RETRY_MS):
        client.timers.pop()[1]()
    assert (answers, client.timers) == ([{("t", 0): ErrorCode.CONCURRENT_TRANSACTIONS}], [])


def test_a_verification_does_not_wait_at_all(client):
    producer = client.world.init()
    client.world.add(producer, ("t", 0))
    after = client.world.end(producer)
    assert client.check(after, {"t": [0]}, adds=False) == [{("t", 0): ErrorCode.CONCURRENT_TRANSACTIONS}]


def test_disabled_verification_passes_everything_and_still_adds_partitions():
    client = Client(enabled=False)
    assert client.check((999, 0), {"t": [0]}, adds=False) == [{}]
    assert client.shards.asked == 0
    producer = client.world.init()
    assert client.check(producer, {"t": [0]}, adds=True) == [{}]
    assert client.world.known.partitions == {("t", 0)}


@pytest.mark.parametrize("adds", [False, True])
def test_the_worker_that_has_the_transactional_id_is_asked(client, adds):
    producer, asked = client.world.init(), []
    client.verification.elsewhere = lambda index, addition, adds, done: asked.append((index, addition.partitions, adds))
    assert client.check(producer, {"t": [0]}, adds=adds) != []
    client.shards.status = Status.ELSEWHERE
    assert client.check(producer, {"t": [1]}, adds=adds) == []
    assert (asked, client.shards.asked) == ([(3, [("t", 1)], adds)], 1)
