"""What a log record of a committed offset does to the state: live and at load, the same.

An offset whose group nobody has heard of makes a *simple* group (Empty, no protocol type), as in Kafka: either its
consumers do not use groups, or its group record comes later in the log. A simple group that loses its last offset and
has no record of its own is gone: nothing in the log would bring it back after compaction either.
"""

from typing import TYPE_CHECKING

from coordinator.groups.offsets.records import NO_LEADER_EPOCH, NO_TIMESTAMP, NO_TOPIC_ID
from coordinator.groups.offsets.store import OffsetAndMetadata
from coordinator.protocol.messages import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

if TYPE_CHECKING:
    from coordinator.groups.groups import Groups


def replay_offset_commit(groups: "Groups", key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    if value is None:
        _forget(groups, key)
        return
    expire_timestamp_ms = value.expire_timestamp
    _remember(
        groups,
        key,
        OffsetAndMetadata(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            None if expire_timestamp_ms == NO_TIMESTAMP else expire_timestamp_ms,
            groups.offsets.shared_topic_id(value.topic_id),
        ),
    )


def replay_legacy_offset_commit(
    groups: "Groups", key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None
) -> None:
    """Records of type 0, written by Kafka before 0.9."""
    if value is None:
        _forget(groups, key)
    else:
        _remember(
            groups,
            key,
            OffsetAndMetadata(value.offset, NO_LEADER_EPOCH, value.metadata, value.commit_timestamp, None, NO_TOPIC_ID),
        )


def _remember(groups: "Groups", key: OffsetCommitKey | LegacyOffsetCommitKey, committed: OffsetAndMetadata) -> None:
    groups.offsets.put(groups.classic_or_simple(key.group).group_id, key.topic, key.partition, committed)


def _forget(groups: "Groups", key: OffsetCommitKey | LegacyOffsetCommitKey) -> None:
    groups.offsets.remove(key.group, key.topic, key.partition)
    groups.forget_if_nothing_is_known(key.group)
