"""A worker that is paused while others take its log acknowledges nothing when it wakes up."""

import asyncio
import os
import signal
import subprocess
import sys
from random import Random

import pytest

from coordinator.engine.engine import Claim
from tests.engine.conftest import LONG
from tests.engine.contract import worker
from tests.engine.history import Appender, Record

LOG = "__consumer_offsets-3"
PAUSES = 50 if LONG else 10


class OwnerProcess:
    """The process of owner_process.py, and what it said."""

    def __init__(self, url: str, cluster: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.owner_process", url, cluster, LOG],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
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

    def start(url: str, cluster: str) -> OwnerProcess:
        owners.append(OwnerProcess(url, cluster))
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


async def test_an_owner_that_wakes_up_after_a_takeover_acknowledges_nothing(
    connect_postgresql, postgresql_cluster, start_owner
):
    name, random, record = "paused_owner", Random(3), Record()
    new = Appender(await connect_postgresql(cluster=name), worker(2), record)
    owner = start_owner(postgresql_cluster.url(), name)
    for _ in range(PAUSES):
        owner.send("claim")
        while not owner.line().startswith("acknowledged"):
            pass
        await asyncio.sleep(random.uniform(0, 0.03))
        owner.signal(signal.SIGSTOP)
        await new.take(LOG)
        for _ in range(5):
            await new.append_once()
        assert len(record.acknowledged[LOG]) >= 5
        owner.signal(signal.SIGCONT)
        assert lines_until_ended(owner, record) == "fenced"
        # Everything that it said before and after the pause is in front of the new owner's claim, or this finds it.
        await new.take(LOG)
