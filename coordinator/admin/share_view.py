"""The share partitions of a group as JSON: where each starts, what is in flight, and which member holds what.

What is in flight is known where members read: of a partition that no member reads there is only the durable state.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from coordinator.admin.server_view import ServerView
from coordinator.groups.share.group import ShareGroup
from coordinator.share_state.coordinator import text_of
from coordinator.share_state.share_state import UNKNOWN_COUNT, SharePartition
from coordinator.topics.share.in_flight import RecordState, Span
from coordinator.topics.share.leader import ShareLeader, State

HELD_MAX = 100
"""Ranges of one partition that are listed."""


class HeldRecords(Struct):
    """Records that a member has acquired. Both ends are inclusive."""

    member_id: str
    client_id: str | None
    """Null if the group does not have the member (any more)."""
    first_offset: int
    last_offset: int
    delivery_count: int
    since_ms: int
    """When it acquired them, or last renewed its lock."""
    lock_ends_ms: int


class SharePartitionView(Struct):
    """A share partition. Numbers of records are null if no member reads it."""

    topic: str
    partition: int
    start_offset: int | None
    """All records before it are done with; null: share.auto.offset.reset decides when a member reads the partition."""
    end_offset: int | None
    """The end of the log; null if this server does not have the partition."""
    lag: int | None
    """Records that are not acknowledged or archived; null if it is not known."""
    in_flight: int | None
    """Records from the start to the last one that was acquired."""
    acquired: int | None
    """Those that members hold."""
    available: int | None
    """Those that were given back and wait for another delivery."""
    archiving: int | None
    """Those on the way to the dead-letter queue, which no member gets again."""
    delivery_counts: dict[str, int]
    """Acquired and available records by the number of their deliveries."""
    held: list[HeldRecords]
    """At most 100 ranges, in the order of their offsets."""


def share_partitions(server: ServerView, group: ShareGroup) -> list[dict[str, Any]]:
    """All partitions of the group that have a state, by topic and partition."""
    return [
        _view(server, group.members, SharePartition(group.group_id, topic_id, index), topic.name)
        for topic_id, topic in sorted(group.state_partitions.initialized.items(), key=lambda each: each[1].name)
        for index in sorted(topic.partitions)
    ]


def led_here(server: ServerView, group_id: str) -> list[dict[str, Any]]:
    """The partitions of a group that members read here, where the group may not be: no held record has a client id."""
    keys = [
        key for manager in server.share_partitions.of_process for key in manager.leaders if key.group_id == group_id
    ]
    views = [_view(server, {}, key, server.topics.topic_name(key.topic_id) or "") for key in keys]
    return sorted(views, key=lambda each: (each["topic"], each["partition"]))


def share_lag(server: ServerView, group: ShareGroup, of_topic: str | None = None) -> int | None:
    """Records of a share group, or of one topic for it, that are not done with; None if that is known of no partition."""
    lags = [
        _place(server, SharePartition(group.group_id, topic_id, index), topic.name).lag
        for topic_id, topic in group.state_partitions.initialized.items()
        if of_topic in (None, topic.name)
        for index in topic.partitions
    ]
    known = [each for each in lags if each is not None]
    return sum(known) if known else None


class _Place(NamedTuple):
    """Where a share partition is."""

    leader: ShareLeader | None
    start_offset: int | None
    end_offset: int | None
    lag: int | None


def _place(server: ServerView, key: SharePartition, topic: str) -> _Place:
    end = server.end_offset(topic, key.partition)
    leader = _leader(server, key)
    if leader is not None:
        start, done = leader.machine.start_offset, leader.machine.delivery_complete_count
    else:
        kept = server.share_states.router.shard_of(text_of(key)).state.by_key.get(key)
        if kept is None or kept.state.start_offset < 0:
            return _Place(None, None, end, None)
        start, done = kept.state.start_offset, kept.state.delivery_complete_count
    lag = None if end is None or done == UNKNOWN_COUNT else max(0, end - start - done)
    return _Place(leader, start, end, lag)


def _leader(server: ServerView, key: SharePartition) -> ShareLeader | None:
    for manager in server.share_partitions.of_process:
        leader = manager.leaders.get(key)
        if leader is not None and leader.state is State.ACTIVE:
            return leader
    return None


def _view(server: ServerView, members: Mapping[str, Any], key: SharePartition, topic: str) -> dict[str, Any]:
    place = _place(server, key, topic)
    view: dict[str, Any] = {
        "topic": topic,
        "partition": key.partition,
        "start_offset": place.start_offset,
        "end_offset": place.end_offset,
        "lag": place.lag,
        "in_flight": None,
        "acquired": None,
        "available": None,
        "archiving": None,
        "delivery_counts": {},
        "held": [],
    }
    if place.leader is not None:
        view |= {"in_flight": place.leader.machine.in_flight_count} | _spans(server, members, place.leader)
    return view


def _spans(server: ServerView, members: Mapping[str, Any], leader: ShareLeader) -> dict[str, Any]:
    counts: dict[int, int] = {}
    records = dict.fromkeys((RecordState.ACQUIRED, RecordState.AVAILABLE, RecordState.ARCHIVING), 0)
    held: list[dict[str, Any]] = []
    for span in leader.machine.in_flight.all_spans():
        size = span.count_from(leader.machine.start_offset)
        if not size or span.state not in records:
            continue
        records[span.state] += size
        if span.state is RecordState.ARCHIVING:
            continue
        counts[span.delivery_count] = counts.get(span.delivery_count, 0) + size
        if span.state is RecordState.ACQUIRED and len(held) < HELD_MAX:
            held.append(_held(server, members, leader, span))
    return {
        "acquired": records[RecordState.ACQUIRED],
        "available": records[RecordState.AVAILABLE],
        "archiving": records[RecordState.ARCHIVING],
        "delivery_counts": {str(count): counts[count] for count in sorted(counts)},
        "held": held,
    }


def _held(server: ServerView, members: Mapping[str, Any], leader: ShareLeader, span: Span) -> dict[str, Any]:
    member = members.get(span.member_id)
    ends_ms = server.clock.wall_ms() + span.deadline_ms - leader.now_ms()
    return {
        "member_id": span.member_id,
        "client_id": None if member is None else member.client_id,
        "first_offset": max(span.first, leader.machine.start_offset),
        "last_offset": span.last,
        "delivery_count": span.delivery_count,
        "since_ms": ends_ms - leader.limits().lock_ms,
        "lock_ends_ms": ends_ms,
    }
