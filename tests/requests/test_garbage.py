"""An answered Fetch leaves no cyclic garbage: the collector would need hundreds of milliseconds for a few large ones."""

import gc
from contextlib import contextmanager

import pytest

from coordinator.protocol.messages import FetchRequest
from tests.requests.guarded_world import ALL, server
from tests.rules.world import running
from tests.support.permitting import ANY_NAME

OPENS, ENDS = 0, -1
AT_ONCE, AFTER_A_WAIT = {"max_wait_ms": 0}, {"max_wait_ms": 20, "min_bytes": 1}


@pytest.fixture(params=["unguarded", "guarded"])
async def world(tmp_path, request):
    if request.param == "unguarded":
        async with running(tmp_path) as world:
            yield world
        return
    async with server(tmp_path) as world:
        for access in ALL:
            world.permits.allow(access, ANY_NAME)
        yield world


@contextmanager
def no_garbage():
    """Fails if objects of the server are left that only the collector can free."""
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = {f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert {kind for kind in kinds if kind.startswith("coordinator.")} == set()


def fetch(*partitions, **fields):
    asked = [FetchRequest.FetchPartition(each, partition_max_bytes=10_000) for each in partitions]
    topics = [FetchRequest.FetchTopic("orders", partitions=asked)] if asked else []
    return FetchRequest(**fields, topics=topics)


@pytest.mark.parametrize("waits", [AT_ONCE, AFTER_A_WAIT])
async def test_a_full_fetch_leaves_no_garbage(world, waits):
    client = await world.client()
    await client.call("Fetch", 12, fetch(0, 1, session_epoch=ENDS, **waits))
    with no_garbage():
        response = await client.call("Fetch", 12, fetch(0, 1, session_epoch=ENDS, **waits))
        assert len(response.responses[0].partitions) == 2


@pytest.mark.parametrize("waits", [AT_ONCE, AFTER_A_WAIT])
async def test_a_fetch_session_leaves_no_garbage(world, waits):
    client = await world.client()
    with no_garbage():
        session = (await client.call("Fetch", 12, fetch(0, 1, session_epoch=OPENS, **AT_ONCE))).session_id
        assert session
        for epoch in (1, 2, ENDS):
            given = await client.call("Fetch", 12, fetch(session_id=session, session_epoch=epoch, **waits))
            assert given.error_code == 0


async def test_a_fetch_whose_connection_closes_leaves_no_garbage(world):
    client, gone = await world.client(), await world.client()
    with no_garbage():
        gone.send("Fetch", 12, fetch(0, 1, session_epoch=ENDS, max_wait_ms=60_000, min_bytes=1))
        await gone.silent()
        gone.close()
        await client.silent()


async def test_a_fetch_that_a_rule_delays_leaves_no_garbage(world):
    client = await world.client()
    world.fault({"api": "Fetch"}, {"delay_ms": 5, "when": "after"}, until="cleared")
    await client.call("Fetch", 12, fetch(0, session_epoch=ENDS, **AFTER_A_WAIT))
    with no_garbage():
        await client.call("Fetch", 12, fetch(0, session_epoch=ENDS, **AFTER_A_WAIT))
