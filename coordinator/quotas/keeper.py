"""Puts the client quotas of the metadata log in force, and takes them out of the way where there are none."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from coordinator.api.exchange import ReplyQueue
from coordinator.api.recognition import forget_templates
from coordinator.api.route import QUOTAS, Routes
from coordinator.config.settings import QuotasConfig
from coordinator.protocol.messages import ClientQuotaRecord, Message
from coordinator.topics.registry import Registry
from coordinator.world.clock import Clock
from coordinator.world.schedule import Schedule

if TYPE_CHECKING:
    from coordinator.quotas.enforcement import ClientQuotas
    from coordinator.quotas.metering import Metering


class Listener(Protocol):
    """A listener, as quotas see it (network/listener.py)."""

    throttle_ms: Callable[[str], int] | None

    @property
    def dispatcher(self) -> Routes: ...
    @property
    def connections(self) -> Iterable[ReplyQueue]: ...


class QuotaKeeper:
    """The quotas of a server, made when there is the first one: most servers never have any."""

    def __init__(
        self, config: QuotasConfig, registry: Registry, clock: Clock, schedule: Schedule, listeners: Sequence[Listener]
    ) -> None:
        """`schedule`: by the machine's clock."""
        self.quotas: ClientQuotas | None = None
        """None: there has been no quota since the start."""
        self._config = config
        self._registry = registry
        self._clock = clock
        self._schedule = schedule
        self._listeners = listeners
        self.metering: Metering | None = None
        """As `quotas`."""

    def observe(self, records: Sequence[Message]) -> None:
        """These records of the metadata log have been replayed."""
        if any(isinstance(record, ClientQuotaRecord) for record in records):
            self.apply()

    def apply(self) -> None:
        """The quotas have changed, or there is another listener."""
        found = self._registry.client_quotas
        if self.metering is None and not found:
            return
        metering = self._made()
        metering.quotas.update(found)
        for listener in self._listeners:
            listener.dispatcher.put(QUOTAS, metering)
            self._throttle_connections(listener, metering.quotas)
            forget_templates(listener.connections, metering.concerns)

    def _made(self) -> "Metering":
        if self.metering is None:
            from coordinator.quotas.enforcement import ClientQuotas  # noqa: PLC0415
            from coordinator.quotas.metering import Metering  # noqa: PLC0415 - as the class says

            self.quotas = ClientQuotas(self._config)
            self.metering = Metering(self.quotas, self._clock, self._schedule)
        return self.metering

    def _throttle_connections(self, listener: Listener, quotas: "ClientQuotas") -> None:
        if quotas.addresses:
            listener.throttle_ms = lambda address: quotas.connection_throttle_ms(address, self._clock.machine_ms())
        else:
            listener.throttle_ms = None
