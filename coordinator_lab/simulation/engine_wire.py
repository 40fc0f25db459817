"""A simulated worker's way to the engine: what it sends and what comes back is late, lost, doubled or refused.

Statements of one worker overtake each other, as on several connections. An append is sent when the one before it was answered
or given up, so those of one log stay in order unless one was given up.
"""

from collections.abc import Callable
from random import Random

from coordinator_lab.simulation.memory_engine import NOTIFICATION, Delivery, Unreliable

LATE_S = 3.0
"""How late a late statement or answer is at most: longer than an append waits."""
_OF_TAKE_OVERS = frozenset({"beat", "claim", "leave", "owners", "release", "replay", "workers"})


class EngineWire:
    """The way of one worker; `Deliveries` of its engine."""

    def __init__(
        self, now_s: Callable[[], float], random: Random, delay_s: float, failure_rate: float, lost_notifications: float
    ) -> None:
        """`delay_s`: the mean time of one way. `failure_rate`: the share of statements that have a failure.

        `lost_notifications`: the share of notifications that get lost, beside those that have a failure.
        """
        self.cut_until_s = 0.0
        """Until when (by the loop) nothing passes."""
        self.refused_until_s = 0.0
        """Until when the engine is down, and every statement fails at once."""
        self.failures = 0
        """Statements that a take-over needs and that had a failure."""
        self._now_s = now_s
        self._random = random
        self.delay_s = delay_s
        self._failure_rate = failure_rate
        self._lost_notifications = lost_notifications
        self._unreliable = Unreliable(random, 1.0, LATE_S)

    def passes_at(self, now_s: float) -> bool:
        """Whether statements pass at this time, but for those that have a failure of their own."""
        return now_s >= max(self.cut_until_s, self.refused_until_s)

    def heal(self) -> None:
        """Everything passes from now on."""
        self.cut_until_s = self.refused_until_s = self._failure_rate = 0.0
        self.delay_s = min(self.delay_s, 0.001)

    def draw(self, statement: str) -> Delivery:
        now_s = self._now_s()
        is_lost = statement == NOTIFICATION and self._random.random() < self._lost_notifications
        if is_lost or now_s < self.cut_until_s:
            return Delivery((), None)
        if now_s < self.refused_until_s:
            return Delivery((), None, is_refused=True)
        if self._random.random() < self._failure_rate:
            self.failures += statement in _OF_TAKE_OVERS
            return self._unreliable.draw(statement)
        return Delivery((self._one_way_s(),), self._one_way_s())

    def _one_way_s(self) -> float:
        return self._random.expovariate(1 / self.delay_s)
