"""Lag and rebalances of single groups, for those that `metrics.groups` names.

All other metrics are totals, because clients choose the names of groups and topics. Here an operator chooses the groups, and
each has a bounded number of topics.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from coordinator.admin.lag import partition_lag
from coordinator.admin.server_view import ServerView
from coordinator.groups.offsets import value as values

TOPICS_MAX = 100
"""Topics of one group that have a lag, the first in the order of their names."""


def lags(server: ServerView) -> Iterable[tuple[tuple[str, str], float]]:
    """Records after the committed offsets by group and topic, over the partitions that this server has."""
    for group_id in server.group_rebalances.named:
        lag = _lag_by_topic(server, group_id)
        yield from (((group_id, topic), lag[topic]) for topic in sorted(lag)[:TOPICS_MAX])


def _lag_by_topic(server: ServerView, group_id: str) -> Counter[str]:
    state: Any = server.groups.shard_of(group_id).state
    lag: Counter[str] = Counter()
    for (topic, index), committed in state.offsets.by_group.get(group_id, {}).items():
        behind = partition_lag(server, topic, index, values.fetched(committed)[0])
        if behind is not None:
            lag[topic] += behind
    return lag


def rebalances(server: ServerView) -> Iterable[tuple[tuple[str], float]]:
    """Rebalances that have started, by group."""
    return (((group_id,), count) for group_id, count in server.group_rebalances.named.items())
