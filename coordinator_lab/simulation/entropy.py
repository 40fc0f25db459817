"""Seeded entropy: every id of a run is the same when the run is repeated."""

from random import Random
from uuid import UUID


class SeededEntropy:
    """The simulated twin of `world.entropy.RealEntropy`."""

    __slots__ = ("_random",)

    def __init__(self, random: Random) -> None:
        self._random = random

    def uuid(self) -> str:
        return str(UUID(bytes=self._random.randbytes(16), version=4))

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)
