"""How much happened lately: a rate over windows of time, and a bucket of tokens (Kafka: `Rate`, `WindowedSum`, `TokenBucket`).

Time is passed in, in milliseconds of a clock that never goes back.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """How a rate is measured (`MetricConfig`)."""

    samples: int
    """One of them is the current one."""
    size_ms: int


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """What was recorded per second, over the current window and those before it (`Rate` of a `WindowedSum`)."""

    __slots__ = ("_current", "_forget_at_ms", "_samples", "_start_ms", "_total", "_window")

    def __init__(self, window: Window, now_ms: int) -> None:
        self._window = window
        self._samples = [_Sample(now_ms)]
        self._current = 0
        self._total = 0.0
        self._start_ms = self._forget_at_ms = now_ms
        """The start of the oldest sample; and the time before which no sample is too old."""

    def record(self, value: float, now_ms: int) -> None:
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._window.size_ms:
            sample = self._advance(now_ms)
        sample.value += value
        sample.last_ms = now_ms
        self._total += value

    def measure(self, now_ms: int) -> tuple[float, int]:
        """The rate per second, and the time that it is about: at least all windows but the current one (`Rate.windowSize`)."""
        if now_ms >= self._forget_at_ms:
            self._forget_old(now_ms)
        size_ms = self._window.size_ms
        elapsed_ms = now_ms - self._start_ms
        missing = self._window.samples - 1 - elapsed_ms // size_ms
        if missing > 0:
            elapsed_ms += missing * size_ms
        elapsed_ms = max(elapsed_ms, 1)
        return self._total * 1000 / elapsed_ms, elapsed_ms

    def _advance(self, now_ms: int) -> _Sample:
        """The next sample. There is one more than windows: the oldest overlaps the time that counts."""
        samples = self._samples
        self._current = (self._current + 1) % (self._window.samples + 1)
        if self._current == len(samples):
            samples.append(_Sample(now_ms))
        else:
            samples[self._current].reset(now_ms)
        self._forget_at_ms = now_ms
        return samples[self._current]

    def _forget_old(self, now_ms: int) -> None:
        oldest_ms, samples = self._window.samples * self._window.size_ms, self._samples
        for sample in samples:
            if now_ms - sample.last_ms >= oldest_ms:
                sample.reset(now_ms)
        self._total = sum(sample.value for sample in samples)
        self._start_ms = min(sample.start_ms for sample in samples)
        self._forget_at_ms = min(sample.last_ms for sample in samples) + oldest_ms


class TokenBucket:
    """Tokens that come at the rate of the limit and that changes take; fewer than none: too much was taken."""

    __slots__ = ("_tokens", "_updated_ms", "_window")

    def __init__(self, window: Window, limit: float, now_ms: int) -> None:
        """Full: as many tokens as come in all windows."""
        self._window = window
        self._tokens = self._most(limit)
        self._updated_ms = now_ms

    def take(self, tokens: float, limit: float, now_ms: int) -> None:
        self._tokens = min(self._most(limit), self.left(limit, now_ms) - tokens)

    def left(self, limit: float, now_ms: int) -> float:
        came = limit * (now_ms - self._updated_ms) / 1000
        self._tokens = min(self._most(limit), self._tokens + came)
        self._updated_ms = now_ms
        return self._tokens

    def _most(self, limit: float) -> float:
        return self._window.samples * self._window.size_ms / 1000 * limit
