"""I6: offsets and groups are deleted only on request or when they have expired.

Every tombstone of an offset or a group must have a reason. This file implements the rules of expiry a second time, as simply
as possible: it replays everything ever appended to the shard. It consults only the log and the clients' own deletions.

The offsets of a topic stay while a member of the group subscribes to it. Other offsets stay for the retention time, counted
from the commit or from the moment when a classic group became Empty. An offset pending in a transaction keeps the committed
offset of its partition. A group may be deleted when it has neither members nor offsets. A group without members may also be
converted to another type, which keeps its offsets: the records of the new group follow the tombstone of a classic one, but
an empty consumer or streams group that becomes classic leaves no record at first.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from coordinator.groups.machine import RECORD_KEYS
from coordinator.log.batch import CONTROL, TRANSACTIONAL
from coordinator.log.end_transaction_marker import read_end_transaction
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import (
    ClassicGroupGenerationKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTopologyKey,
)
from coordinator.protocol.subscription import parse_subscription
from coordinator.runtime.result import Producer, Record
from coordinator.runtime.serde import Serde
from coordinator_lab.simulation.history import History, OnBroken

INVARIANT = "I6 expiry is justified"


class Appended(NamedTuple):
    """One record, as it was written to the disk."""

    offset: int
    key: bytes | None
    value: bytes | None
    producer: Producer
    attributes: int
    """The batch's transactional and control flags."""


class Expiry:
    """Checks the tombstones of one run."""

    def __init__(
        self, history: History, retention_ms: int, group_expired: Callable[[str], None], broken: OnBroken
    ) -> None:
        self.latest_ms = 0
        """The highest wall-clock time so far: a decision may be written after the clock was set back."""
        self.expired = 0
        """Offsets and groups that expired."""
        self._history = history
        self._retention_ms = retention_ms
        self._group_expired = group_expired
        self._broken = broken
        self._serde = Serde(Codec.of(None), RECORD_KEYS)

    def appended(self, before: list[Appended], batch: list[Appended], now_ms: int) -> None:
        """Checks the tombstones in a batch that was appended to a shard's log after the records `before`."""
        self.latest_ms = max(self.latest_ms, now_ms)
        if batch[0].attributes & (CONTROL | TRANSACTIONAL):
            return
        records = [None if each.key is None else self._serde.decode(each.key, each.value) for each in batch]
        written_at = {
            _group_of(record.key): place
            for place, record in enumerate(records)
            if record is not None and record.value is not None
        }
        created_at = {
            _group_of(record.key): place
            for place, record in enumerate(records)
            if record is not None and isinstance(record.value, GroupMetadataValue) and record.value.generation == 0
        }
        for place, record in enumerate(records):
            if record is None or record.value is not None:
                continue
            if isinstance(record.key, OffsetCommitKey):
                partition = record.key.group, record.key.topic, record.key.partition
                if self._history.may_be_deleted(partition):
                    # Perhaps it expired, and the deletion that is on its way will be refused because nothing is left.
                    self._history.expired(partition)
                    continue
                groups = self._groups(before + batch[:place])
                self._check_expiry(
                    partition, groups.reason_to_keep_offset(*partition, self.latest_ms - self._retention_ms)
                )
                self._history.expired(partition)
            else:
                group_id = _removed_group(record.key)
                if group_id is None or self._history.group_may_be_deleted(group_id):
                    continue
                if written_at.get(group_id, -1) > place:
                    # Records of the same group follow: it was converted to another type, or it begins again from 0.
                    if created_at.get(group_id, -1) > place:
                        self._group_expired(group_id)
                    continue
                self._check_expiry(group_id, self._groups(before + batch[:place]).reason_to_keep_group(group_id))
                self._group_expired(group_id)

    def _check_expiry(self, deleted: object, why_not: str | None) -> None:
        self.expired += 1
        if why_not is not None:
            self._broken(INVARIANT, f"{deleted} expired at {self.latest_ms} or earlier: {why_not}")

    def _groups(self, records: Iterable[Appended]) -> "_ReplayedGroups":
        groups = _ReplayedGroups()
        for _, key, value, producer, attributes in records:
            if attributes & CONTROL:
                end = read_end_transaction(key, value)
                assert end is not None
                groups.end(producer, is_committed=end[0])
            elif key is not None and (record := self._serde.decode(key, value)) is not None:
                groups.replay(record, producer if attributes & TRANSACTIONAL else None)
        return groups


def _removed_group(key: Any) -> str | None:
    """The group that a tombstone with this key deletes; None if the key belongs to something else."""
    if isinstance(key, GroupMetadataKey):
        return key.group
    return key.group_id if isinstance(key, ConsumerGroupMetadataKey | StreamsGroupMetadataKey) else None


def _group_of(key: Any) -> str | None:
    """The group whose existence a record with this key shows; the first records of a group may be its members'."""
    return None if isinstance(key, OffsetCommitKey) else getattr(key, "group_id", None) or getattr(key, "group", None)


class _ReplayedGroups:
    """The state of a shard as its records describe it, reduced to the parts on which expiry depends."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, str, int], Any] = {}
        self._pending: dict[int, list[tuple[tuple[str, str, int], Any]]] = defaultdict(list)
        """Producer id -> pending offsets. Not by epoch, because a marker may have a later one (KIP-890)."""
        self._classic: dict[str, Any] = {}
        self._forming: dict[str, Any] = {}
        self._consumer: dict[str, dict[str, Any]] = {}
        self._streams: dict[str, dict[str, Any]] = {}
        self._topologies: dict[str, Any] = {}

    def replay(self, record: Record, producer: Producer | None) -> None:
        """Applies a record, which belongs to an open transaction if it has a producer."""
        key: Any = record.key
        if isinstance(key, OffsetCommitKey):
            partition = key.group, key.topic, key.partition
            if producer is None:
                self._store(self._offsets, partition, record.value)
            else:
                self._pending[producer.id].append((partition, record.value))
        elif isinstance(key, GroupMetadataKey):
            self._store(self._classic, key.group, record.value)
            self._forming.pop(key.group, None)
        elif isinstance(key, ClassicGroupGenerationKey):
            self._store(self._forming, key.group, record.value)
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            self._store(self._consumer.setdefault(key.group_id, {}), key.member_id, record.value)
        elif isinstance(key, StreamsGroupMemberMetadataKey):
            self._store(self._streams.setdefault(key.group_id, {}), key.member_id, record.value)
        elif isinstance(key, StreamsGroupTopologyKey):
            self._store(self._topologies, key.group_id, record.value)

    def reason_to_keep_group(self, group_id: str) -> str | None:
        """Why a group must stay; None if it may be deleted."""
        classic = self._classic.get(group_id)
        if self._consumer.get(group_id) or self._streams.get(group_id) or (classic is not None and classic.members):
            return "it has members"
        if group_id in self._forming:
            return "a generation is forming"
        if classic is None:
            return None
        pending = (partition for ended in self._pending.values() for partition, _ in ended)
        left = [partition for partition in (*self._offsets, *pending) if partition[0] == group_id]
        return f"it has {left}" if left else None

    def end(self, producer: Producer, *, is_committed: bool) -> None:
        ended = self._pending.pop(producer.id, [])
        self._offsets |= dict(ended) if is_committed else {}

    def reason_to_keep_offset(self, group_id: str, topic: str, index: int, expired_ms: int) -> str | None:
        """Why an offset must stay; None if it may expire, being unused since `expired_ms` (wall clock)."""
        partition = group_id, topic, index
        committed = self._offsets.get(partition)
        if committed is None:
            return "there is no such offset"
        if any(partition == pending for ended in self._pending.values() for pending, _ in ended):
            return "a transaction is open in its partition"
        since_ms = committed.commit_timestamp
        classic = self._classic.get(group_id)
        if classic is not None and classic.protocol_type:
            if not classic.members:
                # Even if it is before the commit, by a clock that was set back: Kafka does not compare the two.
                since_ms = classic.current_state_timestamp
            for member in classic.members:
                if topic in parse_subscription(member.subscription).topics:
                    return f"{member.member_id} reads the topic"
        for member_id, member in self._consumer.get(group_id, {}).items():
            pattern = member.subscribed_topic_regex
            if topic in member.subscribed_topic_names or (pattern and re.fullmatch(pattern, topic)):
                return f"{member_id} reads the topic"
        topology = self._topologies.get(group_id) if self._streams.get(group_id) else None
        for part in () if topology is None else topology.subtopologies:
            if topic in part.source_topics or topic in (each.name for each in part.repartition_source_topics):
                return f"subtopology {part.subtopology_id} reads the topic"
        return f"it was needed at {since_ms}" if since_ms > expired_ms else None

    def _store(self, where: dict[Any, Any], key: Any, value: Any) -> None:
        if value is None:
            where.pop(key, None)
        else:
            where[key] = value
