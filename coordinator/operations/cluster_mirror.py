"""Keeps a folder up to date with the groups and events of a cluster, read over the network as a consumer without a group.

As journal_mirror.py does with an engine. The folder is a data folder with the cluster's own batches, so transactions and their
markers are in it. The ends of events are looked up first and events are written last, so that a shard's state is never behind
its events.

How much of a log was compacted cannot be seen over the network, so all of it counts as compacted that was there when the
reading began, or began again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from coordinator.client.login.tls import Security
from coordinator.log.batch import BatchHeader, CorruptBatch
from coordinator.operations.fork import ForkFailed
from coordinator.operations.fork.network_source import NetworkSource
from coordinator.operations.journal_access import JournalFailed, JournalUnavailable
from coordinator.operations.journal_export import write_identity
from coordinator.operations.journal_mirror import MirroredLog, Wait, followed
from coordinator.operations.known_logs import META_PROPERTIES
from coordinator.topics.names import CONSUMER_OFFSETS, COORDINATOR_EVENTS, SHARE_GROUP_STATE

_TOPICS = (CONSUMER_OFFSETS, SHARE_GROUP_STATE, COORDINATOR_EVENTS)
"""In the order in which they are written."""


class ClusterMirror:
    """A folder that gets what the cluster has."""

    def __init__(self, bootstrap: str, timeout_s: float, security: Security, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._security = security
        self._folder = folder
        self._logs: dict[str, MirroredLog] = {}

    def catch_up(self) -> None:
        """Copies what the cluster has and the folder lacks. Raises JournalFailed, OSError."""
        try:
            source = NetworkSource(self._bootstrap, self._timeout_s, self._security)
            try:
                self._catch_up(source)
            finally:
                source.close()
        except ForkFailed as error:
            raise JournalUnavailable(str(error)) from error
        except CorruptBatch as error:
            raise JournalFailed(f"{self._bootstrap}: {error}") from error

    def _catch_up(self, source: NetworkSource) -> None:
        found = {topic: source.partitions(topic) for topic in reversed(_TOPICS)}
        if not found[CONSUMER_OFFSETS]:
            raise JournalFailed(
                f"{self._bootstrap} has no topic {CONSUMER_OFFSETS} (Kafka creates it with the first group)"
            )
        self._check_cluster(source.cluster_id())
        for topic in _TOPICS:
            for index in found[topic]:
                self._copy(source, topic, index)

    def _check_cluster(self, here: str) -> None:
        note = self._folder / META_PROPERTIES
        if not note.is_file():
            write_identity(self._folder, here)
        elif f"cluster.id={here}" not in note.read_text(encoding="ascii").split():
            raise JournalFailed(f"{self._folder} follows another cluster than {here}: name another folder")

    def _copy(self, source: NetworkSource, topic: str, index: int) -> None:
        name, end = f"{topic}-{index}", source.end_offset(topic, index)
        is_new = name not in self._logs
        log = self._logs[name] = self._logs.get(name) or MirroredLog(self._folder, name)
        if end < log.end_offset:
            raise JournalFailed(f"{name} ends at offset {end}, but {self._folder} has it up to {log.end_offset}")
        if end == log.end_offset:
            return
        if is_new and topic != COORDINATOR_EVENTS:
            log.mark_compacted(end)

        def visit(data: bytes, position: int, header: BatchHeader, _where: str) -> None:
            log.write(data[position : position + header.size_bytes])

        source.read(topic, index, visit, lambda _records: None, since=log.end_offset)
        log.sync()

    def close(self) -> None:
        """Closes all files."""
        for log in self._logs.values():
            log.close()


@contextmanager
def mirrored_cluster(
    bootstrap: str, timeout_s: float, security: Security, folder: Path, interval_s: float | None
) -> Iterator[Callable[[], None]]:
    """A folder that follows a cluster, as `journal_mirror.followed`. Raises JournalFailed, CannotStart, OSError."""
    mirror = ClusterMirror(bootstrap, timeout_s, security, folder)

    def repeat(wait: Wait) -> None:
        while not wait():
            mirror.catch_up()

    try:
        with followed(folder, mirror.catch_up, repeat, interval_s) as check:
            yield check
    finally:
        mirror.close()


@contextmanager
def copied_cluster(bootstrap: str, timeout_s: float, security: Security) -> Iterator[Path]:
    """A temporary folder with the groups and events that a cluster has now. Raises JournalFailed, OSError."""
    with TemporaryDirectory(prefix="coordinator-cluster-") as folder:
        mirror = ClusterMirror(bootstrap, timeout_s, security, Path(folder))
        try:
            mirror.catch_up()
        finally:
            mirror.close()
        yield Path(folder)
