"""Reads the event logs of all shards, or of one, in the order of time, from a position on and as far as they are durable.

A read takes bytes from the logs on the loop, as Fetch does, a slice at a time, and decodes them in a thread. Slices bound the
memory: a reader that falls behind reads from the files later, and nothing is kept for it.
"""

import re
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from msgspec import json

from coordinator.admin.endpoint import RefusedRequest, in_thread
from coordinator.admin.event_json import ALL, Entry, Wanted, decoded
from coordinator.admin.fault_events import FaultEvents
from coordinator.admin.server_view import RunsInThread
from coordinator.log.journaled_log import JournaledLog
from coordinator.topics.partition import Reader

_SLICES_BYTES = 512 * 1024
"""All logs together, in one read."""
_SLICE_MIN_BYTES = 16 * 1024
_POSITION = re.compile(r"(\d{1,9}|f):(-?\d{1,18})")
POSITION_PATTERN = r"^(now|-?\d{1,18}|(\d{1,9}|f):-?\d{1,18}(,(\d{1,9}|f):-?\d{1,18})*)$"
FAULTS = "f"
"""In a position, in place of a shard."""


class EventLogs(RunsInThread, Protocol):
    """The event logs that can be read here."""

    @property
    def faults(self) -> FaultEvents:
        """The faults that acted lately."""

    def logs(self, group: str | None) -> Sequence[tuple[int, JournaledLog]]:
        """Shards and their logs: all, or the one that has the events of a group. Raises RefusedRequest: there is none."""

    def readers(self, shard: int) -> dict[Reader, None] | None:
        """Those who are notified when the log has more; None: it is not here, at the moment or any more."""

    def wall_ms(self) -> int:
        """The time."""


class _Source:
    """The event log of one shard."""

    def __init__(self, here: EventLogs, shard: int, log: JournaledLog, delivered: int | None) -> None:
        self.shard = shard
        self.log = log
        self._here = here
        self.read_to = log.start_offset if delivered is None else delivered + 1
        self.delivered = self.read_to - 1
        """The last offset that was delivered or left out."""
        self.entries: deque[Entry] = deque()

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read here. A worker may lose the shard, and get it again."""
        return self._here.readers(self.shard) is not None and self.read_to < self.log.durable_offset

    @property
    def next_time_ms(self) -> int:
        return self.entries[0].time_ms

    def pop(self) -> Entry:
        entry = self.entries.popleft()
        self.delivered = entry.offset if self.entries else max(entry.offset, self.read_to - 1)
        return entry


class History:
    """One reader's way through the events."""

    def __init__(self, here: EventLogs, group: str | None, wanted: Wanted = ALL) -> None:
        """`wanted`: which of the events. Raises RefusedRequest: there are no events."""
        logs = here.logs(group)
        self._here = here
        self._group = group
        self._wanted = wanted
        self._faults = here.faults
        self._fault_number = 0
        self._logs = logs
        self._sources = [_Source(here, shard, log, _since(log, wanted.since_ms)) for shard, log in logs]
        self._slice_bytes = max(_SLICE_MIN_BYTES, _SLICES_BYTES // max(1, len(logs)))

    def begin_after(self, position: str) -> None:
        """Continues behind a position: OFFSET of a group's log, `now`, or an id. Raises RefusedRequest: 422."""
        if re.fullmatch(POSITION_PATTERN, position, re.ASCII) is None:
            raise RefusedRequest(422, "a position is OFFSET, now, or the id of an event, as it came")
        if position == "now":
            self._sources = [_Source(self._here, shard, log, log.durable_offset - 1) for shard, log in self._logs]
            self._fault_number = self._faults.last
            return
        if ":" not in position:
            if len(self._logs) != 1:
                raise RefusedRequest(
                    422, "after: an offset alone needs a group; across groups it is an id or next, as it came"
                )
            position = f"{self._logs[0][0]}:{position}"
        offsets = {name: int(offset) for name, offset in _POSITION.findall(position)}
        number = offsets.pop(FAULTS, 0)
        self._fault_number = 0 if number > self._faults.last else number  # the server was started again
        by_shard = {int(name): offset for name, offset in offsets.items()}
        shards = {shard for shard, _ in self._logs}
        if unknown := by_shard.keys() - shards:
            raise RefusedRequest(
                422, f"after: there is no shard {min(unknown)} here", [str(each) for each in sorted(shards)]
            )
        for shard, log in self._logs:
            if not -1 <= by_shard.get(shard, -1) < max(1, log.end_offset):
                raise RefusedRequest(422, f"after: shard {shard} ends before offset {log.end_offset}")
        self._sources = [_Source(self._here, shard, log, by_shard.get(shard)) for shard, log in self._logs]

    @property
    def shards(self) -> list[int]:
        """Those whose logs it reads."""
        return [shard for shard, _ in self._logs]

    @property
    def position(self) -> str:
        """What `after` and Last-Event-ID take to continue here."""
        parts = [f"{source.shard}:{source.delivered}" for source in self._sources if source.delivered >= 0]
        if self._fault_number or not parts:
            parts.append(f"{FAULTS}:{self._fault_number}")
        return ",".join(parts)

    async def read(self, limit: int) -> list[tuple[str, bytes]]:
        """At most `limit` further events, each with the position behind it. Empty: this slice had none.

        Raises RefusedRequest: 503 a log cannot be read.
        """
        taken = await self._fill()
        while len(taken) < limit:
            source = self._next()
            if source is None:
                break
            if isinstance(source, _Source):
                entry = source.pop()
            else:
                entry = source
                self._fault_number = entry.offset
            taken.append((self.position, entry.json))
        return taken

    @property
    def is_at_end(self) -> bool:
        """Whether everything that is durable has been read."""
        return not any(source.entries or source.is_behind for source in self._sources) and not self._fault()

    def _fault(self) -> Entry | None:
        while found := self._faults.after(self._fault_number, self._group, 1):
            if self._wanted is ALL or self._wanted.takes(json.decode(found[0].json)):
                return found[0]
            self._fault_number = found[0].offset
        return None

    def _next(self) -> _Source | Entry | None:
        """Where the next event in time comes from; None if a log must be read first, or nothing is left."""
        full = [source for source in self._sources if source.entries]
        if any(source.is_behind and not source.entries for source in self._sources):
            return None
        first = min(full, key=lambda source: (source.next_time_ms, source.shard), default=None)
        fault = self._fault()
        if fault is not None and (first is None or fault.time_ms < first.next_time_ms):
            return fault
        return first

    async def _fill(self) -> list[tuple[str, bytes]]:
        """Reads a slice of each log that is behind. Returns the events that say which ones retention has deleted."""
        slices, deleted = [], []
        for source in self._sources:
            if source.entries or not source.is_behind:
                continue
            if source.read_to < source.log.start_offset:
                deleted.append(self._skip_deleted(source))
            try:
                data = source.log.read(source.read_to, self._slice_bytes, offset_end=source.log.durable_offset)
            except Exception as error:
                raise unreadable(source.shard, error) from error
            slices.append((source, data))
        if slices:
            group, wanted = self._group, self._wanted
            asked = [(source.shard, data, source.read_to, group, wanted) for source, data in slices]
            try:
                async with self._faults.reading:
                    found = await in_thread(self._here, lambda: [decoded(*each) for each in asked])
            except Exception as error:
                raise unreadable(slices[0][0].shard, error) from error
            for (source, _), (entries, read_to) in zip(slices, found, strict=True):
                source.entries.extend(entries)
                source.read_to = read_to
                if not entries:
                    source.delivered = read_to - 1
        return deleted

    def _skip_deleted(self, source: _Source) -> tuple[str, bytes]:
        first, source.read_to = source.read_to, source.log.start_offset
        source.delivered = source.read_to - 1
        text = (
            f'{{"shard":{source.shard},"offset":{source.delivered},"type":"EventsDeleted","from_offset":{first},'
            f'"time_ms":{self._here.wall_ms()},"group":null}}'
        )
        return self.position, text.encode()


def _since(log: JournaledLog, since_ms: int) -> int | None:
    """The offset before the first segment with events of that time or later; None: before all."""
    if not since_ms:
        return None
    recent = (each.base_offset for each in log.segments if each.max_timestamp >= since_ms)
    return max(log.start_offset, next(recent, log.durable_offset)) - 1


def unreadable(shard: int, error: Exception) -> RefusedRequest:
    """The refusal where an event log cannot be read."""
    return RefusedRequest(503, f"the event log of shard {shard} cannot be read: {type(error).__name__}: {error}")
