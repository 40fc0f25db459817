"""The disk of the simulated machine: it lets appends fail, and ends the server the moment the power goes."""

from collections.abc import Callable
from random import Random

from coordinator.world.disk import File
from coordinator_lab.simulation.disk import Inode, PowerCut, SimulatedDisk, SimulatedFile


class MachineDisk(SimulatedDisk):
    """A simulated disk with two hooks.

    `on_power_cut` is called before `PowerCut` is raised, and `before_append(path)` before each append; it may raise the OSError
    that the append is to fail with.
    """

    def __init__(self, short_writes: Random | None, on_power_cut: Callable[[], None]) -> None:
        super().__init__(short_writes=short_writes)
        self.before_append: Callable[[str], None] = lambda _path: None
        self._on_power_cut = on_power_cut

    def open(self, path: str) -> File:
        super().open(path).close()
        return _MachineFile(self, self._file(path), path)

    def count_operation(self) -> None:
        try:
            super().count_operation()
        except PowerCut:
            self._on_power_cut()
            raise


class _MachineFile(SimulatedFile):
    __slots__ = ("_machine_disk", "_path")

    def __init__(self, disk: MachineDisk, node: Inode, path: str) -> None:
        super().__init__(disk, node)
        self._machine_disk = disk
        self._path = path

    def append(self, data: bytes) -> None:
        self._machine_disk.before_append(self._path)
        super().append(data)
