"""The metadata hash of the topics of a group with epochs: the group epoch is raised when it changes.

It is computed as Kafka computes it, so that a log taken over from a Kafka, or by one, raises no epoch.
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import pack

from xxhash import xxh3_64_intdigest

from coordinator.groups.catalog import Catalog

_HASH_VERSION = b"\0"
_WRAP = 1 << 64
_SIGN = 1 << 63


def topics_hash(catalog: Catalog, names: Iterable[str]) -> int:
    """The hash of those of these topics that exist; 0 if none does. Kafka: `Utils.computeGroupHash`."""
    hashes = [topic_hash(catalog, name) for name in sorted(names)]
    known = [each for each in hashes if each is not None]
    return _signed(xxh3_64_intdigest(pack(f"<{len(known)}q", *known))) if known else 0


def topic_hash(catalog: Catalog, name: str) -> int | None:
    """A topic's part of the metadata hash; None if the topic does not exist. Kafka: `Utils.computeTopicHash`."""
    partitions = catalog.partition_count(name)
    topic_id = catalog.topic_id(name)
    return None if partitions is None or topic_id is None else _topic_hash(name, topic_id, partitions)


@lru_cache(maxsize=65_536)
def _topic_hash(name: str, topic_id: bytes, partitions: int) -> int:
    """Hashes the bytes that Kafka streams into XXH3: little-endian, a string as UTF-16 before its length, and each partition.

    After each partition Kafka has the racks of its replicas; here partitions are in no rack.
    """
    text = name.encode("utf-16-le", "surrogatepass")
    fields = _HASH_VERSION + topic_id[7::-1] + topic_id[:7:-1] + text + pack("<ii", len(text) // 2, partitions)
    return _signed(xxh3_64_intdigest(fields + pack(f"<{partitions}i", *range(partitions))))


def _signed(value: int) -> int:
    return value - _WRAP if value >= _SIGN else value
