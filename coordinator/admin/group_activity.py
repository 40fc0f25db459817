"""How much groups rebalanced lately, for the rows of a list: from memory, and after a start from the event log.

A group keeps its last rebalances in memory. A group that has not rebalanced since its shard was read has none there; what the
event log says about its last one is read once for each shard, in a thread, from the newest segment back.
"""

import asyncio
from collections import Counter
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct

from coordinator.admin.endpoint import in_thread
from coordinator.admin.event_stream import ServerEvents
from coordinator.admin.fault_events import fault_events
from coordinator.admin.server_view import ServerView
from coordinator.groups.group import REBALANCES_KEPT, Group, PastRebalance
from coordinator.groups.group_events import group_event
from coordinator.groups.group_history import COMPLETED, OVERTAKEN, STARTED, client_of_member_id, union_ms
from coordinator.log.batch import key_values, split
from coordinator.log.journaled_log import JournaledLog
from coordinator.protocol.messages import message_class

WINDOW_MS = 300_000
"""What "lately" is."""
READ_BYTES_MAX = 32 << 20
"""Of each shard's event log. A rebalance that lies farther back stays unknown."""
SLICE_BYTES = 512 << 10


class ListedRebalance(Struct):
    """A rebalance of a group."""

    started_ms: int
    ended_ms: int | None
    """Null: it is in progress, or the server stopped before it ended."""
    cause: str
    member_id: str
    """The member that the cause names; empty: none."""


def activity(group: Group, now_ms: int) -> dict[str, Any]:
    """What a group did lately: fields of `ListedGroup`."""
    from_ms = now_ms - WINDOW_MS
    past = group.past_rebalances
    if len(past) == REBALANCES_KEPT:
        from_ms = max(from_ms, past[0].started_ms)
    found = [each for each in past if each.ended_ms is None or each.ended_ms >= from_ms]
    spans = [(max(each.started_ms, from_ms), now_ms if each.ended_ms is None else each.ended_ms) for each in found]
    members: Any = group.members
    names = Counter(_client(members.get(each.member_id), each.member_id) for each in found if each.member_id)
    culprit, count = next(iter(names.most_common(1)), (None, 0))
    share = union_ms(spans) / max(1, now_ms - from_ms)
    return {
        "rebalances": [each._asdict() for each in found],
        "rebalancing_share": min(1.0, round(share, 4)),
        "culprit": culprit,
        "culprit_rebalances": count,
    }


def is_troubled(group: Group, now_ms: int) -> bool:
    """Whether the group rebalances, or did so lately."""
    last = group.last_rebalance
    return last is not None and (last.ended_ms is None or last.ended_ms >= now_ms - WINDOW_MS)


def _client(member: Any, member_id: str) -> str:
    return member.client_id if member is not None else client_of_member_id(member_id).client_id


class _Shard:
    """What the event log of a shard says, of the time before its groups were read."""

    def __init__(self) -> None:
        self.last: dict[str, PastRebalance] = {}
        self.log: JournaledLog | None = None
        """The log that was read, or is being read. A worker that gets a shard again has another one."""


class LastRebalances:
    """The last rebalance of each group, from event logs."""

    def __init__(self) -> None:
        self._shards: dict[int, _Shard] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def of(self, server: ServerView, shard_index: int, group_id: str) -> PastRebalance | None:
        """That of a group, if it is known. The first call for a shard has its log read, so a later one knows more."""
        shard = server.groups.shards[shard_index]
        events = shard.events
        if events is None or ServerEvents(server).readers(shard_index) is None:
            return None
        known = self._shards.setdefault(shard_index, _Shard())
        if known.log is not events.log:
            known.log, known.last = events.log, {}
            task = asyncio.get_running_loop().create_task(self._read(server, known, events.log))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return known.last.get(group_id)

    async def _read(self, server: ServerView, shard: _Shard, log: JournaledLog) -> None:
        left = READ_BYTES_MAX
        end = log.durable_offset
        found: dict[str, PastRebalance] = {}
        for segment in reversed(list(log.segments)):
            newer: dict[str, PastRebalance] = {}
            offset = max(log.start_offset, segment.base_offset)
            try:
                while offset < end and left > 0:
                    data = log.read(offset, SLICE_BYTES, offset_end=end)
                    if not data:
                        break
                    left -= len(data)
                    async with fault_events(server).reading:
                        offset = await in_thread(server, partial(_take, data, newer))
            except Exception:  # noqa: BLE001 - retention or a take-over has removed the segment; /v1/events says what is wrong
                break
            found = newer | found
            end = segment.base_offset
            if left <= 0:
                break
        if shard.log is log:
            shard.last = found


_NUMBERS: dict[bytes, str] = {}


def _types() -> dict[bytes, str]:
    if not _NUMBERS:
        for name in (STARTED, COMPLETED, OVERTAKEN):
            number: Any = message_class(f"{name}Key").API_KEY
            _NUMBERS[number.to_bytes(2)] = name
    return _NUMBERS


def _take(data: bytes, last: dict[str, PastRebalance]) -> int:
    """Notes the rebalances in these batches. Returns the offset behind them."""
    types, offset = _types(), 0
    for position, header in split(data):
        offset = header.next_offset
        for at, key, value in key_values(data, position, header):
            name = None if key is None or value is None else types.get(key[:2])
            if name is None or key is None or value is None:
                continue
            group_id, event = key[4:].decode(errors="replace"), group_event(name, at, value)
            if name == STARTED:
                last[group_id] = PastRebalance(event.time_ms, None, event.cause, event.member_id)
            elif group_id in last:
                last[group_id] = last[group_id]._replace(ended_ms=event.time_ms)
    return offset


_BY_SERVER: WeakKeyDictionary[ServerView, LastRebalances] = WeakKeyDictionary()


def last_rebalances(server: ServerView) -> LastRebalances:
    """Those of a server."""
    return _BY_SERVER.setdefault(server, LastRebalances())
