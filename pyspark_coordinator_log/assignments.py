"""Target and current assignments of consumer groups, decoded by column. Besides commits they make up most of a state log.

    key          int16 type, int16 length + group, int16 length + member
    target       int16 version 0, topics, tags: none
    current      int16 version 0, int32 epoch, int32 previous epoch, int8 state, topics, topics pending revocation,
                 tags: int32 revocation epoch, or none
    topics       16 bytes id, partitions (int32), tags: epochs (int32) of as many partitions, or none

Lists and tags are in Kafka's compact format. Like decisions.py, this handles only the common form; any other record is not
marked `decoded` and is left to the codec.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_coordinator_log import messages
from pyspark_coordinator_log.buffers import Buffer, Ints, Mask, numbers
from pyspark_coordinator_log.columns import PARTITION
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

TARGET, CURRENT = 7, 8
_VERSION = 0
_EPOCHS_TAG, _REVOCATION_TAG = 0, 19779
_INT_BYTES = 4
_INT = np.dtype(">i4")
_VERSION_ONLY = np.dtype([("version", ">i2")])
_FRONT = np.dtype([("version", ">i2"), ("member_epoch", ">i4"), ("previous_member_epoch", ">i4"), ("state", "i1")])
_NONE = -1


@dataclass(slots=True)
class _Topics:
    """The topics of one list in all records, ordered by record and position."""

    record: Ints
    id_start: Ints
    first: Ints
    count: Ints
    first_epoch: Ints
    """_NONE if the record has no epochs."""


@dataclass(slots=True)
class Assignments:
    """The columns of the `decoded` records, by name. Nothing else is known about the others."""

    decoded: Mask
    _type: str
    _values: Buffer
    _keys: Buffer
    _texts: dict[str, Text]
    _front: Any
    _revocation_epoch: Ints
    _topics: dict[str, _Topics]

    def column(self, name: str, kind: pa.DataType) -> Any:
        """An Arrow column of the decoded records; all null if they do not have it."""
        count = len(self._front)
        if name in self._texts:
            return self._keys.texts(self._texts[name].start, self._texts[name].length, None)
        if name in self._topics:
            return self._partitions(self._topics[name])
        match name:
            case "type" | "group_kind":
                return pa.repeat(pa.scalar(self._type if name == "type" else "consumer"), count)
            case "tombstone":
                return pa.repeat(pa.scalar(value=False), count)
            case "state" if name in self._front.dtype.names:
                return names_of(self._front[name], messages.member_state)
            case "revocation_epoch" if "state" in self._front.dtype.names:
                return numbers(self._revocation_epoch.astype(np.int32), self._revocation_epoch >= 0)
            case _ if name in self._front.dtype.names:
                return numbers(self._front[name])
            case _:
                return pa.nulls(count, kind)

    def _partitions(self, topics: _Topics) -> Any:
        keep = self.decoded[topics.record]
        record, count, first, epochs = (
            each[keep] for each in (topics.record, topics.count, topics.first, topics.first_epoch)
        )
        topic, within = list_elements(count)
        ids = topic_ids(self._values, topics.id_start[keep], np.full(len(count), fill_value=True))
        has_epoch = epochs[topic] != _NONE
        epoch = self._values.structs(_INT, np.where(has_epoch, epochs[topic] + within * _INT_BYTES, 0))
        children = [
            pa.nulls(len(topic), pa.string()),
            ids.take(pa.array(topic)),
            numbers(self._values.structs(_INT, first[topic] + within * _INT_BYTES)),
            numbers(epoch, has_epoch),
        ]
        values = pa.StructArray.from_arrays(children, fields=list(PARTITION))
        return list_column(self.decoded, record, count, values)


def decode(
    record_type: int,
    keys: Buffer,
    key_start: Ints,
    key_length: Ints,
    values: Buffer,
    value_start: Ints,
    value_length: Ints,
) -> Assignments:
    """Decodes the records of one of the two types at these positions. A value length of -1 is a tombstone."""
    (group, member), fits = key_texts(keys, key_start, key_length, 2)
    alive = value_length >= 0
    end = np.where(alive, value_start + value_length, 0)
    cursor = FieldCursor(values, np.where(alive, value_start, 0), end)
    front = cursor.fields(_FRONT if record_type == CURRENT else _VERSION_ONLY)
    topics = {"assignment": _topics(cursor)}
    revocation_epoch = np.full(len(end), _NONE, np.int64)
    if record_type == CURRENT:
        topics["pending_revocation"] = _topics(cursor)
        _revocation_epoch(cursor, revocation_epoch)
    else:
        cursor.no_tags()
    decoded = cursor.valid & alive & fits & (front["version"] == _VERSION) & (cursor.position == end)
    some = as_selection(decoded)
    return Assignments(
        decoded=decoded,
        _type=messages.key_names()[record_type].removesuffix("Key"),
        _values=values,
        _keys=keys,
        _texts={"group": group.select(some), "member_id": member.select(some)},
        _front=front[some],
        _revocation_epoch=revocation_epoch[some],
        _topics=topics,
    )


def _topics(cursor: FieldCursor) -> _Topics:
    """Reads a list of topics in every record."""
    counts = cursor.count()
    records: list[Ints] = []
    found: list[tuple[Ints, ...]] = []
    ordinal = 0
    while (active := np.flatnonzero((counts > ordinal) & cursor.valid)).size:
        part = cursor.select(active)
        id_start = part.position
        part.position = part.position + TOPIC_ID_BYTES
        count = part.count()
        first = part.skip(count * _INT_BYTES)
        count = np.where(part.valid, count, 0)
        first_epoch = _epochs(part, count)
        cursor.merge(active, part)
        records.append(active)
        found.append((id_start, first, count, first_epoch))
        ordinal += 1
    if not records:
        none = np.empty(0, np.int64)
        return _Topics(none, none, none, none, none)
    record = np.concatenate(records)
    order = np.argsort(record, kind="stable")
    return _Topics(record[order], *(np.concatenate(each)[order] for each in zip(*found, strict=True)))


def _epochs(part: FieldCursor, count: Ints) -> Ints:
    """Where the epochs of a topic's partitions begin, in each record that has them."""
    first_epoch = np.full(len(count), _NONE, np.int64)
    some = part.tagged(_EPOCHS_TAG)
    if some.size:
        epochs = part.select(some)
        size = epochs.varint()
        ends = epochs.position + size
        length = epochs.varint() - 1
        is_null = length < 0
        # The number of epochs must match the number of partitions.
        epochs.valid &= is_null | (length == count[some])
        first_epoch[some] = np.where(is_null, _NONE, epochs.skip(np.where(is_null, 0, count[some] * _INT_BYTES)))
        epochs.valid &= epochs.position == ends
        part.merge(some, epochs)
    return first_epoch


def _revocation_epoch(cursor: FieldCursor, revocation_epoch: Ints) -> None:
    some = cursor.tagged(_REVOCATION_TAG)
    if some.size:
        part = cursor.select(some)
        part.valid &= part.varint() == _INT_BYTES
        revocation_epoch[some] = part.fields(_INT)
        cursor.merge(some, part)
