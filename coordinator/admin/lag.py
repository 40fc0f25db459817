"""How many records a group is behind: high watermarks of partitions that this server has, less the committed offsets."""

from typing import Any

from coordinator.admin.server_view import ServerView
from coordinator.admin.share_view import share_lag
from coordinator.groups.offsets import value as values
from coordinator.groups.share.group import ShareGroup


def end_offset(server: ServerView, topic: str, index: int) -> int | None:
    """The high watermark of a partition; None if it is not known."""
    return server.end_offset(topic, index)


def partition_lag(server: ServerView, topic: str, index: int, offset: int) -> int | None:
    """Records behind a committed offset; None if the end offset is unknown."""
    end = end_offset(server, topic, index)
    return None if end is None else max(0, end - offset)


def group_lag(server: ServerView, state: Any, group_id: str, of_topic: str | None = None) -> int | None:
    """Records behind the committed offsets of a group, or of one topic; None if the lag of none of them is known.

    Of a share group: records that are not done with.
    """
    group = state.by_id.get(group_id)
    if isinstance(group, ShareGroup):
        return share_lag(server, group, of_topic)
    known = [
        lag
        for (topic, index), committed in state.offsets.by_group.get(group_id, {}).items()
        if of_topic in (None, topic)
        and (lag := partition_lag(server, topic, index, values.fetched(committed)[0])) is not None
    ]
    return sum(known) if known else None
