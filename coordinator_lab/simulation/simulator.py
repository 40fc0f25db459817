"""Simulates a whole server under failures: one seed is one run, and the same seed always gives the same run.

The server is the real `Server`, wired as in production from frames to recovery. Only its loop, clock, entropy, disk,
network and threads are replaced by simulated twins. Simulated clients exchange real bytes with it while failures
strike as the plan says.

With several workers (`Plan.workers`) each has a machine, and the engine that they share is simulated, too: memory_engine.py
with the failures of engine_wire.py and engine_failures.py. deployment.py and cluster_deployment.py put the parts together.

A run has two phases. In the *safety* phase anything may fail, and no invariant may ever break. Then everything is healed
and the *liveness* phase begins: within a bound every group must converge, with all its members in one generation and every
partition owned. A run ends at the first broken invariant. Undeclared exceptions, deadlocks and livelocks count as such.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from coordinator.runtime.shard import Status
from coordinator.server.composition import Server
from coordinator.topics.partition import State
from coordinator.topics.topics import Topics
from coordinator.world.log_lines import record_text
from coordinator_lab.simulation import clients, counters, data_clients, transaction_clients
from coordinator_lab.simulation.cluster_deployment import ClusterDeployment
from coordinator_lab.simulation.consumer_clients import Ownership
from coordinator_lab.simulation.convergence import ConvergenceCheck
from coordinator_lab.simulation.deployment import Deployment
from coordinator_lab.simulation.disk import PowerCut
from coordinator_lab.simulation.expiry import Expiry
from coordinator_lab.simulation.history import History
from coordinator_lab.simulation.hunts import Hunt
from coordinator_lab.simulation.loop import Deadlock, Livelock, SimulatedLoop, current_process
from coordinator_lab.simulation.machine import Machine
from coordinator_lab.simulation.network import NetworkConditions, SimulatedNetwork
from coordinator_lab.simulation.plan import Plan
from coordinator_lab.simulation.population import Population
from coordinator_lab.simulation.quota_clients import QuotaInvariants
from coordinator_lab.simulation.report import Report
from coordinator_lab.simulation.server_config import ADDRESS
from coordinator_lab.simulation.share_invariants import PARCELS, ShareHistory
from coordinator_lab.simulation.wire import Caller

__all__ = ["Report", "Simulation", "run"]

EVENTS_KEPT = 200
"""Lines of the trace that a report shows."""
READY_S = 60.0
"""How long servers take at most until clients may begin."""
SETTLED_AFTER_S = 2.0
"""How long after the healing what went wrong before may still delay a response."""
CHECK_EVERY_S = 5.0
"""Mean time between two checks of the invariants in a running server."""

_server_log = logging.getLogger("coordinator")


class InvariantBroken(Exception):
    """An invariant does not hold."""


class _ServerLogHandler(logging.Handler):
    """Passes on the server's log records of level WARNING and above, and all that carry an exception."""

    def __init__(self, on_record: Callable[[str, BaseException | None], None]) -> None:
        super().__init__(logging.INFO)
        self._on_record = on_record

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if record.levelno >= logging.WARNING or error is not None:
            self._on_record(record_text(record), error)


class Simulation:
    """One run of a plan."""

    def __init__(self, plan: Plan, *, fastpath: bool = True) -> None:
        """`fastpath`: as for the server."""
        self.plan = plan
        self.report = Report(plan)
        self.events: deque[str] = deque(maxlen=EVENTS_KEPT)
        self.loop = SimulatedLoop(self.random("loop"))
        conditions = NetworkConditions(plan.network_delay_s, plan.split)
        self.network = SimulatedNetwork(self.loop, self.random("network"), conditions)
        self.loop.network = self.network
        self.history = History(self.broken)
        self.history.shards_are_held = bool(plan.workers)  # a shard loads for as long as the engine takes
        self.expiry = Expiry(self.history, plan.offsets_retention_minutes * 60_000, self._group_expired, self.broken)
        self.ledger = transaction_clients.Ledger(self.broken)
        self.shares = ShareHistory(self.broken, self.history.tick, self.loop.world_s, self.ledger)
        deployment = self._deployment = (
            ClusterDeployment(self, fastpath=fastpath) if plan.workers else Deployment(self, fastpath=fastpath)
        )
        self.machines, self.invariants, self.failures = deployment.machines, deployment.invariants, deployment.failures
        self.shares.starts = lambda: sum(machine.starts for machine in self.machines)
        self.quotas = [QuotaInvariants(self.broken) for _ in self.machines]
        self.world = clients.World(
            loop=self.loop,
            plan=plan,
            history=self.history,
            broken=self.broken,
            event=self.event,
            hunt=Hunt(self.history, self.broken, plan),
            caller=deployment.caller,
        )
        self.records = data_clients.KnownRecords(self.broken)
        self.counts = [counters.CounterModel(number, self.broken) for number in range(plan.counters)]
        self._random_linger = self.random("linger")
        self._broken: str | None = None
        self._settled_s = float("inf")
        """From this time (of the loop) on, nothing may keep a request waiting."""
        self._ownership = Ownership(self.history, self.broken)
        self.population = Population(self.world, self._ownership, self.records, self.ledger, self.counts, self.shares)
        self._workload = self.population.workload

    def random(self, purpose: str) -> Random:
        """A generator per purpose, so that one draw more in one place does not change all other draws."""
        return Random(f"{self.plan.seed} {purpose}")

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Runs to the end, or to the first broken invariant."""
        report = self.report
        handler = _ServerLogHandler(self._on_server_log)
        propagate, level = _server_log.propagate, _server_log.level
        _server_log.addHandler(handler)
        _server_log.propagate = False
        _server_log.setLevel(logging.INFO)
        self.loop.set_exception_handler(self._on_loop_exception)
        try:
            self.loop.run_until_complete(self._run_phases())
            report.broken = self._broken
        except (InvariantBroken, Deadlock, Livelock) as error:
            report.broken = self._broken or f"{type(error).__name__}: {error}"
        except RuntimeError:  # the loop was stopped
            if self._broken is None:
                raise
            report.broken = self._broken
        finally:
            _server_log.removeHandler(handler)
            _server_log.propagate = propagate
            _server_log.setLevel(level)
            self.loop.close()
        self.network.trace.update(repr(report.broken).encode())
        self._fill_in(report)
        self.loop.finalize()
        return report

    def _fill_in(self, report: Report) -> None:
        report.trace = self.network.trace.hexdigest()
        report.events = list(self.events)
        report.seconds, report.callbacks = self.loop.time(), self.loop.callbacks
        report.connections = self.network.connections
        report.starts = sum(machine.starts for machine in self.machines)
        report.failures = self.failures.struck | {
            f"rule:{kind}": count for kind, count in self.failures.rules.acted.items()
        }
        report.records = self.records.acknowledged
        report.transactions = self.ledger.committed + sum(count.committed for count in self.counts)
        report.delivered = sum(group.delivered for group in self.shares.groups.values())
        report.acknowledged, report.reads = self.history.acknowledged, self.history.reads
        report.assignments = self.history.assignments + self._ownership.assignments
        report.checks = self.invariants.checks
        report.reported = self.invariants.reported
        report.expired = self.expiry.expired
        report.forced = sum(operator.forced for operator in self._workload.operators)
        report.waits = sum(quotas.waits for quotas in self.quotas)
        self._deployment.fill_in(report)
        report.changes = self.population.metadata.acknowledged if self.population.metadata is not None else 0
        report.hunted = self.world.hunt.judged
        report.acts = sum(meddler.acts for meddler in self._workload.meddlers)

    async def _run_phases(self) -> None:
        """Safety under failures, then healing, then liveness, then an orderly stop."""
        for machine in self.machines:
            machine.start_soon()
        while not self._deployment.is_ready():
            await self.sleep(0.1)
            if self.loop.time() > READY_S:
                self.broken("servers become ready", f"not within {READY_S} s")
        watchers = [self._monitor, *self._deployment.watchers]
        tasks = [self.loop.create_task(self._start_after(0.0, watch)) for watch in watchers]
        random = self.random("clients")
        # Each client starts at a random moment of the first five seconds.
        tasks += [
            self.loop.create_task(self._start_after(random.uniform(0, 5), client.run)) for client in self.population
        ]
        failures = [self.loop.create_task(failure) for failure in self.failures.coroutines()]
        await self.sleep(self.plan.span_s)
        for task in failures:
            task.cancel()
        await self.sleep(0)  # a process that was paused gets its rules before they are cleared
        await self._heal()
        check = ConvergenceCheck(
            self.world,
            self._workload,
            self.population.auditor,
            self.ledger,
            self._deployment.servers,
            self.sleep,
            self.invariants.share_states.unfinished,
        )
        await check.wait()
        for task in tasks:
            task.cancel()
        await self.sleep(0.1)
        await self._deployment.check_at_rest(self.population)
        for machine in self.machines:
            if self._broken is None:
                await machine.stop()

    async def _start_after(self, seconds: float, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs a client, or the monitor, after a delay; an exception that escapes it ends the run."""
        await self.sleep(seconds)
        try:
            await run()
        except Exception as error:  # noqa: BLE001 - reported, not hidden
            self.broken("a client fails", repr(error))

    async def sleep(self, seconds: float) -> None:
        """Raises InvariantBroken if one broke meanwhile."""
        await self.world.sleep(seconds)
        if self._broken is not None:
            raise InvariantBroken(self._broken)

    # --- checking -----------------------------------------------------------------------------------------------------

    async def _monitor(self) -> None:
        """Checks the invariants from time to time, and restarts a server with a failed shard, as an operator would."""
        while True:
            await self.sleep(CHECK_EVERY_S * self.failures.random.uniform(0.5, 1.5))
            for machine, quotas in zip(self.machines, self.quotas, strict=True):
                self._look_at(machine, quotas)

    def _look_at(self, machine: Machine, quotas: QuotaInvariants) -> None:
        server, process = machine.server, machine.process
        if server is None or process is None or process.paused or server.closed:
            return
        self.invariants.check(server)
        quotas.watch(server)
        for found in transaction_clients.hanging_transactions(server):
            self.broken(transaction_clients.INVARIANT, f"no coordinator knows the open transaction: {found}")
        if _has_failed(server):
            if self.plan.durability == "write" or machine.random_crash.random() < 0.5:
                self.event("a log has failed: the operator restarts the server")
                machine.kill()
            else:
                self.event("a log has failed: the operator restarts the machine")
                machine.lose_power()

    async def _heal(self) -> None:
        """Ends all failures; from here on clients only make progress."""
        self.event("everything is healed")
        self.failures.is_over = True
        self.failures.clear_rules()
        await self.sleep(0.5)
        self.world.is_healed = True
        self._settled_s = self.loop.time() + SETTLED_AFTER_S
        self.network.conditions = NetworkConditions(0.001, 0.0)
        self.failures.heal()
        for machine in self.machines:
            machine.speed_up(0.001)
            disk = machine.disk
            disk.capacity_bytes = None
            disk.sync_errors.clear()
            disk.cut_never()
        self.network.cut_all()
        for machine in self.machines:
            if machine.server is not None and machine.server.stopping:
                machine.kill()

    # --- findings -----------------------------------------------------------------------------------------------------

    def broken(self, invariant: str, detail: str) -> None:
        """Reports a broken invariant. The first one ends the run."""
        if self._broken is None:
            self._broken = f"{invariant}: {detail}"
            self.event(f"BROKEN {self._broken}")
            self.loop.stop()

    def event(self, text: str) -> None:
        """Adds a line to the trace, with the time."""
        self.network.trace.update(text.encode())
        self.events.append(f"{self.loop.world_s():10.3f} {text}")

    def _group_expired(self, group_id: str) -> None:
        self.history.group_expired(group_id)
        self._ownership.group_expired(group_id)
        self.world.hunt.forget(group_id)

    def _on_server_log(self, message: str, error: BaseException | None) -> None:
        process = current_process()
        if isinstance(error, PowerCut) or (process is not None and not process.alive):
            return
        self.event(f"{'server' if process is None else process.name}: {message}")
        if error is not None:
            self.broken("no undeclared exception", f"{message}: {error!r}")

    def _on_loop_exception(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, PowerCut | InvariantBroken):
            self.broken("no undeclared exception", f"{context['message']}: {error!r}")

    # --- connections --------------------------------------------------------------------------------------------------

    def connect(self, client_id: str, machine: Machine) -> Caller:
        """A client's way to the server of a machine."""

        def healthy_server() -> object | None:
            return machine.server if self.loop.time() > self._settled_s else None

        address = machine.host, ADDRESS[1]
        return Caller(self.network, client_id, address, self.broken, self._linger_s, healthy_server)

    def _linger_s(self) -> float:
        random = self._random_linger
        return random.choice([0.5, 3.0, 12.0]) * random.random() if random.random() < self.plan.ghosts else 0.0


def _has_failed(server: Server) -> bool:
    """Whether some log accepts no more writes until a restart."""
    return any(shard.status is Status.FAILED for shard in server.shards) or _user_log_has_failed(server.topics)


def _user_log_has_failed(topics: Topics) -> bool:
    declared = {
        data_clients.EVENTS: data_clients.PARTITIONS,
        PARCELS: data_clients.PARTITIONS,
        transaction_clients.LEDGER: transaction_clients.PARTITIONS,
    }
    partitions = [topics.user_partition(name, index) for name, count in declared.items() for index in range(count)]
    return topics.metadata.has_failed or any(
        partition is not None and partition.state is State.FAILED for partition in partitions
    )


def run(plan: Plan) -> Report:
    """Runs a plan."""
    return Simulation(plan).run()
