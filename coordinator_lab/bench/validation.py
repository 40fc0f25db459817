"""What it costs to validate a leader's assignments: a rebalance of a classic group with and without it, in turns.

The group has 1,000 members with ten partitions each. Under `range` they claim nothing; under `cooperative-sticky` each claims
its partitions, which are compared with the assignment. All assignments are valid, as in operation.
"""

from coordinator.groups.settings import OFF, REPORT
from coordinator_lab.bench.programs import FORMING, own_server, run_program, spread
from coordinator_lab.bench.rebalance import COOPERATIVE, RANGE, Rebalances

MEMBERS = 1_000


def report_validation(match: str, repetitions: int, durability: str) -> None:
    """Prints the server's CPU time for the rebalances in which a member joins and leaves, and their ratio within each run."""
    named = {f"validated rebalances of {MEMBERS:,} members, {assignor}": assignor for assignor in (RANGE, COOPERATIVE)}
    wanted = {name: assignor for name, assignor in named.items() if match in name}
    if wanted:
        print(f"\n{'server CPU in ms':56} {'off':>22} {'report':>22} {'ratio':>22}")  # noqa: T201
    for name, assignor in wanted.items():
        costs: dict[str, list[float]] = {OFF: [], REPORT: []}
        for _ in range(repetitions):
            for policy, found in costs.items():
                found.append(_rebalances_ms(durability, policy, assignor))
        ratios = [report / off for off, report in zip(costs[OFF], costs[REPORT], strict=True)]
        columns = " ".join(f"{spread(column):>22}" for column in costs.values())
        print(f"{name:56} {columns} {spread(ratios, 2):>22}", flush=True)  # noqa: T201


def _rebalances_ms(durability: str, policy: str, assignor: str) -> float:
    with own_server(durability, FORMING, f"group.classic.validate.assignments={policy}") as at:
        arguments = (at.host, str(at.port), str(at.pid), str(MEMBERS), assignor)
        found = Rebalances(**run_program("coordinator_lab.bench.rebalance", *arguments))
    return found.joins_ms + found.leaves_ms
