"""The cost of control for requests that it is not about: this server with control off, on, and on with a rule for another API.

A rule intercepts the routes of its own APIs only (rules/), so all three should cost the same. They are measured in turn, under
the same conditions; the figures to look at are the ratios.
"""

import json
import urllib.request
from dataclasses import asdict, dataclass

from coordinator_lab.bench.load import Outcome, Plan
from coordinator_lab.bench.programs import Target, own_server, ratio_spread, run_plan, spread

_OTHER_API = {"match": {"api": "ListGroups"}, "action": {"error": "COORDINATOR_NOT_AVAILABLE"}}


@dataclass(frozen=True, slots=True)
class ControlRow:
    """A row of the table."""

    name: str
    request: str
    connections: int
    partitions: int


ROWS = (
    ControlRow("control: heartbeat, 100 connections", "heartbeat", 100, 0),
    ControlRow("control: commit 1 partition, 100 connections", "commit", 100, 1),
)
OFF, ON, ONE_RULE = "control off", "on", "on, one rule"


def report_control(match: str, seconds: float, repetitions: int, durability: str, warm_up_s: float) -> None:
    """CPU time per request in the three cases, and the ratios to the first, each within one repetition."""
    rows = [row for row in ROWS if match in row.name]
    if rows:
        heads = " ".join(f"{head:>20}" for head in (OFF, ON, ONE_RULE, "ratio on", "ratio one rule"))
        print(f"\n{'CPU us per request':54} {heads}")  # noqa: T201
    for row in rows:
        costs = _costs(row, seconds, repetitions, durability, warm_up_s)
        columns = [spread(costs[case]) for case in (OFF, ON, ONE_RULE)]
        columns += [ratio_spread(costs[case], costs[OFF]) for case in (ON, ONE_RULE)]
        print(f"{row.name:54} " + " ".join(f"{column:>20}" for column in columns), flush=True)  # noqa: T201


def _costs(
    row: ControlRow, seconds: float, repetitions: int, durability: str, warm_up_s: float
) -> dict[str, list[float]]:
    costs: dict[str, list[float]] = {OFF: [], ON: [], ONE_RULE: []}
    for _ in range(repetitions):
        for case, found in costs.items():
            with own_server(durability, f"admin.control.enable={str(case != OFF).lower()}") as at:
                if case == ONE_RULE:
                    _set_rule(at)
                plan = Plan(
                    at.host,
                    at.port,
                    row.request,
                    row.connections,
                    1,
                    row.partitions,
                    warm_up_s,
                    seconds,
                    at.pid,
                    joins=True,
                )
                outcome = Outcome(**run_plan("coordinator_lab.bench.load", asdict(plan)))
            found.append(outcome.server_cpu_s / outcome.answers * 1e6)
    return costs


def _set_rule(at: Target) -> None:
    request = urllib.request.Request(  # noqa: S310 - the server that this program started
        f"{at.admin}/v1/faults", json.dumps(_OTHER_API).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - as above
        answer.read()
