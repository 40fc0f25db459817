"""Where the leader is, in a response that says "not here" (KIP-951): clients need not ask for Metadata first."""

from collections.abc import Callable
from typing import Any

from coordinator.api.cluster import Node
from coordinator.api.exchange import Exchange
from coordinator.api.payloads import topic_of
from coordinator.api.server import Server
from coordinator.protocol.errors import ErrorCode
from coordinator.topics.placements import NO_LEADER

_HINTED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def add_leader_hints(
    server: Server, exchange: Exchange[Any], response: Any, partitions: Callable[[Any], list[Any]], index: str
) -> None:
    """Adds the leaders of the refused partitions to a response to Produce or Fetch.

    `partitions`: those of a topic; `index`: the field that has their number.
    """
    placements, topics = server.topics.registry.placements, server.topics
    if placements is None:
        return
    nodes: dict[int, Node] = {}
    for topic in response.responses:
        topic_id = topics.topic_id(topic_of(topic, topics) or "")
        for each in partitions(topic):
            placement = None
            if topic_id is not None and each.error_code in _HINTED:
                placement = placements.get((topic_id, getattr(each, index)))
            if placement is None or placement.leader == NO_LEADER:
                continue
            each.current_leader = type(each.current_leader)(placement.leader, placement.leader_epoch)
            nodes = nodes or {node.id: node for node in server.cluster.nodes(exchange.advertised)}
            endpoints = response.node_endpoints
            if all(known.node_id != placement.leader for known in endpoints):
                endpoints.append(type(response).NodeEndpoint(*nodes[placement.leader]))
