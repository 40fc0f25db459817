"""Finds the shard of a group, and handles requests that span shards.

A group is stored in the partition of `__consumer_offsets` in which Kafka would store it: Java's String.hashCode of the group
id, made non-negative, modulo the number of partitions. So the data folder of a real broker can be loaded as it is.

A request that names several groups, or none, is split into one part per shard. Each part is an ordinary request of its shard
and waits for that shard's log like any other; when the last part is answered, they are combined into the response. A request
that names many groups is split further, so that others have their turn between the parts.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, Generic, Protocol, TypeVar

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.java import positive_hash
from coordinator.protocol.messages import Message
from coordinator.runtime.internal_request import UnencodedReplies
from coordinator.runtime.result import RequestContext, Result
from coordinator.runtime.shard import Operation, R, S, Shard, ShardRequest, Status

V = TypeVar("V")
PART_WEIGHT = 50
"""The weight of a part. Most groups weigh 1, and looking at as many as this takes about a millisecond."""
SPLIT_GROUPS = 500
"""Groups whose shards are found in about a millisecond."""


class SplitRequest(ShardRequest[Any], Protocol):
    """A request of several shards, whose work and response may be large (api/exchange.py)."""

    def run_in_slices(self, pieces: Iterator[None], *, even_if_lost: bool = False) -> None: ...
    def reply_in_slices(self, message: Message) -> None: ...


class Router(Generic[S]):
    """All shards of one coordinator, of groups or of transactional ids."""

    def __init__(self, shards: Sequence[Shard[S]]) -> None:
        self.shards = shards
        self._by_group: dict[str, Shard[S]] = {}
        self._cached_max = 32_768

    @property
    def here(self) -> list[Shard[S]]:
        """The shards that this server has, or is about to have."""
        return [shard for shard in self.shards if shard.status is not Status.ELSEWHERE]

    def shard_of(self, group_id: str) -> Shard[S]:
        shard = self._by_group.get(group_id)
        if shard is None:
            shard = self.shards[positive_hash(group_id) % len(self.shards)]
            if len(self._by_group) >= self._cached_max:
                self._by_group.clear()
            self._by_group[group_id] = shard
        return shard

    def submit(self, group_id: str, operation: Operation[S, R], request: ShardRequest[R]) -> None:
        """Submits a request to the shard of its group."""
        shard = self._by_group.get(group_id)
        (self.shard_of(group_id) if shard is None else shard).submit(operation, request)

    def run_internal(self, group_id: str, change: Callable[[S, int], Result]) -> None:
        """Runs a change on the shard of the group (`Shard.run_internal`)."""
        self.shard_of(group_id).run_internal(change)

    def gather(self, view: Callable[[S, int], V], request: SplitRequest, combine: Callable[[list[V]], Message]) -> None:
        """Calls `view(state, now_ms)` on every shard and replies `combine(values)`, with the values in the order of shards.

        Shards that another server has, or gets meanwhile, are left out: clients ask that one too. If a shard refuses for any
        other reason, the request is refused, as Kafka's ListGroups is.
        """

        def operation(state: S, _request: None, _context: RequestContext, now_ms: int) -> Result:
            value: Any = view(state, now_ms)
            return Result(value)

        def combine_those_here(values: list[Any]) -> Message:
            return combine([value for value in values if value is not _ELSEWHERE])

        parts = [(shard, None) for shard in self.here]
        split = _SplitRequest(request, combine_those_here, len(parts), _unless_elsewhere)
        request.run_in_slices(split.submit(parts, operation), even_if_lost=request.writes)

    def gather_by_group(
        self,
        group_ids: Iterable[str],
        operation: Operation[S, list[str]],
        request: SplitRequest,
        combine: Callable[[list[V]], Message],
        *,
        refused: Callable[[list[str], ErrorCode], V],
        weigh: Callable[[S, str], int] = lambda _state, _group_id: 1,
    ) -> None:
        """Runs `operation(state, group ids of the shard, context, now_ms)` on each shard that has some of the groups.

        Replies `combine(replies)`: any objects, in the order in which their shards were first named. If a shard refuses its
        part, because it is loading or elsewhere, the reply is `refused(group ids, error)`: as in Kafka, the groups of other
        shards are answered. `weigh(state, group id)`: the work that a group is. A shard with more than PART_WEIGHT gets several
        parts; a single group that weighs more is as many pieces, so that a slice ends with it.
        """

        def pieces() -> Iterator[None]:
            parts = yield from self._parts(group_ids, weigh)
            split = _SplitRequest(request, combine, len(parts), refused)
            submitted = split.submit([(shard, part) for shard, part, _ in parts], operation)
            for _, (_, _, weight) in zip(submitted, parts, strict=True):
                yield from repeat(None, max(1, weight // PART_WEIGHT))

        request.run_in_slices(pieces(), even_if_lost=request.writes)

    def gather_of_group(
        self,
        group_id: str,
        parts: Sequence[R],
        operation: Operation[S, R],
        request: SplitRequest,
        combine: Callable[[list[V]], Message],
        *,
        refused: Callable[[R, ErrorCode], V],
    ) -> Iterator[None]:
        """Runs the operation for each part of a large request of one group, one in each step. The rest is as above."""
        shard = self.shard_of(group_id)
        yield from _SplitRequest(request, combine, len(parts), refused).submit(
            [(shard, part) for part in parts], operation
        )

    def _parts(
        self, group_ids: Iterable[str], weigh: Callable[[S, str], int]
    ) -> Generator[None, None, list[tuple[Shard[S], list[str], int]]]:
        """The shards with their groups and the weight of these. It exceeds PART_WEIGHT only if there is one group."""
        split: dict[int, list[tuple[Shard[S], list[str], int]]] = {}
        for number, group_id in enumerate(group_ids, 1):
            shard = self.shard_of(group_id)
            weight = weigh(shard.state, group_id)
            parts = split.setdefault(shard.index, [])
            _, part, others = parts[-1] if parts else (shard, [], 0)
            if part and others + weight <= PART_WEIGHT:
                part.append(group_id)
                parts[-1] = shard, part, others + weight
            else:
                parts.append((shard, [group_id], weight))
            if not number % SPLIT_GROUPS:
                yield
        return list(chain.from_iterable(split.values()))


_ELSEWHERE: Any = object()
"""What a shard replies that another server has."""


def _unless_elsewhere(_content: Any, error: ErrorCode) -> Any:
    return _ELSEWHERE if error is ErrorCode.NOT_COORDINATOR else KafkaError(error)


class _SplitRequest:
    """A request that is split into parts, with the replies that have arrived."""

    __slots__ = ("_combine", "_left", "_refused", "_replies", "_request")

    def __init__(
        self,
        request: SplitRequest,
        combine: Callable[[list[Any]], Message],
        parts: int,
        refused: Callable[[Any, ErrorCode], Any],
    ) -> None:
        """`refused`: the reply of a part that was refused with this error; with a KafkaError the request is."""
        self._refused = refused
        self._request = request
        self._combine = combine
        self._replies: list[Any] = [None] * parts
        self._left = parts

    def submit(self, parts: Sequence[tuple[Shard[S], R]], operation: Operation[S, R]) -> Iterator[None]:
        """Submits a part in each step."""
        if not parts:
            self._request.reply_in_slices(self._combine([]))
        for position, (shard, content) in enumerate(parts):
            shard.submit(operation, _Part(self, position, content, self._request))
            yield

    def on_reply(self, position: int, content: Any, reply: Any) -> None:
        """The reply of one part: the last one completes the response."""
        if isinstance(reply, KafkaError):
            reply = self._refused(content, reply.code)
        self._replies[position] = reply
        self._left -= 1
        if self._left:
            return
        request = self._request
        error = next((reply for reply in self._replies if isinstance(reply, KafkaError)), None)
        if error is None:
            request.reply_in_slices(self._combine(self._replies))
        else:
            request.send(request.encode(request.refusal(error)))


class _Part(UnencodedReplies):
    """One shard's part of a request, itself a ShardRequest."""

    __slots__ = (
        "_position", "_whole", "api_version", "behaviours", "client_host", "client_id", "dialect", "fresh_id", "link",
        "request", "writes",
    )  # fmt: skip

    def __init__(self, whole: _SplitRequest, position: int, content: Any, request: ShardRequest[Any]) -> None:
        self._whole = whole
        self._position = position
        self.request = content
        self.api_version = request.api_version
        self.client_id = request.client_id
        self.client_host = request.client_host
        self.link = request.link
        self.dialect = request.dialect
        self.behaviours = request.behaviours
        self.fresh_id = request.fresh_id
        self.writes = request.writes

    def send(self, payload: Any) -> None:
        self._whole.on_reply(self._position, self.request, payload)
