"""Where the servers of a run are: one machine with its own log."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import Random
from typing import Any, Protocol

from coordinator.faults.clock import LoopClock
from coordinator.faults.expiry import Expiry
from coordinator.faults.history import History
from coordinator.faults.injection import FaultInjector
from coordinator.faults.invariants import Invariants
from coordinator.faults.loop import SimulatedLoop
from coordinator.faults.machine import Machine
from coordinator.faults.network import SimulatedNetwork
from coordinator.faults.plan import Plan
from coordinator.faults.population import Population
from coordinator.faults.report import Report
from coordinator.faults.server_config import LOG_DIR, server_config
from coordinator.faults.wire import Access, Caller
from coordinator.server.composition import Server


class Surroundings(Protocol):
    """What a site needs of the simulation."""

    plan: Plan
    loop: SimulatedLoop
    network: SimulatedNetwork
    history: History
    expiry: Expiry

    def random(self, purpose: str) -> Random:
        """A generator for each purpose."""
        ...

    def event(self, text: str) -> None:
        """Adds a line to the trace."""
        ...

    def broken(self, invariant: str, detail: str) -> None:
        """Reports a broken invariant."""
        ...

    def sleep(self, seconds: float) -> Awaitable[None]: ...

    def connect(self, client_id: str, machine: Machine) -> Caller:
        """A client's way to the server of a machine."""
        ...


def parts_of(run: Surroundings) -> dict[str, Any]:
    """What machines and fault injectors take from a run."""
    return {"random": run.random, "event": run.event, "sleep": run.sleep}


def add_log_dir(machine: Machine) -> None:
    """Makes the data folder of a machine."""
    machine.disk.make_folder(LOG_DIR)
    machine.disk.sync_folder("")


class Site:
    """One machine. Its server has the journal on its own disk."""

    machines: list[Machine]
    invariants: Invariants
    faults: FaultInjector
    watchers: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()
    """Checks that go on all the time."""
    caller: Callable[[str], Access]
    """Creates a client's way to the servers, by the client's id."""

    def __init__(self, run: Surroundings, *, fastpath: bool) -> None:
        plan, clock = run.plan, LoopClock(run.loop.world_s)
        self.invariants = Invariants(LOG_DIR, run.broken, run.expiry, clock.wall_ms, run.history.forced_epoch)
        machine = Machine(
            plan,
            server_config(plan),
            run.loop,
            run.network,
            clock,
            self.invariants,
            broken=run.broken,
            fastpath=fastpath,
            **parts_of(run),
        )
        add_log_dir(machine)
        self.machines = [machine]
        self.faults = FaultInjector(plan, run.loop, run.network, self.machines, run.expiry, **parts_of(run))
        self.caller = lambda client_id: run.connect(client_id, machine)

    def servers(self) -> list[Server]:
        """The servers that run."""
        return [machine.server for machine in self.machines if machine.server is not None]

    def is_ready(self) -> bool:
        """Whether clients may begin."""
        return True

    def fill_in(self, report: Report) -> None:
        """Adds counts to the report."""

    async def check_at_rest(self, population: Population) -> None:  # noqa: ARG002 - workers share what it changes
        """Checks what holds when everything has converged."""
        for server in self.servers():
            self.invariants.check_events(server)
