"""What clients of several groups know of their commits while workers are disturbed, and how long they had no answer."""

import statistics
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

NONE = -1001
"""librdkafka's offset of a partition without one."""
AFFECTED_S = 1.0
"""A group that was silent for longer was affected by a fault."""


class Fault(NamedTuple):
    name: str
    begin: float
    """In seconds of the history's clock."""


class History:
    """The highest acknowledged offset of each partition of a group, and when each group had its commits.

    `kinds`: group -> the kind of its clients.
    """

    def __init__(
        self, kinds: Mapping[str, str], partitions: Mapping[str, int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._offset = 0
        self.kinds = kinds
        self.highest = {group: [NONE] * count for group, count in partitions.items()}
        self.times: dict[str, list[float]] = {group: [] for group in kinds}
        self.faults: list[Fault] = []

    def next_offset(self) -> int:
        """An offset above all earlier ones."""
        with self._lock:
            self._offset += 1
            return self._offset

    def acknowledged(self, group: str, partitions: Iterable[int], offset: int) -> None:
        """Notes a commit that was acknowledged just now."""
        with self._lock:
            highest = self.highest[group]
            for partition in partitions:
                highest[partition] = max(highest[partition], offset)
            self.times[group].append(self.clock())

    def acknowledged_by(self, group: str) -> list[int]:
        """The highest acknowledged offset by partition; NONE where there is none."""
        with self._lock:
            return list(self.highest[group])

    def missing(self) -> list[str]:
        """The groups with a partition that has no acknowledged offset."""
        return [group for group in self.kinds if NONE in self.acknowledged_by(group)]

    def silent_since(self, at: float) -> list[str]:
        """The groups without an acknowledged commit since a time."""
        with self._lock:
            return [group for group, times in self.times.items() if not times or times[-1] < at]

    def begin_fault(self, name: str) -> None:
        """Notes a fault that begins now."""
        self.faults.append(Fault(name, self.clock()))

    def silence(self, group: str, begin: float, end: float) -> float:
        """The longest time without an acknowledged commit of a group, from a fault at `begin` until the next one at `end`.

        It may last beyond the next one, unless it began just before it: then it is the next one's.
        """
        with self._lock:
            times = [begin, *(at for at in self.times[group] if at > begin)]
        times.append(self.clock())
        return max(
            later - earlier for earlier, later in pairwise(times) if earlier < max(end - AFFECTED_S, begin + AFFECTED_S)
        )

    def silences(self, number: int) -> dict[str, float]:
        """By group, the silence of a fault: until the next one begins, and if it is longer, until it ends."""
        begin = self.faults[number].begin
        end = self.faults[number + 1].begin if number + 1 < len(self.faults) else self.clock()
        return {group: self.silence(group, begin, end) for group in self.kinds}

    def report(self) -> list[str]:
        """Of each kind of client, the silences of affected groups: how many, the median and the worst, in seconds."""
        found: dict[str, dict[str, list[float]]] = {}
        for number, fault in enumerate(self.faults):
            for group, seconds in self.silences(number).items():
                for kind in (self.kinds[group], "all"):
                    found.setdefault(kind, {}).setdefault(fault.name, [])
                    if seconds > AFFECTED_S:
                        found[kind][fault.name].append(seconds)
        last = found.pop("all", {})
        rows = [*sorted(found.items()), ("all", last)]
        return [f"{kind}: {', '.join(summary(*one) for one in faults.items())}" for kind, faults in rows]


def summary(fault: str, seconds: list[float]) -> str:
    if not seconds:
        return f"{fault} affected none"
    return f"{fault} n={len(seconds)} median={statistics.median(seconds):.1f}s worst={max(seconds):.1f}s"
