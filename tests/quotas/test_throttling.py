"""A client that exceeds its quota has its answer at once, with the time for which it then waits; nobody else waits."""

from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from coordinator.admin.metrics import Collector
from coordinator.api.exchange import Exchange
from coordinator.api.recognition import NoTemplate
from coordinator.config.settings import QuotasConfig
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AlterClientQuotasRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeClientQuotasRequest,
    FetchRequest,
    MetadataRequest,
    ProduceRequest,
)
from coordinator.quotas.enforcement import Budget, ClientQuotas
from coordinator.quotas.metering import Meter, Metering
from coordinator.security.access import ALTER_CLUSTER_CONFIGS
from coordinator.security.principal import ANONYMOUS
from tests.quotas.world import Time, limited
from tests.rules.world import Closed, commit
from tests.support.kafka_broker import KafkaBroker
from tests.support.permitting import ANY_NAME, Allowed, use_authorizer
from tests.support.waiting import wait_until
from tests.support.wire import Connection
from tests.topics.data_plane import batch

APP = {"client_id": "app"}
VALUE, LARGE, SMALL = b"v" * 10_000, b"v" * 30_000, b"v"
WAITS = [0, 130, 5_060, 10_060]
"""Of four requests of a producer that may send 2,000 bytes per second, each as soon as it is handled: with Kafka 4.4, in ms."""
TOLERANCE_MS = 150
"""Requests take some time, which makes waits shorter, and differ by a few bytes."""


@pytest.fixture
async def world(tmp_path):
    async with limited(tmp_path) as running_world:
        await running_world.admin.call("CreateTopics", 7, creation("orders", 1))
        yield running_world


def creation(name, partitions):
    return CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name, partitions, -1)], timeout_ms=1_000)


def produce(value=VALUE, acks=-1):
    partition = ProduceRequest.PartitionProduceData(0, batch(value))
    data = [ProduceRequest.TopicProduceData("orders", bytes(16), [partition])]
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=data)


def fetch(**fields):
    asked = FetchRequest.FetchPartition(0, fetch_offset=0, partition_max_bytes=10**6)
    topics = [FetchRequest.FetchTopic(topic="orders", partitions=[asked])]
    return FetchRequest(**{"max_wait_ms": 0, "max_bytes": 10**6, "session_epoch": -1, "topics": topics, **fields})


def records(response):
    return sum(len(each.records) for topic in response.responses for each in topic.partitions)


async def test_a_producer_waits_as_long_as_with_kafka(world):
    await world.limit(APP, producer_byte_rate=2_000.0)
    app = await world.client("app")
    waits = []
    for _ in WAITS:
        waits.append((await app.call("Produce", 9, produce())).throttle_time_ms)
        world.time.advance(waits[-1])
    assert waits == pytest.approx(WAITS, abs=TOLERANCE_MS)
    assert world.time.waits == [each for each in waits if each]
    samples = {
        (sample.name, sample.labels["quota"]): sample.value
        for metric in Collector(world.server).collect()
        for sample in metric.samples
        if metric.name.startswith("coordinator_quota")
    }
    assert samples["coordinator_quota_throttled_total", "produce"] == 3
    assert samples["coordinator_quota_throttle_seconds_total", "produce"] == sum(waits) / 1000
    assert samples["coordinator_quota_bytes_total", "produce"] > 4 * len(VALUE)
    assert len(samples) == 12


@pytest.mark.thorough
@pytest.mark.java
def test_clients_wait_so_long_with_kafka(tmp_path):
    """The patterns of the other tests of this file, with a broker and in real time."""
    broker = KafkaBroker(tmp_path)
    broker.start()
    try:
        with ExitStack() as stack:
            clients = [stack.enter_context(Connection(broker.bootstrap, name)) for name in ("app", "admin", "reader")]
            app, admin, reader = clients
            topic = {"name": "orders", "num_partitions": 1, "replication_factor": 1}
            admin.call("CreateTopics", 7, topics=[topic], timeout_ms=10_000)
            for client_id, key, value in (
                ("app", "producer_byte_rate", 2_000.0),
                ("admin", "controller_mutation_rate", 1.0),
                ("reader", "request_percentage", 0.000_1),
            ):
                op = {"key": key, "value": value, "remove": False}
                entity = [{"entity_type": "client-id", "entity_name": client_id}]
                app.call("AlterClientQuotas", 1, entries=[{"entity": entity, "ops": [op]}], validate_only=False)
            data = [{"name": "orders", "partition_data": [{"index": 0, "records": batch(VALUE)}]}]

            def send(client=app):
                return client.call("Produce", 9, acks=-1, timeout_ms=10_000, topic_data=data)

            def create(name):
                wanted = {"name": name, "num_partitions": 8, "replication_factor": 1}
                created = admin.call("CreateTopics", 7, topics=[wanted], timeout_ms=10_000)
                return created["throttle_time_ms"], created["topics"][0]["error_code"]

            # All three quotas have taken effect when the last one throttles.
            wait_until(lambda: reader.call("Metadata", 9, topics=[])["throttle_time_ms"], "the quota")
            asked = reader.call("Metadata", 9, topics=[])["throttle_time_ms"]
            # By another client, so that nothing counts for the producer yet.
            wait_until(lambda: not send(admin)["responses"][0]["partition_responses"][0]["error_code"], "a leader")
            created = [create(name) for name in ("new-0", "new-1", "new-2")]
            waits = [send()["throttle_time_ms"] for _ in WAITS]
    finally:
        broker.stop()
    assert waits == pytest.approx(WAITS, abs=TOLERANCE_MS)
    assert asked == 1_000
    assert created[:2] == [(0, 0), (0, 0)]
    assert created[2] == (pytest.approx(5_000, abs=500), ErrorCode.THROTTLING_QUOTA_EXCEEDED)


async def test_the_answer_leaves_at_once_and_only_this_connection_waits(world):
    await world.limit(APP, producer_byte_rate=1_000.0)
    app, second, other = await world.client("app"), await world.client("app"), await world.client("other")
    app.send("Produce", 9, produce(LARGE))
    app.send("ApiVersions", 2)
    app.send("Metadata", 9)
    assert (await app.receive()).throttle_time_ms == pytest.approx(20_000, abs=200)
    await app.silent()
    # The quota is that of the client id, but a connection that has asked for nothing is not muted.
    assert (await second.call("Metadata", 9)).throttle_time_ms == 0
    assert (await other.call("Produce", 9, produce(LARGE))).throttle_time_ms == 0
    world.time.advance(19_700)
    await app.silent()
    world.time.advance(500)
    assert (await app.receive()).error_code == 0
    assert [topic.name for topic in (await app.receive()).topics] == []


async def test_produce_without_acks_is_counted_too(world):
    await world.limit(APP, producer_byte_rate=1_000.0)
    app = await world.client("app")
    app.send("Produce", 9, produce(LARGE, acks=0))
    app.send("ApiVersions", 2)
    await app.silent()
    (wait,) = world.time.waits
    assert wait == pytest.approx(20_000, abs=200)
    world.time.advance(wait)
    assert (await app.receive()).error_code == 0


async def test_a_throttled_fetch_is_empty_does_not_count_and_keeps_its_session(world):
    for _ in range(3):
        await world.admin.call("Produce", 9, produce())
    await world.limit(APP, consumer_byte_rate=2_000.0)
    app = await world.client("app")
    first = await app.call("Fetch", 12, fetch(session_epoch=0))
    assert (first.throttle_time_ms, records(first) > len(VALUE)) == (0, True)
    again = fetch(session_id=first.session_id, session_epoch=1)
    throttled = await app.call("Fetch", 12, again)
    assert throttled.throttle_time_ms > 0
    assert (throttled.error_code, throttled.session_id, throttled.responses) == (0, first.session_id, [])
    world.time.advance(11_000)
    again.session_epoch = 2
    assert records(await app.call("Fetch", 12, again)) > 0


async def test_a_fetch_returns_no_more_than_its_quota_allows_at_once(world):
    for _ in range(3):
        await world.admin.call("Produce", 9, produce())
    await world.limit(APP, consumer_byte_rate=1_100.0)
    app = await world.client("app")
    answer = await app.call("Fetch", 12, fetch())
    assert answer.throttle_time_ms == 0
    assert len(VALUE) < records(answer) < 11_000


async def test_a_quota_that_is_no_number_breaks_nothing(world):
    await world.admin.call("Produce", 9, produce())
    nan = float("nan")
    await world.limit(APP, consumer_byte_rate=nan, producer_byte_rate=nan, request_percentage=nan)
    await world.limit({"ip": "127.0.0.1"}, connection_creation_rate=nan)
    app = await world.client("app")
    assert records(await app.call("Fetch", 12, fetch())) > len(VALUE)
    assert (await app.call("Produce", 9, produce())).throttle_time_ms == 0


async def test_request_time_counts_for_every_api_and_waits_no_longer_than_a_window(world):
    await world.limit({"user": "ANONYMOUS"}, request_percentage=1.0)
    app = await world.client("app")
    world.time.busy_ns = 60_000_000
    assert (await app.call("ApiVersions", 2)).throttle_time_ms == 0
    # 120 ms in 10 s are 1.2 %: a fifth too much, of 10 s.
    assert (await app.call("Heartbeat", 4)).throttle_time_ms == 1_000
    world.time.advance(1_000)
    # Versions without the field wait as well.
    await app.call("Heartbeat", 0)
    assert world.time.waits == [1_000, 1_000]


@pytest.mark.parametrize(
    ("api", "strict_since", "change"),
    [
        ("CreateTopics", 6, lambda number: creation(f"new-{number}", 8)),
        (
            "CreatePartitions",
            3,
            lambda number: CreatePartitionsRequest(
                topics=[CreatePartitionsRequest.CreatePartitionsTopic("growing", 1 + 8 * (number + 1), None)],
                timeout_ms=1_000,
            ),
        ),
        ("DeleteTopics", 5, lambda number: DeleteTopicsRequest(topic_names=[f"old-{number}"], timeout_ms=1_000)),
    ],
)
@pytest.mark.parametrize("is_strict", [True, False])
async def test_partitions_are_counted_and_new_clients_refused(world, api, strict_since, change, is_strict):
    await world.admin.call("CreateTopics", 7, creation("growing", 1))
    for number in range(3):
        await world.admin.call("CreateTopics", 7, creation(f"old-{number}", 8))
    await world.limit(APP, controller_mutation_rate=1.0)
    app = await world.client("app")
    found = []
    for number in range(3):
        answer = await app.call(api, strict_since if is_strict else strict_since - 1, change(number))
        (result,) = getattr(answer, "topics", None) or getattr(answer, "results", None) or answer.responses
        found.append((answer.throttle_time_ms, ErrorCode(result.error_code).name))
        if number == 1:
            world.time.advance(world.time.waits[-1] if world.time.waits else 0)
    if is_strict:
        # 11 tokens: the second change overdraws.
        assert found == [(0, "NONE"), (0, "NONE"), (5_000, "THROTTLING_QUOTA_EXCEEDED")]
    else:
        assert found == [(0, "NONE"), (5_000, "NONE"), (8_000, "NONE")]


async def test_topics_that_metadata_creates_are_counted_and_nobody_waits(world):
    await world.limit(APP, controller_mutation_rate=0.1)  # 1.1 tokens: the second partition overdraws
    app = await world.client("app")
    for name in ("auto-0", "auto-1", "auto-2"):
        topic = MetadataRequest.MetadataRequestTopic(name=name)
        answer = await app.call("Metadata", 9, topics=[topic], allow_auto_topic_creation=True)
        assert answer.throttle_time_ms == 0
    assert world.time.waits == []
    created = await world.admin.call("Metadata", 9, topics=None, allow_auto_topic_creation=False)
    assert {topic.name for topic in created.topics if topic.name.startswith("auto")} == {"auto-0", "auto-1"}


def test_work_that_is_done_in_slices_counts_as_well():
    time = Time()
    time.busy_ns = 10
    metering = Metering(ClientQuotas(QuotasConfig()), time, time.schedule)
    meter = Meter(metering, SimpleNamespace(queue=SimpleNamespace(frame_bytes=0)), Budget(None, None, None, None))
    pieces = meter.timed(iter([None, None, None]))
    next(pieces)  # while the handler runs
    meter.handled()
    in_handler_ns = meter._busy_ns
    assert list(pieces) == [None, None]
    # Two pieces, and the end of the last one.
    assert meter._busy_ns == in_handler_ns + 3 * 10


async def test_quotas_are_in_force_after_a_restart(tmp_path):
    async with limited(tmp_path) as world:
        await world.limit(APP, request_percentage=1.0)
    async with limited(tmp_path) as world:
        world.time.busy_ns = 200_000_000
        world.server.quota_keeper.metering.clock = world.time
        assert (await (await world.client("app")).call("Metadata", 9)).throttle_time_ms == 1_000


async def test_without_a_quota_the_routes_are_as_they_were(world):
    app = await world.client("app")
    dispatcher = world.server.listeners[0].dispatcher
    await world.limit(APP, request_percentage=50.0)
    await app.call("Produce", 9, produce())
    await app.call("Metadata", 9)
    assert all(route.exchange is not Exchange for route in dispatcher.routes)
    await world.limit(APP, request_percentage=None, producer_byte_rate=5.0)
    assert {route.name for route in dispatcher.routes if route.exchange is not Exchange} == {"Produce"}
    await world.limit(APP, producer_byte_rate=None)
    for route in dispatcher.routes:
        assert (route.exchange, route.handle, route.layers) == (Exchange, route.api.handle, [])


async def test_fault_rules_recordings_and_quotas_act_on_the_same_request(world):
    await world.limit(APP, producer_byte_rate=1_000.0)
    recording = world.world.record({"api": ["Produce"]})
    world.world.fault({"api": ["Produce"], "topic": "orders"}, {"error": "NOT_LEADER_OR_FOLLOWER"}, times=1)
    app = await world.client("app")
    failed = await app.call("Produce", 9, produce(LARGE))
    assert failed.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert failed.throttle_time_ms == world.time.waits[0] > 19_000
    world.time.advance(failed.throttle_time_ms)
    assert (await app.call("Produce", 9, produce(SMALL))).responses[0].partition_responses[0].error_code == 0
    assert len(recording.page(0, 10)[0]) == 2
    world.world.clear()
    assert (await app.call("Produce", 9, produce(LARGE))).throttle_time_ms > 0


async def test_a_connection_is_muted_for_the_longest_of_its_waits(world):
    await world.limit(APP, producer_byte_rate=1_000.0)
    world.world.fault({"api": ["Produce"]}, {"throttle_ms": 5}, times=1)
    app = await world.client("app")
    assert (await app.call("Produce", 9, produce(LARGE))).throttle_time_ms > 19_000
    app.send("ApiVersions", 2)
    await app.silent()
    world.time.advance(world.time.waits[0])
    assert (await app.receive()).error_code == 0


async def test_what_an_authorizer_refuses_is_counted_too(tmp_path):
    async with limited(tmp_path) as world:
        use_authorizer(world.server, Allowed([(ANONYMOUS, ALTER_CLUSTER_CONFIGS, ANY_NAME)]))
        await world.limit(APP, request_percentage=1.0)
        app = await world.client("app")
        world.time.busy_ns = 200_000_000
        refused = await app.call("DescribeClientQuotas", 1, DescribeClientQuotasRequest())
        assert (refused.error_code, refused.entries) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
        assert refused.throttle_time_ms == 1_000


async def test_a_user_is_the_one_who_authenticated(tmp_path):
    users = tmp_path / "users"
    users.write_text("ann:a\nben:b\n")
    settings = (
        "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=PLAIN",
        f"sasl.users.file={users}",
    )

    async def log_in(client, user, password):
        await client.call("SaslHandshake", 1, mechanism="PLAIN")
        answer = await client.call("SaslAuthenticate", 2, auth_bytes=f"\0{user}\0{password}".encode())
        assert answer.error_code == 0
        return client

    async with limited(tmp_path, settings) as world:
        await log_in(world.admin, "ben", "b")
        await world.limit({"user": "ann"}, request_percentage=1.0)
        world.time.busy_ns = 200_000_000
        waits = [
            (await (await log_in(await world.client("app"), user, password)).call("Metadata", 9)).throttle_time_ms
            for user, password in (("ann", "a"), ("ben", "b"))
        ]
        assert waits == [1_000, 0]


async def test_without_the_permission_nobody_changes_quotas(tmp_path):
    async with limited(tmp_path) as world:
        use_authorizer(world.server, Allowed())
        entity = AlterClientQuotasRequest.EntryData([AlterClientQuotasRequest.EntityData("user", None)], [])
        (refused,) = (await world.admin.call("AlterClientQuotas", 1, entries=[entity])).entries
        assert (refused.error_code, refused.error_message) == (31, "Cluster authorization failed.")


async def test_an_address_opens_connections_at_its_rate(world):
    await world.limit({"ip": "127.0.0.1"}, connection_creation_rate=1.0)
    opened = [await world.client("app") for _ in range(12)]
    for client in opened[:10]:
        assert (await client.call("ApiVersions", 2)).error_code == 0
    # It is not read, and closed when the address has waited.
    opened[10].send("ApiVersions", 2)
    with pytest.raises(Closed):
        await opened[10].receive()
    listener = world.server.listeners[0]
    assert (listener.refused_count, len(listener.connections)) == (2, 11)
    world.time.advance(11_000)
    assert (await (await world.client("app")).call("ApiVersions", 2)).error_code == 0


async def test_only_clients_without_a_limit_have_templates_of_their_commits(world):
    await world.limit(APP, request_percentage=1_000_000.0)
    connections = world.server.listeners[0].connections
    for client_id in ("app", "free"):
        client = await world.client(client_id)
        for offset in range(20):
            await client.call("OffsetCommit", 8, commit(offset, group=f"g-{client_id}"))
    has_template = {each.client_id: not isinstance(each.template, NoTemplate) for each in connections}
    assert (has_template["app"], has_template["free"]) == (False, True)
    await world.limit({"client_id": "free"}, request_percentage=1_000_000.0)
    assert all(isinstance(each.template, NoTemplate) for each in connections)
