"""A worker of one machine: the process that a supervisor starts (coordinator/cluster/supervisor).

It is a server like any worker of a cluster. Its supervisor is the engine, says who has the records of topics, and starts
all workers together, so that none takes shards which another one will have a moment later.
"""

import asyncio
import gc
import logging
import os
import socket
import sys
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from coordinator.cluster.engine.engine import EngineSettings, EngineUnavailable
from coordinator.cluster.engine.local.engine import GONE, LocalEngine
from coordinator.cluster.sharing import Sharing, empty_cache, engine_settings
from coordinator.cluster.supervisor.kept_folder import FAULT_ACTED, KNOWN_LOGS
from coordinator.cluster.supervisor.processes import WorkerStart, decode
from coordinator.cluster.workers.tasks import end
from coordinator.config.settings import ServerConfig
from coordinator.log.catalog import KnownLog
from coordinator.server import process
from coordinator.world.clock import Clock
from coordinator.world.disk import Disk
from coordinator.world.entropy import Entropy
from coordinator.world.log_lines import log_to_stderr
from coordinator.world.shared_count import SharedCount

_log = logging.getLogger(__name__)

TOGETHER_S = 3.0
"""How long a worker waits for the others before it takes shards."""
POLL_S = 0.01


class LocalSharing(Sharing):
    """One worker's part in the data folder of its machine."""

    def __init__(
        self, start: WorkerStart, engine: LocalEngine, settings: EngineSettings, clock: Clock, entropy: Entropy
    ) -> None:
        super().__init__(start.config, engine, settings, clock, entropy)
        self.local = engine
        self.has_data = start.has_data
        self.is_alone = False
        self.cluster.data_node = None if start.has_data else start.data_node
        self.statistics.on_fault_acted = partial(self._note_soon, FAULT_ACTED)
        self.statistics.shared_count = lambda name: SharedCount(f"{start.counts}/{name}")
        self._start = start
        self._notes: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None

    async def join(self) -> None:
        """As `Sharing.join`; from now on this process ends when the supervisor does. Raises CannotStart."""
        await super().join()
        self._watch = asyncio.create_task(_end_without(self.local))

    def prepare_folder(self, disk: Disk) -> str:
        """Empties the copies of an earlier worker, and returns their folder."""
        return empty_cache(disk, self._start.folder)

    async def begin(self) -> None:
        """Waits until all workers are there, for a while."""
        until_s = time.monotonic() + TOGETHER_S
        await self.engine.beat(self.worker)
        while time.monotonic() < until_s and len(await self.engine.workers()) < self._start.workers:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)

    def note_logs(self, logs: Iterable[KnownLog]) -> bool:
        """The supervisor keeps the catalog of the data folder."""
        if self.has_data:
            self._note_soon(KNOWN_LOGS, [*logs])
        return True

    def _note_soon(self, name: str, value: Any) -> None:
        task = asyncio.get_running_loop().create_task(self._note(name, value))
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)

    async def _note(self, name: str, value: Any) -> None:
        try:
            await self.local.ask("note", name=name, value=value)
        except EngineUnavailable as error:
            _log.warning("event=not_noted name=%s reason=%s", name, error)

    async def close(self) -> None:
        await asyncio.gather(*self._notes)
        await end([self._watch])
        await super().close()


async def _end_without(engine: LocalEngine) -> None:
    await engine.lost.wait()
    _log.error("event=stopped reason=%s", GONE)
    os._exit(1)


def _join_of(start: WorkerStart) -> process.Join:
    async def join(config: ServerConfig, clock: Clock, entropy: Entropy) -> Sharing:
        settings = engine_settings(config.shared)
        engine = LocalEngine(socket.socket(fileno=start.endpoint), settings)
        sharing = LocalSharing(start, engine, settings, clock, entropy)
        await sharing.join()
        return sharing

    return join


def main() -> int:
    """Runs the worker until SIGTERM, or until its supervisor is gone."""
    gc.disable()
    began_s = time.monotonic() - time.process_time()
    start = decode(sys.stdin.buffer.read())
    log_to_stderr(f"worker={start.number}")
    return process.run_worker(start.config, began_s, _join_of(start))


if __name__ == "__main__":
    sys.exit(main())
