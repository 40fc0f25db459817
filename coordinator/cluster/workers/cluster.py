"""The living workers and the owners of the shards, as clients see them (FindCoordinator, Metadata, DescribeCluster)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from coordinator.api.cluster import Node
from coordinator.cluster.engine.engine import NO_LISTENERS, Owner, Summary, Worker
from coordinator.topics.names import CONSUMER_OFFSETS, COORDINATOR_EVENTS

NAMED_MS = 9_000
"""How long Metadata names a worker that died, unless it said that it stops; as Kafka with `broker.session.timeout.ms`.

Librdkafka forgets a broker that Metadata does not name. If that was the coordinator of the group of a transaction, this may
wait for ever (librdkafka's issue 5511); while the broker is named it finds the next one.
"""
LED_WITH = {COORDINATOR_EVENTS: CONSUMER_OFFSETS}
"""The partitions of the first topic are led by the worker that has those of the second."""


class Workers:
    """What the engine last said. `me` is this worker, which is always among the nodes."""

    moves = True

    def __init__(self) -> None:
        self.me: Worker | None = None
        self.living: Sequence[Worker] = ()
        self.on_living: Callable[[], None] = lambda: None
        """Called when other workers live than before."""
        self.on_claimed: Callable[[str], None] = lambda _log: None
        """Called with a log that a worker has claimed."""
        self.on_seen: Callable[[], None] = lambda: None
        """Called when the engine was asked, because workers or owners may have changed."""
        self.silent: Sequence[Worker] = ()
        """Those that died less than NAMED_MS ago, and were not started again yet."""
        self.owners: Mapping[str, Owner] = {}
        self.expected: Mapping[str, str] = {}
        """Log -> id of the worker that should have it."""
        self.held: set[str] = set()
        """The logs that this worker has claimed."""
        self.pieces_to_replay = 0
        """The tails of the logs that it takes now, and does not serve yet."""
        self.data_node: int | None = None
        """The id of the worker that has the records of all topics; None: this one, or no worker."""

    def has_missed(self, summary: Summary) -> bool:
        """Whether the engine has other owners or workers than this worker knows."""
        epochs = sum(owner.epoch for owner in self.owners.values())
        return epochs != summary.epochs or {*self.living, self.me} != {*summary.living, self.me}

    @contextmanager
    def replaying(self, pieces: int) -> Iterator[None]:
        """Surrounds the replay of a log's tail."""
        self.pieces_to_replay += pieces
        try:
            yield
        finally:
            self.pieces_to_replay -= pieces

    def owner_of(self, log: str) -> Worker | None:
        """The living worker that has a log."""
        if log in self.held:
            return self.me
        owner = self.owners.get(log)
        worker = owner.worker if owner is not None else None
        if worker is None or (self.me is not None and worker.id == self.me.id):
            return None
        return worker if any(each.id == worker.id for each in self.living) else None

    def data_owner(self) -> Worker | None:
        """The other worker that has the records of topics, while it lives."""
        return next((each for each in self.living if each.node_id == self.data_node), None)

    def data_leader(self) -> int | None:
        """As `Cluster.data_leader`: while it is restarted, clients wait for it."""
        return self.data_node

    def nodes(self, advertised: tuple[str, int]) -> list[Node]:
        """The brokers of the cluster, by their ids. `advertised`: where the client reaches this one.

        As in Kafka, those that do not have the client's listener are left out.
        """
        return self._nodes(self.living, advertised)

    def named_nodes(self, advertised: tuple[str, int]) -> list[Node]:
        """As `nodes`, with those that died less than NAMED_MS ago."""
        return self._nodes([*self.living, *self.silent], advertised)

    def update(self, living: Sequence[Worker], seen: Sequence[Worker]) -> None:
        """Takes over who lives, and who has beaten in the last NAMED_MS, whether it lives or not."""
        here = {each.node_id for each in living} | ({self.me.node_id} if self.me is not None else set())
        has_changed = living != self.living
        self.living = living
        self.silent = list({each.node_id: each for each in seen if each.node_id not in here}.values())
        if has_changed:
            self.on_living()

    def _nodes(self, workers: Sequence[Worker], advertised: tuple[str, int]) -> list[Node]:
        me = self.me
        listener = self._listener(advertised)
        others = [each for each in workers if me is None or each.id != me.id]
        own = [] if me is None else [Node(me.node_id, *advertised)]
        found = [(each, address_of(each, listener)) for each in others]
        return sorted([*own, *(Node(each.node_id, *address) for each, address in found if address is not None)])

    def leader(self, topic: str, index: int, advertised: tuple[str, int]) -> Node | None:
        """The broker that has a partition of an internal topic; None if there is none that the client reaches."""
        return self._node(self.owner_of(_log(topic, index)), advertised)

    def coordinator(self, topic: str, index: int, advertised: tuple[str, int]) -> Node | None:
        """As `leader`; while there is none, the worker that should take the partition, or this one if nobody is known.

        As in Kafka, where a partition gets its next leader in the moment in which it loses one. Librdkafka gives up after
        three answers without a node, and what waits for it in a transaction waits for ever (`rd_kafka_coord_req`).
        """
        log = _log(topic, index)
        expected = next((each for each in self.living if each.id == self.expected.get(log)), None)
        return self._node(self.owner_of(log) or expected or self.me, advertised)

    def _node(self, worker: Worker | None, advertised: tuple[str, int]) -> Node | None:
        if worker is None:
            return None
        is_me = self.me is not None and worker.id == self.me.id
        address = advertised if is_me else address_of(worker, self._listener(advertised))
        return None if address is None else Node(worker.node_id, *address)

    def _listener(self, advertised: tuple[str, int]) -> str:
        """The name of this worker's listener with that address; empty: of any."""
        return "" if self.me is None else next((name for name, at in listeners_of(self.me) if at == advertised), "")


def _log(topic: str, index: int) -> str:
    return f"{LED_WITH.get(topic, topic)}-{index}"


def listeners_of(worker: Worker) -> list[tuple[str, tuple[str, int]]]:
    """The names and addresses of a worker's listeners."""
    found = []
    for entry in worker.listeners.split(","):
        if not entry or entry.startswith(NO_LISTENERS):
            continue
        name, _, address = entry.partition("://")
        host, _, port = address.rpartition(":")
        found.append((name, (host.strip("[]"), int(port))))
    return found


def address_of(worker: Worker, listener: str) -> tuple[str, int] | None:
    """Where a worker's listener is; None: it has no such listener. Without a name: where other workers reach it."""
    return dict(listeners_of(worker)).get(listener) if listener else (worker.host, worker.port)
