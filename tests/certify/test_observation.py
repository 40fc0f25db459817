"""What the stage knows of the recorded requests, however many there are and however slow the server answers."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from coordinator.rules.model import Entry, RecordingPage
from coordinator_testing.certify import observation as observed
from coordinator_testing.certify.observation import Observation
from coordinator_testing.control import ControlUnreachable
from tests.support.waiting import WITHIN_S

LISTENER = "127.0.0.1:4000"
PAGE = 10
ENTRY = Entry(
    number=0, time_ms=0, answered_ms=None, api="Heartbeat", version=4, correlation_id=1, client_id="c",
    client_host="127.0.0.1", connection=1, listener=LISTENER, request={}, response=None, outcome="pending", fault=None,
)  # fmt: skip


class RecordingServer:
    """A server with one recording, in place of its control and its clock. The next `unreachable` requests fail."""

    def __init__(self, count: int) -> None:
        self.entries = [msgspec.structs.replace(ENTRY, number=number + 1) for number in range(count)]
        self.unreachable = 0

    def machine_ms(self, time_ms: int) -> int:
        return time_ms

    async def record(self, **_: Any) -> "RecordingServer":
        return self

    async def page(self, after: int = 0, wait_ms: int = 0) -> RecordingPage:
        await asyncio.sleep(0)
        if self.unreachable:
            self.unreachable -= 1
            raise ControlUnreachable("too late")
        found = self.entries[after : after + PAGE]
        return RecordingPage(found, found[-1].number if found else after, 0)

    def answer(self, number: int) -> None:
        self.entries[number - 1] = msgspec.structs.replace(self.entries[number - 1], outcome="answered", answered_ms=1)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed, "POLL_MS", 0)


async def eventually(observation: Observation, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not condition():
            observation.changed.clear()
            await observation.changed.wait()


async def observe(server: Any) -> Observation:
    observation = Observation(server)
    await observation.start(server, {LISTENER: [LISTENER]})
    return observation


def answered(observation: Observation) -> list[int]:
    return [each.number for each in observation.entries if each.outcome == "answered"]


async def test_an_answer_is_seen_however_many_requests_before_it_have_none():
    server = RecordingServer(5 * PAGE)
    observation = await observe(server)
    await eventually(observation, lambda: len(observation.entries) == 5 * PAGE)
    server.answer(4 * PAGE)
    await eventually(observation, lambda: answered(observation) == [4 * PAGE])
    await observation.stop()


async def test_one_answer_of_the_server_that_is_too_late_ends_nothing():
    server = RecordingServer(1)
    observation = await observe(server)
    await eventually(observation, lambda: len(observation.entries) == 1)
    server.unreachable = 2
    server.answer(1)
    await eventually(observation, lambda: answered(observation) == [1])
    await observation.stop()


async def test_the_end_reads_all_pages_that_are_left():
    server = RecordingServer(0)
    observation = await observe(server)
    server.entries = RecordingServer(5 * PAGE).entries
    await observation.stop()
    assert len(observation.entries) == 5 * PAGE
