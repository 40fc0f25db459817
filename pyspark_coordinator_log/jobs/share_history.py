"""What became of the records of one share partition: its deliveries, from events, compared with its durable state.

The events say who got which records, and how each delivery ended; `__share_group_state` says what is settled, and where the
share partition starts. They are written by different code, and into different logs, which have no order in common: events are
judged in their own order, and the state as it is in the end, which must be read later than the events.

    acknowledged twice    a member acknowledged records whose delivery somebody had ended by an acknowledgement before
    not the holder        a member acknowledged records that another one held, or that it held no longer
    delivered again       records were given to a member after they had been accepted, rejected or archived
    two holders           records were given to a member while another one held them
    delivery count fell   records came with a delivery count that is not higher than that of the delivery before
    record lost           records were delivered, nobody settled them, and the group will not get them again
    `told otherwise`      an event says that records were settled, and the state does not

A lock does not outlive the load of the share partition, so records that a member held then may be delivered again with the same
count. An acknowledgement may be durable and its event missing, if the server died between the two: then the state says how the
delivery ended. Records that the topic's log does not have any more are lost to everybody, so they are not judged, nor are those
before the first state that is still there.

This module knows neither Spark nor the server.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pyspark_coordinator_log.jobs.vocabulary import (
    ACCEPTED,
    ACKNOWLEDGED_TWICE,
    COUNT_FELL,
    DELIVERED_AGAIN,
    EVENT_DISAGREES,
    GAP,
    LEADER_CHANGED,
    LOCK_ENDED,
    NOT_THE_HOLDER,
    RECORD_LOST,
    REJECTED,
    RELEASED,
    SESSION_ENDED,
    TWO_HOLDERS,
)

ACQUIRED, ACKNOWLEDGED, ARCHIVED = "RecordsAcquired", "RecordsAcknowledged", "RecordsArchived"
INITIALIZED, DEAD_LETTERED = "SharePartitionsInitialized", "RecordsDeadLettered"
_ENDS = {"AcquisitionLockExpired": LOCK_ENDED, "RecordsReleased": SESSION_ENDED}
TYPES = (ACQUIRED, ACKNOWLEDGED, ARCHIVED, INITIALIZED, DEAD_LETTERED, *_ENDS)
"""The events that are read."""
_OUTCOMES = {"gap": GAP, "accept": ACCEPTED, "release": RELEASED, "reject": REJECTED}
_SETTLED = frozenset({ACCEPTED, REJECTED, GAP})
_BY_ACKNOWLEDGEMENT = _SETTLED | {RELEASED}
_FINAL_STATES = {"ACKNOWLEDGED": ACCEPTED, "ARCHIVING": REJECTED, "ARCHIVED": REJECTED}
_RANKS = {"AVAILABLE": 0, "ACKNOWLEDGED": 2, "ARCHIVING": 3, "ARCHIVED": 4}

_BY_EVENT, _BY_STATE = "event", "state"

Row = Mapping[str, Any]


@dataclass(slots=True)
class Delivery:
    """Records that a member got at once, and that had the same fate."""

    first: int
    last: int
    count: int
    member_id: str
    client_id: str | None
    loaded_ms: int | None
    acquired: Row | None
    """The event; None if it is not in the log."""
    outcome: str | None = None
    """None: the member held the records at the end of the log."""
    evidence: str | None = None
    settled: Row | None = None
    """The event that says so."""
    archived: bool = False
    """Whether it was the last delivery, because of share.delivery.count.limit."""
    dead_letter: Row | None = None
    """The event that says what became of the records as dead letters."""

    def columns(self) -> dict[str, Any]:
        """The columns of the table that are not those of the share partition."""
        acquired, settled, dead = self.acquired or {}, self.settled or {}, self.dead_letter or {}
        queue_offset = dead.get("queue_offset")
        if queue_offset is not None:
            queue_offset += self.first - dead["ranges"][0]["first_offset"]
        return {
            "first_offset": self.first,
            "last_offset": self.last,
            "delivery_count": self.count,
            "member_id": self.member_id,
            "client_id": self.client_id,
            "acquired_offset": acquired.get("offset"),
            "acquired_ms": acquired.get("time_ms"),
            "outcome": self.outcome,
            "evidence": self.evidence,
            "archived": self.archived,
            "queue_topic": dead.get("queue_topic"),
            "queue_partition": dead.get("queue_partition"),
            "queue_offset": queue_offset,
            "queue_error": dead.get("reason"),
            "cause": settled.get("cause") or None,
            "settled_offset": settled.get("offset"),
            "settled_ms": settled.get("time_ms"),
            "time_ms": acquired.get("time_ms", settled.get("time_ms")),
        }


class Broken(NamedTuple):
    """A violation: the delivery before it, and the event that shows it (None: the state does)."""

    rule: str
    delivery: Delivery
    event: Row | None
    member_id: str
    detail: str


class _Pieces:
    """The last known thing about offsets: what covers them, in order and without overlaps. A piece has `first` and `last`."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._pieces: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pieces)

    def clear(self) -> None:
        self._firsts.clear()
        self._pieces.clear()

    def over(self, first: int, last: int) -> list[tuple[int, int, Any]]:
        """First offset, last offset and piece (None: nothing is known) of all of this range, at whose ends pieces are cut."""
        self._cut(first)
        self._cut(last + 1)
        found, at = [], first
        begin = bisect_right(self._firsts, first - 1)
        for piece in self._pieces[begin : bisect_right(self._firsts, last)]:
            if at < piece.first:
                found.append((at, piece.first - 1, None))
            found.append((piece.first, piece.last, piece))
            at = piece.last + 1
        if at <= last:
            found.append((at, last, None))
        return found

    def put(self, piece: Any) -> None:
        """Covers a range that `over` has named."""
        place = bisect_right(self._firsts, piece.first - 1)
        if place < len(self._firsts) and self._firsts[place] == piece.first:
            self._pieces[place] = piece
        else:
            self._firsts.insert(place, piece.first)
            self._pieces.insert(place, piece)

    def _cut(self, at: int) -> None:
        place = bisect_right(self._firsts, at) - 1
        if place >= 0 and self._pieces[place].first < at <= self._pieces[place].last:
            piece = self._pieces[place]
            rest = replace(piece, first=at)
            piece.last = at - 1
            self._firsts.insert(place + 1, at)
            self._pieces.insert(place + 1, rest)


@dataclass(slots=True)
class _Durable:
    """What the state says about offsets."""

    first: int
    last: int
    state: str
    count: int


class DurableState:
    """A share partition as the records of `__share_group_state` leave it."""

    def __init__(self, records: Iterable[Row]) -> None:
        """`records`: rows of the view `share_state`, in the order of the log."""
        self.start: int | None = None
        """None: there is no state, or it has no start yet."""
        self.known_from = 0
        """The start when the first record that is still there was written."""
        self.pieces = _Pieces()
        epoch = None
        for row in records:
            if row["tombstone"]:
                self.start, epoch = None, None
                self.pieces.clear()
                continue
            is_snapshot = row["type"] == "ShareSnapshot"
            if is_snapshot and row["state_epoch"] != epoch:
                epoch, self.start = row["state_epoch"], None
                self.pieces.clear()
                self.known_from = row["start_offset"] or 0
            if row["start_offset"] is not None:
                self.start = max(row["start_offset"], -1 if self.start is None else self.start)
            for batch in row["batches"] or ():
                self._merge(batch)

    def _merge(self, batch: Row) -> None:
        """As Kafka: the higher delivery count wins, then the higher state."""
        rank = batch["delivery_count"], _RANKS[batch["state"]]
        for first, last, known in self.pieces.over(batch["first_offset"], batch["last_offset"]):
            if known is None or rank > (known.count, _RANKS[known.state]):
                self.pieces.put(_Durable(first, last, batch["state"], batch["delivery_count"]))


class ShareHistory:
    """The deliveries of one share partition, and what is wrong with them."""

    def __init__(self, events: Iterable[Row], state: DurableState, log_start: int | None) -> None:
        """`events`: of TYPES, in the order of the log. `log_start`: of the topic's partition; None: not known."""
        self.deliveries: list[Delivery] = []
        """In the order in which the next one of the same records began."""
        self.broken: list[Broken] = []
        self._last = _Pieces()
        self._numbers: dict[int, int] = {}
        """The number of the last event of each load."""
        for event in events:
            if not self._is_repeated(event):
                self._take(event)
        self._compare(state, log_start)
        self.deliveries += self._last

    def _is_repeated(self, event: Row) -> bool:
        """Whether another worker has sent the event before, and did not learn that it had arrived."""
        load, number = event["loaded_ms"], event["event_number"]
        if load is None or number is None:
            return False
        last = self._numbers.get(load, -1)
        self._numbers[load] = max(number, last)
        return bool(number <= last)

    def _take(self, event: Row) -> None:
        kind = event["type"]
        if kind == INITIALIZED:
            if event["error"] is None:
                # Another state begins: what was in flight is not judged by it.
                self.deliveries += self._last
                self._last.clear()
            return
        for each in event["ranges"] or ():
            if kind == ACQUIRED:
                self._acquire(event, each)
            elif kind in {ARCHIVED, DEAD_LETTERED}:
                for _, _, delivery in self._last.over(each["first_offset"], each["last_offset"]):
                    if delivery is None or _is_older(event, delivery):
                        continue
                    if kind == ARCHIVED:
                        delivery.archived = True
                    else:
                        delivery.dead_letter = event
            else:
                self._settle(event, each, _ENDS.get(kind) or _OUTCOMES[each["acknowledge_type"]])

    def _new(self, event: Row, first: int, last: int, count: int, acquired: Row | None) -> Delivery:
        return Delivery(first, last, count, event["member_id"], event["client_id"], event["loaded_ms"], acquired)

    def _acquire(self, event: Row, each: Row) -> None:
        count = each["delivery_count"]
        for first, last, before in self._last.over(each["first_offset"], each["last_offset"]):
            delivery = self._new(event, first, last, count, event)
            if before is not None and _is_older(event, before):
                # The event of a former leader came late.
                delivery.outcome = LEADER_CHANGED
                self.deliveries.append(delivery)
                continue
            if before is not None:
                self._judge_next(before, event, count)
                if before.outcome is None:
                    before.outcome = LEADER_CHANGED
                self.deliveries.append(before)
            self._last.put(delivery)

    def _judge_next(self, before: Delivery, event: Row, count: int) -> None:
        is_same_load = before.loaded_ms is not None and before.loaded_ms == event["loaded_ms"]
        if before.outcome in _SETTLED or before.archived:
            ended = "archived" if before.outcome not in _SETTLED else before.outcome
            self._break(
                DELIVERED_AGAIN, before, event, f"delivery {count}, after they were {ended} in delivery {before.count}"
            )
        elif before.outcome is None and is_same_load:
            self._break(
                TWO_HOLDERS, before, event, f"delivery {count}, while the member held them in delivery {before.count}"
            )
        elif count <= before.count and (is_same_load or before.outcome in {RELEASED, SESSION_ENDED}):
            self._break(COUNT_FELL, before, event, f"delivery {count} after delivery {before.count}")

    def _settle(self, event: Row, each: Row, outcome: str) -> None:
        count = each["delivery_count"]
        for first, last, known in self._last.over(each["first_offset"], each["last_offset"]):
            delivery = known
            if delivery is None or count > delivery.count:
                # Its acquisition is not among the events.
                if delivery is not None:
                    delivery.outcome = delivery.outcome or LEADER_CHANGED
                    self.deliveries.append(delivery)
                delivery = self._new(event, first, last, count, None)
                self._last.put(delivery)
            elif _is_older(event, delivery):
                continue
            elif delivery.outcome is not None or delivery.member_id != event["member_id"] or count != delivery.count:
                if event["type"] == ACKNOWLEDGED:
                    self._judge_again(delivery, event, outcome)
                continue
            delivery.outcome, delivery.evidence, delivery.settled = outcome, _BY_EVENT, event

    def _judge_again(self, before: Delivery, event: Row, outcome: str) -> None:
        if before.outcome in _BY_ACKNOWLEDGEMENT or before.archived:
            rule, ended = (
                ACKNOWLEDGED_TWICE,
                "archived" if before.outcome not in _BY_ACKNOWLEDGEMENT else before.outcome,
            )
            self._break(rule, before, event, f"{outcome}, after they were {ended} in delivery {before.count}")
        else:
            held = "another delivery is under way" if before.outcome is None else before.outcome
            self._break(NOT_THE_HOLDER, before, event, f"{outcome}, but {held}")

    def _compare(self, state: DurableState, log_start: int | None) -> None:
        """Looks for what became of the last delivery of all records."""
        if state.start is None:
            return
        for delivery in [replace(each) for each in self._last]:
            for first, last, durable in state.pieces.over(delivery.first, delivery.last):
                self._compare_piece(delivery, first, last, durable, state, log_start)

    def _compare_piece(
        self,
        delivery: Delivery,
        first: int,
        last: int,
        durable: _Durable | None,
        state: DurableState,
        log_start: int | None,
    ) -> None:
        assert state.start is not None
        for begin, end in _split(first, last, (state.start, state.known_from, log_start)):
            settled = None if durable is None else _FINAL_STATES.get(durable.state)
            is_gone = begin < state.start or settled is not None
            if not is_gone:
                if delivery.outcome in _SETTLED or delivery.archived:
                    self._break(EVENT_DISAGREES, _part(delivery, begin, end), None, "the state has them as not settled")
                continue
            if delivery.outcome in _SETTLED or delivery.archived:
                continue
            if durable is not None and durable.count > delivery.count:
                continue  # a later delivery, whose events are missing
            open_or_accepted = delivery.outcome in {None, LEADER_CHANGED} or settled == ACCEPTED
            if settled is not None and durable is not None and durable.count == delivery.count and open_or_accepted:
                self._settle_by_state(begin, end, settled)
            elif log_start is not None and begin >= log_start and begin >= state.known_from:
                how = "never settled" if delivery.outcome is None else delivery.outcome
                now = (
                    "are before the start offset"
                    if settled is None
                    else f"are {durable.state.lower() if durable else ''}"
                )
                self._break(
                    RECORD_LOST, _part(delivery, begin, end), None, f"{how} in delivery {delivery.count}, and now {now}"
                )

    def _settle_by_state(self, first: int, last: int, outcome: str) -> None:
        for _, _, delivery in self._last.over(first, last):
            delivery.outcome, delivery.evidence, delivery.settled = outcome, _BY_STATE, None

    def _break(self, rule: str, delivery: Delivery, event: Row | None, detail: str) -> None:
        member_id = delivery.member_id if event is None else event["member_id"]
        first, last = delivery.first, delivery.last
        offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
        self.broken.append(Broken(rule, delivery, event, member_id, f"{offsets}: {detail}"))


def _is_older(event: Row, delivery: Delivery) -> bool:
    """Whether the event is of an earlier load of the share partition than the delivery."""
    return event["loaded_ms"] is not None and delivery.loaded_ms is not None and event["loaded_ms"] < delivery.loaded_ms


def _part(delivery: Delivery, first: int, last: int) -> Delivery:
    return replace(delivery, first=first, last=last)


def _split(first: int, last: int, at: Sequence[int | None]) -> Iterator[tuple[int, int]]:
    """The range in pieces that begin at these offsets."""
    begins = sorted({first, *(each for each in at if each is not None and first < each <= last)})
    yield from zip(begins, [begin - 1 for begin in begins[1:]] + [last], strict=True)
