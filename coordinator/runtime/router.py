"""Which shard a group belongs to, and requests that span shards.

A group lives on the partition of `__consumer_offsets` that Kafka would put it on: Java's String.hashCode of the group id,
made non-negative, modulo the number of partitions. So a data folder of a real broker loads unchanged.

A request that names several groups, or none, is split into one part per shard. Each part is an ordinary request of its
shard (it waits for that shard's log like any other); when the last one is through, the parts are combined into the answer.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from coordinator.protocol.errors import KafkaError
from coordinator.protocol.java import positive_hash
from coordinator.protocol.messages import Message
from coordinator.runtime.result import RequestContext, Result
from coordinator.runtime.shard import Operation, R, S, Shard, ShardRequest

V = TypeVar("V")


class Router(Generic[S]):
    """All shards of the coordinator."""

    def __init__(self, shards: Sequence[Shard[S]]) -> None:
        self.shards = shards
        self._by_group: dict[str, Shard[S]] = {}
        self._cached_max = 100_000

    def shard_of(self, group_id: str) -> Shard[S]:
        shard = self._by_group.get(group_id)
        if shard is None:
            shard = self.shards[positive_hash(group_id) % len(self.shards)]
            if len(self._by_group) >= self._cached_max:
                self._by_group.clear()
            self._by_group[group_id] = shard
        return shard

    def submit(self, group_id: str, operation: Operation[S, R], exchange: ShardRequest[R]) -> None:
        """Hands a request to its group's shard."""
        shard = self._by_group.get(group_id)
        (self.shard_of(group_id) if shard is None else shard).submit(operation, exchange)

    def run_internal(self, group_id: str, change: Callable[[S, int], Result]) -> None:
        """Lets the group's shard react to something that is no request of its."""
        self.shard_of(group_id).run_internal(change)

    def gather(
        self,
        view: Callable[[S, int], V],
        exchange: ShardRequest[Any],
        combine: Callable[[list[V]], Message],
    ) -> None:
        """Asks every shard `view(state, now_ms)`; answers `combine(values)` in the order of the shards."""

        def operation(state: S, _request: None, _context: RequestContext, now_ms: int) -> Result:
            value: Any = view(state, now_ms)
            return Result(value)

        _Joint(exchange, combine, [(shard, None) for shard in self.shards], operation)

    def gather_by_group(
        self,
        group_ids: Iterable[str],
        function: Operation[S, list[str]],
        exchange: ShardRequest[Any],
        combine: Callable[[list[V]], Message],
    ) -> None:
        """Runs `function(state, its group ids, call, now_ms)` on each shard that has some of the groups.

        The replies of the parts (any objects) come to `combine` in the order in which their shards were first named.
        """
        split: dict[int, tuple[Shard[S], list[str]]] = {}
        for group_id in group_ids:
            shard = self.shard_of(group_id)
            split.setdefault(shard.index, (shard, []))[1].append(group_id)
        _Joint(exchange, combine, list(split.values()), function)


class _Joint:
    """The answer in the making: one slot per part."""

    __slots__ = ("_combine", "_exchange", "_left", "_values")

    def __init__(
        self,
        exchange: ShardRequest[Any],
        combine: Callable[[list[Any]], Message],
        parts: Sequence[tuple[Shard[S], R]],
        operation: Operation[S, R],
    ) -> None:
        self._exchange = exchange
        self._combine = combine
        self._values: list[Any] = [None] * len(parts)
        self._left = len(parts)
        if not parts:
            exchange.send(exchange.encode(combine([])))
        for slot, (shard, request) in enumerate(parts):
            shard.submit(operation, _Part(self, slot, request, exchange))

    def arrived(self, slot: int, value: Any) -> None:
        self._values[slot] = value
        self._left -= 1
        if self._left:
            return
        exchange = self._exchange
        refused = next((value for value in self._values if isinstance(value, KafkaError)), None)
        message = self._combine(self._values) if refused is None else exchange.refusal(refused)
        exchange.send(exchange.encode(message))


class _Part:
    """One shard's part of a request, in the shape of a request."""

    __slots__ = ("_joint", "_slot", "api_version", "client_host", "client_id", "fresh_id", "request", "writes")

    def __init__(self, joint: _Joint, slot: int, request: Any, exchange: ShardRequest[Any]) -> None:
        self._joint = joint
        self._slot = slot
        self.request = request
        self.api_version = exchange.api_version
        self.client_id = exchange.client_id
        self.client_host = exchange.client_host
        self.fresh_id = exchange.fresh_id
        self.writes = exchange.writes

    def encode(self, message: Any) -> Any:
        return message

    def refusal(self, error: KafkaError) -> Any:
        return error

    def wait(self) -> None:
        """Nothing that spans shards is parked by a group."""
        raise AssertionError

    def send(self, payload: Any) -> None:
        self._joint.arrived(self._slot, payload)
