"""Connections to the primary of a PostgreSQL cluster, and what the primary must promise.

A connection is used for one statement at a time and by one purpose, without a pool: a pool keeps connections to a demoted
primary that seem healthy. The address may name several hosts; the one that accepts writes is taken.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import asyncpg

from coordinator.cluster.engine.address import EngineAddress
from coordinator.cluster.engine.engine import EngineRefused, EngineSettings, EngineUnavailable
from coordinator.cluster.engine.postgresql import sql

VERSION_MIN = 150_000
OTHER_HOSTS_S = 0.2
"""When one host accepts writes, the others get this long: if an old primary still runs, the newer one is taken."""
REFUSED_STATES = ("28", "3D", "3F", "42")
"""Classes of SQLSTATE that only a change of accounts, databases or privileges ends."""


class Durability(NamedTuple):
    """What a primary promises when it answers."""

    synchronous_commit: str
    synchronous_standby_names: str


class PrimaryConnection(asyncpg.Connection):  # type: ignore[misc]
    """A connection whose socket notices within seconds that the other side is gone."""

    def __init__(self, protocol: Any, transport: asyncio.Transport, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        self.timeline = 0
        self.warning = ""
        opened = transport.get_extra_info("socket")
        if opened is not None and opened.family != socket.AF_UNIX:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in (("TCP_KEEPIDLE", 2), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 3)):
                if hasattr(socket, name):
                    opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    @contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Closes the connection if what runs inside takes longer. The server is not asked to cancel it."""
        timer = asyncio.get_running_loop().call_later(seconds, self._give_up)
        try:
            yield
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        self.warning = "no answer in time"
        self.terminate()

    def on_message(self, _connection: Any, message: Any) -> None:
        """Keeps a warning. With one, PostgreSQL reports a commit that it no longer waits to see replicated."""
        if message.severity_en == "WARNING":
            self.warning = message.message


class Primary:
    """Finds the primary among the hosts of an address."""

    def __init__(self, address: EngineAddress, settings: EngineSettings) -> None:
        self._address = address
        self._settings = settings
        self._hosts = address.hosts()
        self.schema = settings.cluster
        self.timeline = 0
        """The highest timeline seen. A primary with a lower one was replaced."""

    async def connect(self, *, is_durable: bool) -> PrimaryConnection:
        """A connection to the primary. Without `is_durable` commits do not wait for the disk or the standbys.

        Raises: EngineRefused: the server or the account is not fit; EngineUnavailable: no primary answers.
        """
        connection = await self._newest(is_durable)
        if connection.timeline < self.timeline:
            connection.terminate()
            raise EngineUnavailable(
                f"the primary has the timeline {connection.timeline}, but another one was promoted: {self.timeline}"
            )
        self.timeline = connection.timeline
        return connection

    def fault(self, promised: Durability) -> str | None:
        """Why an answer would not mean what it should; None: it does."""
        if promised.synchronous_commit in {"off", "local"}:
            return (
                f"synchronous_commit is {promised.synchronous_commit}, so an answer does not mean that a write is durable;"
                " set it to on: ALTER ROLE ... SET synchronous_commit = on"
            )
        if self._settings.replication == "required" and not promised.synchronous_standby_names:
            return (
                "synchronous_standby_names is empty, so what is acknowledged is lost with the primary;"
                " set it, such as 'ANY 1 (first, second)', or set journal.replication to optional"
            )
        return None

    def text_of(self, error: BaseException) -> str:
        """What an error says, on one line and without passwords."""
        if isinstance(error, TimeoutError):
            return "no answer in time"
        return self._address.hide(" ".join(str(error).split())) or type(error).__name__

    async def _newest(self, is_durable: bool) -> PrimaryConnection:
        """The connection with the highest timeline among the hosts that accept writes."""
        targets: list[dict[str, Any]] = [
            {"host": host} | ({"port": port} if port is not None else {}) for host, port in self._hosts
        ]
        opened: list[PrimaryConnection] = []
        errors: list[BaseException] = []
        waiting = {asyncio.create_task(self._connect(target, is_durable)) for target in targets or [{}]}
        try:
            while waiting and not opened:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                _sort(done, opened, errors)
            if waiting:
                done, waiting = await asyncio.wait(waiting, timeout=OTHER_HOSTS_S)
                _sort(done, opened, errors)
        finally:
            for task in waiting:
                task.cancel()
            _sort((await asyncio.wait(waiting))[0] if waiting else set(), opened, errors)
            opened.sort(key=lambda connection: connection.timeline)
            for connection in opened[:-1]:
                connection.terminate()
        if opened:
            return opened[-1]
        refused = next((error for error in errors if isinstance(error, EngineRefused)), None)
        raise refused or errors[0]

    async def _connect(self, target: dict[str, Any], is_durable: bool) -> PrimaryConnection:
        limit_s = self._settings.connect_timeout_ms / 1000
        connection: PrimaryConnection | None = None
        try:
            async with asyncio.timeout(limit_s):
                connection = await asyncpg.connect(
                    self._address.reveal(),
                    **target,
                    target_session_attrs="read-write",
                    connection_class=PrimaryConnection,
                    server_settings=self._session(is_durable),
                    timeout=limit_s,
                )
                assert connection is not None
                server = await connection.fetchrow(sql.SERVER)
            self._check(server, connection, is_durable)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the connection must not stay open
            if connection is not None:
                connection.terminate()
            raise self._explained(error) from None
        connection.add_log_listener(connection.on_message)
        return connection

    def _session(self, is_durable: bool) -> dict[str, str]:
        """The settings of a session. Times are in milliseconds, those of TCP in seconds."""
        limit_ms = self._settings.append_timeout_ms
        settings = {
            "application_name": "coordinator",
            "search_path": f'"{self.schema}"',
            "default_transaction_isolation": "read committed",
            "lock_timeout": str(self._settings.lock_timeout_ms),
            "statement_timeout": str(limit_ms),
            "idle_in_transaction_session_timeout": str(limit_ms),
            "tcp_keepalives_idle": "2",
            "tcp_keepalives_interval": "1",
            "tcp_keepalives_count": "3",
            "tcp_user_timeout": str(limit_ms),
        }
        return settings if is_durable else settings | {"synchronous_commit": "off"}

    def _check(self, server: Any, connection: PrimaryConnection, is_durable: bool) -> None:
        if server["version"] < VERSION_MIN:
            raise EngineRefused(f"PostgreSQL {server['version'] // 10_000} is too old; 15 or newer is needed")
        for name in ("fsync", "full_page_writes"):
            if server[name] != "on":
                raise EngineRefused(f"{name} is {server[name]}, so a crash of the server loses data; set it to on")
        connection.timeline = server["timeline"]
        promised = Durability(server["synchronous_commit"], server["synchronous_standby_names"])
        fault = self.fault(promised) if is_durable else None
        if fault is not None:
            raise EngineRefused(fault)

    def _explained(self, error: BaseException) -> BaseException:
        """The error that a caller of the engine sees."""
        if isinstance(error, EngineRefused | asyncio.CancelledError):
            return error
        text = f"{self._address}: {self.text_of(error)}"
        state = getattr(error, "sqlstate", None) or ""
        if state[:2] in REFUSED_STATES or isinstance(error, ValueError):
            return EngineRefused(text)
        return EngineUnavailable(text)


def _sort(
    tasks: set[asyncio.Task[PrimaryConnection]], opened: list[PrimaryConnection], errors: list[BaseException]
) -> None:
    for task in tasks:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            opened.append(task.result())
        else:
            errors.append(error)
