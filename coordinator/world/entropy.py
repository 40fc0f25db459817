"""Randomness for new ids.

Member ids and topic ids must be unguessable and unique, which deterministic code cannot provide. The shell draws them here
and passes them to the core as arguments; a simulation draws them from a seed.
"""

import os
from typing import Protocol

_VARIANTS = "89ab"
"""The hex digits that encode the variant of a UUID in RFC 9562."""


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
        digits = os.urandom(16).hex()
        variant = _VARIANTS[int(digits[16], 16) & 3]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)
