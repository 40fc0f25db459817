"""The listeners of a server: at each address of the configuration one for each of its brokers, and what is spoken there."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator.admin.server_view import ServerView
from coordinator.api.declaration import Api
from coordinator.api.recognition import LearnTemplate
from coordinator.api.server import Server
from coordinator.config.broker_configs import Endpoint
from coordinator.config.security import NO_SECURITY
from coordinator.config.settings import ListenerConfig
from coordinator.fastpath.repeated_commit import template_learners
from coordinator.network.connection import ConnectionLimits
from coordinator.network.dispatch import Dispatcher
from coordinator.network.listener import Listener, Protection
from coordinator.network.turn import Turn
from coordinator.protocol.codec import Codec
from coordinator.protocol.releases import NEWEST, releases
from coordinator.requests.api_versions import as_release
from coordinator.server import CannotStart
from coordinator.server.dynamic_settings import DynamicSettings
from coordinator.world.threads import RunInThread

if TYPE_CHECKING:
    from coordinator.nodes.brokers import Brokers
    from coordinator.overlay.overlay import Overlay

PORTS_TRIED = 20
"""How often free ports that follow each other are looked for."""


class Listeners:
    """The listeners for clients of one server, but for those that stand for the brokers of a cluster behind."""

    def __init__(
        self,
        server: ServerView,
        apis: Mapping[int, Api[Any]],
        settings: DynamicSettings,
        turn: Turn,
        run_in_thread: RunInThread,
        *,
        fastpath: bool,
    ) -> None:
        self.opened: list[Listener] = []
        """By address, and at each address by broker."""
        self.emulates = server.config.emulate
        """The release of Kafka that clients see, at listeners that have none of their own."""
        self.overlay: Overlay | None = None
        self._server = server
        self._config = server.config
        self._apis = apis
        self._settings = settings
        self._turn = turn
        self._run_in_thread = run_in_thread
        self._fastpath = fastpath
        self._as_brokers: dict[int, Server] = {}

    def endpoints(self, broker: int) -> list[Endpoint]:
        """The listeners of a broker, by its number."""
        listeners = self.opened[broker :: self._config.nodes]
        return [
            Endpoint(
                (config.dialect or config.name).upper(), listener.bound, listener.advertised, config.security.protocol
            )
            for config, listener in zip(self._config.listeners, listeners, strict=True)
        ]

    async def listen(self, config: ListenerConfig) -> None:
        """Listens at an address of the configuration, for each broker at ports that follow each other. Raises CannotStart."""
        for left in reversed(range(PORTS_TRIED)):
            listeners: list[Listener] = []
            port = config.port
            try:
                for number in range(self._config.nodes):
                    port = listeners[0].bound[1] + number if number else config.port
                    listeners.append(await self._listen_at(config, number, port))
            except OSError as error:
                for listener in listeners:
                    await listener.stop(0)
                if config.port or not left:
                    raise CannotStart(f"cannot listen on {config.host}:{port}: {error}") from error
            else:
                break
        brokers = self._server.brokers
        if brokers is not None:
            for broker, listener in zip(brokers.by_id.values(), listeners, strict=True):
                broker.addresses.append(listener.advertised)
        self.opened += listeners

    async def _listen_at(self, config: ListenerConfig, number: int, port: int) -> Listener:
        """The listener of a broker, by its number. Raises OSError."""
        advertised_port = config.advertised_port + number if config.advertised_port else None
        listener = self.make(replace(config, advertised_port=advertised_port), self._dispatcher(config, number))
        await listener.start(config.host, port, config.shared_port)
        return listener

    def _dispatcher(self, config: ListenerConfig, number: int) -> Dispatcher:
        if self.overlay is not None:
            return self.overlay.dispatcher()
        codec, learners = self.dialect(config)
        release = config.emulate or self.emulates
        apis = self._apis_of(release)
        server, brokers = self._server, self._server.brokers
        if brokers is None:
            # Templates know the newest release only.
            return Dispatcher(server, apis, codec, learners if release == NEWEST else {}, server.authorizer)
        # Templates of requests would answer before anyone asks whether the group is at this broker.
        return Dispatcher(self._as_broker(brokers, number), apis, codec, authorizer=server.authorizer)

    def _as_broker(self, brokers: "Brokers", number: int) -> Server:
        """The server as one of its brokers, which all listeners of that broker share: it leads share partitions."""
        if number not in self._as_brokers:
            from coordinator.nodes.views import as_broker  # noqa: PLC0415 - most servers are one

            endpoints = partial(self.endpoints, number)
            self._as_brokers[number] = as_broker(self._server, brokers, self._config.node_ids[number], endpoints)
        return self._as_brokers[number]

    def _apis_of(self, release: str) -> Mapping[int, Api[Any]]:
        """The APIs of a release of Kafka."""
        if release == NEWEST:
            return self._apis
        protocols = self._config.groups.group_coordinator_rebalance_protocols
        return as_release(self._apis, releases()[release].configured(protocols))

    def emulate(self, release: str) -> int:
        """Becomes another release of Kafka, as in a rolling upgrade: all connections end. Returns how many these were.

        Listeners with a release of their own keep it.
        """
        self.emulates, ended = release, 0
        apis = self._apis_of(release)
        for place, listener in enumerate(self.opened):
            config = self._config.listeners[place // self._config.nodes]
            if config.emulate is None:
                has_templates = release == NEWEST and self._server.brokers is None
                listener.dispatcher.serve(apis, self.dialect(config)[1] if has_templates else {})
                ended += listener.close_all()
        return ended

    def dialect(self, config: ListenerConfig) -> tuple[Codec, Mapping[int, LearnTemplate]]:
        """The codec of a listener, and what makes templates of its requests."""
        codec = Codec.of(config.dialect, self._config.network.limit_request_elements)
        return codec, template_learners(codec) if self._fastpath else {}

    async def stop_broker(self, number: int) -> None:
        """Closes the listeners of a broker, and its connections at once."""
        await asyncio.gather(*(listener.stop(0) for listener in self.opened[number :: self._config.nodes]))

    async def start_broker(self, number: int) -> None:
        """Opens the listeners of a broker again, at its addresses. Raises OSError."""
        places = slice(number, None, self._config.nodes)
        started: list[Listener] = []
        try:
            for old, config in zip(self.opened[places], self._config.listeners, strict=True):
                listener = self.make(config, old.dispatcher)
                listener.advertised = old.advertised
                await listener.start(*old.bound)
                started.append(listener)
        except OSError:
            for listener in started:
                await listener.stop(0)
            raise
        self.opened[places] = started
        for listener in started:
            await listener.open()

    def make(self, config: ListenerConfig, dispatcher: Dispatcher) -> Listener:
        """A listener that is not started yet."""
        server, network = self._server, self._settings.config.network
        return Listener(
            dispatcher,
            ConnectionLimits(
                frame_bytes_max=min(network.limit_request_bytes, network.socket_request_max_bytes),
                produce_bytes_max=network.socket_request_max_bytes,
                requests_in_flight_max=network.limit_requests_in_flight,
                write_buffer_bytes_max=network.limit_write_buffer_bytes,
                idle_ms_max=network.connections_max_idle_ms,
                frame_ms_max=network.limit_frame_time_ms,
                drain_ms_max=network.limit_write_time_ms,
            ),
            server.memory,
            self._turn,
            advertised=(config.advertised_host or config.host, config.advertised_port or 0),
            connections_max=network.max_connections,
            connections_per_ip_max=network.max_connections_per_ip,
            connections_per_second_max=network.max_connection_creation_rate,
            now_ms=server.clock.machine_ms,
            wall_ms=server.clock.wall_ms,
            **self._protection(config),
        )

    def limit_connections(self) -> None:
        """Puts the limits in force that clients have changed."""
        network = self._settings.config.network
        for listener in self.opened:
            listener.connections_max = network.max_connections
            listener.connections_per_ip_max = network.max_connections_per_ip
            listener.connections_per_second_max = network.max_connection_creation_rate

    def _protection(self, config: ListenerConfig) -> Protection:
        if config.security == NO_SECURITY:
            return {}
        # Slow to import, and a plain listener needs nothing of it.
        from coordinator.server.listener_security import make_protection  # noqa: PLC0415

        server = self._server
        return make_protection(
            config.name,
            config.security,
            server.topics,
            server.delegation_tokens,
            server.clock,
            server.entropy,
            self._run_in_thread,
        )
