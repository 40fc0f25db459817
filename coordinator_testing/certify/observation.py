"""What was recorded of the instances' requests so far, kept up to date while an event runs.

An entry is listed when its request arrives and is complete when its outcome is certain, so entries that are pending are read
again.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from coordinator.rules.model import Entry
from coordinator_testing.certify.clock import StageClock
from coordinator_testing.control import AsyncControl, ControlUnreachable
from coordinator_testing.control.asynchronous import AsyncRecording

POLL_MS = 200
"""For how long one reading waits for a new entry. The outcomes of pending entries are seen this late at most."""


class Observation:
    """The entries of all instances of one event. `changed` is set when there is something new."""

    def __init__(self, clock: StageClock) -> None:
        self._clock = clock
        self.changed = asyncio.Event()
        self.dropped = 0
        """Entries that made room for later ones before they were read."""
        self._entries: dict[tuple[int, str, int], Entry] = {}
        self._run = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._readers: list[_Reader] = []

    @property
    def entries(self) -> list[Entry]:
        """All entries in the order of their arrival."""
        return sorted(self._entries.values(), key=lambda entry: (entry.time_ms, entry.number))

    @property
    def count(self) -> int:
        """How many entries there are, for `since`."""
        return len(self._entries)

    def since(self, count: int) -> list[Entry]:
        """The entries that were first seen after there were so many."""
        return list(self._entries.values())[count:]

    def last(self, condition: Callable[[Entry], bool]) -> Entry | None:
        """The last entry for which this is true."""
        return next((entry for entry in reversed(self.entries) if condition(entry)), None)

    async def start(self, control: AsyncControl, listeners: Mapping[str, Sequence[str]]) -> None:
        """Begins to record; again after the server was started again, because it forgets its recordings.

        `listeners`: of each instance, with its address at each broker. Entries have the listener of the instance.
        """
        self._run += 1
        self._readers = [
            _Reader(await control.record(listener=address, limit=100_000), address, listener)
            for listener, addresses in listeners.items()
            for address in addresses
        ]
        self._tasks = [asyncio.create_task(self._follow(reader)) for reader in self._readers]

    async def stop(self) -> None:
        """Reads what there is, and reads no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for reader in self._readers:
            while await self._read(reader, 0):
                pass
        self._tasks, self._readers = [], []

    async def _follow(self, reader: "_Reader") -> None:
        while True:
            try:
                await self._read(reader, POLL_MS)
            except ControlUnreachable:
                # On a busy machine one answer may be too late. It is read again from where it was.
                await asyncio.sleep(POLL_MS / 1000)

    async def _read(self, reader: "_Reader", wait_ms: int) -> int:
        """Reads a page of new entries, and again those that were pending. Returns how many are new."""
        page = await reader.recording.page(after=reader.after, wait_ms=wait_ms)
        reader.after = page.next
        self.dropped += page.dropped - reader.dropped
        reader.dropped = page.dropped
        self._take(reader, page.entries)
        after, last = min(reader.pending, default=1) - 1, max(reader.pending, default=0)
        while after < last and (again := await reader.recording.page(after=after)).entries:
            self._take(reader, again.entries)
            after = again.next
        return len(page.entries)

    def _take(self, reader: "_Reader", entries: Iterable[Entry]) -> None:
        for entry in entries:
            entry.time_ms = self._clock.machine_ms(entry.time_ms)
            if entry.answered_ms is not None:
                entry.answered_ms = self._clock.machine_ms(entry.answered_ms)
            entry.listener = reader.listener
            self._entries[self._run, reader.address, entry.number] = entry
            if entry.outcome == "pending":
                reader.pending.add(entry.number)
            else:
                reader.pending.discard(entry.number)
            self.changed.set()


class _Reader:
    """How far the recording of one listener, at one broker, was read."""

    def __init__(self, recording: AsyncRecording, address: str, listener: str) -> None:
        self.recording = recording
        self.address = address
        self.listener = listener
        self.after = 0
        self.pending: set[int] = set()
        self.dropped = 0
