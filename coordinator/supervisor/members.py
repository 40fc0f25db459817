"""Which workers of this machine live: those whose connection is open and whose last beat is recent."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from coordinator.engine.engine import Worker


class _Beat(NamedTuple):
    at_ms: int
    worker: Worker
    connection: object
    """None: it closed without a word."""


class Members:
    """The workers, and who wants to know when they or the owners of logs change."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._beats: dict[str, _Beat] = {}
        self.watchers: dict[object, Callable[[], None]] = {}
        """By connection."""

    def notify(self) -> None:
        """Notifies every connection that something has changed."""
        for call in list(self.watchers.values()):
            call()

    def beat(self, worker: Worker, connection: object) -> None:
        """A worker lives, as long as it beats and its connection is open."""
        before = self._beats.get(worker.id)
        if before is None:  # the same worker, before it was started again
            self._beats = {key: beat for key, beat in self._beats.items() if beat.worker.node_id != worker.node_id}
        self._beats[worker.id] = _Beat(self._now_ms(), worker, connection)
        if before is None or before.connection is None or before.worker != worker:
            self.notify()

    def silent_ms(self, connection: object) -> int:
        """How long the workers of a connection have not beaten; 0: none of them has ever beaten, or it has left."""
        beats = [beat.at_ms for beat in self._beats.values() if beat.connection is connection]
        return self._now_ms() - max(beats) if beats else 0

    def leave(self, worker_id: str) -> None:
        """A worker stops."""
        if self._beats.pop(worker_id, None) is not None:
            self.notify()

    def disconnected(self, connection: object) -> None:
        """The workers of this connection are dead."""
        self.watchers.pop(connection, None)
        gone = [beat for beat in self._beats.values() if beat.connection is connection]
        for beat in gone:
            self._beats[beat.worker.id] = beat._replace(connection=None)
        if gone:
            self.notify()

    def living(self, beat_timeout_ms: int) -> list[Worker]:
        """Those whose last beat is recent, by node id and id."""
        since_ms = self._now_ms() - beat_timeout_ms
        return _sorted(beat for beat in self._beats.values() if beat.at_ms > since_ms and beat.connection is not None)

    def seen(self, within_ms: int) -> list[Worker]:
        """Those whose last beat is recent, whether they live or not, without those that have left; by node id and id."""
        since_ms = self._now_ms() - within_ms
        return _sorted(beat for beat in self._beats.values() if beat.at_ms > since_ms)


def _sorted(beats: Iterable[_Beat]) -> list[Worker]:
    return sorted((beat.worker for beat in beats), key=lambda worker: (worker.node_id, worker.id))
