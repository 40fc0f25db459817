"""The process of a server: it locks the data folder, starts the server, says that it is ready, and stops on a signal."""

import asyncio
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TextIO, TypeVar

from coordinator.config.settings import ServerConfig
from coordinator.log.log import DamagedLog
from coordinator.protocol.codec import DecodeError
from coordinator.protocol.messages import CLASS_SPECS
from coordinator.runtime.serde import UnknownRecordVersion
from coordinator.server import CannotStart, data_folder
from coordinator.server.composition import Server
from coordinator.server.internal_logs import EmbeddedLogs, InternalLogs, LogParts
from coordinator.world.clock import Clock, RealClock
from coordinator.world.disk import RealDisk
from coordinator.world.entropy import Entropy, RealEntropy
from coordinator.world.threads import ThreadPool

_log = logging.getLogger(__name__)
T = TypeVar("T")

DISK_THREADS = 4
SWITCH_S = 0.001
"""How long the loop waits for the interpreter while a thread decodes a large batch. It may have to wait before each socket that
it reads, and Python's default is 5 ms."""
YOUNG_OBJECTS_MAX = 10_000
"""The garbage collector runs after this many new objects. At its default (700) it runs in the middle of every turn of a hundred
requests, finds all of them in use, and takes a twentieth of the time."""


CANNOT_SERVE = (CannotStart, DamagedLog, DecodeError, UnknownRecordVersion, OSError)


class JoinedCluster(Protocol):
    """The part of a worker in a cluster that it has joined."""

    def open_logs(self, parts: LogParts) -> InternalLogs:
        """The internal logs of its server. Raises CannotStart."""

    async def close(self) -> None:
        """Leaves the cluster, after the server has stopped."""


Join = Callable[[ServerConfig, Clock, Entropy], Awaitable[JoinedCluster]]
"""Joins a cluster. Raises CannotStart."""


async def _serve(config: ServerConfig, started_s: float, join: Join | None) -> None:
    loop = asyncio.get_running_loop()
    clock = RealClock()
    stop = stop_signal(loop)
    entropy = RealEntropy()
    cluster = None
    if join is not None:
        cluster = await unless(stop, join(config, clock, entropy))
        if cluster is None:
            return
    open_logs = EmbeddedLogs if cluster is None else cluster.open_logs
    server = Server(config, loop, clock, RealDisk(), entropy, ThreadPool(loop, DISK_THREADS), open_logs=open_logs)
    bootstrap, admin = await server.start()
    if await unless(stop, server.follow_cluster()):
        server.statistics.watch_lag(loop.call_later)
        sys.setswitchinterval(SWITCH_S)
        say_ready(bootstrap, admin, started_s, clock)
        CLASS_SPECS.store()
        await stop.wait()
    _log.info("event=stopping")
    await server.stop()
    if cluster is not None:
        await cluster.close()
    _log.info("event=stopped")


def say_ready(bootstrap: str, admin: str | None, started_s: float, clock: Clock, **more: Any) -> None:
    """Prints the line for which scripts wait; from now on the garbage collector leaves alone what the start made.

    `more`: further fields of the line.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX)
    gc.enable()
    ready = {
        "ready": True,
        "bootstrap": bootstrap,
        "admin": admin,
        "pid": os.getpid(),
        "startup_ms": round(clock.monotonic_ms() - started_s * 1000),
    }
    print(json.dumps(ready | more), flush=True)  # noqa: T201 - scripts read this line


async def unless(stop: asyncio.Event, starting: Awaitable[T]) -> T | None:
    """The result of `starting`; None if the process is asked to stop before."""
    task = asyncio.ensure_future(starting)
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if task.done():
        return task.result()
    task.cancel()
    await asyncio.wait((task,))
    return None


def stop_signal(loop: asyncio.AbstractEventLoop) -> asyncio.Event:
    """Set by SIGTERM and SIGINT; a second one ends the process at once."""
    stop = asyncio.Event()

    def stop_or_quit() -> None:
        if stop.is_set():
            _log.warning("event=second_signal action=exit")
            os._exit(1)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_or_quit)
    return stop


def run(config: ServerConfig, started_s: float, join: Join | None = None) -> int:
    """Runs the server until SIGTERM or SIGINT; returns the exit code.

    `started_s`: the monotonic time at which the process began. `join`: joins the cluster of which the server is a worker.
    """
    return run_locked(config, lambda _lock: _serve(config, started_s, join))


def run_locked(config: ServerConfig, main: Callable[[TextIO], Coroutine[Any, Any, None]]) -> int:
    """Locks the data folder, and runs `main` with the lock to its end; returns the exit code, and says what is wrong."""
    try:
        with data_folder.lock(config.log_dir) as lock:
            _run(main(lock))
    except CANNOT_SERVE as error:
        return _failed(config, error)
    return 0


def run_worker(config: ServerConfig, started_s: float, join: Join) -> int:
    """As `run`, with a data folder that the parent of this process has locked."""
    try:
        _run(_serve(config, started_s, join))
    except CANNOT_SERVE as error:
        return _failed(config, error)
    return 0


def _run(main: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop  # noqa: PLC0415 - only the real server needs it; a simulation brings its own loop
    except ImportError:
        _log.warning("event=no_uvloop loop=asyncio effect=%s", "requests cost more CPU time")
        asyncio.run(main)
    else:
        uvloop.run(main)


def _failed(config: ServerConfig, error: Exception) -> int:
    is_damage = isinstance(error, DamagedLog | DecodeError)
    advice = f"; run: coordinator log repair {config.log_dir}" if is_damage else ""
    print(f"coordinator: {error}{advice}", file=sys.stderr)  # noqa: T201 - the one line a person needs
    return 1
