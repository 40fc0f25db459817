"""The server of a certification starts on ports of its own choice, also beside programs that take ports all the time."""

import socket

import pytest

from coordinator.operations import topics
from coordinator.operations.client import Client
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import OffsetFetchRequest
from coordinator_testing.certify import server as module
from coordinator_testing.certify.server import CertificationServer
from coordinator_testing.throwaway_server import DidNotStart


def test_a_port_that_somebody_takes_before_the_server_does_is_replaced(tmp_path):
    server = CertificationServer(tmp_path, 2)
    taken = server.listeners
    host, _, port = taken[0].rpartition(":")
    with socket.create_server((host, int(port))):
        try:
            server.start()
            assert taken[0] not in server.listeners
            with socket.create_connection(tuple(server.listeners[0].split(":"))):
                pass
        finally:
            server.stop()


def test_ports_that_are_taken_each_time_are_reported(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken = f"127.0.0.1:{listening.getsockname()[1]}"
        monkeypatch.setattr(module, "_free_addresses", lambda _count, _brokers: (taken,))
        server = CertificationServer(tmp_path, 1)
        with pytest.raises(DidNotStart, match="cannot listen"):
            server.start()


@pytest.mark.parametrize(("delay_ms", "expected"), [(0, "NONE"), (60_000, "UNKNOWN_TOPIC_OR_PARTITION")])
def test_clients_see_a_new_topic_after_the_delay_of_the_certification(tmp_path, delay_ms, expected):
    server = CertificationServer(tmp_path, 1, delay_ms)
    server.start()
    try:
        with Client(server.bootstrap, 10.0) as client:
            topics.create(client, "orders", 1, 1, {})
            [topic] = client.metadata(["orders"]).topics
    finally:
        server.stop()
    assert ErrorCode(topic.error_code).name == expected


def test_instances_see_the_release_of_the_certification_and_the_stage_the_newest(tmp_path):
    """OffsetFetch has version 10, with topic ids, since 4.1."""
    server = CertificationServer(tmp_path, 1, release="3.6")
    server.start()
    try:
        with Client(server.bootstrap, 10.0) as stage, Client(server.listeners[0], 10.0) as instance:
            assert stage.any().version_of(OffsetFetchRequest) > instance.any().version_of(OffsetFetchRequest) == 8
    finally:
        server.stop()


def test_each_of_several_brokers_is_in_a_rack_of_its_own(tmp_path):
    server = CertificationServer(tmp_path, 1, brokers=3)
    server.start()
    try:
        with Client(server.bootstrap, 10.0) as client:
            assert [each.rack for each in client.metadata().brokers] == ["a", "b", "c"]
    finally:
        server.stop()
