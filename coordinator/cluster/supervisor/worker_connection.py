"""The connection of one worker to the supervisor: what it asks (engine/local/engine.py), and the answers."""

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple, cast

from coordinator.cluster.engine.engine import EngineUnavailable, Fenced, Worker
from coordinator.cluster.engine.local import wire
from coordinator.cluster.engine.local.wire import Frame, WirePiece
from coordinator.cluster.supervisor.kept_log import PAGE_BYTES
from coordinator.cluster.supervisor.store import Store
from coordinator.log.log import DamagedLog

_log = logging.getLogger(__name__)

Answer = Callable[[Any], None]


class _Replay(NamedTuple):
    """A log that a worker reads page by page."""

    log: str
    epoch: int | None
    """Of the claim that must be the newest; None: anybody may read."""
    frames: Generator[bytes, None, None]
    """Encoded pieces."""


class WorkerConnection(asyncio.Protocol):
    """One connection. Requests are answered in any order."""

    def __init__(self, store: Store, on_note: Callable[[str, Any], None] = lambda _name, _value: None) -> None:
        """`on_note` gets what a worker says about itself, by name."""
        self._store = store
        self._on_note = on_note
        self._reader = wire.FrameReader()
        self._transport: asyncio.Transport | None = None
        self._replays: dict[int, _Replay] = {}
        self.closed = asyncio.Event()
        self._asked: dict[str, Callable[[dict[str, Any], Answer], None]] = {
            "claim": self._claim,
            "release": self._release,
            "cover": self._cover,
            "beat": self._beat,
            "leave": self._leave,
            "workers": self._workers,
            "owners": self._owners,
            "replay": self._replay,
            "read": self._read,
            "end_replay": self._end_replay,
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
        for number in list(self._replays):
            self._close_replay(number)
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
            self._write(wire.frame(wire.DATA, number, self._page(fields["replay"])))
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

    # --- replays ------------------------------------------------------------------------------------------------------

    def _replay(self, fields: dict[str, Any], answer: Answer) -> None:
        log, epoch = fields["log"], fields["epoch"]
        pieces = ((0, data) for data in self._store.replay(log, epoch))
        answer(self._begin_replay(log, epoch, pieces))

    def _read(self, fields: dict[str, Any], answer: Answer) -> None:
        answer(self._begin_replay(fields["log"], None, self._store.read(fields["log"])))

    def _begin_replay(self, log: str, epoch: int | None, pieces: Iterator[tuple[int, bytes]]) -> int:
        number = max(self._replays, default=0) + 1
        self._replays[number] = _Replay(log, epoch, _frames(pieces))
        return number

    def _page(self, number: int) -> bytes:
        """The next bytes of a replay; none at its end. Raises Fenced, OSError, DamagedLog; then it has ended."""
        replay = self._replays.get(number)
        if replay is None:
            return b""
        try:
            if replay.epoch is not None:
                self._store.check_owner(replay.log, replay.epoch)
            data = next(replay.frames, b"")
        except BaseException:
            self._close_replay(number)
            raise
        if not data:
            self._close_replay(number)
        return data

    def _end_replay(self, fields: dict[str, Any], _answer: Answer) -> None:
        self._close_replay(fields["replay"])

    def _close_replay(self, number: int) -> None:
        replay = self._replays.pop(number, None)
        if replay is not None:
            replay.frames.close()


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
