"""Invariants of share groups, from what KIP-932 promises. Neither half knows how the server decides.

`ShareHistory` has what clients saw: deliveries, and the acknowledgements that they sent. `ShareStateInvariants` follows every
record that was ever appended to `__share_group_state`, offset by offset.

- I44: a record whose acceptance or rejection was answered is never delivered again.
- I45: one member holds a record at a time, until its lock ends; only the holder may acknowledge it, and is not refused.
- I46: no record is delivered more often than group.share.delivery.count.limit, and counts that are durable never go back.
- I47: no record is skipped. Each becomes acknowledged because a member accepted it, or archived because one rejected it, it
  was delivered as often as the limit allows, or retention removed it; the start offset passes no other, and never goes back.
- I48: the live state of the share coordinator equals its log.
- I49: a writer with an earlier state epoch is refused.
- I50: a record that was archived by way of a dead-letter queue is durable in the queue, unless the server has reported that it
  could not write it; and the queue has only records that were rejected or delivered as often as the limit allows.

That read_committed groups get no aborted record is part of I10. Delivery counts that are not durable go back with a crash, as
in Kafka.

What a client holds may have ended without its knowledge, because the server saw the end of the connection or was restarted. A
share session ends with them. So a suspicion against I45 counts when the sessions of both holders are continued later.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from coordinator.groups.group_configs import DEAD_LETTER_COPIES, DEAD_LETTER_TOPIC
from coordinator.log.batch import decode_records, split
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.runtime.result import Fact
from coordinator.runtime.serde import Serde
from coordinator.runtime.shard import Status
from coordinator.server.composition import Server
from coordinator.share_state.machine import RECORD_KEYS
from coordinator.topics.names import SHARE_GROUP_STATE
from coordinator.topics.partition import Partition
from coordinator.topics.share.dead_letters import FAILED
from coordinator_lab.simulation.data_clients import KnownRecords
from coordinator_lab.simulation.history import OnBroken
from coordinator_lab.simulation.transaction_clients import LEDGER, Ledger

PARCELS = "parcels"
FINISHED = "I44 what is finished stays finished"
HELD = "I45 one holder"
COUNTED = "I46 deliveries are counted"
SKIPPED = "I47 no record is skipped"
STATE = "I48 share state equals its log"
FENCED = "I49 stale writers are fenced"
BURIED = "I50 dead letters are in their queue"

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""KIP-932's types of acknowledgements; GAP is an offset without a record, RENEW is KIP-1222's."""
AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED = 0, 2, 3, 4
"""Delivery states in `__share_group_state`."""
_TOLERANCE_S = 0.01
"""Clocks count milliseconds."""
_LETTERS_BYTES = 1 << 20
_REFUSED = (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST)
"""Errors after which an acknowledgement has changed nothing."""

Place = tuple[str, int]
"""Topic and partition."""


# --- what clients saw -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Moment:
    """When something happened at a client."""

    tick: int
    time_s: float
    starts: int
    """How many servers were started until then."""


@dataclass(slots=True, eq=False)
class _Suspicion:
    """Two holders of one record, unless the session of one of them had ended."""

    detail: str
    since: int
    sessions: list["Session"]


class Session:
    """A share session, as its member sees it."""

    def __init__(self, member_id: str, broken: OnBroken, *, in_doubt: bool) -> None:
        """`in_doubt`: requests of earlier sessions of this member id may still arrive."""
        self.member_id = member_id
        self.in_doubt = in_doubt
        self.is_over = False
        self.suspicions: list[_Suspicion] = []
        self._broken = broken

    def continued(self, asked: int) -> None:
        """The server has accepted a request of this session, sent at this tick."""
        for suspicion in [each for each in self.suspicions if each.since < asked]:
            self.suspicions.remove(suspicion)
            suspicion.sessions = [each for each in suspicion.sessions if each is not self]
            if not suspicion.sessions:
                self._broken(HELD, suspicion.detail)

    def end(self) -> None:
        """The session is over, or may be."""
        self.is_over = True
        self.suspicions.clear()


@dataclass(slots=True, eq=False)
class Delivery:
    """A record that a member was given."""

    session: Session
    place: Place
    offset: int
    count: int
    asked: Moment
    """When the member sent its request."""
    received: Moment
    until_s: float
    """The lock lasts at least until then, unless the member or its session ends it."""
    has_record: bool = True
    """False for an offset of a compacted record or a transaction marker."""
    is_held: bool = True
    """Whether its member has neither acknowledged it nor lost its session."""

    @property
    def holds(self) -> bool:
        return self.is_held and not self.session.is_over

    @property
    def life(self) -> int:
        """The server that delivered it; -1 if it is not certain which one."""
        return self.asked.starts if self.asked.starts == self.received.starts else -1

    def __str__(self) -> str:
        return f"delivery {self.count} to {self.session.member_id} by {self.received.time_s:.3f} s"


@dataclass(slots=True)
class Asked:
    """The acknowledgements of one request for one partition, by delivery."""

    number: int
    at: Moment
    kinds: Mapping[Delivery, int]


class GroupHistory:
    """One share group: its settings, and what its members saw."""

    def __init__(self, group_id: str, history: "ShareHistory", random: Random) -> None:
        self.group_id = group_id
        self.history = history
        self.lock_s = random.choice([1.5, 3.0, 5.0])
        self.limit = random.choice([2, 3, 5])
        self.is_committed = random.random() < 0.5
        self.renews = random.random() < 0.5
        self.queue = f"dlq.{group_id}" if random.random() < 0.5 else ""
        """The topic of its dead letters; empty: it has none."""
        self.is_configured = False
        """Whether the server has acknowledged these settings."""
        self.topics: set[str] = set()
        """Those that members subscribe to."""
        self.delivered = 0
        self.kinds: defaultdict[Place, defaultdict[int, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
        """Offset -> number of a request -> what that asked for."""
        self._deliveries: defaultdict[Place, defaultdict[int, list[Delivery]]] = defaultdict(lambda: defaultdict(list))
        self._finished: dict[tuple[Place, int], tuple[Delivery, Moment]] = {}
        """What ended the record, and when that was answered."""
        self._released: dict[tuple[Place, int], tuple[int, int]] = {}
        """The highest delivery count that was given back, and the tick at which that was answered."""
        self._starts: dict[Place, tuple[int, int]] = {}
        """The highest start offset that was read, and the tick at which it was."""

    @property
    def configs(self) -> dict[str, str]:
        return {
            DEAD_LETTER_TOPIC: self.queue,
            DEAD_LETTER_COPIES: "true",
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": str(int(self.lock_s * 1000)),
            "share.delivery.count.limit": str(self.limit),
            "share.isolation.level": "read_committed" if self.is_committed else "read_uncommitted",
            "share.renew.acknowledge.enable": str(self.renews).lower(),
        }

    def has_begun(self, place: Place) -> bool:
        """Whether a member was given a record. Until then a state may be made again, and start elsewhere."""
        return bool(self._deliveries[place])

    def open_session(self, member_id: str, *, in_doubt: bool) -> Session:
        return Session(member_id, self.history.broken, in_doubt=in_doubt)

    # --- deliveries ---------------------------------------------------------------------------------------------------

    def received(self, session: Session, place: Place, offset: int, count: int, asked: Moment) -> Delivery:
        """Checks and records a record that a member received, whose request was sent at `asked`."""
        self.delivered += 1
        new = Delivery(session, place, offset, count, asked, self.history.now(), asked.time_s + self.lock_s)
        if not 0 < count <= self.limit:
            self._broken(COUNTED, new, f"the limit is {self.limit}")
        self._check_finished(new)
        released, released_at = self._released.get((place, offset), (0, 0))
        if released_at < asked.tick and released and (count <= released or released == self.limit):
            self._broken(COUNTED, new, f"it was given back after delivery {released}")
        start, start_at = self._starts.get(place, (0, 0))
        if start_at < asked.tick and offset < start:
            self._broken(SKIPPED, new, f"the start offset was {start} already")
        others = self._deliveries[place][offset]
        for other in others:
            if other.holds and not self._may_follow(new, other):
                detail = f"{self.group_id} {place} {offset}: {new} within the lock of {other}, to {other.until_s:.3f} s"
                suspicion = _Suspicion(detail, new.received.tick, [other.session, session])
                for each in {other.session: None, session: None}:
                    each.suspicions.append(suspicion)
        others.append(new)
        return new

    @staticmethod
    def _may_follow(new: Delivery, other: Delivery) -> bool:
        """Whether one lock may have ended before the other began, whichever was first."""
        return (
            new.received.time_s + _TOLERANCE_S >= other.until_s or other.received.time_s + _TOLERANCE_S >= new.until_s
        )

    def _check_finished(self, new: Delivery) -> None:
        finished = self._finished.get((new.place, new.offset))
        if finished is None:
            return
        last, at = finished
        is_later = new.asked.tick > at.tick
        # Within the life of one server the counts say in which order the deliveries were.
        if is_later or (last.life == new.life == at.starts and new.count > last.count):
            self._broken(FINISHED, new, f"{last} was the last one")

    def _broken(self, invariant: str, delivery: Delivery, detail: str) -> None:
        self.history.broken(invariant, f"{self.group_id} {delivery.place} {delivery.offset}: {delivery}, but {detail}")

    # --- acknowledgements ---------------------------------------------------------------------------------------------

    def acknowledging(self, kinds: Mapping[Delivery, int]) -> Asked:
        """Records acknowledgements of one partition that are about to be sent."""
        at = self.history.now()
        for delivery, kind in kinds.items():
            self.kinds[delivery.place][delivery.offset][at.tick] = kind
            delivery.is_held = kind == RENEW and delivery.is_held
        return Asked(at.tick, at, kinds)

    def acknowledged(self, asked: Asked, code: ErrorCode) -> None:
        """Checks and records the result of a partition's acknowledgements."""
        now = self.history.now()
        if code is ErrorCode.NONE:
            for delivery, kind in asked.kinds.items():
                self._took_effect(delivery, kind, asked.at, now)
            return
        if code not in _REFUSED:
            return
        for delivery in asked.kinds:
            del self.kinds[delivery.place][delivery.offset][asked.number]
        if all(self._is_certain(delivery, now) for delivery in asked.kinds):
            self._broken(HELD, next(iter(asked.kinds)), f"its acknowledgement was refused with {code.name}")

    def _is_certain(self, delivery: Delivery, now: Moment) -> bool:
        """Whether the member certainly holds the record."""
        session = delivery.session
        return (
            now.time_s + _TOLERANCE_S < delivery.until_s
            and delivery.life == now.starts
            and not session.is_over
            and not session.in_doubt
            and delivery.offset >= self.history.deleted.get(delivery.place, 0)
        )

    def _took_effect(self, delivery: Delivery, kind: int, sent: Moment, now: Moment) -> None:
        key = delivery.place, delivery.offset
        if kind == RENEW:
            delivery.until_s = max(delivery.until_s, sent.time_s + self.lock_s)
            return
        for other in self._deliveries[delivery.place][delivery.offset]:
            if (
                other.holds
                and other.session.member_id != delivery.session.member_id
                and other.received.tick < sent.tick
                and now.time_s + _TOLERANCE_S < other.until_s
                and other.life == delivery.life == now.starts
                and not delivery.session.in_doubt
            ):
                # Of a record that is finished, an acknowledgement is ignored.
                detail = f"{self.group_id} {key}: {other}, and then the acknowledgement of {delivery} was accepted"
                other.session.suspicions.append(_Suspicion(detail, now.tick, [other.session]))
        if kind == RELEASE:
            count, _ = self._released.get(key, (0, 0))
            if delivery.count > count:
                self._released[key] = delivery.count, now.tick
        else:
            self._finished.setdefault(key, (delivery, now))

    # --- the state that the share coordinator shows -------------------------------------------------------------------

    def start_read(self, place: Place, start_offset: int, asked: int) -> None:
        """Checks and records the start offset in a response to a request that was sent at tick `asked`."""
        start, known_at = self._starts.get(place, (-1, 0))
        if known_at < asked and start_offset < start and self.has_begun(place):
            self.history.broken(SKIPPED, f"{self.group_id} {place}: the start offset is {start_offset} after {start}")
        if start_offset > start:
            self._starts[place] = start_offset, self.history.now().tick


class ShareHistory:
    """All share groups of a run."""

    def __init__(
        self,
        broken: OnBroken,
        tick: Callable[[], int],
        world_s: Callable[[], float],
        ledger: Ledger,
    ) -> None:
        self.broken = broken
        self.starts: Callable[[], int] = lambda: 0
        """How many servers were started."""
        self.parcels = KnownRecords(broken)
        self.ledger = ledger
        self.deleted: dict[Place, int] = {}
        """The records before this offset were requested to be deleted."""
        self.groups: dict[str, GroupHistory] = {}
        self._tick = tick
        self._world_s = world_s

    def now(self) -> Moment:
        return Moment(self._tick(), self._world_s(), self.starts())

    def group(self, group_id: str, random: Random) -> GroupHistory:
        """A new group."""
        group = self.groups[group_id] = GroupHistory(group_id, self, random)
        return group

    def must_finish(self, place: Place) -> set[int]:
        """Offsets of records that every group must finish, as far as clients know: retention leaves them."""
        topic, partition = place
        known = self.ledger.must_have(partition) if topic == LEDGER else self.parcels.known[partition]
        deleted = self.deleted.get(place, 0)
        return {offset for offset in known if offset >= deleted}


# --- what the log says ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _State:
    """A share partition as its records say."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Offset -> delivery count and delivery state."""


_Letter = tuple[str, Place, int]
"""Group, place and offset of a record."""
_Key = tuple[str, bytes, int]
"""Group, topic id, partition."""


@dataclass(slots=True)
class _ShardLog:
    records: list[tuple[Any, Any]] = field(default_factory=list)
    """Key and value of every record appended, by offset."""
    read_to: int = 0
    states: dict[_Key, _State] = field(default_factory=dict)


class ShareStateInvariants:
    """Follows the logs of share states of one server after another, on the same disk."""

    def __init__(
        self,
        log_dir: str,
        history: ShareHistory,
        read_batches: Callable[[bytes], Iterator[tuple[Any, Sequence[Any]]]],
    ) -> None:
        self.history = history
        self._prefix = f"{log_dir}/{SHARE_GROUP_STATE}-"
        self._read_batches = read_batches
        self._serde = Serde(Codec.of(None), RECORD_KEYS)
        self._logs: defaultdict[int, _ShardLog] = defaultdict(_ShardLog)
        self._names: dict[bytes, str] = {}
        self._passed: defaultdict[tuple[str, Place], set[int]] = defaultdict(set)
        """By group and place: offsets that the start offset has passed although nothing had become of them."""
        self._targets: dict[tuple[str, Place], set[int]] | None = None
        """What was to be finished when everything was healed."""
        self._buried: set[_Letter] = set()
        """Records that were archived by way of a dead-letter queue."""
        self._letters: set[_Letter] = set()
        """Records of the queues that were durable, and those that a server has reported as not written."""
        self._read_letters_to: dict[tuple[str, int], int] = {}
        self._watched: Server | None = None

    def appended(self, folder: str, data: bytes) -> None:
        """Records batches that were appended to the log in a folder."""
        if not folder.startswith(self._prefix):
            return
        log = self._logs[int(folder[len(self._prefix) :])]
        for header, records in self._read_batches(data):
            self._cut(log, header.base_offset)
            for record in records:
                decoded = self._serde.decode(record.key, record.value)
                assert decoded is not None
                log.records.append((decoded.key, decoded.value))

    @staticmethod
    def _cut(log: _ShardLog, offset: int) -> None:
        """Drops the records at and after an offset, which the log has lost."""
        if offset < len(log.records):
            del log.records[offset:]
            if offset < log.read_to:
                log.read_to = 0
                log.states.clear()

    def check(self, server: Server) -> None:
        """Checks a running server. Must be called between two callbacks."""
        for topic in (PARCELS, LEDGER):
            topic_id = server.topics.topic_id(topic)
            if topic_id is not None:
                self._names[topic_id] = topic
        for shard in server.share_states.router.shards:
            if shard.status in (Status.FAILED, Status.LOADING) or shard.has_unwritten:
                continue
            log = self._logs[shard.index]
            self._cut(log, shard.log.end_offset)
            self._read(log)
            live = {
                (key.group_id, key.topic_id, key.partition): _State(
                    kept.state_epoch, kept.leader_epoch, kept.state.start_offset, _by_offset(kept.state.batches)
                )
                for key, kept in shard.state.by_key.items()
            }
            for key in live.keys() | log.states.keys():
                if live.get(key) != log.states.get(key):
                    self._broken(STATE, key, f"live {live.get(key)}, in the log {log.states.get(key)}")
        self._check_letters(server)
        for (group_id, place), offsets in self._passed.items():
            skipped = offsets & self.history.must_finish(place)
            if skipped:
                self.history.broken(
                    SKIPPED, f"{group_id} {place}: the start offset has passed {sorted(skipped)[:5]}, never finished"
                )

    def _check_letters(self, server: Server) -> None:
        letters = server.share_partitions.dead_letters
        if server is not self._watched:
            self._watched = server
            report = letters.on_fact

            def on_fact(fact: Fact) -> None:
                report(fact)
                if fact.name == FAILED:
                    first, last = map(int, fact.fields["offsets"].split("-"))
                    place = fact.fields["topic"], fact.fields["partition"]
                    self._letters.update((fact.fields["group"], place, each) for each in range(first, last + 1))

            letters.on_fact = on_fact
        for group in self.history.groups.values():
            for index in range(server.topics.partition_count(group.queue) or 0):
                self._read_letters(group, server.topics.user_partition(group.queue, index))
        lost = self._buried - self._letters
        if lost:
            self.history.broken(BURIED, f"{min(lost)} was archived, and is not in the queue")

    def _read_letters(self, group: GroupHistory, partition: Partition | None) -> None:
        """Reads the durable records of a queue that were not read yet."""
        if partition is None or partition.log is None:
            return
        key = group.queue, partition.index
        offset = max(self._read_letters_to.get(key, 0), partition.start_offset)
        if offset >= partition.high_watermark:
            return
        content = partition.log.read(offset, _LETTERS_BYTES, offset_end=partition.high_watermark)
        for at, header in split(content):
            self._read_letters_to[key] = header.next_offset
            for record in decode_records(content, at, header):
                self._check_letter(
                    group, {name: (value or b"").decode() for name, value in record.headers}, record.value
                )

    def _check_letter(self, group: GroupHistory, headers: Mapping[str, str], value: bytes | None) -> None:
        said = {name.removeprefix("__dlq.errors."): text for name, text in headers.items()}
        place, offset = (said["topic"], int(said["partition"])), int(said["offset"])
        self._letters.add((group.group_id, place, offset))
        is_rejected = REJECT in group.kinds[place][offset].values()
        if said["group"] != group.group_id or not (is_rejected or int(said["delivery.count"]) >= group.limit):
            self.history.broken(BURIED, f"{group.queue} has {said}, and nobody rejected the record")
        if place[0] == PARCELS and value is not None:
            self.history.parcels.observe(place[1], offset, value.decode(), f"in the queue of {group.group_id}")

    def unfinished(self) -> list[str]:
        """What is not finished of the records that were known when this was asked first. For use after the healing."""
        if self._targets is None:
            self._targets = {
                (group.group_id, (topic, partition)): self.history.must_finish((topic, partition))
                for group in self.history.groups.values()
                for topic in group.topics
                for partition in range(len(self.history.parcels.known))
            }
        states: dict[tuple[str, Place], _State] = {}
        for log in self._logs.values():
            self._read(log)
            states |= {(key[0], self._place(key)): state for key, state in log.states.items()}
        found = []
        for (group_id, place), offsets in self._targets.items():
            state = states.get((group_id, place), _State(0, 0, 0))
            left = {each for each in offsets if each >= max(state.start_offset, self.history.deleted.get(place, 0))}
            left -= {each for each, (_, how) in state.offsets.items() if how not in (AVAILABLE, ARCHIVING)}
            if left:
                found.append(f"{group_id} has not finished {len(left)} records of {place}, from {min(left)}")
        return found

    # --- reading the log ----------------------------------------------------------------------------------------------

    def _read(self, log: _ShardLog) -> None:
        for key, value in log.records[log.read_to :]:
            self._see(log.states, (key.group_id, key.topic_id, key.partition), value)
        log.read_to = len(log.records)

    def _see(self, states: dict[_Key, _State], key: _Key, value: Any) -> None:
        if value is None:
            states.pop(key, None)
            return
        before, added = states.get(key), _by_offset(value.state_batches)
        if not hasattr(value, "state_epoch"):
            if before is None:
                self._broken(STATE, key, "the log has no state into which an update could go")
                return
            start = before.start_offset if value.start_offset == -1 else value.start_offset
            leader_epoch = max(before.leader_epoch, value.leader_epoch)
            after = _State(before.state_epoch, leader_epoch, start, dict(before.offsets))
            for offset, found in added.items():
                after.offsets[offset] = max(found, after.offsets.get(offset, found))
        else:
            after = _State(value.state_epoch, value.leader_epoch, value.start_offset, added)
            if before is not None:
                after.leader_epoch = max(after.leader_epoch, before.leader_epoch)
                after.state_epoch = max(after.state_epoch, before.state_epoch)
        if before is not None:
            self._check_step(key, before, after)
        after.offsets = {offset: found for offset, found in after.offsets.items() if offset >= after.start_offset}
        states[key] = after

    def _check_step(self, key: _Key, before: _State, after: _State) -> None:
        group = self.history.groups[key[0]]
        if after.start_offset < before.start_offset and group.has_begun(self._place(key)):
            self._broken(SKIPPED, key, f"the start offset is {after.start_offset} after {before.start_offset}")
        for offset, found in after.offsets.items():
            if before.offsets.get(offset) != found:
                self._check_found(key, offset, *found)
        for offset, (count, how) in before.offsets.items():
            if offset < after.start_offset:
                continue
            count_after, how_after = after.offsets.get(offset, (0, AVAILABLE))
            if count_after < count:
                self._broken(COUNTED, key, f"offset {offset} has count {count_after} after {count}")
            if how != AVAILABLE and how_after == AVAILABLE:
                self._broken(FINISHED, key, f"offset {offset} is available after {how}")
            if how == ARCHIVING and how_after == ARCHIVED:
                self._buried.add((key[0], self._place(key), offset))
        place = self._place(key)
        for offset in range(max(0, before.start_offset), after.start_offset):
            _, how = after.offsets.get(offset, before.offsets.get(offset, (0, AVAILABLE)))
            if how in (AVAILABLE, ARCHIVING):
                self._passed[key[0], place].add(offset)

    def _check_found(self, key: _Key, offset: int, count: int, how: int) -> None:
        """Checks that a delivery state has a reason."""
        group, place = self.history.groups[key[0]], self._place(key)
        kinds = set(group.kinds[place][offset].values())
        if count > group.limit:
            self._broken(COUNTED, key, f"offset {offset} was delivered {count} times")
        if how == ACKNOWLEDGED and ACCEPT not in kinds:
            self._broken(SKIPPED, key, f"offset {offset} is acknowledged, and nobody accepted it")
        if (
            how in (ARCHIVING, ARCHIVED)
            and not kinds & {REJECT, GAP}
            and count < group.limit
            and offset in self.history.must_finish(place)
        ):
            self._broken(SKIPPED, key, f"offset {offset} is archived after {count} deliveries, and nobody rejected it")

    def _place(self, key: _Key) -> Place:
        return self._names[key[1]], key[2]

    def _broken(self, invariant: str, key: _Key, detail: str) -> None:
        self.history.broken(invariant, f"{key[0]} {self._place(key)}: {detail}")


def _by_offset(batches: Iterable[Any]) -> dict[int, tuple[int, int]]:
    return {
        offset: (each.delivery_count, each.delivery_state)
        for each in batches
        for offset in range(each.first_offset, each.last_offset + 1)
    }
