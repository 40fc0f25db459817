"""Random histories of a share partition, checked against a model that has one entry for each offset."""

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coordinator.protocol.errors import KafkaError
from coordinator.share_state.share_state import Batch
from coordinator.topics.share.in_flight import RecordState
from coordinator.topics.share.machine import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    FetchedBatch,
    Limits,
    ShareMachine,
    Wanted,
    persisted,
)

LIMITS = Limits(lock_ms=50, delivery_count=4, locks=40, renews=True)
MEMBERS = st.sampled_from(["a", "b", "c"])
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState
DONE = {ACKNOWLEDGED, ARCHIVED}


class Record:
    """One offset in the model."""

    def __init__(self, state=AVAILABLE, count=0):
        self.state = state
        self.count = count
        self.member = ""
        self.deadline_ms = 0
        self.change = None
        """The number of the change that is not durable yet."""

    def give_back(self, final=ARCHIVED):
        self.state = final if self.count >= LIMITS.delivery_count else AVAILABLE
        self.member = ""


class Histories(RuleBasedStateMachine):
    """A log of batches of one to six records, some aborted; three members; writes that succeed or fail, in order."""

    def __init__(self):
        super().__init__()
        self.log = []
        self.log_start = self.log_end = 0
        self.model = {}
        self.now_ms = 0
        self.machine = ShareMachine(0, 0, [])
        self.writes = []
        """(number, transitions, what was acknowledged, the start and the states of the write)"""
        self.numbers = 0
        self.durable = {}
        """Offset -> (state, count), as the share coordinator has it."""
        self.durable_start = 0
        self.floor = 0
        self.limits = LIMITS
        self.final = ARCHIVED
        """The state of records that no member completes."""
        self.dead = []
        """Records that are durably on the way to the dead-letter queue."""

    @initialize(has_dead_letters=st.booleans())
    def begin(self, has_dead_letters):
        self.limits = LIMITS._replace(has_dead_letters=has_dead_letters)
        self.final = ARCHIVING if has_dead_letters else ARCHIVED

    def record(self, offset):
        return self.model.setdefault(offset, Record())

    # --- the log ------------------------------------------------------------------------------------------------------

    @rule(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4), aborted=st.integers(0, 15))
    def append(self, sizes, aborted):
        for number, size in enumerate(sizes):
            self.log.append(FetchedBatch(self.log_end, self.log_end + size - 1, bool(aborted == number)))
            self.log_end += size

    @precondition(lambda self: self.log)
    @rule(at=st.integers(0, 20))
    def compact(self, at):
        """A batch of the log is gone."""
        self.log.pop(at % len(self.log))

    @rule(count=st.integers(1, 10))
    def delete_records(self, count):
        self.log_start = min(self.log_start + count, self.log_end)
        self.log = [batch for batch in self.log if batch.last_offset >= self.log_start]
        self.machine.log_starts_at(self.log_start)
        for offset, record in self.model.items():
            if offset < self.log_start and record.state is AVAILABLE:
                record.state, record.change = ARCHIVED, None

    # --- members ------------------------------------------------------------------------------------------------------

    @rule(
        member=MEMBERS,
        most=st.integers(1, 30),
        size=st.integers(1, 10),
        strict=st.booleans(),
        batches=st.integers(1, 5),
    )
    def fetch(self, member, most, size, strict, batches):
        if not self.machine.can_acquire(self.limits):
            return
        offset = self.machine.next_fetch_offset()
        read = [batch for batch in self.log if batch.last_offset >= offset][:batches]
        acquired = self.machine.acquire(Wanted(member, most, size, strict), offset, read, self.limits, self.now_ms)
        aborted = {o for b in read if b.is_aborted for o in range(b.first_offset, b.last_offset + 1)}
        if read:
            # Nobody can have what the log does not have.
            for gone in range(offset, read[0].first_offset):
                if gone in self.model and self.model[gone].state is AVAILABLE and self.model[gone].change is None:
                    self.model[gone].state = ARCHIVED
        previous, count = -1, 0
        for each in acquired:
            assert previous < each.first_offset <= each.last_offset
            previous = each.last_offset
            for acquired_offset in range(each.first_offset, each.last_offset + 1):
                record = self.record(acquired_offset)
                assert record.state is AVAILABLE, "never while another member holds it, or when it is done with"
                assert record.change is None
                assert acquired_offset not in aborted
                record.state, record.member, record.count = ACQUIRED, member, record.count + 1
                assert record.count == each.delivery_count <= LIMITS.delivery_count
                record.deadline_ms = self.now_ms + LIMITS.lock_ms
                count += 1
        assert not strict or count <= most
        self._follow_aborted()

    def _follow_aborted(self):
        """Aborted records are archived at once."""
        for batch in self.machine.in_flight:
            for span in batch.spans:
                for offset in range(span.first, span.last + 1):
                    record = self.record(offset)
                    if record.state is AVAILABLE and span.state is ARCHIVED:
                        record.state, record.count = ARCHIVED, span.delivery_count

    @rule(
        member=MEMBERS,
        first=st.integers(0, 20),
        length=st.integers(1, 12),
        kinds=st.lists(st.integers(0, RENEW), min_size=12, max_size=12),
        alike=st.booleans(),
    )
    def acknowledge(self, member, first, length, kinds, alike):
        first += max(0, self.machine.start_offset - 5)
        last = first + length - 1
        types = kinds[:1] if alike else kinds[:length]
        start = self.machine.start_offset
        asked = [offset for offset in range(first, last + 1) if offset >= start]
        known = {o for batch in self.machine.in_flight for o in range(batch.first, batch.last + 1)}
        right = all(
            self.model[o].state is ACQUIRED and self.model[o].member == member and self.model[o].change is None
            for o in asked
            if o in known
        )
        try:
            transitions = self.machine.acknowledge(
                member, [Acknowledgement(first, last, types)], self.limits, self.now_ms
            )
        except KafkaError:
            assert not right or not set(asked) <= known
            for offset in asked:
                kind = types[0] if alike else types[offset - first]
                if kind == RENEW and offset in known:
                    self._follow_renewal(offset)
            return
        assert right
        changed = {}
        for offset in asked:
            if offset not in known:
                continue
            record = self.model[offset]
            kind = types[0] if alike else types[offset - first]
            if kind == RENEW:
                record.deadline_ms = self.now_ms + LIMITS.lock_ms
                continue
            changed[offset] = record
            if kind == RELEASE:
                record.give_back(self.final)
            else:
                completed = {ACCEPT: ACKNOWLEDGED, REJECT: self.final}
                record.state, record.member = completed.get(kind, ARCHIVED), ""
        self._write(transitions, changed, member)

    def _follow_renewal(self, offset):
        """Some locks were prolonged before the error was found: the machine says which."""
        record = self.model[offset]
        for span in self.machine.in_flight.spans(offset, offset):
            if span.state is ACQUIRED:
                record.deadline_ms = span.deadline_ms

    @rule(member=MEMBERS)
    def leave(self, member):
        transitions = self.machine.release(member, self.limits)
        changed = {}
        for offset, record in self.model.items():
            if record.state is ACQUIRED and record.member == member:
                changed[offset] = record
                record.give_back(self.final)
                if offset < self.machine.start_offset:
                    record.state = ARCHIVED
        self._write(transitions, changed, member)

    def _write(self, transitions, changed, member):
        self.numbers += 1
        for record in changed.values():
            record.change = self.numbers
        states = [(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in persisted(transitions)]
        assert sorted(o for a, b, _, _ in states for o in range(a, b + 1)) == sorted(changed)
        self.writes.append((self.numbers, transitions, changed, member, self.machine.start_offset, states))

    @precondition(lambda self: self.writes)
    @rule(durable=st.booleans())
    def write(self, durable):
        number, transitions, changed, member, start, states = self.writes.pop(0)
        self.machine.settle(transitions, self.limits, self.now_ms, is_durable=durable)
        for record in changed.values():
            if record.change != number:
                continue
            record.change = None
            if not durable:
                record.state, record.member = ACQUIRED, member
                if record.deadline_ms <= self.now_ms:
                    record.give_back()
        if durable:
            self._persist(start, states)

    def _persist(self, start, states):
        self.durable_start = max(self.durable_start, start)
        for first, last, state, count in states:
            for offset in range(first, last + 1):
                self.durable[offset] = (state, count)
            if state == ARCHIVING:
                self.dead.append(Batch(first, last, state, count))

    @precondition(lambda self: self.dead)
    @rule(which=st.integers(0, 5))
    def bury(self, which):
        """Dead letters are written to the queue."""
        dead = self.dead.pop(which % len(self.dead))
        start = self.machine.start_offset
        states = self.machine.archive(dead)
        for offset in range(dead.first_offset, dead.last_offset + 1):
            assert self.model[offset].state is ARCHIVING
            self.model[offset].state = ARCHIVED
        self._persist(start, [tuple(batch) for batch in states])
        self.machine.expired()

    # --- time ---------------------------------------------------------------------------------------------------------

    @rule(duration_ms=st.integers(1, 40))
    def pass_time(self, duration_ms):
        self.now_ms += duration_ms
        start = self.machine.start_offset
        expired = self.machine.expire(self.limits, self.now_ms)
        due = {o for o, r in self.model.items() if r.state is ACQUIRED and r.deadline_ms <= self.now_ms}
        assert {o for b in expired for o in range(b.first_offset, b.last_offset + 1)} == due
        for offset in due:
            self.model[offset].give_back(self.final)
            if offset < start:
                self.model[offset].state = ARCHIVED
        self._persist(start, [tuple(batch) for batch in expired])
        self.machine.expired()

    @rule()
    def crash(self):
        """Only what was durable is known. What was acquired is available again."""
        self.writes.clear()
        spans = []
        for offset, (state, count) in sorted(self.durable.items()):
            if offset >= self.durable_start:
                spans.append(Batch(offset, offset, state, count))
        self.machine = ShareMachine(0, self.durable_start, spans)
        self.model = {o: Record(RecordState(s), c) for o, (s, c) in self.durable.items() if o >= self.durable_start}
        self.floor = self.durable_start
        self.dead = self.machine.archiving()
        self.machine.log_starts_at(self.log_start)
        for offset, record in self.model.items():
            if offset < self.log_start and record.state is AVAILABLE:
                record.state = ARCHIVED

    # --- promises -----------------------------------------------------------------------------------------------------

    @invariant()
    def the_states_are_those_of_the_model(self):
        covered = set()
        for batch in self.machine.in_flight:
            assert batch.spans[0].first == batch.first
            assert batch.spans[-1].last == batch.last
            for span in batch.spans:
                for offset in range(span.first, span.last + 1):
                    assert offset not in covered
                    covered.add(offset)
                    record = self.record(offset)
                    assert (span.state, span.delivery_count, span.member_id) == (
                        record.state,
                        record.count,
                        record.member,
                    )
                    assert (span.transition is None) == (record.change is None)

    @invariant()
    def what_is_before_the_start_is_done_with_or_deleted(self):
        assert self.floor <= self.machine.start_offset
        self.floor = self.machine.start_offset
        for offset, record in self.model.items():
            if self.log_start <= offset < self.machine.start_offset:
                assert record.state in DONE
                assert record.change is None

    @invariant()
    def the_count_of_completed_deliveries_is_right(self):
        assert self.machine.delivery_complete_count == sum(
            span.state in DONE
            for batch in self.machine.in_flight
            for span in batch.spans
            for offset in range(span.first, span.last + 1)
            if offset >= self.machine.start_offset
        )

    @invariant()
    def no_lock_is_forgotten(self):
        deadlines = [record.deadline_ms for record in self.model.values() if record.state is ACQUIRED]
        if deadlines:
            assert self.machine.next_deadline() <= min(deadlines)

    @invariant()
    def a_record_that_is_available_will_be_fetched(self):
        available = [span.first for batch in self.machine.in_flight for span in batch.spans if span.is_available]
        if available:
            assert self.machine.next_fetch_offset() <= min(available)
            assert self.machine.can_acquire(self.limits)


Histories.TestCase.settings = settings(
    max_examples=int(os.environ.get("SHARE_HISTORIES", "60")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestHistories = Histories.TestCase
