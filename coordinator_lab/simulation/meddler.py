"""A tester who acts on groups from outside, by admin HTTP at random moments: evicts, ends sessions, raises epochs, fails over.

What the server has acknowledged must hold, whatever crashes come in between: an epoch that was raised stays (as for I30), and a
member of a classic group that was removed is not accepted again under its member id (I9). A failover looks to every client like
a broker that is slow for a moment; all other invariants say so.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from coordinator_lab.simulation.admin_http import admin_request
from coordinator_lab.simulation.clients import Client, World
from coordinator_lab.simulation.history import FORCED
from coordinator_lab.simulation.wire import NoResponse

STATUSES = (200, 404, 409, 503)
"""Done; no such group or member; not in this state; the coordinator is not available."""
HELD_MS = (0, 0, 300, 2_000)
"""For how long a shard that fails over is loading."""


class Meddler(Client):
    """Acts on groups, and on the shards of groups and transactions."""

    def __init__(self, world: World, name: str, groups: Mapping[str, bool], transactional_ids: list[str]) -> None:
        """`groups`: id -> whether its epochs only grow; those of an empty group that changes its kind start over."""
        super().__init__(world, name)
        self.groups = groups
        self.transactional_ids = transactional_ids
        self.acts = 0
        """Acts that the server acknowledged."""

    async def run(self) -> None:
        while not self.world.is_healed:
            await self.world.sleep(self.random.expovariate(1 / self.world.plan.acts_s))
            if self.world.is_healed or not self.groups:
                return
            group_id = self.random.choice(list(self.groups))
            try:
                await self.random.choice([self._remove, self._remove, self._bump, self._fail_over])(group_id)
            except NoResponse:
                continue

    async def _remove(self, group_id: str) -> None:
        status, view = await admin_request(self.caller, "GET", _path(group_id))
        if status != 200 or not view.get("members"):  # a simple group has none
            return
        member_id = self.random.choice(view["members"])["member_id"]
        how = self.random.choice(["evict", "expire-session"])
        asked = self.world.history.tick()
        if await self._act(_path(group_id, "members", member_id, how)) is not None and view["kind"] == "classic":
            self.world.history.member_removed(group_id, member_id, asked)

    async def _bump(self, group_id: str) -> None:
        asked = self.world.history.tick()
        answer = await self._act(_path(group_id, "bump-epoch"))
        if answer is not None and self.groups[group_id]:
            self.world.history.rebalance_acknowledged(group_id, answer["epoch"], asked)

    async def _fail_over(self, group_id: str) -> None:
        path = _path(group_id, "reload")
        if self.transactional_ids and self.random.random() < 0.5:
            path = f"/v1/transactions/{self.random.choice(self.transactional_ids)}/reload"
        held_ms = self.random.choice(HELD_MS)
        if held_ms:
            self.world.history.shards_are_held = True
        await self._act(path, {"for_ms": held_ms})

    async def _act(self, path: str, body: Any = None) -> Any:
        """The answer; None if the act was refused. Raises NoResponse."""
        status, answer = await admin_request(self.caller, "POST", path, body or {})
        self.world.event(f"{self.name} {path}: {status} {answer}")
        if status not in STATUSES:
            self.world.broken(FORCED, f"{path}: HTTP status {status}: {answer}")
        if status != 200:
            return None
        self.acts += 1
        return answer


def _path(group_id: str, *rest: str) -> str:
    return "/".join(("/v1/groups", *(quote(each, safe="") for each in (group_id, *rest))))
