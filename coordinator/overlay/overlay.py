"""The parts of a server that stands in front of a cluster, and their life.

A start reaches the cluster, opens a listener for each of its brokers, and copies its topics, before it returns. From then on
the cluster is asked again and again: every `data.metadata.refresh.ms`, and at once after a request that changes topics.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from coordinator.api.cluster import Cluster, Node
from coordinator.api.declaration import Api
from coordinator.api.recognition import LearnTemplate
from coordinator.api.server import Server
from coordinator.client.conversation import LinkFailed
from coordinator.client.login.sasl import SecurityFailed
from coordinator.config.settings import ServerConfig
from coordinator.groups.machine import GroupMachine
from coordinator.network.dispatch import Dispatcher
from coordinator.network.listener import Listener
from coordinator.overlay.brokers import Addresses, Brokers
from coordinator.overlay.dispatch import NODE_IDS_FROM, Behind, OverlayCluster, OverlayDispatcher
from coordinator.overlay.links import Links, security_of
from coordinator.overlay.markers import Readers
from coordinator.overlay.topics import TopicFollower
from coordinator.overlay.verification import ClusterVerification
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CreateTopicsRequest, CreateTopicsResponse, MetadataResponse
from coordinator.runtime.memory import Memory
from coordinator.runtime.router import Router
from coordinator.topics.names import CONSUMER_OFFSETS
from coordinator.topics.topics import Topics
from coordinator.transactions.marker_delivery import MarkerWriter

_log = logging.getLogger(__name__)

SOON_S = 0.1
"""When the cluster is asked again while topics change."""
CREATION_MS = 10_000
_WITH_IDS = 12
_NOWHERE = ("", 0)

Listen = Callable[[int, Callable[[], Dispatcher]], Awaitable[Listener]]
"""`listen(port, make_dispatcher)` opens a listener like the main one. Raises OSError or OverflowError."""


class CannotStand(Exception):
    """The cluster cannot be reached, or this server does not fit to it. The text is one line."""


class Overlay:
    """This server's part in front of a cluster."""

    def __init__(
        self,
        config: ServerConfig,
        server: Server,
        groups: Router[GroupMachine],
        markers: MarkerWriter,
        topics: Topics,
        memory: Memory,
        cluster: Cluster,
        apis: Mapping[int, Api[object]],
        codec: Codec,
        learners: Mapping[int, LearnTemplate],
    ) -> None:
        """`cluster`: the workers. Raises CannotStand if the files of TLS are not usable."""
        self._config = config
        overlay = config.overlay
        try:
            links = Links(security_of(overlay))
        except SecurityFailed as error:
            raise CannotStand(f"data.ssl: {error}") from error
        self.cluster = OverlayCluster(cluster, _NOWHERE)
        self._listen: Listen | None = None
        self._ports: dict[int, int] = {}
        """The port of each broker's listener, which it keeps."""
        self.brokers = Brokers(overlay.addresses, links, self._open_listener)
        own_id = NODE_IDS_FROM + config.node_id
        addresses = Addresses(self.brokers, self._nodes, overlay.data_listener_port, own_id)
        self._wake = asyncio.Event()
        self._behind = Behind(server, self.brokers, links, addresses, memory, self._named_nodes, self._wake.set)
        self._dispatching = apis, codec, learners
        self.topics = topics
        self.follower = TopicFollower(topics)
        self._leaders: dict[int, int] = {}
        """Partition of the cluster's `__consumer_offsets` -> the broker that leads it."""
        self._readers = Readers(groups, self.brokers, self._leaders.get, markers)
        self.verification = ClusterVerification(self.brokers, self._readers)
        self._task: asyncio.Task[None] | None = None
        self._creations: set[asyncio.Task[None]] = set()
        self._problem = ""
        """Why the last look-up failed."""

    def _nodes(self) -> Sequence[Node]:
        return self.cluster.nodes(_NOWHERE)

    def _named_nodes(self) -> Sequence[Node]:
        return self.cluster.named_nodes(_NOWHERE)

    @property
    def cluster_problem(self) -> str:
        """Why clients should not use this server, which needs the cluster; empty if the last look-up found it."""
        return self._problem if self._behind.is_known else "the cluster is not known yet"

    @property
    def listeners(self) -> Sequence[Listener]:
        """Those of the brokers."""
        return list(self.brokers.listeners.values())

    def dispatcher(self, broker_id: int | None = None) -> OverlayDispatcher:
        """The dispatcher of a listener; None: of the main one."""
        return OverlayDispatcher(self._behind, broker_id, *self._dispatching)

    async def _open_listener(self, broker_id: int) -> Listener:
        """Listens for a broker, on the same port as before if that is possible: clients may not ask for it again soon."""
        assert self._listen is not None
        first = self._config.overlay.data_listener_port
        port = first + broker_id if first else self._ports.get(broker_id, self.cluster.main[1] + 1 + broker_id)
        try:
            listener = await self._listen(port, lambda: self.dispatcher(broker_id))
        except (OSError, OverflowError):
            if first:
                raise
            listener = await self._listen(0, lambda: self.dispatcher(broker_id))
        self._ports[broker_id] = listener.bound[1]
        return listener

    # --- the life of the server ---------------------------------------------------------------------------------------

    def advertise(self, main: tuple[str, int]) -> None:
        """Notes where clients reach this server's main listener."""
        self.cluster.main = main

    async def start(self, listen: Listen) -> None:
        """Reaches the cluster, opens the listeners, and copies the topics. Raises CannotStand."""
        self._listen = listen
        try:
            response = await self.brokers.start()
        except LinkFailed as error:
            raise CannotStand(f"data.bootstrap.servers: {error}") from error
        if self.follower.is_foreign(response):
            raise CannotStand(f"{self._config.log_dir} has groups and topics of another cluster: choose another folder")
        await self._follow(response)
        self._readers.start()
        self._task = asyncio.create_task(self._run())

    def _follow_offsets_topic(self, response: MetadataResponse) -> None:
        """Notes who leads its partitions. Raises CannotStand unless groups are in the same partitions there.

        A transaction of a group ends in that partition.
        """
        ours = self._config.log.offsets_topic_num_partitions
        self._leaders.clear()
        for topic in response.topics:
            if topic.name == CONSUMER_OFFSETS and topic.partitions:
                if len(topic.partitions) != ours:
                    raise CannotStand(
                        f"offsets.topic.num.partitions = {ours}: the cluster has {len(topic.partitions)} partitions of"
                        f" {CONSUMER_OFFSETS}; set {len(topic.partitions)}"
                    )
                led = {each.partition_index: each.leader_id for each in topic.partitions if each.leader_id >= 0}
                self._leaders.update(led)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            wait_s = SOON_S if self.follower.is_behind else self._config.overlay.data_metadata_refresh_ms / 1000
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            try:
                await self._follow(await self.brokers.look_up())
                self._problem = ""
            except (LinkFailed, CannotStand) as error:
                problem = f"the cluster cannot be followed: {error}"
                if problem != self._problem:  # one that lasts is logged once
                    _log.warning("event=cluster_not_followed reason=%s", error)
                self._problem = problem
            except Exception:  # noqa: BLE001 - a bug in one look-up must not end the following
                _log.exception("event=look_up_failed")

    async def _follow(self, response: MetadataResponse) -> None:
        self._follow_offsets_topic(response)
        unlisted = self.follower.unlisted(response)
        unknown = await self.brokers.unknown(unlisted) if unlisted else set()
        applied = asyncio.get_running_loop().create_future()
        self.follower.follow(response, unknown, lambda: applied.set_result(None))
        await applied
        if self.brokers.is_known:
            self._behind.note_known()

    # --- topics -------------------------------------------------------------------------------------------------------

    def forget_topics(self, topic_ids: Iterable[bytes]) -> None:
        """Notes that topics were deleted here, by whichever worker."""
        for topic_id in topic_ids:
            self.follower.forget(topic_id)

    def create_topics(self, request: CreateTopicsRequest, done: Callable[[CreateTopicsResponse], None]) -> None:
        """Creates topics on the cluster: the internal ones of streams groups. `done` gets the result of each."""
        task = asyncio.get_running_loop().create_task(self._create(request, done))
        self._creations.add(task)
        task.add_done_callback(self._creations.discard)

    async def _create(self, request: CreateTopicsRequest, done: Callable[[CreateTopicsResponse], None]) -> None:
        request.timeout_ms = CREATION_MS
        try:
            response = await self.brokers.ask_any(request)
        except LinkFailed as error:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            results = [
                CreateTopicsResponse.CreatableTopicResult(name=each.name, error_code=code) for each in request.topics
            ]
            _log.warning("event=topics_not_created reason=%s", error)
            response = CreateTopicsResponse(topics=results)
        done(response)
        self._wake.set()

    async def close_listeners(self, drain_ms: int) -> None:
        """Follows the cluster no more, lets responses leave, and closes the brokers' listeners."""
        self._behind.give_up()
        await _end(self._task)
        await self.brokers.close_listeners(drain_ms)

    async def stop(self) -> None:
        """Ends what this server asks the cluster itself."""
        for task in list(self._creations):
            await _end(task)
        await self.verification.stop()
        await self._readers.stop()
        self.brokers.disconnect()


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
