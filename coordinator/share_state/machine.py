"""The share partitions of one shard as a state machine: what runs after a load and when a timer fires.

states.loaded(now_ms)       every record was read: timers start
states.fire(key, now_ms)    a timer fired
"""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator.protocol.messages import ShareSnapshotKey, ShareUpdateKey
from coordinator.runtime.result import Result, TimerKey
from coordinator.share_state import snapshots
from coordinator.share_state.state import States

RECORD_KEYS: tuple[str, ...] = (ShareSnapshotKey.NAME, ShareUpdateKey.NAME)
"""The key messages that occur in this log."""


class ShareStateMachine(States):
    """The share partitions of one shard, with everything that happens without a request."""

    __slots__ = ()

    def loaded(self, _now_ms: int) -> Result:
        """The log is replayed: arms the timers."""
        return Result(timers=snapshots.timers(self.config) if self.by_key else ())

    def scope_of(self, _request: Any) -> str:
        """Operations change no soft state that a failure could leave half changed."""
        return ""

    def scope_of_timer(self, _key: TimerKey) -> str:
        """As above."""
        return ""

    def restore(self, _scope: str | None, _now_ms: int) -> Result:
        """There is nothing to undo."""
        return Result()

    def fire(self, key: TimerKey, now_ms: int) -> Result:
        """Runs the operation of a timer."""
        return FIRE[key[0]](self, now_ms)


FIRE: Mapping[Any, Callable[[States, int], Result]] = {
    snapshots.PRUNE[0]: snapshots.prune,
    snapshots.COLD[0]: snapshots.renew_cold,
}
"""First item of a timer's key -> the operation that runs when it fires."""
