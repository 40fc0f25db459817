"""A group as it was: `GET /v1/groups/{group}?at=OFFSET` and `?diff=OFFSET,OFFSET`.

The records of the group before the offset are replayed into an empty state, by the functions that a start uses. So the view has
what the log has: it knows neither why the group rebalanced nor which requests were parked. An offset is the StateOffset of an
event (docs/events.md): the event was decided on exactly this group.

Compaction removes a record once a later one of its key follows. Before the offset `compacted_before` the history has gaps: what
was changed later may be missing, but nothing is there that was not true. From there on it is complete.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from coordinator.admin.endpoint import RefusedRequest
from coordinator.admin.group_view import absent_view, stored_view
from coordinator.admin.located import group_shard
from coordinator.admin.server_view import ServerView
from coordinator.groups.machine import RECORD_KEYS, GroupMachine
from coordinator.log.batch import split
from coordinator.log.log import Log
from coordinator.protocol.codec import Codec
from coordinator.runtime.loader import BatchReplayer, Loaded
from coordinator.runtime.serde import Serde
from coordinator.runtime.shard import Shard

SLICE_BYTES = 128 << 10
"""What is read of the log in one turn of the loop."""


async def group_at(server: ServerView, group_id: str, offset: int) -> dict[str, Any]:
    """The group on the records before this offset, and which offsets there are. Raises RefusedRequest: 421, 422, 503."""
    shard = group_shard(server, group_id)
    return await _view_at(server, shard, group_id, offset)


async def group_diff(server: ServerView, group_id: str, first: int, last: int) -> dict[str, Any]:
    """The group at the second offset, and what is different in it. Raises RefusedRequest: 421, 422, 503."""
    shard = group_shard(server, group_id)
    before = await _view_at(server, shard, group_id, first)
    after = await _view_at(server, shard, group_id, last)
    since, at = before.pop("at"), after.pop("at")
    changes = [change._asdict() for change in differences(before, after)]
    return after | {"since": since, "at": at, "changes": changes}


async def _view_at(server: ServerView, shard: Shard[Any], group_id: str, offset: int) -> dict[str, Any]:
    if server.unknown:
        raise RefusedRequest(
            422, "a watcher does not keep the log of the cluster: it shows a group as it is, and its events"
        )
    log, end_offset = shard.log, shard.offset_durable
    if not log.start_offset <= offset <= end_offset:
        raise RefusedRequest(
            422, f"the log of the group's shard has the offsets from {log.start_offset} to {end_offset}"
        )
    async with server.replays:
        state = server.empty_group_state()
        time_ms = await _replay(log, state, group_id, offset)
    state.loaded(server.clock.wall_ms())
    view = stored_view(server, state, group_id) if group_id in state.by_id else absent_view(group_id)
    compacted_before = log.checkpoint.offsets.clean_offset
    view["at"] = {
        "shard": shard.index,
        "offset": offset,
        "time_ms": time_ms,
        "first_offset": log.start_offset,
        "last_offset": end_offset,
        "compacted_before": compacted_before,
        "is_complete": offset >= compacted_before,
    }
    return view


async def _replay(log: Log, state: GroupMachine, group_id: str, end_offset: int) -> int | None:
    """Replays the group's records; returns when the last of them was written. Reads a slice in each turn of the loop."""
    name = group_id.encode()

    def selects(found: int, key: bytes | None) -> bool:
        return offset <= found < end_offset and (key is None or name in key)

    loaded = Loaded()
    replayer = BatchReplayer(Serde(Codec.of(None), RECORD_KEYS), state, loaded, selects=selects)
    offset, time_ms = log.start_offset, None
    while offset < end_offset:
        data = log.read(offset, SLICE_BYTES, offset_end=log.end_offset)
        if not data:
            break
        for position, header in split(data):
            if header.base_offset >= end_offset:
                return time_ms
            before = loaded.records
            replayer.replay(data, position, header)
            if loaded.records > before:
                time_ms = header.max_timestamp
            offset = header.next_offset
        await asyncio.sleep(0)
    return time_ms


class Difference(NamedTuple):
    """A difference. `path`: such as `members[member-1].assignment`; None: it is not there."""

    path: str
    before: Any
    after: Any


_NAMED_BY = (("member_id",), ("topic", "partition"))
"""The fields that name an element of a list."""


def differences(before: Any, after: Any, path: str = "") -> Iterable[Difference]:
    """What differs between two views, in the order of the earlier one."""
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in {**before, **after}:
            yield from differences(before.get(name), after.get(name), f"{path}.{name}" if path else name)
        return
    named = _by_name(before), _by_name(after)
    if named[0] is None or named[1] is None:
        yield Difference(path, before, after)
        return
    for key in {**named[0], **named[1]}:
        yield from differences(named[0].get(key), named[1].get(key), f"{path}[{key}]")


def _by_name(elements: Any) -> dict[str, Any] | None:
    """The elements of a list by their names; None if they have none."""
    if not isinstance(elements, list | tuple) or not all(isinstance(each, Mapping) for each in elements):
        return None
    for fields in _NAMED_BY:
        if all(field in each for each in elements for field in fields):
            return {"-".join(str(each[field]) for field in fields): each for each in elements}
    return None
