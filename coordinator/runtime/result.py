"""The arguments and results of operations: the vocabulary between the deterministic core and its shell.

An operation is `operation(state, request, context, now_ms) -> Result`. It is synchronous and uses no clock, loop, log or random
source: `now_ms` (wall clock, milliseconds) and fresh ids (`context.fresh_id`) are arguments. Its result is data:

    reply, replies    the response to this request, and to earlier requests that were waiting
    records           changes that must become durable
    timers            operations that must run later
    facts             news for people: a log line, a metric, and permanently an `Event` in the event log

The shell (runtime/shard.py) replays the records into the state, writes them, and sends every reply when the log is durable up
to the last record that was written when the reply was computed.

A timer is a delay and not a deadline: sessions use the monotonic clock and record timestamps the wall clock, and a delay needs
neither.
"""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from coordinator.log.batch_builder import BatchBuilder
from coordinator.protocol.messages import Message
from coordinator.protocol.releases import Behaviours

TimerKey = tuple[Hashable, ...]
"""The first item is the kind of timer, by which the state machine dispatches: ("session", group id, member id)."""


class Record(NamedTuple):
    """A log record: a key message, and a value message with its version, or None for a tombstone."""

    key: Message
    value: Message | None
    value_version: int = 0


class Producer(NamedTuple):
    """The producer whose transaction records belong to."""

    id: int
    epoch: int


class Records:
    """The records of a very frequent operation, with their own faster ways to replay and encode them.

    Iteration gives plain records; replaying and encoding these has the same effect. It is no ABC, because `isinstance` of
    one costs time on every commit.
    """

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Record]: ...

    @abstractmethod
    def replay(self, state: Any) -> None:
        """Has the effect of `state.replay` for each record."""

    def replay_pending(self, state: Any, producer: Producer) -> None:
        """Has the effect of `state.replay_pending` for each record."""
        for record in self:
            state.replay_pending(record, producer)

    @abstractmethod
    def add_to(self, batch: BatchBuilder) -> None:
        """Has the effect of adding the key and value of each record."""


class Marker(NamedTuple):
    """The end of a producer's transaction in one partition's log: a control batch (KIP-98)."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int = 0
    """From 2 on (KIP-890) the marker's epoch must be above that of the records."""


class Timer(NamedTuple):
    """Arms the timer `key` to fire in `delay_ms`, which replaces its earlier delay; None disarms it."""

    key: TimerKey
    delay_ms: int | None


class Event(Protocol):
    """The part of a fact that the event log stores (runtime/event_log.py). It becomes a record at the end of the turn."""

    def record(self, state_offset: int, time_ms: int) -> Record:
        """The event's record. Where and when it was decided are the first two fields of every value."""


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
    """Something worth knowing. `name` and `fields` become a log line and a metric; `event` goes to the event log.

    A fact without a name is for the event log only: not every commit should be a line in the server's log.
    """

    name: str
    fields: dict[str, Any]
    event: Event | None = None


class Link:
    """What is known of a client's connection, also after its end: evidence of why a member is gone."""

    __slots__ = ("closed_ms", "end", "port", "principal")

    def __init__(self, port: int = -1) -> None:
        self.port = port
        """The client's; -1: unknown."""
        self.principal = ""
        """Who the client is."""
        self.end = ""
        """How it ended: "closed", "reset" or why the server closed it; empty while it is open."""
        self.closed_ms = -1
        """The wall clock then."""


NO_LINK = Link()
"""Of requests that came over no connection."""


class RequestContext(Protocol):
    """A request as the core sees it: the client and the version. The core keeps it, without looking inside, to reply later."""

    @property
    def api_version(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def client_host(self) -> str: ...
    @property
    def dialect(self) -> str | None:
        """The dialect of the client's listener; None: Kafka's own protocol."""

    @property
    def behaviours(self) -> Behaviours:
        """What the release of the client's listener does otherwise."""

    @property
    def link(self) -> Link: ...
    @property
    def may_describe(self) -> Callable[[str], bool]:
        """Whether the client may see the topic of a name. The answer may change; the function may be kept and called later."""

    @property
    def fresh_id(self) -> str:
        """A new random UUID (36 characters) for the APIs that may need one (JoinGroup); "" for others."""


RunChange = Callable[[Callable[[Any, int], "Result"]], None]
"""`run_change(change)` has the shard run `change(state, now_ms)`, now or in a later turn; what it returns is applied."""

Ask = Callable[[RunChange], None]
"""`ask(run_change)` asks another part of the server, whose answer arrives later as a change of the state."""


@dataclass(slots=True)
class Result:
    """Everything that an operation wants done. `reply` None means that the request waits; the core has kept its context."""

    reply: Message | bytes | None = None
    """Bytes stand for the encoded body of a response without a top-level error."""
    records: list[Record] | tuple[Record, ...] | Records = ()
    timers: Sequence[Timer] = ()
    replies: Sequence[tuple[RequestContext, Message]] = ()
    facts: Sequence[Fact] = field(default=())
    producer: Producer | None = None
    """The records belong to the open transaction of this producer and become a transactional batch."""
    marker: Marker | None = None
    """A control batch to be written after the records."""
    after: Sequence[Callable[[], None]] = ()
    """Callbacks for when everything written so far is durable. They are dropped if the write fails."""
    asks: Sequence[Ask] = ()
    """Questions to other parts of the server, whose answers arrive later as changes of the state."""
