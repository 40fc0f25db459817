"""The data folder of several workers, as their supervisor keeps it: the logs, the journal, the catalog, compaction.

It does with the internal logs what a server does that has no workers, so that such a server can take the folder over, and
leaves the folders of topics to the worker that has them.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from coordinator.cluster.supervisor.store import Members, Store
from coordinator.cluster.supervisor.worker_connection import WorkerConnection
from coordinator.cluster.workers.joining import CLUSTER_LOG
from coordinator.config.settings import ServerConfig
from coordinator.log.catalog import NO_ID, KnownLog
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import LogSettings
from coordinator.log.segment_list import sealed, unsealed, write_durably
from coordinator.runtime.cleaner import Cleaner
from coordinator.server.catalog_keeper import CatalogKeeper
from coordinator.server.data_folder import WORKERS_FOLDER, read_catalog, shard_folder
from coordinator.server.epochs import EpochSource
from coordinator.server.event_logs import open_event_logs
from coordinator.server.internal_logs import EmbeddedLogs, LogParts
from coordinator.topics.names import (
    CONSUMER_OFFSETS,
    COORDINATOR_EVENTS,
    INTERNAL,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from coordinator.topics.topics import METADATA_FOLDER
from coordinator.world.clock import Clock
from coordinator.world.disk import Disk
from coordinator.world.entropy import Entropy
from coordinator.world.schedule import Handle
from coordinator.world.threads import Threads

_log = logging.getLogger(__name__)

KNOWN_LOGS = "known_logs"
"""What the worker with the records of topics says about their logs, for the catalog."""
FAULT_ACTED = "fault_acted"
"""An action of a fault rule at a worker."""
PORTS = "ports"
WRITES_POLL_S = 0.001


class KeptFolder:
    """The folder, from the first byte that is read until it is settled."""

    def __init__(self, config: ServerConfig, clock: Clock, disk: Disk, entropy: Entropy, threads: Threads) -> None:
        """Reads it. Raises CannotStart, DamagedLog, OSError."""
        loop = asyncio.get_running_loop()

        def schedule(delay_ms: int, call: Any) -> Handle:
            return loop.call_later(delay_ms / 1000, call)

        catalog = read_catalog(disk, config.log_dir)
        parts = LogParts(
            config=config,
            disk=disk,
            entropy=entropy,
            catalog=catalog,
            run_in_thread=threads.submit,
            soon=loop.call_soon,
            schedule=schedule,
            observe=None,
        )
        self._config = config
        self.clock = clock
        self._disk = disk
        self.threads = threads
        self._schedule = schedule
        self._internal = EmbeddedLogs(parts)
        self.journal = self._internal.journal
        self._internal.make_folders(None)
        self._shard_logs = [*self._open_shards()]
        self._metadata = self._log(METADATA_FOLDER, LogSettings(segment_ms=None, retention_ms=None))
        has_events = self._internal.writes_events or disk.exists(shard_folder(config.log_dir, COORDINATOR_EVENTS, 0))
        self.event_logs = open_event_logs(disk, config, self._internal.journaled) if has_events else []
        self._epochs = EpochSource(disk, config.log_dir)
        self.members = Members(clock.machine_ms)
        logs = {log.folder.rpartition("/")[2]: log for log in (*self._shard_logs, self._metadata, *self.event_logs)}
        self.store = Store(
            logs, self.journal.writer, self._epochs, self.members, {CLUSTER_LOG: self._internal.cluster_id.encode()}
        )
        self.journal.begin()
        self.on_fault_acted: Callable[[Any], None] = lambda _acted: None
        """Called with each action of a fault rule, as JSON has it."""
        self.connections: dict[int, WorkerConnection] = {}
        """The connections of the workers, by number."""
        self._known = [known for known in catalog.logs.values() if known.folder.rpartition("-")[0] not in INTERNAL]
        self._known = [known for known in self._known if known.folder != METADATA_FOLDER]
        self.cleaner = Cleaner(
            lambda: [
                log for log in self._shard_logs if not log.folder.rpartition("/")[2].startswith(SHARE_GROUP_STATE)
            ],
            clock,
            run_in_thread=threads.submit,
            soon=loop.call_soon,
            schedule=schedule,
            backoff_ms=config.log.log_cleaner_backoff_ms,
        )
        self._keeper = CatalogKeeper(
            disk,
            config.log_dir,
            catalog,
            self._internal.cluster_id,
            self._known_logs,
            lambda: self.journal.has_slots,
            run_in_thread=threads.submit,
            schedule=schedule,
        )
        self._keeper.begin()
        self._retention = self._schedule_retention()

    def _open_shards(self) -> Iterator[JournaledLog]:
        log = self._config.log
        for topic, count, segment_bytes in (
            (CONSUMER_OFFSETS, log.offsets_topic_num_partitions, log.offsets_topic_segment_bytes),
            (TRANSACTION_STATE, log.transaction_state_log_num_partitions, log.transaction_state_log_segment_bytes),
            (
                SHARE_GROUP_STATE,
                log.share_coordinator_state_topic_num_partitions,
                log.share_coordinator_state_topic_segment_bytes,
            ),
        ):
            settings = LogSettings(
                segment_bytes=segment_bytes,
                segment_ms=None,
                retention_ms=None,
                delete_retention_ms=log.log_cleaner_delete_retention_ms,
            )
            for index in range(count):
                yield self._log(f"{topic}-{index}", settings)

    def _log(self, name: str, settings: LogSettings) -> JournaledLog:
        log = JournaledLog(self._disk, f"{self._config.log_dir}/{name}", settings)
        self._internal.load_log(log, name)
        return log

    # --- ports --------------------------------------------------------------------------------------------------------

    @property
    def own_ports(self) -> list[int]:
        """The ports that the workers had in the last run, as far as that is known."""
        try:
            lines = unsealed(self._disk.read(f"{self._config.log_dir}/{WORKERS_FOLDER}/{PORTS}"))
        except OSError:
            return []
        return [int(line) for line in lines or () if line.isdigit()]

    def note_own_ports(self, ports: Sequence[int]) -> None:
        """Notes them for the next run: clients may know them. Raises OSError."""
        folder = f"{self._config.log_dir}/{WORKERS_FOLDER}"
        self._disk.make_folder(folder)
        write_durably(self._disk, folder, PORTS, sealed([b"%d" % port for port in ports]))

    def empty_counts(self) -> str:
        """Removes what fault rules of the last run have counted; returns the folder. Raises OSError."""
        folder = f"{self._config.log_dir}/{WORKERS_FOLDER}/counts"
        self._disk.make_folder(folder)
        for name in self._disk.list(folder):
            self._disk.remove(f"{folder}/{name}")
        return folder

    # --- while it is served -------------------------------------------------------------------------------------------

    async def connect(self, number: int) -> socket.socket:
        """A worker's end of a new connection."""
        ours, theirs = socket.socketpair()
        connection = WorkerConnection(self.store, self._noted)
        await connection.open(ours)
        self.connections[number] = connection
        return theirs

    def _noted(self, name: str, value: Any) -> None:
        if name == KNOWN_LOGS:
            self._known = [KnownLog(*each) for each in value]
        elif name == FAULT_ACTED:
            self.on_fault_acted(value)

    def _known_logs(self) -> Iterator[KnownLog]:
        for log in (self._metadata, *self._shard_logs):
            known = log.known(NO_ID)
            if known is not None:
                yield known
        yield from self._known

    def _schedule_retention(self) -> Handle:
        return self._schedule(self._config.topics.log_retention_check_interval_ms, self._retain_events)

    def _retain_events(self) -> None:
        for log in self.event_logs:
            if log.failed is None:
                try:
                    log.apply_retention(self.clock.wall_ms())
                except OSError as error:
                    _log.warning("event=event_log_retention_failed log=%s reason=%s", log.folder, error)
        self._retention = self._schedule_retention()

    # --- stop ---------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Settles the journal and closes everything. The workers must be gone."""
        for connection in self.connections.values():
            connection.close()
        self._retention.cancel()
        self.cleaner.stop()
        self._keeper.stop()
        while not (self.cleaner.idle and self._keeper.idle and self.journal.idle):  # noqa: ASYNC110 - once per process
            await asyncio.sleep(WRITES_POLL_S)
        self.journal.stop()
        self.threads.close()
        await asyncio.sleep(0)
        for log in (*self._shard_logs, self._metadata, *self.event_logs):
            self._internal.close_log(log)
        self.journal.settle()
        # An old catalog may still ask for the journal, and the next start would refuse a folder without it.
        self.journal.close(keeps_files=not self._keeper.write())
        try:
            self._epochs.settle()
        except OSError as error:
            _log.warning("event=epoch_not_settled reason=%s", error)
