"""An engine in memory, with the failures that a network and a database have.

`MemoryStore` is the database: each statement runs at once and as a whole. `MemoryEngine` is a worker's way to it. Between
them `Deliveries` decides what happens to a statement and its answer: they take their time, get lost, or arrive twice. A
statement whose sender has given up may still arrive later, as on a connection that the database has not noticed to be dead.

Times come from the loop, so the simulator's clock rules them. Statements travel in the store's context: they arrive when their
sender is paused or dead, as packets do.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, NamedTuple, Protocol, TypeVar

from coordinator.cluster.engine.ended import EndedClaims
from coordinator.cluster.engine.engine import (
    Claim,
    EngineSettings,
    EngineUnavailable,
    Fenced,
    Owner,
    Piece,
    Summary,
    Worker,
)

T = TypeVar("T")
PAGE_PIECES = 100
NOTIFICATION = "notification"
"""What travels the other way, as a statement that needs no answer."""
ONE_WAY_S = 0.0003
"""How long a statement without a failure takes to the store, and its answer back."""


class Delivery(NamedTuple):
    """What happens to one statement. Times are in seconds."""

    arrivals: tuple[float, ...] = (ONE_WAY_S,)
    """When the statement arrives at the store: never, once or twice."""
    answer_after: float | None = ONE_WAY_S
    """How long the answer to the first arrival takes; None: it gets lost."""
    is_refused: bool = False
    """Whether the sender learns at once that the store is not there."""


class Deliveries(Protocol):
    """Decides what happens to statements."""

    def draw(self, statement: str, /) -> Delivery: ...


class Prompt:
    """Every statement arrives, and its answer too."""

    def draw(self, _statement: str) -> Delivery:
        return Delivery()


class Unreliable:
    """Statements and answers are late, lost or arrive twice, as chance has it. `rate`: the share of those with a failure."""

    def __init__(self, random: Random, rate: float, late_s: float) -> None:
        self._random = random
        self._rate = rate
        self._late_s = late_s

    def draw(self, _statement: str) -> Delivery:
        random = self._random
        if random.random() >= self._rate:
            return Delivery()
        late = random.uniform(0, self._late_s)
        return random.choice(
            [
                Delivery((), None),
                Delivery((ONE_WAY_S,), None),
                Delivery((late,), None),
                Delivery((late,), random.uniform(0, self._late_s)),
                Delivery((ONE_WAY_S, late), random.choice([None, ONE_WAY_S])),
            ]
        )


@dataclass(slots=True)
class _Log:
    epoch: int = 0
    worker: Worker | None = None
    pieces: dict[int, bytes] = field(default_factory=dict)
    covered: int = 0
    parts: list[bytes] = field(default_factory=list)

    @property
    def next_sequence(self) -> int:
        return self.covered + len(self.pieces)


class MemoryStore:
    """What the workers share. Its methods are the statements: each is atomic."""

    def __init__(self) -> None:
        self.logs: dict[str, _Log] = {}
        self.beats: dict[str, tuple[float, Worker]] = {}
        self.context = copy_context()
        self.listeners: dict[Callable[[], None], None] = {}
        self.skew_s = 0.0
        """Its clock minus that of the loop."""
        self.rate = 1.0
        """How many of its seconds pass in a second of the loop."""
        self.stands_until_s = 0.0
        """Until when (by the loop) it stands still: statements arrive afterwards."""

    def notify(self) -> None:
        """Sends a notification to every engine."""
        for notified in list(self.listeners):
            notified()

    def claim(self, name: str, worker: Worker, seen: int | None) -> Claim | None:
        log = self.logs.get(name) or _Log()
        if seen is not None and seen != log.epoch:
            return None
        self.logs[name] = log
        log.epoch += 1
        log.worker = worker
        self.notify()
        return Claim(name, log.epoch, log.next_sequence, log.covered)

    def holds(self, claim: Claim) -> bool:
        return self.logs[claim.log].epoch == claim.epoch

    def append(self, pieces: Sequence[Piece]) -> frozenset[str]:
        """Returns the logs of which a piece was not appended: its claim is fenced, or its sequence is taken."""
        refused = set()
        for claim, sequence, data in pieces:
            log = self.logs[claim.log]
            if log.epoch != claim.epoch or sequence < log.next_sequence:
                refused.add(claim.log)
            else:
                assert sequence == log.next_sequence, f"{claim.log}: a gap before {sequence}"
                log.pieces[sequence] = data
        return frozenset(refused)

    def tail(self, name: str, sequence: int) -> list[tuple[int, bytes]]:
        log = self.logs.get(name) or _Log()
        return [(number, data) for number, data in log.pieces.items() if number >= sequence]

    def extent(self, name: str) -> tuple[int, int, list[bytes]]:
        """The first sequence behind the snapshot, the next one that will be appended, and the snapshot's parts."""
        log = self.logs.get(name) or _Log()
        return log.covered, log.next_sequence, list(log.parts)

    def page(self, name: str, sequence: int, until: int) -> list[bytes] | None:
        """A page of pieces from a sequence on; None if a snapshot has replaced some of them."""
        log = self.logs[name]
        if sequence < log.covered:
            return None
        return [log.pieces[number] for number in range(sequence, min(sequence + PAGE_PIECES, until))]

    def cover(self, claim: Claim, upto: int, parts: list[bytes]) -> bool:
        """Replaces the snapshot and removes the pieces that it covers."""
        log = self.logs[claim.log]
        if not self.holds(claim):
            return False
        assert log.covered <= upto <= log.next_sequence
        log.pieces = {sequence: data for sequence, data in log.pieces.items() if sequence >= upto}
        log.covered, log.parts = upto, parts
        return True

    def release(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            if self.holds(claim):
                self.logs[claim.log].epoch += 1
                self.logs[claim.log].worker = None
        self.notify()

    def beat(self, worker: Worker, now: float, limit: float) -> Summary:
        beat, known = self.beats.get(worker.id, (0.0, None))
        if known != worker or beat <= now - limit:
            self.notify()
        self.beats[worker.id] = (now, worker)
        beats = [beat for beat, other in self.beats.values() if other.id != worker.id and beat > now - limit]
        death_ms = 1000 * (min(beats) + limit - now) if beats else None
        return Summary(sum(log.epoch for log in self.logs.values()), self.living(now - limit), death_ms)

    def leave(self, worker: Worker) -> None:
        self.beats.pop(worker.id, None)
        self.notify()

    def living(self, since: float) -> list[Worker]:
        workers = [worker for beat, worker in self.beats.values() if beat > since]
        return sorted(workers, key=lambda worker: (worker.node_id, worker.id))

    def owners(self) -> dict[str, Owner]:
        return {name: Owner(log.epoch, log.worker) for name, log in self.logs.items()}


class MemoryEngine:
    """A worker's connection to a `MemoryStore`."""

    def __init__(self, store: MemoryStore, settings: EngineSettings, deliveries: Deliveries | None = None) -> None:
        self._store = store
        self._settings = settings
        self._deliveries = deliveries or Prompt()
        self._ended = EndedClaims()
        self._is_closed = False
        self._under_way: dict[asyncio.Future[Any], None] = {}
        self.on_change: Callable[[], None] = lambda: None
        self._is_lost = False
        """Whether the connection is broken. The next one begins with a notification, because some may have been missed."""

    def _notified(self) -> None:
        """A notification is late or lost as statements are; nobody learns that it was."""
        for after in self._deliveries.draw(NOTIFICATION).arrivals:
            asyncio.get_running_loop().call_later(after, self.on_change, context=self._store.context)

    def disconnect(self) -> None:
        """Every statement under way is without an answer. It may still arrive."""
        self._is_lost = True
        for answer in self._under_way:
            if not answer.done():
                answer.set_exception(EngineUnavailable("the connection was lost"))

    async def open(self) -> None:
        """Nothing needs to be made or checked."""
        self._store.listeners[self._notified] = None

    async def close(self) -> None:
        self._is_closed = True
        self._store.listeners.pop(self._notified, None)

    async def claim_all(self, worker: Worker, seen: Mapping[str, int | None]) -> dict[str, Claim | BaseException]:
        def claim() -> dict[str, Claim | None]:
            return {log: self._store.claim(log, worker, epoch) for log, epoch in seen.items()}

        claims = await self._run("claim", claim)
        return {log: each or Fenced(f"{log}: the epoch is not {seen[log]} any more") for log, each in claims.items()}

    async def tail(self, log: str, sequence: int) -> list[tuple[int, bytes]]:
        return await self._run("tail", lambda: self._store.tail(log, sequence))

    async def read(self, log: str, claim: Claim | None = None) -> AsyncIterator[tuple[int, bytes]]:
        if claim is not None:
            self._ended.refuse(claim)
        sequence, until, parts = await self._run("read", lambda: self._store.extent(log))
        if claim is not None:
            if sequence != claim.covered:
                raise EngineUnavailable(f"{log}: a newer snapshot is there")
            until = claim.next_sequence
        for part in parts:
            yield sequence - 1, part
        while sequence < until:
            page = await self._run("read", partial(self._store.page, log, sequence, until))
            if page is None:
                raise EngineUnavailable(f"{log}: a snapshot has replaced what was to be read")
            for data in page:
                yield sequence, data
                sequence += 1

    async def append(self, pieces: Sequence[Piece]) -> frozenset[str]:
        return await self._ended.append(pieces, lambda living: self._run("append", partial(self._store.append, living)))

    async def snapshot(
        self,
        claim: Claim,
        upto: int,
        parts: AsyncIterator[bytes],
        begin: int | None = None,  # noqa: ARG002 - pieces are found by their sequences
    ) -> None:
        kept = [part async for part in parts]
        self._ended.refuse(claim)
        if not await self._run("snapshot", lambda: self._store.cover(claim, upto, kept)):
            self._ended.end([claim])
            self._ended.refuse(claim)

    async def release(self, claims: Sequence[Claim]) -> None:
        self._ended.end(claims)
        await self._run("release", lambda: self._store.release(claims))

    async def beat(self, worker: Worker) -> Summary:
        limit = self._settings.beat_timeout_ms / 1000
        return await self._run("beat", lambda: self._store.beat(worker, self._now(), limit))

    async def leave(self, worker: Worker) -> None:
        await self._run("leave", lambda: self._store.leave(worker))

    async def workers(self, within_ms: int | None = None) -> list[Worker]:
        limit = (self._settings.beat_timeout_ms if within_ms is None else within_ms) / 1000
        return await self._run("workers", lambda: self._store.living(self._now() - limit))

    async def owners(self) -> dict[str, Owner]:
        return await self._run("owners", self._store.owners)

    def _now(self) -> float:
        return asyncio.get_running_loop().time() * self._store.rate + self._store.skew_s

    async def _run(self, statement: str, act: Callable[[], T]) -> T:
        """Lets a statement travel to the store. Raises: EngineUnavailable, when no answer comes in time."""
        if self._is_closed:
            raise EngineUnavailable("the engine is closed")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        arrivals, answer_after, is_refused = self._deliveries.draw(statement)

        def arrive(is_first: bool) -> None:
            if loop.time() < self._store.stands_until_s:
                loop.call_at(self._store.stands_until_s, arrive, is_first, context=self._store.context)
                return
            result = act()
            if is_first and answer_after is not None:
                loop.call_later(answer_after, deliver, result, context=self._store.context)

        def deliver(result: T) -> None:
            if not answer.done():
                answer.set_result(result)

        for number, after in enumerate(arrivals):
            loop.call_later(after, arrive, number == 0, context=self._store.context)
        if is_refused:
            self._is_lost = True
            await asyncio.sleep(2 * ONE_WAY_S)
            raise EngineUnavailable("the connection is refused")
        self._under_way[answer] = None
        try:
            async with asyncio.timeout(self._settings.append_timeout_ms / 1000):
                result = await answer
        except TimeoutError:
            self._is_lost = True
            raise EngineUnavailable(f"no answer to a {statement}") from None
        finally:
            del self._under_way[answer]
        if self._is_lost:
            self._is_lost = False
            self.on_change()
        return result
