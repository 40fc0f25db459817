"""The server as the requests to one of its brokers see it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, cast

from coordinator.api.server import Server
from coordinator.config.broker_configs import Endpoint
from coordinator.nodes.brokers import Brokers
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.router import Router
from coordinator.runtime.shard import Operation, R, S, Shard, ShardRequest, Status
from coordinator.share_state import questions
from coordinator.share_state.coordinator import ShareCoordinator
from coordinator.topics import names
from coordinator.topics.internal_partition import InternalPartition
from coordinator.topics.partition import Partition
from coordinator.topics.topics import Topics


class TopicsOfBroker(Topics):
    """The topics, of which the broker has the partitions that it leads, and replicas of others.

    It shares all attributes with the topics of the server; only the two that say which broker this is are its own.
    """

    __slots__ = ("_broker_id", "_brokers")

    def __init__(self, topics: Topics, brokers: Brokers, broker_id: int) -> None:
        self.__dict__ = topics.__dict__
        self._brokers = brokers
        self._broker_id = broker_id

    def partition(self, name: str, index: int) -> Partition | InternalPartition | None:
        return super().partition(name, index) if self._brokers.leads(self._broker_id, name, index) else None

    def replica(self, name: str, index: int) -> Partition | InternalPartition | None:
        return super().partition(name, index) if self._brokers.has(self._broker_id, name, index) else None

    def preferred_replica(self, name: str, index: int, rack: str) -> int:
        return self._brokers.nearest(self._broker_id, name, index, rack)

    def user_partition(self, name: str, index: int) -> Partition | None:
        return super().user_partition(name, index) if self._brokers.leads(self._broker_id, name, index) else None


class ShardOfBroker(Generic[S]):
    """A shard, which is elsewhere while another broker leads its partition."""

    def __init__(self, shard: Shard[S], is_here: Callable[[int], bool]) -> None:
        self._shard = shard
        self._is_here = is_here

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shard, name)

    @property
    def status(self) -> Status:
        return self._shard.status if self._is_here(self._shard.index) else Status.ELSEWHERE

    def submit(self, operation: Operation[S, R], request: ShardRequest[R]) -> None:
        if self._is_here(self._shard.index):
            self._shard.submit(operation, request)
        else:
            request.send(request.encode(request.refusal(KafkaError(ErrorCode.NOT_COORDINATOR))))


class _View:
    """The server with some parts in place of its own."""

    def __init__(
        self, server: Server, brokers: Brokers, broker_id: int, endpoints: Callable[[], Sequence[Endpoint]]
    ) -> None:
        self._server = server
        self._brokers = brokers
        self._endpoints = endpoints
        self.node_id = broker_id
        self.topics = TopicsOfBroker(server.topics, brokers, broker_id)
        self.groups = self._router(server.groups, names.CONSUMER_OFFSETS)
        self.transactions = self._router(server.transactions, names.TRANSACTION_STATE)
        self.share_states = ShareCoordinator(self._router(server.share_states.router, names.SHARE_GROUP_STATE))
        self.share_states.elsewhere = partial(_ask, server.share_states)
        self.share_partitions = server.share_partitions.of_broker(self.topics, server.share_states)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        return self._endpoints()

    def _router(self, router: Router[S], topic: str) -> Router[S]:
        def is_here(index: int) -> bool:
            return self._brokers.leads(self.node_id, topic, index)

        return Router([cast(Shard[S], ShardOfBroker(shard, is_here)) for shard in router.shards])


def _ask(states: ShareCoordinator, _shard: int, asked: Any, done: Callable[[Any], None]) -> None:
    """Asks the shard at the broker that has it, as a broker asks the share coordinator."""
    question = questions.BY_ASKED[type(asked)]
    states.submit(question.operation, asked, done, writes=question.writes)


def as_broker(server: Server, brokers: Brokers, broker_id: int, endpoints: Callable[[], Sequence[Endpoint]]) -> Server:
    """The server as this broker."""
    return cast(Server, _View(server, brokers, broker_id, endpoints))
