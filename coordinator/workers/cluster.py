"""The living workers and the owners of the shards, as clients see them (FindCoordinator, Metadata, DescribeCluster)."""

from collections.abc import Mapping, Sequence

from coordinator.api.cluster import Node
from coordinator.engine.engine import Owner, Worker


class Workers:
    """What the engine last said. `me` is this worker, which is always among the nodes."""

    moves = True

    def __init__(self) -> None:
        self.me: Worker | None = None
        self.living: Sequence[Worker] = ()
        self.owners: Mapping[str, Owner] = {}
        self.held: set[str] = set()
        """The logs that this worker has claimed."""

    def owner_of(self, log: str) -> Worker | None:
        """The living worker that has a log."""
        if log in self.held:
            return self.me
        owner = self.owners.get(log)
        worker = owner.worker if owner is not None else None
        if worker is None or (self.me is not None and worker.id == self.me.id):
            return None
        return worker if any(each.id == worker.id for each in self.living) else None

    def nodes(self, advertised: tuple[str, int]) -> list[Node]:
        """The brokers of the cluster, by their ids. `advertised`: where the client reaches this one."""
        me = self.me
        others = [each for each in self.living if me is None or each.id != me.id]
        own = [] if me is None else [Node(me.node_id, *advertised)]
        return sorted([*own, *(Node(each.node_id, each.host, each.port) for each in others)])

    def leader(self, topic: str, index: int, advertised: tuple[str, int]) -> Node | None:
        """The broker that has a partition of an internal topic; None if there is none at the moment."""
        worker = self.owner_of(f"{topic}-{index}")
        if worker is None:
            return None
        return Node(worker.node_id, *(advertised if worker is self.me else (worker.host, worker.port)))
