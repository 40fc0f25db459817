"""The simulated machine: a disk, and the server process that is started, stopped and killed on it.

The process ends in four ways. An orderly stop runs `Server.stop`. SIGKILL (`kill`) keeps everything that reached the page
cache. A power cut (`lose_power`) keeps only synced data. A power cut during a disk operation (`PowerCut`, raised by the
disk) must not let the server do anything further. After each of them the machine starts another process.
"""

from collections.abc import Awaitable, Callable
from contextvars import Context
from random import Random

from coordinator.config.settings import ServerConfig
from coordinator.server import CannotStart
from coordinator.server.composition import Server
from coordinator_lab.simulation.clock import LoopClock
from coordinator_lab.simulation.disk import PowerCut
from coordinator_lab.simulation.entropy import SeededEntropy
from coordinator_lab.simulation.history import OnBroken
from coordinator_lab.simulation.invariants import Invariants
from coordinator_lab.simulation.loop import Process, SimulatedLoop
from coordinator_lab.simulation.machine_disk import MachineDisk
from coordinator_lab.simulation.network import SimulatedNetwork
from coordinator_lab.simulation.plan import Plan
from coordinator_lab.simulation.threads import SimulatedThreads

RETRY_S = 2.0
"""Mean delay before another start when the disk did not permit one."""
STOP_S_MAX = 60
HANGS_S = 0.5
"""A disk that takes longer than this for one write or sync hangs."""
_NO_PROCESS = Context()
"""The context of callbacks that belong to no process and therefore survive every kill."""


class Machine:
    """Runs one server process after another on the same disk."""

    def __init__(
        self,
        plan: Plan,
        config: ServerConfig,
        loop: SimulatedLoop,
        network: SimulatedNetwork,
        clock: LoopClock,
        invariants: Invariants,
        *,
        random: Callable[[str], Random],
        event: Callable[[str], None],
        broken: OnBroken,
        sleep: Callable[[float], Awaitable[None]],
        fastpath: bool = True,
        name: str = "server",
    ) -> None:
        """`random(purpose)` returns a generator of its own for each purpose; `event` adds a line to the run's trace."""
        self.name = name
        self.clock = clock
        self.disk = MachineDisk(random("short writes") if plan.short_writes else None, self._on_power_cut)
        self.server: Server | None = None
        """The running server; None until it has loaded its logs, and after its process died."""
        self.process: Process | None = None
        self.starts = 0
        self.fsync_s = plan.fsync_s
        """Mean duration of an fdatasync."""
        self.disk_may_fail = False
        """Whether the disk failed or was full since the last start, so that the next start may fail too."""
        self.random_crash = random("crash")
        self._plan = plan
        self._config = config
        self._loop = loop
        self._network = network
        self._invariants = invariants
        self._event = event
        self._broken = broken
        self._sleep = sleep
        self._fastpath = fastpath
        self.host = config.listeners[0].host
        self._entropy = SeededEntropy(random("ids"))
        self._random_threads = random("worker")
        self._restart_is_scheduled = False
        self._threads: SimulatedThreads | None = None
        """That of the last process."""

    # --- starting -----------------------------------------------------------------------------------------------------

    def start_soon(self) -> None:
        """Starts a server process in the next turn of the loop."""
        self._loop.call_soon(self._start, context=_NO_PROCESS)

    def restart_after(self, mean_s: float) -> None:
        """Starts a server process after a random delay with this mean, unless a start is scheduled already."""
        if not self._restart_is_scheduled:
            self._restart_is_scheduled = True
            self._loop.call_later(self.random_crash.expovariate(1 / mean_s), self._start, context=_NO_PROCESS)

    def _start(self) -> None:
        self._restart_is_scheduled = False
        self.starts += 1
        process = self.process = Process(
            f"{self.name}-{self.starts}", self.host, rate=self.clock.rate, zero_s=self.clock.zero_s
        )
        self._loop.spawn(process, self._serve(process))

    async def _serve(self, process: Process) -> None:
        """Starts the server in its process. A start may fail only while the disk is in trouble; then it is retried."""
        threads = self._threads = SimulatedThreads(self._loop, self._random_threads, self._fsync_delay_s)
        try:
            server = await self._make_server(threads)
            await server.start()
        except (OSError, CannotStart) as error:
            self._event(f"{process.name} cannot start: {error}")
            if not self._may_fail_to_start(error):
                self._broken("a server starts on a sound disk", repr(error))
            self._died(process, silently=False)
            self.disk.kill()
            self.restart_after(RETRY_S)
            return
        except PowerCut:
            return
        except Exception as error:  # noqa: BLE001 - reported, not hidden
            self._broken("a server starts on a sound disk", repr(error))
            return
        self.disk_may_fail = self.disk.capacity_bytes is not None
        self._event(f"{process.name} started, offsets {[shard.log.end_offset for shard in server.groups.shards]}")
        self.server = server
        self._invariants.after_start(server)

    async def _make_server(self, threads: SimulatedThreads) -> Server:
        """A server of this machine, which is not started yet. Raises as `Server`."""
        return Server(
            self._config,
            self._loop,
            self.clock,
            self.disk,
            self._entropy,
            threads,
            fastpath=self._fastpath,
            observe=self._invariants.appended,
        )

    def _may_fail_to_start(self, _error: Exception) -> bool:
        return self.disk_may_fail

    async def _stop_server(self, server: Server) -> None:
        await server.stop()

    def speed_up(self, fsync_s: float) -> None:
        """The disk is fast from now on, also for what is under way."""
        self.fsync_s = fsync_s
        if self._threads is not None:
            self._threads.hurry()

    @property
    def disk_hangs(self) -> bool:
        """Whether something waits for the disk that will take long."""
        return self._threads is not None and self._threads.longest_s > HANGS_S

    def _fsync_delay_s(self) -> float:
        return self._random_threads.expovariate(1 / self.fsync_s)

    # --- ending -------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """SIGKILL. The operating system closes the process's connections and keeps its writes."""
        assert self.process is not None
        self._died(self.process, silently=False)
        self.disk.kill()
        self.restart_after(self._plan.downtime_s)

    def lose_power(self) -> None:
        """Cuts the power between two callbacks: no connection is closed, and unsynced writes may be lost or torn."""
        assert self.process is not None
        self._died(self.process, silently=True)
        self.disk.crash(self.random_crash)
        self.restart_after(self._plan.downtime_s)

    def _on_power_cut(self) -> None:
        """The power goes during a disk operation. The disk crashes in a later callback, when the server's stack is gone."""
        process = self.process
        if process is None or not process.alive:
            return
        self._event("power lost during a write")
        self._died(process, silently=True)

        def crash() -> None:
            self.disk.crash(self.random_crash)
            self.restart_after(self._plan.downtime_s)

        self._loop.call_soon(crash, context=_NO_PROCESS)

    def _died(self, process: Process, *, silently: bool) -> None:
        self._loop.kill(process)
        self._network.process_died(process, silently=silently)
        if self.server is not None:
            self._invariants.before_crash(self.server)
            self.server = None

    async def stop(self) -> None:
        """Stops the server in an orderly way, which must end within `STOP_S_MAX` and without an error."""
        server, process = self.server, self.process
        if server is None or process is None:
            return
        stopping = self._loop.spawn(process, self._stop_server(server))
        await self._sleep(0)
        deadline = self._loop.time() + STOP_S_MAX
        while not stopping.done() and process.alive:
            if self._loop.time() > deadline:
                self._broken("a stop ends", "not within a minute")
            await self._sleep(0.1)
        error = stopping.exception() if stopping.done() else None
        if error is not None and not isinstance(error, PowerCut) and not self.disk_may_fail:
            self._broken("a stop ends", repr(error))
        if process.alive:
            self._died(process, silently=False)
            self.disk.kill()
