"""Behind an append that may be lost nothing becomes durable, because the log would have a gap."""

import asyncio

import pytest

from coordinator.cluster.engine.ended import EndedClaims
from coordinator.cluster.engine.engine import Claim, EngineUnavailable, Fenced, OutcomeUnknown
from tests.cluster.engine.contract import pieces

CLAIM, OTHER = Claim("__consumer_offsets-0", 3, 0, 0), Claim("__consumer_offsets-1", 5, 0, 0)


async def test_an_append_that_waits_behind_an_unknown_one_is_not_sent():
    ended, sent = EndedClaims(), []

    async def send(living):
        sent.append(living)
        await asyncio.sleep(0)
        if len(sent) == 1:
            raise EngineUnavailable("no answer")
        return ()

    first = asyncio.create_task(ended.append(pieces(CLAIM, b"a"), send))
    second = asyncio.create_task(ended.append(pieces(CLAIM, b"b", first=1) + pieces(OTHER, b"c"), send))
    with pytest.raises(OutcomeUnknown, match="no answer"):
        await first
    assert await second == {CLAIM.log}
    assert sent == [pieces(CLAIM, b"a"), pieces(OTHER, b"c")]
    with pytest.raises(Fenced):
        ended.refuse(CLAIM)
    ended.refuse(CLAIM._replace(epoch=4))


async def test_an_append_that_is_cancelled_ends_its_claims():
    ended, never = EndedClaims(), asyncio.Event()

    async def send(_living):
        await never.wait()
        return ()

    append = asyncio.create_task(ended.append(pieces(CLAIM, b"a"), send))
    await asyncio.sleep(0)
    append.cancel()
    await asyncio.wait([append])
    assert ended.has_ended(CLAIM)
    assert not ended.has_ended(OTHER)


async def test_an_append_of_ended_claims_alone_is_not_sent():
    ended = EndedClaims()
    ended.end([CLAIM])

    async def send(_living):
        raise AssertionError("nothing is left to send")

    assert await ended.append(pieces(CLAIM, b"a"), send) == {CLAIM.log}
