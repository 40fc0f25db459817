"""The simulated engine's store, with a record of everything that ever became durable in it, and what must hold of that (I35).

- I35: a shared log has no gap: each piece has the sequence and its first record the offset behind the one before. Only the
  newest claim of a log appends, and each claim has a higher epoch than the ones before it. A snapshot says what the pieces say
  for which it stands.

The record is kept by code of its own, so that a mistake in the store shows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from coordinator.cluster.engine.engine import Claim, Piece, Worker
from coordinator.cluster.workers.joining import CLUSTER_LOG
from coordinator.log.batch import split
from coordinator_lab.simulation.history import OnBroken
from coordinator_lab.simulation.memory_engine import MemoryStore

INVARIANT = "I35 a shared log has one writer and no gap"


@dataclass(slots=True)
class DurableLog:
    """Everything that ever became durable in one log."""

    epoch: int = 0
    """Of the newest claim."""
    pieces: list[bytes] = field(default_factory=list)
    """By sequence."""
    end_offset: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    """Epoch -> the end offset of the log when a claim of this epoch last appended."""


class SharedStore(MemoryStore):
    """A store that is watched."""

    def __init__(self, broken: OnBroken) -> None:
        super().__init__()
        self.durable: dict[str, DurableLog] = {}
        self.stolen: set[tuple[str, int]] = set()
        """Logs and epochs of claims that ended although their owners lived, and had a lease."""
        self.on_appended: Callable[[str, bytes], None] = lambda _log, _data: None
        """Called with each piece that becomes durable."""
        self.on_covered: Callable[[str, int, Sequence[bytes]], None] = lambda _log, _upto, _parts: None
        """Called with each snapshot that counts, and the sequence before which it stands for everything."""
        self._broken = broken

    def of(self, log: str) -> DurableLog:
        """The record of a log."""
        return self.durable.setdefault(log, DurableLog())

    def claim(self, name: str, worker: Worker, seen: int | None) -> Claim | None:
        claim = super().claim(name, worker, seen)
        if claim is not None:
            self._see_epoch(name, claim.epoch)
            if claim.next_sequence != len(self.of(name).pieces):
                self._broken(
                    INVARIANT, f"{name} is claimed at {claim.next_sequence}, and has {len(self.of(name).pieces)} pieces"
                )
        return claim

    def release(self, claims: Sequence[Claim]) -> None:
        before = {claim.log: self.logs[claim.log].epoch for claim in claims}
        super().release(claims)
        for log, epoch in before.items():
            if self.logs[log].epoch != epoch:
                self._see_epoch(log, self.logs[log].epoch)

    def _see_epoch(self, log: str, epoch: int) -> None:
        durable = self.of(log)
        if epoch <= durable.epoch:
            self._broken(INVARIANT, f"{log} is claimed with epoch {epoch} after {durable.epoch}")
        durable.epoch = max(durable.epoch, epoch)

    def append(self, pieces: Sequence[Piece]) -> frozenset[str]:
        before = {log: self.logs[log].next_sequence for log in dict.fromkeys(piece.claim.log for piece in pieces)}
        refused = super().append(pieces)
        for claim, sequence, data in pieces:
            if sequence >= before[claim.log] and self.logs[claim.log].pieces.get(sequence) is data:
                self._appended(claim, sequence, data)
        return refused

    def _appended(self, claim: Claim, sequence: int, data: bytes) -> None:
        durable = self.of(claim.log)
        if claim.epoch != durable.epoch:
            self._broken(INVARIANT, f"{claim.log}: epoch {claim.epoch} appends after a claim of {durable.epoch}")
        if sequence != len(durable.pieces):
            self._broken(INVARIANT, f"{claim.log}: piece {sequence} comes after {len(durable.pieces)}")
        durable.pieces.append(data)
        if claim.log != CLUSTER_LOG:
            for _, header in split(data):
                if header.base_offset != durable.end_offset:
                    self._broken(
                        INVARIANT, f"{claim.log}: offset {header.base_offset} comes after {durable.end_offset}"
                    )
                durable.end_offset = header.next_offset
        durable.ends[claim.epoch] = durable.end_offset
        self.on_appended(claim.log, data)

    def cover(self, claim: Claim, upto: int, parts: list[bytes]) -> bool:
        is_covered = super().cover(claim, upto, parts)
        if is_covered:
            self.on_covered(claim.log, upto, parts)
        return is_covered
