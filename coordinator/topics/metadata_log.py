"""Changes the registry: first durably, then in memory, one change after the other.

    commit(records) -> one batch of `__cluster_metadata-0` -> durable -> replayed into the registry -> `done`

Nobody sees a change that a crash could undo. A change that depends on the present state (a topic must not be created twice)
asks for its turn: it is called when every earlier change is durable or has failed.

Where several servers share the log (cluster/workers/metadata_sharing.py), each follows what the others write (`follow`). A
change waits until this server leads (`when_leading`): it knows everything that was written, and may write. If another one was
quicker all the same, the change fails with NOT_CONTROLLER, and the client tries again.

Where topics come and go, the log would grow for ever. So a start that finds many obsolete records writes the present registry
at the end of the log and deletes all earlier records (`compact`); registry.py explains why that is safe.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from coordinator.log.batch import BatchHeader, key_values, split
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.catalog import NO_ID, KnownLog
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import LogSettings
from coordinator.log.writer import ClaimLost, MakeWriter
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Message
from coordinator.runtime.result import Fact
from coordinator.topics import metadata_records
from coordinator.topics.partition import Done
from coordinator.topics.registry import Registry
from coordinator.world.clock import Clock
from coordinator.world.disk import Disk
from coordinator.world.schedule import Handle

RECORDS_SUPERFLUOUS = 10_000
"""Number of obsolete records from which on a start rewrites the log."""


@dataclass(frozen=True, slots=True, eq=False)
class _Commit:
    end_offset: int
    records: Sequence[Message]
    done: Done
    on_durable: Done | None


class MetadataLog:
    """The log of the registry."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        registry: Registry,
        make_writer: MakeWriter,
        clock: Clock,
        known: KnownLog | None = None,
        journaled: Sequence[bytes] = (),
        *,
        on_replayed: Callable[[Sequence[Message]], None],
        on_fact: Callable[[Fact], None],
        delay: Callable[[Callable[[], None]], Handle] | None = None,
        is_shared: bool = False,
    ) -> None:
        """Opens the log and replays it. `on_replayed` is called with the records of each later change.

        `delay`: after what time a change is replayed that may come late (`commit`). None: at once.
        `known`, `journaled`: what the catalog and the journal have about the log. `is_shared`: the journal has all that there
        is, which may begin at any offset. Raises DamagedLog, DecodeError, OSError.
        """
        self._registry = registry
        self._clock = clock
        self._on_replayed = on_replayed
        self._on_fact = on_fact
        self._log = JournaledLog(disk, folder, LogSettings(segment_ms=None, retention_ms=None))
        self._log.load_journaled(() if is_shared else journaled, known)
        for batches in journaled if is_shared else ():
            self._log.append_replayed(batches)
        self._load()
        self._writer = make_writer(self._log, self._on_durable, self._on_failed)
        self._commits: deque[_Commit] = deque()
        self._turns: deque[Callable[[], None]] = deque()
        self._delay = delay
        self._late: dict[_Commit, Handle] = {}
        """Durable changes that the registry does not have yet."""
        self._full = False
        self.when_leading: Callable[[Callable[[], None]], None] = _at_once
        """Calls an operation that may commit, when this server may write; at once if no other one can."""
        self.is_behind = False
        """Whether an operation is called although this server could not lead: what is not here may be there."""
        self.in_steps = 0
        """Operations that commit in several turns of the loop, and until then need to go on writing."""

    def _load(self) -> None:
        for buffer, position, header in self._log.batches():
            if header.is_control:
                continue
            for message in messages_in(buffer, position, header):
                self._registry.replay(message)

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def log(self) -> JournaledLog:
        """The log itself, for whoever shares it."""
        return self._log

    @property
    def folder(self) -> str:
        return self._log.folder

    def known(self) -> KnownLog | None:
        """What the catalog has to say about the log. Raises OSError."""
        return self._log.known(NO_ID)

    @property
    def size_bytes(self) -> int:
        return self._log.size_bytes

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def high_watermark(self) -> int:
        """The offset behind the last durable record."""
        return self._commits[0].end_offset - len(self._commits[0].records) if self._commits else self._log.end_offset

    @property
    def idle(self) -> bool:
        """Whether all writes are finished."""
        return self._writer.idle

    @property
    def has_failed(self) -> bool:
        """Whether the log refuses all writes until the server is restarted."""
        return self._log.failed is not None

    @property
    def has_room(self) -> bool:
        """Whether the file system has space."""
        return self._log.has_room

    @property
    def problem(self) -> str:
        """Why changes are refused, for health; empty if they are not."""
        if self._log.failed is not None:
            return (
                f"the metadata log cannot be written: {self._log.failed}; restart the server when the disk is repaired"
            )
        if self._full and not self._log.has_room:
            return "the disk is full; topics and settings cannot be changed until there is space"
        return ""

    # --- changes ------------------------------------------------------------------------------------------------------

    def commit(self, records: Sequence[Message], done: Done, on_durable: Done | None = None) -> None:
        """Writes a change. When it is durable it is replayed and `done` gets NONE.

        Else `done` gets KAFKA_STORAGE_ERROR, or NOT_CONTROLLER if another server was quicker to write. A change with
        `on_durable` may be replayed late (`delay`): `on_durable` then gets NONE first. Operations that ask for their turn wait.
        """
        if self._log.failed is not None:
            done(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        batch = self._batch(records)
        self._commits.append(_Commit(self._log.end_offset + len(records), records, done, on_durable))
        self._writer.write(batch, len(records))

    def commit_now(self, records: Sequence[Message]) -> None:
        """Writes a change at the start, when there are no others: it is durable when this returns. Raises OSError."""
        assert not self._commits
        self._log.append(self._batch(records), len(records), self._clock.wall_ms())
        self._log.sync()
        for record in records:
            self._registry.replay(record)

    def when_current(self, operation: Callable[[], None], refuse: Callable[[ErrorCode], None]) -> None:
        """As `when_leading`, for an operation that may have nothing to write: NOT_CONTROLLER unless this server leads."""
        self.when_leading(lambda: refuse(ErrorCode.NOT_CONTROLLER) if self.is_behind else operation())

    def in_turn(self, operation: Callable[[], None], refuse: Callable[[ErrorCode], None] | None = None) -> None:
        """Calls `operation`, which may commit, when every earlier change is durable or has failed.

        `refuse`: as for `when_current`, if the operation may have nothing to write.
        """

        def enter() -> None:
            self._turns.append(operation)
            self._take_turns()

        if refuse is None:
            self.when_leading(enter)
        else:
            self.when_current(enter, refuse)

    def steps(self, operation: Iterator[None]) -> Iterator[None]:
        """The steps of an operation that commits in several turns of the loop (`in_steps`)."""
        self.in_steps += 1
        try:
            yield from operation
        finally:
            self.in_steps -= 1

    def follow(self, batches: bytes, on_record: Callable[[Message], None]) -> None:
        """Appends what another server has written durably, and calls `on_record` with each record, which is to replay it.

        Batches that the log has are skipped. None of this server's changes may be under way. Raises OSError, CorruptBatch.
        """
        assert not self._commits
        before = self._log.end_offset
        self._log.append_replayed(batches)
        for position, header in split(batches):
            if header.base_offset >= before:
                for message in messages_in(batches, position, header):
                    on_record(message)

    def write_again(self, node_id: int) -> None:
        """Writes the whole registry as changes that change nothing, so that what is before them is not needed any more."""
        for records in self._registry.snapshot(node_id):
            self.commit(records, lambda _error: None)

    def compact(self, node_id: int) -> None:
        """Rewrites the log if it has many obsolete records.

        Called at the start, after the folders of deleted topics were removed: nobody needs these names any more.
        """
        log, registry = self._log, self._registry
        needed = [*registry.snapshot(node_id)]
        if log.end_offset - log.start_offset < sum(len(records) for records in needed) + RECORDS_SUPERFLUOUS:
            return
        before_bytes = log.size_bytes
        try:
            log.begin_segment()
            start_offset = log.end_offset
            for records in needed:
                log.append(self._batch(records), len(records), self._clock.wall_ms())
            log.sync()
            log.truncate_before(start_offset)
        except OSError as error:
            if log.failed is not None:
                raise
            self._on_fact(Fact("metadata_log_not_compacted", {"error": str(error)}))
            return
        registry.removed.clear()
        self._on_fact(Fact("metadata_log_compacted", {"bytes_before": before_bytes, "bytes_after": log.size_bytes}))

    def close(self) -> None:
        """Makes everything durable and closes the files. A change that is still to be replayed is so at the next start.

        Raises OSError.
        """
        for handle in self._late.values():
            handle.cancel()
        self._log.close()

    def _take_turns(self) -> None:
        while self._turns and not self._commits and not self._late:
            self._turns.popleft()()

    def _batch(self, records: Iterable[Message]) -> bytes:
        builder = BatchBuilder()
        for record in records:
            builder.add(None, metadata_records.encode(record))
        return builder.build(self._log.end_offset, self._clock.wall_ms())

    def _on_durable(self, end_offset: int) -> None:
        self._full = False
        commits = self._commits
        while commits and commits[0].end_offset <= end_offset:
            commit = commits.popleft()
            if commit.on_durable is None or self._delay is None:
                self._replay(commit)
            else:
                self._late[commit] = self._delay(partial(self._replay_late, commit))
                commit.on_durable(ErrorCode.NONE)
        self._take_turns()

    def _replay_late(self, commit: _Commit) -> None:
        del self._late[commit]
        self._replay(commit)
        self._take_turns()

    def _replay(self, commit: _Commit) -> None:
        for record in commit.records:
            self._registry.replay(record)
        self._on_replayed(commit.records)
        commit.done(ErrorCode.NONE)

    def _on_failed(self, error: OSError) -> None:
        self._on_fact(Fact("metadata_log_write_failed", {"error": str(error), "final": self._log.failed is not None}))
        self._full = self._log.failed is None
        lost, durable_offset = deque[_Commit](), self._log.durable_offset
        while self._commits and self._commits[-1].end_offset > durable_offset:
            lost.appendleft(self._commits.pop())
        for commit in lost:
            commit.done(ErrorCode.NOT_CONTROLLER if isinstance(error, ClaimLost) else ErrorCode.KAFKA_STORAGE_ERROR)
        self._take_turns()


def messages_in(batches: bytes, position: int, header: BatchHeader) -> Iterator[Message]:
    """The messages in the batch at a position, without types that this server does not use. Raises DecodeError."""
    for _, _, value in key_values(batches, position, header):
        message = metadata_records.decode(value) if value is not None else None
        if message is not None:
            yield message


def _at_once(operation: Callable[[], None]) -> None:
    operation()
