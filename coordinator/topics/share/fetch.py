"""The records of one ShareFetch: waits until some can be acquired, reads and acquires them.

This is Kafka's DelayedShareFetch. A request looks at its partitions when it arrives, and again when records arrive in one of
them, are given back, or make room for others. It reads where a share partition can give something, and acquires if that is at
least MinBytes, or when MaxWaitMs has passed. What it has read and does not acquire stays as it was.

Each partition may use an equal part of MaxBytes, and of these only as much is read as is needed for MaxRecords. The request
begins with another partition each time, so that the first one does not take all.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from coordinator.log.batch import BatchHeader, CorruptBatch, key_values, split
from coordinator.log.end_transaction_marker import read_end_transaction
from coordinator.log.log import DamagedLog, Log, OffsetOutOfRange
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ShareFetchResponse
from coordinator.topics.internal_partition import InternalPartition
from coordinator.topics.partition import Partition, Reader, State, nobody_waits
from coordinator.topics.share.leader import ShareLeader
from coordinator.topics.share.machine import FetchedBatch, Wanted
from coordinator.topics.share.manager import ShareManager
from coordinator.topics.share.sessions import PartitionKey
from coordinator.world.schedule import Handle

CHUNK_BYTES = 256 * 1024
"""How much is read at once, until there are enough records, of a share partition that nothing was read of yet."""

Data = ShareFetchResponse.PartitionData


class FetchWanted(NamedTuple):
    """What a request asks for."""

    group_id: str
    records: Wanted
    max_wait_ms: int
    bytes_min: int
    bytes_max: int


class _Read(NamedTuple):
    """What was read in a partition."""

    offset: int
    records: bytes
    batches: Sequence[tuple[int, BatchHeader]]
    """Position in `records`, and header."""
    fetched: Sequence[FetchedBatch]
    is_final: bool = False
    """Whether to answer at once, although there may be no records."""


def rotated(partitions: Sequence[PartitionKey], epoch: int) -> list[PartitionKey]:
    """The partitions, beginning with another one for each epoch of the session."""
    at = epoch % len(partitions) if partitions and epoch > 0 else 0
    return [*partitions[at:], *partitions[:at]]


class ShareFetch:
    """One request until it has its records."""

    __slots__ = (
        "_admits", "_bytes_short", "_found", "_is_committed", "_leaders", "_limits", "_manager", "_reading", "_reply", "_run",
        "_timer", "_wanted", "is_done",
    )  # fmt: skip

    def __init__(
        self,
        manager: ShareManager,
        wanted: FetchWanted,
        partitions: Sequence[PartitionKey],
        reply: Callable[[Mapping[PartitionKey, Data]], None],
        run: Callable[[Iterator[None]], None],
        admits: Callable[[Mapping[PartitionKey, Data]], bool] | None = None,
    ) -> None:
        """Calls `reply` once, now or later, with the partitions that have records, an error or were looked at.

        `run` reads in pieces. `admits`: whether the client may have as much; if not, nothing is acquired.
        Errors of partitions: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, and those of leader.py.
        """
        self._manager = manager
        self._wanted = wanted
        self._reply = reply
        self._run = run
        self._admits = admits
        settings = manager.settings_of(wanted.group_id)
        self._is_committed, self._limits = settings.is_committed, settings.limits
        self._found: dict[PartitionKey, Data] = {}
        self._leaders: dict[PartitionKey, ShareLeader] = {}
        self._bytes_short = 0
        self._timer: Handle | None = None
        self.is_done = False
        """Whether it has replied, or was cancelled."""
        self._reading = False
        for key in partitions:
            leader = manager.leader(wanted.group_id, key)
            if isinstance(leader, ErrorCode):
                self._found[key] = refusal(key.partition, leader)
            else:
                self._leaders[key] = leader
        self._watch()
        self._timer = manager.topics.schedule(wanted.max_wait_ms, self._on_time) if wanted.max_wait_ms > 0 else None
        self._look(is_last=wanted.max_wait_ms <= 0)

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        wall_ms = self._manager.topics.clock.wall_ms()
        for leader in self._leaders.values():
            leader.waiters[self] = None
            self._readers(leader.partition)[self] = None
            partition = leader.partition
            if not partition.producers_loaded and (self._is_committed or isinstance(partition, Partition)):
                partition.load_producers(wall_ms, self.on_available if self._is_committed else nobody_waits)

    def _readers(self, partition: Partition | InternalPartition) -> dict[Reader, None]:
        return partition.stable_readers if self._is_committed else partition.readers

    def notify(self, bytes_count: int) -> None:
        """A partition has more records; 0: it was removed, or has another leader."""
        self._bytes_short -= bytes_count
        if not bytes_count:
            self._look_again()
        elif self._bytes_short <= 0 and self._manager.topics.has_room():
            self.on_available()

    def on_available(self) -> None:
        """Records may be available."""
        self._look_after_waiting(is_last=False)

    def _look_again(self) -> None:
        """Follows a change of the partitions: a share partition of one that is gone is over."""
        for key, leader in list(self._leaders.items()):
            if self._manager.leader(self._wanted.group_id, key) is not leader and not leader.is_over:
                leader.end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        self.on_available()

    def _on_time(self) -> None:
        self._timer = None
        self._look_after_waiting(is_last=True)

    def _look_after_waiting(self, *, is_last: bool) -> None:
        self._limits = self._manager.settings_of(self._wanted.group_id).limits
        self._look(is_last=is_last)

    def cancel(self) -> None:
        """Ends the wait without a response."""
        self.is_done = True
        if self._timer is not None:
            self._timer.cancel()
        for leader in self._leaders.values():
            leader.waiters.pop(self, None)
            self._readers(leader.partition).pop(self, None)

    # --- reading ------------------------------------------------------------------------------------------------------

    def _look(self, *, is_last: bool) -> None:
        """Acquires records if there are enough, or if the time has passed."""
        if self.is_done or (self._reading and not is_last):
            return
        for key, leader in list(self._leaders.items()):
            if leader.is_over:
                self._found[key] = refusal(
                    key.partition, leader.error.code if leader.error is not None else ErrorCode.NONE
                )
                leader.waiters.pop(self, None)
                self._readers(leader.partition).pop(self, None)
                self._manager.forget_if_over(leader)
                del self._leaders[key]
        places = self._places(is_last=is_last)
        if is_last or not self._leaders or places:
            self._reading = True
            self._run(self._read_and_acquire(places, is_last=is_last))

    def _places(self, *, is_last: bool) -> list[tuple[PartitionKey, ShareLeader, int]]:
        """Where to read: share partitions that can give records, if the log has some. The last time also if it has none."""
        places = []
        for key, leader in self._leaders.items():
            if not leader.is_active or not leader.machine.can_acquire(self._limits):
                continue
            offset = leader.machine.next_fetch_offset()
            if is_last or offset < self._offset_end(leader.partition) or not self._wanted.bytes_min:
                places.append((key, leader, offset))
        return places

    def _offset_end(self, partition: Partition | InternalPartition) -> int:
        return partition.last_stable_offset if self._is_committed else partition.high_watermark

    def _read_and_acquire(
        self, places: Sequence[tuple[PartitionKey, ShareLeader, int]], *, is_last: bool
    ) -> Iterator[None]:
        reads, bytes_read = yield from self._read(places)
        self._reading = False
        if self.is_done:
            return
        is_last = (
            is_last or not self._leaders or any(isinstance(each, ErrorCode) or each.is_final for each in reads.values())
        )
        if bytes_read < self._wanted.bytes_min and not is_last:
            self._bytes_short = self._wanted.bytes_min - bytes_read
            return
        self.cancel()
        admitted = self._admits is None or not bytes_read or self._admits(self._preview(reads))
        if admitted:
            for key, read in reads.items():
                if isinstance(read, ErrorCode):
                    self._found[key] = refusal(key.partition, read)
            self._acquire({key: read for key, read in reads.items() if isinstance(read, _Read)})
        else:
            self._found.clear()
        self._reply(self._found)

    def _preview(self, reads: Mapping[PartitionKey, "_Read | ErrorCode"]) -> Mapping[PartitionKey, Data]:
        return {
            key: Data(partition_index=key.partition, records=read.records)
            for key, read in reads.items()
            if isinstance(read, _Read)
        }

    def _read(
        self, places: Sequence[tuple[PartitionKey, ShareLeader, int]]
    ) -> Generator[None, None, tuple[dict[PartitionKey, "_Read | ErrorCode"], int]]:
        """What is at these places, or why it cannot be read, and the number of bytes. Yields after each partition."""
        reads: dict[PartitionKey, _Read | ErrorCode] = {}
        has_room = self._manager.topics.has_room()
        bytes_max = self._wanted.bytes_max if has_room else 0
        share, bytes_read = bytes_max // max(1, len(places)), 0
        for number, (key, leader, offset) in enumerate(places):
            if number:
                yield
            limit = max(share, bytes_max - bytes_read if number == len(places) - 1 else 0)
            read = self._read_partition(leader, offset, limit, at_least_one=has_room and not bytes_read)
            reads[key] = read
            bytes_read += len(read.records) if isinstance(read, _Read) else 0
        return reads, bytes_read

    def _read_partition(
        self, leader: ShareLeader, offset: int, limit: int, *, at_least_one: bool
    ) -> "_Read | ErrorCode":
        partition = leader.partition
        log, offset_end = partition.log, self._offset_end(partition)
        if partition.state is State.REMOVED:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if offset < partition.start_offset:
            # As in Kafka the member gets nothing now, and its next fetch begins behind the deleted records.
            leader.machine.log_starts_at(partition.start_offset)
            return _Read(offset, b"", (), (), is_final=True)
        parts: list[bytes] = []
        batches: list[tuple[int, BatchHeader]] = []
        last_wanted, size, at = offset + self._wanted.records.records_max - 1, 0, offset
        # One part need not be joined with others, which takes as long as to read it.
        chunk = max(CHUNK_BYTES, ceil(self._wanted.records.records_max * (leader.record_bytes or _average_bytes(log))))
        try:
            while log is not None and at < offset_end and at <= last_wanted:
                room = min(chunk, limit - size)
                part = (
                    log.read(at, max(0, room), offset_end=offset_end, at_least_one=at_least_one and not size)
                    if room > 0 or (at_least_one and not size)
                    else b""
                )
                if not part:
                    break
                # As for a Fetch, clients verify the checksums.
                batches += [(size + position, header) for position, header in split(part, verifies=False)]
                parts.append(part)
                size += len(part)
                at = batches[-1][1].next_offset
            if batches:
                leader.record_bytes = size / (at - batches[0][1].base_offset)
            records = parts[0] if len(parts) == 1 else b"".join(parts)
            return _Read(offset, records, batches, self._fetched(partition, records, batches))
        except OffsetOutOfRange:
            return _Read(offset, b"", (), (), is_final=True)
        except (OSError, ValueError, DamagedLog, CorruptBatch):
            return ErrorCode.KAFKA_STORAGE_ERROR

    def _fetched(
        self, partition: Partition | InternalPartition, records: bytes, batches: Sequence[tuple[int, BatchHeader]]
    ) -> Sequence[FetchedBatch]:
        if not self._is_committed or not any(header.is_transactional for _, header in batches):
            return [FetchedBatch(header.base_offset, header.last_offset) for _, header in batches]
        aborted = sorted(
            (entry.first_offset, entry.producer_id)
            for entry in partition.aborted_between(batches[0][1].base_offset, batches[-1][1].next_offset)
        )
        fetched: list[FetchedBatch] = []
        producers: set[int] = set()
        for position, header in batches:
            while aborted and aborted[0][0] <= header.last_offset:
                producers.add(aborted.pop(0)[1])
            is_aborted = not header.is_control and header.is_transactional and header.producer_id in producers
            if header.is_control and _aborts(records, position, header):
                producers.discard(header.producer_id)
            fetched.append(FetchedBatch(header.base_offset, header.last_offset, is_aborted))
        return fetched

    # --- acquiring ----------------------------------------------------------------------------------------------------

    def _acquire(self, reads: Mapping[PartitionKey, _Read]) -> None:
        records_max = self._wanted.records.records_max
        for key, read in reads.items():
            leader = self._leaders[key]
            data = self._found[key] = Data(partition_index=key.partition, records=b"")
            if leader.is_over or not read.records:
                continue
            acquired = leader.machine.acquire(
                self._wanted.records._replace(records_max=records_max),
                read.offset,
                read.fetched,
                self._limits,
                leader.now_ms(),
            )
            leader.watch_locks()
            if acquired:
                records_max -= sum(each.last_offset - each.first_offset + 1 for each in acquired)
                self._manager.outcomes.on_acquired(leader.place, self._wanted.records.member_id, acquired)
                data.records = _slice(read, acquired[0].first_offset, acquired[-1].last_offset)
                data.acquired_records = [ShareFetchResponse.AcquiredRecords(*each) for each in acquired]


def _average_bytes(log: Log | None) -> float:
    """How many bytes a record of the log has, on average."""
    return 0.0 if log is None else log.size_bytes / max(1, log.end_offset - log.start_offset)


def refusal(index: int, error: ErrorCode) -> Data:
    """The response for a partition without records."""
    return Data(partition_index=index, error_code=error, records=b"")


def _slice(read: _Read, first_offset: int, last_offset: int) -> bytes:
    """The batches from the one with the first offset to the one with the last."""
    begin, end = 0, len(read.records)
    for position, header in read.batches:
        if header.base_offset <= first_offset:
            begin = position
        if header.base_offset > last_offset:
            end = position
            break
    return read.records[begin:end]


def _aborts(records: bytes, position: int, header: BatchHeader) -> bool:
    """Whether a control batch is the marker of an aborted transaction."""
    markers = (read_end_transaction(key, value) for _, key, value in key_values(records, position, header))
    return any(marker is not None and not marker[0] for marker in markers)
