"""The ends of transactions, read from the cluster's `__consumer_offsets` and written to the shards of this server.

The cluster coordinates transactions. When one ends that has the partition of a group, the cluster writes a marker for its
producer into that partition of its own `__consumer_offsets`, whatever else is in there. The offsets of the transaction are
pending here. So each partition whose shard has pending offsets is read, from before the first of them on, and the markers of
their producers are written to the shard, by the same operation as on a server that coordinates its transactions itself.

A position is a committed offset of a group that this server has for the purpose, one in each shard. It is in the log in front
of the pending offsets that it is for, so that a restart, or the worker that takes the shard over, reads on from there. It may
read markers twice: these find nothing pending. It must not read markers of an earlier transaction of the same producer, which
the verification takes care of (verification.py).

A cluster forgets markers a day after their transaction. Offsets that were pending for so long without this server stay pending,
and clients that ask for stable offsets get UNSTABLE_OFFSET_COMMIT; a marker that an administrator writes ends them (KIP-664).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from coordinator.client.asynchronous import Client
from coordinator.client.conversation import LinkFailed
from coordinator.client.reading import FETCH_BY_NAME, LATEST, fetch_request, offsets_request
from coordinator.groups.machine import GroupMachine
from coordinator.groups.offsets import value as values
from coordinator.groups.offsets.records import OffsetCommits
from coordinator.groups.state import Groups
from coordinator.log.batch import BatchHeader, CorruptBatch, key_values, whole_batches
from coordinator.log.end_transaction_marker import read_end_transaction
from coordinator.overlay.brokers import Brokers
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.java import positive_hash
from coordinator.protocol.messages import FindCoordinatorRequest
from coordinator.runtime.internal_request import DONE, InternalRequest
from coordinator.runtime.result import Marker, RequestContext, Result
from coordinator.runtime.router import Router
from coordinator.runtime.shard import Shard, Status
from coordinator.topics.names import CONSUMER_OFFSETS
from coordinator.transactions.marker_delivery import MarkerWriter

_log = logging.getLogger(__name__)

SWEEP_S = 1.0
"""How often shards are looked at that have pending offsets and no reader, such as those just taken over."""
IDLE_S = 30.0
"""How long a partition is read that nothing pends for."""
RETRY_S = 0.2
PRODUCERS_MAX = 10_000
"""The producers of each partition whose last marker is remembered."""
_FETCH_WAIT_MS = 500
_FETCH_BYTES = 1 << 20
_STALE = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.NONE})
"""After these a marker is done with."""
_GROUP_PREFIX = "coordinator-transaction-ends-"

LeaderOf = Callable[[int], int | None]
"""The broker that leads a partition of the cluster's `__consumer_offsets`; None: nobody at the moment."""


def position_group(index: int, count: int) -> str:
    """The group that has the position in a partition: its shard is that of the partition."""
    number = 0
    while positive_hash(f"{_GROUP_PREFIX}{number}") % count != index:
        number += 1
    return f"{_GROUP_PREFIX}{number}"


class Reader:
    """Reads one partition of the cluster's `__consumer_offsets`, while its shard has pending offsets."""

    def __init__(
        self, shard: Shard[GroupMachine], group_id: str, brokers: Brokers, leader_of: LeaderOf, markers: MarkerWriter
    ) -> None:
        self.shard = shard
        self.group_id = group_id
        self.position: int | None = None
        """All markers before it are durable here; None: nothing is read."""
        self._brokers = brokers
        self._leader_of = leader_of
        self._markers = markers
        self._last: dict[int, tuple[int, int]] = {}
        """Producer id -> offset and epoch of its last marker, since the reading began."""
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._verifications = 0
        self._needed_s = 0.0
        """When something last pended, or was to be verified."""
        self._fetching: Client | None = None

    @property
    def index(self) -> int:
        return self.shard.index

    @property
    def is_ready(self) -> bool:
        """Whether the shard is here, and its log is loaded."""
        return self.shard.status not in (Status.ELSEWHERE, Status.LOADING)

    @property
    def has_pending(self) -> bool:
        return bool(self.shard.state.offsets.pending.by_producer)

    # --- what the verification asks -----------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Reads from now on, if it does not yet: from the stored position if offsets are pending. Raises LinkFailed."""
        self._needed_s = asyncio.get_running_loop().time()
        if self.position is None:
            stored = self._stored()
            start = stored if stored is not None and self.has_pending else await self.end_offset()
            if self.position is None:
                self.position = start
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def end_offset(self) -> int:
        """The offset behind the last record of the partition. Raises LinkFailed."""
        request = offsets_request([(CONSUMER_OFFSETS, self.index, LATEST)])
        response = await self._brokers.ask(await self._leader(), request)
        [found] = response.topics[0].partitions
        if found.error_code:
            raise LinkFailed(f"{CONSUMER_OFFSETS}-{self.index}: {ErrorCode(found.error_code).name}")
        return found.offset

    async def reach(self, offset: int, within_s: float) -> None:
        """Returns when all markers before an offset are durable. Raises LinkFailed."""
        self._verifications += 1
        try:
            async with asyncio.timeout(within_s):
                while self.position is None or self.position < offset:
                    await self._moved.wait()
        except TimeoutError:
            raise LinkFailed(f"{CONSUMER_OFFSETS}-{self.index} was not read up to {offset} in time") from None
        finally:
            self._verifications -= 1

    def has_ended(self, producer_id: int, *, since_offset: int | None = None, above_epoch: int | None = None) -> bool:
        """Whether a marker of the producer was read, at or behind an offset, or with a higher epoch."""
        offset, epoch = self._last.get(producer_id, (-1, -1))
        return (since_offset is not None and offset >= since_offset) or (
            above_epoch is not None and epoch > above_epoch
        )

    def store(self, position: int) -> None:
        """Puts a position into the shard's log, in front of what is submitted next."""
        stored = self._stored()
        if stored is None or stored < position:
            self.shard.submit(_store_position, InternalRequest((self.group_id, self.index, position), _ignore))

    def _stored(self) -> int | None:
        found = self.shard.state.offsets.get(self.group_id, CONSUMER_OFFSETS, self.index)
        return None if found is None else found.offset

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self.shard.status is not Status.ELSEWHERE:
            if self.has_pending or self._verifications:
                self._needed_s = loop.time()
            elif loop.time() - self._needed_s > IDLE_S:
                break
            try:
                await self._read_on()
            except (LinkFailed, CorruptBatch) as error:
                _log.warning("event=markers_not_read partition=%d reason=%s", self.index, error)
                self._disconnect()
                await asyncio.sleep(RETRY_S)
            except Exception:  # noqa: BLE001 - a bug in one batch must not end the reading
                _log.exception("event=markers_not_read partition=%d", self.index)
                await asyncio.sleep(IDLE_S)
        self._disconnect()
        self._task = self.position = None
        self._last.clear()

    def _disconnect(self) -> None:
        if self._fetching is not None:
            self._fetching.close()
            self._fetching = None

    async def _read_on(self) -> None:
        """Fetches once, and writes the markers in it. Raises LinkFailed and CorruptBatch."""
        assert self.position is not None
        records = await self._fetch(self.position)
        for at, header in whole_batches(records, self.position):
            if header.is_control and header.base_offset >= self.position:
                await self._end(records, at, header)
            if self.shard.status is Status.ELSEWHERE:
                return
            self._move(header.next_offset)

    def _move(self, position: int) -> None:
        self.position = position
        self._moved.set()
        self._moved.clear()

    async def _fetch(self, position: int) -> bytes:
        if self._fetching is None or self._fetching.is_lost:
            self._fetching = await self._brokers.connect(await self._leader())
        request = fetch_request([(CONSUMER_OFFSETS, self.index, position)], _FETCH_WAIT_MS, _FETCH_BYTES)
        response = await self._fetching.ask(request, version_max=FETCH_BY_NAME)
        if response.error_code:
            raise LinkFailed(f"Fetch: {ErrorCode(response.error_code).name}")
        [found] = response.responses[0].partitions
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # The cluster lost its end, or the position is of another cluster: nothing can be known about what pends.
            _log.error("event=markers_lost partition=%d position=%d", self.index, position)
            self._move(await self.end_offset())
            return b""
        if found.error_code:
            raise LinkFailed(f"{CONSUMER_OFFSETS}-{self.index}: {ErrorCode(found.error_code).name}")
        return found.records or b""

    async def _end(self, records: bytes, at: int, header: BatchHeader) -> None:
        """Writes a marker to the shard, if its producer has offsets pending there; returns when that is durable."""
        ends = [read_end_transaction(key, value) for _, key, value in key_values(records, at, header)]
        for end in ends:
            if end is None:
                continue
            producer_id, epoch = header.producer_id, header.producer_epoch
            while self.shard.status is Status.LOADING:  # noqa: ASYNC110 - a reload is rare
                await asyncio.sleep(RETRY_S)
            if producer_id in self.shard.state.offsets.pending.by_producer:
                await self._write(Marker(producer_id, epoch, end[0], end[1]))
            self._last.pop(producer_id, None)
            self._last[producer_id] = header.base_offset, epoch
            if len(self._last) > PRODUCERS_MAX:
                del self._last[next(iter(self._last))]

    async def _write(self, marker: Marker) -> None:
        while True:
            written: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
            self._markers.write_once(marker, CONSUMER_OFFSETS, self.index, written.set_result)
            error = await written
            if error in _STALE or self.shard.status is Status.ELSEWHERE:
                return
            _log.warning("event=marker_not_written partition=%d error=%s", self.index, error.name)
            await asyncio.sleep(RETRY_S)

    async def _leader(self) -> int:
        """The broker that leads the partition. Raises LinkFailed."""
        leader = self._leader_of(self.index)
        if leader is None:
            # A look-up of a group makes the cluster create its topic.
            await self._brokers.ask_any(FindCoordinatorRequest(key=self.group_id, key_type=0), version_max=3)
            raise LinkFailed(f"{CONSUMER_OFFSETS}-{self.index} of the cluster has no leader")
        return leader

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._disconnect()


class Readers:
    """A reader for each shard, of which those read that have something pending."""

    def __init__(
        self, groups: Router[GroupMachine], brokers: Brokers, leader_of: LeaderOf, markers: MarkerWriter
    ) -> None:
        count = len(groups.shards)
        self.of: Sequence[Reader] = [
            Reader(shard, position_group(shard.index, count), brokers, leader_of, markers) for shard in groups.shards
        ]
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._sweep())

    async def _sweep(self) -> None:
        while True:
            for reader in self.of:
                if reader.is_ready and reader.has_pending:
                    try:
                        await reader.begin()
                    except LinkFailed as error:
                        _log.warning("event=markers_not_read partition=%d reason=%s", reader.index, error)
            await asyncio.sleep(SWEEP_S)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        for reader in self.of:
            await reader.stop()


def _store_position(groups: Groups, position: tuple[str, int, int], _context: RequestContext, now_ms: int) -> Result:
    """Commits an offset as a consumer without a group protocol does; nobody is notified."""
    group_id, index, offset = position
    topic_id = groups.catalog.topic_id(CONSUMER_OFFSETS) or values.NO_TOPIC_ID
    stored = values.with_tail(offset, values.NO_LEADER_EPOCH, "", values.tail(now_ms, topic_id))
    records = OffsetCommits(group_id, with_expiry=False)
    records.add(CONSUMER_OFFSETS, [(index, stored)])
    return Result(DONE, records)


def _ignore(_outcome: object) -> None:
    """If the position cannot be stored, neither can what is submitted behind it."""
