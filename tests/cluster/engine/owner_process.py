"""A worker as a process: it claims a log and appends to it, and says what it was acknowledged, until it is fenced.

Arguments: the address (or `descriptor:NUMBER` of a connection to a supervisor), the cluster and the log. Each line of its
input makes it claim the log. Its lines begin with `claimed`, `acknowledged`, or `ended`.
"""

import asyncio
import socket
import sys

from coordinator.cluster.engine.address import EngineAddress, engine_for
from coordinator.cluster.engine.engine import Engine, EngineSettings, OutcomeUnknown, Piece, claim_one
from tests.cluster.engine.contract import worker
from tests.cluster.engine.history import text_of
from tests.cluster.engine.local import over


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def own(engine: Engine, log: str) -> str:
    """Appends until the claim ends; returns why."""
    claim = await claim_one(engine, log, worker(1))
    say(f"claimed {claim.epoch} {claim.next_sequence}")
    sequence = claim.next_sequence
    while True:
        data = text_of(claim, sequence)
        try:
            if await engine.append([Piece(claim, sequence, data)]):
                return "fenced"
        except OutcomeUnknown as error:
            return f"unknown: {error}"
        say(f"acknowledged {data.decode()}")
        sequence += 1


def made(address: str, cluster: str) -> Engine:
    scheme, _, number = address.partition(":")
    if scheme == "descriptor":
        return over(socket.socket(fileno=int(number)), append_timeout_ms=60_000)
    return engine_for(EngineAddress(address), EngineSettings(cluster=cluster, append_timeout_ms=60_000))


async def main() -> None:
    address, cluster, log = sys.argv[1:]
    engine = made(address, cluster)
    await engine.open()
    for _ in sys.stdin:
        say(f"ended {await own(engine, log)}")
    await engine.close()


asyncio.run(main())
