"""Takes events about the records of share groups to the shards of the groups, also of those that another worker has.

The leader of a share partition is where its topic is, and the group may be elsewhere. Then Produce to `__coordinator_events`
takes the events to the worker that has the shard, one request after another, and that worker writes them as if they were its
own. Evidence must not hold up what it is about: while no worker answers, a limited number waits, and the oldest are given up. A
request whose response is lost is repeated, and events have numbers that show it.
"""

import logging
from collections import deque
from collections.abc import Callable
from functools import partial

from coordinator.groups.events import EVENT_KEYS
from coordinator.groups.machine import GroupMachine
from coordinator.groups.share.deliveries import Deliveries, as_messages, note_deliveries, of_messages
from coordinator.log.batch import CorruptBatch, key_values, split
from coordinator.log.batch_builder import BatchBuilder
from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.errors import ErrorCode
from coordinator.runtime.result import Record
from coordinator.runtime.router import Router
from coordinator.runtime.serde import Serde, UnknownRecordVersion
from coordinator.runtime.shard import Status
from coordinator.topics.names import COORDINATOR_EVENTS
from coordinator.world.clock import Clock
from coordinator.world.schedule import Schedule

_log = logging.getLogger(__name__)

AppendElsewhere = Callable[[int, bytes, Callable[[ErrorCode], None]], None]
"""`append(index of the shard, a batch, done)`: at the worker that has the shard."""
BATCH_EVENTS = 200
WAITING_MAX = 10_000
"""Events of one shard that wait for another worker."""
RETRY_MS = 500
_TRY_AGAIN = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER})
"""Errors after which another worker, or the same one later, will take the events."""


class DeliveryEvents:
    """The way of these events from the leaders of this process."""

    def __init__(self, groups: Router[GroupMachine], clock: Clock, schedule: Schedule) -> None:
        self.elsewhere: AppendElsewhere | None = None
        """None: all shards are here."""
        self._groups = groups
        self._clock = clock
        self._schedule = schedule
        self._serde = Serde(Codec.of(), EVENT_KEYS)
        self._waiting: dict[int, deque[Deliveries]] = {}
        """Of shards, in order. A shard that has an entry is being asked."""
        self._full: set[int] = set()
        """Shards whose oldest events are being given up."""

    def note(self, deliveries: Deliveries) -> None:
        """Writes the event, now or when another worker takes it."""
        shard = self._groups.shard_of(deliveries.group_id)
        if self.elsewhere is None or (shard.status is not Status.ELSEWHERE and shard.index not in self._waiting):
            self._note_here(deliveries)
            return
        waiting = self._waiting.get(shard.index)
        if waiting is None:
            self._waiting[shard.index] = deque([deliveries], WAITING_MAX)
            self._send(shard.index)
            return
        if len(waiting) == WAITING_MAX and shard.index not in self._full:
            self._full.add(shard.index)
            _log.warning("event=events_given_up shard=%d reason=no worker has taken them", shard.index)
        waiting.append(deliveries)

    def _note_here(self, deliveries: Deliveries) -> None:
        self._groups.run_internal(deliveries.group_id, partial(note_deliveries, deliveries=deliveries))

    def _send(self, index: int) -> None:
        waiting = self._waiting[index]
        if self._groups.shards[index].status is not Status.ELSEWHERE:
            del self._waiting[index]
            for each in waiting:
                self._note_here(each)
            return
        sent = list(waiting)[:BATCH_EVENTS]
        builder = BatchBuilder()
        for each in sent:
            key, value = as_messages(each)
            builder.add(*self._serde.encode(Record(key, value, 0)))
        assert self.elsewhere is not None
        self.elsewhere(index, builder.build(0, self._clock.wall_ms()), partial(self._sent, index, sent))

    def _sent(self, index: int, sent: list[Deliveries], error: ErrorCode) -> None:
        waiting = self._waiting[index]
        if error not in _TRY_AGAIN:
            if error is not ErrorCode.NONE:
                _log.warning("event=events_given_up shard=%d reason=%s", index, error.name)
            for each in sent:
                if waiting and waiting[0] is each:
                    waiting.popleft()
            if not waiting:
                del self._waiting[index]
                self._full.discard(index)
                return
        self._schedule(RETRY_MS if error in _TRY_AGAIN else 0, partial(self._send, index))

    def append(self, topic: str, index: int, records: bytes | None) -> ErrorCode:
        """Takes events from another worker. As for any internal topic: nothing else may be written there."""
        is_shard = topic == COORDINATOR_EVENTS and 0 <= index < len(self._groups.shards)
        if self.elsewhere is None or not is_shard:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if self._groups.shards[index].status is Status.ELSEWHERE:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        try:
            found = self._decoded(records or b"")
        except (CorruptBatch, DecodeError, UnknownRecordVersion):
            return ErrorCode.CORRUPT_MESSAGE
        if any(each is None or self._groups.shard_of(each.group_id).index != index for each in found):
            return ErrorCode.INVALID_RECORD
        for each in found:
            if each is not None:
                self._note_here(each)
        return ErrorCode.NONE

    def _decoded(self, records: bytes) -> list[Deliveries | None]:
        found: list[Deliveries | None] = []
        for position, header in split(records):
            for _, key, value in key_values(records, position, header):
                record = self._serde.decode(key or b"", value)
                found.append(None if record is None else of_messages(record.key, record.value))
        return found
