"""The soft state of a share group: caches for heartbeats, and what the share coordinator was asked for.

Who may change it, and when it is lost: epochs/soft_state.py.
"""

from typing import NamedTuple, Self

from coordinator.groups.epochs.soft_state import SoftState
from coordinator.groups.settings import ShareSettings
from coordinator.groups.share.member import ShareMember
from coordinator.runtime.result import Result


class CachedHeartbeat(NamedTuple):
    """The answer to a member that has nothing to say and nothing to hear, and what it depends on (heartbeat.py)."""

    result: Result
    member: ShareMember
    settings: ShareSettings


class ShareSoftState(SoftState):
    """The memory of a share group beyond its log."""

    __slots__ = ("catalog_version", "initializing_since_ms")

    cached_heartbeats: dict[str, CachedHeartbeat]

    def __init__(self) -> None:
        super().__init__()
        self.catalog_version: int | None = None
        """The version of the topic catalog for which the group's metadata hash is known to be right."""
        self.initializing_since_ms: dict[bytes, int] = {}
        """Topic id -> when the share coordinator was asked for the states of its partitions, by the wall clock. Without an
        entry it was not, whatever the log says."""

    def take_over(self, uncommitted: Self) -> None:
        super().take_over(uncommitted)
        self.catalog_version = uncommitted.catalog_version
        self.initializing_since_ms = uncommitted.initializing_since_ms
