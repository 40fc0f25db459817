"""What a handler returns, and what it is given: the vocabulary between the deterministic core and its shell.

A handler is `handle(state, request, call, now_ms) -> Result`. It is synchronous; it knows no clock, loop, log or chance:
`now_ms` (wall clock, milliseconds) and fresh ids (`call.fresh_id`) are arguments. What must become durable is a
`Record`; what must happen later is a `Timer`; who must be answered is in `reply` (the asker) and `replies` (askers of
earlier requests that waited). What a person should be told (log line, metric) is a `Fact`; what should be known of it for good
is its `Event`. The shell
(`runtime/shard.py`) replays the records into the state, writes them, and lets every reply go when the log is durable up
to the last record written when it was computed.

A timer is a delay, not a deadline: sessions run on the monotonic clock, record timestamps on the wall clock, and a delay
needs neither.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from coordinator.log.batch_builder import BatchBuilder
from coordinator.protocol.messages import Message

TimerKey = tuple[Hashable, ...]
"""First item: the kind, by which the state machine knows what to do ("session", group id, member id)."""


class Record(NamedTuple):
    """One log record: a key message, and a value message with the version it is written in, or None for a tombstone."""

    key: Message
    value: Message | None
    value_version: int = 0


class Records(ABC):
    """Records of an operation that is so frequent that they bring their own way into the state, and into bytes.

    Iterated they are plain records, and to replay and encode each of those comes to the same.
    """

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Record]: ...

    @abstractmethod
    def replay(self, state: Any) -> None:
        """What `state.replay` of each would do."""

    @abstractmethod
    def add_to(self, batch: BatchBuilder) -> None:
        """What adding the key and value of each would do."""


class Producer(NamedTuple):
    """Whose transaction records belong to."""

    id: int
    epoch: int


class Marker(NamedTuple):
    """The end of a producer's transaction in one partition's log: a control batch (KIP-98)."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int = 0
    """From 2 on (KIP-890) the marker's epoch is above that of the records: partitions hold it to that."""


class Timer(NamedTuple):
    """Arms (or re-arms) the timer `key` to fire `delay_ms` from now; a delay of None disarms it."""

    key: TimerKey
    delay_ms: int | None


class Event(Protocol):
    """What the event log stores of a fact (runtime/event_log.py). It becomes a record at the end of the turn."""

    def record(self, state_offset: int, time_ms: int) -> Record:
        """The event's record. Where and when it was decided are the first two fields of every value."""
        ...


class MessageEvent:
    """An event that is kept as the messages of its record."""

    __slots__ = ("key", "value")

    def __init__(self, key: Message, value: Any) -> None:
        self.key = key
        self.value = value

    def record(self, state_offset: int, time_ms: int) -> Record:
        self.value.state_offset = state_offset
        self.value.time_ms = time_ms
        return Record(self.key, self.value, 0)


class Fact(NamedTuple):
    """Something worth telling: `name` and its fields make a log line and a metric, the event goes to the event log.

    Without a name it is for the event log alone: what happens with every commit is no line in a log.
    """

    name: str
    fields: dict[str, Any]
    event: Event | None = None


class RequestContext(Protocol):
    """A request as the core sees it: who asks, in which version. Kept by the core, opaque, while the asker waits."""

    @property
    def api_version(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def client_host(self) -> str: ...
    @property
    def fresh_id(self) -> str:
        """A new random UUID (36 characters) where the API may need one (JoinGroup); "" elsewhere."""
        ...


@dataclass(slots=True)
class Result:
    """What a handler wants done. `reply` None means that the asker waits (the core kept its `call`)."""

    reply: Message | bytes | None = None
    """Bytes: the body of an answer that says no error as a whole, as it was encoded before."""
    records: list[Record] | tuple[Record, ...] | Records = ()
    timers: Sequence[Timer] = ()
    replies: Sequence[tuple[RequestContext, Message]] = ()
    facts: Sequence[Fact] = field(default=())
    producer: Producer | None = None
    """The records are this producer's, in its open transaction: they get a transactional batch of their own."""
    marker: Marker | None = None
    """A control batch to be written, behind the records."""
    after: Sequence[Callable[[], None]] = ()
    """What is to be done once all that was written so far is durable; forgotten if the write fails."""
