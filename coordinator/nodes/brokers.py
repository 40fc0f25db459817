"""The brokers of a server that is several: where clients reach each, what it leads, and which one is the controller.

A change of placements is decided as Kafka's controller decides it, and takes effect when the metadata log has it. Nobody has to
catch up, because there is one copy of each log: a broker that is up again is in sync at once.
"""

import asyncio
import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from coordinator.api.cluster import Cluster, Node
from coordinator.log.log import DamagedLog, Log
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message, PartitionRecord
from coordinator.topics.leader_epochs import LeaderEpochs
from coordinator.topics.partition import Partition, State
from coordinator.topics.placements import NO_LEADER, Placement, Placements, check_brokers, placed
from coordinator.topics.registry import Topic
from coordinator.topics.topics import NO_REPLICA, Topics

IDLE_POLL_S = 0.002
NOT_NEEDED = "Leader election not needed for topic partition."
NOT_AVAILABLE = "The preferred leader was not available."
NO_LEADERS = "Eligible topic partition leaders are not available."
MOVE_CANNOT_END = "The move could not end, because these brokers are down or not in sync"
Address = tuple[str, int]
Done = Callable[[ErrorCode], None]
Placed = tuple[Topic, int, Placement]
"""A partition, and where it is from now on."""


class Broker(NamedTuple):
    """One of them. `addresses`: where clients reach it, by listener."""

    id: int
    rack: str | None
    addresses: list[Address]


class Catalog(Protocol):
    """The catalog of the data folder, by which a start notices that a log is shorter than it was."""

    idle: bool

    def write(self) -> bool:
        """Writes it; returns whether it is up to date now."""


class Brokers(Cluster):
    """All of them. A client learns of the addresses of the listener that it uses."""

    moves = True

    def __init__(self, ids: Sequence[int], racks: Sequence[str], topics: Topics) -> None:
        """`racks`: by broker, in the order of the ids; empty if they have none."""
        assert topics.registry.placements is not None
        self.by_id = {
            broker_id: Broker(broker_id, racks[number % len(racks)] if racks else None, [])
            for number, broker_id in enumerate(ids)
        }
        self.controller = ids[0]
        """The broker that Metadata names. As with KRaft, every broker takes requests for it."""
        self.changing = asyncio.Lock()
        """Held by a tester's change, from its check until it is in effect."""
        self.on_moved: Callable[[str, int], None] = lambda _topic, _index: None
        """Called with a partition that has a new leader."""
        self.catalog: Catalog
        """Set before the first request."""
        self._topics = topics
        self._placements: Placements = topics.registry.placements
        self.up = self._placements.up

    def begin(self) -> None:
        """Gives partitions back to the brokers that were down, and places those that brokers with other ids had."""
        changes: list[Placed] = []
        for topic, index, before in self._all():
            if not self.by_id.keys() >= {*before.replicas}:
                place = self._placements.spread(topic.name)(index)
                changes.append((topic, index, place._replace(leader_epoch=before.leader_epoch + 1)))
            elif len(before.isr) < len(before.replicas) or before.leader == NO_LEADER:
                changes.append((topic, index, _joined(before, before.replicas)))
        if changes:
            self._topics.metadata.commit_now(_records(changes))
        for topic, index, placement in self._all():
            partition = self._topics.partition(topic.name, index)
            if placement.leader_epoch and partition is not None:
                log = partition.log if isinstance(partition, Partition) else None
                partition.epochs = _epochs_of(log, placement.leader_epoch)
        self._topics.metadata_observers.append(self._changed)

    def leads(self, broker_id: int, topic: str, index: int) -> bool:
        """Whether the broker leads this partition."""
        placement = self.placement(topic, index)
        return placement is not None and placement.leader == broker_id

    def has(self, broker_id: int, topic: str, index: int) -> bool:
        """Whether the broker has a replica of this partition."""
        placement = self.placement(topic, index)
        return placement is not None and broker_id in placement.replicas

    def nearest(self, broker_id: int, topic: str, index: int, rack: str) -> int:
        """The replica in sync that is in the consumer's rack, as Kafka's RackAwareReplicaSelector finds it for the leader.

        NO_REPLICA: there is none, or it is the leader, or this broker does not lead the partition.
        """
        placement = self.placement(topic, index)
        if placement is None or placement.leader != broker_id or self.by_id[broker_id].rack == rack:
            return NO_REPLICA
        return next((each for each in placement.isr if self.by_id[each].rack == rack), NO_REPLICA)

    def placement(self, name: str, index: int) -> Placement | None:
        """Where a partition is; None if it does not exist."""
        topic = self._topics.registry.topics.get(name)
        return None if topic is None else self._placements.get((topic.topic_id, index))

    def led(self, broker_id: int) -> int:
        """How many partitions the broker leads."""
        return sum(placement.leader == broker_id for placement in self._placements.values())

    # --- changes ------------------------------------------------------------------------------------------------------

    def change(self, plan: Callable[[], Sequence[Placed]], done: Done) -> None:
        """Makes the changes that `plan` decides on when all earlier ones are in effect.

        `done` gets NONE when they are durable and in effect, or KAFKA_STORAGE_ERROR.
        """

        def act() -> None:
            records = _records(plan())
            if records:
                metadata.commit(records, done)
            else:
                done(ErrorCode.NONE)

        metadata = self._topics.metadata
        metadata.in_turn(act)

    async def take_down(self, broker_id: int) -> ErrorCode:
        """The broker leaves every ISR, and the next replica in sync leads what it led. Returns what `done` of `change` gets."""

        def leave() -> None:
            self.up.discard(broker_id)
            if self.controller == broker_id:
                self.controller = min(self.up, default=broker_id)

        return await self.changed(partial(self._without, broker_id), leave)

    async def bring_up(self, broker_id: int) -> ErrorCode:
        """The broker is in sync again; it leads what has no leader, and else nothing until the next election. Returns as
        `take_down`.
        """
        return await self.changed(partial(self._with, broker_id), partial(self.up.add, broker_id))

    async def changed(
        self, plan: Callable[[], Sequence[Placed]], effect: Callable[[], None] = lambda: None
    ) -> ErrorCode:
        """As `change`, with an effect at the same moment: nobody sees a broker that is gone lead anything.

        Returns what `done` gets.
        """
        outcome: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def done(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                effect()
            if not outcome.cancelled():
                outcome.set_result(error)

        self.change(plan, done)
        return await outcome

    def lead(self, broker_id: int, topic: Topic, index: int) -> list[Placed]:
        """Lets a broker that is up lead a partition. One that has no replica takes the place of the leader."""
        before = self._placements.get((topic.topic_id, index))
        return [] if before is None or before.leader == broker_id else self._led_by(broker_id, topic, index)

    def _led_by(self, broker_id: int, topic: Topic, index: int) -> list[Placed]:
        before = self._placements.get((topic.topic_id, index))
        if before is None:  # the topic may be gone by now
            return []
        replicas = before.replicas
        if broker_id not in replicas:
            gone = before.leader if before.leader in replicas else replicas[0]
            replicas = tuple(broker_id if each == gone else each for each in replicas)
        isr = tuple(each for each in replicas if (each in before.isr and each in self.up) or each == broker_id)
        return [(topic, index, Placement(replicas, isr, broker_id, before.leader_epoch + 1))]

    def check_loss(self, partition: Partition, count: int) -> int:
        """Where the last `count` records begin, in whole batches. The producers must be loaded.

        Raises:
            OFFSET_OUT_OF_RANGE        the partition does not have as many
            INVALID_TXN_STATE          a transaction is open, or would be open again
            KAFKA_STORAGE_ERROR
        """
        present = partition.next_offset - partition.start_offset
        if partition.state is not State.ACTIVE:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, partition.reason)
        if count > present:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the partition has {present} records")
        try:
            offset, would_be_open = partition.tail(count)
        except (OSError, DamagedLog) as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if partition.producers.first_open_offset is not None:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "a transaction is open")
        if would_be_open:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "a transaction would lose its end and be open for ever")
        return offset

    async def lead_after_loss(self, broker_id: int, topic: Topic, index: int, count: int) -> ErrorCode:
        """Lets a broker lead that lacks the last records, as Kafka's unclean election does: they are lost for good.

        As there, nobody leads the partition before; so nothing is written while the log becomes shorter. Returns as
        `take_down`, and raises as `check_loss`; then the broker leads, and nothing is lost.
        """
        partition = self._topics.user_partition(topic.name, index)
        assert partition is not None
        await self._load_producers(partition)
        self.check_loss(partition, count)
        error = await self.changed(partial(self._without_leader, topic, index))
        if error is not ErrorCode.NONE:
            return error
        try:
            while not self._may_truncate(partition):  # noqa: ASYNC110 - a disk notifies nobody
                await asyncio.sleep(IDLE_POLL_S)
            partition.truncate_from(self.check_loss(partition, count), self._save_catalog)
        except OSError:
            error = ErrorCode.KAFKA_STORAGE_ERROR
        finally:
            led = await self.changed(partial(self._led_by, broker_id, topic, index))
        await self._load_producers(partition)
        return error or led

    async def _load_producers(self, partition: Partition) -> None:
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        partition.load_producers(self._topics.clock.wall_ms(), lambda: loaded.set_result(None))
        await loaded

    def _may_truncate(self, partition: Partition) -> bool:
        is_held = partition.log is not None and partition.log.is_held
        return partition.state is not State.ACTIVE or (partition.idle and self.catalog.idle and not is_held)

    def _save_catalog(self) -> None:
        if not self.catalog.write():
            raise OSError(errno.EIO, "the catalog cannot be written")

    def _without_leader(self, topic: Topic, index: int) -> list[Placed]:
        before = self._placements.get((topic.topic_id, index))
        if before is None:
            return []
        return [(topic, index, before._replace(leader=NO_LEADER, leader_epoch=before.leader_epoch + 1))]

    def _without(self, broker_id: int) -> list[Placed]:
        """As in Kafka, the last one in sync stays in the ISR, and its partition has no leader until it is up again."""
        changes: list[Placed] = []
        for topic, index, before in self._all():
            isr = tuple(each for each in before.isr if each != broker_id) or before.isr
            if before.leader == broker_id:
                led_by = self.up - {broker_id}
                leader = next((each for each in before.replicas if each in isr and each in led_by), NO_LEADER)
                after = before._replace(isr=isr, leader=leader, leader_epoch=before.leader_epoch + 1)
                changes.append((topic, index, after))
            elif isr != before.isr:
                changes.append((topic, index, before._replace(isr=isr)))
        return changes

    def _with(self, broker_id: int) -> list[Placed]:
        return [
            (topic, index, _joined(before, (broker_id,)))
            for topic, index, before in self._all()
            if broker_id in before.replicas and (broker_id not in before.isr or before.leader == NO_LEADER)
        ]

    def move(self, topic: Topic, index: int, replicas: Sequence[int], *, may_resize: bool) -> Placement:
        """The partition on these replicas, as it is when Kafka has finished the move: new ones are in sync at once.

        The epoch rises if a replica goes (Kafka: triggerLeaderEpochBumpForReplicaReassignmentIfNeeded). A move that could
        not finish, because brokers are down that it needs, is refused. Raises INVALID_REPLICA_ASSIGNMENT and
        INVALID_REPLICATION_FACTOR.
        """
        check_brokers(self._topics.nodes, replicas)
        before = self._placements[topic.topic_id, index]
        if not may_resize and len(replicas) != len(before.replicas):
            resized = f"The replication factor is changed from {len(before.replicas)} to {len(replicas)}"
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, resized)
        isr = tuple(
            each for each in replicas if each in self.up and (each in before.isr or each not in before.replicas)
        )
        shrinks = len(replicas) < len(before.replicas)
        missing = {*replicas} - {*isr} if shrinks else {*replicas} - {*before.replicas} - {*isr}
        if missing or not isr:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{MOVE_CANNOT_END}: {sorted(missing or replicas)}")
        leader = before.leader if before.leader in isr else isr[0]
        rises = leader != before.leader or not {*before.replicas} <= {*replicas}
        return Placement(tuple(replicas), isr, leader, before.leader_epoch + rises)

    def elect(self, topic: Topic, index: int, *, unclean: bool = False) -> Placement:
        """The partition with its preferred leader, or, `unclean`, with any if it has none: there is none to be found, because a
        replica that is up is in sync.

        Raises ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE and ELIGIBLE_LEADERS_NOT_AVAILABLE.
        """
        before = self._placements[topic.topic_id, index]
        if unclean and before.leader == NO_LEADER:
            raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, NO_LEADERS)
        preferred = before.replicas[0]
        if unclean or before.leader == preferred:
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED)
        if preferred not in before.isr or preferred not in self.up:
            raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, NOT_AVAILABLE)
        return before._replace(leader=preferred, leader_epoch=before.leader_epoch + 1)

    def _changed(self, records: Sequence[Message]) -> None:
        """Partitions have other leaders: their epochs begin, and fetches and groups that wait are notified."""
        for record in records:
            if not isinstance(record, PartitionRecord):
                continue
            topic = self._topics.registry.by_id.get(record.topic_id)
            partition = None if topic is None else self._topics.partition(topic.name, record.partition_id)
            if topic is None or partition is None or record.leader_epoch <= partition.epochs.current:
                continue
            if not partition.epochs.current:
                partition.epochs = LeaderEpochs()
            end_offset = partition.next_offset if isinstance(partition, Partition) else partition.high_watermark
            partition.epochs.begin(record.leader_epoch, end_offset)
            for reader in [*partition.readers, *partition.stable_readers]:
                reader.notify(0)
            self.on_moved(topic.name, record.partition_id)

    def _all(self) -> Iterator[Placed]:
        for topic in list(self._topics.registry.topics.values()):
            for index in range(topic.partitions):
                yield topic, index, self._placements[topic.topic_id, index]

    # --- as a Cluster -------------------------------------------------------------------------------------------------

    def nodes(self, advertised: Address) -> list[Node]:
        return [self._node(broker, advertised) for broker in self.by_id.values() if broker.id in self.up]

    def leader(self, topic: str, index: int, advertised: Address) -> Node | None:
        placement = self.placement(topic, index)
        if placement is None or placement.leader == NO_LEADER:
            return None
        return self._node(self.by_id[placement.leader], advertised)

    def _node(self, broker: Broker, advertised: Address) -> Node:
        """`advertised`: the address of any broker's listener; the node has that of the broker's own one."""
        listener = next(
            (each.addresses.index(advertised) for each in self.by_id.values() if advertised in each.addresses), None
        )
        host, port = ("", 0) if listener is None else broker.addresses[listener]
        return Node(broker.id, host, port, broker.rack)


def _records(changes: Iterable[Placed]) -> list[Message]:
    return [placed(topic.topic_id, index, placement) for topic, index, placement in changes]


def _joined(before: Placement, joining: Sequence[int]) -> Placement:
    """A partition with these replicas in sync, too. The first of them that is leads it, if nobody does."""
    isr = (*before.isr, *(each for each in joining if each not in before.isr))
    if before.leader != NO_LEADER:
        return before._replace(isr=isr)
    leader = next(each for each in isr if each in joining)
    return before._replace(isr=isr, leader=leader, leader_epoch=before.leader_epoch + 1)


def _epochs_of(log: Log | None, current: int) -> LeaderEpochs:
    """The epochs that the batches of a log have, and the current one."""
    epochs, end_offset = LeaderEpochs(), 0
    if log is not None:
        for _, _, header in log.batches(log.start_offset):
            if header.leader_epoch > epochs.current:
                epochs.begin(header.leader_epoch, header.base_offset)
        end_offset = log.end_offset
    if current > epochs.current:
        epochs.begin(current, end_offset)
    return epochs
