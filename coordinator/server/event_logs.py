"""The event logs: one for each shard of groups, if decisions are recorded or were (`coordinator.events`)."""

import errno
import logging
from collections.abc import Mapping, Sequence

from coordinator.config.settings import ServerConfig
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import DamagedLog, LogSettings
from coordinator.server.data_folder import shard_folder
from coordinator.topics.names import COORDINATOR_EVENTS
from coordinator.world.disk import Disk

_log = logging.getLogger(__name__)


def make_event_logs(disk: Disk, config: ServerConfig, folder: str) -> list[JournaledLog]:
    """The event log of every shard, in this folder, not opened."""
    retention_bytes = config.log.coordinator_events_retention_bytes
    retention_ms = config.log.coordinator_events_retention_ms
    settings = LogSettings(
        segment_bytes=config.log.coordinator_events_segment_bytes,
        retention_bytes=None if retention_bytes < 0 else retention_bytes,
        retention_ms=None if retention_ms < 0 else retention_ms,
    )
    return [
        JournaledLog(disk, shard_folder(folder, COORDINATOR_EVENTS, index), settings)
        for index in range(config.log.offsets_topic_num_partitions)
    ]


def open_event_logs(disk: Disk, config: ServerConfig, journaled: Mapping[str, Sequence[bytes]]) -> list[JournaledLog]:
    """Opens the event log of every shard. One that fails to open is marked as failed and does not block the start.

    `journaled`: folder -> batches in the journal.
    """
    logs = make_event_logs(disk, config, config.log_dir)
    for index, log in enumerate(logs):
        try:
            log.load_journaled(journaled.get(log.folder.rpartition("/")[2], ()), is_best_effort=True)
        except (OSError, DamagedLog) as error:
            log = logs[index] = JournaledLog(disk, log.folder, log.settings)  # noqa: PLW2901 - it is made again
            log.is_best_effort = True
            log.failed = OSError(errno.EIO, str(error))
        if log.recovery is not None:
            _log.warning("event=event_log_recovered shard=%d recovery=%s", index, log.recovery)
    return logs
