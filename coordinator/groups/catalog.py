"""The topics of the server, as far as groups need to know them (topics/engine.py)."""

from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

NO_DELETIONS: Mapping[str, tuple[int, str]] = MappingProxyType({})


class Catalog(Protocol):
    """The topics, as far as groups need to know them."""

    @property
    def version(self) -> int:
        """Changes whenever a topic is created, grown or deleted."""

    @property
    def deletions(self) -> Mapping[str, tuple[int, str]]:
        """Topic -> when a client of this server deleted it (wall clock, ms), and who; of the last ones."""

    def topic_names(self) -> Sequence[str]: ...
    def topic_id(self, name: str) -> bytes | None: ...
    def topic_name(self, topic_id: bytes) -> str | None: ...
    def partition_count(self, name: str) -> int | None: ...


def with_deletions(reason: str | None, catalog: Catalog, names: Container[str], since_ms: int) -> str | None:
    """The reason of a rebalance, with which of these topics were deleted since, and who asked for it."""
    deleted = [
        f"{name} was deleted; asked for by {who}"
        for name, (deleted_ms, who) in catalog.deletions.items()
        if deleted_ms >= since_ms and name in names
    ]
    return "; ".join([*filter(None, (reason,)), *deleted]) or None
