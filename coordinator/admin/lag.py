"""How many records a group is behind: high watermarks of partitions that this server has, less the committed offsets."""

from typing import Any

from coordinator.admin.server_view import ServerView
from coordinator.groups.offsets import value as values


def partition_lag(server: ServerView, topic: str, index: int, offset: int) -> int | None:
    """Records behind a committed offset.

    None: this server does not have the partition, or it is offline, so that nobody knows where its log ends.
    """
    partition = server.topics.user_partition(topic, index)
    if partition is None or partition.is_offline:
        return None
    return max(0, partition.high_watermark - offset)


def group_lag(server: ServerView, state: Any, group_id: str) -> int | None:
    """Records behind all committed offsets of a group; None if the lag of none of them is known."""
    known = [
        lag
        for (topic, index), committed in state.offsets.by_group.get(group_id, {}).items()
        if (lag := partition_lag(server, topic, index, values.fetched(committed)[0])) is not None
    ]
    return sum(known) if known else None
