"""The programs that `coordinator bench` measures with: each does its work against a server, in little."""

import json
import subprocess
import sys
from dataclasses import asdict

import pytest

from coordinator.bench.consumer import Convergence, assignor_seconds
from coordinator.bench.load import Outcome, Plan
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    settings = {"group.consumer.assignment.interval.ms": 100}
    with ServerProcess(tmp_path_factory.mktemp("bench"), settings=settings) as process:
        yield process


def run(module, *arguments):
    command = [sys.executable, "-m", f"coordinator.bench.{module}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_consumer_group_converges_and_again_after_one_left(server):
    found = Convergence(**run("consumer", server.host, server.port, server.pid, 10, 25))
    assert (found.members, found.partitions) == (10, 25)
    assert found.form_heartbeats > 20
    assert found.form_wall_s > 0


def test_a_group_at_rest_is_asked_over_and_over(server):
    found = Outcome(**run("consumer", server.host, server.port, server.pid, 10, 25, 0.5))
    assert found.answers > 20


@pytest.mark.parametrize("request_kind", ["heartbeat", "consumer heartbeat", "commit"])
def test_a_load_may_have_a_pace(request_kind, server):
    plan = Plan(server.host, server.port, request_kind, 5, 1, 1, 0.1, 1.0, server.pid, joins=True, rate=100)
    found = Outcome(**run("load", json.dumps(asdict(plan))))
    assert 10 <= found.answers <= 150, "without a pace there are thousands"
    assert found.p99_us > 0


def test_the_assignor_is_measured_by_itself():
    assert all(seconds > 0 for seconds in assignor_seconds(10, 100, 2))
