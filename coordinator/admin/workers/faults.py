"""Fault rules on every worker. What they matched, did and hold is counted together (world/shared_count.py)."""

import asyncio
from collections.abc import Sequence

from msgspec import json, structs

from coordinator.admin.endpoint import Request
from coordinator.admin.faults import scope_to_clear
from coordinator.admin.workers.asking import Ask, Workers
from coordinator.admin.workers.on_all import OnAll, first_of
from coordinator.rules.model import Cleared, FaultList, FaultStatus, Released, Rule

PATH = "/v1/faults"
AGAIN_S = 0.05


def ends(rule: Rule) -> bool:
    """Whether a rule may have been used up at a worker that has ended, which counted it alone."""
    return rule.extent.for_ms is not None or (rule.match.per is not None and rule.extent.times_max is not None)


class FaultsOnAll:
    """The rules, and the handlers of their endpoints."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self.rules = OnAll(workers, PATH, "f", ends)

    async def set(self, request: Request) -> FaultStatus:
        return json.decode(json.encode(await self.rules.add(request)), type=FaultStatus)

    async def listed(self, request: Request) -> FaultList:
        found = await self.rules.listed(FaultList, "faults")
        return FaultList([self._total(each, found.get(each, [])) for each in self.rules.of_scope(request.query.scope)])

    async def clear(self, request: Request) -> Cleared:
        """Clears the rules of a scope, or all."""
        return Cleared(await self.rules.remove(self.rules.of_scope(scope_to_clear(request))))

    async def clear_one(self, request: Request) -> Cleared:
        fault_id = request.parameters["fault_id"]
        self.rules.body(fault_id)
        return Cleared(await self.rules.remove([fault_id]))

    async def view(self, request: Request) -> FaultStatus:
        """A rule, now or when all workers together have what was asked."""
        fault_id, until = request.parameters["fault_id"], request.query.until
        loop = asyncio.get_running_loop()
        until_s = loop.time() + request.query.timeout_ms / 1000
        self.rules.body(fault_id)
        while True:
            each = await self._each(fault_id)
            status = self._total(fault_id, list(each.values()))
            if until is None:
                return status
            kind, _, wanted = until.partition(":")
            is_reached = getattr(status, kind) >= int(wanted)
            left_s = until_s - loop.time()
            if is_reached or left_s <= 0:
                return structs.replace(status, reached=is_reached)
            waits = [
                self._workers.ask(number, _until(fault_id, f"{kind}:{getattr(own, kind) + 1}", left_s), left_s + 1)
                for number, own in each.items()
            ]
            await first_of(waits, left_s)
            await asyncio.sleep(AGAIN_S)
            if not self.rules.has(fault_id):
                return structs.replace(status, active=False, held=0, reached=False)

    async def release(self, request: Request) -> Released:
        """Lets what the rule holds go on; of several workers, the first one's before."""
        fault_id, left = request.parameters["fault_id"], request.body.count
        self.rules.body(fault_id)
        released = 0
        for number in await self._each(fault_id):
            if left is not None and released >= left:
                break
            body = b"{}" if left is None else json.encode({"count": left - released})
            answer = await self._workers.ask(number, Ask("POST", f"{PATH}/{fault_id}/release", body))
            released += answer.json().get("released", 0)
        return Released(released)

    async def _each(self, fault_id: str) -> dict[int, FaultStatus]:
        """The status at each worker that has it."""
        answers = await self.rules.ask_each(fault_id)
        return {number: json.decode(answer.body, type=FaultStatus) for number, answer in answers}

    def _total(self, fault_id: str, found: Sequence[FaultStatus]) -> FaultStatus:
        return FaultStatus(
            fault_id,
            self.rules.body(fault_id),
            matched=sum(status.matched for status in found),
            acted=sum(status.acted for status in found),
            held=sum(status.held for status in found),
            active=any(status.active for status in found),
            notice=found[0].notice if found else None,
        )


def _until(fault_id: str, until: str, left_s: float) -> Ask:
    return Ask("GET", f"{PATH}/{fault_id}?until={until}&timeout_ms={max(1, round(left_s * 1000))}")
