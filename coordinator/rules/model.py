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

Scalar = str | int | bool | None
Condition = (
    Scalar
    | Annotated[tuple[Scalar, ...], Meta(min_length=1)]
    | Annotated[dict[Literal["<", "<=", ">", ">=", "==", "!="], Scalar], Meta(min_length=1)]
)
"""A value (a text is a glob), one of several, or comparisons that must all hold."""
Fields = Annotated[dict[Text, Any], Meta(min_length=1, max_length=1_000)]

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
    principal: Text | None = None
    """Who the client is, such as User:alice; a glob."""
    where: Annotated[dict[Text, Condition], Meta(min_length=1, max_length=100)] | None = None
    """Conditions on fields of the request by Kafka's names, which must all hold: {"MemberEpoch": {">": 3}}."""
    nth: Positive | None = None
    """Acts from the nth match on."""
    per: Per | None = None
    """Counts `nth` and `times` for each member, connection or group separately."""


class Action(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What happens to a request and its answer, in this order; an absent step does nothing.

    1. It waits: `hold`, then `delay_ms`.
    2. The API handles it, unless it is lost, answered with an error, or answered `instead`.
    3. Its answer waits: `hold`, then `delay_ms`.
    4. The answer leaves: lost, changed, throttled, damaged, slowly, and as the last one of its connection.
    """

    error: Text | None = None
    """Kafka's name. The API answers it in the shape of the request's version; the request has no effect."""
    message: str | None = None
    """Of `error`, where the response has room for it."""
    partitions: Annotated[tuple[Annotated[int, Meta(ge=0, le=2**31 - 1)], ...], Meta(min_length=1)] | None = None
    """Of `error`: hits only these partitions, where the API answers partitions one by one."""
    force: bool = False
    """Of `error`: answers it even if Kafka's clients never get it from this API."""
    coordinator: CoordinatorState | None = None
    """Every API of the group or transactional id answers as if its coordinator had moved, or loaded."""
    lose: Direction | None = None
    """The connection closes: before the request is handled, or when its effect is durable, without an answer."""
    answer: Fields | None = None
    """Fields of the response by Kafka's names, which replace what the server would have said: {"ErrorCode": 27}."""
    instead: bool = False
    """Of `answer`: the request is not handled; all other fields have the defaults of Kafka's schema."""
    hold: Direction | None = None
    """Parks the request, or its answer, until it is released."""
    delay_ms: Milliseconds | None = None
    when: When | None = None
    """Of `delay_ms`: before (default) or after the request is handled."""
    throttle_ms: Positive | None = None
    """The answer carries this time, and the server reads nothing from the connection meanwhile, as with a quota of Kafka."""
    flip_bits: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    """This many bits of the answer are wrong, behind its size; the extent's `seed` chooses them."""
    size: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] | None = None
    """The size that the answer says it has, whatever it has."""
    cut_after: Milliseconds | None = None
    """The connection closes when this many bytes of the answer have left, its size included."""
    bytes_per_s: Positive | None = None
    """The answer leaves at this rate, by the server's clock."""
    close: Literal[True] | None = None
    """The connection closes after the answer."""
    observe: Literal[True] | None = None
    """Nothing happens; the rule counts, and those behind it may act."""

    def __post_init__(self) -> None:
        """Raises ValueError: nothing is set, or what is set cannot be combined."""
        kinds = self.kinds
        if not kinds:
            raise ValueError(f"an action has at least one of {', '.join(KINDS)}; found none")
        for one, others in _EXCLUDES:
            both = [kind for kind in others if kind in kinds and kind != one]
            if one in kinds and both:
                raise ValueError(f"{one} cannot be combined with {' and '.join(both)}")
        for field, kind in _BELONGS_TO.items():
            if getattr(self, field) not in {None, False} and kind not in kinds:
                raise ValueError(f"{field} belongs to {kind}, not to {kinds[0]}")
        if self.lose == "request" and (self.hold == "answer" or self.when == "after"):
            raise ValueError("a lost request has no answer that could wait")

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those that are set."""
        return tuple(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def needs_request(self) -> bool:
        """Whether it does something before the API has the request."""
        return (
            self.error is not None or self.coordinator is not None or self.instead or self.lose == "request"
            or self.hold == "request" or (self.delay_ms is not None and self.when != "after")
        )  # fmt: skip


_DAMAGES = ("flip_bits", "size", "cut_after")
_OUTCOMES = ("error", "coordinator", "lose", "answer")
KINDS = (*_OUTCOMES, "hold", "delay_ms", "throttle_ms", *_DAMAGES, "bytes_per_s", "close", "observe")
_EXCLUDES = (
    *((kind, _OUTCOMES) for kind in _OUTCOMES),
    ("lose", ("throttle_ms", *_DAMAGES, "bytes_per_s", "close")),
    ("observe", KINDS),
)
_BELONGS_TO = {"message": "error", "partitions": "error", "force": "error", "when": "delay_ms", "instead": "answer"}


class Extent(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How many times or how long a rule acts. Default: once. `times` and `for_ms` may be combined."""

    times: Positive | None = None
    until: Literal["cleared"] | None = None
    for_ms: Positive | None = None
    """By the server's clock, from the moment that the rule is set."""
    probability: Annotated[float, Meta(gt=0, le=1)] | None = None
    """Acts on a match with this probability."""
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    """Of `probability` and `flip_bits`: the same seed makes the same choices."""
    in_progress: bool = False
    """Acts also on the answers to requests that wait in the server when the rule is set, such as a parked JoinGroup."""

    @property
    def times_max(self) -> int | None:
        """How often the rule acts at most; None: any number of times."""
        return 1 if self.until is None and self.for_ms is None and self.times is None else self.times


class Rule(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fault rule. Of several that match a request, the one that was set first acts."""

    action: Action
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
    notice: str | None = None
    """What may surprise about the rule."""
    reached: bool | None = None
    """Answers a wait: whether the condition came true in time."""


class FaultList(Struct, frozen=True):
    """Fault rules, in the order in which they were set."""

    faults: list[FaultStatus]


class Cleared(Struct, frozen=True):
    """How many rules were cleared, or recordings ended."""

    cleared: int


class ReleaseRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Asks to release what a rule holds, the oldest first."""

    count: Positive | None = None
    """None: all."""


class Released(Struct, frozen=True):
    """How many requests and answers were released."""

    released: int


class FaultActed(Struct, frozen=True, omit_defaults=True):
    """A rule has acted on a request: an event of the event stream."""

    fault: str
    api: str
    action: str
    """Such as error:ILLEGAL_GENERATION, lose:answer, error:NOT_COORDINATOR delay_ms:500."""
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
    """Recordings, in the order in which they began."""

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
