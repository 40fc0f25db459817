"""What an authorizer costs: this server without one, and with one and 1,000 ACLs, in turns under the same conditions.

The client is one that two of the ACLs permit what it asks for. The others are about other clients, topics and groups, half of
them by prefix.
"""

import asyncio
from dataclasses import asdict, dataclass

from coordinator.config.access_control import STANDARD_AUTHORIZER
from coordinator.protocol.messages import CreateAclsRequest
from coordinator.security.access import AclOperation, ResourceType
from coordinator.security.acls import PatternType, PermissionType
from coordinator.security.principal import ANONYMOUS
from coordinator_lab.bench.load import TOPIC, Outcome, Plan, connected
from coordinator_lab.bench.programs import Target, own_server, run_plan, spread

ACLS = 1_000
_Creation = CreateAclsRequest.AclCreation
_WITHOUT = ()
_WITH = (f"authorizer.class.name={STANDARD_AUTHORIZER}", "allow.everyone.if.no.acl.found=true")


@dataclass(frozen=True, slots=True)
class AccessRow:
    """A row of the table."""

    name: str
    request: str
    connections: int
    in_flight: int
    partitions: int


ROWS = (
    AccessRow("authorizer: heartbeat, 1 connection x16", "heartbeat", 1, 16, 0),
    AccessRow("authorizer: heartbeat, 100 connections", "heartbeat", 100, 1, 0),
    AccessRow("authorizer: consumer heartbeat, 100 connections", "consumer heartbeat", 100, 1, 0),
    AccessRow("authorizer: commit 1 partition, 1 connection x16", "commit", 1, 16, 1),
    AccessRow("authorizer: commit 1 partition, 100 connections", "commit", 100, 1, 1),
    AccessRow("authorizer: commit 10 partitions, 100 connections", "commit", 100, 1, 10),
)


def report_access_control(match: str, seconds: float, repetitions: int, durability: str, warm_up_s: float) -> None:
    """CPU time per request in both cases, and what the authorizer adds within one repetition."""
    rows = [row for row in ROWS if match in row.name]
    if rows:
        heads = " ".join(f"{head:>20}" for head in ("no authorizer", f"{ACLS:,} ACLs", "more"))
        print(f"\n{'CPU us per request':54} {heads}")  # noqa: T201
    for row in rows:
        plan = Plan(
            "", 0, row.request, row.connections, row.in_flight, row.partitions, warm_up_s, seconds, 0, joins=True
        )  # fmt: skip
        costs: dict[tuple[str, ...], list[float]] = {_WITHOUT: [], _WITH: []}
        for _ in range(repetitions):
            for settings, found in costs.items():
                found.append(_cost(plan, durability, settings))
        more = [each - base for each, base in zip(costs[_WITH], costs[_WITHOUT], strict=True)]
        columns = " ".join(f"{spread(column, 2):>20}" for column in (*costs.values(), more))
        print(f"{row.name:54} {columns}", flush=True)  # noqa: T201


def _cost(plan: Plan, durability: str, settings: tuple[str, ...]) -> float:
    with own_server(durability, *settings) as at:
        if settings:
            asyncio.run(_create_acls(at))
        placed = asdict(plan) | {"host": at.host, "port": at.port, "server_pid": at.pid}
        outcome = Outcome(**run_plan("coordinator_lab.bench.load", placed))
    return outcome.server_cpu_s / outcome.answers * 1e6


async def _create_acls(at: Target) -> None:
    client = await connected(at.host, at.port)
    answer = await client.send(CreateAclsRequest(_acls()), 3)
    assert not any(result.error_code for result in answer.results)
    client.close()


def _acls() -> list[CreateAclsRequest.AclCreation]:
    mine = [
        _acl(ResourceType.TOPIC, TOPIC, PatternType.LITERAL, str(ANONYMOUS)),
        _acl(ResourceType.GROUP, "bench-", PatternType.PREFIXED, str(ANONYMOUS)),
    ]
    return mine + [
        _acl(
            ResourceType.TOPIC if number % 2 else ResourceType.GROUP,
            f"{'orders' * (number % 7)}-{number}",
            PatternType.LITERAL if number % 4 < 2 else PatternType.PREFIXED,
            f"User:user-{number % 100}",
        )
        for number in range(ACLS - len(mine))
    ]


def _acl(resource_type: ResourceType, name: str, pattern: PatternType, principal: str) -> _Creation:
    return _Creation(resource_type, name, pattern, principal, "*", AclOperation.READ, PermissionType.ALLOW)
