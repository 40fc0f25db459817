"""CommitDecided events, decoded by column: the one event type as frequent as commits.

    key       int16 type, int16 length + group
    value     int16 version 0
              int64 state offset, int64 time, int8 group kind
              text member, text? instance
              int32 epoch as requested, int16 error
              text policy
              3 x int8 verdict, int32 member epoch, int32 revocation epoch, int64 producer, int16 producer epoch
              text? transactional id, text? client
              topics: text name, 16 bytes id, partitions (int32, int64 offset, int16 error, int32 epoch, no tags), no tags
              tags: the end of the state, or none

`text` is compact: a varint of length + 1, then UTF-8; in `text?` a length of 0 is null. Topics are read in lockstep, the n-th
topic of all events at once. Partitions have a fixed width as long as they have no tagged fields. An event with tagged fields
there, of another version, or that does not end where its value ends, is not marked `decoded` and is left to the codec, so
that only the common form is handled here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_coordinator_log import messages
from pyspark_coordinator_log.buffers import Buffer, Ints, Mask, numbers
from pyspark_coordinator_log.columns import COMMITTED
from pyspark_coordinator_log.commits import TOPIC_ID_BYTES, topic_ids
from pyspark_coordinator_log.fields import (
    FieldCursor,
    Text,
    as_selection,
    key_texts,
    list_column,
    list_elements,
    names_of,
)

RECORD_TYPE = 1002
_VERSION = 0
_FRONT = np.dtype([("version", ">i2"), ("state_offset", ">i8"), ("time_ms", ">i8"), ("group_kind", "i1")])
_CLAIM = np.dtype([("epoch", ">i4"), ("error", ">i2")])
_JUDGED = np.dtype(
    [
        ("strict", "i1"),
        ("revocation", "i1"),
        ("assignment", "i1"),
        ("member_epoch", ">i4"),
        ("revocation_epoch", ">i4"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
    ]
)
_PARTITION = np.dtype(
    [("partition", ">i4"), ("offset", ">i8"), ("error", ">i2"), ("assignment_epoch", ">i4"), ("tags", "u1")]
)
_END_TAG = np.dtype([("count", "u1"), ("tag", "u1"), ("size", "u1"), ("state_end_offset", ">i8")])


@dataclass(slots=True)
class _Topics:
    """The topics of all events, ordered by event and position."""

    event: Ints
    name: Text
    id_start: Ints
    first: Ints
    count: Ints


@dataclass(slots=True)
class Decisions:
    """The columns of the `decoded` events, by name. Nothing else is known about the others."""

    decoded: Mask
    _source: Buffer
    _keys: Buffer
    _group: Text
    _front: Any
    _claim: Any
    _judged: Any
    _texts: dict[str, Text]
    _state_end: Any
    _topics: _Topics

    def column(self, name: str, kind: pa.DataType) -> Any:
        """An Arrow column of the decoded events; all null if a decision does not have it."""
        if name in self._texts:
            return _text(self._source, self._texts[name])
        if name == "group":
            return _text(self._keys, self._group)
        if name == "partitions":
            return self._partitions()
        found = self._numbers(name)
        return pa.nulls(len(self._front), kind) if found is None else found

    def _numbers(self, name: str) -> Any:
        front, claim, judged = self._front, self._claim, self._judged
        match name:
            case "type":
                return pa.repeat(pa.scalar("CommitDecided"), len(front))
            case "state_offset" | "time_ms":
                return numbers(front[name])
            case "group_kind":
                return names_of(front[name], messages.group_kind)
            case "epoch":
                return numbers(claim[name])
            case "error":
                return names_of(claim[name], messages.error_name)
            case "strict_accepts" | "revocation_epoch_accepts" | "assignment_epoch_accepts":
                said = judged[name.partition("_")[0]]
                return numbers(said == 1, (said == 1) | (said == 2))
            case "member_epoch" | "revocation_epoch":
                return numbers(judged[name], judged[name] >= 0)
            case "commit_producer_id" | "commit_producer_epoch":
                values = judged[name.removeprefix("commit_")]
                return numbers(values, values >= 0)
            case "tombstone":
                return pa.repeat(pa.scalar(value=False), len(front))
            case "state_end_offset":
                return numbers(self._state_end, self._state_end >= 0)
            case _:
                return None

    def _partitions(self) -> Any:
        topics, source = self._topics, self._source
        keep = self.decoded[topics.event]
        event, count, first = topics.event[keep], topics.count[keep], topics.first[keep]
        topic, within = list_elements(count)
        raw = source.structs(_PARTITION, first[topic] + within * _PARTITION.itemsize)
        length = topics.name.length[keep]
        names = source.texts(topics.name.start[keep], length, length > 0)
        ids = topic_ids(source, topics.id_start[keep], np.full(len(count), fill_value=True))
        of_topic = pa.array(topic)
        children = [
            names.take(of_topic),
            ids.take(of_topic),
            numbers(raw["partition"]),
            numbers(raw["offset"]),
            names_of(raw["error"], messages.error_name),
            numbers(raw["assignment_epoch"], raw["assignment_epoch"] >= 0),
            *(pa.nulls(len(raw), COMMITTED.field(name).type) for name in ("previous_offset", "owner_id")),
        ]
        values = pa.StructArray.from_arrays(children, fields=list(COMMITTED))
        return list_column(self.decoded, event, count, values)


def decode(
    keys: Buffer, key_start: Ints, key_length: Ints, values: Buffer, value_start: Ints, value_length: Ints
) -> Decisions:
    """Decodes the decisions at these positions, whose keys all have the type. A value length of -1 is a tombstone."""
    (group,), fits = key_texts(keys, key_start, key_length, 1)
    alive = value_length >= 0
    end = np.where(alive, value_start + value_length, 0)
    cursor = FieldCursor(values, np.where(alive, value_start, 0), end)
    front = cursor.fields(_FRONT)
    texts = {"member_id": cursor.text(nullable=False), "instance_id": cursor.text(nullable=True)}
    claim = cursor.fields(_CLAIM)
    policy = cursor.text(nullable=False)
    texts["policy"] = Text(policy.start, policy.length, policy.length > 0)
    judged = cursor.fields(_JUDGED)
    texts["transactional_id"] = cursor.text(nullable=True)
    texts["client_id"] = cursor.text(nullable=True)
    topics = _topics(cursor)
    back = values.structs(_END_TAG, np.minimum(cursor.position, end))
    tagged = (back["count"] == 1) & (back["tag"] == 0) & (back["size"] == 8)
    cursor.position = cursor.position + np.where(tagged, _END_TAG.itemsize, 1)
    decoded = cursor.valid & alive & fits & (front["version"] == _VERSION) & (tagged | (back["count"] == 0))
    decoded &= cursor.position == end
    some = as_selection(decoded)
    return Decisions(
        decoded=decoded,
        _source=values,
        _keys=keys,
        _group=group.select(some),
        _front=front[some],
        _claim=claim[some],
        _judged=judged[some],
        _texts={name: text.select(some) for name, text in texts.items()},
        _state_end=np.where(tagged, back["state_end_offset"], -1)[some],
        _topics=topics,
    )


def _text(source: Buffer, text: Text) -> Any:
    return source.texts(text.start, np.where(text.present, text.length, 0), text.present)


def _topics(cursor: FieldCursor) -> _Topics:
    """Reads the topics of all events. An event with tagged fields in a partition becomes invalid."""
    counts = cursor.count()
    events: list[Ints] = []
    found: list[tuple[Ints, ...]] = []
    ordinal = 0
    while (active := np.flatnonzero((counts > ordinal) & cursor.valid)).size:
        part = cursor.select(active)
        name = part.text(nullable=False)
        id_start = part.position
        part.position = part.position + TOPIC_ID_BYTES
        count = part.count()
        first = part.position
        after = first + count * _PARTITION.itemsize
        part.valid &= after + 1 <= part.end
        count = np.where(part.valid, count, 0)
        tags = cursor.source.array.take(np.minimum(after, part.end), mode="clip")
        part.valid &= (tags == 0) & _untagged(cursor.source, first, count)
        cursor.position[active] = np.where(part.valid, after + 1, part.end)
        cursor.valid[active] &= part.valid
        events.append(active)
        found.append((name.start, name.length, id_start, first, count))
        ordinal += 1
    if not events:
        none = np.empty(0, np.int64)
        return _Topics(none, Text(none, none, none.astype(bool)), none, none, none)
    event = np.concatenate(events)
    order = np.argsort(event, kind="stable")
    start, length, id_start, first, count = (np.concatenate(each)[order] for each in zip(*found, strict=True))
    return _Topics(event[order], Text(start, length, length > 0), id_start, first, count)


def _untagged(source: Buffer, first: Ints, count: Ints) -> Mask:
    """Whether all partitions at these positions end with an empty tag section."""
    which, within = list_elements(count)
    last = first[which] + within * _PARTITION.itemsize + _PARTITION.itemsize - 1
    tagged = np.zeros(len(count), bool)
    np.logical_or.at(tagged, which, source.array.take(last, mode="clip") != 0)
    return ~tagged
