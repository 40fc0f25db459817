"""What a worker has of the shared engine: claims, replays, appends, snapshots, beats.

The rules for its caller:

- Pieces of a claim have the sequences `claim.next_sequence`, the one behind it, and so on, without a gap. Pieces of one log go
  to `append` in this order.
- A claim ends when `append` returns its log, when `append` raises `OutcomeUnknown`, and when any method raises `Fenced` for it.
  An engine takes nothing for a claim that has ended; the caller claims the log again and replays it.
- What `append` was given before an answer may become durable although nobody learned of it. The next replay has it or not,
  and from then on always the same.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

_LEAVING, _WANTS, _READY = _MARKS = "LEAVING://", "WANTS://", "READY://"
ADMIN = "ADMIN://"
NO_LISTENERS = (*_MARKS, ADMIN)
"""What the entries of `Worker.listeners` begin with that are no listeners. To a version that does not know them they are."""


class Worker(NamedTuple):
    """A coordinator process, and where others reach it."""

    id: str
    """Random for each process, so that a process that starts again is another worker."""
    node_id: int
    host: str
    port: int
    """Where the other workers reach it."""
    listeners: str = ""
    """Where clients reach it, as Kafka's `advertised.listeners`: NAME://HOST:PORT, separated by commas."""

    @property
    def admin(self) -> str:
        """The URL of its admin HTTP; empty where a supervisor answers for it."""
        return next((each.removeprefix(ADMIN) for each in self.listeners.split(",") if each.startswith(ADMIN)), "")

    @property
    def is_leaving(self) -> bool:
        """Whether it gives its shards to the others, because it is about to stop or an operator drains it."""
        return _LEAVING in self.listeners

    @property
    def wants(self) -> dict[str, int]:
        """The logs that an operator has moved to it. Of the workers that want a log, the highest number counts."""
        marks = [each.removeprefix(_WANTS) for each in self.listeners.split(",") if each.startswith(_WANTS)]
        return {log: int(number) for log, _, number in (mark.rpartition(":") for mark in marks)}

    @property
    def ready(self) -> set[str]:
        """The logs of others that it has copied, so that it can serve their shards a moment after it has claimed them."""
        marks = [each.removeprefix(_READY) for each in self.listeners.split(",") if each.startswith(_READY)]
        return {mark.removesuffix(":0") for mark in marks}

    def marked(
        self, *, is_leaving: bool = False, wants: Mapping[str, int] = MappingProxyType({}), ready: Iterable[str] = ()
    ) -> "Worker":
        """The same worker with these marks."""
        entries = [each for each in self.listeners.split(",") if each and not each.startswith(_MARKS)]
        entries += [f"{_WANTS}{log}:{number}" for log, number in wants.items()] + [f"{_LEAVING}:0"] * is_leaving
        entries += [f"{_READY}{log}:0" for log in sorted(ready)]
        return self._replace(listeners=",".join(entries))


class Claim(NamedTuple):
    """The right to append to a log, until another claim of this log has a higher epoch."""

    log: str
    """The name of a log's folder, such as `__consumer_offsets-12`."""
    epoch: int
    next_sequence: int
    """The sequence of the first piece that this claim appends. Replay yields everything before it."""
    covered: int
    """The first sequence that the newest snapshot does not cover; the pieces from here to `next_sequence` are the tail."""

    @property
    def tail(self) -> int:
        """How many pieces are to be replayed behind the snapshot."""
        return self.next_sequence - self.covered


class Summary(NamedTuple):
    """What an engine answers to a beat. A worker that knows other owners or workers has missed a change."""

    epochs: int
    """The sum of all owners' epochs, which grows with each claim and release."""
    living: Sequence[Worker]
    """As `Engine.workers`; whether the one that beats is among them is not said."""
    death_ms: float | None
    """After how long the next of the other workers is dead, unless that one beats before; None: there is no other one."""


class Piece(NamedTuple):
    """One or more record batches of one log, which become durable together."""

    claim: Claim
    sequence: int
    data: bytes


class Owner(NamedTuple):
    """The newest claim of a log."""

    epoch: int
    worker: Worker | None
    """None: released. Whether the worker lives, only `Engine.workers` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How a worker uses its engine. Times are in milliseconds."""

    cluster: str = "coordinator"
    """Coordinators with different names share a database and nothing else."""
    replication: str = "required"
    """Whether the engine must keep every acknowledged append on two nodes: `required` or `optional`."""
    append_timeout_ms: int = 5_000
    """An append without an answer for this long has an unknown outcome."""
    lock_timeout_ms: int = 2_000
    """A claim waits for this long for appends of the previous owner that are under way."""
    connect_timeout_ms: int = 3_000
    beat_timeout_ms: int = 3_000
    """A worker without a beat for this long, by the engine's clock, is dead."""
    reads_only: bool = False
    """For tools: `open` makes nothing and asks for no replication, and only `read`, `tail`, `workers` and `owners` are used."""


class EngineRefused(Exception):
    """The engine is not fit for use; the text says what to set. Trying again does not help."""


class EngineUnavailable(Exception):
    """The engine did not answer. What was asked may have happened; asking again is safe."""


class LogFailed(EngineUnavailable):
    """This log cannot be written or read at present, while others can."""


class Fenced(Exception):
    """A newer claim of the log exists, or this claim has ended."""


class OutcomeUnknown(Exception):
    """An append may be durable or not. Every claim in it has ended."""


class Engine(Protocol):
    """A shared engine. All methods may run concurrently; those without a `Raises:` of their own raise `EngineUnavailable`."""

    on_change: Callable[[], None]
    """Called when workers or owners may have changed. No engine reports a death, and a call may be missing: a beat shows it."""

    async def open(self) -> None:
        """Connects, checks version and durability, and makes the schema where it is missing.

        Raises: EngineRefused, with `reads_only` also if there is no such cluster; EngineUnavailable. The engine is closed then.
        """

    async def claim_all(self, worker: Worker, seen: Mapping[str, int | None]) -> dict[str, Claim | BaseException]:
        """Takes logs over: from now on every older epoch is fenced. Waits for appends of old owners that are under way.

        `seen`: log -> the epoch that `owners` had (0 for a log that nobody has claimed yet); None: whatever it is. If a log has
        another one by now, somebody else was quicker, and its owner stays.
        Returns each log's claim, or its error: Fenced (see `seen`); LogFailed; EngineUnavailable: the log may be claimed, so
        claim it again. Raises: EngineUnavailable, which is that of every log.
        """

    async def tail(self, log: str, sequence: int) -> list[tuple[int, bytes]]:
        """The sequence and data of each piece from `sequence` on, in order. Anybody may read; it takes no claim.

        Pieces that a snapshot has replaced are not among them. If the first one has a later sequence, `read` has the rest. Who
        takes snapshots of a log that others follow leaves its last piece out, so that they notice it.
        """

    def read(self, log: str, claim: Claim | None = None) -> AsyncIterator[tuple[int, bytes]]:
        """Yields the parts of the newest complete snapshot, then the pieces behind it, as far as they are there now, in order.

        Each comes with its sequence; a part comes with that of the last piece which the snapshot stands for. Anybody may read.
        `claim`: this worker's, of that log, which reads what was there when it was claimed: all of it, and nothing else.
        Raises: Fenced, only with a claim; EngineUnavailable, also if a newer snapshot has replaced what was still to be read.
        """

    async def append(self, pieces: Sequence[Piece]) -> frozenset[str]:
        """Makes pieces durable in one statement; returns the logs whose claim is fenced, of which no piece was appended.

        The pieces of all other logs are durable, as the engine's replication promises.
        Raises: OutcomeUnknown.
        """

    async def snapshot(self, claim: Claim, upto: int, parts: AsyncIterator[bytes], begin: int | None = None) -> None:
        """Stores a snapshot that stands for every piece before the sequence `upto`, then removes what it covers.

        A snapshot counts when all of its parts are there. `parts` may take its time; appends go on meanwhile. `begin`: the
        offset of the first batch that stays, for an engine that knows offsets better than sequences; it may be None.
        Raises: Fenced; EngineUnavailable: the snapshot may be there.
        """

    async def release(self, claims: Sequence[Claim]) -> None:
        """Ends claims in an orderly stop: `owners` shows these logs without a worker. Those that are fenced are left alone."""

    async def beat(self, worker: Worker) -> Summary:
        """Says that a worker lives, and where it is. Beats more often than every third of `beat_timeout_ms`."""

    async def leave(self, worker: Worker) -> None:
        """Says that a worker stops: `workers` no longer has it."""

    async def workers(self, within_ms: int | None = None) -> list[Worker]:
        """The workers whose last beat is at most so old by the engine's clock, by node id and id; those that left are none.

        None: `beat_timeout_ms`, so those that live.
        """

    async def owners(self) -> dict[str, Owner]:
        """The newest claim of every log that was ever claimed."""

    async def close(self) -> None:
        """Closes all connections. What is under way has an unknown outcome."""


async def claim_one(engine: Engine, log: str, worker: Worker, seen: int | None = None) -> Claim:
    """The claim of one log. Raises what `Engine.claim_all` returns or raises."""
    found = (await engine.claim_all(worker, {log: seen}))[log]
    if isinstance(found, BaseException):
        raise found
    return found


async def no_parts() -> AsyncIterator[bytes]:
    """The parts of a snapshot that removes the beginning of a log and stands for nothing."""
    return
    yield b""
