"""The process that supervises the workers of one machine: it keeps the data folder, runs the workers, and says when they serve.

It prints one line when all workers are ready, as a server without workers does. A stop lets the workers give their shards back
first, then settles the journal. If the journal fails for good, or a worker cannot start at first, the process ends with all
workers, because it cannot serve.
"""

import asyncio
import dataclasses
import importlib
import logging
import signal
from contextlib import suppress
from secrets import token_urlsafe
from typing import TextIO

from coordinator.admin.server import AdminServer, ProtocolFactory
from coordinator.admin.workers.machine import Machine
from coordinator.cluster.supervisor.kept_folder import KeptFolder
from coordinator.cluster.supervisor.ports import Ports, PortTaken
from coordinator.cluster.supervisor.processes import WorkerFailed, WorkerProcess, WorkerStart
from coordinator.config.settings import AdminConfig, ServerConfig, joined
from coordinator.server import CannotStart
from coordinator.server.admin_protection import admin_protection
from coordinator.server.data_folder import WORKERS_FOLDER
from coordinator.server.process import run_locked, say_ready, stop_signal
from coordinator.topics.names import CONSUMER_OFFSETS, COORDINATOR_EVENTS, SHARE_GROUP_STATE, TRANSACTION_STATE
from coordinator.world.clock import RealClock
from coordinator.world.disk import RealDisk
from coordinator.world.entropy import RealEntropy
from coordinator.world.threads import ThreadPool

_log = logging.getLogger(__name__)

DISK_THREADS = 4
LOOK_S = 0.5
MORE_BYTES = 4_096
"""How much longer the head and the body of a request may get on their way to a worker."""
HUNG_AFTER = 3
"""A worker that has not beaten for so many beat time-outs is killed."""
STOP_MARGIN_S = 10.0
"""How long a worker may take to stop, beside the time that it gives its clients."""


def run(config: ServerConfig, started_s: float) -> int:
    """As `process.run`, for several workers."""
    return run_locked(config, lambda lock: _supervise(config, started_s, lock))


async def _supervise(config: ServerConfig, started_s: float, lock: TextIO) -> None:
    """Runs until SIGTERM or SIGINT. `lock`: of the data folder; the workers keep it, too. Raises CannotStart, DamagedLog."""
    loop, clock = asyncio.get_running_loop(), RealClock()
    stop = stop_signal(loop)
    folder = KeptFolder(config, clock, RealDisk(), RealEntropy(), ThreadPool(loop, DISK_THREADS))
    try:
        supervision = Supervision(config, folder, lock)
    except CannotStart:
        await folder.close()
        raise
    try:
        bootstrap, admin = await supervision.begin()
        say_ready(bootstrap, admin, started_s, clock, workers=[worker.pid for worker in supervision.workers])
        await supervision.watch(stop)
    finally:
        _log.info("event=stopping")
        await supervision.end()
        await folder.close()
    _log.info("event=stopped")


class Supervision:
    """The workers over one folder."""

    def __init__(self, config: ServerConfig, folder: KeptFolder, lock: TextIO) -> None:
        """Raises CannotStart."""
        shared = config.shared
        self._config = config
        self._folder = folder
        self._token = token_urlsafe()
        try:
            self._ports = Ports(config.listeners, shared.workers, shared.workers_listener_port, folder.own_ports)
        except PortTaken as error:
            raise CannotStart(str(error)) from error
        folder.note_own_ports(self._ports.own)
        self._counts = folder.empty_counts()
        self.workers = [
            WorkerProcess(self._start_of(number), folder.connect, (lock.fileno(),)) for number in range(shared.workers)
        ]
        self._keepers: list[asyncio.Task[None]] = []
        self._machine = self._make_machine()
        for worker in self.workers:
            worker.on_ready = self._machine.worker_ready
        folder.on_fault_acted = self._machine.fault_acted
        self._admin = AdminServer(self._machine, config.admin, *admin_protection(config.admin), load=_import_routes)

    def _start_of(self, number: int) -> WorkerStart:
        config = self._config
        has_topics = config.shared.data_plane == "local"
        own_folder = f"{config.log_dir}/{WORKERS_FOLDER}/{number}"
        own = dataclasses.replace(
            config,
            node_id=config.node_id + number,
            log_dir=config.log_dir if has_topics and number == 0 else own_folder,
            listeners=self._ports.listeners_of(number),
            admin=_behind(config.admin, self._token),
        )
        return WorkerStart(
            number=number,
            workers=config.shared.workers,
            config=own,
            folder=f"{own_folder}/cache",
            counts=self._counts,
            endpoint=-1,
            data_node=config.node_id if has_topics else None,
        )

    # --- the life of the workers --------------------------------------------------------------------------------------

    async def begin(self) -> tuple[str, str]:
        """Starts the workers; returns the bootstrap address and the admin URL. Raises CannotStart."""
        admin = self._config.admin
        try:
            port = await self._admin.start()
        except OSError as error:
            raise CannotStart(f"cannot listen on {admin.host}:{admin.port}: {error}") from error
        try:
            async with asyncio.TaskGroup() as starts:
                for worker in self.workers:
                    starts.create_task(worker.begin())
        except* WorkerFailed as failed:
            raise CannotStart("; ".join(str(each) for each in failed.exceptions)) from failed
        self._keepers = [asyncio.create_task(worker.keep()) for worker in self.workers]
        return (
            self._addresses()[0],
            f"{'https' if admin.admin_ssl_keystore_location else 'http'}://{admin.host}:{port}",
        )

    def _addresses(self) -> list[str]:
        """The addresses that all workers share, as clients get them."""
        return [
            joined(each.advertised_host or each.host, each.advertised_port or port)
            for each, port in zip(self._config.listeners, self._ports.shared, strict=True)
        ]

    async def watch(self, stop: asyncio.Event) -> None:
        """Kills workers that hang, until a stop is asked for. Raises CannotStart if the journal has failed for good."""
        while not stop.is_set():
            failed = self._folder.journal.failed
            if failed is not None:
                raise CannotStart(f"the journal has failed: {failed}")
            for number in self._hung():
                _log.error("event=worker_killed worker=%d reason=%s", number, "it does not beat")
                self.workers[number].signal(signal.SIGKILL)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await stop.wait()

    def _hung(self) -> list[int]:
        limit_ms = HUNG_AFTER * self._config.shared.journal_beat_timeout_ms
        connections = self._folder.connections
        silent = [
            number
            for number, connection in connections.items()
            if self._folder.members.silent_ms(connection) > limit_ms
        ]
        return [number for number in silent if not connections[number].closed.is_set()]

    async def end(self) -> None:
        """Stops the workers, which give their shards back."""
        for keeper in self._keepers:
            keeper.cancel()
        within_s = self._config.shutdown_time_ms / 1000 + STOP_MARGIN_S
        await asyncio.gather(*(worker.stop(within_s) for worker in self.workers))
        await self._admin.stop()
        self._ports.close()

    # --- what admin HTTP says -----------------------------------------------------------------------------------------

    def _make_machine(self) -> Machine:
        folder = self._folder
        return Machine(
            config=self._config,
            token=self._token,
            addresses=self._addresses(),
            workers=self.workers,
            owner_of=self._owner_of,
            not_served=self._not_served,
            metrics=self._metrics,
            event_logs=folder.event_logs,
            event_readers=lambda shard: folder.store.kept(f"{COORDINATOR_EVENTS}-{shard}").readers,
            wall_ms=folder.clock.wall_ms,
            run_in_thread=folder.threads.submit,
        )

    def _owner_of(self, log: str) -> int | None:
        owner = self._folder.store.owners().get(log)
        return None if owner is None or owner.worker is None else owner.worker.node_id - self._config.node_id

    def _not_served(self) -> list[str]:
        living = {worker.id for worker in self._folder.members.living(self._config.shared.journal_beat_timeout_ms)}
        owners = self._folder.store.owners()
        counts = {
            CONSUMER_OFFSETS: self._config.log.offsets_topic_num_partitions,
            TRANSACTION_STATE: self._config.log.transaction_state_log_num_partitions,
            SHARE_GROUP_STATE: self._config.log.share_coordinator_state_topic_num_partitions,
        }
        logs = [f"{topic}-{index}" for topic, count in counts.items() for index in range(count)]
        served = {name for name, owner in owners.items() if owner.worker is not None and owner.worker.id in living}
        return [name for name in logs if name not in served]

    def _metrics(self) -> str:
        store, journal = self._folder.store, self._folder.journal
        families = [
            ("coordinator_supervisor_appends_total", "Appends of workers that were accepted.", store.appends),
            ("coordinator_supervisor_refused_total", "Logs of which an append was refused.", store.refused),
            ("coordinator_supervisor_entries_total", "Entries of the journal, each with one sync.", journal.entries),
        ]
        lines = [
            line
            for name, text, value in families
            for line in (f"# HELP {name} {text}", f"# TYPE {name} counter", f"{name} {value}")
        ]
        name = "coordinator_worker_restarts_total"
        lines += [f"# HELP {name} Restarts of a worker that has ended.", f"# TYPE {name} counter"]
        lines += [f'{name}{{worker="{worker.number}"}} {worker.restarts}' for worker in self.workers]
        return "".join(f"{line}\n" for line in lines)


def _behind(admin: AdminConfig, token: str) -> AdminConfig:
    """Admin HTTP of a worker: on loopback, for the supervisor alone."""
    return dataclasses.replace(
        admin,
        behind=("127.0.0.1", 0),
        admin_token=token,
        admin_token_file="",
        admin_anonymous="none",
        admin_ssl_keystore_location="",
        admin_ssl_truststore_location="",
        admin_header_bytes=admin.admin_header_bytes + MORE_BYTES,
        admin_body_bytes=admin.admin_body_bytes + MORE_BYTES,
    )


def _import_routes() -> ProtocolFactory:
    factory: ProtocolFactory = importlib.import_module("coordinator.admin.workers.routes").protocol_factory
    return factory
