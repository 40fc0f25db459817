"""The servers that a measurement starts, the load generators that it runs, and how it prints a figure."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from coordinator_lab.bench import footprint

FORMING = "group.initial.rebalance.delay.ms=1000"
"""A setting under which members that start together form one generation, as in a deployment. Without it there would be many."""


@dataclass(frozen=True, slots=True)
class Target:
    """The address and process id of a server to measure."""

    host: str
    port: int
    pid: int
    admin: str = ""
    """The URL of its admin pages, if it is this server."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A server to measure. `start(*settings)` starts it for one measurement; for another server it ignores the settings."""

    suffix: str
    """Appended to the names of its rows."""
    start: Callable[..., AbstractContextManager[Target]]
    is_ours: bool


def contenders(durability: str, target: Target | None, *, with_ours: bool) -> list[Contender]:
    """This server, the one at `target`, or both."""
    ours = Contender("", partial(own_server, durability), is_ours=True)
    if target is None:
        return [ours]
    theirs = Contender(" *" if with_ours else "", lambda *_settings: nullcontext(target), is_ours=False)
    return [ours, theirs] if with_ours else [theirs]


@contextmanager
def own_server(durability: str, *settings: str) -> Iterator[Target]:
    """Starts this server without data on free ports."""
    with TemporaryDirectory() as folder:
        wanted = (f"durability={durability}", "group.initial.rebalance.delay.ms=0")
        with footprint.running_server(folder, *wanted, *settings) as (port, process, admin):
            yield Target("127.0.0.1", port, process.pid, admin)


@contextmanager
def echo_server(answer_bytes: int) -> Iterator[Target]:
    """Starts the echo server with responses of this size."""
    command = [sys.executable, "-m", "coordinator_lab.bench.echo", str(answer_bytes)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        assert process.stdout is not None
        yield Target("127.0.0.1", int(process.stdout.readline()), process.pid)
    finally:
        process.kill()
        process.wait()


def run_plan(module: str, plan: dict[str, Any]) -> dict[str, Any]:
    """Runs a load generator, which takes its plan as JSON, in its own process."""
    return run_program(module, json.dumps(plan))


def run_program(module: str, *arguments: str) -> dict[str, Any]:
    """Runs a load generator in its own process; returns what it prints."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"bench: a load generator failed: {done.stderr.strip()[-500:]}")
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


def spread(values: list[float], digits: int = 1) -> str:
    """Median, minimum and maximum."""
    return f"{median(values):5.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def ratio_spread(costs: Sequence[float], base: Sequence[float]) -> str:
    """The median of the ratios within the repetitions, with the smallest and the largest."""
    ratios = [cost / without for cost, without in zip(costs, base, strict=True)]
    return f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
