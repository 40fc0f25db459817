"""`coordinator log settle`: writes the journal of a server that was killed into the logs of its data folder.

A start does the same. Without one, Kafka's tools, a Kafka broker that takes the folder over, a version of this server without a
journal, and programs that read segment files need it, because the last batches may be in the journal only.
"""

from pathlib import Path

from coordinator.journal.recovery import make_durable, read_journal, remove_settled
from coordinator.log import catalog
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import LogSettings
from coordinator.operations.known_logs import known_logs
from coordinator.operations.log_folders import NoLogFolder
from coordinator.server import data_folder
from coordinator.topics.names import COORDINATOR_EVENTS
from coordinator.world.disk import RealDisk

_DISK = RealDisk()


def run(path: Path) -> int:
    """Settles the journal of a data folder and says how much it had. Returns 0.

    Raises NoLogFolder, CannotStart if a server uses the folder, DamagedLog if the journal or a log is damaged, and OSError.
    """
    if not path.is_dir():
        raise NoLogFolder(f"{path} is not a folder")
    with data_folder.lock(str(path)):
        found = data_folder.read_catalog(_DISK, str(path))
        recovered = read_journal(_DISK, str(path))
        data_folder.check_journal(str(path), found, recovered)
        make_durable(_DISK, recovered)
        known = known_logs(path)
        records = 0
        for name, batches in recovered.batches.items():
            is_event_log = name.startswith(f"{COORDINATOR_EVENTS}-")
            log = JournaledLog(_DISK, f"{path}/{name}", LogSettings())
            log.load_journaled(batches, known.get(name), is_best_effort=is_event_log)
            records += log.replayed
            log.close()
        if found.has_journal:
            catalog.write(_DISK, str(path), found._replace(has_journal=False))
        remove_settled(_DISK, recovered.paths)
    print(f"{records} records of {len(recovered.batches)} logs were only in the journal; now they are in the segments")
    return 0
