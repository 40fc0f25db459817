"""A run that breaks an invariant, made as small as it can be and still break it.

A seed that fails has a dozen kinds of faults and as many clients, and nearly none of them matters. So things are taken away
one at a time: the time after the break, half of the clients, a kind of fault. What is left out stays out if the same
invariant still breaks, and this is done over and over until nothing can go any more. The outcome is a plan, which can be
kept and run again: a seed's meaning changes with every change of how plans are drawn, a plan's does not.

A smaller plan is another run, not a part of the same one, since whoever is missing leaves more of everything to the others. So
what is found in the end may be another way to the same mistake. That does no harm.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from coordinator.faults.plan import Plan
from coordinator.faults.simulator import Report

AFTER_S = 0.5
"""What is left of a run behind the moment at which it broke."""
SPAN_S_MIN = 1.0

_Less = Callable[[Any], Any]


def shrink(plan: Plan, run: Callable[[Plan], Report], say: Callable[[Report], None]) -> Report:
    """The report of the smallest plan that was found; `say` hears of each that is smaller than the last.

    `plan` must break something.
    """
    best = run(plan)
    assert best.broken is not None, "nothing is broken"
    invariant = name_of(best.broken)
    has_shrunk = True
    while has_shrunk:
        has_shrunk = False
        for name, less in _changes(best):
            value = getattr(best.plan, name)
            smaller = less(value)
            if smaller == value:
                continue
            report = run(_with(best.plan, name, smaller))
            if report.broken is not None and name_of(report.broken) == invariant:
                best, has_shrunk = report, True
                say(best)
    return best


def name_of(broken: str) -> str:
    """The invariant: what stands before the first colon."""
    return broken.partition(":")[0]


def _changes(report: Report) -> Iterator[tuple[str, _Less]]:
    """What may be less, and how much less. First what makes all further runs shorter."""
    ended_s = round(report.seconds + AFTER_S, 1)
    yield "span_s", lambda span_s: min(span_s, ended_s)
    yield "span_s", lambda span_s: max(round(span_s / 2, 1), SPAN_S_MIN)
    for name in ("consumer_groups", "mixed_groups", "streams_groups", "groups", "members", "shards"):
        least = 0 if name.startswith(("consumer", "mixed", "streams")) else 1
        yield from ((name, less) for less in _fewer(least))
    for each in fields(report.plan):
        if each.name in _OFF or (each.name.endswith("_s") and each.name not in _NO_FAULTS):
            yield each.name, lambda value: type(value)(0)


def _fewer(least: int) -> tuple[_Less, ...]:
    """The fewest at once, else half, else one less."""
    return (lambda _: least), (lambda count: max(count // 2, least)), (lambda count: max(count - 1, least))


_NO_FAULTS = {"span_s", "think_s", "network_delay_s", "fsync_s", "downtime_s"}
_OFF = {
    "split", "ghosts", "statics", "power_in_write", "assignment_interval_ms", "initial_rebalance_delay_ms",
    "num_standby_replicas", "short_writes",
}  # fmt: skip
"""What there may be none of, beside faults that happen every so many seconds."""


def _with(plan: Plan, name: str, value: Any) -> Plan:
    return replace(plan, **{name: value})
