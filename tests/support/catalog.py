"""The topics that groups see, as a plain table that tests change."""

from collections.abc import Mapping


class Catalog:
    """Topics: name -> number of partitions.

    A topic's id is its name, padded, unless `ids` has another one. A topic that was removed and added again gets a new id.
    """

    def __init__(self, topics: Mapping[str, int] | None = None, ids: Mapping[str, bytes] | None = None) -> None:
        self.topics = dict(topics or {})
        self.ids = dict(ids or {})
        self.deletions: dict[str, tuple[int, str]] = {}
        self._removals: dict[str, int] = {}

    @property
    def version(self) -> int:
        return hash((tuple(self.topics.items()), tuple(self.ids.items()), tuple(self._removals.items())))

    def add(self, name: str, partitions: int, topic_id: bytes | None = None) -> bytes:
        """Creates the topic, or changes its number of partitions or its id; returns its id."""
        self.topics[name] = partitions
        if topic_id is not None:
            self.ids[name] = topic_id
        return self._id(name)

    def remove(self, name: str) -> None:
        self.topics.pop(name, None)
        self.ids.pop(name, None)
        self._removals[name] = self._removals.get(name, 0) + 1

    def topic_names(self) -> list[str]:
        return list(self.topics)

    def topic_id(self, name: str) -> bytes | None:
        return self._id(name) if name in self.topics else None

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name in self.topics if self._id(name) == topic_id), None)

    def partition_count(self, name: str) -> int | None:
        return self.topics.get(name)

    def _id(self, name: str) -> bytes:
        known = self.ids.get(name)
        return name.encode()[:15].ljust(15, b"\0") + bytes([self._removals.get(name, 0)]) if known is None else known
