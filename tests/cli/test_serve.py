"""`coordinator serve` as a process: the ready line, signals, restarts, errors, and the admin HTTP server."""

import json
import signal
import socket
import ssl
import struct
import subprocess
import urllib.error
import urllib.request

import pytest
from confluent_kafka import Consumer, Producer

from coordinator.admin.routes import all_endpoints
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S, wait_until
from tests.support.wire import Connection

API_VERSIONS_V0 = struct.pack(">ihhih", 10, 18, 0, 7, -1)


def api_versions(server: ServerProcess) -> bytes:
    """The response to ApiVersions v0, without its size."""
    with socket.create_connection((server.host, server.port), timeout=WITHIN_S) as connection:
        connection.sendall(API_VERSIONS_V0)
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            return stream.read(size)


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=WITHIN_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_ready_line_has_the_addresses_of_the_server(coordinator_process):
    server = coordinator_process()
    assert set(server.ready) >= {"ready", "bootstrap", "admin", "pid", "startup_ms"}
    assert server.ready["ready"] is True
    assert server.pid == server.process.pid
    assert server.port > 0
    assert server.admin.startswith("http://127.0.0.1:")
    assert struct.unpack_from(">i", api_versions(server)) == (7,)


def test_sigterm_and_sigint_drain_and_exit_0(coordinator_process):
    for number in (signal.SIGTERM, signal.SIGINT):
        server = coordinator_process()
        server.process.send_signal(number)
        assert server.process.wait(WITHIN_S) == 0


def test_a_second_signal_exits_at_once(coordinator_process):
    """A pending JoinGroup delays the drain, which a second signal cuts short."""
    server = coordinator_process(settings={"shutdown.time.ms": 60_000, "group.initial.rebalance.delay.ms": 60_000})
    joining = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "consumer"}
    joining |= {"protocols": [{"name": "range", "metadata": b""}]}
    with Connection(server.bootstrap) as member:
        member.send("JoinGroup", 2, {"group_id": "g", "member_id": "", **joining})
        wait_until(lambda: json.loads(get(f"{server.admin}/v1/groups")[1])["groups"], "the group")
        server.process.terminate()
        wait_until(lambda: "event=stopping" in server.log, "the drain")
        wait_until(lambda: not is_listening(server), "the listener to close")
        assert server.alive
        server.process.terminate()
        assert server.process.wait(WITHIN_S) != 0
    assert "event=stopped" not in server.log


def is_listening(server: ServerProcess) -> bool:
    try:
        socket.create_connection((server.host, server.port), timeout=WITHIN_S).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_restarted_server_has_the_same_addresses_and_cluster_id(coordinator_process):
    server = coordinator_process()
    before = (server.bootstrap, server.admin, server.pid)
    identity = (server.data_dir / "meta.properties").read_text()
    server.restart(kill=True)
    assert (server.bootstrap, server.admin) == before[:2]
    assert server.pid != before[2]
    assert (server.data_dir / "meta.properties").read_text() == identity


def test_a_second_server_on_the_same_data_folder_does_not_start(coordinator_process):
    server = coordinator_process()
    other = ServerProcess(server.folder)
    done = subprocess.run(other.command(), capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 1
    assert "in use by another server" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_error_for_an_address_in_use_is_one_line(coordinator_process, tmp_path):
    server = coordinator_process()
    arguments = ("--listen", server.bootstrap)
    other = ServerProcess(tmp_path, arguments=arguments)
    done = subprocess.run(other.command(), capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 1
    assert f"cannot listen on {server.bootstrap}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("advertised", ["kafka.example:1234", "kafka.example:0"])
def test_clients_get_the_advertised_address(coordinator_process, advertised):
    server = coordinator_process(arguments=("--advertise", advertised))
    port = int(advertised.rpartition(":")[2]) or int(server.bootstrap.rpartition(":")[2])
    assert f"kafka.example:{port}" == server.bootstrap


def test_health_checks_metrics_and_views_of_groups_are_served(coordinator_process):
    server = coordinator_process()
    assert get(f"{server.admin}/health/live")[0] == 200
    assert get(f"{server.admin}/health/ready")[0] == 200
    api_versions(server)
    status, text = get(f"{server.admin}/metrics")
    assert status == 200
    assert 'coordinator_requests_total{api="ApiVersions",error="NONE"} 1.0' in text
    assert "process_cpu_seconds_total" in text
    assert json.loads(get(f"{server.admin}/v1/groups")[1]) == {"groups": [], "total": 0}
    assert get(f"{server.admin}/v1/groups/none")[0] == 404


def test_the_log_has_key_value_lines(coordinator_process):
    server = coordinator_process()
    server.terminate()
    lines = server.log.splitlines()
    assert lines
    assert all(line.startswith("time=") and " level=" in line and " event=" in line for line in lines)


def test_variables_without_effect_are_in_one_warning(coordinator_process):
    server = coordinator_process(environment={"KAFKA_GROUP_MAX_SISE": "4", "KAFKA_PROCESS_ROLES": "broker"})
    [line] = [line for line in server.log.splitlines() if "event=variables_without_effect" in line]
    assert "level=warning" in line
    assert 'variable="KAFKA_GROUP_MAX_SISE (did you mean KAFKA_GROUP_MAX_SIZE?)"' in line
    assert "variable=KAFKA_PROCESS_ROLES" in line


def test_the_admin_address_lists_its_paths(coordinator_process):
    server = coordinator_process()
    status, text = get(f"{server.admin}/")
    assert status == 200
    listed = [(each["method"], each["path"]) for each in json.loads(text)["paths"]]
    assert listed == [(each.method, each.path) for each in all_endpoints()]
    paths = [path for method, path in listed if method == "GET" and "{" not in path]
    ends = {"/v1/events": "?follow=false"}
    assert all(get(server.admin + path + ends.get(path, ""))[0] == 200 for path in paths)
    assert ("POST", "/v1/groups/{group_id}/rebalance") in listed


def test_tls_on_a_plain_port_is_named_in_the_log(coordinator_process):
    server = coordinator_process()
    context = ssl.create_default_context()
    with socket.create_connection((server.host, server.port), timeout=WITHIN_S) as plain, pytest.raises(OSError):
        context.wrap_socket(plain, server_hostname="localhost")
    line = 'reason="TLS on a plain port; the client needs security.protocol'
    wait_until(lambda: line in server.log, "the warning")


def test_a_refused_commit_is_in_the_log_once_for_each_member_and_error(coordinator_process):
    server = coordinator_process()
    partition = {"partition_index": 0, "committed_offset": 1}
    about = {"topics": [{"name": "orders", "partitions": [partition]}], "generation_id_or_member_epoch": 3}
    with Connection(server.bootstrap) as zombie:
        for _ in range(3):
            zombie.call("OffsetCommit", 8, group_id="billing", member_id="ann", **about)
        zombie.call("OffsetCommit", 8, group_id="billing", member_id="bob", **about)
        zombie.call("OffsetCommit", 8, group_id="billing", topics=about["topics"])
    server.terminate()
    lines = [line for line in server.log.splitlines() if "event=commit_refused" in line]
    assert [line.partition("event=")[2] for line in lines] == [
        f"commit_refused group=billing member={member} instance=null client=test host=/127.0.0.1 epoch=3"
        " error=ILLEGAL_GENERATION"
        for member in ("ann", "bob")
    ]
    assert all("level=warning" in line for line in lines)


def test_without_uvloop_the_server_runs_on_asyncio_and_says_so_in_one_line(coordinator_process, tmp_path):
    (tmp_path / "uvloop.py").write_text("raise ImportError('as where it cannot be installed')\n")
    server = coordinator_process(environment={"PYTHONPATH": str(tmp_path)})
    producer = Producer({"bootstrap.servers": server.bootstrap})
    producer.produce("orders", b"first")
    assert producer.flush(WITHIN_S) == 0
    settings = {"bootstrap.servers": server.bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    record = consumer.poll(WITHIN_S)
    assert record is not None
    assert record.value() == b"first"
    consumer.commit(record, asynchronous=False)
    consumer.close()
    assert server.terminate() == 0
    assert server.log.count("event=no_uvloop loop=asyncio") == 1
