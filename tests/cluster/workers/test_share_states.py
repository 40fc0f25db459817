"""Workers share the states of share partitions: any of them is asked, another takes them over, and their logs stay short."""

from coordinator.protocol.errors import ErrorCode
from coordinator.runtime.shard import Status
from coordinator.share_state import questions
from coordinator.share_state.coordinator import text_of
from coordinator.share_state.read import Read
from coordinator.share_state.share_state import UNKNOWN_COUNT, Batch, SharePartition, ShareState, Summary
from coordinator.share_state.snapshots import PRUNE
from tests.cluster.workers.world import create_topic, workers

OK = ErrorCode.NONE
SETTINGS = (
    "data.plane=none", "share.coordinator.state.topic.num.partitions=4",
    "share.coordinator.snapshot.update.records.per.snapshot=4",
)  # fmt: skip


def states(worker):
    return worker.server.share_states


def owner(world, key):
    """The worker that serves the shard of a share partition; None while none does."""
    for worker in world.running:
        if states(worker).router.shard_of(text_of(key)).status is Status.ACTIVE:
            return worker
    return None


async def keys_of(world, group_ids=("a", "b", "c", "d", "e", "f")):
    """Share partitions of a topic that all workers know."""
    assert await create_topic(world.running[0], "t") == 0
    await world.until(lambda: all("t" in each.server.topics.registry.topics for each in world.running))
    topic = world.running[0].server.topics.registry.topics["t"]
    keys = [SharePartition(group_id, topic.topic_id, 0) for group_id in group_ids]
    await world.until(lambda: all(owner(world, key) for key in keys))
    return keys


async def test_a_worker_asks_the_one_that_has_the_state_and_another_takes_it_over(tmp_path):
    async with workers(tmp_path) as world:
        first, second = await world.start(1, 2, settings=SETTINGS)
        await world.until_spread()
        keys = await keys_of(world)
        await world.until(lambda: {owner(world, key) for key in keys} == {first, second})
        for number, key in enumerate(keys):
            asked = states(first if number % 2 else second)
            assert await asked.initialize(key, 1, number) is OK
            assert (await asked.read(key, 3)).start_offset == number
            assert await asked.write(key, 1, 3, number, 1, [Batch(number, number, 2, 1)]) is OK
            assert await asked.write(key, 1, 2, number, 1, []) is ErrorCode.FENCED_LEADER_EPOCH
            assert await asked.summary(key, 0) == Summary(1, 3, number, 1)
        for asked in (first, second):
            assert await states(asked).read(SharePartition("", keys[0].topic_id, 0), 0) is ErrorCode.INVALID_REQUEST
        gone = keys.pop()
        assert await states(first).delete(gone) is OK
        await world.stop(second)
        await world.until(lambda: all(owner(world, key) is first for key in keys))
        for number, key in enumerate(keys):
            state = await states(first).read(key, 3)
            assert state == ShareState(1, number, 1, (Batch(number, number, 2, 1),))
            assert await states(first).read(key, 2) is ErrorCode.FENCED_LEADER_EPOCH
        assert await states(first).read(gone, 9) is ErrorCode.INVALID_REQUEST


async def test_the_count_of_a_state_at_another_worker_is_not_known():
    """As between Kafka's brokers: ReadShareGroupState has no such field."""
    key = SharePartition("g", bytes(16), 0)
    result = questions.READ.result_of(0, ShareState(1, 5, 7, (Batch(5, 6, 2, 1),)))
    response = questions.READ.response([questions.READ.topic_result(key.topic_id, [result])])
    assert questions.reply(Read(key, 0), response) == ShareState(1, 5, UNKNOWN_COUNT, (Batch(5, 6, 2, 1),))


async def test_the_log_of_states_is_pruned_in_the_engine_and_taken_over_from_there(tmp_path):
    async with workers(tmp_path) as world:
        [first] = await world.start(1, settings=(*SETTINGS, "journal.snapshot.bytes=65536"))
        (key,) = await keys_of(world, ["a" * 3_000])
        shard = states(first).router.shard_of(text_of(key))
        log = f"__share_group_state-{shard.index}"
        assert await states(first).initialize(key, 0, 0) is OK
        for offset in range(60):
            assert await states(first).write(key, 0, 0, 0, offset + 1, [Batch(offset, offset, 2, 1)]) is OK
            if offset in (30, 50):
                shard.run_internal(lambda state, now_ms: state.fire(PRUNE, now_ms))
        begin = shard.log.start_offset
        assert begin > 30
        kept = world.store.logs[log].pieces
        await world.until(lambda: len(kept) < 40)
        state = await states(first).read(key, 0)
        assert state == ShareState(0, 0, 60, (Batch(0, 59, 2, 1),))
        [second] = await world.start(2, settings=SETTINGS)
        await world.stop(first)
        await world.until(lambda: owner(world, key) is second)
        assert await states(second).read(key, 0) == state
        assert states(second).router.shard_of(text_of(key)).loaded.records < 40
