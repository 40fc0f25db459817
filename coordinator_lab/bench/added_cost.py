"""What a feature adds to the CPU time of a request: this server without it and with it, in turns under the same conditions."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from coordinator_lab.bench.load import Outcome, Plan
from coordinator_lab.bench.programs import Target, own_server, run_plan, spread


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: a load."""

    name: str
    request: str
    connections: int
    in_flight: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Case:
    """A column of the table: settings of the server, and what is done to it before the load."""

    name: str
    settings: tuple[str, ...] = ()
    prepare: Callable[[Target], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, and cases that are compared with the first one within a repetition, by `compare`, under the heads `compared`."""

    rows: Sequence[Row]
    cases: Sequence[Case]
    compare: Callable[[Sequence[float], Sequence[float]], str]
    compared: Sequence[str]

    def report(self, match: str, seconds: float, repetitions: int, durability: str, warm_up_s: float) -> None:
        """Prints the CPU time per request in each case, and the comparisons, of the rows whose name contains `match`."""
        rows = [row for row in self.rows if match in row.name]
        if rows:
            _print("\nCPU us per request", [*(case.name for case in self.cases), *self.compared])
        for row in rows:
            plan = Plan(
                "", 0, row.request, row.connections, row.in_flight, row.partitions, warm_up_s, seconds, 0, joins=True
            )  # fmt: skip
            costs: list[list[float]] = [[] for _ in self.cases]
            for _ in range(repetitions):
                for case, found in zip(self.cases, costs, strict=True):
                    found.append(_cost(plan, durability, case))
            compared = [self.compare(each, costs[0]) for each in costs[1:]]
            _print(row.name, [*(spread(each, 2) for each in costs), *compared])


def _cost(plan: Plan, durability: str, case: Case) -> float:
    with own_server(durability, *case.settings) as at:
        case.prepare(at)
        placed = asdict(plan) | {"host": at.host, "port": at.port, "server_pid": at.pid}
        outcome = Outcome(**run_plan("coordinator_lab.bench.load", placed))
    return outcome.server_cpu_s / outcome.answers * 1e6


def _print(name: str, columns: Sequence[str]) -> None:
    print(f"{name:54} " + " ".join(f"{column:>20}" for column in columns), flush=True)  # noqa: T201
