"""The topics of the server, as far as groups need to know them (topics/engine.py)."""

from collections.abc import Sequence
from typing import Protocol


class Catalog(Protocol):
    """The topics, as far as groups need to know them."""

    @property
    def version(self) -> int:
        """Changes whenever a topic is created, grown or deleted."""

    def topic_names(self) -> Sequence[str]: ...
    def topic_id(self, name: str) -> bytes | None: ...
    def topic_name(self, topic_id: bytes) -> str | None: ...
    def partition_count(self, name: str) -> int | None: ...
