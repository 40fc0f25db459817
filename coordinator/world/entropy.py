"""Chance, handed to whoever needs a fresh id.

Member ids, topic ids and producer ids must be unguessable and never repeat, which no deterministic code can promise. So
the shell draws them here and passes them to the core as arguments; a simulation draws them from a seed instead.
"""

import os
from typing import Protocol
from uuid import UUID


class Entropy(Protocol):
    """A source of unpredictable values."""

    def uuid(self) -> str:
        """A random (version 4) UUID in its 36-character form."""

    def bytes(self, count: int) -> bytes:
        """`count` random bytes."""


class RealEntropy:
    """The operating system's randomness."""

    __slots__ = ()

    def uuid(self) -> str:
        return str(UUID(bytes=os.urandom(16), version=4))

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)
