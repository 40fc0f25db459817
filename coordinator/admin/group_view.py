"""A group as JSON: its state and its members, assignments and offsets, as it is in memory or was at some time (history.py)."""

from operator import itemgetter
from typing import Any

from coordinator.admin.lag import end_offset, partition_lag
from coordinator.admin.server_view import ServerView
from coordinator.admin.share_view import share_lag, share_partitions
from coordinator.groups.group import Group
from coordinator.groups.machine import DETAILS
from coordinator.groups.offsets.value import decode
from coordinator.groups.share.group import ShareGroup
from coordinator.runtime.shard import Shard

DEAD = "Dead"
"""The state of a group that does not exist."""


def group_view(server: ServerView, state: Any, group_id: str) -> dict[str, Any]:
    """A group that exists, with everything that is known of it."""
    view = stored_view(server, state, group_id)
    for each in view["committed"]:
        each["end_offset"] = end_offset(server, each["topic"], each["partition"])
        each["lag"] = partition_lag(server, each["topic"], each["partition"], each["offset"])
    known = [each["lag"] for each in view["committed"] if each["lag"] is not None]
    view["lag"] = sum(known) if known else None
    group = state.by_id[group_id]
    if isinstance(group, ShareGroup):
        view["share_partitions"] = share_partitions(server, group)
        view["lag"] = share_lag(server, group)
    return view | ({"unknown": list(server.unknown)} if server.unknown else {})


def shards_of_view(server: ServerView, shard: Shard[Any], group_id: str) -> list[Shard[Any]]:
    """The shards whose state the view of a group of this shard shows."""
    if isinstance(shard.state.by_id.get(group_id), ShareGroup):
        return [shard, *server.share_states.router.shards]
    return [shard]


def stored_view(server: ServerView, state: Any, group_id: str) -> dict[str, Any]:
    """The group without its lag, which only the present has."""
    group = state.by_id[group_id]
    view = group_summary(state, group)
    view["lag"] = None
    view["committed"] = [
        {
            "topic": topic,
            "partition": partition,
            "offset": each.offset,
            "metadata": each.metadata,
            "end_offset": None,
            "lag": None,
        }
        for (topic, partition), each in sorted(state.offsets.of(group_id), key=itemgetter(0))
    ]
    view["pending"] = _pending(server, state, group_id)
    view |= DETAILS[group.kind](state, group)
    return view


def absent_view(group_id: str) -> dict[str, Any]:
    """The view of a group that does not exist, for those who ask when it does."""
    return {
        "group_id": group_id,
        "kind": "simple",
        "state": DEAD,
        "generation": -1,
        "member_count": 0,
        "offset_count": 0,
        "committed": [],
        "pending": [],
    }


def group_summary(state: Any, group: Group) -> dict[str, Any]:
    """A group in a list."""
    return {
        "group_id": group.group_id,
        "kind": "simple" if group.protocol_type is None else group.kind.label,
        "state": group.state.value,
        "generation": group.epoch,
        "member_count": len(group.members),
        "offset_count": len(state.offsets.by_group.get(group.group_id, ())),
    }


def _pending(server: ServerView, state: Any, group_id: str) -> list[dict[str, Any]]:
    """Offsets of open transactions. An offset is null if a newer commit has already replaced it."""
    pending = state.offsets.pending
    rows = [
        (partition, producer_id, each)
        for partition, producers in sorted(pending.by_group.get(group_id, {}).items())
        for producer_id, each in producers.items()
    ]
    states: list[Any] = [shard.state for shard in server.transactions.shards] if rows else []
    transactional_ids = {each.producer_id: each.transactional_id for state in states for each in state.by_id.values()}
    return [
        {
            "topic": topic,
            "partition": partition,
            "offset": None if each.committed is None else decode(each.committed).offset,
            "transactional_id": transactional_ids.get(producer_id),
            "producer_id": producer_id,
            "producer_epoch": pending.known[producer_id].epoch,
        }
        for (topic, partition), producer_id, each in rows
    ]
