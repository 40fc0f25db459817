"""What quotas cost: this server without one, with those of another client, and with a high one of the client that is measured.

They are measured in turn, under the same conditions; the figures to look at are the ratios. A quota of request time is the one
that concerns every API.
"""

import asyncio
from dataclasses import asdict, dataclass

from coordinator.protocol.messages import AlterClientQuotasRequest
from coordinator.security.principal import ANONYMOUS
from coordinator_lab.bench.load import Outcome, Plan, connected
from coordinator_lab.bench.programs import Target, own_server, ratio_spread, run_plan, spread

NONE, OF_ANOTHER, OWN = "no quota", "of another client", "its own"
_LIMIT = 1e12
"""Nobody reaches it."""
_KEYS = ("request_percentage", "producer_byte_rate", "consumer_byte_rate")


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """A row of the table."""

    name: str
    request: str
    connections: int
    partitions: int


ROWS = (
    QuotaRow("quotas: heartbeat, 100 connections", "heartbeat", 100, 0),
    QuotaRow("quotas: commit 1 partition, 100 connections", "commit", 100, 1),
)


def report_quotas(match: str, seconds: float, repetitions: int, durability: str, warm_up_s: float) -> None:
    """CPU time per request in the three cases, and the ratios to the first, each within one repetition."""
    rows = [row for row in ROWS if match in row.name]
    if rows:
        heads = " ".join(f"{head:>20}" for head in (NONE, OF_ANOTHER, OWN, "ratio another", "ratio own"))
        print(f"\n{'CPU us per request':54} {heads}")  # noqa: T201
    for row in rows:
        plan = Plan("", 0, row.request, row.connections, 1, row.partitions, warm_up_s, seconds, 0, joins=True)
        costs: dict[str, list[float]] = {NONE: [], OF_ANOTHER: [], OWN: []}
        for _ in range(repetitions):
            for case, found in costs.items():
                found.append(_cost(plan, durability, case))
        columns = [spread(found) for found in costs.values()]
        columns += [ratio_spread(costs[case], costs[NONE]) for case in (OF_ANOTHER, OWN)]
        print(f"{row.name:54} " + " ".join(f"{column:>20}" for column in columns), flush=True)  # noqa: T201


def _cost(plan: Plan, durability: str, case: str) -> float:
    with own_server(durability) as at:
        if case != NONE:
            asyncio.run(_set_quotas(at, "another" if case == OF_ANOTHER else ANONYMOUS.name))
        placed = asdict(plan) | {"host": at.host, "port": at.port, "server_pid": at.pid}
        outcome = Outcome(**run_plan("coordinator_lab.bench.load", placed))
    return outcome.server_cpu_s / outcome.answers * 1e6


async def _set_quotas(at: Target, user: str) -> None:
    request = AlterClientQuotasRequest
    ops = [request.OpData(key, _LIMIT, remove=False) for key in _KEYS]
    entry = request.EntryData([request.EntityData("user", user)], ops)
    client = await connected(at.host, at.port)
    answer = await client.send(request(entries=[entry]), 1)
    assert not any(result.error_code for result in answer.entries)
    client.close()
