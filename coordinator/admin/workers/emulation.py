"""The release of Kafka that the clients of all workers see.

The workers change one after the other, as brokers do in a rolling upgrade. A worker that is started again becomes the release
of the others when it is ready; until then clients see the one of the configuration.
"""

import asyncio

from msgspec import json

from coordinator.admin.emulation import PATH, Emulation, check
from coordinator.admin.endpoint import RefusedRequest, Request
from coordinator.admin.workers.asking import Ask, NotAnswered, NotAsked, Workers


class EmulationOfAll:
    """The release, and the handlers of its endpoints."""

    def __init__(self, workers: Workers, configured: str) -> None:
        self._workers = workers
        self._configured = self._release = configured
        self._changing = asyncio.Lock()

    def show(self) -> Emulation:
        """The release that clients see."""
        return Emulation(self._release, self._release, 0)

    async def emulate(self, request: Request) -> Emulation:
        """Becomes another release. Raises RefusedRequest: as a worker does; 503 one does not answer."""
        check(request)
        async with self._changing:
            former, closed, wanted = self._release, 0, request.body.release
            for number in self._workers.ready:
                closed += (await self._become(number, wanted)).connections_closed
                self._release = wanted
            return Emulation(wanted, former, closed)

    async def worker_ready(self, number: int) -> None:
        """Makes a new worker the release that the others are."""
        async with self._changing:
            if self._release != self._configured:
                await self._become(number, self._release)

    async def _become(self, number: int, release: str) -> Emulation:
        ask = Ask("POST", PATH, json.encode({"release": release}))
        try:
            answer = await self._workers.ask(number, ask)
        except (NotAsked, NotAnswered) as error:
            raise RefusedRequest(503, f"{error}; the workers may be different releases") from None
        if answer.status != 200:
            raise answer.refusal()
        return json.decode(answer.body, type=Emulation)
