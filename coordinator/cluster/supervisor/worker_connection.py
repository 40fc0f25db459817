"""The connection of one worker to the supervisor: what it asks (engine/local/engine.py), and the answers."""

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Generator, Iterator
from typing import Any, cast

from coordinator.cluster.engine.engine import EngineUnavailable, Fenced, Worker
from coordinator.cluster.engine.local import wire
from coordinator.cluster.engine.local.wire import Frame, WirePiece
from coordinator.cluster.supervisor.kept_log import PAGE_BYTES
from coordinator.cluster.supervisor.store import Store
from coordinator.log.log import DamagedLog

_log = logging.getLogger(__name__)

Answer = Callable[[Any], None]


class WorkerConnection(asyncio.Protocol):
    """One connection. Requests are answered in any order."""

    def __init__(self, store: Store, on_note: Callable[[str, Any], None] = lambda _name, _value: None) -> None:
        """`on_note` gets what a worker says about itself, by name."""
        self._store = store
        self._on_note = on_note
        self._reader = wire.FrameReader()
        self._transport: asyncio.Transport | None = None
        self._reads: dict[int, Generator[bytes, None, None]] = {}
        """The logs that the worker reads page by page: encoded pieces."""
        self.closed = asyncio.Event()
        self._asked: dict[str, Callable[[dict[str, Any], Answer], None]] = {
            "claim": self._claim,
            "release": self._release,
            "cover": self._cover,
            "beat": self._beat,
            "leave": self._leave,
            "workers": self._workers,
            "owners": self._owners,
            "read": self._read,
            "end_read": self._end_read,
            "note": self._note,
        }

    async def open(self, endpoint: socket.socket) -> None:
        """Serves a connected socket."""
        endpoint.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=endpoint)

    def close(self) -> None:
        """Ends the connection; `closed` is set when it has ended."""
        if self._transport is not None:
            self._transport.close()

    # --- the connection -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast(asyncio.Transport, transport)
        self._store.members.watchers[self] = lambda: self._write(wire.frame(wire.CHANGED, 0))

    def connection_lost(self, _error: Exception | None) -> None:
        """Called by the loop: the worker is dead."""
        self._transport = None
        for number in list(self._reads):
            self._close_read(number)
        self._store.members.disconnected(self)
        self.closed.set()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        for each in self._reader.feed(data):
            try:
                self._receive(each)
            except (Fenced, EngineUnavailable, OSError, DamagedLog) as error:
                self._write(wire.json_frame(wire.REFUSED, each.number, wire.refusal(error)))
            except Exception:  # noqa: BLE001 - whatever it is, the others must go on
                # A request that makes no sense: this is not a worker of this version.
                _log.exception("event=worker_not_understood")
                self.close()
                return

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _receive(self, request: Frame) -> None:
        number = request.number
        if request.kind == wire.APPEND:
            self._append(number, list(wire.decode_pieces(request.body)))
            return
        fields = json.loads(request.body)
        name = fields["do"]
        if name == "page":
            self._write(wire.frame(wire.DATA, number, self._page(fields["number"])))
        elif name == "tail":
            pieces = self._store.tail(fields["log"], fields["sequence"])
            found = [WirePiece("", 0, sequence, data) for sequence, data in pieces]
            self._write(wire.frame(wire.DATA, number, wire.encode_pieces(found)))
        else:
            self._asked[name](fields, lambda value: self._write(wire.json_frame(wire.ANSWER, number, value)))

    # --- requests -----------------------------------------------------------------------------------------------------

    def _append(self, number: int, pieces: list[WirePiece]) -> None:
        def done(refused: list[str]) -> None:
            self._write(wire.json_frame(wire.ANSWER, number, refused) if refused else wire.frame(wire.ANSWER, number))

        self._store.append(pieces, done)

    def _claim(self, fields: dict[str, Any], answer: Answer) -> None:
        worker = Worker(*fields["worker"])
        self._store.claim(
            fields["log"],
            worker,
            fields["seen"],
            lambda claim: answer((claim.epoch, claim.next_sequence, claim.covered)),
        )

    def _release(self, fields: dict[str, Any], answer: Answer) -> None:
        self._store.release([(log, epoch) for log, epoch in fields["claims"]])
        answer(None)

    def _cover(self, fields: dict[str, Any], answer: Answer) -> None:
        self._store.cover(
            fields["log"], fields["epoch"], fields["upto"], removes=fields["removes"], begin=fields["begin"]
        )
        answer(None)

    def _beat(self, fields: dict[str, Any], answer: Answer) -> None:
        store, members, limit_ms = self._store, self._store.members, fields["beat_timeout_ms"]
        members.beat(Worker(*fields["worker"]), self)
        epochs = sum(owner.epoch for owner in store.owners().values())
        answer((epochs, members.living(limit_ms), members.next_death_ms(limit_ms, self)))

    def _leave(self, fields: dict[str, Any], answer: Answer) -> None:
        self._store.members.leave(Worker(*fields["worker"]).id)
        answer(None)

    def _workers(self, fields: dict[str, Any], answer: Answer) -> None:
        members, limit_ms, within_ms = self._store.members, fields["beat_timeout_ms"], fields["within_ms"]
        answer(members.living(limit_ms) if within_ms is None else members.seen(within_ms))

    def _owners(self, _fields: dict[str, Any], answer: Answer) -> None:
        answer(self._store.owners())

    def _note(self, fields: dict[str, Any], answer: Answer) -> None:
        self._on_note(fields["name"], fields["value"])
        answer(None)

    # --- reading ------------------------------------------------------------------------------------------------------

    def _read(self, fields: dict[str, Any], answer: Answer) -> None:
        number = max(self._reads, default=0) + 1
        self._reads[number] = _frames(self._store.read(fields["log"]))
        answer(number)

    def _page(self, number: int) -> bytes:
        """The next bytes of a log; none at its end. Raises OSError, DamagedLog; then it has ended."""
        data = b""
        try:
            data = next(self._reads[number], b"") if number in self._reads else b""
        finally:
            if not data:
                self._close_read(number)
        return data

    def _end_read(self, fields: dict[str, Any], _answer: Answer) -> None:
        self._close_read(fields["number"])

    def _close_read(self, number: int) -> None:
        frames = self._reads.pop(number, None)
        if frames is not None:
            frames.close()


def _frames(pieces: Iterator[tuple[int, bytes]]) -> Generator[bytes, None, None]:
    """Several small pieces together, or a large one."""
    gathered: list[WirePiece] = []
    size_bytes = 0
    for sequence, data in pieces:
        gathered.append(WirePiece("", 0, sequence, data))
        size_bytes += len(data)
        if size_bytes >= PAGE_BYTES:
            yield wire.encode_pieces(gathered)
            gathered, size_bytes = [], 0
    if gathered:
        yield wire.encode_pieces(gathered)
