"""Responses that carry addresses: the listeners' take the brokers' place, in every version, and nothing else changes."""

import pytest

from coordinator.api.cluster import Node
from coordinator.overlay.rewrite import (
    DESCRIBE_CLUSTER,
    FIND_COORDINATOR,
    METADATA,
    PRODUCE,
    Rewriting,
    nodes_of,
    rewrite,
)
from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.messages import (
    DescribeClusterResponse,
    FindCoordinatorResponse,
    MetadataResponse,
    ProduceResponse,
)

CODEC = Codec.of()
LISTENERS = {1: ("proxy", 9094), 300: ("proxy", 9393)}
OWN = Node(1_000_000_001, "proxy", 9092)
REWRITING = Rewriting(LISTENERS.get, [OWN])
_Broker = MetadataResponse.MetadataResponseBroker


def framed(name: str, version: int, message: object) -> bytes:
    tags = b"\0" if CODEC.is_flexible(f"{name}Response", version) else b""
    body = (77).to_bytes(4) + tags + CODEC.encoder(f"{name}Response", version)(message)
    return len(body).to_bytes(4) + body


def opened(name: str, version: int, frame: bytes):
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert int.from_bytes(frame[4:8]) == 77
    start = 8 + CODEC.is_flexible(f"{name}Response", version)
    message, end = CODEC.decoder(f"{name}Response", version)(frame, start)
    assert end == len(frame)
    return message


def metadata(brokers: list[_Broker]) -> MetadataResponse:
    partition = MetadataResponse.MetadataResponsePartition(leader_id=1, replica_nodes=[1, 300], isr_nodes=[1])
    topic = MetadataResponse.MetadataResponseTopic(name="t", partitions=[partition])
    return MetadataResponse(brokers=brokers, controller_id=1, topics=[topic])


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_listeners_and_keeps_the_rest(version: int) -> None:
    """Brokers without a listener are left out; racks, topics and leaders stay as they are."""
    rack = "east" if version else None
    real = [
        _Broker(1, "kafka-1", 9092, rack),
        _Broker(300, "kafka-300.example", 9092, None),
        _Broker(7, "new", 1, None),
    ]
    frame = framed("Metadata", version, metadata(real))
    assert nodes_of(METADATA, version, frame) == [1, 300, 7]
    found = opened("Metadata", version, rewrite(METADATA, version, frame, REWRITING))
    listed = [_Broker(1, "proxy", 9094, rack), _Broker(300, "proxy", 9393, None), _Broker(*OWN)]
    assert found == opened("Metadata", version, framed("Metadata", version, metadata(listed)))


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_of_a_transaction_is_at_its_listener(version: int) -> None:
    if version >= 4:
        coordinator = FindCoordinatorResponse.Coordinator(key="t", node_id=300, host="kafka-300", port=9092)
        refused = FindCoordinatorResponse.Coordinator(key="u", node_id=-1, host="", port=-1, error_code=15)
        frame = framed("FindCoordinator", version, FindCoordinatorResponse(coordinators=[coordinator, refused]))
        found, other = opened(
            "FindCoordinator", version, rewrite(FIND_COORDINATOR, version, frame, REWRITING)
        ).coordinators
        assert (other.host, other.port, other.error_code) == ("", -1, 15)
    else:
        frame = framed("FindCoordinator", version, FindCoordinatorResponse(node_id=300, host="kafka-300", port=9092))
        found = opened("FindCoordinator", version, rewrite(FIND_COORDINATOR, version, frame, REWRITING))
    assert (found.node_id, found.host, found.port) == (300, "proxy", 9393)


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described_by_its_listeners(version: int) -> None:
    broker = DescribeClusterResponse.DescribeClusterBroker(broker_id=1, host="kafka-1", port=9092)
    frame = framed("DescribeCluster", version, DescribeClusterResponse(cluster_id="c", brokers=[broker]))
    found = opened("DescribeCluster", version, rewrite(DESCRIBE_CLUSTER, version, frame, REWRITING)).brokers
    assert [(each.broker_id, each.host, each.port) for each in found] == [(1, "proxy", 9094), OWN[:3]]


@pytest.mark.parametrize("version", [10, 13])
def test_a_produce_that_names_a_new_leader_names_its_listener(version: int) -> None:
    """Without new leaders the response passes as it is."""
    frame = framed("Produce", version, ProduceResponse())
    assert rewrite(PRODUCE, version, frame, REWRITING) is frame
    endpoint = ProduceResponse.NodeEndpoint(node_id=1, host="kafka-1", port=9092)
    frame = framed("Produce", version, ProduceResponse(node_endpoints=[endpoint]))
    [found] = opened("Produce", version, rewrite(PRODUCE, version, frame, REWRITING)).node_endpoints
    assert (found.host, found.port) == ("proxy", 9094)


@pytest.mark.parametrize("version", [0, 9, 13])
def test_a_truncated_list_of_brokers_is_an_error(version: int) -> None:
    frame = framed("Metadata", version, metadata([_Broker(1, "kafka-1", 9092, None)]))
    with pytest.raises(DecodeError):
        rewrite(METADATA, version, frame[:22], REWRITING)
