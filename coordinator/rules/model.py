"""The JSON of fault rules and recordings: what HTTP, the Python client and the command line exchange.

    Rule       match + action + extent, and the scope that clears it
    Recording  match + limit: what clients asked and were answered

docs/control.md explains every field. A name that may be a glob knows `*`, `?` and `[...]`, as in a shell. Whether a rule makes
sense (does the API exist, can it carry the error) is decided in rules/check.py.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Text = Annotated[str, Meta(min_length=1, max_length=512)]
Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Milliseconds = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Version = Annotated[int, Meta(ge=0, le=2**15 - 1)]
Versions = Annotated[tuple[Version, ...], Meta(min_length=2, max_length=2)]
"""The first and the last. (msgspec 0.22 crashes on a tuple of fixed size beside a bounded integer.)"""
Names = Text | Annotated[tuple[Text, ...], Meta(min_length=1, max_length=100)]
"""One name or several."""

Role = Literal["leader", "follower"]
Per = Literal["member", "connection", "group"]
Direction = Literal["request", "answer"]
When = Literal["before", "after"]
CoordinatorState = Literal["moved", "loading", "unavailable"]
Outcome = Literal["answered", "lost", "closed", "pending"]


class Match(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The requests of a rule or a recording. An absent field matches everything; the others must all match.

    A request that names several groups, topics or members matches if one of them does; the rule acts on those that do.
    """

    api: Names | None = None
    """Kafka's names, such as Heartbeat; globs."""
    version: Version | Versions | None = None
    """One version, or the first and the last."""
    group: Text | None = None
    """A glob."""
    topic: Text | None = None
    """A glob; also of a topic that the request names by its id."""
    transactional_id: Text | None = None
    """A glob."""
    member_id: Text | None = None
    """A glob."""
    instance_id: Text | None = None
    """A glob."""
    client_id: Text | None = None
    """A glob."""
    client_host: Text | None = None
    """A glob; an IP address."""
    listener: Text | None = None
    """HOST:PORT as advertised; a glob."""
    role: Role | None = None
    """The member's role in its classic group at the moment of the request."""
    group_state: Names | None = None
    """Kafka's names, such as PreparingRebalance, at the moment of the request; Dead if there is no such group."""
    nth: Positive | None = None
    """Acts from the nth match on."""
    per: Per | None = None
    """Counts `nth` and `times` for each member, connection or group separately."""


class Action(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What happens to a request: exactly one of error, lose, delay_ms, hold, close, throttle_ms, coordinator.

    Raises:
        ValueError: none or several of them are set, or a field that belongs to another one
    """

    error: Text | None = None
    """Kafka's name. The API answers it in the shape of the request's version; the request has no effect."""
    message: str | None = None
    """Of `error`, where the response has room for it."""
    partitions: Annotated[tuple[Annotated[int, Meta(ge=0, le=2**31 - 1)], ...], Meta(min_length=1)] | None = None
    """Of `error`: hits only these partitions, where the API answers partitions one by one."""
    force: bool = False
    """Of `error`: answers it even if Kafka's clients never get it from this API."""
    lose: Direction | None = None
    """The connection closes: before the request is handled, or when its effect is durable, without an answer."""
    delay_ms: Milliseconds | None = None
    when: When | None = None
    """Of `delay_ms`: before (default) or after the request is handled."""
    hold: Direction | None = None
    """Parks the request, or its answer, until it is released."""
    close: Annotated[bool, Meta(extra_json_schema={"const": True})] | None = None
    """The connection closes after the answer."""
    throttle_ms: Positive | None = None
    """The answer carries this time, and the server reads nothing from the connection meanwhile, as with a quota of Kafka."""
    coordinator: CoordinatorState | None = None
    """Every API of the group or transactional id answers as if its coordinator had moved, or loaded."""

    def __post_init__(self) -> None:
        chosen = [kind for kind in KINDS if getattr(self, kind) is not None]
        if self.close is False:
            raise ValueError("close is true or absent")
        if len(chosen) != 1:
            found = " and ".join(chosen) or "none"
            raise ValueError(f"an action has exactly one of {', '.join(KINDS)}; found {found}")
        for field, kind in _BELONGS_TO.items():
            if getattr(self, field) not in {None, False} and chosen != [kind]:
                raise ValueError(f"{field} belongs to {kind}, not to {chosen[0]}")

    @property
    def kind(self) -> str:
        """The one that is set."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)


KINDS = ("error", "lose", "delay_ms", "hold", "close", "throttle_ms", "coordinator")
_BELONGS_TO = {"message": "error", "partitions": "error", "force": "error", "when": "delay_ms"}

OneAction = Annotated[Action, Meta(extra_json_schema={"oneOf": [{"required": [kind]} for kind in KINDS]})]


class Extent(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How many times or how long a rule acts. Default: once. `times` and `for_ms` may be combined."""

    times: Positive | None = None
    until: Literal["cleared"] | None = None
    for_ms: Positive | None = None
    """By the server's clock, from the moment that the rule is set."""

    @property
    def times_max(self) -> int | None:
        """How often the rule acts at most; None: any number of times."""
        return 1 if self == Extent() else self.times


class Rule(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fault rule. Of several that match a request, the one that was set first acts."""

    action: OneAction
    match: Match = Match()
    extent: Extent = Extent()
    scope: Text | None = None
    """Rules with a scope are cleared together, and no others with them."""


class FaultStatus(Struct, frozen=True, omit_defaults=True):
    """A rule, and how many times it matched and acted."""

    id: str
    rule: Rule
    matched: int
    """Requests that matched while it was active."""
    acted: int
    held: int
    """Requests and answers that are parked now."""
    active: bool
    """Whether it may still act."""
    reached: bool | None = None
    """Answers a wait: whether the condition came true in time."""


class FaultList(Struct, frozen=True):
    faults: list[FaultStatus]


class Cleared(Struct, frozen=True):
    cleared: int


class Release(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Asks to release what a rule holds, the oldest first."""

    count: Positive | None = None
    """None: all."""


class Released(Struct, frozen=True):
    released: int


class FaultActed(Struct, frozen=True, omit_defaults=True):
    """A rule has acted on a request: an event of the event stream."""

    fault: str
    api: str
    action: str
    """Such as error:ILLEGAL_GENERATION, lose:answer, delay_ms:500."""
    time_ms: int
    """The server's wall clock."""
    group: str | None = None
    transactional_id: str | None = None
    member_id: str | None = None
    client_id: str | None = None
    scope: str | None = None


class RecordingRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Asks for a recording. `nth` and `per` have no meaning in its match."""

    match: Match = Match()
    scope: Text | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """The most entries that are kept; the oldest make room."""


class RecordingStatus(Struct, frozen=True, omit_defaults=True):
    """A recording, and what it has."""

    id: str
    match: Match
    limit: int
    entries: int
    """Entries that are kept."""
    dropped: int
    """Entries that made room for later ones."""
    scope: str | None = None


class RecordingList(Struct, frozen=True):
    recordings: list[RecordingStatus]


class Entry(Struct):
    """One request and its answer. docs/control.md shows `request` and `response` for each API."""

    number: int
    """1, 2, 3 ... in the order of arrival."""
    time_ms: int
    """The server's wall clock when the request was there."""
    answered_ms: int | None
    """When its outcome was certain."""
    api: str
    version: int
    correlation_id: int
    client_id: str | None
    client_host: str
    connection: int
    """Counts the connections of recorded requests: 1, 2, 3 ..."""
    listener: str
    """HOST:PORT as advertised."""
    request: dict[str, Any]
    response: dict[str, Any] | None
    """None until there is one, and if the API was never asked. What a lost answer would have said is here."""
    outcome: Outcome
    """lost: no answer leaves because of a rule; closed: the client closed the connection before."""
    fault: str | None
    """The rule that acted."""


class RecordingPage(Struct, frozen=True):
    """Entries after a number. An entry that is still pending is listed, too; read it again to learn its outcome."""

    entries: list[Entry]
    next: int
    """The number to continue after."""
    dropped: int
    """How many entries the recording has dropped so far."""
