"""A server whose quotas go by a clock that the test advances."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from coordinator.protocol.messages import AlterClientQuotasRequest
from coordinator_lab.simulation.clock import ManualClock
from tests.rules.world import Client, World, running

_Entity = AlterClientQuotasRequest.EntityData


class Time(ManualClock):
    """The clock and the schedule of the quotas. `busy_ns`: what each request takes."""

    def __init__(self) -> None:
        super().__init__()
        self.busy_ns = 0
        self._work_ns = 0
        self.waits: list[int] = []
        """Every time for which a connection was muted, in milliseconds."""
        self._due = []

    def work_ns(self) -> int:
        self._work_ns += self.busy_ns
        return self._work_ns

    def schedule(self, delay_ms, callback):
        self.waits.append(delay_ms)
        self._due.append((self.machine_ms() + delay_ms, callback))

    def advance(self, duration_ms: int) -> None:
        super().advance(duration_ms)
        due = [each for each in self._due if each[0] <= self.machine_ms()]
        self._due = [each for each in self._due if each[0] > self.machine_ms()]
        for _, callback in due:
            callback()


class LimitedWorld:
    def __init__(self, world: World, time: Time, admin: Client) -> None:
        self.world = world
        self.server = world.server
        self.time = time
        self.admin = admin

    async def client(self, client_id: str) -> Client:
        return await self.world.client(client_id)

    async def limit(self, names: dict[str, str | None], **values: float | None) -> None:
        """Sets quotas of an entity (`client_id` for client-id); None removes one."""
        entity = [_Entity(kind.replace("_", "-"), name) for kind, name in names.items()]
        ops = [AlterClientQuotasRequest.OpData(key, value or 0.0, value is None) for key, value in values.items()]
        answer = await self.admin.call(
            "AlterClientQuotas", 1, entries=[AlterClientQuotasRequest.EntryData(entity, ops)]
        )
        assert [each.error_code for each in answer.entries] == [0]


@asynccontextmanager
async def limited(folder: Path, settings: Sequence[str] = ()) -> AsyncIterator[LimitedWorld]:
    async with running(folder, settings) as world:
        time = Time()
        keeper = world.server.quota_keeper
        keeper._clock, keeper._schedule = time, time.schedule
        yield LimitedWorld(world, time, await world.client("admin"))
