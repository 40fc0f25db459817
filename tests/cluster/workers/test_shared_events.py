"""The event log of a shard goes where the shard goes: readers miss nothing, and it agrees with the state."""

import asyncio
import json
from typing import Any

from coordinator.admin.event_history import History
from coordinator.admin.event_stream import ServerEvents
from coordinator.admin.history import group_at
from coordinator.cluster.engine.engine import EngineUnavailable, OutcomeUnknown, Worker
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitDecidedValue,
    EventLogClosedValue,
    EventLogOpenedValue,
    MetadataRequest,
)
from tests.cluster.workers.events import EVENTS, STATE, check_agreement, fetched, in_force, read_all, stored
from tests.cluster.workers.world import (
    SHARDS,
    Workers,
    WorkerUnderTest,
    commit,
    create_topic,
    eventually,
    fetch,
)

ALL = ("data.plane=none", "coordinator.events=all")


async def started(world: Workers, *node_ids: int, settings: tuple[str, ...] = ()) -> list[WorkerUnderTest]:
    running = await world.start(*node_ids, settings=(*ALL, *settings))
    if "t" not in running[0].server.topics.registry.topics:
        assert await create_topic(running[0], "t") == 0
    await world.until(lambda: all("t" in each.server.topics.registry.topics for each in world.running))
    await world.until_spread()
    return running


def shard_of(worker: WorkerUnderTest, group: str) -> int:
    return worker.server.groups.shard_of(group).index


async def commits(worker: WorkerUnderTest, group: str, *offsets: int) -> None:
    client = await worker.client()
    for offset in offsets:
        await eventually(lambda offset=offset: commit(client, group, "t", offset), 0)


def decided(events: list[Any]) -> list[int]:
    """The offsets of the accepted commits among events."""
    return [
        each.value.topics[0].partitions[0].committed_offset
        for each in in_force(events)[0]
        if isinstance(each.value, CommitDecidedValue) and not each.value.error_code
    ]


async def whole(world: Workers, worker: WorkerUnderTest, index: int) -> None:
    await world.until(lambda: worker.server.topics.partition(EVENTS, index) is not None)


async def test_a_reader_of_events_goes_on_with_the_next_owner(world):
    """Offsets continue without a gap, and the log says who has handed the shard to whom, and that nothing is missing."""
    (first,) = await started(world, 1)
    await commits(first, "g", 1, 2, 3)
    index = shard_of(first, "g")
    await whole(world, first, index)
    error, read, _ = await fetched(await first.client(), EVENTS, index, 0)
    assert (error, decided(read)) == (0, [1, 2, 3])
    (second,) = await started(world, 2)
    await world.stop(first)
    await world.until(lambda: len(second.shards) == SHARDS)
    await commits(second, "g", 4)
    await whole(world, second, index)
    client = await second.client()
    error, more, start = await fetched(client, EVENTS, index, read[-1].offset + 1)
    assert (error, start) == (0, 0)
    assert [each.offset for each in read + more] == list(range(len(read + more)))
    assert decided(read + more) == [1, 2, 3, 4]
    closed, opened = more[:2]
    assert isinstance(closed.value, EventLogClosedValue)
    assert isinstance(opened.value, EventLogOpenedValue)
    assert (opened.value.cause, opened.value.node_id, opened.value.cleanly_closed) == ("take-over", 2, True)
    assert opened.value.run_id != closed.value.run_id
    assert opened.value.undone_from_offset == -1
    assert opened.value.covered_state_offset == opened.value.state_offset
    assert await read_all(client, EVENTS, index) == read + more


async def test_the_owner_of_a_shard_leads_its_state_and_its_events(world):
    """Metadata names it for both, and the others refuse to be read."""

    def leads(worker, owner, index):
        found = worker.sharing.cluster.leader(STATE, index, ("", 0))
        return found is not None and found.id == owner.node_id

    running = await started(world, 1, 2, 3)
    for worker in running:
        await world.until(lambda worker=worker: len(worker.sharing.cluster.living) == 3)
    for index in range(SHARDS):
        owner = world.owner(index)
        await whole(world, owner, index)
        for worker in running:
            client = await worker.client()
            topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in (STATE, EVENTS)]
            await world.until(lambda worker=worker, owner=owner, index=index: leads(worker, owner, index))
            answer = await client.call("Metadata", 8, topics=topics)
            assert [topic.partitions[index].leader_id for topic in answer.topics] == [owner.node_id] * 2
            for name in (STATE, EVENTS):
                error, _, _ = await fetched(client, name, index, 0)
                assert error == (0 if worker is owner else ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def test_events_leave_in_the_append_of_the_decisions_that_they_are_about(world):
    (only,) = await started(world, 1)
    await commits(only, "g", 1)
    appends: list[list[str]] = []
    append = only.engine.append

    async def watched(pieces):
        appends.append([piece.claim.log for piece in pieces])
        return await append(pieces)

    only.engine.append = watched
    await commits(only, "g", 2)
    index = shard_of(only, "g")
    assert [each for each in appends if f"{STATE}-{index}" in each] == [[f"{STATE}-{index}", f"{EVENTS}-{index}"]]


async def test_events_that_an_old_owner_appends_after_the_state_was_claimed_are_named_as_undone(world):
    """Between the two claims of a take-over the old owner can append events, of decisions that nobody learned of."""
    (only,) = await started(world, 1)
    await commits(only, "g", 1)
    index = shard_of(only, "g")
    world.store.claim(f"{STATE}-{index}", Worker("another", 7, "elsewhere", 1), None)
    assert await commit(await only.client(), "g", "t", 2) == ErrorCode.NOT_COORDINATOR
    assert decided(stored(world, EVENTS, index)) == [1, 2]
    await commits(only, "g", 3)
    assert decided(stored(world, EVENTS, index)) == [1, 3]
    assert check_agreement(world, index) == 2


async def test_undone_events_are_declared_before_the_state_goes_on(world):
    """An engine of several servers may have the state of an append and not its events. Then nothing undone seems decided."""
    (only,) = await started(world, 1)
    await commits(only, "g", 1)
    index = shard_of(only, "g")
    world.store.claim(f"{STATE}-{index}", Worker("another", 7, "elsewhere", 1), None)
    assert await commit(await only.client(), "g", "t", 2) == ErrorCode.NOT_COORDINATOR
    append = only.engine.append

    async def without_events(pieces):
        of_state = [piece for piece in pieces if piece.claim.log == f"{STATE}-{index}"]
        if not of_state:
            return await append(pieces)
        only.engine.append = append
        await append(of_state)
        raise OutcomeUnknown("the events have no answer")

    only.engine.append = without_events
    await commits(only, "g", 3)
    assert only.engine.append is append
    kept, missing = in_force(stored(world, EVENTS, index))
    assert decided(kept) == [1, 3]
    assert len(missing) == 1
    assert check_agreement(world, index) == 3


async def test_a_shard_whose_event_log_is_another_workers_acknowledges_nothing(world):
    """The claims end together. What was appended all the same is in the state without events, and the log says so."""
    (only,) = await started(world, 1)
    await commits(only, "g", 1)
    index = shard_of(only, "g")
    world.store.claim(f"{EVENTS}-{index}", Worker("another", 7, "elsewhere", 1), None)
    assert await commit(await only.client(), "g", "t", 2) == ErrorCode.NOT_COORDINATOR
    await commits(only, "g", 3)
    kept, missing = in_force(stored(world, EVENTS, index))
    assert decided(kept) == [1, 3]
    assert len(missing) == 1
    assert check_agreement(world, index) == 3


async def test_a_take_over_that_gets_one_of_two_logs_is_tried_again(world):
    """The engine fails between the two claims: the shard is served when both are made."""
    (only,) = await started(world, 1)
    await commits(only, "g", 1)
    index = shard_of(only, "g")
    claim_all, failures = only.engine.claim_all, 2

    async def failing(worker, seen):
        nonlocal failures
        if f"{EVENTS}-{index}" in seen and failures:
            failures -= 1
            raise EngineUnavailable("no answer")
        return await claim_all(worker, seen)

    only.engine.claim_all = failing
    world.store.claim(f"{STATE}-{index}", Worker("another", 7, "elsewhere", 1), None)
    assert await commit(await only.client(), "g", "t", 2) == ErrorCode.NOT_COORDINATOR
    await commits(only, "g", 3)
    assert failures == 0
    await eventually(lambda: fetch(only.clients[0], "g", "t"), (0, 3))
    assert check_agreement(world, index) == 2


async def test_a_long_event_log_is_read_from_its_beginning_after_a_take_over(world):
    """The new owner begins with its end. Until it has the rest, it refuses readers instead of showing a shorter log."""
    small = "coordinator.events.segment.bytes=20000"
    (first,) = await started(world, 1, settings=(small,))
    await commits(first, "g", *range(300))
    index = shard_of(first, "g")
    await world.stop(first)
    pieces = len(world.store.logs[f"{EVENTS}-{index}"].pieces)
    assert pieces > 300
    (second,) = [WorkerUnderTest(world, 2, (*ALL, small))]
    read, goes_on = second.engine.read, asyncio.Event()

    async def late(log, claim=None):
        if claim is None:
            await goes_on.wait()
        async for each in read(log, claim):
            yield each

    second.engine.read = late
    world.running.append(await second.start())
    await world.until(lambda: len(second.shards) == SHARDS)
    await commits(second, "g", 300)
    client = await second.client()
    assert (await fetched(client, EVENTS, index, 0))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    goes_on.set()
    await whole(world, second, index)
    found = await read_all(client, EVENTS, index)
    assert decided(found) == [*range(301)]
    assert found == stored(world, EVENTS, index)
    assert len(second.server.topics.partition(EVENTS, index).log.segments) > 2


async def test_retention_deletes_events_in_the_engine_and_offsets_go_on(world):
    """What is too much goes, here and there; a worker that takes the shard begins behind it."""
    small = (
        "coordinator.events.segment.bytes=4000", "coordinator.events.retention.bytes=8000",
        "log.retention.check.interval.ms=50",
    )  # fmt: skip
    (first,) = await started(world, 1, settings=small)
    index = shard_of(first, "g")
    log = world.store.logs[f"{EVENTS}-{index}"]
    for begin in range(0, 300, 50):
        await commits(first, "g", *range(begin, begin + 50))
        await world.until(lambda: not first.sharing.event_logs[index].log.wants_segment)
    await world.until(lambda: log.covered > 150)
    assert sum(map(len, log.pieces.values())) < 30_000
    last = stored(world, EVENTS, index)[-1].offset
    (second,) = await started(world, 2, settings=small)
    await world.stop(first)
    await world.until(lambda: len(second.shards) == SHARDS)
    await commits(second, "g", 300)
    await whole(world, second, index)
    client = await second.client()
    _, _, start = await fetched(client, EVENTS, index, last)
    assert start > 150
    read = await read_all(client, EVENTS, index, last)
    assert decided(read)[-1] == 300
    assert [each.offset for each in read] == [last + number for number in range(len(read))]
    assert (await fetched(client, EVENTS, index, 0))[0] == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_events_that_are_too_old_are_deleted_but_for_the_last_piece(world):
    """Without it a new owner would not know at which offset to go on."""
    old = ("coordinator.events.retention.ms=1", "log.retention.check.interval.ms=50")
    (first,) = await started(world, 1, settings=old)
    await commits(first, "g", *range(20))
    index = shard_of(first, "g")
    log = world.store.logs[f"{EVENTS}-{index}"]
    await world.until(lambda: len(log.pieces) == 1)
    end = stored(world, EVENTS, index)[-1].offset + 1
    await world.stop(first)
    (second,) = await started(world, 2, settings=old)
    await commits(second, "g", 20)
    assert [each.offset for each in stored(world, EVENTS, index)][-1] >= end


async def test_a_worker_that_records_nothing_keeps_the_events_of_others(world):
    """It hands the log on as it was, and the next one names what it has not recorded."""
    (first,) = await started(world, 1)
    await commits(first, "g", 1)
    index = shard_of(first, "g")
    (silent,) = await started(world, 2, settings=("coordinator.events=none",))
    await world.stop(first)
    await world.until(lambda: len(silent.shards) == SHARDS)
    await commits(silent, "g", 2)
    await whole(world, silent, index)
    assert decided((await fetched(await silent.client(), EVENTS, index, 0))[1]) == [1]
    (third,) = await started(world, 3)
    await world.stop(silent)
    await world.until(lambda: len(third.shards) == SHARDS)
    await commits(third, "g", 3)
    kept, missing = in_force(stored(world, EVENTS, index))
    assert decided(kept) == [1, 3]
    assert len(missing) == 1
    assert check_agreement(world, index) == 3


async def test_a_worker_that_was_there_before_the_events_hands_them_on_as_well(world):
    """It takes the event logs of its shards as soon as another worker records events, so that each log has one writer."""
    (silent,) = await world.start(1, settings=("data.plane=none", "coordinator.events=none"))
    assert await create_topic(silent, "t") == 0
    await commits(silent, "g", 1)
    index = shard_of(silent, "g")
    assert not any(name.startswith(EVENTS) for name in world.store.logs)
    (other,) = await started(world, 2)

    def all_have_events() -> bool:
        owners = [world.owner(number) for number in range(SHARDS)]
        return None not in owners and all(
            owner.server.topics.partition(EVENTS, number) for number, owner in enumerate(owners)
        )

    await world.until(all_have_events)
    for name, log in world.store.logs.items():
        if name.startswith(STATE):
            assert world.store.logs[name.replace(STATE, EVENTS)].worker == log.worker
    assert silent.shards
    assert other.shards
    await world.stop(silent)
    await world.until(lambda: len(other.shards) == SHARDS)
    await commits(other, "g", 2)
    kept, missing = in_force(stored(world, EVENTS, index))
    assert decided(kept) == [2]
    assert len(missing) == 1


async def test_admin_pages_have_the_events_and_the_past_of_a_shard_that_was_taken_over(world):
    """A reader of events goes on at its position, and a view of the past says from where on it is complete."""

    def event_history(worker, group):
        return History(ServerEvents(worker.server), group)

    async def offsets_in(history):
        found = []
        while not history.is_at_end:
            found += [json.loads(event)["offset"] for _, event in await history.read(100)]
        return found

    (first,) = await started(world, 1)
    await commits(first, "g", 1, 2, 3)
    index = shard_of(first, "g")
    await first.sharing.take_snapshot(f"{STATE}-{index}")
    await commits(first, "g", 4)
    await whole(world, first, index)
    before = event_history(first, "g")
    offsets = await offsets_in(before)
    (second,) = await started(world, 2)
    await world.stop(first)
    await world.until(lambda: len(second.shards) == SHARDS)
    await commits(second, "g", 5)
    await whole(world, second, index)
    after = event_history(second, "g")
    after.begin_after(before.position)
    offsets += await offsets_in(after)
    shown = [each.offset for each in stored(world, EVENTS, index)]
    assert offsets == sorted(set(offsets))
    assert set(offsets) <= set(shown)
    assert decided([each for each in stored(world, EVENTS, index) if each.offset in offsets]) == [1, 2, 3, 4, 5]
    end = second.server.groups.shards[index].offset_durable
    past = await group_at(second.server, "g", end)
    assert past["at"]["is_complete"]
    assert not (await group_at(second.server, "g", 1))["at"]["is_complete"]
    assert 0 < past["at"]["compacted_before"] <= end
