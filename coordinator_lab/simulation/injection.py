"""Injects the failures of a plan: each kind strikes at random intervals with the mean that the plan gives it.

A failure method either strikes at once and returns a text for the trace, or returns a coroutine for a failure that lasts,
or returns None if there was nothing to strike.
"""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import Random
from typing import Any

from coordinator.server.composition import EVENTS_TOPIC
from coordinator_lab.simulation.clock import LoopClock
from coordinator_lab.simulation.expiry import Expiry
from coordinator_lab.simulation.fault_rules import RuleSetter
from coordinator_lab.simulation.loop import SimulatedLoop
from coordinator_lab.simulation.machine import Machine
from coordinator_lab.simulation.network import SimulatedNetwork
from coordinator_lab.simulation.plan import Plan
from coordinator_lab.simulation.server_config import LOG_DIR


class FailureInjector:
    """The failures of one run."""

    def __init__(
        self,
        plan: Plan,
        loop: SimulatedLoop,
        network: SimulatedNetwork,
        machines: Sequence[Machine],
        expiry: Expiry,
        *,
        random: Callable[[str], Random],
        event: Callable[[str], None],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.struck: dict[str, int] = {}
        """Kind of failure -> how often it struck."""
        self.random = random("faults")
        self.is_over = False
        """Whether the world is being healed: nothing strikes any more."""
        self._plan = plan
        self._loop = loop
        self._network = network
        self._machines = machines
        self._expiry = expiry
        self._random_of = random
        self._random_events = random("events")
        self._event = event
        self._sleep = sleep
        self.rules = RuleSetter(random("fault rules"), has_share_groups=bool(plan.share_groups))
        for machine in machines:
            machine.disk.before_append = self._fail_event_logs

    def coroutines(self) -> list[Coroutine[Any, Any, None]]:
        """One coroutine per kind of failure that the plan has; each runs until it is cancelled."""
        plan = self._plan
        kinds: list[tuple[float, Callable[[], Any]]] = [
            (plan.cut_s, self._cut),
            (plan.stall_s, self._stall),
            (plan.half_open_s, self._half_open),
            (plan.kill_s, self._kill),
            (plan.power_s, self._power),
            (plan.slow_disk_s, self._slow_disk),
            (plan.eio_s, self._eio),
            (plan.full_s, self._full),
            (plan.clock_jump_s, self._clock_jump),
            (plan.pause_s, self._pause),
            (plan.stop_s, self._orderly_stop),
            (plan.rules_s, self._rule),
        ]
        return [self._strike_repeatedly(mean_s, failure) for mean_s, failure in kinds if mean_s]

    def _some_machine(self) -> Machine:
        """The machine that a failure strikes."""
        return self._machines[0] if len(self._machines) == 1 else self.random.choice(self._machines)

    async def _strike_repeatedly(self, mean_s: float, failure: Callable[[], Any]) -> None:
        # The method's name seeds its intervals: renaming it changes the meaning of every seed.
        random = self._random_of(failure.__name__)
        while True:
            await self._sleep(random.expovariate(1 / mean_s))
            name = failure.__name__.strip("_")
            outcome = failure()
            if outcome is not None:
                self._count(name)
                if asyncio.iscoroutine(outcome):
                    await outcome
                else:
                    self._event(f"fault {name} {outcome}")

    def _count(self, name: str) -> None:
        self.struck[name] = self.struck.get(name, 0) + 1

    async def _sustain(self, name: str, seconds: float, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """A failure that lasts for some seconds. `end` runs even if the failure is cancelled."""
        self._event(f"fault {name} for {seconds:.1f} s")
        begin()
        try:
            await self._sleep(seconds)
        finally:
            end()
        self._event(f"fault {name} is over")

    # --- network ------------------------------------------------------------------------------------------------------

    def _random_connection(self) -> Any:
        connections = self._network.open_connections()
        return self.random.choice(connections) if connections else None

    def _cut(self) -> Any:
        end = self._random_connection()
        if end is None:
            return None
        self._network.cut(end)
        return end.number

    def _stall(self) -> Any:
        end = self._random_connection()
        if end is None:
            return None
        seconds = self.random.uniform(0, 15)
        for each in self.random.choice([(end,), (end.peer,), (end, end.peer)]):
            each.stall(seconds)
        return f"{end.number} for {seconds:.1f} s"

    def _half_open(self) -> Any:
        end = self._random_connection()
        if end is None:
            return None
        self._network.half_open(end)
        return end.number

    # --- process ------------------------------------------------------------------------------------------------------

    def _kill(self) -> Any:
        machine = self._some_machine()
        if machine.server is None:
            return None
        machine.kill()
        return f"{machine.name} now"

    def _power(self) -> Any:
        machine = self._some_machine()
        if machine.server is None:
            return None
        if self.random.random() < self._plan.power_in_write:
            operations = self.random.randrange(0, 30)
            machine.disk.cut_after(operations)
            return f"{machine.name} after {operations} operations"
        machine.lose_power()
        return f"{machine.name} now"

    def _pause(self) -> Any:
        machine = self._some_machine()
        process = machine.process
        if process is None or machine.server is None or process.paused:
            return None
        return self._sustain(
            f"pause {machine.name}",
            self.random.choice([0.5, 5.0, 30.0]) * self.random.random(),
            lambda: setattr(process, "paused", True),
            lambda: self._loop.resume(process),
        )

    def _orderly_stop(self) -> Any:
        machine = self._some_machine()
        return self._stop_and_start(machine) if self._can_stop(machine) else None

    @staticmethod
    def _can_stop(machine: Machine) -> bool:
        server, process = machine.server, machine.process
        return server is not None and process is not None and not process.paused and not server.stopping

    async def _stop_and_start(self, machine: Machine) -> None:
        self._event(f"fault orderly stop {machine.name}")
        process = machine.process
        await machine.stop()
        if machine.process is process:
            machine.restart_after(self._plan.downtime_s)

    def _rule(self) -> Any:
        machine = self._some_machine()
        server, process = machine.server, machine.process
        if server is None or process is None or server.stopping:
            return None
        self._loop.spawn(process, self.rules.set_one(server))
        return "set"

    def heal(self) -> None:
        """Ends what lasts and is not ended by the end of its failure."""

    def clear_rules(self) -> None:
        """Clears the rules of the servers that run now."""
        for machine in self._machines:
            if machine.server is not None and machine.process is not None:
                self._loop.spawn(machine.process, self.rules.clear(machine.server))

    # --- disk and clock -----------------------------------------------------------------------------------------------

    def _slow_disk(self) -> Any:
        machine, slow_s = self._some_machine(), self.random.choice([0.1, 1.0, 6.0])
        return self._sustain(
            f"slow_disk {slow_s}",
            self.random.uniform(0, 10),
            lambda: setattr(machine, "fsync_s", slow_s),
            lambda: setattr(machine, "fsync_s", self._plan.fsync_s),
        )

    def _eio(self) -> Any:
        machine = self._some_machine()
        machine.disk_may_fail = True
        machine.disk.sync_errors.append(errno.EIO)
        return "at the next sync"

    def _fail_event_logs(self, path: str) -> None:
        """Called before each append to a file. Raises OSError for some of the appends to event logs."""
        if not self._plan.events_fail or self.is_over or not path.startswith(f"{LOG_DIR}/{EVENTS_TOPIC}-"):
            return
        if self._random_events.random() < self._plan.events_fail:
            self._count("events")
            raise OSError(
                self._random_events.choice([errno.EIO, errno.ENOSPC]), "injected: the event log is unwritable"
            )

    def _full(self) -> Any:
        machine = self._some_machine()

        def begin() -> None:
            machine.disk_may_fail = True
            machine.disk.capacity_bytes = machine.disk.used_bytes() + self.random.choice([0, 100, 2_000])

        def end() -> None:
            machine.disk.capacity_bytes = None

        return self._sustain("full", self.random.uniform(0, 8), begin, end)

    def _clock_jump(self) -> Any:
        jump_ms = self.random.choice([-3_600_000, -1_000, 1_000, 3_600_000])
        self._step(self._some_machine().clock, jump_ms)
        return f"{jump_ms} ms"

    def _step(self, clock: LoopClock, step_ms: int) -> None:
        """Sets a wall clock ahead or back."""
        self._expiry.latest_ms = max(self._expiry.latest_ms, clock.wall_ms())
        clock.skew_ms += step_ms
