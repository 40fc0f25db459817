"""Recordings: what clients asked and were answered, kept in memory within bounds.

An entry is begun when its request is there and finished when its outcome is certain. Finished entries are kept as JSON, so that
their size is known and reading them is cheap.
"""

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from coordinator.rules.changes import Changes
from coordinator.rules.check import Apis, match_apis
from coordinator.rules.faults import next_id
from coordinator.rules.matching import Matcher, Seen
from coordinator.rules.model import Entry, Outcome, RecordingRequest, RecordingStatus
from coordinator.rules.summaries import summarize_request, summarize_response
from coordinator.world.clock import Clock

BYTES_MAX = 64 << 20
"""The most JSON that one recording keeps."""
RECORDINGS_MAX = 100
PAGE_ENTRIES = 1_000

_encode = msgspec.json.Encoder().encode


class TooManyRecordings(Exception):
    """There are `RECORDINGS_MAX` recordings."""


class Pending:
    """The entry of a request in one recording. Once it is finished, its JSON is all that is kept of the request."""

    __slots__ = ("_entry", "_recording", "_seen", "content", "is_dropped", "number")

    def __init__(self, recording: "Recording", entry: Entry, seen: Seen) -> None:
        self._recording = recording
        self._entry: Entry | None = entry
        self._seen: Seen | None = seen
        self.number = entry.number
        self.content: bytes | None = None
        """The finished entry as JSON."""
        self.is_dropped = False
        """Whether it made room for another one."""

    def acted(self, fault_id: str) -> None:
        """A rule acts on the request."""
        assert self._entry is not None
        self._entry.fault = fault_id

    @property
    def json(self) -> bytes:
        """The entry as it is now."""
        return _encode(self._entry) if self.content is None else self.content

    def finish(self, outcome: Outcome, message: Any) -> None:
        """The outcome is certain. `message`: what was answered, or would have been; None: nothing."""
        entry, seen = self._entry, self._seen
        assert entry is not None
        assert seen is not None
        self._entry = self._seen = None
        entry.outcome = outcome
        entry.answered_ms = self._recording.now_ms()
        if message is not None:
            entry.response = summarize_response(seen, message)
        self.content = _encode(entry)
        self._recording.on_finished(self)


class Recording:
    """One recording and its entries."""

    def __init__(
        self, recording_id: str, request: RecordingRequest, apis: frozenset[str], now_ms: Callable[[], int]
    ) -> None:
        self.id = recording_id
        self.request = request
        self.apis = apis
        self.now_ms = now_ms
        self.dropped = 0
        self.changes = Changes()
        self._matcher = Matcher(request.match)
        self._entries: deque[Pending] = deque()
        self._last = 0
        self._kept_bytes = 0

    @property
    def status(self) -> RecordingStatus:
        request = self.request
        return RecordingStatus(self.id, request.match, request.limit, len(self._entries), self.dropped, request.scope)

    @property
    def last(self) -> int:
        """The number of the newest entry."""
        return self._last

    def begin(self, seen: Seen, connection: Callable[[Any], int]) -> Pending | None:
        """Begins the entry of a request, if it matches."""
        if self._matcher.find(seen) is None:
            return None
        exchange = seen.exchange
        host, port = exchange.advertised
        self._last += 1
        entry = Entry(
            number=self._last,
            time_ms=self.now_ms(),
            answered_ms=None,
            api=exchange.route.name,
            version=exchange.route.version,
            correlation_id=exchange.correlation_id,
            client_id=exchange.client_id,
            client_host=exchange.client_host[1:],
            connection=connection(exchange.queue),
            listener=f"{host}:{port}",
            request=summarize_request(seen),
            response=None,
            outcome="pending",
            fault=None,
        )
        pending = Pending(self, entry, seen)
        self._entries.append(pending)
        self._make_room()
        self.changes.notify()
        return pending

    def page(self, after: int, limit: int) -> tuple[list[bytes], int]:
        """The entries after this number as JSON, at most `limit`, and the number of the last of them."""
        found = [each for each in self._entries if each.number > after][:limit]
        return [each.json for each in found], found[-1].number if found else max(after, 0)

    def on_finished(self, pending: Pending) -> None:
        """An entry is finished; it may have been dropped before."""
        if not pending.is_dropped:
            self._kept_bytes += len(pending.content or b"")
        self._make_room()
        self.changes.notify()

    def _make_room(self) -> None:
        entries = self._entries
        while len(entries) > self.request.limit or (self._kept_bytes > BYTES_MAX and len(entries) > 1):
            oldest = entries.popleft()
            oldest.is_dropped = True
            self._kept_bytes -= len(oldest.content or b"")
            self.dropped += 1


class Recordings:
    """All recordings of a server."""

    def __init__(self, apis: Apis, clock: Clock, on_change: Callable[[], None]) -> None:
        """`on_change` is called when the APIs that recordings are about may be others."""
        self.by_id: dict[str, Recording] = {}
        self._apis = apis
        self._clock = clock
        self._on_change = on_change
        self._numbers = count(1)

    @property
    def active_apis(self) -> frozenset[str]:
        return frozenset().union(*(recording.apis for recording in self.by_id.values()))

    def add(self, request: RecordingRequest, recording_id: str | None = None) -> Recording:
        """Begins a recording, under an id that is not in use, or the next one.

        Raises RefusedRule if its match makes no sense, TooManyRecordings.
        """
        apis = match_apis(request.match, self._apis)
        if len(self.by_id) >= RECORDINGS_MAX:
            raise TooManyRecordings
        chosen = recording_id or next_id("r", self._numbers, self.by_id)
        recording = Recording(chosen, request, apis, self._clock.wall_ms)
        self.by_id[recording.id] = recording
        self._on_change()
        return recording

    def of_scope(self, scope: str | None) -> list[Recording]:
        """The recordings of a scope; None: all."""
        return [each for each in self.by_id.values() if scope is None or each.request.scope == scope]

    def remove(self, recordings: list[Recording]) -> int:
        """Ends recordings and drops what they have; returns how many there were."""
        removed = [each for each in recordings if self.by_id.pop(each.id, None) is not None]
        if removed:
            self._on_change()
        for each in removed:
            each.changes.notify()
        return len(removed)

    def begin(self, seen: Seen, connection: Callable[[Any], int]) -> list[Pending]:
        """Begins an entry in every recording that the request matches."""
        api = seen.exchange.route.name
        begun = (each.begin(seen, connection) for each in self.by_id.values() if api in each.apis)
        return [pending for pending in begun if pending is not None]
