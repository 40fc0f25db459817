"""What no restart takes back: an epoch above all before it. Markers of transactions have it, and partitions refuse lower ones.

A file in the data folder has a number that no epoch exceeds. It is raised by `RESERVED`, durably, before the first epoch above
it is used, and an orderly stop sets it to the highest one that was used. A server without workers gives its markers this
number, so that workers and a single server may take turns.

The first number is far above what a folder of Kafka has: the epoch of a coordinator there is the number of its elections.
"""

from coordinator.log.recovery import DamagedLog
from coordinator.log.segment_list import sealed, unsealed, write_durably
from coordinator.world.disk import Disk

NAME = "coordinator-epoch"
_VERSION = b"0"
RESERVED = 1_000
FIRST = 1 << 20


def read_epoch(disk: Disk, folder: str) -> int | None:
    """A number that no epoch in the data folder exceeds; None if it never had workers. Raises OSError, DamagedLog."""
    path = f"{folder}/{NAME}"
    if not disk.exists(path):
        return None
    lines = unsealed(disk.read(path))
    if lines is None or len(lines) != 2 or lines[0] != _VERSION or not lines[1].isdigit():
        raise DamagedLog(path, 0, -1, "wrong checksum or version")
    return int(lines[1])


class EpochSource:
    """Gives out the epochs of claims: those of a log ascend, and all are above those of earlier runs."""

    def __init__(self, disk: Disk, folder: str, first: int = FIRST) -> None:
        """`first`: of a folder that never had workers. Raises OSError, DamagedLog."""
        found = read_epoch(disk, folder)
        self._disk = disk
        self._folder = folder
        self._base = first - 1 if found is None else found
        self._last = self._reserved = self._base

    def after(self, epoch: int) -> int:
        """The epoch that a log gets after this one; 0: it has none. Raises OSError."""
        chosen = max(epoch, self._base) + 1
        if chosen > self._reserved:
            self._write(chosen + RESERVED)
        self._last = max(self._last, chosen)
        return chosen

    def settle(self) -> None:
        """Notes the highest epoch, in an orderly stop. Raises OSError; then some epochs are never used."""
        if self._reserved != self._last:
            self._write(self._last)

    def _write(self, number: int) -> None:
        write_durably(self._disk, self._folder, NAME, sealed([_VERSION, b"%d" % number]))
        self._reserved = number
