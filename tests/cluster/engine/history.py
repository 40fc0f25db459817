"""A client-side record of what was acknowledged, and the worker that makes it.

Every piece names its epoch and sequence. A snapshot's parts are the pieces that it covers, so a replay always yields all of
the log, and the record can be compared with it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import pairwise

from coordinator.cluster.engine.engine import (
    Claim,
    Engine,
    EngineUnavailable,
    Fenced,
    OutcomeUnknown,
    Piece,
    Worker,
    claim_one,
)

PIECES_IN_PART = 50


def text_of(claim: Claim, sequence: int) -> bytes:
    return b"%s epoch=%d sequence=%d" % (claim.log.encode(), claim.epoch, sequence)


def epoch_of(text: bytes) -> int:
    return int(text.split(b"epoch=")[1].split()[0])


async def replayed_pieces(engine: Engine, claim: Claim) -> list[bytes]:
    return [text async for _, data in engine.read(claim.log, claim) for text in data.split(b"\n") if text]


async def in_parts(texts: list[bytes]) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(texts), PIECES_IN_PART):
        yield b"\n".join(texts[start : start + PIECES_IN_PART])


@dataclass
class Record:
    """What workers were acknowledged, per log, and the claims that there were."""

    acknowledged: dict[str, list[bytes]] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    fenced: int = 0
    unknown: int = 0

    def add(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            self.acknowledged.setdefault(piece.claim.log, []).append(piece.data)

    def compare(self, taken: Claim, found: list[bytes]) -> None:
        """Asserts that a log had everything that was acknowledged, once, and nothing of an old owner behind a claim.

        What another owner appended after it took the log from this one does not count.
        """
        counts = Counter(found)
        assert [text for text, count in counts.items() if count > 1] == [], "a piece is there twice"
        acknowledged = (text for text in self.acknowledged.get(taken.log, []) if epoch_of(text) <= taken.epoch)
        lost = [text for text in acknowledged if text not in counts]
        assert lost == [], f"acknowledged and lost: {lost[:5]}"
        epochs = [epoch_of(text) for text in found]
        assert all(before <= after for before, after in pairwise(epochs)), "an old owner's piece behind a newer claim"
        for claim in self.claims:
            if claim.log == taken.log and claim.epoch <= taken.epoch:
                assert len(found) >= claim.next_sequence, f"the log is shorter than it was at {claim}"
                # Epochs never fall, so the first piece behind a claim says it for all of them.
                behind = epochs[claim.next_sequence : claim.next_sequence + 1]
                assert all(epoch >= claim.epoch for epoch in behind), f"a piece of an old owner behind {claim}"


class Appender:
    """A worker that claims logs, appends to all of them in each statement, and records what it is acknowledged."""

    def __init__(self, engine: Engine, worker: Worker, record: Record) -> None:
        self.engine = engine
        self.worker = worker
        self.record = record
        self.claims: dict[str, Claim] = {}
        self.next: dict[str, int] = {}

    async def take(self, log: str) -> list[bytes]:
        """Claims a log until it has it; compares what it replays with the record, and returns it."""
        while True:
            try:
                claim = await claim_one(self.engine, log, self.worker)
                found = await replayed_pieces(self.engine, claim)
            except (EngineUnavailable, Fenced):
                await asyncio.sleep(0.01)
                continue
            self.record.claims.append(claim)
            self.record.compare(claim, found)
            assert len(found) == claim.next_sequence
            self.claims[log], self.next[log] = claim, claim.next_sequence
            return found

    async def append_once(self) -> None:
        """Appends a piece to each of its logs; drops the claims that end."""
        pieces = [
            Piece(claim, self.next[log], text_of(claim, self.next[log])) for log, claim in list(self.claims.items())
        ]
        for piece in pieces:
            self.next[piece.claim.log] += 1
        try:
            fenced = await self.engine.append(pieces)
        except OutcomeUnknown:
            self.record.unknown += 1
            fenced = {piece.claim.log for piece in pieces}
        else:
            self.record.fenced += len(fenced)
            self.record.add(piece for piece in pieces if piece.claim.log not in fenced)
        for piece in pieces:
            if piece.claim.log in fenced and self.claims.get(piece.claim.log) == piece.claim:
                del self.claims[piece.claim.log]

    async def append_until_fenced(self) -> None:
        """Appends to its logs until it has none any more."""
        while self.claims:
            await self.append_once()

    async def snapshot(self, log: str) -> None:
        """Replaces the beginning of a log, unless it is fenced meanwhile."""
        claim = self.claims.get(log)
        if claim is None:
            return
        try:
            found = await replayed_pieces(self.engine, claim)
            async with aclosing(in_parts(found)) as parts:
                await self.engine.snapshot(claim, claim.next_sequence, parts)
        except (EngineUnavailable, Fenced):
            return
