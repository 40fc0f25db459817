"""The faults that acted lately, for the event stream: the event log has decisions, and a fault is none."""

import asyncio
from collections import deque
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from coordinator.admin.event_json import Entry
from coordinator.admin.server_view import ServerView
from coordinator.rules.model import FaultActed
from coordinator.topics.partition import Reader

KEPT_MAX = 10_000
"""How many are kept; the oldest make room."""


class FaultEvents:
    """The last faults that acted, numbered from 1."""

    def __init__(self) -> None:
        self.readers: dict[Reader, None] = {}
        self.reading = asyncio.Lock()
        """Held while events are decoded: one stream at a time, so that disks find a free thread."""
        self._kept: deque[tuple[str | None, Entry]] = deque(maxlen=KEPT_MAX)
        self._numbers = count(1)
        self.last = 0
        """The number of the last one."""

    def add(self, acted: FaultActed) -> None:
        """Called by the rules with every action."""
        self.last = next(self._numbers)
        fields: dict[str, Any] = msgspec.to_builtins(acted)
        event = {"shard": None, "offset": None, "type": "FaultActed", "time_ms": acted.time_ms, "number": self.last}
        entry = Entry(acted.time_ms, self.last, msgspec.json.encode(event | {"group": acted.group} | fields))
        self._kept.append((acted.group, entry))
        for reader in list(self.readers):
            reader.notify(1)

    def after(self, number: int, group: str | None, limit: int) -> list[Entry]:
        """Those behind a number, of a group or of all."""
        if number >= self.last:
            return []
        found = (entry for of, entry in self._kept if entry.offset > number and (group is None or of == group))
        return [entry for entry, _ in zip(found, range(limit), strict=False)]


_BY_SERVER: WeakKeyDictionary[ServerView, FaultEvents] = WeakKeyDictionary()


def fault_events(server: ServerView) -> FaultEvents:
    """Those of a server."""
    found = _BY_SERVER.get(server)
    if found is None:
        found = _BY_SERVER[server] = FaultEvents()
    return found
