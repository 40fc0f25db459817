"""The brokers of the cluster, with a listener for each, and what they say about topics; asked for again and again.

A look-up asks the brokers in turn, so that one which hangs or lags does not decide alone. A broker that is new gets a listener
before any client learns of it, and one that is gone loses it, which closes its clients' connections.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from coordinator.api.cluster import Node
from coordinator.client.asynchronous import Client
from coordinator.client.conversation import LinkFailed, LinkRefused
from coordinator.network.listener import Listener
from coordinator.overlay.links import Address, Links
from coordinator.overlay.offer import Versions, common
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Answer, ApiVersionsResponse, MetadataRequest, MetadataResponse, Request

_log = logging.getLogger(__name__)

START_S = 30.0
"""How long a start tries to reach the cluster."""
RETRY_S = 0.25
_VERSIONS_MAX = 12
"""Metadata 12 has the ids of topics."""
_GONE_AFTER = 3
"""Look-ups in a row without a broker, after which its listener closes: one that restarts is missing for a moment."""


class Broker(NamedTuple):
    """A broker as this server reaches it."""

    id: int
    host: str
    port: int

    @property
    def address(self) -> Address:
        return self.host, self.port


OpenListener = Callable[[int], Awaitable[Listener]]
"""Listens for the clients of a broker."""


class Brokers:
    """The cluster, as the last look-up saw it."""

    def __init__(self, bootstrap: Sequence[Address], links: Links, open_listener: OpenListener | None) -> None:
        """`open_listener`: None if no clients come to this server."""
        self._bootstrap = bootstrap
        self._links = links
        self._open_listener = open_listener
        self.cluster_id = ""
        self.by_id: dict[int, Broker] = {}
        self.listeners: dict[int, Listener] = {}
        self._versions: dict[int, ApiVersionsResponse] = {}
        self._clients: dict[int, Client] = {}
        self._missing: dict[int, int] = {}
        """Broker id -> look-ups since the last one that listed it."""
        self._turn = 0
        self._changing = asyncio.Lock()

    # --- what is known ------------------------------------------------------------------------------------------------

    def any(self) -> Broker | None:
        """A broker, another one each time."""
        self._turn += 1
        brokers = list(self.by_id.values())
        return brokers[self._turn % len(brokers)] if brokers else None

    @property
    def is_known(self) -> bool:
        """Whether a broker has said which APIs it has."""
        return bool(self._versions)

    def api_versions(self, broker_id: int | None) -> ApiVersionsResponse:
        """What a broker said about its APIs and features; None: what all have in common."""
        found = self._versions.get(broker_id) if broker_id is not None else None
        if found is not None:
            return found
        known = list(self._versions.values())
        versions = common([_as_ranges(each) for each in known])
        first = known[0] if known else ApiVersionsResponse()
        return ApiVersionsResponse(
            api_keys=[ApiVersionsResponse.ApiVersion(key, *each) for key, each in versions.items()],
            supported_features=first.supported_features,
            finalized_features_epoch=first.finalized_features_epoch,
            finalized_features=first.finalized_features,
        )

    def versions(self, broker_id: int | None) -> Versions:
        """The versions of the APIs of a broker; None: those that all have."""
        return _as_ranges(self.api_versions(broker_id))

    # --- look-ups -----------------------------------------------------------------------------------------------------

    async def start(self) -> MetadataResponse:
        """The first look-up. Raises LinkFailed if no broker answers for `START_S`, or all refuse this server."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + START_S
        while True:
            try:
                return await self.look_up()
            except LinkFailed as error:
                if loop.time() >= ends_s or isinstance(error, LinkRefused):
                    raise
            await asyncio.sleep(RETRY_S)

    async def look_up(self) -> MetadataResponse:
        """Asks the next broker for brokers and topics, and opens and closes listeners. Raises LinkFailed."""
        response = await self._metadata()
        self.cluster_id = response.cluster_id or ""
        await self._follow({each.node_id: Broker(each.node_id, each.host, each.port) for each in response.brokers})
        return response

    async def _metadata(self) -> MetadataResponse:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        broker = self.any()
        if broker is not None:
            with suppress(LinkFailed):
                return await self.ask(broker.id, request, version_max=_VERSIONS_MAX)
        problems: list[LinkFailed] = []
        for address in self._bootstrap:
            try:
                client = await self._links.client(address)
                try:
                    response = await client.ask(request, version_max=_VERSIONS_MAX)
                finally:
                    client.close()
            except LinkFailed as error:
                problems.append(error)
            else:
                return response
        is_refused = all(isinstance(each, LinkRefused) for each in problems)
        raise (LinkRefused if is_refused else LinkFailed)("; ".join(map(str, problems)))

    async def ask(self, broker_id: int, request: Request[Answer], *, version_max: int | None = None) -> Answer:
        """Asks a broker. Raises LinkFailed."""
        client = await self.client(broker_id)
        return await client.ask(request, version_max=version_max)

    async def ask_any(self, request: Request[Answer], *, version_max: int | None = None) -> Answer:
        """Asks the next broker. Raises LinkFailed."""
        broker = self.any()
        if broker is None:
            raise LinkFailed("there is no broker at the moment")
        return await self.ask(broker.id, request, version_max=version_max)

    async def unknown(self, topic_ids: set[bytes]) -> set[bytes]:
        """Those of the ids of topics that the next broker does not know."""
        wanted = [MetadataRequest.MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        try:
            response = await self.ask_any(request, version_max=_VERSIONS_MAX)
        except LinkFailed:
            return set()
        return topic_ids & {each.topic_id for each in response.topics if each.error_code == ErrorCode.UNKNOWN_TOPIC_ID}

    async def client(self, broker_id: int) -> Client:
        """The connection of this server to a broker, for short requests. Raises LinkFailed."""
        client = self._clients.get(broker_id)
        if client is None or client.is_lost:
            client = await self.connect(broker_id)
            known = self._clients.get(broker_id)
            if known is not None and not known.is_lost:
                client.close()
                return known
            self._clients[broker_id] = client
        return client

    async def connect(self, broker_id: int) -> Client:
        """A connection of its own to a broker. Raises LinkFailed."""
        broker = self.by_id.get(broker_id)
        if broker is None:
            raise LinkFailed(f"there is no broker {broker_id} at the moment")
        client = await self._links.client(broker.address)
        self._versions[broker_id] = client.api_versions
        return client

    # --- changes ------------------------------------------------------------------------------------------------------

    async def _follow(self, found: dict[int, Broker]) -> None:
        async with self._changing:
            for broker in found.values():
                before = self.by_id.get(broker.id)
                if before is not None and before != broker:
                    self._forget_client(broker.id)
                self._missing.pop(broker.id, None)
                self.by_id[broker.id] = broker
            for broker in found.values():
                if self._open_listener is not None and broker.id not in self._versions:
                    with suppress(LinkFailed):
                        await self.client(broker.id)
                if self._open_listener is not None and broker.id not in self.listeners:
                    await self._listen(broker)
            for gone in [broker_id for broker_id in self.by_id if broker_id not in found]:
                self._missing[gone] = self._missing.get(gone, 0) + 1
                if self._missing[gone] >= _GONE_AFTER:
                    await self._remove(gone)

    async def _listen(self, broker: Broker) -> None:
        assert self._open_listener is not None
        try:
            listener = await self._open_listener(broker.id)
        except (OSError, OverflowError) as error:
            _log.error("event=broker_without_listener broker=%d reason=%s", broker.id, error)
            return
        self.listeners[broker.id] = listener
        _log.info(
            "event=broker_found broker=%d address=%s:%d listener=%s:%d",
            broker.id, broker.host, broker.port, *listener.advertised,
        )  # fmt: skip

    async def _remove(self, broker_id: int) -> None:
        _log.info("event=broker_gone broker=%d", broker_id)
        self._missing.pop(broker_id, None)
        self.by_id.pop(broker_id, None)
        self._versions.pop(broker_id, None)
        self._forget_client(broker_id)
        listener = self.listeners.pop(broker_id, None)
        if listener is not None:
            await listener.stop(0)

    def _forget_client(self, broker_id: int) -> None:
        client = self._clients.pop(broker_id, None)
        if client is not None:
            client.close()

    async def close_listeners(self, drain_ms: int) -> None:
        """Lets responses leave, then closes the listeners."""
        listeners, self.listeners = list(self.listeners.values()), {}
        await asyncio.gather(*(listener.stop(drain_ms) for listener in listeners))

    def disconnect(self) -> None:
        """Closes the connections of this server itself."""
        for broker_id in list(self._clients):
            self._forget_client(broker_id)


class Addresses:
    """Where clients reach brokers and workers, the same whichever worker they ask.

    Each worker listens for all brokers. Of several workers, that of a broker is chosen by the broker's id.
    """

    def __init__(self, brokers: Brokers, nodes: Callable[[], Sequence[Node]], first_port: int, own_id: int) -> None:
        """`nodes`: the living workers; one of them has `own_id`."""
        self._brokers = brokers
        self._nodes = nodes
        self._first_port = first_port
        self._own_id = own_id

    def locate(self, broker_id: int) -> Address | None:
        """The address at which clients reach a broker; None: there is none yet."""
        nodes = self._nodes()
        if len(nodes) > 1 and broker_id in self._brokers.by_id:
            node = nodes[broker_id % len(nodes)]
            if node.id != self._own_id:
                return node.host, self._first_port + broker_id
        listener = self._brokers.listeners.get(broker_id)
        return listener.advertised if listener is not None else None


def _as_ranges(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
