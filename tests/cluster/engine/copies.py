"""Copies of an engine's logs."""

from coordinator.log.batch import key_values, split
from coordinator.log.batch_builder import BatchBuilder

STATE, EVENTS = "__consumer_offsets-0", "__coordinator_events-0"


def batch(offset: int, *keys: str) -> bytes:
    """A batch of tombstones, which every check of these logs understands."""
    builder = BatchBuilder()
    for key in keys:
        builder.add(b"\x00\x02" + len(key).to_bytes(2) + key.encode(), None)
    return builder.build(offset, 1_000)


def offsets(data: bytes) -> list[int]:
    return [offset for at, header in split(data) for offset, _, _ in key_values(data, at, header)]
