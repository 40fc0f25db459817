"""Transactions whose coordinator and group are at different workers."""

import pytest

from coordinator.protocol.errors import ErrorCode
from tests.cluster.workers.world import (
    ADDS_ITSELF,
    begin,
    commit_in,
    end,
    eventually,
    fetch,
    topic_and_names_apart,
)


@pytest.mark.parametrize("version", [4, ADDS_ITSELF])
@pytest.mark.parametrize(("committed", "found"), [(True, 7), (False, -1)])
async def test_offsets_of_a_group_elsewhere_follow_the_transaction(world, version, committed, found):
    """The group's worker asks the coordinator of the transaction, which sends it the marker."""
    await world.start(1, 2, 3)
    name, coordinator, group_owner = await topic_and_names_apart(world)
    client, group = await coordinator.client(), await group_owner.client()
    producer = await begin(client, name)
    if version < ADDS_ITSELF:
        assert await commit_in(group, version, name, producer, 7) == ErrorCode.TRANSACTION_ABORTABLE
        added = await client.call(
            "AddOffsetsToTxn", 3, transactional_id=name, producer_id=producer[0], producer_epoch=producer[1],
            group_id=name,
        )  # fmt: skip
        assert added.error_code == 0
    assert await commit_in(group, version, name, producer, 7) == 0
    assert await fetch(group, name, "t") == (0, -1)
    assert await end(client, 3 if version < ADDS_ITSELF else 5, name, producer, committed=committed) == 0
    shard = group_owner.server.groups.shard_of(name)
    await world.until(lambda: not shard.state.offsets.pending.by_producer)
    assert await fetch(group, name, "t") == (0, found)


@pytest.mark.usefixtures("short_leases")
async def test_a_transaction_ends_though_its_coordinator_dies_before_the_marker(world):
    """The decision is in the engine: whoever takes the shard over delivers the marker."""
    await world.start(1, 2, 3)
    name, coordinator, group_owner = await topic_and_names_apart(world)
    client, group = await coordinator.client(), await group_owner.client()
    producer = await begin(client, name)
    assert await commit_in(group, ADDS_ITSELF, name, producer, 7) == 0
    coordinator.server.markers.elsewhere = lambda *_: None
    assert await end(client, 5, name, producer, committed=True) == 0
    coordinator.wire.is_cut = True
    await eventually(lambda: fetch(group, name, "t"), (0, -1))
    await world.until(lambda: not group_owner.server.groups.shard_of(name).state.offsets.pending.by_producer)
    assert await fetch(group, name, "t") == (0, 7)
