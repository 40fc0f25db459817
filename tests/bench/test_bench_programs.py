"""The programs that `coordinator bench` runs, each with a small load."""

import asyncio
import json
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from coordinator_lab.bench import load
from coordinator_lab.bench.consumer import Convergence, assignor_seconds
from coordinator_lab.bench.flood import KINDS, FloodPlan
from coordinator_lab.bench.load import Outcome, Plan
from coordinator_lab.bench.new_connections import Connected, ConnectingPlan
from coordinator_lab.bench.rebalance import COOPERATIVE, RANGE, Rebalances
from coordinator_lab.bench.share import COMMITS, RARELY, SHARE, ShareOutcome, SharePlan
from coordinator_lab.bench.tls import make_certificate
from tests.support.admin_client import scrape
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S

MEMBERS = 20


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    settings = {"group.consumer.assignment.interval.ms": 100}
    with ServerProcess(tmp_path_factory.mktemp("bench"), settings=settings) as process:
        yield process


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory, made):
    settings = {"listener.security.protocol.map": "PLAINTEXT:SSL", "ssl.keystore.location": made.with_key}
    with ServerProcess(tmp_path_factory.mktemp("tls"), settings=settings) as process:
        yield process


def run(module, *arguments):
    command = [sys.executable, "-m", f"coordinator_lab.bench.{module}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_consumer_group_becomes_stable_and_again_after_a_member_has_left(server):
    found = Convergence(**run("consumer", server.host, server.port, server.pid, 10, 25))
    assert (found.members, found.partitions) == (10, 25)
    assert found.form_heartbeats > 20
    assert found.form_wall_s > 0


def test_the_heartbeats_of_a_stable_group_are_measured(server):
    found = Outcome(**run("consumer", server.host, server.port, server.pid, 10, 25, 0.5))
    assert found.answers > 0


@pytest.mark.parametrize("assignor", [RANGE, COOPERATIVE])
def test_the_rebalances_of_a_classic_group_are_measured_with_valid_assignments(assignor, server):
    found = Rebalances(**run("rebalance", server.host, server.port, server.pid, 10, assignor))
    assert found.members == 10
    assert sum(scrape(server)["coordinator_invalid_assignments_total"].values()) == 0


@pytest.mark.parametrize("request_kind", ["heartbeat", "consumer heartbeat", "commit"])
def test_a_load_can_have_a_fixed_rate(request_kind, server):
    plan = Plan(server.host, server.port, request_kind, 5, 1, 1, 0.1, 1.0, server.pid, joins=True, rate=100)
    found = Outcome(**run("load", json.dumps(asdict(plan))))
    assert 0 < found.answers <= 150, "without a fixed rate there would be thousands"
    assert found.p99_us > 0


def test_the_assignor_is_measured_without_a_server():
    assert all(seconds > 0 for seconds in assignor_seconds(10, 100, 2, 1))


@pytest.mark.parametrize(("kind", "in_flight"), [*((kind, 0) for kind in KINDS), ("join", 1)])
def test_heartbeats_are_measured_beside_a_flood(kind, in_flight, server):
    plan = FloodPlan(server.host, server.port, server.pid, kind, 2, in_flight, 0.5)
    found = Outcome(**run("flood", json.dumps(asdict(plan))))
    assert found.answers > 0
    assert 0 < found.p50_us <= found.p99_us


@pytest.mark.parametrize("request_kind", ["heartbeat", "consumer heartbeat", "commit"])
def test_requests_are_measured_over_tls(request_kind, tls_server, made):
    at = tls_server
    plan = Plan(at.host, at.port, request_kind, 2, 1, 1, 0.1, 0.5, at.pid, joins=True, certificate=made.certificate)
    assert Outcome(**run("load", json.dumps(asdict(plan)))).answers > 0


@pytest.mark.parametrize("kind", [SHARE, COMMITS, RARELY])
def test_members_read_every_record_once(kind, server):
    """A share group and consumer groups do the same work, so that their costs can be compared."""
    plan = SharePlan(server.host, server.port, kind, 2, 0.0, 0.001, server.pid, members=2, records=600)
    found = ShareOutcome(**run("share", json.dumps(asdict(plan))))
    assert found.records == 600


def test_new_connections_are_measured_with_and_without_tls(server, tls_server, made):
    for at, certificate in ((server, ""), (tls_server, made.certificate)):
        plan = ConnectingPlan(at.host, at.port, certificate, 0.1, 2.0, at.pid)
        found = Connected(**run("new_connections", json.dumps(asdict(plan))))
        assert found.connections > 0


def test_a_server_whose_certificate_is_another_one_is_not_measured(tls_server, tmp_path):
    other = make_certificate(tmp_path).certificate
    plan = ConnectingPlan(tls_server.host, tls_server.port, other, 0.1, 0.5, tls_server.pid)
    with pytest.raises(AssertionError, match="CERTIFICATE_VERIFY_FAILED"):
        run("new_connections", json.dumps(asdict(plan)))


def test_the_groups_of_a_load_form_at_the_same_time(monkeypatch):
    """One after the other, a hundred groups would wait five minutes for a server's initial rebalance delay."""
    others = asyncio.Event()
    forming = []

    async def form(_plan, index, _tls):
        forming.append(index)
        if len(forming) == MEMBERS:
            others.set()
        await others.wait()
        return [b"frame"]

    closed = asyncio.Semaphore(0)

    async def serve(reader, writer):
        await reader.read()
        writer.close()
        await writer.wait_closed()
        closed.release()

    async def connected_to(plan):
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            found = await load.run(replace(plan, port=server.sockets[0].getsockname()[1]))
            for _ in range(MEMBERS):
                await closed.acquire()
            return found

    async def measure(connections, *_):
        for connection in connections:
            connection.stop()
        return len(connections)

    monkeypatch.setattr(load, "member_frames", form)
    monkeypatch.setattr(load, "measure", measure)
    plan = Plan("127.0.0.1", 0, "heartbeat", MEMBERS, 1, 1, 0, 0, 0, joins=False)
    assert asyncio.run(asyncio.wait_for(connected_to(plan), WITHIN_S)) == MEMBERS
