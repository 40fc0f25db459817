"""Every number of every request at its extremes is answered, or its connection closes, and nobody else suffers."""

import asyncio
import sys

import pytest

from tests.hostile.extremes import send_extremes
from tests.hostile.fuzzer import BUGS
from tests.hostile.honest_member import HonestMember

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the honest member's helpers read /proc")

FRAMES_MIN = 4_000
"""The definitions have 627 numeric fields in all versions; four values, each in two requests."""


def test_every_number_of_every_request_may_be_extreme(coordinator_process):
    """No operation fails by a bug, no shard is loaded again, no answer is UNKNOWN_SERVER_ERROR, and the log can be loaded."""
    settings = {
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 4,
        "offsets.retention.check.interval.ms": 500,
        "log.retention.check.interval.ms": 500,
    }
    server = coordinator_process(settings=settings)
    with HonestMember(server.bootstrap) as honest:
        honest.is_served()
        outcome = asyncio.run(send_extremes(server.host, server.port))
        honest.is_served()
    print(f"sent={outcome.sent} answered={outcome.answered}")
    bugs = [line for line in server.log.splitlines() if BUGS.search(line)]
    assert not bugs, "\n".join(server.log.splitlines()[-200:])
    assert not outcome.failed
    assert outcome.sent > FRAMES_MIN
    assert outcome.answered > 0.95 * outcome.sent, "connections were closed: little was tested"
    server.kill()
    server.start()
    with HonestMember(server.bootstrap) as honest:
        honest.is_served()
