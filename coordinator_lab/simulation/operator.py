"""An operator who rebalances groups from outside: by admin HTTP at random moments, and by an interval that some groups get.

A rebalance that the server has acknowledged must happen, whatever crashes come in between (I30, history.py). When the world is
healed the operator turns the intervals off, because a group that rebalances again and again never stays converged.
"""

from collections.abc import Mapping
from urllib.parse import quote

from coordinator.groups.force_rebalance import CAUSE
from coordinator.groups.group_configs import REBALANCE_INTERVAL, RESOURCE_TYPE
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import IncrementalAlterConfigsRequest
from coordinator_lab.simulation.admin_http import admin_request
from coordinator_lab.simulation.clients import RETRIABLE_CHANGE, Client, World
from coordinator_lab.simulation.history import FORCED
from coordinator_lab.simulation.wire import NoResponse

STATUSES = (200, 404, 409, 503)
"""The HTTP statuses that the operator may receive: done, no such group, no members, the coordinator is not available."""
PAUSE_S_MAX = 30.0
"""Its longest pause. When the world is healed it must wake up and be done before the bound of convergence (I12)."""
GIVEN_UP_S = 10.0
"""In this time a worker has made or refused each change that it was asked for."""
_SET, _DELETE = 0, 1


class Operator(Client):
    """Rebalances groups."""

    def __init__(self, world: World, name: str, groups: Mapping[str, bool]) -> None:
        """`groups`: id -> whether its epochs only grow; those of an empty group that changes its kind start over."""
        super().__init__(world, name)
        self.groups = groups
        self.intervals: dict[str, str | None] = {
            group_id: str(world.plan.rebalance_interval_ms)
            for group_id in groups
            if world.plan.rebalance_interval_ms and self.random.random() < 0.5
        }
        """Group id -> the interval that the group still must get; None: none of its own."""
        self.is_done = False
        """Whether no group has an interval any more."""
        self.forced = 0
        """Rebalances that the server acknowledged."""

    async def run(self) -> None:
        has_interval = list(self.intervals)
        while not self.world.is_healed:
            pause_s = self.random.expovariate(1 / (self.world.plan.forced_s or 5.0))
            await self.world.sleep(min(pause_s, PAUSE_S_MAX))
            await self._set_intervals()
            if self.world.plan.forced_s and self.groups and not self.world.is_healed:
                await self._force(self.random.choice(list(self.groups)))
        if self.intervals and self.world.plan.workers:
            # A worker that waits for the engine may still make a change whose answer was not awaited.
            await self.world.sleep(GIVEN_UP_S)
        self.intervals = dict.fromkeys(has_interval)
        while self.intervals:
            await self._set_intervals()
            await self.world.sleep(0.5)
        self.is_done = True

    async def _set_intervals(self) -> None:
        """Changes the intervals of groups; those that were not changed for certain stay to do."""
        config = IncrementalAlterConfigsRequest.AlterableConfig
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        for group_id, value in list(self.intervals.items()):
            entry = config(REBALANCE_INTERVAL, _DELETE if value is None else _SET, value)
            request = IncrementalAlterConfigsRequest([resource(RESOURCE_TYPE, group_id, [entry])])
            try:
                code = (await self.call(request, 1)).responses[0].error_code
            except NoResponse:
                return
            if code == ErrorCode.NONE:
                del self.intervals[group_id]
            elif code not in RETRIABLE_CHANGE:
                self.unexpected("IncrementalAlterConfigs", code)

    async def _force(self, group_id: str) -> None:
        asked = self.world.history.tick()
        try:
            body = {"reason": f"{self.name} tests: {CAUSE}"}
            status, answer = await admin_request(
                self.caller, "POST", f"/v1/groups/{quote(group_id, safe='')}/rebalance", body
            )
        except NoResponse:
            return
        self.world.event(f"{self.name} forces {group_id}: {status} {answer}")
        if status not in STATUSES:
            self.world.broken(FORCED, f"{group_id}: HTTP status {status}: {answer}")
        elif status == 200 and answer["started"]:
            self.forced += 1
            if self.groups[group_id]:
                self.world.history.rebalance_acknowledged(group_id, answer["epoch"], asked)
