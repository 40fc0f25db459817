"""Event encoding: the frequent events become bytes without becoming messages first.

An event's `record()` says what it means, and the codec can encode that. The functions here produce the same key and value
directly: what the events of a member have in common is cached, and partitions are copied where they are already encoded. One
of them exists for every event that comes once per commit, per member and rebalance, or that grows with the group.

    encode(event, state_offset, time_ms, state_end) -> (key, value)

`state_offset`, `time_ms`: where in the state's log and when the event was decided. `state_end`: the value of `StateEndOffset`,
a tagged field that the last event of a batch has; negative if this is not the last one.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import repeat
from struct import Struct
from types import MappingProxyType
from typing import Any

from coordinator.fastpath.byte_template import FillTemplate
from coordinator.fastpath.renumbering import inverted, renumbered
from coordinator.groups.commit_events import NO_VERDICTS, NOT_OWNED, CommitDecision, epochs_of_topic
from coordinator.groups.committer import NO_REVOCATION_EPOCH, Origin
from coordinator.groups.events import NO_FIELDS, NO_TOPIC_ID, ClassicDelivery, Completed, Holding, Joined
from coordinator.groups.fencing import NO_EPOCH
from coordinator.groups.kinds import Kind
from coordinator.groups.offsets.metadata import is_too_large
from coordinator.protocol.bounded_cache import BoundedCache
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AssignmentDeliveredKey,
    AssignmentDeliveredValue,
    CommitDecidedKey,
    MemberJoinedKey,
    OffsetCommitRequest,
    RebalanceCompletedKey,
    RebalanceOvertakenKey,
    TxnOffsetCommitRequest,
)
from coordinator.protocol.wire import COMPACT, NULLABLE_COMPACT, PLAIN, SHORT, size_prefix
from coordinator.runtime.result import Fact, Record, RequestContext

_NO_STATE_END = -1
_VERSION = b"\0\0"
_HEAD = Struct(">hqqb").pack
"""Version, StateOffset, TimeMs and GroupKind, with which the value of every event of a group begins."""
_STATE_END = Struct(">BBBq").pack
_TOOK = Struct(">iq").pack
_WAIT = Struct(">qB").pack
_ASSIGNMENT = Struct(">hi").unpack_from
_ASSIGNMENT_BYTES = 6
_REQUESTED = Struct(">ih").pack
_DECIDED = Struct(">bbbiiqh").pack
_PARTITION = Struct(">iqhiB").pack
_ABOUT_BYTES_MAX = 512
_NO_PRODUCER = (-1, -1, None)
_NO_EPOCHS: Mapping[int, int] = {}
_CODES = {8: "q", 16: "qq"}
"""The variable fields of an accepted commit: an offset; the state's offset and a time."""
_OFFSETS = slice(4, None, 2)
"""The places of the offsets among the template's parts."""
_new_fact = partial(tuple.__new__, Fact)
"""Creates a fact without calling its constructor."""


def _count(count: int) -> bytes:
    """The length of a compact array."""
    return SHORT[count] if count < len(SHORT) else size_prefix(count)


def _key(record_type: int | None, group_id: str) -> bytes:
    """The key of an event of a group."""
    assert record_type is not None
    key: bytes = record_type.to_bytes(2) + PLAIN[group_id]
    return key


def _tags(state_end: int) -> bytes:
    """The tagged fields of a value."""
    return b"\0" if state_end < 0 else _STATE_END(1, 0, 8, state_end)


# --- members and rebalances -------------------------------------------------------------------------------------------


def encode_joined(event: Joined, state_offset: int, time_ms: int, state_end: int) -> tuple[bytes, bytes]:
    """A thousand members may join at once."""
    parts = (
        _HEAD(0, state_offset, time_ms, event.kind),
        COMPACT[event.member_id],
        NULLABLE_COMPACT[event.instance_id],
        NULLABLE_COMPACT[event.client_id],
        COMPACT[event.client_host],
        event.epoch.to_bytes(4, signed=True),
        _tags(state_end) if event.port < 0 else _tags_with_number(state_end, 4, event.port),
    )
    return _key(MemberJoinedKey.API_KEY, event.group_id), b"".join(parts)


def encode_completed(event: Completed, state_offset: int, time_ms: int, state_end: int) -> tuple[bytes, bytes]:
    """The event names every member of the group."""
    parts = [
        _HEAD(0, state_offset, time_ms, event.kind),
        _TOOK(event.epoch, event.duration_ms),
        COMPACT[event.cause],
        NULLABLE_COMPACT[event.member_id],
        event.members.to_bytes(4),
        _count(len(event.waits)),
    ]
    for member_id, waited_ms in event.waits.items():
        parts += (COMPACT[member_id], _WAIT(waited_ms, 0))
    parts.append(_tags(state_end) if not event.delay_ms else _tags_with_number(state_end, 8, event.delay_ms))
    key = RebalanceOvertakenKey if event.is_overtaken else RebalanceCompletedKey
    return _key(key.API_KEY, event.group_id), b"".join(parts)


def _tags_with_number(state_end: int, size: int, number: int) -> bytes:
    """The tagged fields of a value that has one more, of number 1 and so many bytes."""
    more = bytes((1, size)) + number.to_bytes(size, signed=True)
    return b"\1" + more if state_end < 0 else _STATE_END(2, 0, 8, state_end) + more


# --- assignments ------------------------------------------------------------------------------------------------------


def encode_classic_delivery(
    event: ClassicDelivery, state_offset: int, time_ms: int, state_end: int
) -> tuple[bytes, bytes]:
    """The assignment of a classic member and the event write partitions alike, so they are copied from one to the other."""
    topics = _delivered_topics(event)
    if topics is None:
        value: Any = event.record(state_offset, time_ms).value
        value.state_end_offset = state_end
        encoded = _VERSION + Codec.of().encoder(value.NAME, 0)(value)
        return _key(AssignmentDeliveredKey.API_KEY, event.group_id), encoded
    parts = (
        _HEAD(0, state_offset, time_ms, Kind.CLASSIC),
        COMPACT[event.member_id],
        event.generation.to_bytes(4, signed=True),
        *topics,
        b"\0",
        _tags(state_end),
    )
    return _key(AssignmentDeliveredKey.API_KEY, event.group_id), b"".join(parts)


def _delivered_topics(event: ClassicDelivery) -> list[bytes] | None:
    """The encoded field Topics; None if the assignment is not written as clients write it, and must really be parsed."""
    data = event.assignment
    topic_id, seen = event.catalog.topic_id, set()
    try:
        version, count = _ASSIGNMENT(data)
        if not 0 <= version <= 3 or not 0 <= count <= len(data):
            return None
        at = _ASSIGNMENT_BYTES
        parts = [_count(count)]
        for _ in range(count):
            size = int.from_bytes(data[at : at + 2], signed=True)
            at += 2 + size
            encoded = data[at - size : at]
            name, many = encoded.decode(), int.from_bytes(data[at : at + 4], signed=True)
            at += 4 + 4 * many
            if size < 0 or many < 0 or at > len(data) or name in seen:
                return None
            seen.add(name)
            parts += (COMPACT[name], topic_id(name) or NO_TOPIC_ID, _count(many), data[at - 4 * many : at], b"\0")
        user_data = int.from_bytes(data[at : at + 4], signed=True)
    except (struct.error, UnicodeDecodeError):
        return None
    return parts if len(data) == at + 4 + max(user_data, 0) and user_data >= -1 else None


def encode_holding(event: Holding, state_offset: int, time_ms: int, state_end: int) -> tuple[bytes, bytes]:
    """A rebalance delivers an assignment to each member, which later acknowledges it."""
    topic_name = event.catalog.topic_name
    parts = [
        _HEAD(0, state_offset, time_ms, event.kind),
        COMPACT[event.member_id],
        event.epoch.to_bytes(4, signed=True),
        _count(len(event.held)),
    ]
    for topic_id, which in event.held.items():
        partitions = struct.pack(f">{len(which)}i", *sorted(which))
        parts += (COMPACT[topic_name(topic_id) or ""], topic_id, _count(len(which)), partitions, b"\0")
    if event.value is AssignmentDeliveredValue:
        parts.append(b"\0")
    parts.append(_tags(state_end))
    return _key(event.key.API_KEY, event.group_id), b"".join(parts)


# --- commits ----------------------------------------------------------------------------------------------------------


def encode_commit_decision(
    event: CommitDecision, state_offset: int, time_ms: int, state_end: int
) -> tuple[bytes, bytes]:
    """There is one of these for every commit."""
    request, committer, policies, error = event.request, event.committer, event.policies, event.error
    metadata_max, held, leaving = event.metadata_max, _NO_EPOCHS, _NO_EPOCHS
    member_epoch, revocation_epoch = NO_EPOCH, NO_REVOCATION_EPOCH
    if committer is not None:
        member_epoch, revocation_epoch = committer.member_epoch, committer.revocation_epoch
    producer_id, producer_epoch, transactional_id = _NO_PRODUCER
    if type(request) is TxnOffsetCommitRequest:
        producer_id, producer_epoch = request.producer_id, request.producer_epoch
        transactional_id = request.transactional_id
    policy, verdicts = ("", NO_VERDICTS) if policies is None else (policies.fencing_policy, event.verdicts())
    about = _ABOUT[
        request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, error, policy, verdicts,
        member_epoch, revocation_epoch, producer_id, producer_epoch, transactional_id, event.client_id,
        len(request.topics) + len(event.refused),
    ]  # fmt: skip
    parts = [_HEAD(0, state_offset, time_ms, event.kind), about]
    for topic in request.topics:
        topic_id, partitions = topic.topic_id, topic.partitions
        if committer is not None:
            held, leaving = epochs_of_topic(committer, topic_id)
        parts.append(_TOPIC_HEAD[topic.name, topic_id, len(partitions)])
        for each in partitions:
            index, metadata, code, since = each.partition_index, each.committed_metadata, error, NOT_OWNED
            if metadata and not code and is_too_large(metadata, metadata_max):
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            if held:
                since = held.get(index, NOT_OWNED)
            if leaving and since == NOT_OWNED:
                since = leaving.get(index, NOT_OWNED)
            parts.append(_PARTITION(index, each.committed_offset, code, since, 0))
        parts.append(b"\0")
    for refused in event.refused:
        topic_id, index = refused.topic_id, refused.partition
        held, leaving = epochs_of_topic(committer, topic_id)
        since = held.get(index, leaving.get(index, NOT_OWNED))
        parts += (
            _TOPIC_HEAD[refused.topic, topic_id, 1],
            _PARTITION(index, refused.offset, refused.error, since, 0),
            b"\0",
        )
    parts.append(b"\0" if state_end < 0 else _STATE_END(1, 0, 8, state_end))
    return _KEY[request.group_id], b"".join(parts)


def _about(
    member_id: str,
    instance_id: str | None,
    epoch: int,
    error: int,
    policy: str,
    verdicts: tuple[int, int, int],
    member_epoch: int,
    revocation_epoch: int,
    producer_id: int,
    producer_epoch: int,
    transactional_id: str | None,
    client_id: str | None,
    topic_count: int,
) -> bytes:
    """The fields from MemberId to ClientId and the length of Topics: equal for all commits of a member in a generation."""
    return b"".join(
        (
            COMPACT[member_id],
            NULLABLE_COMPACT[instance_id],
            _REQUESTED(epoch, error),
            COMPACT[policy],
            _DECIDED(*verdicts, member_epoch, revocation_epoch, producer_id, producer_epoch),
            NULLABLE_COMPACT[transactional_id],
            NULLABLE_COMPACT[client_id],
            _count(topic_count),
        )
    )


_ABOUT = BoundedCache(lambda fields: _about(*fields), _ABOUT_BYTES_MAX)
_TOPIC_HEAD = BoundedCache(lambda topic: COMPACT[topic[0]] + topic[1] + _count(topic[2]))
"""By a topic's name, its id and its number of partitions."""
_KEY = BoundedCache(lambda group_id: _key(CommitDecidedKey.API_KEY, group_id))


# --- repeated commits -------------------------------------------------------------------------------------------------


class AcceptedTemplate:
    """The template of the events of accepted commits that differ only in their offsets, as long as their origin is equal."""

    __slots__ = ("_decision", "key", "origin", "pack", "parts")

    def __init__(self, request: OffsetCommitRequest, context: RequestContext, origin: Origin) -> None:
        self.origin = origin
        self._decision = self._decide(request, context.client_id)
        self.key, sample = encode_commit_decision(self._decision, 0, 0, _NO_STATE_END)
        other_decision = self._decide(inverted(request), context.client_id)
        _, other = encode_commit_decision(other_decision, ~0, ~0, _NO_STATE_END)
        template = FillTemplate(sample, other, _CODES)
        self.parts, self.pack = template.parts, template.pack

    def facts(self, offsets: Sequence[int]) -> tuple[Fact, ...]:
        """The facts of a commit with these offsets."""
        return (_new_fact(("", NO_FIELDS, RepeatedDecision(self, offsets))),)

    def decision(self, offsets: Sequence[int]) -> CommitDecision:
        """The event that the ordinary path would have created. Events do not say leader epochs, so any will do."""
        return self._decide(renumbered(self._decision.request, iter(offsets), repeat(0)), self._decision.client_id)

    def _decide(self, request: OffsetCommitRequest, client_id: str | None) -> CommitDecision:
        return CommitDecision(request, client_id, ErrorCode.NONE, 0, *self.origin)


class RepeatedDecision:
    """The event of one such commit."""

    __slots__ = ("offsets", "template")

    def __init__(self, template: AcceptedTemplate, offsets: Sequence[int]) -> None:
        self.template = template
        self.offsets = offsets

    def record(self, state_offset: int, time_ms: int) -> Record:
        return self.template.decision(self.offsets).record(state_offset, time_ms)


def encode_repeated_decision(
    event: RepeatedDecision, state_offset: int, time_ms: int, state_end: int
) -> tuple[bytes, bytes]:
    template = event.template
    parts = template.parts
    parts[1], parts[2] = state_offset, time_ms
    parts[_OFFSETS] = event.offsets
    value = template.pack(*parts)
    return template.key, value if state_end < 0 else value[:-1] + _STATE_END(1, 0, 8, state_end)


EVENT_ENCODERS: Mapping[type[Any], Callable[[Any, int, int, int], tuple[bytes, bytes]]] = MappingProxyType(
    {
        Joined: encode_joined,
        Completed: encode_completed,
        ClassicDelivery: encode_classic_delivery,
        Holding: encode_holding,
        CommitDecision: encode_commit_decision,
        RepeatedDecision: encode_repeated_decision,
    }
)
"""The class of an event -> what encodes it."""
