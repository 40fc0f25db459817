"""The engine over PostgreSQL, 15 or newer, with asyncpg.

A worker has two connections to the primary. Appends, claims and snapshots share the one whose commits wait for the standbys.
Reads, beats, owners and notifications share the other: a worker lives although nobody can append at the moment, and a log is
replayed while the next one is claimed. Statements wait for each other, so none may take long: pages are small.

Whatever is not certain closes its connection, and an append's claims end with it:

- A lost connection or a time-out: the statement may have been committed.
- A warning: a cancelled wait for the standbys reports success, with a warning that the commit is local.
- Any SQLSTATE: after a switchover a demoted server answers 25006, and a connection to it would stay.

The next statement connects again, to the primary of the highest timeline seen.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from coordinator.cluster.engine.address import EngineAddress
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
from coordinator.cluster.engine.postgresql import sql
from coordinator.cluster.engine.postgresql.link import LOST, Link
from coordinator.cluster.engine.postgresql.primary import Primary, PrimaryConnection
from coordinator.cluster.engine.postgresql.schema import check_cluster_name, check_schema, make_schema

PAGE_ROWS = 2_000
PAGE_BYTES = 1024 * 1024
"""A page of a replay ends when it has this many rows or bytes; one more page is fetched ahead."""
TRIMMED_AT_ONCE = 1_000
"""The pieces that one statement of a snapshot removes at most."""


class _Hole(Exception):
    """A row that should be there is missing."""


class PostgresqlEngine:
    """A worker's connections to the database that all workers share."""

    def __init__(self, address: EngineAddress, settings: EngineSettings) -> None:
        check_cluster_name(settings.cluster)
        self._settings = settings
        self.on_change: Callable[[], None] = lambda: None
        self._primary = Primary(address, settings)
        limit_s = settings.append_timeout_ms / 1000
        self._writes = Link(self._primary, limit_s, is_durable=True)
        self._reads = Link(self._primary, limit_s, self._listen, is_durable=False)
        self._ended = EndedClaims()

    async def open(self) -> None:
        """Connects, and makes the schema where it is missing.

        Raises: EngineRefused; EngineUnavailable.
        """
        reads_only = self._settings.reads_only
        try:
            connection = await (self._reads if reads_only else self._writes).connected()
            with connection.limited(self._settings.append_timeout_ms / 1000):
                await (check_schema if reads_only else make_schema)(connection, self._primary.schema)
            await self._reads.connected()
        except BaseException as error:
            await self.close()
            if isinstance(error, LOST):
                raise EngineUnavailable(self._primary.text_of(error)) from None
            raise

    async def close(self) -> None:
        await asyncio.gather(self._writes.close(), self._reads.close())

    # --- claims and their logs ----------------------------------------------------------------------------------------

    async def claim_all(self, worker: Worker, seen: Mapping[str, int | None]) -> dict[str, Claim | BaseException]:
        """The newest claims of logs, by one statement. Raises: EngineUnavailable."""
        rows = await self._writes.write(sql.CLAIM, [*seen], [*seen.values()], *worker, self._primary.schema)
        epochs = {row["log"]: row["epoch"] for row in rows}
        claims = [Claim(*row) for row in await self._writes.fetch(sql.CLAIMED_LOGS, [*epochs])]
        newest = {claim.log: claim for claim in claims if claim.epoch == epochs[claim.log]}
        return {log: newest.get(log) or Fenced(f"{log}: another epoch than {seen[log]} or newer") for log in seen}

    async def release(self, claims: Sequence[Claim]) -> None:
        """Ends claims; the database shows their logs without a worker.

        Raises: EngineUnavailable.
        """
        self._ended.end(claims)
        logs, epochs = [claim.log for claim in claims], [claim.epoch for claim in claims]
        await self._writes.fetch(sql.RELEASE, logs, epochs, self._primary.schema)

    async def append(self, pieces: Sequence[Piece]) -> frozenset[str]:
        """Appends the pieces of all logs in one statement; returns the logs whose claims have ended.

        Raises: OutcomeUnknown.
        """
        return await self._ended.append(pieces, self._send)

    async def _send(self, pieces: list[Piece]) -> set[str]:
        """Returns the logs of which a piece was not appended. Raises: EngineUnavailable."""
        rows = await self._writes.write(
            sql.APPEND,
            [piece.claim.log for piece in pieces],
            [piece.claim.epoch for piece in pieces],
            [piece.sequence for piece in pieces],
            [piece.data for piece in pieces],
        )
        missing = Counter(piece.claim.log for piece in pieces)
        missing.subtract(row[0] for row in rows)
        return {log for log, count in missing.items() if count}

    # --- reading ------------------------------------------------------------------------------------------------------

    async def tail(self, log: str, sequence: int) -> list[tuple[int, bytes]]:
        """The pieces of a log from a sequence on.

        Raises: EngineUnavailable.
        """
        return [(number, data) for number, data in await self._reads.fetch(sql.TAIL, log, sequence)]

    async def read(self, log: str, claim: Claim | None = None) -> AsyncIterator[tuple[int, bytes]]:
        """The parts of the newest snapshot and the pieces behind it, each with its sequence.

        Raises: Fenced; EngineUnavailable.
        """
        if claim is not None:
            self._ended.refuse(claim)
        found = [Claim(*row) for row in await self._reads.fetch(sql.CLAIMED_LOGS, [log])] if claim is None else [claim]
        try:
            for extent in found:
                async for each in self._stored(extent):
                    yield each
        except _Hole:
            raise EngineUnavailable(
                f"{log}: a snapshot has replaced what was to be read, or pieces are missing"
            ) from None

    async def _stored(self, extent: Claim) -> AsyncIterator[tuple[int, bytes]]:
        """The parts of the snapshot, and the pieces behind it, as far as a claim has found them. Raises: _Hole."""
        log, _, next_sequence, covered = extent
        if covered:
            head = await self._reads.fetch(sql.NEWEST_SNAPSHOT, log, covered)
            if not head:
                raise _Hole
            async for _, part in self._rows(log, sql.PARTS, 0, head[0]["parts"], head[0]["id"]):
                yield covered - 1, part
        async for each in self._rows(log, sql.PIECES, covered, next_sequence):
            yield each

    async def _rows(
        self, log: str, statement: str, sequence: int, end: int, *arguments: Any
    ) -> AsyncIterator[tuple[int, bytes]]:
        """The rows from a sequence to an end. Fetches a page ahead. Raises: _Hole, if one is missing."""

        def fetch(start: int) -> asyncio.Task[list[Any]]:
            arguments_of_page = (log, start, end, PAGE_ROWS, PAGE_BYTES, *arguments)
            return asyncio.create_task(self._reads.fetch(statement, *arguments_of_page))

        ahead = fetch(sequence) if sequence < end else None
        try:
            while ahead is not None:
                page = await ahead
                if not page:
                    raise _Hole
                behind = page[-1][0] + 1
                ahead = fetch(behind) if behind < end else None
                await asyncio.sleep(0)  # so that it is sent before this page is worked on
                for number, data in page:
                    if number != sequence:
                        raise _Hole
                    sequence += 1
                    yield number, data
        finally:
            if ahead is not None:
                ahead.cancel()
                ahead.add_done_callback(lambda task: task.cancelled() or task.exception())

    # --- snapshots ----------------------------------------------------------------------------------------------------

    async def snapshot(
        self,
        claim: Claim,
        upto: int,
        parts: AsyncIterator[bytes],
        begin: int | None = None,  # noqa: ARG002 - pieces are found by their sequences
    ) -> None:
        """Stores a snapshot, part by part, then removes the snapshots and pieces that it replaces.

        Raises: Fenced; EngineUnavailable.
        """
        self._ended.refuse(claim)
        [[identity]] = await self._writes.fetch(sql.NEW_ID)
        count = 0
        async for part in parts:
            await self._if_held(claim, sql.ADD_PART, identity, count, part)
            count += 1
        await self._if_held(claim, sql.COMPLETE_SNAPSHOT, identity, upto, count)
        await self._if_held(claim, sql.REMOVE_OTHER_SNAPSHOTS, identity)
        [[first]] = await self._writes.fetch(sql.FIRST_PIECE, claim.log)
        while first is not None and first < upto:
            first = min(first + TRIMMED_AT_ONCE, upto)
            await self._if_held(claim, sql.REMOVE_PIECES, first)

    async def _if_held(self, claim: Claim, statement: str, *arguments: Any) -> None:
        """Runs a statement that returns a row if the claim is the newest. Raises: Fenced; EngineUnavailable."""
        if not await self._writes.write(statement, claim.log, claim.epoch, *arguments):
            self._ended.end([claim])
        self._ended.refuse(claim)

    # --- workers and owners -------------------------------------------------------------------------------------------

    async def beat(self, worker: Worker) -> Summary:
        """Says that a worker lives. Raises: EngineUnavailable."""
        beat_timeout_ms = self._settings.beat_timeout_ms
        rows = await self._reads.fetch(sql.BEAT, *worker, self._primary.schema, beat_timeout_ms)
        others = [Worker(*row[:5]) for row in rows if row["id"] is not None]
        return Summary(rows[0]["epochs"], others, rows[0]["death_ms"])

    async def leave(self, worker: Worker) -> None:
        """Removes a worker, and those that died long ago. Raises: EngineUnavailable."""
        await self._reads.fetch(sql.LEAVE, worker.id, self._primary.schema)

    async def workers(self, within_ms: int | None = None) -> list[Worker]:
        """The workers whose last beat is recent by the database's clock. Raises: EngineUnavailable."""
        limit_ms = self._settings.beat_timeout_ms if within_ms is None else within_ms
        return [Worker(*row) for row in await self._reads.fetch(sql.WORKERS, limit_ms)]

    async def owners(self) -> dict[str, Owner]:
        """The newest claim of every log. Raises: EngineUnavailable."""
        rows = await self._reads.fetch(sql.OWNERS)
        return {
            log: Owner(epoch, None if identity is None else Worker(identity, *where))
            for log, epoch, identity, *where in rows
        }

    async def _listen(self, connection: PrimaryConnection) -> None:
        await connection.add_listener(self._primary.schema, lambda *_message: self.on_change())
        connection.add_termination_listener(lambda _connection: self.on_change())
        self.on_change()
