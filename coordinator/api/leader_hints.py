"""Where the leader is, in a response that says "not here" (KIP-951): clients need not ask for Metadata first."""

from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator.api.cluster import Node
from coordinator.api.exchange import Exchange
from coordinator.api.payloads import topic_of
from coordinator.api.server import Server
from coordinator.protocol.errors import ErrorCode
from coordinator.topics.placements import NO_LEADER

_HINTED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class _Leader(NamedTuple):
    id: int
    epoch: int


def add_leader_hints(
    server: Server,
    exchange: Exchange[Any],
    response: Any,
    partitions: Callable[[Any], list[Any]],
    index: str,
    *,
    of_one_broker: bool = False,
) -> None:
    """Adds the leaders of the refused partitions to a response to Produce, Fetch, ShareFetch or ShareAcknowledge.

    `partitions`: those of a topic; `index`: the field that has their number. `of_one_broker`: whether a server that is the only
    broker may have to name itself.
    """
    topics = server.topics
    if topics.registry.placements is None and not of_one_broker:
        return
    nodes: dict[int, Node] = {}
    for topic in response.responses:
        for each in partitions(topic):
            if each.error_code not in _HINTED:
                continue
            leader = _leader(server, topic_of(topic, topics), getattr(each, index))
            if leader is None:
                continue
            each.current_leader = type(each.current_leader)(*leader)
            nodes = nodes or {node.id: node for node in server.cluster.nodes(exchange.advertised)}
            endpoints = response.node_endpoints
            if all(known.node_id != leader.id for known in endpoints):
                endpoints.append(type(response).NodeEndpoint(*nodes[leader.id]))


def _leader(server: Server, name: str | None, index: int) -> _Leader | None:
    """None if it is not known."""
    topics = server.topics
    topic_id = topics.topic_id(name or "")
    if name is None or topic_id is None:
        return None
    if topics.registry.placements is None:
        partition = topics.partition(name, index)
        return _Leader(server.node_id, partition.epochs.current) if partition is not None else None
    placement = topics.registry.placements.get((topic_id, index))
    if placement is None or placement.leader == NO_LEADER:
        return None
    return _Leader(placement.leader, placement.leader_epoch)
