"""Admin HTTP of a worker: about groups that another one has it says where they are."""

import asyncio
import json
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.cluster.workers.world import SHARDS, WITHIN_S, WorkerUnderTest, commit, create_topic, fetch, workers


async def asked(worker, method, path, body=None):
    """Status and JSON of the answer."""

    def ask():
        content = None if body is None else json.dumps(body).encode()
        request = Request(worker.admin + path, content, {"Content-Type": "application/json"}, method=method)
        try:
            with urlopen(request, timeout=20) as response:
                return response.status, json.load(response)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)

    return await asyncio.get_running_loop().run_in_executor(None, ask)


async def groups_of_two(world):
    """Two workers, and a group of each."""
    first, second = await world.start(1, 2, settings=("data.plane=none", "admin.control.enable=true"))
    await world.until_spread()
    assert await create_topic(first, "t") == 0
    await world.until(lambda: "t" in second.server.topics.registry.topics)
    names = [f"group-{number}" for number in range(100)]
    found = []
    for worker in (first, second):
        found.append(next(name for name in names if worker.server.groups.shard_of(name).index in worker.shards))
        assert await commit(await worker.client(), found[-1], "t", 7) == 0
    return first, second, *found


PATHS = [
    ("GET", "/v1/groups/{}", None),
    ("GET", "/v1/groups/{}?at=0", None),
    ("GET", "/v1/groups/{}?diff=0,1", None),
    ("GET", "/v1/groups/{}?until=state:Stable&timeout_ms=10", None),
    ("POST", "/v1/groups/{}/rebalance", {"reason": "a test"}),
    ("POST", "/v1/groups/{}/members/m/expire-session", None),
    ("POST", "/v1/groups/{}/offsets/expire", {}),
    ("POST", "/v1/groups/{}/reload", {}),
]


async def test_what_is_asked_about_a_group_of_another_worker_is_answered_with_the_worker(world):
    """421 and its node id and address; the worker itself answers, and while none has the group it is 503."""
    first, second, here, there = await groups_of_two(world)
    host, port = second.server.listeners[0].bound
    shard = first.server.groups.shard_of(there).index
    at = f"ask its admin HTTP at {second.admin}; clients reach it at {host}:{port}"
    elsewhere = f"node 2 has __consumer_offsets-{shard}: {at}"
    for method, path, body in PATHS:
        status, answer = await asked(first, method, path.format(there), body)
        assert (status, answer["detail"]) == (421, elsewhere), path
        status, answer = await asked(first, method, path.format(here), body)
        assert status not in {421, 503}, path
    looking = asyncio.Event()
    first.engine.owners = lambda: unanswered(looking)
    world.store.notify()  # a worker asks the engine only when something may have changed
    await asyncio.wait_for(looking.wait(), WITHIN_S)
    first.sharing.cluster.owners = {}
    nowhere = f"no worker has __consumer_offsets-{shard} at the moment: try again"
    for method, path, body in PATHS:
        status, answer = await asked(first, method, path.format(there), body)
        assert (status, answer["detail"]) == (503, nowhere), path


async def unanswered(asked):
    asked.set()
    await asyncio.Event().wait()


async def test_lists_say_that_they_are_of_one_worker(world):
    """Together they have every group once."""
    first, second, here, there = await groups_of_two(world)
    for worker, group in ((first, here), (second, there)):
        status, listed = await asked(worker, "GET", "/v1/groups")
        assert status == 200
        assert [each["group_id"] for each in listed["groups"]] == [group]
        assert listed["of_worker"] == {
            "node_id": worker.node_id, "shards": len(worker.shards), "shards_of_all": SHARDS,
        }  # fmt: skip
        status, listed = await asked(worker, "GET", "/v1/transactions")
        assert (status, listed["transactions"]) == (200, [])
        assert listed["of_worker"]["shards_of_all"] == SHARDS + 1


async def test_a_transactional_id_of_another_worker_is_answered_with_the_worker(tmp_path):
    async with workers(tmp_path) as world:
        first, second = await world.start(1, 2, settings=("data.plane=none", "admin.control.enable=true"))
        await world.until_spread()
        transactions = first.server.transactions
        there = next(
            name
            for name in map("id-{}".format, range(100))
            if world.owner_of_transactions(transactions.shard_of(name).index) is second
        )
        log = f"__transaction_state-{transactions.shard_of(there).index}"
        await world.until(lambda: first.sharing.cluster.owner_of(log) is not None)
        for method, path in (("GET", ""), ("POST", "/expire"), ("POST", "/reload")):
            body = None if method == "GET" else {}
            status, answer = await asked(first, method, f"/v1/transactions/{there}{path}", body)
            assert (status, answer["detail"][:6]) == (421, "node 2"), answer


@pytest.mark.usefixtures("short_leases")
async def test_a_wait_for_a_group_ends_when_the_group_moves(world):
    first, _, here, _ = await groups_of_two(world)
    waiting = asyncio.create_task(asked(first, "GET", f"/v1/groups/{here}?until=state:Stable&timeout_ms=60000"))
    shard = first.server.groups.shard_of(here)
    await world.until(lambda: bool(shard.watchers))
    first.wire.is_cut = True
    status, _ = await waiting
    assert status in {421, 503}
    first.wire.is_cut = False


@pytest.mark.usefixtures("short_leases")
async def test_a_worker_shows_how_far_its_replays_are_behind(world):
    """While it reads the tail of another's logs they count; when it serves them nothing is behind."""
    first, second, _, there = await groups_of_two(world)
    shard = first.server.groups.shard_of(there).index
    read, goes_on = first.engine.read, asyncio.Event()

    async def slow_read(log, claim=None):
        if claim is not None:
            await goes_on.wait()
        async for each in read(log, claim):
            yield each

    async def shown():
        _, answer = await asked(first, "GET", "/v1/workers")
        worker = answer["workers"][0]
        return worker["shards_replaying"], worker["pieces_to_replay"]

    assert await shown() == (0, 0)
    first.engine.read = slow_read
    second.wire.is_cut = True
    await world.until(lambda: first.server.groups.shards[shard].awaits_log)
    shards, pieces = await shown()
    assert shards >= 1
    assert pieces >= 1
    goes_on.set()
    async with asyncio.timeout(WITHIN_S):
        while await shown() != (0, 0):  # noqa: ASYNC110 - transactions have shards, too
            await asyncio.sleep(0.01)
    assert len(first.shards) == SHARDS
    second.wire.is_cut = False


async def test_any_worker_lists_all_with_their_shards_and_where_to_ask_them(world):
    """Of the others it knows what the engine says."""
    first, second, _, _ = await groups_of_two(world)
    for worker, other in ((first, second), (second, first)):
        status, answer = await asked(worker, "GET", "/v1/workers")
        assert (status, answer["not_served"]) == (200, [])
        assert [each["number"] for each in answer["workers"]] == [1, 2]
        own, its = sorted(answer["workers"], key=lambda each: each["number"] != worker.node_id)
        assert (own["admin"], its["admin"], its["take_overs"]) == (None, other.admin, None)
        _, said = await asked(other, "GET", "/v1/workers")
        assert its["shards"] == next(each["shards"] for each in said["workers"] if each["number"] == other.node_id)
        assert {f"__consumer_offsets-{index}" for index in other.shards} <= set(its["shards"])


async def test_a_worker_whose_admin_http_listens_everywhere_names_the_host_for_clients(world):
    worker = WorkerUnderTest(world, 1, ("data.plane=none", "admin.anonymous=read"), "worker-1:9092", "0.0.0.0:0")
    world.running.append(await worker.start())
    port = worker.admin.rpartition(":")[2]
    assert worker.sharing.worker.admin == f"http://worker-1:{port}"


async def test_a_drained_worker_gives_its_shards_to_the_others_until_it_resumes(world):
    """Clients are served all the time, the last worker cannot be drained, and a worker answers for itself only."""
    first, second, _, there = await groups_of_two(world)
    for number, refused in ((1, 421), (3, 404)):
        status, answer = await asked(second, "POST", f"/v1/workers/{number}/drain", {})
        assert status == refused
        assert (f"ask its admin HTTP at {first.admin}" in answer["detail"]) == (refused == 421)
    status, drained = await asked(second, "POST", "/v1/workers/2/drain", {})
    assert (status, drained["leaving"]) == (200, True)
    await world.until(lambda: len(first.shards) == SHARDS and not second.shards)
    error, offset = await fetch(await first.client(), there, "t")
    assert (error, offset) == (0, 7)
    status, _ = await asked(second, "POST", "/v1/workers/2/resume", {})
    assert status == 200
    await world.until_spread()
    await world.stop(second)
    await world.until(lambda: len(first.sharing.cluster.living) == 1)
    status, refused = await asked(first, "POST", "/v1/workers/1/drain", {})
    assert (status, refused["detail"]) == (409, "there is no other worker that could take the shards")


async def test_a_shard_is_moved_in_exchange_for_another(world):
    """Again and again, to either worker; its clients find what they committed."""
    first, second, _, there = await groups_of_two(world)
    shares = sorted(len(each.shards) for each in world.running)
    index = second.server.groups.shard_of(there).index
    for number, worker in ((1, first), (2, second), (1, first)):
        status, _ = await asked(worker, "POST", f"/v1/workers/{number}/move", {"shard": f"__consumer_offsets-{index}"})
        assert status == 200
        await world.until(lambda: world.owner(index) is worker)  # noqa: B023 - it ends before the next round
        await world.until_spread()
        assert world.owner(index) is worker
        assert sorted(len(each.shards) for each in world.running) == shares
        assert await fetch(await worker.client(), there, "t") == (0, 7)
    status, refused = await asked(first, "POST", "/v1/workers/1/move", {"shard": "cluster-id"})
    assert (status, refused["detail"]) == (404, "there is no shard cluster-id")
