"""Failures of the engine, of the ways to it and between workers, in addition to those that strike single servers."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from coordinator.cluster.engine.engine import EngineUnavailable, Fenced, Worker
from coordinator.cluster.sharing import Sharing
from coordinator.log.log import DamagedLog
from coordinator.server.composition import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Server
from coordinator_lab.simulation.injection import FailureInjector
from coordinator_lab.simulation.loop import Process
from coordinator_lab.simulation.network import Wall
from coordinator_lab.simulation.shared_store import SharedStore
from coordinator_lab.simulation.worker_machine import PORT, SETTINGS, WorkerMachine, is_worker

JUMPS_S = (-2.0, -0.3, 0.3)
"""How far the engine's clock jumps. Ahead it is less than a lease ends before the engine's time-out: a longer jump makes living
workers look dead while they may still answer reads (docs/scale-out.md)."""
STEPS_MS = ((5, 80), (5, 80), (5, 80), (1_000, 5_000))
"""By how much NTP corrects a wall clock: mostly it was kept well."""
GONE = Worker("gone", 99, "10.0.1.99", PORT)
"""A worker that claims a log and is dead when it has the answer."""


class ClusterFailureInjector(FailureInjector):
    """The failures of a run with several workers."""

    def __init__(self, *, machines: list[WorkerMachine], store: SharedStore, **parts: Any) -> None:
        """As `FailureInjector`."""
        super().__init__(machines=machines, **parts)
        self._workers = machines
        self._store = store
        self._next_jump_s = 0.0
        """From when on the engine's clock may jump ahead again: leases have been renewed."""

    def coroutines(self) -> list[Coroutine[Any, Any, None]]:
        plan = self._plan
        kinds: list[tuple[float, Callable[[], Any]]] = [
            (plan.engine_cut_s, self._engine_cut),
            (plan.engine_pause_s, self._engine_pause),
            (plan.engine_down_s, self._engine_down),
            (plan.engine_clock_s, self._engine_clock),
            (plan.wall_s, self._wall),
            (plan.rolling_s, self._rolling),
            (plan.snapshot_s, self._snapshot),
            (plan.clock_step_s, self._clock_step),
            (plan.claim_s, self._claim),
            (plan.move_s, self._move),
        ]
        return super().coroutines() + [self._strike_repeatedly(mean_s, failure) for mean_s, failure in kinds if mean_s]

    def heal(self) -> None:
        """Ends what lasts."""
        self._store.stands_until_s = 0.0
        self._network.tear_down_walls()
        for machine in self._workers:
            machine.wire.heal()

    # --- engine -------------------------------------------------------------------------------------------------------

    def _a_while_s(self) -> float:
        return self.random.choice([0.5, 3.0, 12.0]) * self.random.random()

    def _engine_cut(self) -> Any:
        machine, seconds = self.random.choice(self._workers), self._a_while_s()
        machine.wire.cut_until_s = self._loop.time() + seconds
        return f"{machine.name} for {seconds:.1f} s"

    def _engine_pause(self) -> Any:
        seconds = self._a_while_s()
        self._store.stands_until_s = self._loop.time() + seconds
        return f"for {seconds:.1f} s"

    def _engine_down(self) -> Any:
        seconds = self._a_while_s()
        for machine in self._workers:
            machine.wire.refused_until_s = self._loop.time() + seconds
            if machine.engine is not None:
                machine.engine.disconnect()
        return f"for {seconds:.1f} s"

    def _engine_clock(self) -> Any:
        jump_s, now_s = self.random.choice(JUMPS_S), self._loop.time()
        if jump_s > 0:
            if now_s < self._next_jump_s:
                return None
            self._next_jump_s = now_s + SETTINGS.beat_timeout_ms / 1000
        self._store.skew_s += jump_s
        return f"{jump_s} s"

    def _claim(self) -> Any:
        log, logs = self._a_log(), self._store.logs
        if log in logs:
            self._store.stolen.add((log, logs[log].epoch))
        return None if self._store.claim(log, GONE, None) is None else f"of {log} by a worker that dies"

    def _a_log(self) -> str:
        return f"{self.random.choice([OFFSETS_TOPIC, TRANSACTIONS_TOPIC])}-{self.random.randrange(self._plan.shards)}"

    # --- workers ------------------------------------------------------------------------------------------------------

    def _wall(self) -> Any:
        machine, seconds = self.random.choice(self._workers), self._a_while_s()
        sides: dict[str, Callable[[str], bool]] = {
            "clients": lambda host: not is_worker(host),
            "other workers": lambda host: is_worker(host) and host != machine.host,
            "everybody": lambda host: host != machine.host,
        }
        side = self.random.choice(list(sides))
        self._network.raise_wall(Wall(machine.host, sides[side], self._loop.time() + seconds))
        return f"between {machine.name} and {side} for {seconds:.1f} s"

    def _clock_step(self) -> Any:
        clock, bounds_ms = self.random.choice(self._workers).clock, self.random.choice(STEPS_MS)
        step_ms = self.random.randint(*bounds_ms) * self.random.choice([-1, 1])
        self._step(clock, step_ms)
        return f"{step_ms} ms"

    def _rolling(self) -> Any:
        return self._restart_all()

    async def _restart_all(self) -> None:
        self._event("fault rolling restart")
        for machine in self._workers:
            if self._can_stop(machine):
                await self._stop_and_start(machine)
                await self._sleep(self.random.uniform(0, 4))

    def _move(self) -> Any:
        machine, log = self.random.choice(self._workers), self._a_log()
        server, process = machine.server, machine.process
        if server is None or process is None or server.stopping:
            return None
        assert machine.sharing is not None
        self._loop.spawn(process, machine.sharing.mark_worker(wants=log))
        return f"of {log} to {machine.name}"

    def _snapshot(self) -> Any:
        machine = self.random.choice(self._workers)
        server, process = machine.server, machine.process
        if server is None or process is None or server.stopping:
            return None
        assert machine.sharing is not None
        return self._take_snapshot(server, machine.sharing, process, self._a_log())

    async def _take_snapshot(self, server: Server, sharing: Sharing, process: Process, log: str) -> None:
        self._event(f"fault snapshot of {log} at {process.name}")
        taking = self._loop.spawn(process, _unless_refused(sharing, log, server))
        while process.alive and not taking.done():
            await self._sleep(0.05)


async def _unless_refused(sharing: Sharing, log: str, server: Server) -> None:
    try:
        with suppress(Fenced, EngineUnavailable, OSError, DamagedLog):
            await sharing.take_snapshot(log)
    except RuntimeError:  # the threads of the server have ended; it cannot know of a snapshot that it did not begin
        if not server.stopping:
            raise
