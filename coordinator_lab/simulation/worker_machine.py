"""A simulated machine on which a worker runs: its server shares a journal with others, over the simulated engine."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from coordinator.cluster.engine.engine import EngineSettings
from coordinator.cluster.sharing import Sharing
from coordinator.config.access_control import STANDARD_AUTHORIZER, AccessControlConfig
from coordinator.config.settings import ServerConfig
from coordinator.config.sharing import SharedConfig
from coordinator.server import CannotStart
from coordinator.server.composition import Server
from coordinator_lab.simulation.clock import LoopClock
from coordinator_lab.simulation.engine_wire import EngineWire
from coordinator_lab.simulation.machine import Machine
from coordinator_lab.simulation.memory_engine import MemoryEngine
from coordinator_lab.simulation.plan import Plan
from coordinator_lab.simulation.server_config import server_config
from coordinator_lab.simulation.shared_invariants import SharedInvariants
from coordinator_lab.simulation.shared_store import SharedStore
from coordinator_lab.simulation.threads import SimulatedThreads

PORT = 9092
SETTINGS = EngineSettings(append_timeout_ms=2_000)


def host_of(node_id: int) -> str:
    """The host of a worker."""
    return f"10.0.1.{node_id}"


def is_worker(host: str) -> bool:
    """Whether it is the host of a worker, not of a client."""
    return host.startswith("10.0.1.")


def worker_config(plan: Plan, node_id: int) -> ServerConfig:
    """The configuration of a worker. Records of topics are nowhere: only one worker could have them."""
    config, host = server_config(plan), host_of(node_id)
    access_control = AccessControlConfig(
        authorizer_class_name=STANDARD_AUTHORIZER if plan.metadata_s else "", super_users="User:ANONYMOUS"
    )
    return replace(
        config,
        node_id=node_id,
        listeners=tuple(replace(each, host=host) for each in config.listeners),
        admin=replace(config.admin, host=host),
        shared=SharedConfig(journal="memory", data_plane="none"),
        access_control=access_control,
    )


class WorkerMachine(Machine):
    """Runs the processes of one worker."""

    def __init__(
        self, plan: Plan, node_id: int, store: SharedStore, invariants: SharedInvariants, clock: LoopClock,
        *, random: Callable[[str], Random], **parts: Any,
    ) -> None:  # fmt: skip
        """`random` and `parts` as for `Machine`."""

        def own(purpose: str) -> Random:
            return random(f"{purpose} {node_id}")

        config = worker_config(plan, node_id)
        super().__init__(
            plan=plan, config=config, clock=clock, invariants=invariants, random=own, name=f"worker-{node_id}", **parts
        )
        self.wire = EngineWire(
            self._loop.world_s, own("engine"), plan.engine_delay_s, plan.engine_faults, plan.lost_notifications
        )
        self.engine: MemoryEngine | None = None
        """The way to the engine of the last process."""
        self.sharing: Sharing | None = None
        """That of the last process."""
        self.made: Server | None = None
        """The server of the last process, also while it starts."""
        self._store = store
        self._checks = invariants

    async def _make_server(self, threads: SimulatedThreads) -> Server:
        self.made = None
        engine = self.engine = MemoryEngine(self._store, SETTINGS, self.wire)
        sharing = self.sharing = Sharing(self._config, engine, SETTINGS, self.clock, self._entropy)
        sharing.metadata_pieces = self._plan.metadata_pieces
        await sharing.join()
        server = Server(
            self._config, self._loop, self.clock, self.disk, self._entropy, threads,
            fastpath=self._fastpath, open_logs=sharing.open_logs,
        )  # fmt: skip
        self._checks.attach(server)
        self.made = server
        return server

    def _may_fail_to_start(self, error: Exception) -> bool:
        """A worker that does not reach the engine ends, and is started again."""
        return self.disk_may_fail or isinstance(error, CannotStart)

    async def _stop_server(self, server: Server) -> None:
        sharing = self.sharing
        await server.stop()
        assert sharing is not None
        await sharing.close()
