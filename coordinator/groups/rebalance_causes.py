"""Why a group rebalances: turns the history of a group into causes, culprits and times. Pure.

A rebalance is caused by what happened to the member that its start names. Two causes are wider than one event. A client that
falls silent is removed when its session runs out, and its members join again when it wakes up: all of these rebalances have one
cause, the silence, which lasts from its last heartbeat to its next request. A client that joins and leaves has one cause, too.

Times are unions of intervals: an epoch that overlaps with the next one, or two members of a client that are waited for at the
same time, are not counted twice.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from coordinator.groups.group_history import (
    AN_ADMINISTRATOR,
    EXPIRED,
    JOINED,
    LEFT,
    ROLLOUT_PAUSE_MS,
    SESSION_TIMEOUT,
    Client,
    Delivery,
    GroupEvent,
    GroupHistory,
    Interval,
    MemberChange,
    Rebalance,
    Rewind,
    Silence,
    union_ms,
    without_undone,
)

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
_TOPIC = re.compile(
    r"topic changed|matches other topics|metadata has changed|metadata change|was deleted; asked for by", re.IGNORECASE
)
"""In the cause or reason of a rebalance that a topic causes, whichever member notices it. Java's consumer: "cached metadata has
changed from ..."."""
_POLL_TIMEOUT = re.compile(r"poll timeout", re.IGNORECASE)
_ENDS_OF_PROCESSES = frozenset({"closed", "reset"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause of rebalances, with the time that these took."""

    text: str
    kind: str
    """One of KINDS."""
    client: Client | None
    rebalances: int
    ms: int


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
    """The most frequent first; the start of the group, which is nobody's trouble, after others that are as frequent."""
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
    history = GroupHistory(known or {})
    for event in without_undone(events):
        if event.time_ms <= to_ms:
            history.take(event)
    history.name_clients()
    rebalances = [each for each in history.rebalances if _end(each, to_ms) >= from_ms]
    causes = _Causes(history, rebalances, len(history.present if known is None else known))
    intervals = [_clipped(each, from_ms, to_ms) for each in rebalances]
    counts = _counts(history, causes, rebalances, from_ms, to_ms)
    for client in (history.present if known is None else known).values():
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
        causes=sorted(found, key=lambda cause: (-cause.rebalances, cause.kind == START, -cause.ms)),
        clients=sorted(counts.values(), key=lambda each: (-each.rebalances, -each.waited_ms, each.client)),
        rewinds=[each for each in history.rewinds() if each.time_ms >= from_ms],
        deliveries=[each for each in history.deliveries if each.time_ms >= from_ms],
        unrecorded_ms=union_ms((max(from_ms, begin), min(to_ms, end)) for begin, end in history.unrecorded),
    )


def _end(rebalance: Rebalance, to_ms: int) -> int:
    return to_ms if rebalance.ended_ms is None else rebalance.ended_ms


def _clipped(rebalance: Rebalance, from_ms: int, to_ms: int) -> Interval:
    return max(from_ms, rebalance.started_ms), min(to_ms, _end(rebalance, to_ms))


class _Rollout(NamedTuple):
    """Members that were replaced one after another."""

    from_ms: int
    to_ms: int
    members: frozenset[str]
    text: str


def _rollouts(history: GroupHistory, members: int) -> list[_Rollout]:
    """The times in which most members of the group were replaced one after another. `members`: at the end."""
    found: list[_Rollout] = []
    cluster: list[MemberChange] = []
    for change in reversed(history.changes):
        if cluster and cluster[-1].event.time_ms - change.event.time_ms > ROLLOUT_PAUSE_MS:
            found += _rollout(cluster[::-1], members, history.goes_on)
            cluster = []
        cluster.append(change)
        members -= change.more
    return found + _rollout(cluster[::-1], members, history.goes_on)


def _rollout(cluster: Sequence[MemberChange], members: int, goes_on: Container[tuple[str, int]]) -> list[_Rollout]:
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

    def __init__(self, history: GroupHistory, rebalances: Sequence[Rebalance], members: int) -> None:
        self._history = history
        self._rollouts = _rollouts(history, members)
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
        if rebalance.cause.startswith(AN_ADMINISTRATOR) or self._removal(rebalance):
            return ADMINISTRATOR
        if self._rollout_of(rebalance) is not None:
            return ROLLOUT
        if _TOPIC.search(f"{rebalance.cause} {rebalance.reason}"):
            return TOPIC
        events = self._history.happened.get(rebalance.member_id, ())
        event = next((each for each in reversed(events) if each.time_ms == rebalance.started_ms), None)
        if event is None:
            return OTHER
        if event.type == EXPIRED:
            return SILENT if event.timeout == SESSION_TIMEOUT else LATE
        if _POLL_TIMEOUT.search(rebalance.reason) or (event.member_id, event.time_ms) in self._history.goes_on:
            return STUCK
        if event.type == LEFT:
            return LEAVES
        if self._comes_back(rebalance):
            return SILENT
        return START if (event.member_id, event.time_ms) in self._history.first_joins else JOINS

    def _removal(self, rebalance: Rebalance) -> str:
        """Why an administrator removed the member whose departure or return this is; empty: none did."""
        return self._history.removals.get((rebalance.member_id, rebalance.started_ms), "")

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
        return () if rebalance.client is None else self._history.silences.get(rebalance.client, ())

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
    natures = {_nature(each) for each in silences}
    nature = natures.pop() if len(natures) == 1 else "sometimes " + ", sometimes ".join(sorted(natures - {""}))
    said = f", {nature}" if nature else ""
    lengths = [each.until_ms - each.from_ms for each in silences if each.until_ms is not None]
    if not lengths:
        return f"falls silent and does not come back{said}"
    timeout = max(each.session_ms for each in silences)
    length = seconds(round(median(lengths)))
    return f"falls silent for {length}" + (f" (session timeout {seconds(timeout)})" if timeout > 0 else "") + said


def _nature(silence: Silence) -> str:
    """What the connections show: the process was killed, paused or cut off; empty if they do not show it."""
    if not silence.ports:
        return ""
    if silence.ends and "" not in silence.ends:
        by_client = silence.ends <= _ENDS_OF_PROCESSES
        return KILLED if by_client else f"the server had closed its connection ({', '.join(sorted(silence.ends))})"
    if silence.back_ports & silence.ports:
        return PAUSED
    return CUT_OFF if silence.back_ports else "" if silence.ends != {""} else PAUSED_OR_CUT_OFF


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
    history: GroupHistory, causes: _Causes, rebalances: Sequence[Rebalance], from_ms: int, to_ms: int
) -> dict[Client, ClientCounts]:
    counts: dict[Client, ClientCounts] = {}

    def of(client: Client) -> ClientCounts:
        return counts.setdefault(client, ClientCounts(client=client))

    for event, client, _ in history.changes:
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
