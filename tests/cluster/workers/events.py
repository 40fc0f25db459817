"""What the engine has of a shard's state and events, and whether the two agree."""

from typing import Any, NamedTuple

from coordinator.groups.events import EVENT_KEYS
from coordinator.groups.machine import RECORD_KEYS
from coordinator.log.batch import key_values, split
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import (
    CommitDecidedValue,
    EventLogOpenedValue,
    FetchRequest,
    OffsetCommitValue,
)
from coordinator.runtime.serde import Serde
from tests.cluster.workers.world import Workers
from tests.rules.world import Client

STATE, EVENTS = "__consumer_offsets", "__coordinator_events"
EARLIEST_BYTES = 1 << 20


class Stored(NamedTuple):
    """A record of a log."""

    offset: int
    key: Any
    value: Any


def decoded(batches: bytes, topic: str) -> list[Stored]:
    serde = Serde(Codec.of(None), EVENT_KEYS if topic == EVENTS else RECORD_KEYS)
    found = []
    for position, header in split(batches):
        for offset, key, value in key_values(batches, position, header):
            record = serde.decode(key or b"", value)
            if record is not None:
                found.append(Stored(offset, record.key, record.value))
    return found


def stored(world: Workers, topic: str, index: int) -> list[Stored]:
    """What the engine has of a log: its snapshot, and the pieces behind it."""
    log = world.store.logs.get(f"{topic}-{index}")
    return [] if log is None else decoded(b"".join([*log.parts, *log.pieces.values()]), topic)


async def fetched(client: Client, topic: str, index: int, offset: int) -> tuple[int, list[Stored], int]:
    """Error, records from an offset on, and the start of the log."""
    partition = FetchRequest.FetchPartition(
        partition=index, fetch_offset=offset, partition_max_bytes=EARLIEST_BYTES, log_start_offset=-1
    )
    answer = await client.call(
        "Fetch", 6, replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=EARLIEST_BYTES,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[partition])],
    )  # fmt: skip
    [found] = answer.responses[0].partitions
    records = decoded(bytes(found.records or b""), topic)
    return found.error_code, [each for each in records if each.offset >= offset], found.log_start_offset


async def read_all(client: Client, topic: str, index: int, offset: int = 0) -> list[Stored]:
    """The records from an offset to the end, as a consumer reads them."""
    found: list[Stored] = []
    while True:
        error, more, _ = await fetched(client, topic, index, offset)
        assert not error
        if not more:
            return found
        found += more
        offset = more[-1].offset + 1


def in_force(events: list[Stored]) -> tuple[list[Stored], list[tuple[int, int]]]:
    """The events whose decisions took effect, and the state offsets of which events may be missing."""
    kept: list[Stored] = []
    missing = []
    for event in events:
        if isinstance(event.value, EventLogOpenedValue):
            if event.value.undone_from_offset >= 0:
                kept = [each for each in kept if each.offset < event.value.undone_from_offset]
            if max(0, event.value.covered_state_offset) < event.value.state_offset:
                missing.append((max(0, event.value.covered_state_offset), event.value.state_offset))
        kept.append(event)
    return kept, missing


def check_agreement(world: Workers, index: int) -> int:
    """Each commit in the state has its event, and each event of a commit its record. Returns the number of commits."""
    events = stored(world, EVENTS, index)
    assert [each.offset for each in events] == list(range(len(events)))
    kept, missing = in_force(events)
    decided = {
        each.value.state_offset
        for each in kept
        if isinstance(each.value, CommitDecidedValue) and not each.value.error_code
    }
    commits = {each.offset for each in stored(world, STATE, index) if isinstance(each.value, OffsetCommitValue)}
    unexplained = [each for each in commits - decided if not any(first <= each < end for first, end in missing)]
    assert not unexplained
    assert decided <= commits
    return len(commits)
