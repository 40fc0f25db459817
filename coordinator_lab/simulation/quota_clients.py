"""Quotas under failures: an administrator who sets and removes them, a client that must never wait, and what must hold (I34).

- I34: a client that a quota lets wait has its answer, and nothing that it sends is handled before the wait is over; a client
  without a limit is never made to wait.

I14 says that answers come once and in order. All other clients may be made to wait, too, which no invariant knows of: to them
the server is slow.
"""

from typing import Any

from coordinator.api.exchange import Exchange, ReplyQueue
from coordinator.network.connection import Connection
from coordinator.protocol.messages import AlterClientQuotasRequest, DescribeClientQuotasRequest, MetadataRequest
from coordinator.quotas.metering import Wait
from coordinator.quotas.names import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from coordinator.server.composition import Server
from coordinator_lab.simulation.clients import RETRIABLE_CHANGE, Client, World
from coordinator_lab.simulation.history import OnBroken
from coordinator_lab.simulation.wire import NoResponse

INVARIANT = "I34 throttled clients are answered and wait, and nobody else"
UNLIMITED = "unlimited"
RATES = {
    PRODUCER_BYTE_RATE: (4_000.0, 20_000.0, 100_000.0),
    CONSUMER_BYTE_RATE: (4_000.0, 20_000.0, 100_000.0),
    REQUEST_PERCENTAGE: (0.01, 0.05, 0.5),
}
NO_LIMIT = 1e15
RETRY_S = 0.2

_Entry = AlterClientQuotasRequest.EntryData
_Entity = AlterClientQuotasRequest.EntityData
_Op = AlterClientQuotasRequest.OpData


class QuotaSetter(Client):
    """Sets quotas of clients and of the default, and removes all of them when the world is healed."""

    def __init__(self, world: World, name: str, client_ids: list[str]) -> None:
        super().__init__(world, name)
        self.client_ids = client_ids

    async def run(self) -> None:
        while not self.world.is_healed:
            try:
                await self._exempt()
                await self.world.sleep(self.random.expovariate(1 / self.world.plan.quotas_s))
                if not self.world.is_healed:
                    await self._set()
            except NoResponse:
                await self.world.sleep(RETRY_S)
        while not await self._removed():
            await self.world.sleep(RETRY_S)

    async def _exempt(self) -> None:
        """The default must not limit the client that never waits."""
        await self._alter(UNLIMITED, dict.fromkeys(RATES, NO_LIMIT))

    async def _set(self) -> None:
        random = self.random
        client_id = random.choice([*self.client_ids, *self.client_ids, None])
        keys = random.sample(list(RATES), random.randint(1, len(RATES)))
        values = {key: random.choice([*RATES[key], None]) for key in keys}
        self.world.event(f"quotas of {client_id}: {values}")
        await self._alter(client_id, values)

    async def _alter(self, client_id: str | None, values: dict[str, float | None]) -> None:
        ops = [_Op(key, value or 0.0, value is None) for key, value in values.items()]
        entry = _Entry([_Entity("client-id", client_id)], ops)
        (result,) = (await self.call(AlterClientQuotasRequest(entries=[entry]), 1)).entries
        if result.error_code in RETRIABLE_CHANGE:
            raise NoResponse
        if result.error_code:
            self.unexpected("AlterClientQuotas", result.error_code)

    async def _removed(self) -> bool:
        try:
            found = (await self.call(DescribeClientQuotasRequest(), 1)).entries
            by_client = {entry.entity[0].entity_name: entry.values for entry in found}
            # While there is a default, the client that never waits needs its own.
            for client_id in sorted(by_client, key=lambda name: name == UNLIMITED):
                await self._alter(client_id, {each.key: None for each in by_client[client_id]})
        except NoResponse:
            return False
        return not found


class UnlimitedClient(Client):
    """Asks again and again, and has no limit."""

    async def run(self) -> None:
        while True:
            await self.think()
            try:
                response = await self.call(MetadataRequest(topics=[]), 9)
            except NoResponse:
                continue
            if response.throttle_time_ms:
                self.world.broken(INVARIANT, f"{self.name} has no limit and waits {response.throttle_time_ms} ms")


class QuotaInvariants:
    """The waits that the quotas of one server have begun."""

    def __init__(self, broken: OnBroken) -> None:
        self.waits = 0
        """How many there were in all servers."""
        self._broken = broken
        self._server: Server | None = None
        self._until: dict[ReplyQueue, tuple[int, list[Exchange[Any]]]] = {}
        """When the wait of a connection is over, and its requests that were in progress when the wait began."""

    def watch(self, server: Server) -> None:
        """Checks the waits of this server from now on. Called often; a server that has no quotas yet has none to check."""
        metering = server.quota_keeper.metering
        if metering is None:
            return
        if self._server is not server:
            self._server = server
            self._until.clear()
            metering.subscribers.append(self._on_throttled)
        self._check(server)

    def _on_throttled(self, exchange: Exchange[Any], wait: Wait) -> None:
        server = self._server
        assert server is not None
        self.waits += 1
        if exchange.payload is None:
            self._broken(INVARIANT, f"{exchange.client_id} has no answer to its {exchange.route.name}")
        if exchange.client_id == UNLIMITED:
            self._broken(INVARIANT, f"{UNLIMITED} waits for {wait}")
        self._check(server)
        earlier = self._until.get(exchange.queue)
        if earlier is not None and exchange not in earlier[1]:
            self._broken(INVARIANT, f"a request of {exchange.client_id} was handled before its wait was over")
        assert isinstance(exchange.queue, Connection)
        until_ms = server.clock.machine_ms() + wait.throttle_ms
        self._until[exchange.queue] = (until_ms, exchange.queue.in_progress)

    def _check(self, server: Server) -> None:
        now_ms = server.clock.machine_ms()
        is_open: set[ReplyQueue] = {each for listener in server.listeners for each in listener.connections}
        self._until = {queue: wait for queue, wait in self._until.items() if wait[0] > now_ms and queue in is_open}
        for queue, (_, before) in self._until.items():
            assert isinstance(queue, Connection)
            if any(each not in before for each in queue.in_progress):
                self._broken(INVARIANT, f"a request of {queue.client_id} is handled before its wait is over")
