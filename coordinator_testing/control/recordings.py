"""Recordings of what clients ask and are answered."""

from urllib.parse import quote

from coordinator.rules.model import Cleared, Entry, RecordingList, RecordingPage, RecordingStatus
from coordinator_testing.control import keywords, steps
from coordinator_testing.control.command import command
from coordinator_testing.control.keywords import MatchKeywords
from coordinator_testing.control.steps import WITHIN_S, HttpRequest, Steps

PATH = "/v1/recordings"


class RecordingCommands:
    """A recording that this client has started."""

    id: str

    @command
    def entries(self, after: int = 0) -> Steps[list[Entry]]:
        """Every request after a number so far, with its answer."""
        return self._entries(after)

    @command
    def wait(self, count: int, *, timeout_s: float = WITHIN_S) -> Steps[list[Entry]]:
        """Waits for this number of requests; returns all. Raises NotReached."""
        what = f"entry {count} of recording {self.id}"
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
    answer = yield from steps.ask(steps.delete(PATH, {"scope": scope}), Cleared)
    return answer.cleared
