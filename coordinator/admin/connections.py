"""The open connections of admin HTTP, and which of them wait for their client.

There are few (`admin.connections`). A further one takes the place of the connection that has kept the server waiting the
longest, to send a request or to read a response, so slow clients cannot keep others out. Long polls and event streams are not
slow clients: they may hold half of the connections, and the rest stays free for health checks and metrics.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol


class Connection(Protocol):
    """An open connection."""

    closed: asyncio.Future[None]

    def abandon(self) -> None:
        """Closes the connection at once; what the client has not read is lost."""

    def stop(self) -> Iterable[asyncio.Task[Any]]:
        """Closes the connection when its last response has left. Returns the tasks that it waits for."""


class Connections:
    """The open connections of one server."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.open: dict[Connection, None] = {}
        self.held = 0
        """Connections in a long poll or an event stream."""
        self._waiting: dict[Connection, None] = {}
        """The connections that wait for their client; the longest wait first."""

    def admit(self, connection: Connection) -> bool:
        """Adds a connection, which waits for its client. Returns False if there is no place for it."""
        if len(self.open) >= self._limit and not self._abandon_longest_wait():
            return False
        self.open[connection] = None
        self.wait(connection)
        return True

    def _abandon_longest_wait(self) -> bool:
        connection = next(iter(self._waiting), None)
        if connection is None:
            return False
        self.forget(connection)
        connection.abandon()
        return True

    def wait(self, connection: Connection) -> None:
        """From now on the connection waits for its client."""
        if connection in self.open:
            self._waiting.pop(connection, None)
            self._waiting[connection] = None

    def work(self, connection: Connection) -> None:
        """From now on the client waits for the server."""
        self._waiting.pop(connection, None)

    def forget(self, connection: Connection) -> None:
        """The connection is closed."""
        self.open.pop(connection, None)
        self._waiting.pop(connection, None)

    @property
    def held_max(self) -> int:
        """How many connections can be in long polls and event streams."""
        return max(1, self._limit // 2)
