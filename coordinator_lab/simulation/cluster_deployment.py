"""Where the workers of a run are: on machines of their own, with the simulated engine between them."""

from random import Random

from coordinator_lab.simulation.clock import LoopClock
from coordinator_lab.simulation.deployment import Deployment, Surroundings, add_log_dir, parts_of
from coordinator_lab.simulation.engine_failures import ClusterFailureInjector
from coordinator_lab.simulation.metadata_invariants import MetadataCheck
from coordinator_lab.simulation.population import Population
from coordinator_lab.simulation.report import Report
from coordinator_lab.simulation.routing import RoutingCaller
from coordinator_lab.simulation.shared_invariants import MEMORY, SharedInvariants
from coordinator_lab.simulation.shared_store import SharedStore
from coordinator_lab.simulation.take_over_invariants import TakeOverCheck
from coordinator_lab.simulation.wire import Access
from coordinator_lab.simulation.worker_machine import PORT, WorkerMachine

WALL_MS = 1_700_000_000_000
SKEW_MS_MAX = 500
"""By how much the wall clocks of machines are wrong."""
UPTIME_S_MAX = 10_000.0
"""How long machines run already, at most, when the world begins."""
EVENTS_WITHIN_S = 5.0
"""How long some shard may take to have nothing under way, when everything has converged."""
POLL_S = 0.1


class ClusterDeployment(Deployment):
    """Several machines, each with a worker."""

    def __init__(self, run: Surroundings, *, fastpath: bool) -> None:
        plan = self._plan = run.plan
        self._run = run
        store = self.store = SharedStore(run.broken)
        random = run.random("clocks")
        random_drift = run.random("drift")
        store.rate = 1 + random.uniform(-plan.clock_drift, plan.clock_drift)
        clocks = [
            LoopClock(
                run.loop.world_s,
                WALL_MS + random.randrange(-SKEW_MS_MAX, SKEW_MS_MAX),
                rate=1 + random_drift.uniform(-plan.worker_drift, plan.worker_drift),
                zero_s=random_drift.uniform(0, UPTIME_S_MAX) if plan.worker_drift else 0.0,
            )
            for _ in range(plan.workers)
        ]
        self.invariants: SharedInvariants = SharedInvariants(
            store,
            run.broken,
            run.expiry,
            lambda: max(clock.wall_ms() for clock in clocks),
            run.history.forced_epoch,
            run.shares,
        )
        workers = [
            WorkerMachine(
                plan,
                node_id,
                store,
                self.invariants,
                clock,
                loop=run.loop,
                network=run.network,
                broken=run.broken,
                fastpath=fastpath,
                **parts_of(run),
            )
            for node_id, clock in enumerate(clocks, start=1)
        ]
        for machine in workers:
            add_log_dir(machine)
        self.machines = [*workers]
        self.take_overs = TakeOverCheck(
            plan, store, workers, now_s=run.loop.world_s, is_walled=run.network.is_walled, broken=run.broken
        )
        self.watchers = [lambda: self.take_overs.run(run.sleep)]
        self.failures = ClusterFailureInjector(
            plan=plan,
            loop=run.loop,
            network=run.network,
            expiry=run.expiry,
            machines=workers,
            store=store,
            **parts_of(run),
        )
        by_address = {(machine.host, PORT): machine for machine in workers}

        def caller(client_id: str) -> Access:
            return RoutingCaller(
                client_id,
                list(by_address),
                lambda address: run.connect(client_id, by_address[address]),
                Random(f"{plan.seed} routing {client_id}"),
            )

        self.caller = caller

    def fill_in(self, report: Report) -> None:
        report.taken = self.take_overs.taken
        report.marked = self.invariants.markers.completed

    async def check_at_rest(self, population: Population) -> None:
        """Checks I39, I41, and the event logs of all shards."""
        self.invariants.markers.check_at_rest()
        await self._check_events()
        run, changer = self._run, population.metadata
        check = MetadataCheck(
            self.store,
            self.servers,
            [run.connect(f"onlooker of {machine.name}", machine) for machine in self.machines],
            lambda: {} if changer is None else changer.known,
            sleep=run.sleep,
            broken=run.broken,
        )
        await check.check()

    async def _check_events(self) -> None:
        """Checks the event log of each shard as soon as nothing of it is under way."""
        left, waited_s = set(range(self._plan.shards)), 0.0
        while True:
            for server in self.servers():
                left -= self.invariants.check_events(server)
            if not left:
                return
            if waited_s > EVENTS_WITHIN_S:
                self._run.broken(MEMORY, f"no worker has the event logs of the shards {sorted(left)}")
            await self._run.sleep(POLL_S)
            waited_s += POLL_S

    def is_ready(self) -> bool:
        """All workers know the declared topics."""
        servers = self.servers()
        return len(servers) == len(self.machines) and all(
            topic.name in server.topics.registry.topics for server in servers for topic in server.config.declared_topics
        )
