"""What the workers of this machine share: the logs in the data folder, their claims, and which workers live.

    claim     gives the log a new epoch at once, so that the old owner's appends are refused; answers when those that were
              accepted are durable
    append    accepts the pieces of claims that are the newest, and hands them to the journal; answers when all are durable
    failure   a piece that the journal could not take ends its claim, and the worker learns it like a fence

Safety comes from the epoch that each piece has. A worker whose connection closes is dead at once, one that does not beat is
dead after a while, and neither matters for safety.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from coordinator.cluster.engine.engine import Claim, EngineUnavailable, Fenced, LogFailed, Owner, Worker
from coordinator.cluster.engine.local.wire import WirePiece
from coordinator.cluster.supervisor.kept_log import Claimed, KeptLog
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.writer import MakeWriter
from coordinator.server.epochs import EpochSource

_log = logging.getLogger(__name__)


class _Beat(NamedTuple):
    at_ms: int
    worker: Worker
    connection: object
    """None: it closed without a word."""


class Members:
    """The workers, and who wants to know when they or the owners of logs change."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._beats: dict[str, _Beat] = {}
        self.watchers: dict[object, Callable[[], None]] = {}
        """By connection."""

    def notify(self) -> None:
        """Notifies every connection that something has changed."""
        for call in list(self.watchers.values()):
            call()

    def beat(self, worker: Worker, connection: object) -> None:
        """A worker lives, as long as it beats and its connection is open."""
        before = self._beats.get(worker.id)
        if before is None:  # the same worker, before it was started again
            self._beats = {key: beat for key, beat in self._beats.items() if beat.worker.node_id != worker.node_id}
        self._beats[worker.id] = _Beat(self._now_ms(), worker, connection)
        if before is None or before.connection is None or before.worker != worker:
            self.notify()

    def silent_ms(self, connection: object) -> int:
        """How long the workers of a connection have not beaten; 0: none of them has ever beaten, or it has left."""
        beats = [beat.at_ms for beat in self._beats.values() if beat.connection is connection]
        return self._now_ms() - max(beats) if beats else 0

    def leave(self, worker_id: str) -> None:
        """A worker stops."""
        if self._beats.pop(worker_id, None) is not None:
            self.notify()

    def disconnected(self, connection: object) -> None:
        """The workers of this connection are dead."""
        self.watchers.pop(connection, None)
        gone = [beat for beat in self._beats.values() if beat.connection is connection]
        for beat in gone:
            self._beats[beat.worker.id] = beat._replace(connection=None)
        if gone:
            self.notify()

    def living(self, beat_timeout_ms: int) -> list[Worker]:
        """Those whose last beat is recent, by node id and id."""
        return _sorted(self._living(beat_timeout_ms))

    def _living(self, beat_timeout_ms: int) -> list[_Beat]:
        since_ms = self._now_ms() - beat_timeout_ms
        return [beat for beat in self._beats.values() if beat.at_ms > since_ms and beat.connection is not None]

    def next_death_ms(self, beat_timeout_ms: int, connection: object) -> int | None:
        """In how many ms the next worker is dead that has another connection and does not beat; None: there is none."""
        beats = [beat.at_ms for beat in self._living(beat_timeout_ms) if beat.connection is not connection]
        return min(beats) + beat_timeout_ms - self._now_ms() if beats else None

    def seen(self, within_ms: int) -> list[Worker]:
        """Those whose last beat is recent, whether they live or not, without those that have left; by node id and id."""
        since_ms = self._now_ms() - within_ms
        return _sorted(beat for beat in self._beats.values() if beat.at_ms > since_ms)


def _sorted(beats: Iterable[_Beat]) -> list[Worker]:
    return sorted((beat.worker for beat in beats), key=lambda worker: (worker.node_id, worker.id))


class Store:
    """All of it. Methods run on the loop."""

    def __init__(
        self,
        logs: Mapping[str, JournaledLog],
        make_writer: MakeWriter,
        epochs: EpochSource,
        members: Members,
        constants: Mapping[str, bytes],
    ) -> None:
        """`logs`: by the names of their folders. `constants`: logs of one piece that is never appended, such as an id."""
        self._logs: dict[str, Claimed] = {name: KeptLog(log, make_writer) for name, log in logs.items()}
        self._epochs = epochs
        self._constants = constants
        self.members = members
        self.appends = 0
        """Appends that were accepted, of all workers."""
        self.refused = 0
        """Logs of which a piece was refused, because it was that of an old owner or could not be written."""

    # --- claims -------------------------------------------------------------------------------------------------------

    def claim(self, name: str, worker: Worker, seen: int | None, done: Callable[[Claim], None]) -> None:
        """Calls `done` when the log is the worker's. Raises Fenced, LogFailed, EngineUnavailable; then nothing changes."""
        log = self._logs.setdefault(name, Claimed())
        if seen is not None and seen != log.epoch:
            raise Fenced(f"{name}: the epoch is {log.epoch}, not {seen}")
        if isinstance(log, KeptLog) and log.log.failed is not None:
            raise LogFailed(f"{name} cannot be written: {log.log.failed}")
        epoch = self._next_epoch(log, worker)

        def settled() -> None:
            done(Claim(name, epoch, log.next_sequence, log.covered))

        if isinstance(log, KeptLog):
            log.when_idle(settled)
        else:
            settled()

    def _next_epoch(self, log: Claimed, worker: Worker | None) -> int:
        try:
            log.epoch = self._epochs.after(log.epoch)
        except OSError as error:
            raise EngineUnavailable(f"the epoch cannot be written: {error}") from error
        log.worker = worker
        self.members.notify()
        return log.epoch

    def release(self, claims: Sequence[tuple[str, int]]) -> None:
        """Ends claims that are the newest. Raises EngineUnavailable."""
        for name, epoch in claims:
            if self._logs[name].epoch == epoch:
                self._next_epoch(self._logs[name], None)

    def cover(self, name: str, epoch: int, upto: int, *, removes: bool, begin: int | None) -> None:
        """Notes that the pieces before a sequence need not be counted any more, or removes them. Raises Fenced, OSError.

        `begin`: the offset before which they are removed, if that is known.
        """
        log = self._held(name, epoch)
        if removes and isinstance(log, KeptLog):
            if begin is None:
                log.remove_before(upto)
            else:
                log.begin_at(begin)
        log.covered = max(log.covered, upto)

    def kept(self, name: str) -> KeptLog:
        """A log in the data folder."""
        log = self._logs[name]
        assert isinstance(log, KeptLog)
        return log

    def owners(self) -> dict[str, Owner]:
        """The newest claim of every log that was claimed since the start."""
        return {name: Owner(log.epoch, log.worker) for name, log in self._logs.items() if log.epoch}

    def _held(self, name: str, epoch: int) -> Claimed:
        log = self._logs[name]
        if log.epoch != epoch:
            raise Fenced(f"{name}: epoch {epoch}, and the newest is {log.epoch}")
        return log

    # --- appends ------------------------------------------------------------------------------------------------------

    def append(self, pieces: Sequence[WirePiece], done: Callable[[list[str]], None]) -> None:
        """Appends pieces; `done` gets the logs of which none was appended, when the others are durable."""
        append = _Append(done)
        self.appends += 1
        append.left = 1  # until all pieces are written: a write may fail at once
        for name, of_log in groupby(pieces, lambda piece: piece.log):
            self._append(name, list(of_log), append)
        self.refused += len(append.refused)
        append.left -= 1
        append.settle()

    def _append(self, name: str, pieces: Sequence[WirePiece], append: "_Append") -> None:
        log = self._logs.get(name)
        if not isinstance(log, KeptLog):
            append.refused.add(name)
            return
        reason = log.takes(pieces) if name not in append.refused else "a piece before it was refused"
        if reason:
            if pieces[0].epoch == log.epoch:
                _log.error("event=append_refused log=%s reason=%s", name, reason)
            append.refused.add(name)
            return
        for piece in pieces:
            if name in append.refused:
                return  # a write has failed at once
            append.left += 1
            log.append(piece, lambda is_durable: self._written(name, is_durable, append))

    def _written(self, name: str, is_durable: bool, append: "_Append") -> None:
        append.left -= 1
        if not is_durable:
            append.refused.add(name)
            log = self._logs[name]
            assert isinstance(log, KeptLog)
            if log.take_failure():
                self._end_failed(name, log)
        append.settle()

    def _end_failed(self, name: str, log: KeptLog) -> None:
        _log.error("event=append_failed log=%s reason=%s", name, log.log.failed or "the journal could not take it")
        try:
            self._next_epoch(log, log.worker)
        except EngineUnavailable as error:
            log.epoch += 1  # not durable, and of no use but to fence the claim that has ended
            _log.error("event=append_failed log=%s reason=%s", name, error)

    # --- reading ------------------------------------------------------------------------------------------------------

    def tail(self, name: str, sequence: int) -> list[tuple[int, bytes]]:
        """The pieces of a log from a sequence on. Raises OSError, DamagedLog."""
        constant = self._constants.get(name)
        if constant is not None:
            return [(0, constant)] if sequence <= 0 else []
        log = self._logs.get(name)
        return log.tail(sequence) if isinstance(log, KeptLog) else []

    def read(self, name: str) -> Iterator[tuple[int, bytes]]:
        """The durable pieces of a log, the oldest ones together. While it is read it raises OSError, DamagedLog."""
        log = self._logs.get(name)
        return log.read() if isinstance(log, KeptLog) else iter(())

    @property
    def is_idle(self) -> bool:
        """Whether no append is under way."""
        return all(log.is_idle for log in self._logs.values() if isinstance(log, KeptLog))


class _Append:
    """One append, until all that it has is durable or lost."""

    __slots__ = ("_done", "left", "refused")

    def __init__(self, done: Callable[[list[str]], None]) -> None:
        self._done: Callable[[list[str]], None] | None = done
        self.left = 0
        self.refused: set[str] = set()

    def settle(self) -> None:
        """Answers if nothing is left to wait for."""
        if not self.left and self._done is not None:
            done, self._done = self._done, None
            done(sorted(self.refused))
