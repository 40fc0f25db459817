"""The journal of a simulated server, opened as the server opens it."""

from random import Random

from coordinator.journal.journal import Journal
from coordinator.journal.recovery import read_journal
from coordinator.log.journaled_log import JournaledLog

FILE_BYTES = 65_536


def open_journal(disk, folder, *, run_in_thread, soon, schedule, durability="fsync", file_bytes=FILE_BYTES, seed=0):
    """The journal, and what was in it. The caller opens the logs (`open_log`), makes their writers and calls `begin`."""
    recovered = read_journal(disk, folder)
    journal = Journal(
        disk,
        folder,
        recovered,
        durability=durability,
        file_bytes=file_bytes,
        random_bytes=Random(f"{seed} {recovered.next_sequence}").randbytes,
        run_in_thread=run_in_thread,
        soon=soon,
        schedule=schedule,
    )
    return journal, recovered


def open_log(disk, folder, settings, recovered=None, **options):
    """A journaled log, with what the journal has of it."""
    log = JournaledLog(disk, folder, settings)
    batches = recovered.batches.get(folder.rpartition("/")[2], ()) if recovered is not None else ()
    log.load_journaled(batches, **options)
    return log


class Oldest:
    """A power cut that loses everything unsynced."""

    def random(self):
        return 1.0

    def choice(self, states):
        return states[0]
