"""Views of groups show nothing that a crash could take back: as responses over the Kafka protocol, they wait for the log."""

import asyncio
from types import SimpleNamespace

import pytest

from coordinator.admin.acting import ActReason, evict
from coordinator.admin.api import GroupPage, WhichGroup, describe_group, list_groups
from coordinator.admin.endpoint import RefusedRequest
from coordinator.groups.classic_protocol import join_group
from coordinator.groups.settings import GroupsConfig
from coordinator.groups.share.initialized import Initialized
from coordinator.groups.share.offsets import Alteration, begin_alteration
from coordinator.protocol.messages import JoinGroupRequest
from coordinator.runtime.internal_request import InternalRequest
from coordinator.runtime.router import Router
from tests.runtime.shard_world import TOPIC_ID, ReplyTarget, ShardWorld

SESSION_MS = 10_000


def generations(shown):
    return [each["generation"] for each in shown.get("groups", [shown])]


@pytest.fixture
def world():
    return ShardWorld(config=GroupsConfig(group_initial_rebalance_delay_ms=0))


class Server(SimpleNamespace):
    """What the views use of a server, which is a key of a dictionary with weak keys."""

    __hash__ = object.__hash__


def view(world, path, share_states=()):
    states = SimpleNamespace(router=SimpleNamespace(shards=share_states))
    groups = Router([world.shard])
    server = Server(groups=groups, share_states=states, cluster_statistics=None, clock=world.clock, unknown=())
    if path == "evict":
        [member_id] = world.shard.state.by_id["g"].members
        named = {"group_id": "g", "member_id": member_id}
        return evict(server, SimpleNamespace(body=ActReason(), parameters=named, asked_by="a test"))
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


async def test_an_act_shows_nothing_newer_that_a_crash_could_take_back(world):
    join(world)
    world.settle()
    acted = asyncio.ensure_future(view(world, "evict"))
    await turns()
    world.settle()
    join(world)
    await turns()
    assert not acted.done()
    world.settle()
    assert (await acted).epoch == world.shard.state.by_id["g"].epoch


@pytest.mark.parametrize("path", ["groups", "group"])
async def test_a_view_of_a_share_group_waits_until_the_states_of_its_partitions_are_durable(world, path):
    world.shard.submit(
        begin_alteration,
        InternalRequest(Alteration("g", {TOPIC_ID: Initialized("t", frozenset({0}))}), lambda _reply: None),
    )
    world.settle()
    states = ShardWorld(config=GroupsConfig(group_initial_rebalance_delay_ms=0))
    join(states)
    shown = asyncio.ensure_future(view(world, path, [states.shard]))
    await turns()
    assert not shown.done()
    states.settle()
    assert generations(await shown) == [world.shard.state.by_id["g"].epoch]
