"""The log records of committed offsets: key type 1, OffsetCommit.

Values are written in version 4 (flexible, with the topic's id as tagged field 0). A commit that brought its own
retention (OffsetCommit v2-4) is written in version 1 instead, the only one with a place for an expiry; it has none for
the leader epoch and the topic id, so the record is made without them and memory never holds what a restart would lose.
"""

from coordinator.protocol.messages import (
    OffsetCommitKey,
    OffsetCommitRequest,
    OffsetCommitValue,
    TxnOffsetCommitRequest,
)
from coordinator.runtime.result import Record

VERSION = 4
VERSION_WITH_EXPIRY = 1
NO_TOPIC_ID = bytes(16)
NO_LEADER_EPOCH = -1
NO_TIMESTAMP = -1


def offset_commit(
    group_id: str,
    topic: str,
    topic_id: bytes,
    partition: OffsetCommitRequest.OffsetCommitRequestPartition
    | TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int | None,
) -> Record:
    key = OffsetCommitKey(group_id, topic, partition.partition_index)
    metadata = partition.committed_metadata or ""
    if expire_timestamp_ms is None:
        value = OffsetCommitValue(
            partition.committed_offset,
            partition.committed_leader_epoch,
            metadata,
            commit_timestamp_ms,
            NO_TIMESTAMP,
            topic_id,
        )
        return Record(key, value, VERSION)
    value = OffsetCommitValue(
        partition.committed_offset,
        NO_LEADER_EPOCH,
        metadata,
        commit_timestamp_ms,
        expire_timestamp_ms,
        NO_TOPIC_ID,
    )
    return Record(key, value, VERSION_WITH_EXPIRY)


def offset_commit_tombstone(group_id: str, topic: str, partition: int) -> Record:
    return Record(OffsetCommitKey(group_id, topic, partition), None)
