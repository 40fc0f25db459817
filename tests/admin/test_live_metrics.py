"""The metrics of a running server."""

import socket

from tests.support.admin_client import scrape
from tests.support.record_batch import Batch
from tests.support.waiting import wait_until
from tests.support.wire import Connection


def wait_for_sample(server, name, labels, value):
    """Waits until a sample has at least this value: the server sees the end of a connection a moment later."""
    wait_until(lambda: scrape(server)[name][labels] >= value, lambda: f"{value} of {name}: {scrape(server)[name]}")


def send_requests_with_names(server, suffix):
    """Sends requests with names of a group, member, topic and client that end with the suffix."""
    with Connection(server.bootstrap, client_id=f"client-{suffix}") as connection:
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}
        topics = [{"name": "orders", "partitions": [partition]}]
        connection.call("OffsetCommit", 8, group_id=f"group-{suffix}", topics=topics)
        connection.call("Heartbeat", 4, group_id=f"group-{suffix}", generation_id=1, member_id=f"member-{suffix}")
        connection.call(
            "JoinGroup", 5, group_id=f"group-{suffix}", session_timeout_ms=30_000, rebalance_timeout_ms=1_000,
            member_id="", protocol_type="consumer", protocols=[{"name": f"protocol-{suffix}", "metadata": b""}],
        )  # fmt: skip
        connection.call("Metadata", 8, topics=[{"name": f"topic-{suffix}"}])


def test_names_that_clients_choose_do_not_become_labels(coordinator_process):
    server = coordinator_process()
    send_requests_with_names(server, "first")
    few = scrape(server)
    for number in range(100):
        send_requests_with_names(server, number)
    many = scrape(server)
    assert {name: few[name].keys() for name in few} == {name: many[name].keys() for name in many}
    assert many["coordinator_offset_commits_total"][()] == 101
    assert many["coordinator_request_seconds_count"]["JoinGroup",] == 101


def test_groups_that_the_configuration_names_have_lag_by_topic_and_rebalances_whatever_their_names(coordinator_process):
    name = 'orders "new" \\ {x=y}'
    server = coordinator_process(settings={"metrics.groups": f"{name},idle"})
    records = Batch(values=[b"x"] * 5).encode()
    with Connection(server.bootstrap) as connection:
        topic = {"name": "t", "num_partitions": 3, "replication_factor": 1}
        connection.call("CreateTopics", 5, topics=[topic], timeout_ms=5_000)
        written = [{"index": index, "records": records} for index in (0, 1)]
        connection.call("Produce", 8, acks=-1, timeout_ms=5_000, topic_data=[{"name": "t", "partition_data": written}])
        for group in (name, "other"):
            committed = [
                {"partition_index": index, "committed_offset": offset, "committed_metadata": ""}
                for index, offset in ((0, 1), (1, 3), (2, 0))
            ]
            elsewhere = {"name": "elsewhere", "partitions": committed}
            connection.call(
                "OffsetCommit", 8, group_id=group, topics=[{"name": "t", "partitions": committed}, elsewhere]
            )
        assert scrape(server)["coordinator_group_lag"] == {(name, "t"): 4 + 2}
        for group in (name, "other"):
            connection.call(
                "JoinGroup", 3, group_id=group, session_timeout_ms=30_000, rebalance_timeout_ms=1_000, member_id="",
                protocol_type="consumer", protocols=[{"name": "range", "metadata": b""}],
            )  # fmt: skip
    assert scrape(server)["coordinator_group_rebalances_total"] == {(name,): 1, ("idle",): 0}


def test_a_commit_of_a_former_member_is_counted_with_its_reason(coordinator_process):
    server = coordinator_process()
    with Connection(server.bootstrap) as connection:
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}
        topics = [{"name": "orders", "partitions": [partition]}]
        late = {"group_id": "g", "generation_id_or_member_epoch": 3, "member_id": "gone", "topics": topics}
        connection.call("OffsetCommit", 8, **late)
    assert scrape(server)["coordinator_commits_fenced_total"]["ILLEGAL_GENERATION",] == 1
    assert scrape(server)["coordinator_requests_total"]["OffsetCommit", "ILLEGAL_GENERATION"] == 1


def test_closed_connections_are_counted_by_reason(coordinator_process):
    server = coordinator_process(settings={"connections.max.idle.ms": 4_000})
    host, port = server.host, server.port
    closed = "coordinator_connections_closed_total"
    with socket.create_connection((host, port)):
        pass
    wait_for_sample(server, closed, ("peer",), 1)
    with socket.create_connection((host, port)) as client:
        client.sendall(b"\x7f\xff\xff\xff")
        assert client.recv(1) == b""
    wait_for_sample(server, closed, ("frame too large or malformed",), 1)
    with socket.create_connection((host, port)) as client:
        client.sendall(b"\0\0\0\x0a\x03\xe7\0\0\0\0\0\1\xff\xff")
        assert client.recv(1) == b""
    wait_for_sample(server, closed, ("request refused",), 1)
    with socket.create_connection((host, port), timeout=60) as client:
        assert client.recv(1) == b""
    wait_for_sample(server, closed, ("idle",), 1)


def test_there_are_metrics_for_the_lag_of_the_event_loop_and_the_size_of_the_log(coordinator_process):
    server = coordinator_process()
    send_requests_with_names(server, "one")
    wait_for_sample(server, "coordinator_loop_lag_seconds_count", (), 2)
    assert scrape(server)["coordinator_log_bytes"]["groups",] > 0
