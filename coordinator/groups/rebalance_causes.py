"""Why a group rebalances: turns the events of a group into causes, culprits and times. Pure; docs/events.md defines the events.

Members have random ids, and a consumer that comes back has another one. So everything is counted by *client*: the client id and
the host that a member joined with.

A rebalance is caused by what happened to the member that its start names. Two causes are wider than one event. A client that
falls silent is removed when its session runs out, and its members join again when it wakes up: all of these rebalances have one
cause, the silence, which lasts from its last heartbeat to its next request. A client that joins and leaves has one cause, too.

Times are unions of intervals: an epoch that overlaps with the next one, or two members of a client that are waited for at the
same time, are not counted twice.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

OPENED = "EventLogOpened"
STARTED, COMPLETED, OVERTAKEN = "RebalanceStarted", "RebalanceCompleted", "RebalanceOvertaken"
JOINED, LEFT, EXPIRED, FENCED = "MemberJoined", "MemberLeft", "MemberExpired", "MemberFenced"
FAILED = "AssignmentFailed"
REWOUND = "OffsetsRewound"
TYPES = (OPENED, STARTED, COMPLETED, JOINED, LEFT, EXPIRED, FENCED, FAILED, OVERTAKEN, REWOUND)
"""The types of events that matter here."""
LOCK_EXPIRED, ARCHIVED, RELEASED = "AcquisitionLockExpired", "RecordsArchived", "RecordsReleased"
DELIVERY_TYPES = (LOCK_EXPIRED, ARCHIVED, RELEASED)
"""Of share groups: what became of records that no member completed."""

START, SILENT, LATE, STUCK, JOINS, LEAVES, ROLLOUT, TOPIC, ADMINISTRATOR, OTHER = (
    "the group starts", "falls silent", "is too late", "stops polling", "joins", "leaves", "rollout", "topic", "administrator",
    "other",
)  # fmt: skip
KINDS = (SILENT, STUCK, LATE, JOINS, LEAVES, ROLLOUT, TOPIC, ADMINISTRATOR, START, OTHER)
"""What may happen to the member that a rebalance names."""
_TEXTS = {
    START: "the group starts",
    LATE: "does not follow a rebalance within its rebalance timeout",
    STUCK: "stops polling for longer than its poll timeout",
}
_DERIVED_TEXTS = {
    JOINS: "joins",
    LEAVES: "goes: it left, expired or was removed (Kafka's log does not say which)",
    "both": "comes and goes: it left, expired or was removed (Kafka's log does not say which)",
}
"""For events that were derived from Kafka's log."""
KILLED = "killed: its connection was closed without a leave"
PAUSED = "paused: it went on with the same connection"
CUT_OFF = "cut off: its connection stayed open here, and it came back over another one"
PAUSED_OR_CUT_OFF = "paused or cut off: its connection stayed open"
BACK_ON_ITS_CONNECTION = "stops polling: leaves without a reason and comes back over the same connection"
WENT = "a member left, expired or was removed"
"""The cause of a rebalance as Kafka's log shows it (coordinator/watch)."""
NOT_IN_KAFKAS_LOG = "Kafka's log does not say why"
"""The reason of departures and rebalances that were derived from that log."""
_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_TOPIC = re.compile(
    r"topic changed|matches other topics|metadata has changed|metadata change|was deleted; asked for by", re.IGNORECASE
)
"""In the cause or reason of a rebalance that a topic causes, whichever member notices it. Java's consumer: "cached metadata has
changed from ..."."""
_BY_ADMINISTRATOR = "an administrator "
ROLLOUT_PAUSE_MS = 180_000
"""Between two members that a rollout replaces."""
_POLL_TIMEOUT = re.compile(r"poll timeout", re.IGNORECASE)
_SESSION = "session"
_STARTS = ("start", "take-over")
"""The causes of EventLogOpened that begin after a time in which no server may have served the group."""
_ENDS_OF_PROCESSES = frozenset({"closed", "reset"})
_AWAY = -2
"""The epoch of a static member that leaves and will come back."""

Interval = tuple[int, int]


class Client(NamedTuple):
    """A process, or several with the same client id on one host."""

    client_id: str
    host: str


class Step(NamedTuple):
    """An offset that went back, or was deleted (-1). `owner_id`: the member that had the partition; "": none, or not known."""

    topic: str
    partition: int
    previous: int
    offset: int
    owner_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvent:
    """An event, of whatever source; fields that its type lacks have their defaults."""

    type: str
    offset: int
    time_ms: int
    member_id: str = ""
    client_id: str = ""
    client_host: str = ""
    instance_id: str = ""
    epoch: int = -1
    cause: str = ""
    reason: str = ""
    duration_ms: int = -1
    delay_ms: int = 0
    members: int = -1
    waited_for: Sequence[tuple[str, int]] = ()
    """Member id and milliseconds."""
    timeout: str = ""
    timeout_ms: int = -1
    undone_from_offset: int = -1
    previous_ms: int = -1
    """Of EventLogOpened: when the last event before it was written, of whatever group."""
    port: int = -1
    """The client's, of the connection that the member joined over, or used last."""
    connection_end: str = ""
    """Of MemberExpired: how that connection ended; empty: it was open, or is unknown."""
    principal: str = ""
    """Of OffsetsRewound."""
    steps: Sequence[Step] = ()
    """Of OffsetsRewound."""
    topic: str = ""
    """Of DELIVERY_TYPES, as are the following."""
    partition: int = -1
    records: int = 0
    ranges: Sequence[tuple[int, int, int]] = ()
    """First offset, last offset, delivery count."""


@dataclass(slots=True, kw_only=True)
class Rebalance:
    """One rebalance of a classic group, or one epoch of another."""

    epoch: int
    started_ms: int
    ended_ms: int | None = None
    """None: it has not ended, or its end is not in the events."""
    cause: str
    reason: str
    member_id: str
    client: Client | None = None
    """The client of that member."""
    delay_ms: int = 0
    waits: dict[Client, int] = field(default_factory=dict)
    """How long it waited for each client (ms)."""
    kind: str = ""
    """What happened: one of KINDS."""
    because: str = ""
    """The cause in words, after the name of the client if there is one."""

    @property
    def waited_longest_for(self) -> Client | None:
        """None if it waited for nobody."""
        return max(self.waits, key=self.waits.__getitem__, default=None)


@dataclass(slots=True)
class Silence:
    """A time in which nothing came from members whose session then ran out. `until_ms`: None if they have not come back."""

    from_ms: int
    session_ms: int
    until_ms: int | None = None
    ports: set[int] = field(default_factory=set)
    """Of the connections of these members; empty: unknown."""
    ends: set[str] = field(default_factory=set)
    """How the connections ended; empty if one was still open."""
    back_ports: set[int] = field(default_factory=set)
    """Of the connections that the client came back over."""

    @property
    def nature(self) -> str:
        """What the connections show: the process was killed, paused or cut off; empty if they do not show it."""
        if not self.ports:
            return ""
        if self.ends and "" not in self.ends:
            by_client = self.ends <= _ENDS_OF_PROCESSES
            return KILLED if by_client else f"the server had closed its connection ({', '.join(sorted(self.ends))})"
        if self.back_ports & self.ports:
            return PAUSED
        return CUT_OFF if self.back_ports else "" if self.ends != {""} else PAUSED_OR_CUT_OFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause of rebalances, with the time that these took."""

    text: str
    kind: str
    """One of KINDS."""
    client: Client | None
    rebalances: int
    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """An offset that went back: these records are read again, or were lost to the next owner's work."""

    time_ms: int
    cause: str
    """Who committed: a member, an administrator, a consumer without a group."""
    client: Client
    principal: str
    member_id: str
    step: Step
    owner: Client | None

    @property
    def records(self) -> int | None:
        """How many come again; None: the offset was deleted, and members begin by their auto.offset.reset."""
        return None if self.step.offset < 0 else self.step.previous - self.step.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Records that a member of a share group got and did not complete. `type`: one of DELIVERY_TYPES."""

    type: str
    time_ms: int
    cause: str
    client: Client
    member_id: str
    topic: str
    partition: int
    records: int
    ranges: Sequence[tuple[int, int, int]]

    @property
    def delivery_count(self) -> int:
        """How often those were delivered that came most often."""
        return max(count for _, _, count in self.ranges)


@dataclass(slots=True, kw_only=True)
class ClientCounts:
    """What happened to the members of a client in the window."""

    client: Client
    members: int = 0
    """At the end."""
    joined: int = 0
    left: int = 0
    expired: int = 0
    rebalances: int = 0
    """Caused by the client."""
    waited_ms: int = 0
    """How long rebalances waited for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The answer."""

    group_id: str
    from_ms: int
    to_ms: int
    rebalancing_ms: int
    rebalances: Sequence[Rebalance]
    causes: Sequence[Cause]
    """The most frequent first."""
    clients: Sequence[ClientCounts]
    """Those that caused most rebalances first."""
    rewinds: Sequence[Rewind]
    """The offsets that went back, in order."""
    deliveries: Sequence[Delivery] = ()
    """Of a share group: what became of records that no member completed, in order."""
    unrecorded_ms: int = 0
    """How long of the window nothing was recorded before a start: the server was closed, or idle until it was killed."""

    @property
    def share(self) -> float:
        """The part of the window, without what was not recorded, in which the group rebalanced."""
        return self.rebalancing_ms / max(1, self.to_ms - self.from_ms - self.unrecorded_ms)


def find_causes(
    group_id: str, events: Iterable[GroupEvent], from_ms: int, to_ms: int, known: Mapping[str, Client] | None = None
) -> Findings:
    """Analyses the events of a group between two times; earlier ones serve to know its members.

    `known`: member id -> client of those that are in the group at the end; None: as the events say.
    """
    walk = _Walk(known or {})
    for event in without_undone(events):
        if event.time_ms <= to_ms:
            walk.take(event)
    walk.name_clients()
    rebalances = [each for each in walk.rebalances if _end(each, to_ms) >= from_ms]
    causes = _Causes(walk, rebalances, len(walk.present if known is None else known))
    intervals = [_clipped(each, from_ms, to_ms) for each in rebalances]
    counts = _counts(walk, causes, rebalances, from_ms, to_ms)
    for client in (walk.present if known is None else known).values():
        counts.setdefault(client, ClientCounts(client=client)).members += 1
    found = [
        Cause(
            text=text,
            kind=mine[0].kind,
            client=client,
            rebalances=len(mine),
            ms=union_ms(_clipped(each, from_ms, to_ms) for each in mine),
        )
        for (text, client), mine in causes.by_cause.items()
    ]
    return Findings(
        group_id=group_id,
        from_ms=from_ms,
        to_ms=to_ms,
        rebalancing_ms=union_ms(intervals),
        rebalances=rebalances,
        causes=sorted(found, key=lambda cause: (-cause.rebalances, -cause.ms)),
        clients=sorted(counts.values(), key=lambda each: (-each.rebalances, -each.waited_ms, each.client)),
        rewinds=[each for each in walk.rewinds() if each.time_ms >= from_ms],
        deliveries=[each for each in walk.deliveries if each.time_ms >= from_ms],
        unrecorded_ms=union_ms((max(from_ms, begin), min(to_ms, end)) for begin, end in walk.unrecorded),
    )


def without_undone(events: Iterable[GroupEvent]) -> list[GroupEvent]:
    """The events in order, without those that a crash undid."""
    kept: list[GroupEvent] = []
    for event in events:
        if event.type == OPENED and event.undone_from_offset >= 0:
            kept = [each for each in kept if each.offset < event.undone_from_offset]
        kept.append(event)
    return kept


def union_ms(intervals: Iterable[Interval]) -> int:
    """The time that intervals cover together."""
    total, reached = 0, 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def client_of_member_id(member_id: str) -> Client:
    """The client as far as an id shows it: the id of a classic member begins with its client id."""
    return Client(_UUID.sub("", member_id), "")


def _end(rebalance: Rebalance, to_ms: int) -> int:
    return to_ms if rebalance.ended_ms is None else rebalance.ended_ms


def _clipped(rebalance: Rebalance, from_ms: int, to_ms: int) -> Interval:
    return max(from_ms, rebalance.started_ms), min(to_ms, _end(rebalance, to_ms))


class _Change(NamedTuple):
    """A member that joined or went."""

    event: GroupEvent
    client: Client | None
    more: int
    """By how many the group grew."""


class _Rollout(NamedTuple):
    """Members that were replaced one after another."""

    from_ms: int
    to_ms: int
    members: frozenset[str]
    text: str


class _Walk:
    """Reads the events in order."""

    def __init__(self, known: Mapping[str, Client]) -> None:
        self.clients = dict(known)
        """Member id -> client."""
        self.present: dict[str, Client] = {}
        """The members that are in the group, of those whose join is among the events."""
        self.rebalances: list[Rebalance] = []
        self.deliveries: list[Delivery] = []
        self._rewound: list[GroupEvent] = []
        self.silences: dict[Client, list[Silence]] = {}
        """In order; only the last one of a client may have no end."""
        self.happened: dict[str, list[GroupEvent]] = {}
        """Member id -> its joins, departures and expiries."""
        self.changes: list[_Change] = []
        self._holders: dict[str, str] = {}
        """Instance id -> the member that joined with it last; it replaces the one before."""
        self._last_ms = 0
        self.unrecorded: list[Interval] = []
        """From the last event before a start, of whatever group, until the start."""
        self._knows_members = False
        """Whether `present` has all members: the events begin with the log, or the group was empty since."""
        self.ports: dict[str, int] = {}
        """Member id -> the port of the connection that it joined over."""
        self.goes_on: set[tuple[str, int]] = set()
        """Member id and time of each departure whose process came back, and of each join by which it did."""
        self._departures: dict[Client, list[GroupEvent]] = {}
        """The departures without a reason."""
        self._removed: dict[Client, GroupEvent] = {}
        """The last departure of each client whose member an administrator removed."""
        self.removals: dict[tuple[str, int], str] = {}
        """Member id and time of each such departure, and of the join by which its client came back: why."""
        self.first_joins: set[tuple[str, int]] = set()
        """Member id and time of each join of a group that had no members."""

    def take(self, event: GroupEvent) -> None:
        self._take(event)
        self._last_ms = event.time_ms

    def _take(self, event: GroupEvent) -> None:
        match event.type:
            case "EventLogOpened":
                self._knows_members = self._knows_members or event.offset == 0
                # The server was restarted: whatever it was doing ended when it was last heard of.
                self._end_all(max(self._last_ms, event.previous_ms))
                if event.cause in _STARTS and event.previous_ms >= 0:
                    self.unrecorded.append((event.previous_ms, event.time_ms))
            case "MemberJoined" | "MemberLeft" | "MemberExpired":
                self._member(event)
            case "MemberFenced":
                self._back(event)
            case "RebalanceStarted":
                self._start(event)
            case "RebalanceCompleted" | "RebalanceOvertaken":
                self._complete(event)
            case "AssignmentFailed":
                self._end_all(event.time_ms)
            case "OffsetsRewound":
                self._rewound.append(event)
            case "AcquisitionLockExpired" | "RecordsArchived" | "RecordsReleased":
                self._deliver(event)

    def _deliver(self, event: GroupEvent) -> None:
        known = self.clients.get(event.member_id, Client("", ""))
        self.deliveries.append(
            Delivery(
                type=event.type,
                time_ms=event.time_ms,
                cause=event.cause,
                client=Client(event.client_id, event.client_host) if event.client_id else known,
                member_id=event.member_id,
                topic=event.topic,
                partition=event.partition,
                records=event.records,
                ranges=event.ranges,
            )
        )

    def name_clients(self) -> None:
        """Every rebalance gets the client of the member that its start names, unless nobody knows it."""
        for each in self.rebalances:
            each.client = self.known(each.member_id)

    def known(self, member_id: str) -> Client | None:
        """The client of a member that joined, or whose id shows its client; instance ids and unknown ids have none."""
        is_known = member_id in self.clients or _UUID.search(member_id)
        return self.client(member_id) if is_known else None

    def rollouts(self, members: int) -> list[_Rollout]:
        """The times in which most members of the group were replaced one after another. `members`: at the end."""
        found: list[_Rollout] = []
        cluster: list[_Change] = []
        for change in reversed(self.changes):
            if cluster and cluster[-1].event.time_ms - change.event.time_ms > ROLLOUT_PAUSE_MS:
                found += _rollout(cluster[::-1], members, self.goes_on)
                cluster = []
            cluster.append(change)
            members -= change.more
        return found + _rollout(cluster[::-1], members, self.goes_on)

    def rewinds(self) -> Iterator[Rewind]:
        """The offsets that went back."""
        for event in self._rewound:
            for step in event.steps:
                yield Rewind(
                    time_ms=event.time_ms,
                    cause=event.cause,
                    client=Client(event.client_id, event.client_host),
                    principal=event.principal,
                    member_id=event.member_id,
                    step=step,
                    owner=self.client(step.owner_id) if step.owner_id else None,
                )

    def client(self, member_id: str) -> Client:
        return self.clients.get(member_id) or client_of_member_id(member_id)

    def _member(self, event: GroupEvent) -> None:
        more = 0 if event.type == LEFT and event.epoch == _AWAY else -1
        if event.type == JOINED:
            is_there = event.member_id in self.present or self._holders.get(event.instance_id, "") in self.present
            more = 0 if is_there else 1
            self.clients[event.member_id] = Client(event.client_id, event.client_host)
            if event.instance_id:
                self.present.pop(self._holders.get(event.instance_id, ""), None)
                self._holders[event.instance_id] = event.member_id
            if self._knows_members and not self.present:
                self.first_joins.add((event.member_id, event.time_ms))
            self.present[event.member_id] = self.clients[event.member_id]
            self._back(event)
            self._comes_back(event)
            removed = self._removed.pop(self.clients[event.member_id], None)
            if removed is not None and event.time_ms - removed.time_ms <= ROLLOUT_PAUSE_MS:
                self.removals[event.member_id, event.time_ms] = removed.reason
            self.ports[event.member_id] = event.port
        else:
            self.present.pop(event.member_id, None)
            if event.type == LEFT and not event.reason and event.epoch != _AWAY:
                self._departures.setdefault(self.client(event.member_id), []).append(event)
            if event.type == EXPIRED and event.timeout == _SESSION:
                self._silent(event)
            if event.reason.startswith(_BY_ADMINISTRATOR):
                self._removed[self.client(event.member_id)] = event
                self.removals[event.member_id, event.time_ms] = event.reason
        self.happened.setdefault(event.member_id, []).append(event)
        self.changes.append(_Change(event, self.known(event.member_id), more))

    def _comes_back(self, event: GroupEvent) -> None:
        """Notes what a join shows of an earlier silence, or of a departure without a reason, of the same client."""
        client = self.client(event.member_id)
        for silence in self.silences.get(client, ())[-1:]:
            if silence.until_ms is not None and event.time_ms - silence.until_ms <= max(0, silence.session_ms):
                silence.back_ports |= {event.port} - {-1}
        for left in self._departures.get(client, ()):
            port = self.ports.get(left.member_id, -1)
            if left.member_id == event.member_id or (port >= 0 and port == event.port):
                self._departures[client].remove(left)
                self.goes_on |= {(left.member_id, left.time_ms), (event.member_id, event.time_ms)}
                return

    def _silent(self, event: GroupEvent) -> None:
        client, from_ms = self.client(event.member_id), event.time_ms - max(0, event.timeout_ms)
        silence = self._open_silence(client)
        if silence is None:
            silence = Silence(from_ms, event.timeout_ms)
            self.silences.setdefault(client, []).append(silence)
        else:
            # The last heartbeat of any member says until when the process was well.
            silence.from_ms = max(silence.from_ms, from_ms)
        silence.ports |= {event.port} - {-1}
        silence.ends.add(event.connection_end)

    def _back(self, event: GroupEvent) -> None:
        silence = self._open_silence(self.client(event.member_id))
        if silence is not None:
            silence.until_ms = event.time_ms

    def _open_silence(self, client: Client) -> Silence | None:
        silences = self.silences.get(client)
        return silences[-1] if silences and silences[-1].until_ms is None else None

    def _start(self, event: GroupEvent) -> None:
        rebalance = Rebalance(
            epoch=event.epoch,
            started_ms=event.time_ms,
            cause=event.cause,
            reason=event.reason,
            member_id=event.member_id,
        )
        self.rebalances.append(rebalance)

    def _complete(self, event: GroupEvent) -> None:
        rebalance = next(
            (each for each in reversed(self.rebalances) if each.epoch == event.epoch and each.ended_ms is None), None
        )
        if rebalance is None:
            if event.duration_ms < 0:
                return
            rebalance = Rebalance(
                epoch=event.epoch,
                started_ms=event.time_ms - event.duration_ms,
                cause=event.cause,
                reason="",
                member_id=event.member_id,
            )
            self.rebalances.append(rebalance)
        rebalance.ended_ms = event.time_ms
        rebalance.delay_ms = event.delay_ms
        for member_id, waited_ms in event.waited_for:
            client = self.known(member_id)
            if waited_ms and client is not None:
                rebalance.waits[client] = max(waited_ms, rebalance.waits.get(client, 0))
        if event.members == 0:
            self.present.clear()
            self._knows_members = True

    def _end_all(self, time_ms: int) -> None:
        for each in reversed(self.rebalances):
            if each.ended_ms is not None:
                break
            each.ended_ms = max(time_ms, each.started_ms)


def _rollout(cluster: Sequence[_Change], members: int, goes_on: Container[tuple[str, int]]) -> list[_Rollout]:
    """The rollout that these changes are, if they are one. `members`: before them."""
    went = {each.event.member_id: each for each in cluster if each.event.type != JOINED and _is_stopped(each.event)}
    if not went:
        return []
    first_old = min(each.event.time_ms for each in went.values())
    joins = [each for each in cluster if each.event.type == JOINED]
    early = [each for each in joins if each.event.time_ms < first_old]
    members += sum(each.more for each in early)
    surge = sum(each.event.member_id not in went for each in early)
    joined = {each.event.member_id: each for each in joins if each.event.time_ms >= first_old}
    comes_and_goes = joined.keys() & went.keys()
    new = [each for name, each in joined.items() if name not in comes_and_goes]
    old = [each for name, each in went.items() if name not in comes_and_goes]
    if any((each.event.member_id, each.event.time_ms) in goes_on for each in old):
        return []
    times = [each.event.time_ms for each in (*old, *new)]
    is_replaced = len(new) + surge >= 0.75 * len(old) and len(new) <= 1.25 * len(old)
    if not new or len(old) < 2 or 2 * len(old) <= members or not is_replaced:
        return []
    first_new, last_old = min(each.event.time_ms for each in new), max(each.event.time_ms for each in old)
    if first_new > last_old:
        return []  # All stopped, and then all started.
    names = {each.client.client_id for each in (*old, *new) if each.client is not None}
    whose = f" of {next(iter(names))}" if len(names) == 1 else ""
    length = seconds(max(times) - min(times))
    text = (
        f"a rollout{whose}: {len(old)} of {max(members, len(old))} members were replaced within {length}; "
        "static members that return within their session timeout would have caused none of these rebalances"
    )
    return [_Rollout(min(times), max(times), frozenset(each.event.member_id for each in (*old, *new)), text)]


def _is_stopped(event: GroupEvent) -> bool:
    """Whether a departure is that of a process that ended."""
    return event.type == LEFT or event.connection_end in _ENDS_OF_PROCESSES


class _Causes:
    """The rebalances by cause."""

    def __init__(self, walk: _Walk, rebalances: Sequence[Rebalance], members: int) -> None:
        self._walk = walk
        self._rollouts = walk.rollouts(members)
        self.by_cause: dict[tuple[str, Client | None], list[Rebalance]] = {}
        for each in rebalances:
            each.kind = self._kind(each)
        seen = Counter((each.kind, each.client) for each in rebalances)
        for each in rebalances:
            each.because = self._text(each, seen)
            client = None if each.kind in (START, ROLLOUT, TOPIC, ADMINISTRATOR) else each.client
            self.by_cause.setdefault((each.because, client), []).append(each)

    def _kind(self, rebalance: Rebalance) -> str:
        """What happened to the member that the start names, at that moment."""
        if rebalance.cause.startswith(_BY_ADMINISTRATOR) or self._removal(rebalance):
            return ADMINISTRATOR
        if self._rollout_of(rebalance) is not None:
            return ROLLOUT
        if _TOPIC.search(f"{rebalance.cause} {rebalance.reason}"):
            return TOPIC
        events = self._walk.happened.get(rebalance.member_id, ())
        event = next((each for each in reversed(events) if each.time_ms == rebalance.started_ms), None)
        if event is None:
            return OTHER
        if event.type == EXPIRED:
            return SILENT if event.timeout == _SESSION else LATE
        if _POLL_TIMEOUT.search(rebalance.reason) or (event.member_id, event.time_ms) in self._walk.goes_on:
            return STUCK
        if event.type == LEFT:
            return LEAVES
        if self._comes_back(rebalance):
            return SILENT
        return START if (event.member_id, event.time_ms) in self._walk.first_joins else JOINS

    def _removal(self, rebalance: Rebalance) -> str:
        """Why an administrator removed the member whose departure or return this is; empty: none did."""
        return self._walk.removals.get((rebalance.member_id, rebalance.started_ms), "")

    def _rollout_of(self, rebalance: Rebalance) -> _Rollout | None:
        return next(
            (
                each
                for each in self._rollouts
                if each.from_ms <= rebalance.started_ms <= each.to_ms and rebalance.member_id in each.members
            ),
            None,
        )

    def _comes_back(self, rebalance: Rebalance) -> bool:
        """Whether the member that joins belongs to a client that just ended a silence."""
        return any(
            each.until_ms is not None and 0 <= rebalance.started_ms - each.until_ms <= max(0, each.session_ms)
            for each in self._silences(rebalance)
        )

    def _silences(self, rebalance: Rebalance) -> Sequence[Silence]:
        return () if rebalance.client is None else self._walk.silences.get(rebalance.client, ())

    def _text(self, rebalance: Rebalance, seen: Counter[tuple[str, Client | None]]) -> str:
        client, kind = rebalance.client, rebalance.kind
        if kind == SILENT:
            return _silence_text(self._silences(rebalance))
        if kind in (JOINS, LEAVES):
            both = seen[JOINS, client] and seen[LEAVES, client]
            if rebalance.reason == NOT_IN_KAFKAS_LOG:
                return _DERIVED_TEXTS["both" if both else kind]
            return "joins and leaves" if both else kind
        if kind == ROLLOUT:
            rollout = self._rollout_of(rebalance)
            return "" if rollout is None else rollout.text
        if kind == TOPIC:
            return f"a topic appeared or changed: {rebalance.reason or rebalance.cause}"
        if kind == ADMINISTRATOR and self._removal(rebalance):
            return self._removal(rebalance)
        if kind in (OTHER, ADMINISTRATOR):
            return f"{rebalance.cause}: {rebalance.reason}" if rebalance.reason else rebalance.cause or "unknown"
        if kind == STUCK and not rebalance.reason:
            return BACK_ON_ITS_CONNECTION
        return _TEXTS[kind]


def _silence_text(silences: Sequence[Silence]) -> str:
    natures = {each.nature for each in silences}
    nature = natures.pop() if len(natures) == 1 else "sometimes " + ", sometimes ".join(sorted(natures - {""}))
    said = f", {nature}" if nature else ""
    lengths = [each.until_ms - each.from_ms for each in silences if each.until_ms is not None]
    if not lengths:
        return f"falls silent and does not come back{said}"
    timeout = max(each.session_ms for each in silences)
    length = seconds(round(median(lengths)))
    return f"falls silent for {length}" + (f" (session timeout {seconds(timeout)})" if timeout > 0 else "") + said


def seconds(ms: int) -> str:
    """A time for people: seconds with one digit below ten, whole ones below two minutes, then minutes, hours, days."""
    if ms < 9_950:
        return f"{ms / 1000:.1f} s".replace(".0 s", " s")
    if ms < 119_500:
        return f"{ms / 1000:.0f} s"
    minutes = round(ms / 60_000)
    if minutes < 120:
        return f"{minutes} min"
    hours = round(minutes / 60)
    return f"{hours} h" if hours < 72 else f"{hours / 24:.0f} days"


def _counts(
    walk: _Walk, causes: _Causes, rebalances: Sequence[Rebalance], from_ms: int, to_ms: int
) -> dict[Client, ClientCounts]:
    counts: dict[Client, ClientCounts] = {}

    def of(client: Client) -> ClientCounts:
        return counts.setdefault(client, ClientCounts(client=client))

    for event, client, _ in walk.changes:
        if event.time_ms >= from_ms and client is not None:
            each = of(client)
            each.joined += event.type == JOINED
            each.left += event.type == LEFT
            each.expired += event.type == EXPIRED
    for (_, culprit), mine in causes.by_cause.items():
        if culprit is not None:
            of(culprit).rebalances += len(mine)
    waits: dict[Client, list[Interval]] = {}
    for rebalance in rebalances:
        begin = rebalance.started_ms + rebalance.delay_ms
        for client, waited_ms in rebalance.waits.items():
            waits.setdefault(client, []).append((max(from_ms, begin), min(to_ms, begin + waited_ms)))
    for client, intervals in waits.items():
        of(client).waited_ms = union_ms(intervals)
    return counts
