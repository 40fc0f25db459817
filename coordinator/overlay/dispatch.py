"""The dispatcher of a listener in front of a cluster: requests of groups and offsets go to this server, others to a broker.

There is a listener for each broker, whose requests go to that broker, and the main one, whose requests go to any. Clients see
the main listener as a node of its own, the coordinator of groups. Its id is `NODE_IDS_FROM` plus node.id, which no broker has.
Every listener answers the APIs of groups, because clients may send FindCoordinator to any node. Lists of groups come from the
main listener alone, or an administrator who asks all nodes would get each group several times.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

from coordinator.api.cluster import Cluster, Node
from coordinator.api.declaration import Api, Forwarded
from coordinator.api.exchange import Exchange, ReplyQueue
from coordinator.api.recognition import LearnTemplate
from coordinator.api.route import Route
from coordinator.api.server import Server
from coordinator.client.asynchronous import Link
from coordinator.client.conversation import LinkFailed
from coordinator.network.connection import Connection
from coordinator.network.dispatch import Dispatcher, RefusedFrame
from coordinator.overlay import rewrite
from coordinator.overlay.brokers import Addresses, Brokers
from coordinator.overlay.links import Links
from coordinator.overlay.offer import Offer, add_features
from coordinator.overlay.upstream import ForwardedExchange, UpstreamConnection
from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.header import decode_request_header
from coordinator.protocol.messages import ApiVersionsRequest, ApiVersionsResponse, ListGroupsRequest, ListGroupsResponse
from coordinator.protocol.wire import read_varint
from coordinator.requests import api_versions, list_groups, produce
from coordinator.runtime.memory import Memory

NODE_IDS_FROM = 1_000_000_000
_TRANSACTIONAL_PRODUCE, _FLEXIBLE_PRODUCE = 3, 9


class OverlayCluster:
    """The workers as nodes beside the brokers, at their main listeners."""

    def __init__(self, inner: Cluster, main: tuple[str, int]) -> None:
        self._inner = inner
        self.moves = inner.moves
        self.main = main
        """The address of this server's main listener."""

    def nodes(self, _advertised: tuple[str, int]) -> list[Node]:
        return [_shifted(node) for node in self._inner.nodes(self.main)]

    def named_nodes(self, _advertised: tuple[str, int]) -> list[Node]:
        return [_shifted(node) for node in self._inner.named_nodes(self.main)]

    def leader(self, topic: str, index: int, _advertised: tuple[str, int]) -> Node | None:
        node = self._inner.leader(topic, index, self.main)
        return None if node is None else _shifted(node)

    def coordinator(self, topic: str, index: int, _advertised: tuple[str, int]) -> Node | None:
        node = self._inner.coordinator(topic, index, self.main)
        return None if node is None else _shifted(node)

    def data_leader(self) -> int | None:
        """None: the cluster behind says who leads its topics."""
        return None


def _shifted(node: Node) -> Node:
    return node._replace(id=NODE_IDS_FROM + node.id)


class Behind:
    """What the dispatchers of all listeners share: the cluster behind, and how to get there."""

    def __init__(
        self,
        server: Server,
        brokers: Brokers,
        links: Links,
        addresses: Addresses,
        memory: Memory,
        own_nodes: Callable[[], Sequence[Node]],
        topics_changed: Callable[[], None],
    ) -> None:
        self.server = server
        self.brokers = brokers
        self.links = links
        self.addresses = addresses
        self.memory = memory
        self.own_nodes = own_nodes
        self.topics_changed = topics_changed
        self._held: list[tuple[ReplyQueue, Callable[[], None]]] | None = []
        """Clients whose answers wait until the cluster is known; None: it is."""

    @property
    def is_known(self) -> bool:
        return self._held is None

    def when_known(self, client: ReplyQueue, answer: Callable[[], None]) -> None:
        """Calls `answer` when the brokers and topics of the cluster are known."""
        if self._held is None:
            answer()
        else:
            self._held.append((client, answer))

    def note_known(self) -> None:
        """Gives the answers that have waited."""
        held, self._held = self._held or (), None
        for _, answer in held:
            answer()

    def give_up(self) -> None:
        """Closes the connections of clients that still wait."""
        held, self._held = self._held or (), None
        for client, _ in held:
            client.refuse("the server stops before it knows the cluster")

    async def link(self, broker_id: int | None) -> Link:
        """A connection to a broker; None: to any that can be reached. Raises LinkFailed."""
        brokers = self.brokers
        if broker_id is not None:
            broker = brokers.by_id.get(broker_id)
            if broker is None:
                raise LinkFailed(f"there is no broker {broker_id} at the moment")
            return await self.links.open(broker.address)
        reason = LinkFailed("there is no broker at the moment")
        for _ in brokers.by_id:
            broker = brokers.any()
            if broker is not None:
                try:
                    return await self.links.open(broker.address)
                except LinkFailed as error:
                    reason = error
        raise reason


class OverlayDispatcher(Dispatcher):
    """That of one listener."""

    def __init__(
        self,
        behind: Behind,
        broker_id: int | None,
        apis: Mapping[int, Api[Any]],
        codec: Codec,
        learners: Mapping[int, LearnTemplate],
    ) -> None:
        """`broker_id`: the broker that the listener stands for; None for the main listener."""
        is_main = broker_id is None
        self._offer = offer = Offer(apis)
        self._ours_or_not = offer.ours_or_not()
        self._passing = offer.forwarded.keys() - self._ours_or_not - (offer.ours_on_main() if is_main else set())
        """The APIs of which no request is answered here."""
        own = {
            key: api for key, api in apis.items() if key in offer.ours or key in offer.forwarded.keys() - self._passing
        }
        own |= {key: replace(apis[key], handle=partial(_handle, apis[key])) for key in self._ours_or_not}
        own[api_versions.API.key] = replace(api_versions.API, handle=self._answer_versions)
        if not is_main:
            own[list_groups.API.key] = replace(list_groups.API, handle=_list_no_groups)
        super().__init__(behind.server, own, codec, learners)
        self._behind = behind
        self._broker_id = broker_id
        self._upstreams: dict[ReplyQueue, UpstreamConnection] = {}
        self._forwarded_routes: dict[int, Route] = {}

    @property
    def routes(self) -> list[Route]:
        return [*super().routes, *self._forwarded_routes.values()]

    def dispatch(self, frame: bytes, queue: ReplyQueue) -> None:
        api_key = int.from_bytes(frame[:2])
        if self._is_ours(api_key, frame):
            super().dispatch(frame, queue)
        else:
            self._forward(api_key, frame, cast(Connection, queue))

    # --- which upstream ----------------------------------------------------------------------------------------------------

    def _is_ours(self, api_key: int, frame: bytes) -> bool:
        if api_key in self._ours_or_not:
            return self._is_about_groups(api_key, frame)
        return api_key not in self._passing

    def _is_about_groups(self, api_key: int, frame: bytes) -> bool:
        """Whether a request is about groups, or about groups and other things, which is refused."""
        try:
            _, version, _, _, position = decode_request_header(frame)
            route = self._routes.get(api_key << 16 | version) or self._route(api_key, version)
            request = route.decode(frame, position)[0]
        except DecodeError as error:
            raise RefusedFrame(f"malformed request: {error}") from error
        _, forwarding = self._offer.forwarded[api_key]
        assert forwarding.is_ours is not None
        return forwarding.is_ours(request) is not False

    # --- ApiVersions --------------------------------------------------------------------------------------------------

    def _answer_versions(self, server: Server, exchange: Exchange[ApiVersionsRequest | None]) -> None:
        """As api_versions.handle; the versions and the features are the broker's where it answers.

        A server that starts listens before it knows the cluster. A client asks for versions once on a connection, and keeps the
        connection although APIs are missing that it needs. So the answer waits.
        """
        request = exchange.request
        if request is None:
            exchange.reply(api_versions.unsupported(api_versions.API.versions))
        else:
            self._behind.when_known(exchange.queue, lambda: self._reply_versions(server, exchange, request))

    def _reply_versions(
        self, server: Server, exchange: Exchange[ApiVersionsRequest | None], request: ApiVersionsRequest
    ) -> None:
        brokers = self._behind.brokers
        node_id = NODE_IDS_FROM + server.node_id if self._broker_id is None else self._broker_id
        error = api_versions.refused(request, exchange.api_version, brokers.cluster_id, node_id)
        if error is not ErrorCode.NONE:
            exchange.reply(ApiVersionsResponse(error_code=error))
            return
        broker = brokers.api_versions(self._broker_id)
        response = api_versions.listed(self._offer.versions(exchange.supported, brokers.versions(self._broker_id)))
        add_features(response, broker, server.config.groups.group_coordinator_rebalance_protocols)
        if exchange.api_version < api_versions.FEATURES_FROM_ZERO_SINCE:
            response.supported_features = [each for each in response.supported_features if each.min_version]
        exchange.reply(response)

    # --- to the broker ------------------------------------------------------------------------------------------------

    def _forward(self, api_key: int, frame: bytes, client: Connection) -> None:
        try:
            _, version, correlation_id, client_id, position = decode_request_header(frame)
            is_answered = api_key != produce.API.key or _expects_response(frame, position, version)
        except DecodeError as error:
            raise RefusedFrame(f"malformed request: {error}") from error
        route = self._forwarded_routes.get(api_key << 16 | version) or self._forwarded_route(api_key, version)
        exchange = ForwardedExchange(route, client, None, correlation_id, client_id)
        exchange.rewrite = None
        if rewrite.is_rewritten(api_key, version):
            exchange.rewrite = lambda response: self._rewritten(api_key, version, response)
        elif self._offer.forwarded[api_key][1].changes_topics:
            exchange.rewrite = self._topics_changed
        client.client_id = client_id
        client.exchanges.append(exchange)
        self._upstream(client).forward(frame, exchange, is_answered=is_answered)

    def _forwarded_route(self, api_key: int, version: int) -> Route:
        """How often and how fast a forwarded API is. Raises RefusedFrame for a version that is not forwarded."""
        api, _ = self._offer.forwarded[api_key]
        brokers = self._behind.brokers.versions(self._broker_id)
        first, last = self._offer.forwarded_versions(brokers).get(api_key, (0, -1))
        if not first <= version <= last:
            raise RefusedFrame(f"unsupported version {version} of {api.name} (supported: {first} to {last})")
        route = Route(api, version, None, supported={})
        self._forwarded_routes[api_key << 16 | version] = route
        return route

    def _upstream(self, client: Connection) -> UpstreamConnection:
        upstream = self._upstreams.get(client)
        if upstream is None:
            behind, broker_id = self._behind, self._broker_id
            upstream = self._upstreams[client] = UpstreamConnection(
                client, lambda: behind.link(broker_id), behind.memory, is_bound=broker_id is not None
            )
            client.on_lost = lambda: self._upstreams.pop(client).close()
            client.on_read = upstream.client_reads
        return upstream

    def _topics_changed(self, response: bytes) -> bytes:
        self._behind.topics_changed()
        return response

    def _rewritten(self, api_key: int, version: int, response: bytes) -> bytes | Awaitable[bytes]:
        locate = self._behind.addresses.locate
        if any(locate(broker_id) is None for broker_id in rewrite.nodes_of(api_key, version, response)):
            return self._rewrite_later(api_key, version, response)
        return self._rewrite(api_key, version, response)

    async def _rewrite_later(self, api_key: int, version: int, response: bytes) -> bytes:
        """The response when the listener of a new broker is open."""
        with suppress(LinkFailed):  # then the broker is left out
            await self._behind.brokers.look_up()
        return self._rewrite(api_key, version, response)

    def _rewrite(self, api_key: int, version: int, response: bytes) -> bytes:
        rewriting = rewrite.Rewriting(self._behind.addresses.locate, self._behind.own_nodes())
        return rewrite.rewrite(api_key, version, response, rewriting)


def _handle(api: Api[Any], server: Server, exchange: Exchange[Any]) -> None:
    """Answers a request about groups. Raises INVALID_REQUEST (KafkaError) if it is about other things, too."""
    assert isinstance(api.overlay, Forwarded)
    assert api.overlay.is_ours is not None
    if api.overlay.is_ours(exchange.request) is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "groups and other resources at once; ask for them one by one")
    api.handle(server, exchange)


def _list_no_groups(_server: Server, exchange: Exchange[ListGroupsRequest]) -> None:
    exchange.reply(ListGroupsResponse())


def _expects_response(frame: bytes, position: int, version: int) -> bool:
    """Whether a Produce has acks other than 0. Raises DecodeError."""
    try:
        if version >= _FLEXIBLE_PRODUCE:
            size, position = read_varint(frame, position)
            position += max(0, size - 1)
        elif version >= _TRANSACTIONAL_PRODUCE:
            position += 2 + max(0, int.from_bytes(frame[position : position + 2], signed=True))
    except IndexError as error:
        raise DecodeError("the Produce is truncated") from error
    acks = frame[position : position + 2]
    if len(acks) < 2:
        raise DecodeError("the Produce is truncated")
    return acks != b"\0\0"
