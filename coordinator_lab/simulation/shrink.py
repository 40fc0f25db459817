"""Shrinks the plan of a run that breaks an invariant to a minimal plan that still breaks it.

A failing seed has a dozen kinds of failures and as many clients, and hardly any of them matters. Shrinking removes one thing at
a time: the time after the failure, half of the clients, a kind of failure. The removal is kept if the same invariant still
breaks, and the steps are repeated until nothing more can be removed. The result is a plan, which can be kept and run again
even when the way in which plans are drawn from seeds changes.

A smaller plan is a different run, not a part of the original one, because the remaining clients behave differently. It may
therefore reach the same bug in another way, which does no harm.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from coordinator_lab.simulation.plan import Plan
from coordinator_lab.simulation.simulator import Report

AFTER_S = 0.5
"""Time that a plan keeps after the moment of the failure."""
SPAN_S_MIN = 1.0

_Less = Callable[[Any], Any]


def shrink(plan: Plan, run: Callable[[Plan], Report], say: Callable[[Report], None]) -> Report:
    """The report of the smallest plan found. Calls `say` with the report of every smaller plan on the way.

    `plan` must break an invariant.
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
    """The name of the invariant in a report: the text before the first colon."""
    return broken.partition(":")[0]


def _changes(report: Report) -> Iterator[tuple[str, _Less]]:
    """Fields that may shrink, and how. Those that make all further runs shorter come first."""
    ended_s = round(report.seconds + AFTER_S, 1)
    yield "span_s", lambda span_s: min(span_s, ended_s)
    yield "span_s", lambda span_s: max(round(span_s / 2, 1), SPAN_S_MIN)
    if report.plan.workers:
        yield from (("workers", less) for less in _fewer(1))
    for name in ("consumer_groups", "mixed_groups", "streams_groups", "share_groups", "groups", "members", "shards"):
        least = 0 if name.startswith(("consumer", "mixed", "streams", "share")) else 1
        yield from ((name, less) for less in _fewer(least))
    for each in fields(report.plan):
        if each.name in _OFF or (each.name.endswith("_s") and each.name not in _NO_FAILURES):
            yield each.name, lambda value: type(value)(0)


def _fewer(least: int) -> tuple[_Less, ...]:
    """Tries the minimum first, then half, then one less."""
    return (lambda _: least), (lambda count: max(count // 2, least)), (lambda count: max(count - 1, least))


_NO_FAILURES = {"span_s", "think_s", "network_delay_s", "engine_delay_s", "fsync_s", "downtime_s"}
_OFF = {
    "split", "ghosts", "statics", "power_in_write", "assignment_interval_ms", "initial_rebalance_delay_ms",
    "num_standby_replicas", "short_writes", "engine_faults", "clock_drift", "worker_drift",
}  # fmt: skip
"""Fields that may be set to zero, in addition to the mean times between failures."""


def _with(plan: Plan, name: str, value: Any) -> Plan:
    return replace(plan, **{name: value})
