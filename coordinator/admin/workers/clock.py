"""The clock of every worker at once.

Each worker fires its own timers in order, and settles what they caused; between the timers of different workers there is no
order. A worker that is restarted while the clocks stand still gets a clock that does, too, with the wall time of another.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, json

from coordinator.admin.clock import FIRED_MAX, ClockView
from coordinator.admin.endpoint import RefusedRequest, Request
from coordinator.admin.workers.asking import Ask, NotAnswered, NotAsked, Workers

PATH = "/v1/clock"


class ClockOfAll:
    """The clocks, and the handlers of their endpoints."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._is_manual = False
        self._moving = asyncio.Lock()

    async def read(self) -> ClockView:
        """What the clocks say together."""
        return _together(await self._ask(Ask("GET", PATH)))

    async def change(self, request: Request) -> ClockView:
        """Stops, starts or advances all clocks. Raises RefusedRequest: as a worker does; 503 one does not answer."""
        change = request.body
        async with self._moving:
            body = json.encode(change)
            if change.advance_to is not UNSET:
                body = json.encode({"advance_ms": _until_next(await self._ask(Ask("GET", PATH)))})
            within_s = 2 * self._workers.answers_within_s
            view = _together(await self._ask(Ask("POST", PATH, body), within_s))
            self._is_manual = view.mode == "manual"
        return view

    async def worker_ready(self, number: int) -> None:
        """Stops the clock of a new worker if those of the others stand still."""
        async with self._moving:
            if not self._is_manual:
                return
            stopped = [view for view in (await self._ask(Ask("GET", PATH))).values() if view.mode == "manual"]
            if stopped:
                for change in ({"mode": "manual"}, {"wall_ms": stopped[0].wall_ms}):
                    await self._workers.ask(number, Ask("POST", PATH, json.encode(change)))

    async def _ask(self, ask: Ask, within_s: float | None = None) -> Mapping[int, ClockView]:
        numbers = self._workers.ready
        if not numbers:
            raise RefusedRequest(503, "no worker is ready: try again")
        try:
            answers = await asyncio.gather(*(self._workers.ask(number, ask, within_s) for number in numbers))
        except (NotAsked, NotAnswered) as error:
            raise RefusedRequest(503, f"{error}; the clocks of the workers may differ") from None
        refused = next((answer for answer in answers if answer.status != 200), None)
        if refused is not None:
            raise refused.refusal()
        return {
            number: json.decode(answer.body, type=ClockView) for number, answer in zip(numbers, answers, strict=True)
        }


def _until_next(views: Mapping[int, ClockView]) -> int:
    """How far the first timer of all is away. Raises RefusedRequest: 409."""
    if any(view.mode != "manual" for view in views.values()):
        raise RefusedRequest(409, 'the clock runs: POST {"mode": "manual"} stops it')
    due = [view.next_timer_ms - view.monotonic_ms for view in views.values() if view.next_timer_ms is not None]
    if not due:
        raise RefusedRequest(409, "no timer is armed")
    return max(0, min(due))


def _together(views: Mapping[int, ClockView]) -> ClockView:
    first = views[min(views)]
    due = [view.next_timer_ms for view in views.values() if view.next_timer_ms is not None]
    fired: Any = [timer for view in views.values() if view.fired is not UNSET for timer in view.fired]
    counts = [view.fired_count for view in views.values() if view.fired_count is not UNSET]
    return ClockView(
        mode="manual" if all(view.mode == "manual" for view in views.values()) else "real",
        wall_ms=first.wall_ms,
        monotonic_ms=first.monotonic_ms,
        next_timer_ms=min(due, default=None),
        timers=sum(view.timers for view in views.values()),
        fired=sorted(fired, key=lambda timer: timer.at_ms)[:FIRED_MAX] if counts else UNSET,
        fired_count=sum(counts) if counts else UNSET,
    )
