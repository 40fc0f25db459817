"""What quotas cost: this server without one, with those of another client, and with a high one of the client that is measured.

They are measured in turn, under the same conditions; the figures to look at are the ratios. A quota of request time is the one
that concerns every API.
"""

import asyncio

from coordinator.protocol.messages import AlterClientQuotasRequest
from coordinator.security.principal import ANONYMOUS
from coordinator_lab.bench.added_cost import Case, Row, Table
from coordinator_lab.bench.load import connected
from coordinator_lab.bench.programs import Target, ratio_spread

_LIMIT = 1e12
"""Nobody reaches it."""
_KEYS = ("request_percentage", "producer_byte_rate", "consumer_byte_rate")


async def _set_quotas(at: Target, user: str) -> None:
    request = AlterClientQuotasRequest
    ops = [request.OpData(key, _LIMIT, remove=False) for key in _KEYS]
    entry = request.EntryData([request.EntityData("user", user)], ops)
    client = await connected(at.host, at.port)
    answer = await client.send(request(entries=[entry]), 1)
    assert not any(result.error_code for result in answer.entries)
    client.close()


QUOTAS = Table(
    (
        Row("quotas: heartbeat, 100 connections", "heartbeat", 100, 1, 0),
        Row("quotas: commit 1 partition, 100 connections", "commit", 100, 1, 1),
    ),
    (
        Case("no quota"),
        Case("of another client", prepare=lambda at: asyncio.run(_set_quotas(at, "another"))),
        Case("its own", prepare=lambda at: asyncio.run(_set_quotas(at, ANONYMOUS.name))),
    ),
    ratio_spread,
    ("ratio another", "ratio own"),
)
