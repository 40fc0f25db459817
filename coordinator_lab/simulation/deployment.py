"""Where the servers of a run are: one machine with its own log."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import Random
from typing import Any, Protocol

from coordinator.server.composition import Server
from coordinator_lab.simulation.clock import LoopClock
from coordinator_lab.simulation.expiry import Expiry
from coordinator_lab.simulation.history import History
from coordinator_lab.simulation.injection import FailureInjector
from coordinator_lab.simulation.invariants import Invariants
from coordinator_lab.simulation.loop import SimulatedLoop
from coordinator_lab.simulation.machine import Machine
from coordinator_lab.simulation.network import SimulatedNetwork
from coordinator_lab.simulation.plan import Plan
from coordinator_lab.simulation.population import Population
from coordinator_lab.simulation.report import Report
from coordinator_lab.simulation.server_config import LOG_DIR, server_config
from coordinator_lab.simulation.share_invariants import ShareHistory
from coordinator_lab.simulation.wire import Access, Caller


class Surroundings(Protocol):
    """What a deployment needs of the simulation."""

    plan: Plan
    loop: SimulatedLoop
    network: SimulatedNetwork
    history: History
    expiry: Expiry
    shares: ShareHistory

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
    """What machines and failure injectors take from a run."""
    return {"random": run.random, "event": run.event, "sleep": run.sleep}


def add_log_dir(machine: Machine) -> None:
    """Makes the data folder of a machine."""
    machine.disk.make_folder(LOG_DIR)
    machine.disk.sync_folder("")


class Deployment:
    """One machine. Its server has the journal on its own disk."""

    machines: list[Machine]
    invariants: Invariants
    failures: FailureInjector
    watchers: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()
    """Checks that go on all the time."""
    caller: Callable[[str], Access]
    """Creates a client's way to the servers, by the client's id."""

    def __init__(self, run: Surroundings, *, fastpath: bool) -> None:
        plan, clock = run.plan, LoopClock(run.loop.world_s)
        self.invariants = Invariants(
            LOG_DIR, run.broken, run.expiry, clock.wall_ms, run.history.forced_epoch, run.shares
        )
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
        self.failures = FailureInjector(plan, run.loop, run.network, self.machines, run.expiry, **parts_of(run))
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
