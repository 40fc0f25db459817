"""Committed offsets, a column at a time: nine records of ten in a coordinator's log are these.

A key is int16 type (0 or 1), group, topic (int16 length and text), int32 partition. A value:

    version   0      1      2      3      4
    int16     version
    int64     offset
    int32                          leader epoch
    text      metadata; int16 length, compact (varint of length + 1) in version 4
    int64     commit time
    int64            expiry
    tags                                  topic id is tag 0; unknown ones are skipped

Every record takes the same steps and says in each whether it applies, so records of different versions may stand in any
order. What does not end where its key or value ends, or is of a newer version, is no commit: `wrong` says so.
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
"""One tagged field, and it is the topic id: what Kafka writes."""
_ONE_ID_BYTES = 3 + TOPIC_ID_BYTES


@dataclass(slots=True)
class Commits:
    """Columns of the records that were asked for, where `present` or the mask beside them says so.

    Starts and lengths are of bytes in the key's or value's buffer. Numbers may be in the order of bytes that they came in.
    """

    group_start: Ints
    group_length: Ints
    topic_start: Ints
    topic_length: Ints
    partition: npt.NDArray[np.int32]
    present: Mask
    """Has a value that could be read: no tombstone, nothing wrong."""
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
    """The commits at these places; every key has at least its type. A value's length of -1 is a tombstone."""
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
    """Text with an int16 length: where it begins, how long it is, what follows, and whether it does not fit.

    What does not fit is empty and at the end, so that positions never leave what they are in by more than a few bytes.
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
    """Goes through the tagged fields of some records and notes the topic ids; returns where each one's fields end.

    A position behind the record's end says that they do not fit.
    """
    left, position = source.unsigned(np.minimum(position, end))
    while True:
        active = np.flatnonzero((left > 0) & (position < end))
        if not active.size:
            # Fields that were announced and did not come: let it end where no record ends.
            return np.where(left > 0, end + 1, position)
        tag, after = source.unsigned(position[active])
        size, after = source.unsigned(np.minimum(after, end[active]))
        size = np.where((tag == ENDLESS) | (size == ENDLESS), ENDLESS, size)
        fits = after + size <= end[active]
        found = fits & (tag == _TOPIC_ID_TAG) & (size == TOPIC_ID_BYTES)
        topic_id_start[indexes[active[found]]] = after[found]
        has_topic_id[indexes[active[found]]] = True
        # A topic id of another size is none, and what follows it cannot be trusted either.
        fits &= (tag != _TOPIC_ID_TAG) | (size == TOPIC_ID_BYTES)
        position[active] = np.where(fits, after + size, end[active] + 1)
        left[active] -= 1


_NO_ID = b"\0" * TOPIC_ID_BYTES


def topic_ids(source: Buffer, start: Ints, has: Mask) -> pa.Array:
    """The ids as text; null where there is none or it is zero. There are few different ones, so each is made once."""
    if not has.any():
        return pa.nulls(len(start), pa.string())
    raw = source.slices(start, np.full(len(start), TOPIC_ID_BYTES), has).dictionary_encode()
    words = [None if each == _NO_ID else topic_id_text(each) for each in raw.dictionary.to_pylist()]
    return pa.array(words, pa.string()).take(raw.indices)


def topic_id_text(topic_id: bytes) -> str:
    """An id as Kafka writes it: 22 characters."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")
