"""A connection of the PostgreSQL engine that is made again after it was lost."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import asyncpg

from coordinator.cluster.engine.engine import EngineRefused, EngineUnavailable
from coordinator.cluster.engine.postgresql.primary import Durability, Primary, PrimaryConnection

_log = logging.getLogger(__name__)

LOST = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""What asyncpg raises when a statement fails or its connection is lost; an InternalClientError when the server has said goodbye
to a connection on which nothing was asked."""
OnConnected = Callable[[PrimaryConnection], Awaitable[None]]


class Link:
    """A connection that is made again after it was lost. Statements wait for each other."""

    def __init__(
        self, primary: Primary, limit_s: float, on_connected: OnConnected | None = None, *, is_durable: bool
    ) -> None:
        """`on_connected`: what a connection needs before its first statement."""
        self._primary = primary
        self._purpose = "writes" if is_durable else "reads"
        self._limit_s = limit_s
        self._is_durable = is_durable
        self._on_connected = on_connected
        self._turn = asyncio.Lock()
        self._connection: PrimaryConnection | None = None
        self._is_closed = False

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        """Runs a statement as a transaction of its own. Every error closes the connection.

        Raises: EngineUnavailable: nothing is known about the statement's outcome.
        """
        async with self._turn:
            try:
                connection = await self.connected()
            except EngineRefused as error:
                raise EngineUnavailable(str(error)) from None
            connection.warning = ""
            try:
                with connection.limited(self._limit_s):
                    rows: list[Any] = await connection.fetch(statement, *arguments)
            except BaseException as error:
                connection.terminate()
                if isinstance(error, LOST):
                    raise self._lost(connection.warning or self._primary.text_of(error)) from None
                raise
            if connection.warning:
                connection.terminate()
                raise self._lost(connection.warning)
            return rows

    def _lost(self, text: str) -> EngineUnavailable:
        _log.warning("event=engine_connection_closed purpose=%s reason=%s", self._purpose, text)
        return EngineUnavailable(text)

    async def write(self, statement: str, *arguments: Any) -> list[Any]:
        """`fetch` for a statement that must be durable; the last two columns of its rows are what the server promises.

        Raises: EngineUnavailable, also if the server promises too little.
        """
        rows = await self.fetch(statement, *arguments)
        for promise in {tuple(row)[-2:] for row in rows}:
            if (fault := self._primary.fault(Durability(*promise))) is not None:
                self.drop()
                raise self._lost(fault)
        return rows

    async def connected(self) -> PrimaryConnection:
        """The connection, made if there is none, and made again if its server is no longer the primary.

        Raises: EngineRefused; EngineUnavailable.
        """
        if self._is_closed:
            raise EngineUnavailable("the engine is closed")
        known = self._connection
        if known is not None and not known.is_closed() and known.timeline == self._primary.timeline:
            return known
        if known is not None:
            known.terminate()
        self._connection = connection = await self._primary.connect(is_durable=self._is_durable)
        try:
            if self._on_connected is not None:
                with connection.limited(self._limit_s):
                    await self._on_connected(connection)
        except BaseException as error:
            connection.terminate()
            if isinstance(error, LOST):
                raise EngineUnavailable(self._primary.text_of(error)) from None
            raise
        _log.info("event=engine_connected purpose=%s timeline=%d", self._purpose, connection.timeline)
        return connection

    def drop(self) -> None:
        """Closes the connection; the next statement makes another."""
        if self._connection is not None:
            self._connection.terminate()

    async def close(self) -> None:
        """Closes the connection for good."""
        self._is_closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*LOST):
                await connection.close(timeout=1)
