"""Waits until a group is in a certain state: `GET /v1/groups/{group}?until=state:Stable,members:3,epoch:4&timeout_ms=`.

A waiter looks again after each change of the group's shard, and when the loads of the shard end. The state that it has found is
reported when it is durable.
"""

import asyncio
from typing import Any, NamedTuple

from coordinator.admin.endpoint import RefusedRequest
from coordinator.admin.group_command import are_durable, shown
from coordinator.admin.group_view import DEAD, absent_view, group_view, shards_of_view
from coordinator.admin.located import group_shard
from coordinator.admin.server_view import ServerView
from coordinator.groups.classic.states import State as ClassicState
from coordinator.groups.consumer.group import State as ConsumerState
from coordinator.groups.group import Group
from coordinator.groups.share.group import State as ShareState
from coordinator.groups.streams.group import State as StreamsState
from coordinator.runtime.shard import Shard, Status

WAITERS_MAX = 1_000
"""Requests that may wait for groups of one shard at the same time."""
STATES = sorted(
    {DEAD, *(each.value for kind in (ClassicState, ConsumerState, StreamsState, ShareState) for each in kind)}
)
UNTIL_NAMES = ["epoch", "generation", "members", "state"]


class Wanted(NamedTuple):
    """What a waiter waits for; None: anything."""

    state: str | None = None
    members: int | None = None
    epoch: int | None = None
    """This generation or group epoch, or a later one."""

    def matches(self, group: Group | None) -> bool:
        if group is None:
            return self.state == DEAD and not self.members and self.epoch is None
        return (
            self.state in (None, group.state.value)
            and self.members in (None, len(group.members))
            and (self.epoch is None or group.epoch >= self.epoch)
        )


def parse_until(text: str) -> Wanted:
    """`state:Stable,members:3,epoch:4`; `generation` means `epoch`. Raises RefusedRequest: 422."""
    fields: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition(":")
        name = "epoch" if name == "generation" else name
        if name not in Wanted._fields or name in fields:
            raise RefusedRequest(422, f"until: {part!r} must be NAME:VALUE, each name once", UNTIL_NAMES)
        if name == "state" and value not in STATES:
            raise RefusedRequest(422, f"until: there is no state {value!r}", STATES)
        if name != "state" and not (value.isascii() and value.isdecimal() and len(value) < 10):
            raise RefusedRequest(422, f"until: {name} must be a number, not {value!r}")
        fields[name] = value if name == "state" else int(value)
    return Wanted(**fields)


async def wait_for(server: ServerView, group_id: str, wanted: Wanted, timeout_ms: int) -> dict[str, Any]:
    """The group with `reached`: as soon as it is as wanted, else when the time is over.

    Raises RefusedRequest: 421 another worker has it, also if it gets it meanwhile; 503 none has it, or too many wait already.
    """
    shard = group_shard(server, group_id)
    changed = asyncio.Event()
    if len(shard.watchers) >= WAITERS_MAX:
        raise RefusedRequest(503, f"{WAITERS_MAX} requests wait for groups of this shard already: try again")
    unwatch = shard.watch(changed.set)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            while True:
                changed.clear()
                group_shard(server, group_id)
                if shard.status is not Status.LOADING and wanted.matches(shard.state.by_id.get(group_id)):
                    found = _view(server, shard, group_id)
                    if await are_durable(shards_of_view(server, shard, group_id)):
                        return found | {"reached": True}
                    continue
                await changed.wait()
    except TimeoutError:
        group_shard(server, group_id)
        shards = shards_of_view(server, shard, group_id)
        return await shown(shards, lambda: _view(server, shard, group_id)) | {"reached": False}
    finally:
        unwatch()


def _view(server: ServerView, shard: Shard[Any], group_id: str) -> dict[str, Any]:
    return group_view(server, shard.state, group_id) if group_id in shard.state.by_id else absent_view(group_id)
