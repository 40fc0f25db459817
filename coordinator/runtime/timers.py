"""The deadlines of one shard: many keys, one scheduled wake-up.

Heartbeats re-arm the deadline of a session thousands of times a second, and almost none of them ever fires. So arming a key
later than before only stores the new deadline: its heap entry stays where it is and is moved when it comes due (lazy
correction). Arming a key earlier pushes a second entry, and the first one is recognised as stale when it comes due. Disarming
removes the key, and its heap entry becomes stale, too. Stale entries leave the heap when they come due, or when they
outnumber the valid ones: a session may be long, and its group deleted within a second.

Keys with equal deadlines fire in the order in which they were armed: the heap's tie-breaker is a counter.

A wake-up that comes much too late shows that the process was stopped (SIGSTOP, a frozen container, a suspended laptop) or that
the loop was held up. The heartbeats that arrived meanwhile are in the sockets, and a loop runs its timers before it reads. So
the wake-up waits a little, for the sockets to be read, before any session is judged.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from coordinator.runtime.result import TimerKey
from coordinator.world.clock import Clock
from coordinator.world.schedule import Handle, Schedule

LATE_MS = 1_000
"""A wake-up that is later than this waits for the sockets to be read."""
GRACE_MS = 50
"""How long it waits; the loop reads every socket in this time."""
STALE_MIN = 64
"""Fewer stale entries are not worth a pass over the heap."""
GRACES_MAX = 5
"""After so many late wake-ups in a row the server is not stopped but overloaded, and deadlines count."""


class _Entry:
    __slots__ = ("deadline", "due")

    def __init__(self, deadline: int) -> None:
        self.deadline = deadline
        self.due = deadline
        """The deadline in the key's valid heap entry; never later than `deadline`."""


class Timers:
    """Keys with deadlines. Calls `fire(key)` once for each key whose deadline has passed, after disarming it."""

    __slots__ = (
        "_clock", "_entries", "_fire", "_graces", "_handle", "_heap", "_schedule", "_sequence", "_wake_at",
    )  # fmt: skip

    def __init__(self, clock: Clock, schedule: Schedule, fire: Callable[[TimerKey], None]) -> None:
        self._clock = clock
        self._schedule = schedule
        self._fire = fire
        self._entries: dict[TimerKey, _Entry] = {}
        self._heap: list[tuple[int, int, TimerKey, _Entry]] = []
        self._sequence = 0
        self._handle: Handle | None = None
        self._wake_at = 0
        self._graces = 0
        """Late wake-ups in a row that have waited."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: TimerKey) -> bool:
        return key in self._entries

    def arm(self, key: TimerKey, delay_ms: int) -> None:
        """Lets `key` fire in `delay_ms`; this replaces an earlier deadline of the key."""
        deadline = self._clock.monotonic_ms() + delay_ms
        entry = self._entries.get(key)
        if entry is not None:
            entry.deadline = deadline
            if deadline >= entry.due:
                return
            entry.due = deadline
        else:
            entry = self._entries[key] = _Entry(deadline)
        self._sequence += 1
        heappush(self._heap, (deadline, self._sequence, key, entry))
        self._drop_stale()
        if self._handle is None or deadline < self._wake_at:
            self._schedule_wake_up(deadline)

    def disarm(self, key: TimerKey) -> None:
        if self._entries.pop(key, None) is not None:
            self._drop_stale()

    def _drop_stale(self) -> None:
        heap, entries = self._heap, self._entries
        if len(heap) > 2 * len(entries) + STALE_MIN:
            heap[:] = [each for each in heap if entries.get(each[2]) is each[3] and each[3].due == each[0]]
            heapify(heap)

    def clear(self) -> None:
        """Disarms every key."""
        self._entries.clear()
        self._heap.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def correct(self) -> None:
        """Schedules the wake-up for the key that is due next, and for no earlier moment at which nothing fires."""
        heap = self._heap
        while heap:
            due, _, key, entry = heap[0]
            is_valid = entry.due == due and self._entries.get(key) is entry
            if is_valid and entry.deadline == due:
                break
            heappop(heap)
            if is_valid:
                self._push_later(key, entry)
        if heap and (self._handle is None or heap[0][0] != self._wake_at):
            self._schedule_wake_up(heap[0][0])
        elif not heap and self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _push_later(self, key: TimerKey, entry: _Entry) -> None:
        """Moves the heap entry of a key, which was just taken from the heap, to its present deadline."""
        entry.due = entry.deadline
        self._sequence += 1
        heappush(self._heap, (entry.deadline, self._sequence, key, entry))

    def _schedule_wake_up(self, deadline: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._wake_at = deadline
        self._handle = self._schedule(max(0, deadline - self._clock.monotonic_ms()), self._on_wake_up)

    def _on_wake_up(self) -> None:
        self._handle = None
        now = self._clock.monotonic_ms()
        if now - self._wake_at > LATE_MS and self._graces < GRACES_MAX:
            self._graces += 1
            self._schedule_wake_up(now + GRACE_MS)
            return
        self._graces = 0
        heap = self._heap
        while heap and heap[0][0] <= now:
            due, _, key, entry = heappop(heap)
            if entry.due != due or self._entries.get(key) is not entry:
                continue
            if entry.deadline > now:
                self._push_later(key, entry)
                continue
            del self._entries[key]
            self._fire(key)
        if heap and (self._handle is None or heap[0][0] < self._wake_at):
            self._schedule_wake_up(heap[0][0])
