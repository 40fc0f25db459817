"""The engine over three brokers: nothing acknowledged is lost, and nothing of an old owner counts, while brokers are killed."""

import asyncio
import contextlib
from functools import partial

import pytest

from coordinator.cluster.engine.engine import EngineRefused, EngineUnavailable, OutcomeUnknown, claim_one
from coordinator.cluster.engine.kafka.cluster import Partition
from coordinator.cluster.engine.kafka.producers import UNLOCKED
from coordinator.cluster.engine.kafka.records import PIECE, Head, encode
from coordinator.protocol.errors import ErrorCode
from tests.cluster.engine.contract import parts_of, pieces, replayed, worker
from tests.cluster.engine.history import Appender, Record
from tests.support.waiting import wait_until
from tests.support.wire import Connection

pytestmark = pytest.mark.java

LOGS = ["__consumer_offsets-0", "__consumer_offsets-1", "__transaction_state-0"]
PATIENT_MS = 20_000
"""Longer than the cluster takes to notice that a broker is gone."""


@contextlib.contextmanager
def paused(*brokers):
    for broker in brokers:
        broker.pause()
    try:
        yield
    finally:
        for broker in brokers:
            broker.resume()


async def until(condition):
    async with asyncio.timeout(90):
        while not await condition():  # noqa: ASYNC110 - the cluster does not say when
            await asyncio.sleep(0.1)


async def all_in_sync(engine):
    """Returns when every broker leads its share again and follows the others."""

    async def are():
        try:
            answer = await engine._cluster._metadata(_all_topics())
        except EngineUnavailable:
            return False
        partitions = [partition for topic in answer.topics for partition in topic.partitions]
        return len(answer.brokers) == 3 and all(len(each.isr_nodes) == 3 for each in partitions)

    await until(are)


def _all_topics():
    from coordinator.protocol.messages import MetadataRequest

    return MetadataRequest(None, allow_auto_topic_creation=False)


async def leader_of(engine, cluster, log):
    """The broker that leads a log."""
    return cluster.brokers[await engine._cluster.leader(engine._topics.pieces_of(log)) - 1]


async def append_for_ever(appender: Appender) -> None:
    """Appends, and takes its logs again when it loses them."""
    while True:
        for log in LOGS:
            if log not in appender.claims:
                await appender.take(log)
        await appender.append_once()


async def appended(record: Record, count: int) -> None:
    """Waits until this many more pieces were acknowledged."""
    before = sum(map(len, record.acknowledged.values()))

    async def are():
        return sum(map(len, record.acknowledged.values())) >= before + count

    await until(are)


@pytest.mark.parametrize("fault", [pytest.param("killed", marks=pytest.mark.thorough), "paused"])
async def test_a_leader_that_is_gone_loses_nothing(connect_kafka, kafka_cluster, fault):
    """Another one leads; when the old one comes back, what it had alone is not there."""
    record = Record()
    owner = Appender(await connect_kafka(append_timeout_ms=3_000), worker(1), record)
    other = Appender(await connect_kafka(append_timeout_ms=3_000), worker(2), record)
    appending = asyncio.create_task(append_for_ever(owner))
    await appended(record, 30)
    broker = await leader_of(owner.engine, kafka_cluster, LOGS[0])
    with paused(broker) if fault == "paused" else contextlib.nullcontext():
        if fault == "killed":
            broker.kill()
        await appended(record, 60)
        for log in LOGS:
            await other.take(log)
        await appended(record, 30)
    if fault == "killed":
        await asyncio.to_thread(broker._start)
    await appended(record, 30)
    appending.cancel()
    await asyncio.gather(appending, return_exceptions=True)
    await all_in_sync(other.engine)
    for log in LOGS:
        await other.take(log)


async def test_a_worker_starts_while_a_broker_is_away(connect_kafka, kafka_cluster):
    """Its topics have three replicas, of which two are enough. A cluster of two brokers is refused before there are any."""
    engine = await connect_kafka(append_timeout_ms=PATIENT_MS)
    await claim_one(engine, LOGS[0], worker(1))
    broker = kafka_cluster.brokers[0]
    broker.kill()

    async def is_away():
        return len((await engine._cluster._metadata(_all_topics())).brokers) == 2

    try:
        await until(is_away)
        other = await connect_kafka(append_timeout_ms=PATIENT_MS)
        taken = await claim_one(other, LOGS[0], worker(2))
        assert await other.append(pieces(taken, b"new")) == frozenset()
        with pytest.raises(EngineRefused, match="the cluster has 2 brokers, and 3 are needed"):
            await connect_kafka(cluster="another")
    finally:
        await asyncio.to_thread(broker._start)
    await all_in_sync(engine)


async def test_nothing_is_acknowledged_while_one_broker_is_alone(connect_kafka, kafka_cluster):
    engine, other = await connect_kafka(append_timeout_ms=1_500), await connect_kafka(append_timeout_ms=PATIENT_MS)
    claim = await claim_one(engine, LOGS[0], worker(1))
    leader = await leader_of(engine, kafka_cluster, LOGS[0])
    with paused(*(broker for broker in kafka_cluster.brokers if broker is not leader)):
        with pytest.raises(OutcomeUnknown):
            await engine.append(pieces(claim, b"unknown"))
        assert await engine.append(pieces(claim, b"behind it", first=1)) == {LOGS[0]}
        with pytest.raises(EngineUnavailable):
            await claim_one(engine, LOGS[0], worker(1))
    await all_in_sync(other)
    taken = await claim_one(other, LOGS[0], worker(2))
    assert await replayed(other, taken) in ([], [b"unknown"])
    assert await other.append(pieces(taken, b"new")) == frozenset()


async def test_an_old_owner_leaves_nothing_behind_the_second_lock(connect_kafka):
    """Once the new owner has appended, the leader refuses the batches of the old one."""
    old, new = await connect_kafka(), await connect_kafka()
    claim = await claim_one(old, LOGS[0], worker(1))
    await until(lambda: _is_locked(old))
    assert await old.append(pieces(claim, b"a")) == frozenset()
    taken = await claim_one(new, LOGS[0], worker(2))
    await until(lambda: _is_locked(new))
    assert await new.append(pieces(taken, b"b")) == frozenset()
    partition = old._topics.pieces_of(LOGS[0])
    end = await new._partitions.end(partition)
    owned = old._owned_logs[LOGS[0]]
    batch = encode([(owned.head(PIECE, end, 1, 1), b"late")], producer=owned.producer.of_batch)
    [written] = (await old._partitions.write_once({partition: batch}, "appends")).values()
    assert written.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await old.append(pieces(claim, b"late", first=1)) == {LOGS[0]}
    assert await new._partitions.end(partition) == end


async def _is_locked(engine):
    return engine._owned_logs[LOGS[0]].producer is not UNLOCKED


async def test_what_an_old_owner_leaves_without_a_second_lock_does_not_count(connect_kafka, monkeypatch):
    """The new owner writes around it, and every reader skips it."""
    old, new = await connect_kafka(), await connect_kafka()
    for engine in (old, new):
        monkeypatch.setattr(engine._cluster, "is_apache", False)
        monkeypatch.setattr(engine._producers, "of", _no_producer)
    claim = await claim_one(old, LOGS[0], worker(1))
    taken = await claim_one(new, LOGS[0], worker(2))
    assert await old.append(pieces(claim, b"late")) == {LOGS[0]}
    assert await new.append(pieces(taken, b"new")) == frozenset()
    assert await new.append(pieces(taken, b"er", first=1)) == frozenset()
    assert await new.tail(LOGS[0], 0) == [(0, b"new"), (1, b"er")]
    again = await claim_one(old, LOGS[0], worker(1))
    assert await replayed(old, again) == [b"new", b"er"]


async def _no_producer(_log):
    return UNLOCKED


async def test_a_batch_that_arrives_twice_counts_once(connect_kafka):
    """As a retry or a network may repeat it, without any help of the brokers."""
    engine = await connect_kafka()
    claim = await claim_one(engine, LOGS[0], worker(1))
    owned = engine._owned_logs[LOGS[0]]
    batch = encode([(owned.head(PIECE, owned.expected, 0, 0), b"once")])
    for _ in range(3):
        [written] = (await engine._partitions.write_once({owned.partition: batch}, "appends")).values()
        assert written.code is ErrorCode.NONE
    taken = await claim_one(engine, LOGS[0], worker(1))
    assert taken.next_sequence == 1
    assert await replayed(engine, taken) == [b"once"]
    assert claim.epoch + 1 == taken.epoch


async def test_a_piece_larger_than_a_batch_counts_as_a_whole(connect_kafka):
    engine = await connect_kafka()
    claim = await claim_one(engine, LOGS[0], worker(1))
    data = [b"first", bytes(range(256)) * 12_000, b"last"]
    assert await engine.append(pieces(claim, *data)) == frozenset()
    owned = engine._owned_logs[LOGS[0]]
    half = encode([(Head(PIECE, claim.epoch, owned.expected, -1, 3, 3, 0, 2), b"the other half never came")])
    await engine._partitions.write(owned.partition, half)
    taken = await claim_one(engine, LOGS[0], worker(1))
    assert taken.next_sequence == 3
    assert await replayed(engine, taken) == data
    await engine.snapshot(taken, 3, parts_of([*data]))
    assert await replayed(engine, await claim_one(engine, LOGS[0], worker(1))) == data


def has_topic(link, name):
    [topic] = link.call("Metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=False)["topics"]
    return topic["error_code"] == ErrorCode.NONE


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        (
            "min.insync.replicas",
            "1",
            "min.insync.replicas=1, so what is acknowledged may be on one broker only; set it to 2",
        ),
        ("unclean.leader.election.enable", "true", "unclean.leader.election.enable=true"),
        (
            "cleanup.policy",
            "compact",
            "cleanup.policy=compact, so the cluster removes or changes records; set it to delete",
        ),
        ("retention.ms", "3600000", "retention.ms=3600000, so the cluster removes or changes records; set it to -1"),
    ],
)
async def test_topics_that_do_not_keep_what_they_are_given_are_refused(
    connect_kafka, kafka_cluster, setting, value, text
):
    """At the start, and by a claim of a log whose topic somebody else has made."""
    kafka = pytest.importorskip("confluent_kafka.admin")
    engine = await connect_kafka()
    await claim_one(engine, LOGS[0], worker(1))
    admin = kafka.AdminClient({"bootstrap.servers": kafka_cluster.bootstrap, "log_level": 0})
    topics = [engine._topics.pieces_of(log).topic for log in LOGS[:2]]
    config = {"retention.ms": "-1", "retention.bytes": "-1", "min.insync.replicas": "2"} | {setting: value}
    admin.create_topics([kafka.NewTopic(topics[1], 1, 3, config=config)])[topics[1]].result()
    with pytest.raises(EngineUnavailable, match=text):
        await claim_one(engine, LOGS[1], worker(1))
    for broker in kafka_cluster.brokers:  # a new topic reaches the metadata of each of them at its own time
        with Connection(broker.bootstrap) as link:
            wait_until(partial(has_topic, link, topics[1]), "the topic in the metadata of every broker")
    with pytest.raises(EngineRefused, match=text):
        await connect_kafka()


async def test_a_reader_makes_no_topic(connect_kafka, kafka_cluster):
    with pytest.raises(EngineRefused, match="there is no topic nobody-control"):
        await connect_kafka(cluster="nobody", reads_only=True)
    engine = await connect_kafka()
    assert await engine._cluster.refresh(["nobody-control"]) == {}


async def test_the_control_topic_stays_short_and_keeps_the_owners(connect_kafka, monkeypatch):
    from coordinator.cluster.engine.kafka import control

    for name, value in (("TRIM_RECORDS", 20), ("KEPT_MS", 1), ("MARK_MS", 1)):
        monkeypatch.setattr(control, name, value)
    engine = await connect_kafka(beat_timeout_ms=100)
    await claim_one(engine, LOGS[0], worker(1))
    first = Partition(f"{engine._settings.cluster}-control", 0)

    async def is_trimmed():
        await engine.beat(worker(1))
        return await engine._partitions.begin(first) > 20

    await until(is_trimmed)
    reader = await connect_kafka()
    assert (await reader.owners())[LOGS[0]].worker == worker(1)
    assert [each.id for each in await (await connect_kafka(beat_timeout_ms=60_000)).workers()] == ["worker-1"]
