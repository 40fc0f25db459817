"""Views of groups show nothing that a crash could take back: as responses over the Kafka protocol, they wait for the log."""

import asyncio
from types import SimpleNamespace

import pytest

from coordinator.admin.api import GroupPage, WhichGroup, describe_group, list_groups
from coordinator.admin.endpoint import RefusedRequest
from coordinator.groups.classic_protocol import join_group
from coordinator.groups.settings import GroupsConfig
from coordinator.protocol.messages import JoinGroupRequest
from coordinator.runtime.router import Router
from tests.runtime.shard_world import ReplyTarget, ShardWorld

SESSION_MS = 10_000


def generations(shown):
    return [each["generation"] for each in shown.get("groups", [shown])]


@pytest.fixture
def world():
    return ShardWorld(config=GroupsConfig(group_initial_rebalance_delay_ms=0))


def view(world, path):
    server = SimpleNamespace(groups=Router([world.shard]), cluster_statistics=None, clock=world.clock, unknown=())
    if path == "groups":
        return list_groups(server, SimpleNamespace(query=GroupPage(), parameters={}))
    return describe_group(server, SimpleNamespace(query=WhichGroup(), parameters={"group_id": "g"}))


def join(world):
    """Forms the next generation of group g, which is not durable yet."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"")
    target = ReplyTarget(JoinGroupRequest("g", SESSION_MS, SESSION_MS, "", None, "consumer", [protocol]))
    target.api_version = 3
    world.shard.submit(join_group, target)
    world.advance(1)
    world.turn()
    return target


async def turns():
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("path", ["groups", "group"])
async def test_a_view_with_a_new_generation_waits_until_that_is_durable(world, path):
    target = join(world)
    shown = asyncio.ensure_future(view(world, path))
    await turns()
    assert (target.answers, shown.done()) == ([], False)
    world.settle()
    assert generations(await shown) == [1]
    assert target.answers[0].generation_id == 1


@pytest.mark.parametrize("path", ["groups", "group"])
async def test_a_view_of_what_was_lost_is_refused(world, path):
    join(world)
    shown = asyncio.ensure_future(view(world, path))
    await turns()
    world.disk.sync_errors.append(28)
    world.settle()
    with pytest.raises(RefusedRequest) as refused:
        await shown
    assert refused.value.status == 503


async def test_a_view_does_not_wait_for_what_is_written_after_it(world):
    join(world)
    world.settle()
    assert generations(await view(world, "group")) == [1]
