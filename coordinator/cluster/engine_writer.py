"""The journal of a worker that shares an engine with others: a turn's batches become durable in one append of the engine.

    claim       another worker's log, or one that nobody has, becomes this worker's, and is replayed into its local segments
    add         the batches of a turn gather
    append      at the end of the turn, unless an append is under way: then the next turns gather for the next one
    durable     the owners of the logs are notified, and the batches are written to the local segments behind
    lost        the engine has fenced a log, or an append has no certain outcome: the owners learn it (`ClaimLost`)

A shard of groups has two logs, of its state and of its events. Their claims end together, and what a turn adds to them leaves
in one append.

The local segments of a log are only a cache, from which a shard loads and clients fetch. They are made new at each claim, and
nobody relies on them after a restart, so they are not synced.

A claim that has ended acknowledges nothing more: what gathered for it is dropped, and a late answer is ignored.
"""

import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple

from coordinator.cluster.engine.engine import Claim, Engine, Piece
from coordinator.journal.turns import JournalWriter, TurnJournal
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.writer import ClaimLost
from coordinator.world.schedule import Handle, Schedule

_log = logging.getLogger(__name__)

WRITE_BEHIND_MS = 100
APPEND_BYTES_MAX = 8 << 20
"""What one append carries at most, unless one log's batches of a turn are larger."""

RunCoroutine = Callable[[Coroutine[Any, Any, Any], Callable[[Any], None]], None]
"""`run(coroutine, done)`: runs it on the loop, then calls `done` with what it returned or raised."""


OnSegment = Callable[[int, int], None]
"""`on_segment(base_offset, sequence)`: a segment begins, and this is the sequence of the first piece in it."""


class _Held:
    """A claim that this worker has."""

    __slots__ = ("beside", "claim", "durable_sequence", "next_sequence", "on_segment")

    def __init__(self, claim: Claim, on_segment: OnSegment | None) -> None:
        self.claim = claim
        self.on_segment = on_segment
        self.beside: JournaledLog | None = None
        """The log whose claim ends with this one."""
        self.next_sequence = claim.next_sequence
        self.durable_sequence = claim.next_sequence
        """Every piece before it is durable."""


class _Part(NamedTuple):
    """What one log has in an append."""

    writer: JournalWriter
    held: _Held
    data: bytes
    end_offset: int


class EngineWriter(TurnJournal):
    """The claims of one worker, and what it appends. All methods run on the loop.

    `failed` is never set: an engine that cannot be reached ends claims, and nothing else.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        run: RunCoroutine,
        soon: Callable[[Callable[[], None]], object],
        schedule: Schedule,
        now_ms: Callable[[], int],
        observe: Callable[[str, bytes], None] | None = None,
        observe_append: Callable[[int], None] = lambda _ms: None,
    ) -> None:
        """`observe` is called with folder and batches of each write; `observe_append` with the duration of each append."""
        super().__init__(soon)
        self.fenced_appends = 0
        """Claims that an append found fenced."""
        self.unknown_appends = 0
        """Appends without a certain outcome."""
        self._engine = engine
        self._run = run
        self._schedule = schedule
        self._now_ms = now_ms
        self._observe = observe
        self._observe_append = observe_append
        self._held: dict[JournaledLog, _Held] = {}
        self._gathered: dict[JournalWriter, list[bytes]] = {}
        self._under_way: list[_Part] = []
        self._unflushed: dict[JournaledLog, None] = {}
        self._flush_timer: Handle | None = None

    # --- claims -------------------------------------------------------------------------------------------------------

    def hold(
        self,
        log: JournaledLog,
        claim: Claim,
        *,
        beside: JournaledLog | None = None,
        on_segment: OnSegment | None = None,
    ) -> None:
        """Writes to the log from now on, by this claim. The end of the log must be where the claim begins.

        `beside`: a log that is held, and whose claim and this one end together.
        """
        assert log not in self._held
        held = self._held[log] = _Held(claim, on_segment)
        if beside is not None:
            held.beside, self._held[beside].beside = beside, log

    def claim_of(self, log: JournaledLog) -> Claim | None:
        """The claim by which the log is written; its `next_sequence` is that of the next piece."""
        held = self._held.get(log)
        return None if held is None else held.claim._replace(next_sequence=held.next_sequence)

    def epoch_of(self, name: str) -> int:
        """The epoch of the claim of a log, by its name; 0 without a claim."""
        return next((held.claim.epoch for held in self._held.values() if held.claim.log == name), 0)

    def durable_claim_of(self, log: JournaledLog) -> Claim | None:
        """As `claim_of`, with the sequence behind the last durable piece: it ends at the durable offset of the log."""
        held = self._held.get(log)
        return None if held is None else held.claim._replace(next_sequence=held.durable_sequence)

    def covered(self, log: JournaledLog, upto: Claim) -> None:
        """A snapshot stands for every piece before the sequence of this claim."""
        held = self._held.get(log)
        if held is not None and held.claim.epoch == upto.epoch:
            held.claim = held.claim._replace(covered=upto.next_sequence)

    def is_under_way(self, log: JournaledLog) -> bool:
        """Whether something of the log, or of the one beside it, is not durable yet."""
        logs = self._together(log)
        return any(part.writer.log in logs for part in self._under_way) or any(
            self._writers[each] in self._gathered for each in logs
        )

    def _together(self, log: JournaledLog) -> tuple[JournaledLog, ...]:
        """The logs whose claims end with this one's."""
        held = self._held.get(log)
        return (log,) if held is None or held.beside is None else (log, held.beside)

    def let_go(self, log: JournaledLog) -> list[Claim]:
        """Ends the claim here, and the one beside it: nothing more is written or acknowledged by them.

        Returns them, to be released.
        """
        logs = self._together(log)
        held = [self._held.pop(each, None) for each in logs]
        for each in logs:
            self._gathered.pop(self._writers[each], None)
            self._unflushed.pop(each, None)
            each.drop_unjournaled()
        return [each.claim for each in held if each is not None]

    def lose(self, logs: Iterable[JournaledLog], reason: str) -> None:
        """Ends claims that this worker may not have any more, and reports it to the owners of the logs."""
        for log in list(logs):
            together = self._together(log)
            if self.let_go(log):
                for each in together:
                    self._report_failure(self._writers[each], ClaimLost(reason))

    # --- writing ------------------------------------------------------------------------------------------------------

    def check_room(self) -> None:
        """Never refuses; whether a log may be written depends on its claim."""

    def append_failed(self, writer: JournalWriter, error: OSError) -> None:
        """Gives the log up: another worker's disk may be well."""
        self._lose_copy(writer.log, error)

    def add(self, writer: JournalWriter, batches: bytes) -> None:
        """Adds batches that the log has appended. Without a claim they are dropped, and the owner learns it."""
        if writer.log not in self._held:
            writer.log.drop_unjournaled()
            self._report_failure(writer, ClaimLost("this server has no claim of the log"))
            return
        self._gathered.setdefault(writer, []).append(batches)
        if self._observe is not None:
            self._observe(writer.log.folder, batches)
        self._schedule_turn()

    def _commit(self) -> None:
        if self._under_way or not self._gathered:
            return
        parts: list[_Part] = []
        size_bytes = 0
        for first in list(self._gathered):
            if first not in self._gathered:
                continue  # it left with the log beside it
            writers = [self._writers[log] for log in self._together(first.log)]
            data = {writer: b"".join(self._gathered[writer]) for writer in writers if writer in self._gathered}
            more_bytes = sum(map(len, data.values()))
            if parts and size_bytes + more_bytes > APPEND_BYTES_MAX:
                break
            size_bytes += more_bytes
            for writer, batches in data.items():
                del self._gathered[writer]
                parts.append(_Part(writer, self._held[writer.log], batches, writer.log.end_offset))
        self._under_way = parts
        pieces = [Piece(part.held.claim, part.held.next_sequence, part.data) for part in parts]
        for part in parts:
            part.held.next_sequence += 1
        began_ms = self._now_ms()
        self._run(self._engine.append(pieces), lambda outcome: self._appended(outcome, began_ms))

    def _appended(self, outcome: Any, began_ms: int) -> None:
        self._observe_append(self._now_ms() - began_ms)
        parts, self._under_way = self._under_way, []
        if isinstance(outcome, frozenset):
            fenced = outcome
            self.fenced_appends += len(fenced)
            self.entries += 1
            self.entry_bytes += sum(len(part.data) for part in parts)
        else:
            _log.warning("event=append_outcome_unknown logs=%d reason=%s", len(parts), outcome)
            self.unknown_appends += 1
            fenced = frozenset(part.writer.name for part in parts)
        for part in parts:
            if part.writer.name in fenced and self._held.get(part.writer.log) is part.held:
                self.lose([part.writer.log], "another server has claimed the log, or an append had no certain outcome")
        for part in parts:
            log = part.writer.log
            if self._held.get(log) is not part.held:
                continue  # the claim has ended
            part.held.durable_sequence += 1
            log.durable_offset = part.end_offset
            self._unflushed[log] = None
            self._report_durable(part.writer, part.end_offset)
        if self._unflushed and self._flush_timer is None:
            self._flush_timer = self._schedule(WRITE_BEHIND_MS, self._flush)
        if self._gathered:
            # Not at once: whoever waits in a socket joins the next append.
            self._schedule_turn()

    # --- writing behind -----------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Writes what is durable to the local segments. A log whose segments cannot be written is given up."""
        self._flush_timer = None
        logs, self._unflushed = list(self._unflushed), {}
        for log in logs:
            if log not in self._held:  # given up with the one beside it, a moment ago
                continue
            try:
                log.flush()
                if log.wants_segment:
                    self.begin_segment(log)
            except OSError as error:
                self._lose_copy(log, error)

    def _lose_copy(self, log: JournaledLog, error: OSError) -> None:
        _log.error("event=cache_not_written log=%s reason=%s", log.folder, error)
        self.lose([log], f"the local copy of the log cannot be written: {error}")

    def begin_segment(self, log: JournaledLog) -> None:
        """Begins a segment of a log that is held, behind what is durable. Raises OSError."""
        held, count = self._held[log], len(log.segments)
        log.begin_segment()
        if held.on_segment is not None and len(log.segments) > count:
            held.on_segment(log.segments[-1].base_offset, held.durable_sequence)

    # --- stop ---------------------------------------------------------------------------------------------------------

    @property
    def has_slots(self) -> bool:
        """Never: the engine has everything."""
        return False

    @property
    def idle(self) -> bool:
        """Whether nothing is under way and nothing waits to be appended."""
        return not (self._under_way or self._gathered)

    def begin(self) -> None:
        """There is nothing to begin: claims are made one by one."""

    def stop(self) -> None:
        """Ends the writing behind."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self._unflushed.clear()

    def settle(self) -> None:
        """There is nothing to note: the engine has everything."""

    def close(self, *, keeps_files: bool = False) -> None:
        """There are no files, and the engine has an owner who closes it."""
