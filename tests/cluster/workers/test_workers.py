"""Three workers share the shards of groups, and lose none of the acknowledged commits when one of them goes."""

import asyncio
import errno
import itertools
from typing import Any, cast

import pytest

from coordinator.cluster.engine.engine import EngineRefused, EngineSettings, EngineUnavailable, Owner, Worker
from coordinator.cluster.workers import metadata_sharing, ownership
from coordinator.cluster.workers.cluster import listeners_of
from coordinator.cluster.workers.take_over import SharedShard
from coordinator.config.access_control import STANDARD_AUTHORIZER
from coordinator.groups import group_configs
from coordinator.groups.group_configs import REBALANCE_INTERVAL
from coordinator.log.batch import split
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CreateAclsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    IncrementalAlterConfigsRequest,
    ListOffsetsRequest,
    MetadataRequest,
)
from coordinator.security.access import READ_GROUP
from coordinator.security.principal import Principal
from coordinator.server import CannotStart
from coordinator.topics.alter_configs import ConfigOp
from coordinator.topics.topics import METADATA_FOLDER
from coordinator_lab.simulation.memory_engine import Delivery
from tests.cluster.workers.world import (
    PATIENT,
    SHARDS,
    WorkerUnderTest,
    commit,
    create_topic,
    eventually,
    fetch,
    find,
    workers,
)

STATES = "__consumer_offsets-", "__transaction_state-"
ANOTHER = Worker("another", 7, "elsewhere", 1)


async def test_shards_are_spread_over_the_workers_and_found_there(world):
    """Every worker names the same coordinator of a group, which is the one that serves it."""
    await world.start(1, 2, 3)
    await world.until_spread()
    for worker in world.running:
        client = await worker.client()
        for group in ("a", "b", "c", "d"):
            owner = world.owner(worker.server.groups.shard_of(group).index)
            found = await find(client, group)
            assert (found.node_id, found.port) == (owner.node_id, owner.server.listeners[0].bound[1])


async def test_commits_survive_the_loss_of_every_worker_but_one(world):
    """A worker that takes a shard over serves what another has acknowledged."""
    first, second, third = await world.start(1, 2, 3)
    await world.until_spread()
    assert await create_topic(second, "t") == 0
    await world.until(lambda: all("t" in each.server.topics.registry.topics for each in world.running))
    groups = [f"group-{number}" for number in range(20)]
    for number, group in enumerate(groups):
        owner = world.owner(first.server.groups.shard_of(group).index)
        assert await commit(await owner.client(), group, "t", number) == 0
    await world.stop(first)
    await world.stop(third)
    await world.until(lambda: len(second.shards) == SHARDS)
    client = await second.client()
    for number, group in enumerate(groups):
        assert await fetch(client, group, "t") == (0, number)


async def test_a_worker_that_stops_serves_each_shard_until_it_is_its_turn_to_move(tmp_path):
    """Only a few shards have no owner at any time, and the others take all of them before the worker leaves."""
    async with workers(tmp_path) as world:
        first, second, third = await world.start(1, 2, 3)
        await world.until_spread()
        free: list[int] = []

        async def watch() -> None:
            while True:
                owners = world.store.owners().items()
                free.append(sum(owner.worker is None for log, owner in owners if log.startswith(STATES)))
                await asyncio.sleep(0)

        watching = asyncio.ensure_future(watch())
        given = len(second.shards)
        assert given >= 2
        await world.stop(second)
        watching.cancel()
        assert 1 <= max(free) <= ownership.GIVEN_AT_ONCE
        assert free[-1] == 0
        await world.until(lambda: first.shards | third.shards == set(range(SHARDS)))


async def test_a_log_is_copied_before_its_shard_moves(tmp_path, monkeypatch):
    """The worker that takes the shard reads what was appended since; it replays nothing from the beginning."""
    monkeypatch.setattr(ownership, "PATIENCE_MS", 600_000)
    monkeypatch.setattr(ownership, "DRAIN_S", 600.0)
    async with workers(tmp_path) as world:
        first, second = await world.start(1, 2)
        await world.until_spread()
        assert await create_topic(first, "t") == 0
        await world.until(lambda: all("t" in each.server.topics.registry.topics for each in world.running))
        groups = [f"group-{number}" for number in range(12)]
        for number, group in enumerate(groups):
            owner = world.owner(first.server.groups.shard_of(group).index)
            assert await commit(await owner.client(), group, "t", number) == 0
        replayed = []
        spy_on_replays(first, replayed)
        moving = {index for index in range(SHARDS) if world.owner(index) is second}
        await world.stop(second)
        client = await first.client()
        for number, group in enumerate(groups):
            await eventually(lambda group=group: fetch(client, group, "t"), (0, number))
        assert moving
        assert replayed == []


async def test_a_worker_that_is_added_copies_its_share_before_it_takes_it(tmp_path, monkeypatch):
    monkeypatch.setattr(ownership, "PATIENCE_MS", 600_000)
    async with workers(tmp_path) as world:
        (first,) = await world.start(1)
        assert await create_topic(first, "t") == 0
        for group in map("group-{}".format, range(12)):
            assert await commit(await first.client(), group, "t", 7) == 0
        second, replayed = WorkerUnderTest(world, 2, ("data.plane=none",)), []
        spy_on_replays(second, replayed)
        world.running.append(await second.start())
        await world.until_spread()
        assert [claim for claim in replayed if claim.log.startswith(STATES)] == []
        for group in map("group-{}".format, range(12)):
            owner = world.owner(first.server.groups.shard_of(group).index)
            assert await fetch(await owner.client(), group, "t") == (0, 7)


async def test_a_copy_of_what_the_engine_has_lost_is_not_served(tmp_path, monkeypatch):
    """A failover may take back the end of a log, and the epochs say nothing of it when another worker has written since."""
    monkeypatch.setattr(ownership, "PATIENCE_MS", 600_000)
    monkeypatch.setattr(ownership, "DRAIN_S", 600.0)
    async with workers(tmp_path) as world:
        first, second = await world.start(1, 2)
        await world.until_spread()
        assert await create_topic(first, "t") == 0
        await world.until(lambda: all("t" in each.server.topics.registry.topics for each in world.running))
        groups = (f"group-{number}" for number in itertools.count())
        shard_of = first.server.groups.shard_of
        group = next(each for each in groups if world.owner(shard_of(each).index) is second)
        for offset in (1, 2):
            assert await commit(await second.client(), group, "t", offset) == 0
        name = f"__consumer_offsets-{shard_of(group).index}"
        copy, pieces, replayed = SharedShard.copy, world.store.logs[name].pieces, []

        async def replace_what_is_copied(shard, engine, epoch):
            await copy(shard, engine, epoch)
            if shard.name == name:
                last = max(pieces)  # the base offset comes first, and no checksum covers it
                pieces[last] = pieces[last][:8] + pieces[last - 1][8:]

        monkeypatch.setattr(SharedShard, "copy", replace_what_is_copied)
        spy_on_replays(first, replayed)
        await world.stop(second)
        client = await first.client()
        await eventually(lambda: fetch(client, group, "t"), (0, 1))
        assert [claim.log for claim in replayed] == [name]


async def test_of_logs_that_are_claimed_together_the_shortest_is_replayed_first(tmp_path):
    """A shard with a long log does not keep those with short ones waiting."""
    async with workers(tmp_path) as world:
        (first,) = await world.start(1)
        assert await create_topic(first, "t") == 0
        for number in range(12):
            for offset in range(number):
                assert await commit(await first.client(), f"group-{number}", "t", offset) == 0
        await world.stop(first)
        second, replayed = WorkerUnderTest(world, 2, ("data.plane=none",)), []
        spy_on_replays(second, replayed)
        world.running.append(await second.start())
        await world.until(lambda: len(second.shards) == SHARDS)
        assert len(replayed) >= SHARDS
        assert [claim.tail for claim in replayed] == sorted(claim.tail for claim in replayed)


def spy_on_replays(worker, replayed):
    """Adds each claim whose log is read from its beginning."""
    read = worker.engine.read

    def spy(log, claim=None):
        if claim is not None:
            replayed.append(claim)
        return read(log, claim)

    worker.engine.read = spy


def test_a_copy_is_continued_only_if_nobody_else_has_claimed_the_log():
    shard = SharedShard("log", cast(Any, None), cast(Any, None))
    alive = Worker("a", 1, "host", 1)
    assert not shard.continues(None)
    assert not shard.continues(Owner(1, None))
    shard.copied_epoch = 3
    assert [shard.continues(Owner(epoch, alive)) for epoch in (2, 3, 4)] == [False, True, False]
    assert [shard.continues(Owner(epoch, None)) for epoch in (3, 4, 5)] == [False, True, False]


def test_the_marks_of_a_worker_are_no_listeners():
    plain = Worker("a", 1, "host", 1, "INSIDE://host:1,ADMIN://https://host:2")
    logs = {"__consumer_offsets-3", "__consumer_offsets-12", "__transaction_state-0"}
    marked = plain.marked(is_leaving=True, wants={"__consumer_offsets-4": 2}, ready=logs)
    assert (marked.is_leaving, marked.wants, marked.ready) == (True, {"__consumer_offsets-4": 2}, logs)
    assert listeners_of(marked) == listeners_of(plain) == [("INSIDE", ("host", 1))]
    assert marked.admin == "https://host:2"
    assert marked.marked() == plain
    assert plain.ready == set()


async def test_the_last_workers_that_stop_together_wait_for_nobody(tmp_path):
    """A worker that is about to stop is no successor; its mark is no address."""

    async def scenario():
        async with workers(tmp_path) as world:
            first, second = await world.start(1, 2)
            await world.until_spread()
            leaving = first.sharing.worker.marked(is_leaving=True)
            assert leaving.is_leaving
            assert not first.sharing.worker.is_leaving
            assert listeners_of(leaving) == listeners_of(first.sharing.worker)
            await asyncio.gather(world.stop(first), world.stop(second))
            owners = world.store.owners()
            assert {owners[f"__consumer_offsets-{index}"].worker for index in range(SHARDS)} == {None}
            assert world.store.beats == {}

    async with asyncio.timeout(ownership.DRAIN_S):
        await scenario()


@pytest.mark.usefixtures("short_leases")
async def test_a_worker_that_the_engine_does_not_hear_answers_nothing_and_its_shards_move(world):
    """After its lease it refuses reads, too; when it is heard again it begins like a new worker."""
    first, second, third = await world.start(1, 2, 3)
    await world.until_spread()
    assert await create_topic(first, "t") == 0
    group = group_of(first)
    client = await first.client()
    assert await commit(client, group, "t", 5) == 0
    first.wire.is_cut = True
    await world.until(lambda: len(second.shards) + len(third.shards) == SHARDS)
    assert await fetch(client, group, "t") == (ErrorCode.NOT_COORDINATOR, -1)
    assert await commit(client, group, "t", 6) == ErrorCode.NOT_COORDINATOR
    owner = next(each for each in (second, third) if first.server.groups.shard_of(group).index in each.shards)
    assert await fetch(await owner.client(), group, "t") == (0, 5)
    first.wire.is_cut = False
    await world.until_spread()


@pytest.mark.usefixtures("short_leases")
async def test_a_commit_whose_append_has_no_answer_is_refused(world):
    """The outcome is unknown: the client tries again, and finds one of the two offsets until then."""
    (only,) = await world.start(1)
    assert await create_topic(only, "t") == 0
    client = await only.client()
    assert await commit(client, "g", "t", 1) == 0
    only.wire.is_cut = True
    assert await commit(client, "g", "t", 2) == ErrorCode.NOT_COORDINATOR
    only.wire.is_cut = False
    await eventually(lambda: commit(client, "g", "t", 3), 0)
    assert await fetch(client, "g", "t") == (0, 3)


async def test_the_claim_of_another_worker_fences_one_that_has_not_noticed(world):
    """A commit that arrives at the old owner after the claim is refused, though its lease lasts."""
    (only,) = await world.start(1)
    assert await create_topic(only, "t") == 0
    client = await only.client()
    assert await commit(client, "g", "t", 1) == 0
    owners, only.engine.owners = only.engine.owners, unanswered
    world.store.claim(log_of(only, "g"), ANOTHER, None)
    assert await commit(client, "g", "t", 2) == ErrorCode.NOT_COORDINATOR
    only.engine.owners = owners
    await eventually(lambda: fetch(client, "g", "t"), (0, 1))


async def unanswered():
    raise EngineUnavailable("no answer")


def log_of(worker, group):
    return f"__consumer_offsets-{worker.server.groups.shard_of(group).index}"


async def test_a_shard_whose_copy_cannot_be_written_is_taken_again(world, monkeypatch):
    """By this worker or another one, whose disk is well: no restart is needed."""
    (only,) = await world.start(1)
    assert await create_topic(only, "t") == 0
    client = await only.client()
    log = only.server.groups.shard_of("g").log

    def fails_once(*_batch):
        patch.undo()
        raise OSError(errno.EIO, "the disk is ill")

    with monkeypatch.context() as patch:
        patch.setattr(log, "append", fails_once)
        assert await commit(client, "g", "t", 1) == ErrorCode.NOT_COORDINATOR
        await eventually(lambda: commit(client, "g", "t", 2), 0)


async def test_a_worker_gives_up_a_shard_of_which_it_sees_a_newer_claim(world):
    """It does not serve reads from it, though nothing is committed that the engine would refuse."""
    (only,) = await world.start(1)
    log = log_of(only, "g")
    before = only.sharing.epoch_of(log)
    world.store.claim(log, ANOTHER, None)
    await world.until(lambda: only.sharing.epoch_of(log) > before + 1)


@pytest.mark.usefixtures("short_leases")
async def test_a_worker_that_was_stopped_gives_its_shards_up_before_its_lease_begins_again(world):
    """The first thing that it does may be a beat. What it had before may be another worker's by then."""
    (only,) = await world.start(1)
    log = log_of(only, "g")
    before = only.sharing.epoch_of(log)
    only.engine.owners = unanswered
    lease = only.sharing._lease
    lease._until_ms = 0
    await world.until(lambda: not lease.is_over)
    assert only.sharing.epoch_of(log) != before
    assert not only.shards


@pytest.mark.usefixtures("short_leases")
async def test_a_shard_that_was_being_taken_when_the_lease_ended_is_not_served(world):
    """A worker that is stopped in the middle of a replay finishes it when it wakes up, with a claim that may be old."""
    first, second = await world.start(1, 2)
    await world.until_spread()
    read, replaying, goes_on = first.engine.read, asyncio.Event(), asyncio.Event()

    async def slow_read(log, claim=None):
        if claim is not None:
            replaying.set()
            await goes_on.wait()
        async for each in read(log, claim):
            yield each

    first.engine.read = slow_read
    second.wire.is_cut = True
    await replaying.wait()
    first.engine.owners = unanswered
    first.sharing._lease._until_ms = 0
    await world.until(lambda: not first.shards)
    await world.until(lambda: not first.sharing._lease.is_over)
    goes_on.set()
    await world.until(lambda: not first.sharing._ownership._moves)
    assert not first.shards
    second.wire.is_cut = False


async def test_every_worker_can_change_topics_and_all_see_it(world):
    """A topic that one worker creates another one can delete, whoever wrote last."""
    first, second, third = await world.start(1, 2, 3)
    for number, worker in enumerate((first, second, third, first)):
        assert await create_topic(worker, f"t{number}", partitions=2) == 0
    assert await create_topic(third, "t0") == ErrorCode.TOPIC_ALREADY_EXISTS
    client = await second.client()
    deleted = await client.call("DeleteTopics", 5, topic_names=["t0", "t3"], timeout_ms=5_000)
    assert [each.error_code for each in deleted.responses] == [0, 0]
    wanted = {"t1", "t2"}
    await world.until(
        lambda: all(
            {name for name in each.server.topics.registry.topics if name.startswith("t")} == wanted
            for each in world.running
        )
    )


async def test_workers_that_change_topics_at_the_same_moment_wait_for_each_other(tmp_path, monkeypatch):
    """No change is refused with NOT_CONTROLLER, which librdkafka does not repeat, and every worker has all topics."""
    monkeypatch.setattr(metadata_sharing, "PATIENCE_S", PATIENT.beat_timeout_ms / 1000)

    async with workers(tmp_path) as world:
        running = await world.start(1, 2, 3)
        names = [[f"topic-{number}-{at}" for number in range(4)] for at in range(len(running))]

        async def create(worker, names):
            return [await create_topic(worker, name) for name in names]

        for each in await asyncio.gather(*map(create, running, names)):
            assert each == [0] * 4
        everything = {name for each in names for name in each}
        await world.until(lambda: all(everything <= {*each.server.topics.registry.topics} for each in running))


async def test_a_change_that_another_worker_was_quicker_than_has_no_effect_and_may_be_tried_again(
    tmp_path, monkeypatch
):
    """It is refused with NOT_CONTROLLER, which Kafka's clients repeat."""
    monkeypatch.setattr(metadata_sharing, "PATIENCE_S", 0.05)

    async with workers(tmp_path) as world:
        first, second = await world.start(1, 2)
        append = first.engine.append

        async def after_a_claim(pieces):
            if any(b"overtaken" in data for _, _, data in pieces):
                first.engine.append = append
                world.store.claim(METADATA_FOLDER, ANOTHER, None)
            return await append(pieces)

        first.engine.append = after_a_claim
        assert await create_topic(first, "overtaken") == ErrorCode.NOT_CONTROLLER
        assert await create_topic(second, "t") == 0
        await world.until(lambda: "t" in first.server.topics.registry.topics)
        assert "overtaken" not in first.server.topics.registry.topics
        assert await create_topic(first, "overtaken") == 0


async def test_a_request_that_creates_many_topics_keeps_the_metadata_log_until_all_are_created(tmp_path):
    """They are created over many turns of the loop, between two of which nothing may be under way."""
    async with workers(tmp_path) as world:
        first, _ = await world.start(1, 2)
        client = await first.client()
        topics = [CreateTopicsRequest.CreatableTopic(f"topic-{number}", 1, -1) for number in range(400)]
        created = await client.call("CreateTopics", 5, topics=topics, timeout_ms=5_000)
        assert {each.error_code for each in created.topics} == {0}
        assert len(created.topics) == 400


async def test_topics_have_no_leader_without_a_data_plane(world):
    """Metadata names the partitions, and a Produce that is sent all the same is refused as by a broker without replica."""
    first, second = await world.start(1, 2)
    assert await create_topic(first, "t", partitions=2) == 0
    await world.until(lambda: "t" in second.server.topics.registry.topics)
    for worker in (first, second):
        client = await worker.client()
        metadata = await client.call("Metadata", 8, topics=[MetadataRequest.MetadataRequestTopic(name="t")])
        assert [broker.node_id for broker in metadata.brokers] == [1, 2]
        (topic,) = metadata.topics
        assert [(each.leader_id, each.error_code) for each in topic.partitions] == [
            (-1, ErrorCode.LEADER_NOT_AVAILABLE)
        ] * 2
        asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
        listed = await client.call(
            "ListOffsets", 5, replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic("t", [asked])]
        )
        assert listed.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_local_data_plane_is_for_one_worker(world):
    """A second worker refuses to start, whichever of the two has the data; after the first has stopped it may."""
    (first,) = await world.start(1, settings=())
    with pytest.raises(CannotStart, match=r"data.plane=local, which is for one worker"):
        await world.start(2)
    with pytest.raises(CannotStart, match=r"data.plane=local"):
        await world.start(2, settings=())
    await world.stop(first)
    await world.start(2)
    with pytest.raises(CannotStart, match="1 other workers"):
        await world.start(1, settings=())


async def test_a_worker_with_the_wrong_number_of_shards_does_not_start(world):
    """Groups would be looked for in the wrong shards."""
    await world.start(1)
    with pytest.raises(CannotStart, match="set it to 6"):
        await world.start(2, settings=("data.plane=none", "offsets.topic.num.partitions=7"))


async def test_a_restart_on_an_empty_folder_has_groups_topics_and_ids(tmp_path):
    """Nothing of a worker's folder is needed but the records of topics."""
    async with workers(tmp_path) as world:
        (first,) = await world.start(1, settings=())
        assert await create_topic(first, "t") == 0
        assert await commit(await first.client(), "g", "t", 42) == 0
        cluster_id = first.server.cluster_id
        await world.stop(first)
        world.folder = tmp_path / "new"
        world.folder.mkdir()
        (again,) = await world.start(1, settings=())
        assert again.server.cluster_id == cluster_id
        client = await again.client()
        assert await fetch(client, "g", "t") == (0, 42)
        assert again.server.topics.registry.topics["t"].partitions == 1


async def test_a_snapshot_replaces_the_tail(world):
    """What a worker replays after a snapshot is the same, and shorter."""
    (first,) = await world.start(1)
    assert await create_topic(first, "t") == 0
    client = await first.client()
    for offset in range(200):
        assert await commit(client, "g", "t", offset) == 0
    shard = first.server.groups.shard_of("g")
    await first.sharing.take_snapshot(f"__consumer_offsets-{shard.index}")
    assert await commit(client, "g", "t", 500) == 0
    stored = world.store.logs[f"__consumer_offsets-{shard.index}"]
    assert len(stored.pieces) == 1
    assert stored.covered == 200
    (second,) = await world.start(2)
    await world.stop(first)
    await world.until(lambda: len(second.shards) == SHARDS)
    assert await fetch(await second.client(), "g", "t") == (0, 500)
    assert second.server.groups.shard_of("g").loaded.records < 10
    taken = second.sharing._snapshots._shards[f"__consumer_offsets-{shard.index}"]
    assert taken.snapshot_bytes == sum(map(len, stored.parts))
    assert taken.tail_bytes >= len(stored.pieces[200]), "the event of the take-over may be behind it"


async def test_a_snapshot_leaves_out_segments_that_were_closed_while_it_compacted(world, monkeypatch):
    """Their batches may not be durable yet, and stay in the tail."""
    (only,) = await world.start(1)
    assert await create_topic(only, "t") == 0
    client = await only.client()
    name = f"__consumer_offsets-{only.server.groups.shard_of('g').index}"
    snapshots, stored = only.sharing._snapshots, world.store.logs[name]
    compact = snapshots._compact

    async def compact_beside_appends(shard: SharedShard) -> None:
        await compact(shard)
        assert await commit(client, "g", "t", 500) == 0
        shard.log.begin_segment()

    monkeypatch.setattr(snapshots, "_compact", compact_beside_appends)
    for offset in range(200):
        assert await commit(client, "g", "t", offset) == 0
    await only.sharing.take_snapshot(name)
    assert [header.next_offset for part in stored.parts for _, header in split(part)] == [200]
    (later,) = stored.pieces.values()
    assert [header.base_offset for _, header in split(later)] == [200]


async def test_a_log_with_a_long_tail_gets_a_snapshot(world):
    """What a take-over has to replay is bounded without anybody asking for it."""
    (only,) = await world.start(1, settings=("data.plane=none", "journal.snapshot.bytes=65536"))
    assert await create_topic(only, "t") == 0
    client = await only.client()
    stored = world.store.logs[f"__consumer_offsets-{only.server.groups.shard_of('g').index}"]
    while not stored.covered:
        for _ in range(100):
            assert await commit(client, "g", "t", 1) == 0
    assert sum(map(len, stored.parts)) < 65_536 / 4


async def test_a_snapshot_is_not_repeated_for_less_than_it_has(tmp_path):
    """However large the compacted log is, compaction costs each commit the same."""
    async with workers(tmp_path) as world:
        (only,) = await world.start(1)
        shards = only.sharing._snapshots
        shard = shards._shards["__consumer_offsets-0"]
        await world.until(lambda: shard.is_held)
        assert await create_topic(only, "t") == 0
        assert not shards.is_due(shard)
        shards._tail_bytes = 0
        assert shards.is_due(shard)
        shard.snapshot_bytes = shard.log.size_bytes // 2 + 1
        assert not shards.is_due(shard)


@pytest.mark.usefixtures("short_leases")
async def test_a_worker_comes_back_when_its_engine_is_fit_again(world):
    """While the engine refuses beats, clients are refused; nothing needs a restart."""
    (only,) = await world.start(1)
    assert await create_topic(only, "t") == 0
    client = await only.client()
    assert await commit(client, "g", "t", 1) == 0
    beat, only.engine.beat = only.engine.beat, refused_beat
    await world.until(lambda: not only.shards)
    assert await fetch(client, "g", "t") == (ErrorCode.NOT_COORDINATOR, -1)
    only.engine.beat = beat
    await world.until(lambda: len(only.shards) == SHARDS)
    assert await fetch(client, "g", "t") == (0, 1)


async def refused_beat(_worker):
    raise EngineRefused("no standby is synchronous")


async def test_workers_that_start_at_the_same_moment_begin_one_cluster(world):
    """They agree on the cluster's id and on the ids of the internal topics, whoever is quicker."""
    started = [WorkerUnderTest(world, node_id, ("data.plane=none",)) for node_id in (1, 2, 3)]
    world.running = await asyncio.gather(*(worker.start() for worker in started))
    await world.until_spread()
    assert len({worker.server.cluster_id for worker in started}) == 1
    ids = {worker.server.topics.registry.topics["__consumer_offsets"].topic_id for worker in started}
    assert len(ids) == 1


def group_of(worker):
    """A group whose shard the worker has."""
    return next(name for name in map("group-{}".format, range(1000)) if is_at(worker, name))


def is_at(worker, group):
    """Whether the worker serves the shard of a group."""
    return worker.server.groups.shard_of(group).index in worker.shards


async def test_an_acl_holds_on_every_worker_whichever_created_it(world):
    settings = (
        "data.plane=none",
        f"authorizer.class.name={STANDARD_AUTHORIZER}",
        "super.users=User:ANONYMOUS",
    )
    first, second = await world.start(1, 2, settings=settings)

    def allowed():
        """The workers on which alice may read the group."""
        alice = Principal("User", "alice")
        authorizers = [each.server.authorizer for each in world.running]
        return [each.allows(alice, "127.0.0.1", READ_GROUP, "g") for each in authorizers]

    acl = CreateAclsRequest.AclCreation(3, "g", 3, "User:alice", "*", 3, 3)
    (created,) = (await (await first.client()).call("CreateAcls", 3, creations=[acl])).results
    assert created.error_code == ErrorCode.NONE
    await world.until(lambda: allowed() == [True, True])
    await world.start(3, settings=settings)
    await world.until(lambda: allowed() == [True, True, True])
    every = DeleteAclsRequest.DeleteAclsFilter(1, None, 1, None, None, 1, 1)
    (deleted,) = (await (await second.client()).call("DeleteAcls", 3, filters=[every])).filter_results
    assert len(deleted.matching_acls) == 1
    await world.until(lambda: allowed() == [False, False, False])


async def test_settings_that_one_worker_takes_change_the_timers_of_a_group_at_another(world):
    """A group rebalances at the interval that it has, whichever worker was asked to set it."""
    first, second = await world.start(1, 2)
    await world.until_spread()
    assert await create_topic(first, "t") == 0
    await world.until(lambda: "t" in second.server.topics.registry.topics)
    group = next(name for name in "abcdefgh" if first.server.groups.shard_of(name).index in first.shards)
    await (await first.client()).call(
        "ConsumerGroupHeartbeat",
        1,
        group_id=group,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    shard = first.server.groups.shard_of(group)
    without_interval = shard.timers_armed
    assert await set_interval(second, group, "60000") == 0
    await world.until(lambda: shard.timers_armed == without_interval + 1)
    assert await set_interval(second, group, None) == 0
    await world.until(lambda: shard.timers_armed == without_interval)


async def set_interval(worker: WorkerUnderTest, group: str, value: str | None) -> int:
    entry = IncrementalAlterConfigsRequest.AlterableConfig(
        REBALANCE_INTERVAL, ConfigOp.DELETE if value is None else ConfigOp.SET, value
    )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(group_configs.RESOURCE_TYPE, group, [entry])
    response = await (await worker.client()).call("IncrementalAlterConfigs", 1, resources=[resource])
    return response.responses[0].error_code


async def test_a_shard_that_nobody_has_is_looked_up_at_the_worker_that_takes_it(world, monkeypatch):
    """A client that gets no coordinator may give up: librdkafka's transactions do after three times, for ever."""
    monkeypatch.setattr(ownership, "DRAIN_S", 0.1)

    first, second, third = await world.start(1, 2, 3)
    await world.until_spread()
    groups = [name for name in map("group-{}".format, range(40)) if is_at(first, name)]
    for worker in (second, third):
        worker.engine.claim_all = never
    await world.stop(first)
    await world.until(lambda: all(len(each.sharing.cluster.living) == 2 for each in (second, third)))
    for group in groups:
        found = [await find(await worker.client(), group) for worker in (second, third)]
        assert [each.error_code for each in found] == [ErrorCode.NONE] * 2
        assert found[0].node_id == found[1].node_id
        assert found[0].node_id in {2, 3}


@pytest.mark.usefixtures("short_leases")
async def test_a_worker_that_has_no_engine_names_the_others_and_if_there_are_none_itself(world):
    first, second = await world.start(1, 2)
    await world.until_spread()
    await world.until(lambda: len(first.sharing.cluster.living) == 2)
    client, group = await first.client(), group_of(first)
    first.wire.is_cut = True
    await world.until(lambda: not first.shards)
    assert (await find(client, group)).node_id == 2
    first.wire.is_cut = False
    await world.stop(second)
    await world.until(lambda: len(first.shards) == SHARDS)
    first.wire.is_cut = True
    await world.until(lambda: not first.shards)
    found = await find(client, group)
    assert (found.error_code, found.node_id) == (ErrorCode.NONE, 1)


async def named(worker: WorkerUnderTest) -> list[int]:
    """The nodes that Metadata and DescribeCluster name."""
    client = await worker.client()
    metadata = await client.call("Metadata", 8, topics=[])
    described = await client.call("DescribeCluster", 0)
    client.close()
    nodes = [broker.node_id for broker in metadata.brokers]
    assert nodes == [broker.broker_id for broker in described.brokers]
    return nodes


@pytest.mark.usefixtures("short_leases")
async def test_a_worker_that_died_is_named_for_a_while_and_one_that_stopped_is_not(world, monkeypatch):
    """As a broker of Kafka is until `broker.session.timeout.ms` is over, or it says that it stops."""
    monkeypatch.setattr(ownership, "NAMED_MS", 60_000)

    first, second, third = await world.start(1, 2, 3)
    await world.until(lambda: len(first.sharing.cluster.living) == 3)
    second.wire.is_cut = True
    await world.until(lambda: len(first.sharing.cluster.living) == 2)
    assert await named(first) == [1, 2, 3]
    await world.stop(third)
    await world.until(lambda: len(first.sharing.cluster.living) == 1)
    assert await named(first) == [1, 2]
    monkeypatch.setattr(ownership, "NAMED_MS", 1)
    await world.until(lambda: not first.sharing.cluster.silent)
    assert await named(first) == [1]
    second.wire.is_cut = False
    await world.until(lambda: len(first.sharing.cluster.living) == 2)
    assert await named(first) == [1, 2]


async def test_a_worker_accepts_clients_when_it_knows_the_others(world, monkeypatch):
    """Metadata that left them out would make clients forget them."""
    see = ownership.Ownership._see

    (first,) = await world.start(1)
    second = WorkerUnderTest(world, 2, ("data.plane=none",))
    refused: list[bool] = []

    async def see_late(self):
        if self is second.sharing._ownership and not refused:
            with pytest.raises(ConnectionRefusedError):
                await second.client()
            refused.append(True)
        await see(self)

    monkeypatch.setattr(ownership.Ownership, "_see", see_late)
    world.running.append(await second.start())
    assert refused
    assert await named(second) == [1, 2]
    await world.until(lambda: len(first.sharing.cluster.living) == 2)


async def test_an_idle_worker_sends_nothing_but_beats(tmp_path):
    async with workers(tmp_path, EngineSettings(beat_timeout_ms=3_000)) as world:
        first, _ = await world.start(1, 2)
        statements: list[str] = []

        def noted(statement):
            statements.append(statement)
            return Delivery()

        first.wire.draw = noted
        await world.until(lambda: statements[-4:] == ["beat"] * 4)


async def test_the_metadata_log_of_a_dead_worker_is_released(world):
    """Whoever reads it would do so again and again, because the last append of the dead one may still arrive."""
    await world.start(1)
    world.store.claim(METADATA_FOLDER, ANOTHER, None)
    await world.until(lambda: world.store.owners()[METADATA_FOLDER].worker is None)


async def never(*_arguments, **_options):
    await asyncio.Event().wait()
