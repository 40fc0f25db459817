"""A run that breaks an invariant, made as small as it can be and still break it.

A seed that fails has a dozen kinds of faults and as many clients, and nearly none of them matters. So things are taken away
one at a time: a kind of fault, half of the clients, the time after the break. What is left out stays out if the same
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

_FEWER = ("consumer_groups", "groups", "members", "shards")
_OFF = ("split", "ghosts", "statics", "power_in_write", "assignment_interval_ms", "initial_rebalance_delay_ms")


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
        for smaller in _smaller(best):
            report = run(smaller)
            if report.broken is not None and name_of(report.broken) == invariant:
                best, has_shrunk = report, True
                say(best)
                break
    return best


def name_of(broken: str) -> str:
    """The invariant: what stands before the first colon."""
    return broken.partition(":")[0]


def _smaller(report: Report) -> Iterator[Plan]:
    """The plan with one thing less, what takes most away first."""
    plan = report.plan
    ended_s = round(report.seconds + AFTER_S, 1)
    if ended_s < plan.span_s:
        yield replace(plan, span_s=ended_s)
    for name in _rates(plan):
        if getattr(plan, name):
            yield _with(plan, name, 0.0)
    for name in _FEWER:
        count, least = getattr(plan, name), 0 if name == "consumer_groups" else 1
        for fewer in sorted({least, count // 2, count - 1}):
            if least <= fewer < count:
                yield _with(plan, name, fewer)
    for name in _OFF:
        if getattr(plan, name):
            yield _with(plan, name, type(getattr(plan, name))(0))
    if plan.short_writes:
        yield replace(plan, short_writes=False)
    if plan.span_s / 2 >= SPAN_S_MIN:
        yield replace(plan, span_s=round(plan.span_s / 2, 1))


def _with(plan: Plan, name: str, value: Any) -> Plan:
    return replace(plan, **{name: value})


def _rates(plan: Plan) -> list[str]:
    """Faults that happen every so many seconds."""
    others = {"span_s", "think_s", "network_delay_s", "fsync_s", "downtime_s"}
    return [each.name for each in fields(plan) if each.name.endswith("_s") and each.name not in others]
