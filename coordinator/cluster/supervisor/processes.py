"""The worker processes: started, watched, restarted with growing pauses, and stopped in order.

A worker that ends is started again. One that has not beaten for long hangs: others have taken its shards, but the kernel still
gives it connections, so it is killed. Workers are in sessions of their own, so that Ctrl-C reaches the supervisor alone.
"""

import asyncio
import json
import logging
import pickle
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

from coordinator.config.settings import ServerConfig

_log = logging.getLogger(__name__)


class WorkerStart(NamedTuple):
    """One worker of a machine."""

    number: int
    """From 0."""
    workers: int
    """How many there are."""
    config: ServerConfig
    """With its own node id, ports and folder."""
    folder: str
    """For the copies of the logs that it serves."""
    counts: str
    """The folder of the counts of fault rules, which all workers share."""
    endpoint: int
    """The descriptor of its connection to the supervisor."""
    data_node: int | None
    """The id of the worker that has the records of topics; None: no worker has them."""

    @property
    def has_data(self) -> bool:
        """Whether it has the records of topics."""
        return self.data_node == self.config.node_id

    def encode(self) -> bytes:
        """For the standard input of the process."""
        return pickle.dumps(self)


def decode(data: bytes) -> WorkerStart:
    """What `encode` returned."""
    start: WorkerStart = pickle.loads(data)  # noqa: S301 - the parent of this process has written it
    return start


MODULE = "coordinator.cluster.supervisor.local_worker"
PAUSE_FIRST_S, PAUSE_MAX_S = 0.2, 5.0
STEADY_S = 10.0
"""A worker that ran for so long is restarted with the first pause again."""
READY_WITHIN_S = 60.0


class WorkerFailed(Exception):
    """A worker has ended before it was ready; it has said why."""


class WorkerProcess:
    """One worker, through all of its restarts."""

    def __init__(
        self,
        start: WorkerStart,
        connect: Callable[[int], Awaitable[socket.socket]],
        inherited: tuple[int, ...],
    ) -> None:
        """`connect(number)` returns the worker's end of a new connection. `inherited`: descriptors that it keeps open."""
        self.number = start.number
        self.restarts = 0
        self.ready: dict[str, Any] | None = None
        """Its ready line; None while it starts."""
        self._start = start
        self._connect = connect
        self._inherited = inherited
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopping = False
        self.on_ready: Callable[[int], None] = lambda _number: None
        """Called with its number when it has started again."""

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._process is None else self._process.pid

    @property
    def admin_port(self) -> int | None:
        """Where its admin HTTP is on loopback, while it is ready."""
        return None if self.ready is None else int(self.ready["admin"].rpartition(":")[2])

    async def begin(self) -> None:
        """Starts it; returns when it is ready. Raises WorkerFailed."""
        endpoint = await self._connect(self.number)
        with endpoint:
            descriptor = endpoint.fileno()
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                MODULE,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                pass_fds=(descriptor, *self._inherited),
                start_new_session=True,
            )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(self._start._replace(endpoint=descriptor).encode())
        process.stdin.close()
        line = b""
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_WITHIN_S):
                line = await process.stdout.readline()
        if not line:
            self.signal(signal.SIGKILL)
            code = await process.wait()
            raise WorkerFailed(f"worker {self.number} has ended before it was ready (exit code {code})")
        self.ready = json.loads(line)
        _log.info(
            "event=worker_ready worker=%d pid=%d startup_ms=%d", self.number, process.pid, self.ready["startup_ms"]
        )

    async def keep(self) -> None:
        """Waits for its end, and starts it again, until `stop`."""
        loop = asyncio.get_running_loop()
        pause_s = PAUSE_FIRST_S
        while self._process is not None:
            began_s = loop.time()
            code = await self._process.wait()
            self.ready = None
            if self._is_stopping:
                return
            pause_s = PAUSE_FIRST_S if loop.time() - began_s > STEADY_S else min(2 * pause_s, PAUSE_MAX_S)
            _log.error("event=worker_ended worker=%d exit_code=%d restart_after_s=%s", self.number, code, pause_s)
            await asyncio.sleep(pause_s)
            self.restarts += 1
            try:
                await self.begin()
                self.on_ready(self.number)
            except (WorkerFailed, OSError) as error:
                _log.error("event=worker_not_started worker=%d reason=%s", self.number, error)

    def signal(self, number: int) -> None:
        """Sends a signal, if it runs."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def stop(self, within_s: float) -> None:
        """Lets it give its shards back and end; kills it after this time."""
        self._is_stopping = True
        self.signal(signal.SIGTERM)
        if self._process is None:
            return
        try:
            async with asyncio.timeout(within_s):
                await self._process.wait()
        except TimeoutError:
            _log.error("event=worker_killed worker=%d reason=%s", self.number, "it did not stop in time")
            self.signal(signal.SIGKILL)
            await self._process.wait()
