"""Committed offsets, decoded by column. They are nine tenths of the records in a coordinator's log.

A key is int16 type (0 or 1), group, topic (int16 length and text), int32 partition. A value:

    version   0      1      2      3      4
    int16     version
    int64     offset
    int32                          leader epoch
    text      metadata; int16 length, compact (varint of length + 1) in version 4
    int64     commit time
    int64            expiry
    tags                                  topic id is tag 0; unknown ones are skipped

All records go through the same steps, and masks say where a step applies, so versions may be mixed in any order. Records
that do not end exactly where their key or value ends, or whose version is newer, are marked in `bad_key`, `bad_value` and
`bad_version`.
"""

from base64 import urlsafe_b64encode
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from coordinator.protocol.wire import TEXT_SIZE_MAX
from pyspark_coordinator_log.buffers import ENDLESS, Buffer, Ints, Mask

KEY_TYPES = (0, 1)
VERSION_LAST = 4
TOPIC_ID_BYTES = 16
_TOPIC_ID_TAG = 0
_FRONT = np.dtype([("version", ">i2"), ("offset", ">i8"), ("leader_epoch", ">i4")])
_BACK = np.dtype([("timestamp", ">i8"), ("tags", "V3")])
_ONE_ID = np.void(bytes([1, _TOPIC_ID_TAG, TOPIC_ID_BYTES]))
"""Exactly one tagged field, the topic id, as Kafka writes it."""
_ONE_ID_BYTES = 3 + TOPIC_ID_BYTES


@dataclass(slots=True)
class Commits:
    """Columns of the decoded records; valid where `present`, or the mask beside a column, is true.

    Starts and lengths refer to the buffer of the keys or values. Numbers may be in big-endian byte order.
    """

    group_start: Ints
    group_length: Ints
    topic_start: Ints
    topic_length: Ints
    partition: npt.NDArray[np.int32]
    present: Mask
    """Has a valid value: not a tombstone, nothing wrong."""
    version: npt.NDArray[np.int16]
    offset: Ints
    leader_epoch: npt.NDArray[np.int32]
    has_leader_epoch: Mask
    metadata_start: Ints
    metadata_length: Ints
    commit_timestamp: Ints
    expire_timestamp: Ints
    has_expiry: Mask
    topic_id_start: Ints
    has_topic_id: Mask
    bad_key: Mask
    bad_version: Mask
    bad_value: Mask


def decode(
    keys: Buffer, key_start: Ints, key_length: Ints, values: Buffer, value_start: Ints, value_length: Ints
) -> Commits:
    """Decodes the commits at these positions. Every key must have at least its type; a value length of -1 is a tombstone."""
    key_end = key_start + key_length
    group_start, group_length, after, bad_key = _text(keys, key_start + 2, key_end)
    topic_start, topic_length, after, bad_topic = _text(keys, after, key_end)
    bad_key |= bad_topic | (after + 4 != key_end)
    partition = keys.at("i4", after)

    alive = value_length >= 0
    start = np.where(alive, value_start, 0)
    end = np.where(alive, value_start + value_length, 0)
    front = values.structs(_FRONT, start)
    version = np.where(alive, front["version"], -1).astype(np.int16)
    bad_version = alive & ((version < 0) | (version > VERSION_LAST)) & (value_length >= 2)
    alive &= ~bad_version
    has_leader_epoch = version >= 3
    position = np.minimum(start + np.where(has_leader_epoch, 14, 10), end)

    flexible = version >= VERSION_LAST
    if flexible.all():
        raw, metadata_start = values.unsigned(position)
        metadata_length = raw - 1
    else:
        metadata_length = values.at("i2", position).astype(np.int64)
        metadata_start = position + 2
        some = np.flatnonzero(flexible)
        if some.size:
            raw, after_length = values.unsigned(position[some])
            metadata_length[some], metadata_start[some] = raw - 1, after_length
    bad = alive & ((metadata_length < 0) | (metadata_length > TEXT_SIZE_MAX) | (metadata_start + metadata_length > end))
    position = np.minimum(metadata_start + np.maximum(metadata_length, 0), end)
    back = values.structs(_BACK, position)
    has_expiry = version == 1
    expire_timestamp = np.zeros(len(start), np.int64)
    some = np.flatnonzero(has_expiry)
    if some.size:
        expire_timestamp[some] = values.at("i8", position[some] + 8)
    position = np.where(has_expiry, position + 16, position + 8)

    topic_id_start = position + 3
    has_topic_id = flexible & alive & ~bad & (end - position == _ONE_ID_BYTES) & (back["tags"] == _ONE_ID)
    position = np.where(has_topic_id, end, position)
    some = np.flatnonzero(flexible & alive & ~bad & ~has_topic_id)
    if some.size:
        left = np.minimum(position[some], end[some] + 1)
        position[some] = _tags(values, left, end[some], some, topic_id_start, has_topic_id)
    bad |= alive & (position != end)

    present = alive & ~bad & ~bad_key
    return Commits(
        group_start=group_start,
        group_length=group_length,
        topic_start=topic_start,
        topic_length=topic_length,
        partition=partition,
        present=present,
        version=version,
        offset=front["offset"],
        leader_epoch=front["leader_epoch"],
        has_leader_epoch=present & has_leader_epoch & (front["leader_epoch"] >= 0),
        metadata_start=metadata_start,
        metadata_length=metadata_length,
        commit_timestamp=back["timestamp"],
        expire_timestamp=expire_timestamp,
        has_expiry=present & has_expiry & (expire_timestamp >= 0),
        topic_id_start=topic_id_start,
        has_topic_id=has_topic_id & present,
        bad_key=bad_key,
        bad_version=bad_version,
        bad_value=bad,
    )


def _text(source: Buffer, position: Ints, end: Ints) -> tuple[Ints, Ints, Ints, Mask]:
    """Reads text with an int16 length: start, length, position after it, and whether it is invalid.

    Invalid text is empty and placed at the end, so that positions overrun by a few bytes at most.
    """
    length = source.at("i2", position).astype(np.int64)
    start = position + 2
    after = start + length
    bad = (length < 0) | (after > end)
    if bad.any():
        length = np.where(bad, 0, length)
        start = after = np.where(bad, end, start)
        after = after + length
    return start, length, after, bad


def _tags(source: Buffer, position: Ints, end: Ints, indexes: Ints, topic_id_start: Ints, has_topic_id: Mask) -> Ints:
    """Reads the tagged fields of some records, stores the topic ids, and returns where each record's fields end.

    A position after the record's end means that they are invalid.
    """
    left, position = source.unsigned(np.minimum(position, end))
    while True:
        active = np.flatnonzero((left > 0) & (position < end))
        if not active.size:
            # Fields were announced but are missing: return a position that no record ends at.
            return np.where(left > 0, end + 1, position)
        tag, after = source.unsigned(position[active])
        size, after = source.unsigned(np.minimum(after, end[active]))
        size = np.where((tag == ENDLESS) | (size == ENDLESS), ENDLESS, size)
        fits = after + size <= end[active]
        found = fits & (tag == _TOPIC_ID_TAG) & (size == TOPIC_ID_BYTES)
        topic_id_start[indexes[active[found]]] = after[found]
        has_topic_id[indexes[active[found]]] = True
        # A topic id of the wrong size is invalid, and so is everything after it.
        fits &= (tag != _TOPIC_ID_TAG) | (size == TOPIC_ID_BYTES)
        position[active] = np.where(fits, after + size, end[active] + 1)
        left[active] -= 1


_NO_ID = b"\0" * TOPIC_ID_BYTES


def topic_ids(source: Buffer, start: Ints, has: Mask) -> pa.Array:
    """Topic ids as text; null if missing or zero. There are few distinct ids, so each is converted once."""
    if not has.any():
        return pa.nulls(len(start), pa.string())
    raw = source.slices(start, np.full(len(start), TOPIC_ID_BYTES), has).dictionary_encode()
    words = [None if each == _NO_ID else topic_id_text(each) for each in raw.dictionary.to_pylist()]
    return pa.array(words, pa.string()).take(raw.indices)


def topic_id_text(topic_id: bytes) -> str:
    """An id in Kafka's text form of 22 characters."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")
