"""The brokers of the cluster, and which of them coordinates what."""

from typing import NamedTuple, Protocol


class Node(NamedTuple):
    """A broker as clients see it."""

    id: int
    host: str
    port: int
    rack: str | None = None


class Cluster(Protocol):
    """The brokers. `advertised` is the address at which the client of the request reaches this one."""

    moves: bool
    """Whether the partitions of internal topics change their leaders."""

    def nodes(self, advertised: tuple[str, int]) -> list[Node]:
        """All that live, by their ids."""

    def named_nodes(self, advertised: tuple[str, int]) -> list[Node]:
        """As `nodes`, with those that died a moment ago: what Metadata and DescribeCluster name."""
        return self.nodes(advertised)

    def leader(self, topic: str, index: int, advertised: tuple[str, int]) -> Node | None:
        """The broker that has a partition of an internal topic, and so coordinates its groups; None: at the moment none."""

    def coordinator(self, topic: str, index: int, advertised: tuple[str, int]) -> Node | None:
        """As `leader`; while there is none, the broker that will be. None: the client reaches none."""
        return self.leader(topic, index, advertised)

    def data_leader(self) -> int | None:
        """The id of the other broker that has the records of topics; None: no other one has them."""
        return None


class OneNode(Cluster):
    """A cluster of this server alone."""

    moves = False

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id

    def nodes(self, advertised: tuple[str, int]) -> list[Node]:
        return [Node(self._node_id, *advertised)]

    def leader(self, _topic: str, _index: int, advertised: tuple[str, int]) -> Node | None:
        return Node(self._node_id, *advertised)
