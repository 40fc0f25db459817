"""Promises 8 and 9 against a fuzzer: every request is answered or its connection closes, and nobody else suffers.

COORDINATOR_TEST_FUZZ_FRAMES sets the number of frames (default 8,000) and COORDINATOR_TEST_FUZZ_SEED the seed.
"""

import asyncio
import os
import sys

import pytest

from tests.hostile.fuzzer import BUGS, SEED, bombard
from tests.hostile.honest_member import HonestMember
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the honest member's helpers read /proc")

FRAMES = int(os.environ.get("COORDINATOR_TEST_FUZZ_FRAMES", "8000"))


def test_every_fuzzed_request_is_answered_or_closed_and_an_honest_member_is_served(tmp_path):
    """No operation fails by a bug, a member of another group keeps its session, and the log that is left can be loaded."""
    settings = {
        "group.min.session.timeout.ms": 1,
        "group.initial.rebalance.delay.ms": 10,
        "offsets.topic.num.partitions": 4,
        "log.retention.check.interval.ms": 1_000,
    }
    with ServerProcess(tmp_path, settings=settings) as server:
        with HonestMember(server.bootstrap) as honest:
            honest.is_served()
            outcome = asyncio.run(bombard(server.host, server.port, SEED, FRAMES))
            honest.is_served()
        print(f"sent={outcome.sent} answered={outcome.answered} closed={outcome.closed} errors={dict(outcome.errors)}")
        assert not outcome.unanswered, f"neither answered nor closed: {outcome.unanswered[0]}"
        assert outcome.answered > outcome.sent / 4, "most connections were closed: little was tested"
        bugs = [line for line in server.log.splitlines() if BUGS.search(line)]
        assert not bugs, "\n".join(server.log.splitlines()[-200:])
        server.kill()
        server.start()
        with HonestMember(server.bootstrap) as honest:
            honest.is_served()
