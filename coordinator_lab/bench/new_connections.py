"""The load of clients that come and go: each connects, asks for the versions, and closes the connection.

python -m coordinator_lab.bench.new_connections PLAN      PLAN is JSON (`ConnectingPlan`); prints one JSON line (`Connected`)
"""

import asyncio
import json
import ssl
import sys
import time
from dataclasses import asdict, dataclass

import uvloop

from coordinator.protocol.messages import ApiVersionsRequest
from coordinator_lab.bench.load import connected, cpu_seconds, tls_context

CLIENTS = 20
"""How many of them connect at the same time."""


@dataclass(frozen=True, slots=True)
class ConnectingPlan:
    """A measurement. `certificate` is the file with the certificate of a server with TLS, or empty."""

    host: str
    port: int
    certificate: str
    warm_up_s: float
    seconds: float
    server_pid: int


@dataclass(frozen=True, slots=True)
class Connected:
    """The number of connections that began and ended during the measurement, and the CPU time of the server."""

    connections: int
    seconds: float
    server_cpu_s: float


class _Clients:
    """They connect one time after another, until their task is cancelled."""

    def __init__(self, plan: ConnectingPlan, tls: ssl.SSLContext | None) -> None:
        self._plan = plan
        self._tls = tls
        self.connections = 0

    async def connect_again_and_again(self) -> None:
        while True:
            client = await connected(self._plan.host, self._plan.port, self._tls)
            answer = await client.send(ApiVersionsRequest(), 2)
            assert not answer.error_code
            client.close()
            self.connections += 1


async def run(plan: ConnectingPlan) -> Connected:
    """Lets the clients connect, and measures the server after the warm-up."""
    clients = _Clients(plan, tls_context(plan.certificate))
    tasks = [asyncio.ensure_future(clients.connect_again_and_again()) for _ in range(CLIENTS)]
    failed, _ = await asyncio.wait(tasks, timeout=plan.warm_up_s, return_when=asyncio.FIRST_COMPLETED)
    count, cpu_s, began_s = clients.connections, cpu_seconds(plan.server_pid), time.perf_counter()
    if not failed:
        failed, _ = await asyncio.wait(tasks, timeout=plan.seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in failed:
        task.result()  # only a failure ends it
    lasted_s = time.perf_counter() - began_s
    spent_s = cpu_seconds(plan.server_pid) - cpu_s
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return Connected(clients.connections - count, lasted_s, spent_s)


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(run(ConnectingPlan(**json.loads(sys.argv[1])))))))  # noqa: T201
