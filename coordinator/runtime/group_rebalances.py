"""Which groups rebalance often: what a total over all groups cannot show, because one group in trouble drowns in calm ones.

The metric is the number of such groups, so that no label holds a name that a client chose. Groups that the configuration names
have a count of their own.
"""

from collections.abc import Callable, Iterable

from coordinator.runtime.result import Fact

WINDOW_MINUTES = 10
OFTEN_MINUTES = 5
"""A group rebalances often if rebalances started in this many of the last minutes. All that start within a minute count once: a
large group that starts, and members that expire together, are one disturbance."""
GROUPS_MAX = 10_000
"""Groups that are watched. One more replaces the group whose last rebalance is the oldest."""

_MINUTE_MS = 60_000
_WINDOW = (1 << WINDOW_MINUTES) - 1


class GroupRebalances:
    """The minutes in which rebalances of each group started."""

    __slots__ = ("_minutes", "_monotonic_ms", "named")

    def __init__(self, monotonic_ms: Callable[[], int], named: Iterable[str] = ()) -> None:
        self._monotonic_ms = monotonic_ms
        self.named = dict.fromkeys(named, 0)
        """Rebalances of the groups that `metrics.groups` names."""
        self._minutes: dict[str, tuple[int, int]] = {}
        """Group id -> the minute of its last rebalance, and one bit for each minute of the window, the lowest for that one. In
        the order of the last rebalance."""

    def __len__(self) -> int:
        """How many groups are watched."""
        return len(self._minutes)

    def count(self, fact: Fact) -> None:
        """Counts the start of a rebalance, and forgets a group that is deleted; other facts do not matter."""
        if fact.name == "group_deleted":
            self._minutes.pop(fact.fields["group_id"], None)
        if fact.name != "rebalance_started":
            return
        group_id, minute = fact.fields["group_id"], self._monotonic_ms() // _MINUTE_MS
        if group_id in self.named:
            self.named[group_id] += 1
        before = self._minutes.pop(group_id, (minute, 0))
        self._minutes[group_id] = (minute, _at(minute, *before) | 1)
        oldest = next(iter(self._minutes))
        if len(self._minutes) > GROUPS_MAX or minute - self._minutes[oldest][0] >= WINDOW_MINUTES:
            del self._minutes[oldest]

    def often(self) -> int:
        """How many groups rebalance often."""
        minute = self._monotonic_ms() // _MINUTE_MS
        return sum(_at(minute, *each).bit_count() >= OFTEN_MINUTES for each in self._minutes.values())


def _at(minute: int, last: int, bits: int) -> int:
    """The bits as of this minute."""
    return bits << min(minute - last, WINDOW_MINUTES) & _WINDOW
