"""The process of a server: it locks the data folder, starts the server, says that it is ready, and stops on a signal."""

import asyncio
import gc
import json
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

from coordinator.config.settings import ServerConfig
from coordinator.log.log import DamagedLog
from coordinator.protocol.codec import DecodeError
from coordinator.protocol.messages import CLASS_SPECS
from coordinator.runtime.serde import UnknownRecordVersion
from coordinator.server import CannotStart, data_folder
from coordinator.server.composition import Server
from coordinator.world.clock import Clock, RealClock
from coordinator.world.disk import RealDisk
from coordinator.world.entropy import Entropy, RealEntropy
from coordinator.world.worker import Threads

if TYPE_CHECKING:
    from coordinator.server.sharing import Sharing

_log = logging.getLogger(__name__)

DISK_THREADS = 4
SWITCH_S = 0.001
"""How long the loop waits for the interpreter while a worker decodes a large batch. It may have to wait before each socket that
it reads, and Python's default is 5 ms."""
YOUNG_OBJECTS_MAX = 10_000
"""The garbage collector runs after this many new objects. At its default (700) it runs in the middle of every turn of a hundred
requests, finds all of them in use, and takes a twentieth of the time."""


async def _serve(config: ServerConfig, started_s: float) -> None:
    loop = asyncio.get_running_loop()
    clock = RealClock()
    stop = asyncio.Event()

    def stop_or_quit() -> None:
        if stop.is_set():
            _log.warning("event=second_signal action=exit")
            os._exit(1)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_or_quit)
    entropy = RealEntropy()
    sharing = await _join(config, clock, entropy) if config.shared.journal else None
    server = Server(config, loop, clock, RealDisk(), entropy, Threads(loop, DISK_THREADS), sharing=sharing)
    bootstrap, admin = await server.start()
    server.statistics.watch_lag(loop.call_later)
    sys.setswitchinterval(SWITCH_S)
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
    print(json.dumps(ready), flush=True)  # noqa: T201 - scripts read this line
    CLASS_SPECS.store()
    await stop.wait()
    _log.info("event=stopping")
    await server.stop()
    if sharing is not None:
        await sharing.close()
    _log.info("event=stopped")


async def _join(config: ServerConfig, clock: Clock, entropy: Entropy) -> "Sharing":
    """This worker's part in the shared journal. Raises CannotStart."""
    from coordinator.engine.address import EngineAddress  # noqa: PLC0415 - most servers have an embedded journal
    from coordinator.engine.engine import EngineRefused  # noqa: PLC0415
    from coordinator.engine.factory import engine_for  # noqa: PLC0415
    from coordinator.server.sharing import Sharing, engine_settings  # noqa: PLC0415

    settings = engine_settings(config.shared)
    try:
        engine = engine_for(EngineAddress(config.shared.journal), settings)
    except EngineRefused as error:
        raise CannotStart(str(error)) from error
    sharing = Sharing(config, engine, settings, clock, entropy)
    await sharing.join()
    return sharing


def run(config: ServerConfig, started_s: float) -> int:
    """Runs the server until SIGTERM or SIGINT; returns the exit code.

    `started_s`: the monotonic time at which the process began.
    """
    import uvloop  # noqa: PLC0415 - only the real server needs it; a simulation brings its own loop

    try:
        with data_folder.lock(config.log_dir):
            uvloop.run(_serve(config, started_s))
    except (CannotStart, DamagedLog, DecodeError, UnknownRecordVersion, OSError) as error:
        advice = (
            f"; run: coordinator log repair {config.log_dir}" if isinstance(error, DamagedLog | DecodeError) else ""
        )
        print(f"coordinator: {error}{advice}", file=sys.stderr)  # noqa: T201 - the one line a person needs
        return 1
    return 0
