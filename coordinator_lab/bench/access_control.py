"""What an authorizer costs: this server without one, and with one and 1,000 ACLs, in turns under the same conditions.

The client is one that two of the ACLs permit what it asks for. The others are about other clients, topics and groups, half of
them by prefix.
"""

import asyncio
from collections.abc import Sequence

from coordinator.config.access_control import STANDARD_AUTHORIZER
from coordinator.protocol.messages import CreateAclsRequest
from coordinator.security.access import AclOperation, ResourceType
from coordinator.security.acls import PatternType, PermissionType
from coordinator.security.principal import ANONYMOUS
from coordinator_lab.bench.added_cost import Case, Row, Table
from coordinator_lab.bench.load import TOPIC, connected
from coordinator_lab.bench.programs import Target, spread

ACLS = 1_000
_Creation = CreateAclsRequest.AclCreation


def _more(costs: Sequence[float], base: Sequence[float]) -> str:
    return spread([cost - without for cost, without in zip(costs, base, strict=True)], 2)


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


ACCESS_CONTROL = Table(
    (
        Row("authorizer: heartbeat, 1 connection x16", "heartbeat", 1, 16, 0),
        Row("authorizer: heartbeat, 100 connections", "heartbeat", 100, 1, 0),
        Row("authorizer: consumer heartbeat, 100 connections", "consumer heartbeat", 100, 1, 0),
        Row("authorizer: commit 1 partition, 1 connection x16", "commit", 1, 16, 1),
        Row("authorizer: commit 1 partition, 100 connections", "commit", 100, 1, 1),
        Row("authorizer: commit 10 partitions, 100 connections", "commit", 100, 1, 10),
    ),
    (
        Case("no authorizer"),
        Case(
            f"{ACLS:,} ACLs",
            (f"authorizer.class.name={STANDARD_AUTHORIZER}", "allow.everyone.if.no.acl.found=true"),
            lambda at: asyncio.run(_create_acls(at)),
        ),
    ),
    _more,
    ("more",),
)
