"""One share partition of this broker: its machine, and what surrounds it: the durable state, the locks' timer, waiting fetches.

    read the state -> machine -> acknowledge, release, expire -> write the state -> settle -> wake who waits for records

Records of a group with a dead-letter queue take another way before they are archived:

    write the state ARCHIVING -> write them to the queue (dead_letters.py) -> archive, write the state -> move the start

What a member does is answered when it is durable. A share coordinator that cannot answer now (it loads, or has moved) is asked
again a few times, as Kafka's persister does; a write that happened nevertheless may be repeated. If a state or leader epoch is
stale, or the topic is gone, this share partition is over: the manager forgets it, and the next fetch reads the state again.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Protocol

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.share_state.share_state import (
    UNINITIALIZED_START_OFFSET,
    Batch,
    SharePartition,
    ShareState,
    ShareStates,
)
from coordinator.share_state.state import FENCED_LEADER, FENCED_STATE, UNINITIALIZED
from coordinator.topics.internal_partition import InternalPartition
from coordinator.topics.partition import Partition
from coordinator.topics.share.dead_letters import DELIVERED_TOO_OFTEN, REJECTED, Dead, DeadLetters
from coordinator.topics.share.in_flight import RecordState, Transition
from coordinator.topics.share.machine import REJECT, Acknowledgement, Limits, ShareMachine, persisted
from coordinator.topics.share.outcomes import LOCK_ENDED, LOCK_EXPIRED, Outcomes, Place
from coordinator.world.clock import Clock
from coordinator.world.schedule import Handle, Schedule

TRIES_MAX = 5
"""How often the share coordinator is asked, if it cannot answer."""
RETRY_MS = 1_000
"""The first pause between two tries; each further one is twice as long."""
_TRY_AGAIN = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
_FENCED = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})
NOT_HOSTED = "This server does not host this topic-partition."
"""The message of UNKNOWN_TOPIC_OR_PARTITION where Kafka sends one."""
_NOT_WRITTEN = "Error in write state RPC. "
_WHY_NOT_WRITTEN = {
    ErrorCode.FENCED_LEADER_EPOCH: _NOT_WRITTEN + FENCED_LEADER,
    ErrorCode.FENCED_STATE_EPOCH: _NOT_WRITTEN + FENCED_STATE,
    ErrorCode.INVALID_REQUEST: _NOT_WRITTEN + UNINITIALIZED,
}
OVER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Errors after which a share partition is of no use."""

Done = Callable[[KafkaError | None], None]
StartOffset = Callable[[Callable[[int], None]], None]
"""Finds the start offset of a share partition that has none yet, by share.auto.offset.reset."""


When = Callable[[Awaitable[Any], Callable[[Any], None]], None]
"""`when(awaitable, then)` calls `then` with the outcome: how one waits is not for this room to know."""


class LimitsOf(Protocol):
    """The settings of the group that are in force now."""

    def __call__(self) -> Limits: ...


class Waiter(Protocol):
    """A fetch that waits for records."""

    def on_available(self) -> None:
        """Records of a share partition may be available, or it is loaded, or over."""


class State(Enum):
    """Of a share partition of this broker."""

    LOADING = "loading"
    ACTIVE = "active"
    OVER = "over"


class ShareLeader:
    """A share partition. `partition` is the topic's."""

    def __init__(
        self,
        key: SharePartition,
        partition: Partition | InternalPartition,
        states: ShareStates,
        when: When,
        limits: LimitsOf,
        start_offset: StartOffset,
        clock: Clock,
        protocol_schedule: Schedule,
        schedule: Schedule,
        outcomes: Outcomes,
        dead_letters: DeadLetters,
        on_archived: Callable[[], None],
    ) -> None:
        """Begins to read the state. Locks go by `protocol_schedule` and the clock's monotonic time.

        `on_archived` is called when dead letters were archived and no more are on the way.
        """
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.epochs.current
        self.limits = limits
        self.state = State.LOADING
        self.error: KafkaError | None = None
        """Why the share partition is over."""
        self.waiters: dict[Waiter, None] = {}
        self.record_bytes = 0.0
        """How many bytes of the log a record of the last fetch had, on average."""
        self.machine = ShareMachine(0, 0, ())
        self._states = states
        self._when = when
        self._start_offset = start_offset
        self._clock = clock
        self._protocol_schedule = protocol_schedule
        self._schedule = schedule
        self._outcomes = outcomes
        self._dead_letters = dead_letters
        self._on_archived = on_archived
        self.archiving_count = 0
        """Records on the way to the dead-letter queue, or that will be when their state is durable."""
        self.place = Place(key, -1)
        """For reports about records."""
        self._timer: Handle | None = None
        self._timer_ms = 0
        self._ask(lambda: states.read(key, self.leader_epoch), self._loaded)

    @property
    def is_active(self) -> bool:
        return self.state is State.ACTIVE

    @property
    def is_over(self) -> bool:
        return self.state is State.OVER

    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    # --- the durable state --------------------------------------------------------------------------------------------

    def _ask(self, ask: Callable[[], Awaitable[Any]], then: Callable[[Any], None], tries: int = 1) -> None:
        """Asks the share coordinator; calls `then` with its outcome, or the error that it still has at the end."""

        def answered(outcome: Any) -> None:
            if isinstance(outcome, ErrorCode) and outcome in _TRY_AGAIN and tries < TRIES_MAX:
                self._schedule(RETRY_MS << (tries - 1), lambda: self._ask(ask, then, tries + 1))
            else:
                then(outcome)

        self._when(ask(), answered)

    def _loaded(self, outcome: ShareState | ErrorCode) -> None:
        if self.is_over:
            return
        if isinstance(outcome, ErrorCode):
            self.end(_client_error(outcome))
        elif outcome.start_offset == UNINITIALIZED_START_OFFSET:
            self._start_offset(partial(self._begin, outcome))
        else:
            self._begin(outcome, outcome.start_offset)

    def _begin(self, state: ShareState, start_offset: int) -> None:
        if self.is_over:
            return
        self.machine = ShareMachine(state.state_epoch, start_offset, state.batches)
        self.place = self._outcomes.loaded(self.key, self._clock.wall_ms())
        self.state = State.ACTIVE
        limit = self.limits().delivery_count
        for dead in self.machine.archiving():
            self.archiving_count += _size(dead)
            self._bury(dead, DELIVERED_TOO_OFTEN if dead.delivery_count >= limit else REJECTED)
        self.wake()

    def end(self, error: KafkaError) -> None:
        """The share partition is over for this reason. The locks end with it."""
        if self.is_over:
            return
        self.state, self.error = State.OVER, error
        if self._timer is not None:
            self._timer.cancel()
        self.wake()

    def wake(self) -> None:
        """Lets those look again who wait for records."""
        for waiter in list(self.waiters):
            waiter.on_available()

    def _write(self, batches: Sequence[Batch], then: Callable[[KafkaError | None], None]) -> None:
        machine = self.machine
        start_offset, count = machine.start_offset, machine.delivery_complete_count

        def written(error: ErrorCode) -> None:
            failure = None if error is ErrorCode.NONE else _client_error(error, _WHY_NOT_WRITTEN.get(error, ""))
            then(failure)
            if failure is not None and failure.code in OVER:
                self.end(failure)

        self._ask(
            lambda: self._states.write(self.key, machine.state_epoch, self.leader_epoch, start_offset, count, batches),
            written,
        )

    # --- members ------------------------------------------------------------------------------------------------------

    def acknowledge(self, member_id: str, acknowledgements: Sequence[Acknowledgement], done: Done) -> None:
        """Calls `done` when everything is durable, or with the error: then all records are as before.

        INVALID_RECORD_STATE, INVALID_REQUEST, or that of the share coordinator: COORDINATOR_NOT_AVAILABLE,
        NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_SERVER_ERROR.
        """
        limits = self.limits()
        try:
            transitions = self.machine.acknowledge(member_id, acknowledgements, limits, self.now_ms())
        except KafkaError as error:
            done(error)
            return
        self.watch_locks()

        def persisted(failure: KafkaError | None) -> None:
            if failure is None:
                self._outcomes.on_acknowledged(self.place, acknowledgements, transitions, limits.delivery_count)
            done(failure)

        self._persist(transitions, limits, persisted)

    def release(self, member_id: str, cause: str) -> None:
        """Gives back what the member has. `cause`: why, for people."""
        limits = self.limits()
        transitions = self.machine.release(member_id, limits)

        def persisted(failure: KafkaError | None) -> None:
            if failure is None:
                self._outcomes.on_released(self.place, transitions, limits.delivery_count, cause)

        self._persist(transitions, limits, persisted)

    def _persist(self, transitions: list[Transition], limits: Limits, done: Done) -> None:
        if not transitions:
            done(None)
            return

        states = persisted(transitions)
        dying = [
            (dead, REJECTED if each.kind == REJECT else DELIVERED_TOO_OFTEN)
            for each, dead in zip(transitions, states, strict=True)
            if each.state is RecordState.ARCHIVING
        ]
        self.archiving_count += sum(_size(dead) for dead, _ in dying)

        def written(failure: KafkaError | None) -> None:
            changed = self.machine.settle(transitions, limits, self.now_ms(), is_durable=failure is None)
            self._report_locks(LOCK_EXPIRED)
            self.watch_locks()
            done(failure)
            if changed:
                self.wake()
            for dead, cause in dying:
                if failure is None:
                    self._bury(dead, cause)
                else:
                    self._archived(dead)

        self._write(states, written)

    # --- dead letters -------------------------------------------------------------------------------------------------

    def _bury(self, dead: Batch, cause: str) -> None:
        """Writes records to the dead-letter queue and archives them. Another leader does that if this one is over."""

        def written() -> None:
            if self.is_over:
                self._archived(dead)
            else:
                self._write(self.machine.archive(dead), archived)

        def archived(_failure: KafkaError | None) -> None:
            if self.machine.expired():
                self.wake()
            self._archived(dead)

        if self.is_over:
            self._archived(dead)
            return
        first_offset, last_offset, _, count = dead
        self._dead_letters.write(Dead(self.place, self.partition, first_offset, last_offset, count, cause), written)

    def _archived(self, dead: Batch) -> None:
        self.archiving_count -= _size(dead)
        if not self.archiving_count:
            self._on_archived()

    # --- locks --------------------------------------------------------------------------------------------------------

    def watch_locks(self) -> None:
        """Sets the timer for the lock that ends first."""
        deadline_ms = self.machine.next_deadline()
        if deadline_ms is None or self.is_over or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        self._timer = self._protocol_schedule(max(0, deadline_ms - self.now_ms()), self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._end_locks(LOCK_EXPIRED, lambda: None)

    def end_locks(self, member_id: str, done: Callable[[int], None]) -> None:
        """Ends the locks of a member, or of all (""), as if their time had passed.

        Calls `done` with the number of records when that is durable, or cannot be made so.
        """
        count = self.machine.end_locks(member_id, self.now_ms())
        self._end_locks(LOCK_ENDED, lambda: done(count))

    def _end_locks(self, cause: str, done: Callable[[], None]) -> None:
        """Ends the locks that are due."""
        batches = self.machine.expire(self.limits(), self.now_ms())
        self._report_locks(cause)
        self.watch_locks()
        if batches:
            dying = [each for each in batches if each.delivery_state == RecordState.ARCHIVING]
            self.archiving_count += sum(map(_size, dying))
            self._write(batches, partial(self._expired, dying, done))
            self.wake()
        else:
            done()

    def _report_locks(self, cause: str) -> None:
        ended = self.machine.ended_locks
        if ended:
            self.machine.ended_locks = []
            self._outcomes.on_locks_ended(self.place, ended, self.limits().delivery_count, cause)

    def _expired(self, dying: Sequence[Batch], done: Callable[[], None], _failure: KafkaError | None) -> None:
        if self.machine.expired():
            self.wake()
        for dead in dying:
            self._bury(dead, DELIVERED_TOO_OFTEN)
        done()


def _size(batch: Batch) -> int:
    return batch.last_offset - batch.first_offset + 1


def _client_error(code: ErrorCode, message: str = "") -> KafkaError:
    """What a client gets for an error of the share coordinator (Kafka: SharePartition.fetchPersisterError)."""
    if code in _TRY_AGAIN:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if code in _FENCED:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return KafkaError(code, NOT_HOSTED)
    if code is ErrorCode.GROUP_ID_NOT_FOUND:
        return KafkaError(code)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
