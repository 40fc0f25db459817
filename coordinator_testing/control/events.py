"""The stream of events (server-sent events), without I/O: which request continues it, and what bytes say.

A stream that breaks continues after the last event that arrived (Last-Event-ID), so each event comes once.
"""

import time
from collections.abc import Iterator
from typing import TypedDict

from httpx import Timeout

from coordinator_testing.control import steps
from coordinator_testing.control.errors import ControlUnreachable, NotReached
from coordinator_testing.control.steps import View

RECONNECT_WITHIN_S = 10.0
"""A server that cannot be reached for this long ends the stream."""


class StreamOptions(TypedDict):
    """Arguments of `stream` of both clients of httpx."""

    params: dict[str, str | int]
    headers: dict[str, str]
    timeout: Timeout


class EventStream:
    """The progress of a stream."""

    PATH = "/v1/events"

    def __init__(
        self, group: str | None, after: int | str | None, limit: int | None, *, follow: bool, patience_s: float | None
    ) -> None:
        chosen = {"group": group, "after": after}
        self._query: dict[str, str | int] = {name: value for name, value in chosen.items() if value is not None}
        self._query["follow"] = "true" if follow else "false"
        self._follow = follow
        self._left = limit
        self._patience_s = patience_s
        self._last_id = ""
        self._received = b""
        self._event_s = time.monotonic()
        self._heard_s: float | None = None
        self.is_over = limit == 0

    def options(self) -> StreamOptions:
        """How to begin the stream, or to continue it."""
        self._received = b""
        resumed = {"Last-Event-ID": self._last_id} if self._last_id else {}
        left_s = None if self._patience_s is None else self._event_s + self._patience_s - time.monotonic()
        return StreamOptions(
            params=self._query | ({} if self._left is None else {"limit": self._left}),
            headers={"Accept": "text/event-stream", **resumed},
            timeout=Timeout(steps.ANSWERED_WITHIN_S, read=None if left_s is None else max(0.001, left_s)),
        )

    def feed(self, chunk: bytes) -> Iterator[View]:
        """The events that are complete with these bytes."""
        self._heard_s = time.monotonic()
        # Lines end at line feeds alone: inside JSON there may be other characters that Unicode calls line ends.
        *blocks, self._received = (self._received + chunk).replace(b"\r\n", b"\n").split(b"\n\n")
        for block in blocks:
            event = self._event(block)
            if event is not None:
                yield event
                self._event_s = time.monotonic()  # the reader may have been slow
        self.check_patience()

    def _event(self, block: bytes) -> View | None:
        """The event of a block; None for a comment, a position alone, and the server's last words."""
        fields: dict[bytes, bytes] = {}
        for line in block.split(b"\n"):
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            fields[name] = fields[name] + b"\n" + value if name == b"data" and name in fields else value
        if b"id" in fields:
            self._last_id = fields[b"id"].decode()
        if b"data" not in fields or b"event" in fields:
            return None
        if self._left is not None:
            self._left -= 1
            self.is_over = self._left == 0
        return steps.decoded(fields[b"data"], View)

    def check_patience(self) -> None:
        """Raises NotReached if no event came for too long."""
        if self._patience_s is not None and time.monotonic() - self._event_s >= self._patience_s:
            raise NotReached(f"no event came within {self._patience_s:g} s")

    def on_end(self) -> None:
        """The server closed the stream in an orderly way: a stream that follows is continued."""
        self.is_over = self.is_over or not self._follow

    def on_broken(self, error: ControlUnreachable) -> None:
        """The connection broke. Raises the error if there never was one, or none can be made for too long."""
        self.check_patience()
        if self._heard_s is None or time.monotonic() - self._heard_s > RECONNECT_WITHIN_S:
            raise error
