"""A worker that is paused while others take its log acknowledges nothing when it wakes up."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest

from coordinator.cluster.engine.engine import Claim
from tests.cluster.engine.conftest import KAFKA, LONG, POSTGRESQL, connector
from tests.cluster.engine.contract import worker
from tests.cluster.engine.history import Appender, Record

LOG = "__consumer_offsets-3"
PAUSES = 50 if LONG else 10


class OwnerProcess:
    """The process of owner_process.py, and what it said."""

    def __init__(self, url: str, cluster: str, descriptors: Sequence[int] = ()) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.engine.owner_process", url, cluster, LOG],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            pass_fds=descriptors,
        )

    def send(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line, "the owner is gone"
        return line

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start_owner():
    owners = []

    def start(*arguments: Any) -> OwnerProcess:
        owners.append(OwnerProcess(*arguments))
        return owners[-1]

    yield start
    for owner in owners:
        owner.close()


def lines_until_ended(owner: OwnerProcess, record: Record) -> str:
    """Reads what the owner says until its claim ends; returns why it did."""
    while True:
        kind, _, text = owner.line().partition(" ")
        if kind == "ended":
            return text
        if kind == "claimed":
            epoch, next_sequence = map(int, text.split())
            record.claims.append(Claim(LOG, epoch, next_sequence, 0))
        else:
            record.acknowledged.setdefault(LOG, []).append(text.encode())


@pytest.mark.parametrize("kind", [POSTGRESQL, KAFKA])
async def test_an_owner_that_wakes_up_after_a_takeover_acknowledges_nothing(kind, request, start_owner):
    name, url = "paused_owner", request.getfixturevalue(f"{kind}_cluster").url()
    async with AsyncExitStack() as opened:
        new = Appender(await connector(opened, url)(cluster=name), worker(2), Record())
        await pause_again_and_again(start_owner(url, name), new)


async def test_an_owner_on_the_same_machine_that_wakes_up_acknowledges_nothing(connect_local, start_owner):
    new = Appender(await connect_local(), worker(2), Record())
    with await connect_local.endpoint() as endpoint:
        owner = start_owner(f"descriptor:{endpoint.fileno()}", "", [endpoint.fileno()])
    await pause_again_and_again(owner, new)


async def pause_again_and_again(owner: OwnerProcess, new: Appender) -> None:
    random, record = Random(3), new.record
    for _ in range(PAUSES):
        owner.send("claim")
        while not (await asyncio.to_thread(owner.line)).startswith("acknowledged"):
            pass
        await asyncio.sleep(random.uniform(0, 0.03))
        owner.signal(signal.SIGSTOP)
        await new.take(LOG)
        for _ in range(5):
            await new.append_once()
        assert len(record.acknowledged[LOG]) >= 5
        owner.signal(signal.SIGCONT)
        assert await asyncio.to_thread(lines_until_ended, owner, record) == "fenced"
        # Everything that it said before and after the pause is in front of the new owner's claim, or this finds it.
        await new.take(LOG)
