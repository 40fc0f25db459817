"""The metadata log in the engine does not grow for ever, and no worker misses what was changed meanwhile."""

import asyncio

import pytest

from coordinator.cluster.engine.engine import EngineUnavailable
from coordinator.cluster.sharing import Sharing
from coordinator.cluster.workers import metadata_sharing
from coordinator.protocol.messages import AlterClientQuotasRequest, DeleteTopicsRequest
from coordinator.topics.registry import Registry
from coordinator.topics.topics import METADATA_FOLDER
from tests.cluster.workers.world import PATIENT, Workers, WorkerUnderTest, create_topic, workers
from tests.rules.world import Client

PIECES = 20


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(Sharing, "metadata_pieces", PIECES)


async def churn(worker: WorkerUnderTest, count: int, name: str = "churn") -> None:
    """Creates topics and deletes them again."""
    client = await worker.client()
    for number in range(count):
        assert await create_topic(worker, f"{name}-{number}", partitions=2) == 0
        deleted = await client.call("DeleteTopics", 5, topic_names=[f"{name}-{number}"], timeout_ms=5_000)
        assert [each.error_code for each in deleted.responses] == [0]


async def set_quota(client: Client, user: str, rate: float | None) -> None:
    request = AlterClientQuotasRequest
    entity = [request.EntityData(entity_type="user", entity_name=user)]
    value = request.OpData(key="request_percentage", value=rate or 0.0, remove=rate is None)
    answer = await client.call("AlterClientQuotas", 0, entries=[request.EntryData(entity=entity, ops=[value])])
    assert [each.error_code for each in answer.entries] == [0]


def content(registry: Registry) -> tuple[object, ...]:
    """What is in a registry, without how it came to be."""
    return (
        registry.topics, registry.partitions, registry.collisions, registry.next_producer_id, registry.other_configs,
        registry.client_quotas, registry.acls,
    )  # fmt: skip


def agree(world: Workers) -> bool:
    first, *others = (content(worker.server.topics.registry) for worker in world.running)
    return all(each == first for each in others)


def pieces_of(world: Workers) -> int:
    return len(world.store.logs[METADATA_FOLDER].pieces)


async def test_the_log_of_many_changes_stays_short_and_all_workers_agree(tmp_path, monkeypatch):
    """Those that follow, those that write, and one that starts afterwards. No worker is so late that another fences it."""
    monkeypatch.setattr(metadata_sharing, "PATIENCE_S", PATIENT.beat_timeout_ms / 1000)
    async with workers(tmp_path) as world:
        first, second = await world.start(1, 2)
        assert await create_topic(first, "kept", partitions=3) == 0
        for round_ in range(3):
            await churn(first, 15, f"a{round_}")
            await churn(second, 15, f"b{round_}")
        assert world.store.logs[METADATA_FOLDER].covered > 100
        assert pieces_of(world) < 100
        await world.start(3)
        await world.until(lambda: agree(world))
        assert [*first.server.topics.registry.by_id.values()] == [*first.server.topics.registry.topics.values()]
        assert first.server.topics.partition_count("kept") == 3


async def test_a_worker_that_slept_over_a_compaction_catches_up(world):
    """Topics and quotas that were removed meanwhile are gone there, too, and those that were added are there."""
    awake, asleep = await world.start(1, 2)
    client = await awake.client()
    for name in ("kept", "deleted", "replaced"):
        assert await create_topic(awake, name) == 0
    await set_quota(client, "kept", 50.0)
    await set_quota(client, "removed", 50.0)
    await world.until(lambda: agree(world))
    replaced = asleep.server.topics.topic_id("replaced")
    deleted: list[str] = []
    on_deleted = asleep.server.topics.on_topics_deleted
    asleep.server.topics.on_topics_deleted = lambda topics: (
        deleted.extend(name for name, _ in topics),
        on_deleted(topics),
    )[1]
    tail, wakes_up = asleep.engine.tail, asyncio.Event()

    async def late_tail(log, sequence):
        await wakes_up.wait()
        return await tail(log, sequence)

    asleep.engine.tail = late_tail
    await client.call("DeleteTopics", 5, DeleteTopicsRequest(topic_names=["deleted", "replaced"], timeout_ms=5_000))
    assert await create_topic(awake, "replaced", partitions=4) == 0
    await set_quota(client, "removed", None)
    covered = world.store.logs[METADATA_FOLDER].covered
    await churn(awake, 2 * PIECES)
    assert world.store.logs[METADATA_FOLDER].covered > covered
    wakes_up.set()
    await world.until(lambda: agree(world))
    assert sorted(name for name in deleted if not name.startswith("churn")) == ["deleted", "replaced"]
    assert asleep.server.topics.topic_id("replaced") != replaced
    assert asleep.server.quotas is not None
    assert await create_topic(asleep, "afterwards") == 0
    await world.until(lambda: agree(world))


async def test_a_compaction_that_fails_is_tried_again(world):
    """The registry is in the log twice then, which changes nothing."""
    first, second = await world.start(1, 2)
    snapshot, failures = first.engine.snapshot, 2

    async def failing(claim, upto, parts):
        nonlocal failures
        if claim.log == METADATA_FOLDER and failures:
            failures -= 1
            raise EngineUnavailable("no answer")
        await snapshot(claim, upto, parts)

    first.engine.snapshot = failing
    assert await create_topic(first, "kept") == 0
    await churn(first, 2 * PIECES)
    assert failures == 0
    assert pieces_of(world) < 2 * PIECES
    await world.until(lambda: agree(world))
    assert second.server.topics.partition_count("kept") == 1
