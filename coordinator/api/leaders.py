"""Which node leads a partition, as Metadata and DescribeTopicPartitions show it."""

from collections.abc import Callable

from coordinator.api.server import Server
from coordinator.topics import names
from coordinator.topics.engine import NO_LEADER

_ANYWHERE = ("", 0)


def leaders(server: Server, topic: str) -> Callable[[int], int]:
    """Index of a partition -> id of its leader, or NO_LEADER: its log is damaged, or no node has it at the moment."""
    if topic in names.INTERNAL and server.cluster.moves:
        return lambda index: _owner(server, topic, index)
    elsewhere = server.cluster.data_leader()
    if elsewhere is not None:
        return lambda _index: elsewhere
    offline = server.topics.offline.get(topic, frozenset())
    return lambda index: NO_LEADER if index in offline else server.node_id


def replicas(server: Server, leader: int) -> list[int]:
    """The nodes that have a partition: its leader; without one this server, whose log is damaged; none without records."""
    if leader != NO_LEADER:
        return [leader]
    return [server.node_id] if server.topics.has_data else []


def _owner(server: Server, topic: str, index: int) -> int:
    node = server.cluster.leader(topic, index, _ANYWHERE)
    return NO_LEADER if node is None else node.id
