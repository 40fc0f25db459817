"""The cluster as its clients see it: who leads which partition, and connections to brokers.

A connection has a purpose, so that a page of a replay does not delay an append. Whoever asks a broker and gets no answer in
time closes that connection: what was asked may still happen, and nobody waits for it.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Coroutine, Iterable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from coordinator.client.asynchronous import Client
from coordinator.client.asynchronous import connect as connect_client
from coordinator.client.conversation import LinkFailed, LinkRefused
from coordinator.cluster.engine.address import EngineAddress
from coordinator.cluster.engine.engine import EngineRefused, EngineSettings, EngineUnavailable
from coordinator.cluster.engine.kafka.address import ClusterAddress, cluster_address
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    Answer,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    Request,
)

_log = logging.getLogger(__name__)

VERSIONS = {
    "CreateTopics": 4,
    "DeleteRecords": 1,
    "DescribeConfigs": 2,
    "Fetch": 11,
    "FindCoordinator": 2,
    "InitProducerId": 1,
    "ListOffsets": 5,
    "Metadata": 8,
    "Produce": 8,
}
"""Versions that Apache Kafka has had since 2.4 (2019), and other brokers have too."""
APACHE_FEATURE = "metadata.version"
"""A finalized feature of Apache Kafka's brokers with KRaft, and of what descends from them."""
CLIENT_ID = "coordinator-engine"


async def connect(host: str, port: int, address: ClusterAddress, limit_s: float) -> Client:
    """A connection whose versions are checked and whose user is known to the broker.

    Raises: EngineRefused: the broker does not accept the user, or lacks a version; EngineUnavailable.
    """
    try:
        client = await connect_client(host, port, CLIENT_ID, within_s=limit_s, tls=address.tls, sasl=address.sasl)
    except LinkRefused as error:
        raise EngineRefused(str(error)) from None
    except LinkFailed as error:
        raise EngineUnavailable(str(error)) from None
    try:
        _check(client)
    except EngineRefused:
        client.close()
        raise
    return client


def is_apache(response: ApiVersionsResponse) -> bool:
    """Whether a broker that answers this is Apache Kafka's."""
    return any(feature.name == APACHE_FEATURE for feature in response.finalized_features)


def _check(client: Client) -> None:
    """Raises: EngineRefused."""
    for api, version in VERSIONS.items():
        low, high = client.versions.get(Codec.of().definition(f"{api}Request").api_key or 0, (0, -1))
        if not low <= version <= high:
            raise EngineRefused(
                f"{client.name} does not know {api} in version {version}; a broker of Kafka 2.4 or newer is needed"
            )


T = TypeVar("T")
RETRY_S = 0.02
RETRY_MAX_S = 0.25
METADATA_S = 1.0
"""How long one broker has to say who leads; then another one is asked."""


class Partition(NamedTuple):
    topic: str
    number: int


class BrokerError(EngineUnavailable):
    """A broker's answer is an error."""

    def __init__(self, doing: str, code: int) -> None:
        self.code = ErrorCode(code)
        super().__init__(f"{doing}: {self.code.name}")


def refuse_error(doing: str, code: int) -> None:
    """Raises: BrokerError, unless the code is NONE."""
    if code:
        raise BrokerError(doing, code)


class Cluster:
    """The brokers that an address leads to."""

    def __init__(self, address: EngineAddress, settings: EngineSettings) -> None:
        """Raises: ValueError, if the address is not valid."""
        self._address = cluster_address(address)
        self._shown = str(address)
        self._settings = settings
        self._hosts: dict[int, tuple[str, int]] = {}
        self._leaders: dict[Partition, int] = {}
        self._links: dict[tuple[str, int], asyncio.Task[Client]] = {}
        self._is_closed = False
        self.is_checked = False
        """Whether the cluster was found fit. If it refuses something from then on, it may be fit again later."""
        self.is_apache = False
        """Whether the brokers are Apache Kafka's."""

    @property
    def limit_s(self) -> float:
        """How long anything may take until its outcome is unknown."""
        return self._settings.append_timeout_ms / 1000

    @property
    def attempt_s(self) -> float:
        """How long one broker has to answer. It is half of all, so that a new leader can be asked in time."""
        return self.limit_s / 2

    @property
    def brokers(self) -> int:
        """How many there are."""
        return len(self._hosts)

    # --- requests -----------------------------------------------------------------------------------------------------

    async def ask(self, node_id: int, purpose: str, request: Request[Answer], limit_s: float | None = None) -> Answer:
        """The response of a broker. Raises: EngineUnavailable; before the cluster is checked, EngineRefused."""
        link = await self._link(node_id, purpose)
        try:
            async with asyncio.timeout(self.attempt_s if limit_s is None else limit_s):
                return await link.send(request, VERSIONS[request.NAME.removesuffix("Request")])
        except LinkFailed as error:
            raise EngineUnavailable(str(error)) from None
        except TimeoutError:
            link.close("no answer in time")
            raise EngineUnavailable(f"{link.name}: no answer in time") from None
        except asyncio.CancelledError:
            # Most often for want of time. Nothing must wait behind an answer that may never come.
            link.close("a request was given up")
            raise

    async def ask_leader(self, partition: Partition, purpose: str, request: Request[Answer]) -> Answer:
        """The response of the broker that leads a partition. Raises: EngineUnavailable."""
        node_id = await self.leader(partition)
        try:
            return await self.ask(node_id, purpose, request)
        except (EngineUnavailable, asyncio.CancelledError):
            self.forget([partition])
            raise

    async def ask_any(self, purpose: str, request: Request[Answer]) -> Answer:
        """The response of some broker, which forwards it where needed. Raises: EngineUnavailable."""
        if not self._hosts:
            await self.refresh([])
        return await self.ask(random.choice(list(self._hosts)), purpose, request)  # noqa: S311 - it spreads load

    async def repeat(self, act: Callable[[], Coroutine[Any, Any, T]], *partitions: Partition) -> T:
        """What `act` returns, which is tried again after errors that end by themselves, until its time is over.

        Asks again who leads these partitions. Raises: EngineUnavailable.
        """
        loop = asyncio.get_running_loop()
        deadline, pause_s = loop.time() + self.limit_s, RETRY_S
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await act()
            except TimeoutError:
                raise EngineUnavailable("no answer in time") from None
            except EngineUnavailable as error:
                is_final = isinstance(error, BrokerError) and not error.code.retriable
                if is_final or self._is_closed or loop.time() + pause_s > deadline:
                    raise
            self.forget(partitions)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_MAX_S)

    # --- who leads ----------------------------------------------------------------------------------------------------

    async def leader(self, partition: Partition) -> int:
        """The node id of a partition's leader. Raises: EngineUnavailable, if there is none at the moment."""
        if partition not in self._leaders:
            await self.refresh([partition.topic])
        node_id = self._leaders.get(partition, -1)
        if node_id not in self._hosts:
            self._leaders.pop(partition, None)
            raise EngineUnavailable(f"{partition.topic}-{partition.number} has no leader")
        return node_id

    async def learn(self, partitions: Iterable[Partition]) -> None:
        """Asks once who leads all those of which it is not known. Without an answer it stays so."""
        topics = [each.topic for each in partitions if each not in self._leaders]
        if topics:
            with suppress(EngineUnavailable):
                await self.refresh(topics)

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Asks again who leads these partitions, before the next request to them."""
        for partition in partitions:
            self._leaders.pop(partition, None)

    async def refresh(self, topics: Collection[str] | None) -> dict[str, int]:
        """Asks who leads these topics' partitions; returns how many replicas those that exist have. None: all topics.

        Raises: EngineUnavailable.
        """
        wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        answer = await self._metadata(MetadataRequest(wanted, allow_auto_topic_creation=False))
        self._hosts = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        found = {}
        for topic in answer.topics:
            assert topic.name is not None
            if topic.error_code in {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION}:
                refuse_error(f"the topic {topic.name}", topic.error_code)
            if topic.error_code:
                continue
            found[topic.name] = min((len(each.replica_nodes) for each in topic.partitions), default=0)
            for each in topic.partitions:
                self._leaders[Partition(topic.name, each.partition_index)] = each.leader_id
        return found

    async def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        """The answer of the first broker that has one: those that are known, then those of the address."""
        errors: list[Exception] = []
        for target in [*random.sample(list(self._hosts), len(self._hosts)), *self._bootstraps()]:
            try:
                answer = await self.ask(target, "metadata", request, METADATA_S)
            except (EngineUnavailable, EngineRefused) as error:
                errors.append(error)
            else:
                if answer.brokers:
                    return answer
        refused = next((error for error in errors if isinstance(error, EngineRefused)), None)
        raise refused or EngineUnavailable(f"{self._shown}: {errors[-1]}" if errors else self._shown)

    def _bootstraps(self) -> list[int]:
        """The brokers of the address, as node ids that no broker has."""
        return [-2 - number for number in range(len(self._address.brokers))]

    # --- connections --------------------------------------------------------------------------------------------------

    async def _link(self, node_id: int, purpose: str) -> Client:
        """The connection to a broker for a purpose, which is made if there is none. Raises: EngineUnavailable."""
        if self._is_closed:
            raise EngineUnavailable("the engine is closed")
        task = self._links.get((purpose, node_id))
        if task is None or (task.done() and (task.cancelled() or task.exception() or task.result().is_lost)):
            host, port = self._hosts[node_id] if node_id >= 0 else self._address.brokers[-2 - node_id]
            task = asyncio.create_task(
                connect(host, port, self._address, self._settings.connect_timeout_ms / 1000),
            )
            task.add_done_callback(_note)
            self._links[purpose, node_id] = task
        try:
            link = await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._is_closed and task.cancelled():
                raise EngineUnavailable("the engine is closed") from None
            raise
        except EngineRefused as error:
            if self.is_checked:
                raise EngineUnavailable(str(error)) from None
            raise
        self.is_apache = is_apache(link.api_versions)
        return link

    async def close(self) -> None:
        """Closes all connections."""
        self._is_closed = True
        for task in self._links.values():
            task.cancel()
            if task.done() and not task.cancelled() and task.exception() is None:
                task.result().close()
        await asyncio.gather(*self._links.values(), return_exceptions=True)


def _note(task: asyncio.Task[Client]) -> None:
    """Whoever wanted the connection may be gone, so an error must not stay unseen."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.info("event=broker_not_reached reason=%s", error)
