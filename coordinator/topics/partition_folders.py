"""The folders of partitions: opened at a start, deleted with their topics.

A folder that could not be deleted, or whose deletion was interrupted, is removed at the next start: the registry knows the
names of deleted topics as long as their folders may exist.
"""

from collections.abc import Callable

from coordinator.log.catalog import Catalog, KnownLog
from coordinator.runtime.result import Fact
from coordinator.topics import names
from coordinator.topics.partition import Partition, State
from coordinator.topics.registry import Registry
from coordinator.world.disk import Disk


class PartitionFolders:
    """The folders below `data_folder`."""

    def __init__(self, disk: Disk, data_folder: str, on_fact: Callable[[Fact], None]) -> None:
        self._disk = disk
        self._data_folder = data_folder
        self._on_fact = on_fact

    def path(self, topic: str, index: int) -> str:
        """The folder of a partition."""
        return f"{self._data_folder}/{topic}-{index}"

    def open_all(
        self, registry: Registry, catalog: Catalog, partition_of: Callable[[str, int], Partition | None]
    ) -> None:
        """Opens the partitions that have a folder or should have one, and removes the folders of deleted topics.

        Raises OSError.
        """
        present = self._disk.list(self._data_folder)
        for folder in [*present, *(name for name in catalog.logs if name not in set(present))]:
            name, _, number = folder.rpartition("-")
            if not number.isdecimal() or name in names.INTERNAL or name == names.CLUSTER_METADATA:
                continue
            if name in registry.removed:
                self._remove(f"{self._data_folder}/{folder}")
                continue
            partition = partition_of(name, int(number))
            known = catalog.known(folder, registry.topics[name].topic_id.hex()) if partition is not None else None
            if partition is not None and (known is not None or folder in present):
                self._open(partition, folder, known)
            elif folder in present:
                self._on_fact(Fact("folder_of_no_topic", {"folder": folder}))

    def _open(self, partition: Partition, folder: str, known: KnownLog | None) -> None:
        partition.open(known)
        if partition.log is not None and partition.log.recovery is not None:
            report = partition.log.recovery
            fields = {"file": report.file, "bytes": report.bytes_cut, "next_offset": report.next_offset}
            self._on_fact(Fact("log_tail_cut", fields))
        if partition.state is State.FAILED:
            self._on_fact(Fact("partition_failed", {"folder": folder, "reason": partition.reason}))

    def delete(self, partition: Partition) -> bool:
        """Deletes a partition's folder; returns False if it must be left to the next start."""
        try:
            if partition.log is not None:
                partition.log.delete()
            elif partition.was_opened and self._disk.exists(partition.folder):  # thousands of checks would take long
                self._remove(partition.folder)
        except OSError as error:
            self._on_fact(Fact("topic_folder_left", {"folder": partition.folder, "error": str(error)}))
            return False
        return True

    def _remove(self, folder: str) -> None:
        for name in self._disk.list(folder):
            self._disk.remove(f"{folder}/{name}")
        self._disk.remove_folder(folder)
        self._disk.sync_folder(self._data_folder)
