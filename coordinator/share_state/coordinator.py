"""The share coordinator as this server's own parts and its API files ask it.

A share partition is stored in the partition of `__share_group_state` in which Kafka would store it: by the hash of its key,
GROUP:TOPIC-ID:PARTITION. If another worker has that one, it is asked, with the request that a Kafka broker would send it.
"""

import re
from asyncio import Future, get_running_loop
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Protocol, TypeVar

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import DONE, InternalRequest
from coordinator.runtime.router import Router
from coordinator.runtime.shard import Operation, Status
from coordinator.share_state.delete import Deletion, delete
from coordinator.share_state.initialize import Initialization, initialize
from coordinator.share_state.machine import ShareStateMachine
from coordinator.share_state.read import Read, read
from coordinator.share_state.share_state import Batch, SharePartition, ShareState, Summary
from coordinator.share_state.summary import SummaryWanted, read_summary
from coordinator.share_state.write import Write, write

_KEY = re.compile(r"(.+):([A-Za-z0-9_-]{22})(?:==)?:([+-]?[0-9]{1,10})", re.DOTALL)
_INT_MAX = 2**31 - 1
_TEXTS_MAX = 4_096
PIECE_PARTITIONS = 20
"""Partitions that are asked about in about a millisecond."""
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Asked(Protocol):
    """The argument of an operation."""

    @property
    def key(self) -> SharePartition: ...


AskElsewhere = Callable[[int, Asked, Callable[[Any], None]], None]
"""`ask(index of the shard, what is asked, done)`. `done` gets what the operation replies there, or a KafkaError."""

AskEndOffsets = Callable[[Mapping[str, Sequence[int]], Callable[[Mapping[tuple[str, int], int]], None]], None]
"""`ask(partitions by topic, done)`. `done` gets the high watermarks of those that the other worker knows."""


@lru_cache(_TEXTS_MAX)
def text_of(key: SharePartition) -> str:
    """The key as FindCoordinator has it, whose hash selects the partition (Kafka's SharePartitionKey.asCoordinatorKey)."""
    return f"{key.group_id}:{urlsafe_b64encode(key.topic_id).decode().rstrip('=')}:{key.partition}"


def share_partition(text: str) -> SharePartition | None:
    """The reverse; None for what is no key. A group may contain colons, and the partition may be any number of 32 bits."""
    match = _KEY.fullmatch(text)
    if match is None or not -_INT_MAX - 1 <= int(match[3]) <= _INT_MAX:
        return None
    return SharePartition(match[1], urlsafe_b64decode(f"{match[2]}=="), int(match[3]))


class ShareCoordinator:
    """Sends each question to the shard that has the share partition. It is a `ShareStates`."""

    def __init__(self, router: Router[ShareStateMachine]) -> None:
        self.router = router
        self.elsewhere: AskElsewhere | None = None
        """Asks the worker that has the shard of a share partition; None: all are here."""
        self.end_offsets_elsewhere: AskEndOffsets | None = None
        """Asks the worker that leads the partitions of topics; None: all are here."""

    def submit(
        self, operation: Operation[ShareStateMachine, Any], asked: Asked, done: Callable[[Any], None], *, writes: bool
    ) -> None:
        """Asks this server's shard. `done` gets what the operation replies when that is durable, or a KafkaError."""
        self.router.submit(text_of(asked.key), operation, InternalRequest(asked, done, writes=writes))

    def _ask(self, operation: Operation[ShareStateMachine, Any], asked: Asked, *, writes: bool = True) -> Future[Any]:
        outcome: Future[Any] = get_running_loop().create_future()

        def done(reply: Any) -> None:
            if not outcome.done():
                outcome.set_result(_outcome(reply))

        shard = self.router.shard_of(text_of(asked.key))
        if self.elsewhere is not None and shard.status is Status.ELSEWHERE:
            self.elsewhere(shard.index, asked, done)
        else:
            self.submit(operation, asked, done, writes=writes)
        return outcome

    def initialize(self, key: SharePartition, state_epoch: int, start_offset: int) -> Future[ErrorCode]:
        """As `ShareStates.initialize`."""
        return self._ask(initialize, Initialization(key, state_epoch, start_offset))

    def read(self, key: SharePartition, leader_epoch: int) -> Future[ShareState | ErrorCode]:
        """As `ShareStates.read`."""
        return self._ask(read, Read(key, leader_epoch))

    def write(
        self,
        key: SharePartition,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[Batch],
    ) -> Future[ErrorCode]:
        """As `ShareStates.write`."""
        return self._ask(write, Write(key, state_epoch, leader_epoch, start_offset, delivery_complete_count, batches))

    def summary(self, key: SharePartition, leader_epoch: int) -> Future[Summary | ErrorCode]:
        """As `ShareStates.summary`."""
        return self._ask(read_summary, SummaryWanted(key, leader_epoch), writes=False)

    def delete(self, key: SharePartition) -> Future[ErrorCode]:
        """As `ShareStates.delete`."""
        return self._ask(delete, Deletion(key))


def ask_in_pieces(asks: Mapping[K, Callable[[], Future[T]]], done: Callable[[Mapping[K, T]], None]) -> Iterator[None]:
    """Asks the share coordinator many questions, some in each step; `done` gets the outcomes when there are all of them."""
    outcomes: dict[K, T] = {}

    def answered(key: K, future: Future[T]) -> None:
        outcomes[key] = future.result()
        if len(outcomes) == len(asks):
            done(outcomes)

    if not asks:
        done(outcomes)
    for number, (key, ask) in enumerate(asks.items(), 1):
        ask().add_done_callback(partial(answered, key))
        if not number % PIECE_PARTITIONS:
            yield


class StatesOfGroups:
    """The share coordinator as groups ask it: about all partitions of a group at once (groups/share_states.py)."""

    def __init__(self, coordinator: Callable[[], ShareCoordinator]) -> None:
        """`coordinator`: the share coordinator, which may be made later than this."""
        self._coordinator = coordinator

    def initialize(
        self,
        group_id: str,
        state_epoch: int,
        start_offsets: Mapping[tuple[bytes, int], int],
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Makes states. `done` gets NONE when all of them are durable, or the first error when all were answered."""
        initialize = self._coordinator().initialize
        asks = {
            key: partial(initialize, SharePartition(group_id, *key), state_epoch, start_offset)
            for key, start_offset in start_offsets.items()
        }
        for _ in ask_in_pieces(asks, lambda errors: done(next(filter(None, errors.values()), ErrorCode.NONE))):
            pass

    def delete(self, group_id: str, partitions: Collection[tuple[bytes, int]]) -> None:
        """Deletes states, in the turn in which it is called."""
        for key in partitions:
            self._coordinator().delete(SharePartition(group_id, *key))


def _outcome(reply: Any) -> Any:
    if isinstance(reply, KafkaError):
        return reply.code
    return ErrorCode.NONE if reply is DONE else reply
