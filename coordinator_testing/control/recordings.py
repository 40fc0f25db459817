"""Recordings of what clients ask and are answered."""

import time
from collections.abc import Callable
from urllib.parse import quote

from coordinator.rules.model import Cleared, Entry, RecordingList, RecordingPage, RecordingStatus
from coordinator_testing.control import keywords, steps
from coordinator_testing.control.command import command
from coordinator_testing.control.errors import NotReached
from coordinator_testing.control.keywords import MatchKeywords
from coordinator_testing.control.steps import RETRY_S, WITHIN_S, HttpRequest, Pause, Steps

PATH = "/v1/recordings"


class RecordingCommands:
    """A recording that this client has started."""

    id: str

    @command
    def entries(self, after: int = 0) -> Steps[list[Entry]]:
        """Every request after a number so far, with its answer."""
        return self._entries(after)

    @command
    def wait(self, wanted: int | Callable[[Entry], object], *, timeout_s: float = WITHIN_S) -> Steps[list[Entry]]:
        """Waits for this number of requests; returns all. Raises NotReached.

        With a function: waits for a request whose outcome is certain and of which it is true; returns all of these.
        """
        if callable(wanted):
            return (yield from self._wait_for(wanted, timeout_s))
        count, what = wanted, f"entry {wanted} of recording {self.id}"
        yield from steps.wait(
            lambda waits_ms: self._page(count - 1, waits_ms),
            RecordingPage,
            lambda page: bool(page.entries),
            what,
            timeout_s,
        )
        return (yield from self._entries(0))

    @command
    def page(self, after: int = 0, *, wait_ms: int = 0) -> Steps[RecordingPage]:
        """Some of the requests after a number. Without any, waits for the next one up to this time."""
        return steps.ask(self._page(after, wait_ms), RecordingPage)

    @command
    def clear(self) -> Steps[None]:
        """Ends the recording."""
        yield from steps.ask(steps.delete(self._path), Cleared)

    @property
    def _path(self) -> str:
        return f"{PATH}/{quote(self.id, safe='')}"

    def _page(self, after: int, waits_ms: int) -> HttpRequest:
        return steps.get(self._path, {"after": after, "timeout_ms": waits_ms or None}, waits_ms=waits_ms)

    def _wait_for(self, is_wanted: Callable[[Entry], object], timeout_s: float) -> Steps[list[Entry]]:
        deadline, after = time.monotonic() + timeout_s, 0
        while True:
            is_last = time.monotonic() >= deadline
            new = yield from self._entries(after)
            found = [each for each in new if each.outcome != "pending" and is_wanted(each)]
            if found:
                return found
            if is_last:
                raise NotReached(f"no such entry in recording {self.id} in {timeout_s:g} s; last seen: {new[-1:]}")
            # What is pending is read again.
            after = next(
                (each.number - 1 for each in new if each.outcome == "pending"), new[-1].number if new else after
            )
            yield Pause(RETRY_S)

    def _entries(self, after: int) -> Steps[list[Entry]]:
        found: list[Entry] = []
        while True:
            page = yield from steps.ask(self._page(after, 0), RecordingPage)
            if not page.entries:
                return found
            found += page.entries
            after = page.next


def start(scope: str | None, limit: int | None, match: MatchKeywords) -> Steps[RecordingStatus]:
    """Starts a recording of the requests that these keywords describe."""
    return steps.ask(steps.post(PATH, keywords.recording(scope, limit, match)), RecordingStatus)


def listed(scope: str | None) -> Steps[list[RecordingStatus]]:
    """The recordings of a scope, or all."""
    answer = yield from steps.ask(steps.get(PATH, {"scope": scope}), RecordingList)
    return answer.recordings


def clear_all(scope: str | None) -> Steps[int]:
    """Removes the recordings of a scope, or all. Returns how many."""
    answer = yield from steps.ask(
        steps.delete(PATH, {"scope": scope} if scope is not None else {"all": "true"}), Cleared
    )
    return answer.cleared
