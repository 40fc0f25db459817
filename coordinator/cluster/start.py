"""A worker that starts while the engine of its journal does not answer: it waits and tries again, and its health says so.

To end instead would leave it to whoever starts it to try again, with pauses that only grow. What trying again does not help
ends the start at once: an engine that is not fit for use, or another worker with the same id.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from coordinator.cluster.engine.address import EngineAddress, engine_for
from coordinator.cluster.engine.engine import EngineRefused
from coordinator.cluster.sharing import Sharing, engine_settings
from coordinator.config.settings import AdminConfig, ServerConfig
from coordinator.server import CannotStart, EngineAway
from coordinator.world.clock import Clock
from coordinator.world.entropy import Entropy

_log = logging.getLogger(__name__)

PAUSE_S = 1.0
PAUSE_MAX_S = 10.0
_HEAD_BYTES_MAX = 8 << 10
_HEAD_WITHIN_S = 5.0


async def join(config: ServerConfig, clock: Clock, entropy: Entropy) -> Sharing:
    """This worker's part in the cluster of its engine, as soon as the engine answers. Raises CannotStart."""
    settings = engine_settings(config.shared)

    async def try_to_join() -> Sharing:
        try:
            engine = engine_for(EngineAddress(config.shared.journal), settings)
        except EngineRefused as error:
            raise CannotStart(str(error)) from error
        sharing = Sharing(config, engine, settings, clock, entropy)
        try:
            await sharing.join()
        except BaseException:
            await sharing.close()
            raise
        return sharing

    return await joined(config.admin, try_to_join)


async def joined(config: AdminConfig, join: Callable[[], Awaitable[Sharing]]) -> Sharing:
    """What `join` makes, as soon as it does not raise EngineAway. Raises CannotStart."""
    health, pause_s = _Health(config), PAUSE_S
    try:
        while True:
            try:
                return await join()
            except EngineAway as error:
                _log.error("event=journal_unavailable reason=%s next_try_s=%g", error, pause_s)
                await health.serve(f"the journal is unavailable: {error}")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)
    finally:
        await health.close()


class _Health:
    """Answers at the address of admin HTTP until there is a server: it is alive, and not ready. It knows nothing else."""

    def __init__(self, config: AdminConfig) -> None:
        self._config = config
        self._reason = ""
        self._server: asyncio.Server | None = None

    async def serve(self, reason: str) -> None:
        """From now on says why the worker is not ready. Raises CannotStart."""
        self._reason = reason
        if self._server is not None:
            return
        context = None
        if self._config.admin_ssl_keystore_location:
            from coordinator.server.listener_security import read_admin_protection  # noqa: PLC0415 - most servers need none

            tls = read_admin_protection(self._config)[1]
            context = None if tls is None else tls.context
        host, port = self._config.host, self._config.port
        try:
            self._server = await asyncio.start_server(self._answer, host, port, ssl=context, limit=_HEAD_BYTES_MAX)
        except OSError as error:
            raise CannotStart(f"cannot listen on {host}:{port}: {error}") from error

    async def close(self) -> None:
        """Leaves the address to the server."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_HEAD_WITHIN_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response(head.split(b" ", 2)[1:2] == [b"/health/live"]))
                await writer.drain()
        writer.close()

    def _response(self, is_live: bool) -> bytes:
        status = "200 OK" if is_live else "503 Service Unavailable"
        answer = {"status": "live"} if is_live else {"status": "not ready", "reasons": [self._reason]}
        body = json.dumps(answer).encode()
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        return f"{head}connection: close\r\n\r\n".encode() + body
