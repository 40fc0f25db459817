"""The control topic: which workers live, and who owns which log.

Everything in it is written again and again, so it has no promise to keep: beats, and announcements of owners. Who owns a log is
decided in the log. An announcement may be late or missing; a claim that loses to a newer one announces that, so that the next
claim finds it.

The clock is the broker's: records get the time of their append (LogAppendTime). A reader knows it from the newest record, and
counts on from there by its own monotonic clock. `open` writes a record, so that the newest one is never old.

A reader follows the topic from its begin. Now and then a worker writes all owners in one record, and removes what is older
than a minute.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from coordinator.cluster.engine.engine import EngineSettings, EngineUnavailable, Owner, Summary, Worker
from coordinator.cluster.engine.kafka.cluster import BrokerError, Cluster, Partition
from coordinator.cluster.engine.kafka.partitions import Partitions, next_offset
from coordinator.cluster.engine.kafka.records import batches
from coordinator.log.batch_builder import BatchBuilder
from coordinator.protocol.errors import ErrorCode

_log = logging.getLogger(__name__)

FOLLOWS, BEATS = "follows", "beats"
"""Purposes of connections: one waits for records, and nothing may wait behind it."""
WAIT_MS = 500
"""A leader without new records answers after this time, or after half of what it has to answer, if that is less."""
PAUSE_S = 0.1
TRIM_RECORDS = 10_000
KEPT_MS = 60_000
MARK_MS = 1_000


class Clock(msgspec.Struct, tag="clock", frozen=True):
    """A worker wants to know the time."""


class Beat(msgspec.Struct, tag="beat", frozen=True):
    worker: Worker


class Leave(msgspec.Struct, tag="leave", frozen=True):
    worker_id: str


class Owners(msgspec.Struct, tag="owners", frozen=True):
    """The newest claims of some logs, or of all."""

    owners: dict[str, Owner]


Entry: TypeAlias = Clock | Beat | Leave | Owners
_DECODER = msgspec.json.Decoder(Entry)


class Control:
    """One worker's view of the control topic, and what it writes there."""

    def __init__(
        self,
        cluster: Cluster,
        partitions: Partitions,
        partition: Partition,
        settings: EngineSettings,
        notify: Callable[[], None],
    ) -> None:
        """`notify` is called when workers or owners have changed."""
        self._cluster = cluster
        self._partitions = partitions
        self._partition = partition
        self._beat_timeout_ms = settings.beat_timeout_ms
        self._reads_only = settings.reads_only
        self._notify = notify
        self._owners: dict[str, Owner] = {}
        self._beats: dict[str, tuple[int, Worker]] = {}
        self._begin = self._position = 0
        self._newest = (0, 0.0)
        """When the newest record was appended, by the broker's clock, and received, by the monotonic one."""
        self._marks: deque[tuple[int, int]] = deque()
        """Time and offset of a record every second, for the trim."""
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begins to follow the topic; returns when everything in it is known. Raises: EngineUnavailable."""
        if not self._reads_only:
            await self.write(Clock())
        self._task = asyncio.create_task(self._follow())
        await self.catch_up()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # --- writing ------------------------------------------------------------------------------------------------------

    async def write(self, entry: Entry) -> None:
        """Raises: EngineUnavailable."""
        builder = BatchBuilder()
        builder.add(None, msgspec.json.encode(entry))
        await self._partitions.write(self._partition, builder.build(0, 0), BEATS)

    async def beat(self, worker: Worker) -> Summary:
        """Says that a worker lives. Raises: EngineUnavailable."""
        await self.write(Beat(worker))
        if self._position - self._begin > TRIM_RECORDS:
            await self._trim()
        limit_ms, now_ms = self._beat_timeout_ms, self._now_ms()
        left_ms = [beat_ms + limit_ms - now_ms for beat_ms, each in self._beats.values() if each.id != worker.id]
        death_ms = min((each for each in left_ms if each > 0), default=None)
        return Summary(sum(owner.epoch for owner in self._owners.values()), self._living(limit_ms), death_ms)

    async def _trim(self) -> None:
        """Removes what is old, behind a record that has all owners."""
        position, now_ms = self._position, self._now_ms()
        kept_ms = max(KEPT_MS, 2 * self._beat_timeout_ms)
        while len(self._marks) > 1 and self._marks[1][0] < now_ms - kept_ms:
            self._marks.popleft()
        mark_ms, offset = self._marks[0]
        if mark_ms >= now_ms - kept_ms or offset <= self._begin:
            return
        await self.write(Owners(dict(self._owners)))
        self._begin = offset
        await self._partitions.trim(self._partition, offset)
        _log.info("event=control_trimmed records=%d", position - offset)

    # --- reading ------------------------------------------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Returns when everything that was written before is known. Raises: EngineUnavailable."""
        end = await self._partitions.end(self._partition)
        try:
            async with asyncio.timeout(self._cluster.limit_s):
                while self._position < end:
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            raise EngineUnavailable("the control topic cannot be read") from None

    async def owners(self) -> dict[str, Owner]:
        """The newest claims that were announced. Raises: EngineUnavailable."""
        await self.catch_up()
        return dict(self._owners)

    async def workers(self, within_ms: int | None) -> list[Worker]:
        """The workers whose last beat is recent by the broker's clock. Raises: EngineUnavailable."""
        await self.catch_up()
        return self._living(self._beat_timeout_ms if within_ms is None else within_ms)

    def _living(self, within_ms: int) -> list[Worker]:
        since_ms = self._now_ms() - within_ms
        living = [worker for beat_ms, worker in self._beats.values() if beat_ms > since_ms]
        return sorted(living, key=lambda worker: (worker.node_id, worker.id))

    def _now_ms(self) -> int:
        if self._reads_only:
            # It writes nothing, so the newest record may be of any time.
            return int(time.time() * 1000)
        appended_ms, received_s = self._newest
        return appended_ms + int((asyncio.get_running_loop().time() - received_s) * 1000)

    async def _follow(self) -> None:
        wait_ms = min(WAIT_MS, round(self._cluster.attempt_s * 500))
        while True:
            try:
                page = await self._partitions.fetch(self._partition, self._position, purpose=FOLLOWS, wait_ms=wait_ms)
                self._begin = page.begin
                self._apply(page.records)
            except EngineUnavailable as error:
                await self._recover(error)

    async def _recover(self, error: EngineUnavailable) -> None:
        self._cluster.forget([self._partition])
        if isinstance(error, BrokerError) and error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            # Others have trimmed what this worker never read, behind a record with all owners.
            self._position = 0
            try:
                self._position = await self._partitions.begin(self._partition)
            except EngineUnavailable as again:
                error = again
        _log.warning("event=control_not_followed reason=%s", error)
        self._notify()
        await asyncio.sleep(PAUSE_S)

    def _apply(self, records: bytes) -> None:
        has_changed = False
        for header, found in batches(records):
            for offset, _, value in found:
                if offset >= self._position:
                    has_changed |= self._apply_one(header.max_timestamp, value or b"")
            if not self._marks or header.max_timestamp - self._marks[-1][0] >= MARK_MS:
                self._marks.append((header.max_timestamp, header.base_offset))
            self._newest = header.max_timestamp, asyncio.get_running_loop().time()
        self._position = max(self._position, next_offset(records))
        self._moved.set()
        if has_changed:
            self._notify()

    def _apply_one(self, time_ms: int, value: bytes) -> bool:
        """Returns whether workers or owners have changed."""
        try:
            entry = _DECODER.decode(value)
        except msgspec.DecodeError as error:
            _log.warning("event=control_record_not_read reason=%s", error)
            return False
        match entry:
            case Beat(worker):
                known = self._beats.get(worker.id)
                self._beats[worker.id] = time_ms, worker
                return known is None or known[1] != worker or time_ms - known[0] > self._beat_timeout_ms
            case Leave(worker_id):
                return self._beats.pop(worker_id, None) is not None
            case Owners(owners):
                return sum(self._apply_owner(log, owner) for log, owner in owners.items()) > 0
        return False

    def _apply_owner(self, log: str, owner: Owner) -> bool:
        known = self._owners.get(log)
        if known is not None and known.epoch >= owner.epoch:
            return False
        self._owners[log] = owner
        return True
