"""Offsets that were committed, as events: which group, partition, offset and time. Who committed is not in Kafka's log.

While a group has members Kafka accepts commits of members only, so an offset that went back was a member's; the event names the
member that had the partition. Without members it was an administrator, or a consumer that uses no group protocol.
"""

from typing import Any

from coordinator.groups.commit_events import NOT_OWNED, Verdict
from coordinator.groups.events import OFFSETS_RESET, OFFSETS_REWOUND
from coordinator.groups.kinds import Kind
from coordinator.groups.machine import GroupMachine
from coordinator.groups.offsets import value as values
from coordinator.groups.offsets.rewound import BY_ADMINISTRATOR, BY_CONSUMER, BY_MEMBER
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import CommitDecidedKey, CommitDecidedValue, OffsetsRewoundKey, OffsetsRewoundValue
from coordinator.runtime.result import Event, Fact, MessageEvent, Producer, Record

_TopicOffsets = CommitDecidedValue.TopicOffsets
_PartitionOffset = CommitDecidedValue.PartitionOffset
_Rewound = tuple[str, int, int, int]
"""Topic, partition, the offset before and the earlier one."""


class Commit(Event):
    """CommitDecided: the offsets that a group committed at once."""

    __slots__ = ("group_id", "kind", "offsets", "producer", "topic_ids")

    def __init__(self, group_id: str, kind: Kind, producer: Producer | None) -> None:
        self.group_id = group_id
        self.kind = kind
        self.producer = producer
        self.offsets: dict[str, list[tuple[int, int, int]]] = {}
        """Topic -> partition, offset, assignment epoch."""
        self.topic_ids: dict[str, bytes] = {}

    def record(self, state_offset: int, time_ms: int) -> Record:
        topics = [
            _TopicOffsets(
                topic, self.topic_ids[topic], [_PartitionOffset(index, at, 0, since) for index, at, since in some]
            )
            for topic, some in self.offsets.items()
        ]
        value = CommitDecidedValue(
            state_offset=state_offset,
            time_ms=time_ms,
            group_kind=self.kind,
            member_id="",
            error_code=0,
            policy="",
            strict_verdict=Verdict.CANNOT_SAY,
            revocation_epoch_verdict=Verdict.CANNOT_SAY,
            assignment_epoch_verdict=Verdict.CANNOT_SAY,
            topics=topics,
        )
        if self.producer is not None:
            value.producer_id, value.producer_epoch = self.producer
        return Record(CommitDecidedKey(self.group_id), value, 0)


def _decode(value: bytes) -> Any:
    """The value of an offset's record, of whatever version."""
    return Codec.of().decoder("OffsetCommitValue", int.from_bytes(value[:2]))(value, 2)[0]


class Commits:
    """Collects the offsets of a commit, which are next to each other in the log."""

    def __init__(self, groups: GroupMachine) -> None:
        self._groups = groups
        self._decode_key = Codec.of().decoder("OffsetCommitKey", 0)
        self._names: dict[bytes, tuple[str, str]] = {}
        """A key without its partition -> group and topic."""
        self._commit: Commit | None = None
        self._rewound: list[_Rewound] = []

    def take(self, key: bytes, value: bytes, producer: Producer | None) -> list[Fact]:
        """Notes an offset before it is replayed; returns the facts of the commit before, if this begins another one."""
        names = self._names.get(key[:-4])
        if names is None:
            named: Any = self._decode_key(key, 2)[0]
            names = self._names[key[:-4]] = named.group, named.topic
        group_id, topic = names
        index, (offset,) = int.from_bytes(key[-4:], signed=True), values.read_offset(value)
        facts = []
        commit = self._commit
        if commit is None or commit.group_id != group_id or commit.producer != producer:
            facts = self.end()
            group = self._groups.by_id.get(group_id)
            commit = self._commit = Commit(group_id, Kind.CLASSIC if group is None else group.kind, producer)
        some = commit.offsets.get(topic)
        if some is None:
            some = commit.offsets[topic] = []
            # A topic may be so new that the catalog does not have it yet.
            commit.topic_ids[topic] = self._groups.catalog.topic_id(topic) or _decode(value).topic_id
        some.append((index, offset, self._assignment_epoch(commit, topic, index)))
        committed = self._groups.offsets.by_group.get(group_id)
        before = None if committed is None else committed.get((topic, index))
        # Most end here. A negative offset is larger than any other.
        if before is not None and value[2:10] < before[2:10]:
            self._note_earlier(topic, index, values.decode(before), value)
        return facts

    def _assignment_epoch(self, commit: Commit, topic: str, index: int) -> int:
        """Since when the owner of a partition has had it; classic groups have no such epoch."""
        if commit.kind is Kind.CLASSIC:
            return NOT_OWNED
        group, catalog = self._groups.by_id[commit.group_id], self._groups.catalog
        topic_id = commit.topic_ids[topic]
        owner = group.holder(topic, topic_id, index, catalog)
        member = None if owner is None else group.find_committer(owner, catalog)
        since = None if member is None else member.assignment_epoch(topic_id, index)
        return NOT_OWNED if since is None else since

    def _note_earlier(self, topic: str, index: int, before: Any, value: bytes) -> None:
        now = _decode(value)
        # A topic that was created again begins again.
        if before.offset >= 0 and now.topic_id == before.topic_id:
            self._rewound.append((topic, index, before.offset, now.offset))

    def end(self) -> list[Fact]:
        """The facts of the offsets that were noted last."""
        commit, self._commit = self._commit, None
        rewound, self._rewound = self._rewound, []
        if commit is None:
            return []
        self._groups.counters.offsets += sum(map(len, commit.offsets.values()))
        facts = [Fact("", {}, commit)] if self._groups.emits_accepted else []
        if rewound:
            facts.append(self._rewound_fact(commit, rewound))
        return facts

    def _rewound_fact(self, commit: Commit, rewound: list[_Rewound]) -> Fact:
        group_id, catalog = commit.group_id, self._groups.catalog
        group = self._groups.by_id.get(group_id)
        has_protocol = group is not None and group.protocol_type is not None
        has_members = group is not None and not group.is_empty
        cause = BY_MEMBER if has_members else BY_ADMINISTRATOR if has_protocol else BY_CONSUMER
        topics: dict[str, OffsetsRewoundValue.TopicOffsets] = {}
        for topic, index, before, now in rewound:
            topic_id = commit.topic_ids[topic]
            entry = topics.setdefault(topic, OffsetsRewoundValue.TopicOffsets(topic, topic_id, []))
            owner = None if group is None else group.holder(topic, topic_id, index, catalog)
            entry.partitions.append(OffsetsRewoundValue.PartitionOffset(index, now, before, owner))
        fields = {
            "group": group_id,
            "cause": cause,
            "member": "",
            "records": sum(before - now for _, _, before, now in rewound),
            "partitions": [f"{topic}-{index}: {before} -> {now}" for topic, index, before, now in rewound[:10]],
        }
        value = OffsetsRewoundValue(
            group_kind=commit.kind,
            cause=cause,
            member_id="",
            client_id="",
            client_host="",
            principal="",
            producer_id=-1 if commit.producer is None else commit.producer.id,
            topics=list(topics.values()),
        )
        event = MessageEvent(OffsetsRewoundKey(group_id), value)
        return Fact(OFFSETS_RESET if cause is BY_ADMINISTRATOR else OFFSETS_REWOUND, fields, event)
