"""What happened in a group, in order: its members, their silences, its rebalances. Reads the group's events; pure.

Members have random ids, and a consumer that comes back has another one. So everything is counted by *client*: the client id and
the host that a member joined with. docs/events.md defines the events; rebalance_causes.py judges what caused the rebalances.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

OPENED = "EventLogOpened"
STARTED, COMPLETED, OVERTAKEN = "RebalanceStarted", "RebalanceCompleted", "RebalanceOvertaken"
JOINED, LEFT, EXPIRED, FENCED = "MemberJoined", "MemberLeft", "MemberExpired", "MemberFenced"
FAILED = "AssignmentFailed"
REWOUND = "OffsetsRewound"
TYPES = (OPENED, STARTED, COMPLETED, JOINED, LEFT, EXPIRED, FENCED, FAILED, OVERTAKEN, REWOUND)
"""The types of events that this reads."""
LOCK_EXPIRED, ARCHIVED, RELEASED = "AcquisitionLockExpired", "RecordsArchived", "RecordsReleased"
DELIVERY_TYPES = (LOCK_EXPIRED, ARCHIVED, RELEASED)
"""Of share groups: what became of records that no member completed."""
_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
AN_ADMINISTRATOR = "an administrator "
"""How the cause or reason of an administrator's act begins."""
ROLLOUT_PAUSE_MS = 180_000
"""Between two members that a rollout replaces."""
SESSION_TIMEOUT = "session"
_STARTS = ("start", "take-over")
"""The causes of EventLogOpened that begin after a time in which no server may have served the group."""
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
    """What happened: one of rebalance_causes.KINDS."""
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


class MemberChange(NamedTuple):
    """A member that joined or went."""

    event: GroupEvent
    client: Client | None
    more: int
    """By how many the group grew."""


class GroupHistory:
    """What the events say that were taken so far, which must come in the order of the log."""

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
        self.changes: list[MemberChange] = []
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
            if event.type == EXPIRED and event.timeout == SESSION_TIMEOUT:
                self._silent(event)
            if event.reason.startswith(AN_ADMINISTRATOR):
                self._removed[self.client(event.member_id)] = event
                self.removals[event.member_id, event.time_ms] = event.reason
        self.happened.setdefault(event.member_id, []).append(event)
        self.changes.append(MemberChange(event, self.known(event.member_id), more))

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
