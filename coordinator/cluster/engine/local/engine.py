"""The engine over the supervisor of this machine, which has the data folder and its journal (coordinator/cluster/supervisor).

A worker has one connection: a socket that it inherits from the supervisor, so that nobody else on the machine can connect. The
connection is the worker's life: when it closes, the supervisor declares the worker dead at once, and the worker ends itself,
because whoever has the journal is gone.

Logs have Kafka's format in the data folder, so a piece is one or more record batches that continue the log, and a replay
yields many batches at once. The supervisor compacts the logs itself: a snapshot only says what a claim need not count.
"""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

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
from coordinator.cluster.engine.local import wire
from coordinator.cluster.engine.local.wire import Frame, WirePiece

GONE = "the supervisor of this machine is gone"


class LocalEngine(asyncio.Protocol):
    """A worker's connection to its supervisor."""

    def __init__(self, endpoint: socket.socket, settings: EngineSettings) -> None:
        """`endpoint`: connected to the supervisor."""
        self._endpoint = endpoint
        self._settings = settings
        self._ended = EndedClaims()
        self._reader = wire.FrameReader()
        self._transport: asyncio.Transport | None = None
        self._numbers = 0
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self.on_change: Callable[[], None] = lambda: None
        self.lost = asyncio.Event()
        """Set when the connection is closed."""

    # --- connection ---------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Takes the connection into use."""
        self._endpoint.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=self._endpoint)

    async def close(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
            await self.lost.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _error: Exception | None) -> None:
        """Called by the loop: whatever waits has no answer."""
        self._transport = None
        self._endpoint.close()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(EngineUnavailable(GONE))
        self.lost.set()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        for each in self._reader.feed(data):
            if each.kind == wire.CHANGED:
                self.on_change()
                continue
            future = self._waiting.pop(each.number, None)
            if future is not None and not future.done():
                future.set_result(each)

    async def _exchange(self, kind: int, body: bytes) -> Frame:
        if self._transport is None:
            raise EngineUnavailable(GONE)
        self._numbers = number = (self._numbers + 1) & 0xFFFF_FFFF
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._transport.write(wire.frame(kind, number, body))
        try:
            async with asyncio.timeout(self._settings.append_timeout_ms / 1000):
                answer: Frame = await future
        except TimeoutError:
            raise EngineUnavailable("the supervisor did not answer in time") from None
        finally:
            self._waiting.pop(number, None)
        if answer.kind == wire.REFUSED:
            raise wire.refused(answer.body)
        return answer

    async def ask(self, name: str, /, **fields: Any) -> Any:
        """The answer to a request of the supervisor's that is not in `Engine` (supervisor/session.py).

        Raises: EngineUnavailable; Fenced.
        """
        return json.loads((await self._ask(name, fields)).body)

    async def _ask(self, name: str, fields: dict[str, Any]) -> Frame:
        return await self._exchange(wire.ASK, json.dumps({"do": name, **fields}).encode())

    # --- claims and their logs ----------------------------------------------------------------------------------------

    async def claim_all(self, worker: Worker, seen: Mapping[str, int | None]) -> dict[str, Claim | BaseException]:
        """The newest claims of logs. The supervisor gets all the requests at once."""
        asked = (self.ask("claim", log=log, worker=worker, seen=epoch) for log, epoch in seen.items())
        answers = zip(seen, await asyncio.gather(*asked, return_exceptions=True), strict=True)
        return {log: each if isinstance(each, BaseException) else Claim(log, *each) for log, each in answers}

    async def release(self, claims: Sequence[Claim]) -> None:
        """Ends claims. Raises: EngineUnavailable."""
        self._ended.end(claims)
        await self.ask("release", claims=[(claim.log, claim.epoch) for claim in claims])

    async def append(self, pieces: Sequence[Piece]) -> frozenset[str]:
        """Appends the pieces of all logs; returns the logs whose claims have ended. Raises: OutcomeUnknown."""
        return await self._ended.append(pieces, self._send)

    async def _send(self, pieces: list[Piece]) -> list[str]:
        body = wire.encode_pieces(WirePiece(claim.log, claim.epoch, sequence, data) for claim, sequence, data in pieces)
        answer = await self._exchange(wire.APPEND, body)
        refused: list[str] = json.loads(answer.body) if answer.body else []
        return refused

    async def _pages(self, number: int) -> AsyncGenerator[WirePiece, None]:
        ended = False
        try:
            while not ended:
                data = (await self._ask("page", {"number": number})).body
                ended = not data
                for piece in wire.decode_pieces(data):
                    yield piece
        finally:
            if not ended and self._transport is not None:
                self._transport.write(wire.json_frame(wire.ASK, 0, {"do": "end_read", "number": number}))

    async def tail(self, log: str, sequence: int) -> list[tuple[int, bytes]]:
        """Pieces from a sequence on. Those that were appended long ago arrive as one. Raises: EngineUnavailable."""
        body = (await self._ask("tail", {"log": log, "sequence": sequence})).body
        return [(piece.sequence, piece.data) for piece in wire.decode_pieces(body)]

    async def read(self, log: str, claim: Claim | None = None) -> AsyncIterator[tuple[int, bytes]]:
        """Pieces that were appended long ago, about a megabyte at a time, then those behind them.

        Raises: Fenced; EngineUnavailable.
        """
        if claim is not None:
            self._ended.refuse(claim)
        async with aclosing(self._pages(await self.ask("read", log=log))) as found:
            async for piece in found:
                if claim is not None and piece.sequence >= claim.next_sequence:
                    raise Fenced(f"{log}: another worker has appended")
                yield piece.sequence, piece.data

    async def snapshot(self, claim: Claim, upto: int, parts: AsyncIterator[bytes], begin: int | None = None) -> None:
        """Removes the pieces before `upto` if there are no parts. Raises: Fenced; EngineUnavailable.

        Parts are read to their end and not stored: the supervisor compacts the log by itself, and the claim only notes that
        these pieces need no other snapshot.
        """
        removes = True
        async for _ in parts:
            removes = False
        self._ended.refuse(claim)
        try:
            await self.ask("cover", log=claim.log, epoch=claim.epoch, upto=upto, removes=removes, begin=begin)
        except Fenced:
            self._ended.end([claim])
            raise

    # --- workers and owners -------------------------------------------------------------------------------------------

    async def beat(self, worker: Worker) -> Summary:
        """Says that a worker lives. Raises: EngineUnavailable."""
        beat_timeout_ms = self._settings.beat_timeout_ms
        epochs, living, death_ms = await self.ask("beat", worker=worker, beat_timeout_ms=beat_timeout_ms)
        return Summary(epochs, [Worker(*each) for each in living], death_ms)

    async def leave(self, worker: Worker) -> None:
        """Says that a worker stops. Raises: EngineUnavailable."""
        await self.ask("leave", worker=worker)

    async def workers(self, within_ms: int | None = None) -> list[Worker]:
        """The workers whose last beat is recent; those that live also have an open connection. Raises: EngineUnavailable."""
        beat_timeout_ms = self._settings.beat_timeout_ms
        found = await self.ask("workers", beat_timeout_ms=beat_timeout_ms, within_ms=within_ms)
        return [Worker(*each) for each in found]

    async def owners(self) -> dict[str, Owner]:
        """The newest claim of every log. Raises: EngineUnavailable."""
        owners = await self.ask("owners")
        return {log: Owner(epoch, worker and Worker(*worker)) for log, (epoch, worker) in owners.items()}
