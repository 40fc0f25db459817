"""The share partitions and share sessions of one broker (Kafka: SharePartitionManager).

A share partition is made when a member first fetches it and forgotten when it is over: its topic is deleted or led by another
broker, its state was fenced, or the last session of its group has ended.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from coordinator.runtime.result import Fact
from coordinator.share_state.share_state import SharePartition, ShareStates
from coordinator.topics.list_offsets import EARLIEST, LATEST, list_offsets
from coordinator.topics.share.dead_letters import NO_QUEUE, DeadLetters, Queue
from coordinator.topics.share.leader import NOT_HOSTED, ShareLeader, When
from coordinator.topics.share.machine import Acknowledgement, Limits
from coordinator.topics.share.outcomes import CONNECTION_LOST, SESSION_CLOSED, Outcomes
from coordinator.topics.share.sessions import FINAL, INITIAL, PartitionKey, SessionKey, ShareSession, ShareSessions
from coordinator.topics.topics import Topics
from coordinator.world.clock import Clock
from coordinator.world.schedule import Schedule

_LIST_OFFSETS_VERSION = 11


class GroupShareSettings(NamedTuple):
    """The settings of a share group that its share partitions need."""

    limits: Limits
    is_committed: bool
    """Whether members get no records of open and aborted transactions (share.isolation.level)."""
    resets_to: Callable[[int], int]
    """`resets_to(wall_ms)`: the timestamp, or LATEST or EARLIEST, at which a group without a state begins."""
    dead_letters: Queue = NO_QUEUE


SettingsOf = Callable[[str], GroupShareSettings]


class OnLost(Protocol):
    """Where to say that something ends with a connection."""

    on_lost: Callable[[], None] | None


Acknowledged = Callable[[dict[PartitionKey, KafkaError | None]], None]


def _nobody_listens(_fact: Fact) -> None:
    """Until somebody wants to know."""


class ShareManager:
    """The share partitions that this broker leads, by group, topic and partition, and the sessions of its members."""

    def __init__(
        self,
        topics: Topics,
        states: ShareStates,
        when: When,
        settings_of: SettingsOf,
        clock: Clock,
        protocol_schedule: Schedule,
        sessions_max: int,
        of_process: "list[ShareManager] | None" = None,
        dead_letters: DeadLetters | None = None,
        on_fact: Callable[[Fact], None] = _nobody_listens,
    ) -> None:
        """`of_process`: the managers of the brokers that this process is, of which this will be one. `dead_letters`: theirs."""
        self.dead_letters = dead_letters or DeadLetters(
            topics, lambda group_id: settings_of(group_id).dead_letters, Outcomes(), on_fact
        )
        self.outcomes = self.dead_letters.outcomes
        self.topics = topics
        self.settings_of = settings_of
        self.sessions = ShareSessions(sessions_max)
        self.leaders: dict[SharePartition, ShareLeader] = {}
        self.of_process: list[ShareManager] = [] if of_process is None else of_process
        self.of_process.append(self)
        self._states = states
        self._when = when
        self._clock = clock
        self._protocol_schedule = protocol_schedule

    def of_broker(self, topics: Topics, states: ShareStates) -> "ShareManager":
        """The manager of one of the brokers that a process with several is; it has its own sessions."""
        return ShareManager(
            topics,
            states,
            self._when,
            self.settings_of,
            self._clock,
            self._protocol_schedule,
            self.sessions.limit,
            self.of_process,
            self.dead_letters,
        )

    # --- share partitions ---------------------------------------------------------------------------------------------

    def leader(self, group_id: str, key: PartitionKey) -> ShareLeader | ErrorCode:
        """The share partition, which is made if it is not here yet; or why it cannot be."""
        name = self.topics.topic_name(key.topic_id)
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        partition = self.topics.partition(name, key.partition)
        if partition is None:
            return self.topics.why_absent(name, key.partition)
        if partition.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        share_partition = SharePartition(group_id, *key)
        leader = self.leaders.get(share_partition)
        if leader is not None and (
            leader.partition is not partition or leader.leader_epoch != partition.epochs.current or leader.is_over
        ):
            self._forget(leader, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            leader = None
        if leader is None:
            leader = self.leaders[share_partition] = ShareLeader(
                share_partition,
                partition,
                self._states,
                self._when,
                lambda: self.settings_of(group_id).limits,
                partial(self._find_start, group_id, name, key.partition),
                self._clock,
                self._protocol_schedule,
                self.topics.schedule,
                self.outcomes,
                self.dead_letters,
                lambda: self._forget_unread(group_id),
            )
        return leader

    def _known(self, group_id: str, key: PartitionKey) -> ShareLeader | None:
        leader = self.leaders.get(SharePartition(group_id, *key))
        return leader if leader is not None and not leader.is_over else None

    def _forget(self, leader: ShareLeader, why: ErrorCode) -> None:
        if self.leaders.get(leader.key) is leader:
            del self.leaders[leader.key]
        leader.end(KafkaError(why))

    def forget_if_over(self, leader: ShareLeader) -> None:
        """Forgets the share partition if it is over, so that the next fetch reads the state again."""
        if leader.is_over:
            self._forget(leader, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def topics_deleted(self, topic_ids: Collection[bytes]) -> None:
        """Forgets the share partitions of deleted topics."""
        for manager in self.of_process:
            manager.forget(lambda key: key.topic_id in topic_ids, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def forget(self, is_meant: Callable[[SharePartition], bool], why: ErrorCode) -> None:
        """Forgets share partitions of this broker: the next fetch reads their states again."""
        for leader in [each for each in self.leaders.values() if is_meant(each.key)]:
            self._forget(leader, why)

    def _find_start(self, group_id: str, name: str, index: int, found: Callable[[int], None]) -> None:
        """Where a share partition begins that has no start offset yet. A time after all records means the end."""
        timestamp = self.settings_of(group_id).resets_to(self._clock.wall_ms())

        def listed(response: ListOffsetsResponse) -> None:
            offset = response.topics[0].partitions[0].offset
            if offset >= 0:
                found(offset)
            elif timestamp != LATEST:
                ask(LATEST)
            else:
                found(0)  # the partition is gone: nobody will fetch

        def ask(timestamp: int) -> None:
            asked = ListOffsetsRequest.ListOffsetsPartition(
                partition_index=index, current_leader_epoch=-1, timestamp=timestamp
            )
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=0,
                topics=[ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=[asked])],
            )
            list_offsets(self.topics, request, _LIST_OFFSETS_VERSION, listed, _run, lambda: False)

        ask(timestamp)

    def end_offset(self, name: str, index: int) -> int | None:
        """Where a partition ends for readers; None if no broker of this process leads it."""
        found = (manager.topics.partition(name, index) for manager in self.of_process)
        return next((partition.high_watermark for partition in found if partition is not None), None)

    # --- sessions -----------------------------------------------------------------------------------------------------

    def fetch_session(
        self,
        key: SessionKey,
        epoch: int,
        named: Collection[PartitionKey],
        forgotten: Collection[PartitionKey],
        connection: OnLost,
        *,
        has_acknowledgements: bool,
    ) -> ShareSession:
        """The session of a ShareFetch.

        Raises INVALID_REQUEST (the first request acknowledges), SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH,
        SHARE_SESSION_LIMIT_REACHED.
        """
        if epoch == FINAL:
            return self.sessions.find(key)
        if epoch == INITIAL:
            if has_acknowledgements:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            session = self.sessions.begin(key, named, connection)
            self._follow(connection)
            new = set(session.partitions)
        else:
            session = self.sessions.resume(key, epoch)
            new = {each for each in named if each not in session.partitions}
            session.update(named, forgotten)
        session.unknown |= {each for each in new if self.topics.topic_name(each.topic_id) is None}
        return session

    def acknowledge_session(self, key: SessionKey, epoch: int) -> None:
        """Checks the session of a ShareAcknowledge. Raises SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH."""
        if epoch == INITIAL:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if epoch == FINAL:
            self.sessions.find(key)
        else:
            self.sessions.resume(key, epoch)

    def end_session(self, key: SessionKey, cause: str = SESSION_CLOSED) -> None:
        """Ends a session, if there is one: the member gives back what it has. `cause`: why, for people."""
        session = self.sessions.end(key)
        for each in session.partitions if session is not None else ():
            leader = self._known(key.group_id, each)
            if leader is not None:
                leader.release(key.member_id, cause)
        if session is not None:
            self._forget_unread(key.group_id)

    def _forget_unread(self, group_id: str) -> None:
        """Forgets the share partitions of a group without sessions, but those whose dead letters are on the way."""
        if not self.sessions.has_any_of(group_id):
            self.forget(
                lambda each: each.group_id == group_id and not self.leaders[each].archiving_count,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
            )

    def end_locks(
        self, group_id: str, is_meant: Callable[[SharePartition], bool], member_id: str, done: Callable[[int], None]
    ) -> None:
        """Ends locks of a group now, those of a member or of all (""), also at the process's other brokers.

        Calls `done` with the number of records when that is durable.
        """
        leaders = [
            leader
            for manager in self.of_process
            for key, leader in manager.leaders.items()
            if key.group_id == group_id and leader.is_active and is_meant(key)
        ]
        ended, left = 0, len(leaders) + 1

        def one_done(count: int) -> None:
            nonlocal ended, left
            ended, left = ended + count, left - 1
            if not left:
                done(ended)

        for leader in leaders:
            leader.end_locks(member_id, one_done)
        one_done(0)

    def _follow(self, connection: OnLost) -> None:
        """Ends the sessions of a connection with it. Something else may already wait for its end."""
        if len(self.sessions.of_connection(connection)) > 1:
            return  # it is followed already
        earlier = connection.on_lost

        def lost() -> None:
            if earlier is not None:
                earlier()
            self._lost(connection)

        connection.on_lost = lost

    def _lost(self, connection: OnLost) -> None:
        for session in self.sessions.of_connection(connection):
            self.end_session(session.key, CONNECTION_LOST)

    # --- acknowledging ------------------------------------------------------------------------------------------------

    def acknowledge(
        self,
        key: SessionKey,
        acknowledgements: dict[PartitionKey, Sequence[Acknowledgement]],
        done: Acknowledged,
    ) -> None:
        """Calls `done` when all that could be acknowledged is durable, with the error of each partition (leader.py).

        UNKNOWN_TOPIC_OR_PARTITION for one that no member of the group has fetched from this broker.
        """
        results: dict[PartitionKey, KafkaError | None] = {}
        left = len(acknowledgements) + 1

        def acknowledged(partition: PartitionKey | None, error: KafkaError | None) -> None:
            nonlocal left
            if partition is not None:
                results[partition] = error
            left -= 1
            if not left:
                done(results)

        for partition, batches in acknowledgements.items():
            leader = self._known(key.group_id, partition)
            if leader is None:
                acknowledged(partition, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED))
            else:
                leader.acknowledge(key.member_id, batches, partial(acknowledged, partition))
        acknowledged(None, None)


def resets_to(value: str, duration_ms: int | None) -> Callable[[int], int]:
    """`GroupShareSettings.resets_to` for a value of share.auto.offset.reset, and the duration that it names."""
    if duration_ms is not None:
        return lambda wall_ms: wall_ms - duration_ms
    place = EARLIEST if value == "earliest" else LATEST
    return lambda _wall_ms: place


def _run(pieces: Iterable[None]) -> None:
    """One partition is looked up in one piece."""
    for _ in pieces:
        pass
