"""Expiry: offsets that nobody needs any more, and groups of which nothing is left.

Mirrors `OffsetMetadataManager.cleanupExpiredOffsets`. The retention of an offset counts from the moment when its group stopped
needing it, not from the commit of an offset in use: a consumer of a quiet topic commits once and may rely on that offset for
years.

    group                                             counted from                 kept
    simple (no protocol type)                         the commit
    Empty                                             the moment it became Empty
    (Empty, stored by a Kafka without that time)      the commit
    "consumer" type, Stable, subscriptions readable   the commit                   topics that are subscribed
    any other with members                            -                            everything
    consumer group (KIP-848)                          the commit                   topics that are subscribed
    streams group (KIP-1071)                          the commit                   topics that its topology reads

A share group (KIP-932) has no offsets, and stays until it is deleted.

A partition with pending offsets of a transaction is kept, and so is a group that has any: the offset that the transaction is
about to commit may be the only one that somebody relies on (KAFKA-19163).

An offset with its own expiry time (OffsetCommit v2-4) goes by that instead, with the same exceptions. An Empty group without
offsets is deleted at once: all that it has left is a generation, which nobody can be in.

One timer per shard checks every group, as in Kafka. A turn stops after RECORDS_PER_TURN_MAX records and continues in the next
one, so that a million offsets that expire on the same day neither delay the shard's requests nor make one huge batch.
"""

from collections.abc import Iterator
from itertools import islice

from coordinator.groups.group import Group
from coordinator.groups.offsets.pending import Partition
from coordinator.groups.offsets.records import offset_commit_tombstone
from coordinator.groups.offsets.value import NO_TIMESTAMP, StoredOffset, times
from coordinator.groups.state import Groups
from coordinator.runtime.result import Fact, Record, Result, Timer, TimerKey

TIMER: TimerKey = ("offsets-expire",)
RECORDS_PER_TURN_MAX = 10_000
PRODUCER_KNOWN_MS = 24 * 3_600_000
"""How long a producer's epoch is kept after its last transaction in this shard; no request is under way for so long."""
_MINUTE_MS = 60_000


def first_timer(groups: Groups) -> Timer:
    """The timer that is armed when a shard has been loaded; each firing arms the next."""
    return Timer(TIMER, groups.config.offsets_retention_check_interval_ms)


def fire(groups: Groups, now_ms: int) -> Result:
    """Deletes expired offsets, and groups without members that have no offsets left."""
    groups.offsets.pending.forget_idle(now_ms, PRODUCER_KNOWN_MS)
    retention_ms = groups.config.offsets_retention_minutes * _MINUTE_MS
    records: list[Record] = []
    timers: list[Timer] = []
    offsets_expired = groups_expired = 0
    for group in groups.by_id.values():
        group_id = group.group_id
        committed = groups.offsets.by_group.get(group_id, {})
        room = RECORDS_PER_TURN_MAX - len(records)
        pending = groups.offsets.pending.partitions(group_id)
        old = expired_offsets(group, committed, now_ms, retention_ms)
        expired = list(islice((each for each in old if each not in pending) if pending else old, room))
        offsets_expired += len(expired)
        records += [offset_commit_tombstone(group_id, topic, partition) for topic, partition in expired]
        if len(expired) == len(committed) and not pending and group.is_empty and group.has_offsets:
            groups_expired += 1
            tombstones, disarmed = groups.end(group)
            records += tombstones
            timers += disarmed
        if len(records) >= RECORDS_PER_TURN_MAX:
            break
    if not records:
        return Result(timers=(first_timer(groups),))
    again = Timer(TIMER, 0) if len(records) >= RECORDS_PER_TURN_MAX else first_timer(groups)
    fields = {"offsets": offsets_expired, "groups": groups_expired}
    return Result(records=records, timers=(*timers, again), facts=(Fact("offsets_expired", fields),))


def expired_offsets(
    group: Group, committed: dict[Partition, StoredOffset], now_ms: int, retention_ms: int
) -> Iterator[Partition]:
    """The partitions of a group whose offsets have expired."""
    counted_from = group.expiry_base()
    if counted_from is None:
        return
    for partition, stored in committed.items():
        if group.is_subscribed_to(partition[0]):
            continue
        committed_ms, expiry_ms = times(stored)
        if now_ms >= (counted_from(committed_ms) + retention_ms if expiry_ms == NO_TIMESTAMP else expiry_ms):
            yield partition
