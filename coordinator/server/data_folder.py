"""The data folder: its lock, the folders of its shards, and the cluster's id."""

import fcntl
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from coordinator.journal.recovery import Recovered
from coordinator.journal.slot import slot_name
from coordinator.log import catalog as catalog_file
from coordinator.log.catalog import NO_CATALOG, Catalog
from coordinator.log.log import DamagedLog
from coordinator.server import CannotStart
from coordinator.world.disk import Disk, RealDisk
from coordinator.world.entropy import Entropy
from coordinator.world.folder_lock import LOCK_NAME

CACHE_FOLDER = "shared-journal-cache"
"""In the data folder: the local segments of the logs that this worker has claimed. A start empties it."""

WORKERS_FOLDER = "workers"
"""In the data folder, while workers of this machine share it: what each of them copies."""
DYING_S = 3.0
"""How long a start waits for workers whose supervisor was killed: they keep the lock, and end when they notice it."""


def lock(folder: str) -> TextIO:
    """Locks the data folder for this process until the file is closed. Raises CannotStart if another process has it."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        RealDisk().sync_folder(str(path.resolve().parent))
        file = (path / LOCK_NAME).open("w", encoding="ascii")
    except OSError as error:
        raise CannotStart(f"the data folder {folder} cannot be used: {error}") from error
    try:
        _flock(file, DYING_S if (path / WORKERS_FOLDER).exists() else 0)
    except OSError as error:
        file.close()
        in_use = isinstance(error, BlockingIOError)
        reason = "is in use by another server" if in_use else f"cannot be used: {error}"
        raise CannotStart(f"the data folder {folder} {reason}") from error
    return file


def _flock(file: TextIO, patience_s: float) -> None:
    """Raises OSError if another process has the lock, and still has it after this time."""
    until_s = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until_s:
                raise
            time.sleep(DYING_S / 100)
        else:
            return


def shard_folder(data_folder: str, topic: str, index: int) -> str:
    """Where a shard's log is, as Kafka names the folder of a partition."""
    return f"{data_folder}/{topic}-{index}"


def make_shard_folders(
    disk: Disk,
    data_folder: str,
    topics: Iterable[tuple[str, int]],
    events: Iterable[tuple[str, int]],
    catalog: Catalog = NO_CATALOG,
) -> None:
    """Makes the folders of all shards and syncs the data folder once; opening each log would sync it every time.

    A folder that the catalog has is not made, because its log is lost: opening it reports that.

    It syncs even if the folders exist: if the process was killed in between, only the page cache knows them. A folder of an
    event log may fail: opening that log reports the error. `topics`, `events`: names and numbers of partitions.
    """
    for topic, count in topics:
        for index in range(count):
            if catalog.known(f"{topic}-{index}") is None:
                _make_folder(disk, shard_folder(data_folder, topic, index))
    for topic, count in events:
        for index in range(count):
            with suppress(OSError):
                _make_folder(disk, shard_folder(data_folder, topic, index))
    disk.sync_folder(data_folder)


def check_partition_count(
    disk: Disk, data_folder: str, topic: str, count: int, setting: str, *, registered: int | None, catalog: Catalog
) -> None:
    """Raises CannotStart if the topic has another number of partitions: groups would be looked for in the wrong ones.

    Kafka goes by the topic's metadata and ignores the setting once the topic exists. `registered`: what the metadata log says,
    Kafka's or ours; None if it has not the topic. Without it and a catalog, the folder may be that of a first start that was
    killed; then only shards beyond the number are noticed.
    """
    numbers = [
        int(name.removeprefix(f"{topic}-"))
        for name in [*disk.list(data_folder), *catalog.logs]
        if name.startswith(f"{topic}-") and name.removeprefix(f"{topic}-").isdecimal()
    ]
    found = max(max(numbers, default=-1) + 1, registered or 0)
    if found > count or ((catalog.logs or registered) and 0 < found < count):
        raise CannotStart(
            f"{data_folder} has {found} partitions of {topic}, and {setting} is {count}; set it to {found}"
        )


def check_not_shared(disk: Disk, data_folder: str) -> None:
    """Raises CannotStart if the groups of this data folder are in an engine."""
    if disk.exists(f"{data_folder}/{CACHE_FOLDER}"):
        raise CannotStart(
            f"the groups of {data_folder} are in an engine: set journal to its address, or choose another folder"
        )


def _make_folder(disk: Disk, folder: str) -> None:
    if not disk.exists(folder):
        disk.make_folder(folder)


def read_catalog(disk: Disk, folder: str) -> Catalog:
    """The catalog of the data folder. Raises DamagedLog if it is damaged."""
    found = catalog_file.read(disk, folder)
    if found is None:
        raise DamagedLog(f"{folder}/{catalog_file.NAME}", 0, -1, "wrong checksum")
    return found


def check_journal(folder: str, catalog: Catalog, recovered: Recovered) -> None:
    """Raises DamagedLog if the catalog has a journal and the folder has none."""
    if catalog.has_journal and not recovered.is_begun:
        reason = "the journal is missing or empty; it had records that the logs may lack"
        raise DamagedLog(next(iter(recovered.paths), f"{folder}/{slot_name(1)}"), 0, -1, reason)


def cluster_id(disk: Disk, folder: str, entropy: Entropy, catalog: Catalog = NO_CATALOG) -> str:
    """Reads the cluster's id (22 characters) from meta.properties, where Kafka keeps it, or chooses one and writes it.

    Raises CannotStart if the file has no cluster.id, and DamagedLog if it has not the one that the catalog has.
    """
    if not catalog.cluster_id:
        return stored_cluster_id(disk, folder, lambda: new_cluster_id(entropy))
    path = f"{folder}/meta.properties"
    if not disk.exists(path):
        raise DamagedLog(path, 0, -1, f"the file is missing; it had cluster.id={catalog.cluster_id}")
    stored = stored_cluster_id(disk, folder, lambda: new_cluster_id(entropy))
    if stored != catalog.cluster_id:
        reason = f"it has cluster.id={stored}; the catalog was written for {catalog.cluster_id}"
        raise DamagedLog(path, 0, -1, reason)
    return stored


def stored_cluster_id(disk: Disk, folder: str, choose: Callable[[], str]) -> str:
    """The cluster's id in meta.properties; `choose` gives that of a new folder. Raises CannotStart if the file has none."""
    path = f"{folder}/meta.properties"
    if disk.exists(path):
        for line in disk.read(path).decode("utf-8", "replace").splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "cluster.id" and value.strip():
                return value.strip()
        raise CannotStart(f"{path} has no cluster.id")
    chosen = choose()
    file = disk.open(f"{path}.tmp")
    file.truncate(0)
    file.append(f"version=1\ncluster.id={chosen}\n".encode())
    file.sync()
    file.close()
    disk.rename(f"{path}.tmp", path)
    disk.sync_folder(folder)
    return chosen


def new_cluster_id(entropy: Entropy) -> str:
    """A random cluster id of 22 characters."""
    while True:
        chosen = urlsafe_b64encode(entropy.bytes(16)).decode().rstrip("=")
        if not chosen.startswith("-"):  # Kafka avoids it too: on a command line it reads as an option
            return chosen
