"""Groups that come and go leave nothing behind in memory, although their sessions would have lasted longer."""

import gc
from collections import Counter

from coordinator.groups.classic_protocol import join_group, leave_group, sync_group
from coordinator.groups.delete_groups import delete_groups
from coordinator.groups.settings import GroupsConfig
from coordinator.protocol.messages import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from tests.runtime.shard_world import ReplyTarget, ShardWorld

SESSION_MS = 300_000


def ask(world, operation, request, api_version):
    target = ReplyTarget(request)
    target.api_version = api_version
    world.shard.submit(operation, target)
    world.settle()
    (answer,) = target.answers
    return answer


def live(world, group):
    """A member joins the group, gets its assignment and leaves; the group is deleted."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"")
    join = JoinGroupRequest(group, SESSION_MS, SESSION_MS, "", None, "consumer", [protocol])
    target = ReplyTarget(join)
    target.api_version = 3
    world.shard.submit(join_group, target)
    world.advance(1)
    world.settle()
    (joined,) = target.answers
    ask(world, sync_group, SyncGroupRequest(group, joined.generation_id, joined.member_id), 2)
    ask(world, leave_group, LeaveGroupRequest(group, joined.member_id), 0)
    assert ask(world, delete_groups, [group], 2).results[0].error_code == 0


def kept_objects():
    gc.collect()
    kinds = Counter(f"{type(each).__module__}.{type(each).__name__}" for each in gc.get_objects())
    return Counter({kind: count for kind, count in kinds.items() if kind.startswith("coordinator.")})


def test_as_many_objects_live_after_many_groups_joined_and_were_deleted_as_before():
    world = ShardWorld(config=GroupsConfig(group_initial_rebalance_delay_ms=0))
    for number in range(100):
        live(world, f"early-{number}")
    world.facts.clear()
    before = kept_objects()
    for number in range(400):
        live(world, f"late-{number}")
    world.facts.clear()
    more = {kind: count for kind, count in (kept_objects() - before).items() if count > 100}
    assert not more
    assert world.shard.timers_armed == 1, "the expiry of offsets"
