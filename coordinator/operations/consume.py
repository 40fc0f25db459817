"""Reads records of topics over the Kafka protocol, as `coordinator topics consume` does: alone, or as a member of a group.

A member uses the consumer protocol (KIP-848): the server assigns partitions, and one loop sends heartbeats, fetches and
commits. It commits what the caller has taken, before it asks for more. Records of open and aborted transactions are left out.
"""

import time
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import NamedTuple

from coordinator.client.reading import EARLIEST, FETCH_BY_NAME, LATEST, fetch_request
from coordinator.log.batch import decode_records, whole_batches
from coordinator.log.record import LogRecord
from coordinator.operations.client import RETRY_S, Client, refuse_error
from coordinator.operations.groups import Partition, leaders, positions
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FetchResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
)

FETCH_WAIT_MS = 500
RESPONSE_BYTES, PARTITION_BYTES = 50 << 20, 1 << 20
READ_COMMITTED = 1
REBALANCE_TIMEOUT_MS = 45_000
_JOINING, _LEAVING = 0, -1
_OFFSETS_BY_NAME = 9
"""The newest version of OffsetCommit and OffsetFetch that has topic names."""
_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
_NEW_LEADER = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.FENCED_LEADER_EPOCH}
)
_OUTDATED = frozenset({*_FENCED, ErrorCode.STALE_MEMBER_EPOCH})


class Consumed(NamedTuple):
    """A record that was read."""

    topic: str
    partition: int
    record: LogRecord


class Reader:
    """Fetches records of partitions from positions that it keeps. Raises OperationFailed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.positions: dict[Partition, int] = {}

    def fetch(self, wait_ms: int = FETCH_WAIT_MS) -> Iterator[Consumed]:
        """The records that are there, after at most `wait_ms` per leader. A position moves when its record is taken."""
        led_by = leaders(self._client, sorted({topic for topic, _ in self.positions}), self.positions)
        by_leader: dict[tuple[str, int], list[Partition]] = {}
        for partition, leader in led_by.items():
            by_leader.setdefault(leader, []).append(partition)
        for leader, partitions in by_leader.items():
            wanted = [(*each, self.positions[each]) for each in partitions]
            request = fetch_request(wanted, wait_ms // len(by_leader), RESPONSE_BYTES, PARTITION_BYTES, READ_COMMITTED)
            answer = self._client.to(leader).ask(request, version_max=FETCH_BY_NAME)
            refuse_error(answer.error_code, "cannot fetch")
            for topic in answer.responses:
                for found in topic.partitions:
                    yield from self._records((topic.topic, found.partition_index), found)
        if not by_leader:
            time.sleep(RETRY_S)

    def _records(self, partition: Partition, found: FetchResponse.PartitionData) -> Iterator[Consumed]:
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.positions |= positions(self._client, {partition: EARLIEST})
            return
        if found.error_code in _NEW_LEADER:
            return
        refuse_error(found.error_code, f"cannot fetch from {partition[0]}-{partition[1]}")
        aborted = sorted((each.first_offset, each.producer_id) for each in found.aborted_transactions or ())
        in_aborted: set[int] = set()
        content = found.records or b""
        for at, header in whole_batches(content):
            while aborted and aborted[0][0] <= header.last_offset:
                in_aborted.add(aborted.pop(0)[1])
            if header.is_control:
                in_aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in in_aborted):
                for record in decode_records(content, at, header):
                    if record.offset >= self.positions[partition]:
                        self.positions[partition] = record.offset + 1
                        yield Consumed(*partition, record)
            self.positions[partition] = max(self.positions[partition], header.next_offset)


class Member:
    """A member of a consumer group, whose assigned partitions a `Reader` reads. Raises OperationFailed."""

    def __init__(self, client: Client, reader: Reader, group_id: str, topics: Sequence[str], reset: int) -> None:
        """`reset`: EARLIEST or LATEST, for partitions without a committed offset."""
        self._client = client
        self._reader = reader
        self._group_id = group_id
        self._topics = topics
        self._reset = reset
        self._member_id = str(uuid.uuid4())
        self._epoch = _JOINING
        self._due_s = 0.0
        self._committed: dict[Partition, int] = {}

    def poll(self) -> None:
        """Commits what was read, and sends a heartbeat if one is due. Afterwards the reader has the assigned partitions."""
        self.commit()
        while time.monotonic() >= self._due_s:
            self._heartbeat()

    def leave(self) -> None:
        """Commits what was read, and leaves the group."""
        self.commit()
        self._ask(ConsumerGroupHeartbeatRequest(member_epoch=_LEAVING))

    def commit(self) -> None:
        """Commits the positions that have moved, unless a rebalance came first: then the next heartbeat says what is owned."""
        moved = {each: at for each, at in self._reader.positions.items() if at != self._committed.get(each)}
        if not moved:
            return
        request = OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=self._epoch,
            member_id=self._member_id,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=partition, committed_offset=at)
                    ],
                )
                for (topic, partition), at in moved.items()
            ],
        )
        answer = self._client.ask_coordinator(self._group_id, request, version_max=_OFFSETS_BY_NAME)
        codes = {each.error_code for topic in answer.topics for each in topic.partitions}
        if codes & _OUTDATED:
            self._due_s = 0.0
            return
        for code in codes:
            refuse_error(code, f"cannot commit offsets of group {self._group_id}")
        self._committed |= moved

    def _heartbeat(self) -> None:
        request = ConsumerGroupHeartbeatRequest(member_epoch=self._epoch, rebalance_timeout_ms=REBALANCE_TIMEOUT_MS)
        if self._epoch == _JOINING:
            request.subscribed_topic_names = list(self._topics)
        request.topic_partitions = self._owned()
        answer = self._ask(request)
        if answer.error_code in _FENCED:
            self._epoch = _JOINING
            self._reader.positions.clear()
            self._committed.clear()
            return
        refuse_error(answer.error_code, f"cannot join group {self._group_id}", answer.error_message)
        self._epoch = answer.member_epoch
        self._due_s = time.monotonic() + answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None and self._assign(answer.assignment.topic_partitions):
            self._due_s = 0.0  # the coordinator waits to hear what this member has

    def _ask(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        request.group_id, request.member_id = self._group_id, self._member_id
        return self._client.ask_coordinator(self._group_id, request)

    def _owned(self) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
        if self._epoch == _JOINING:
            return []
        ids = {name: topic_id for topic_id, name in self._names().items()}
        return [
            ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=ids[topic], partitions=[partition])
            for topic, partition in self._reader.positions
            if topic in ids
        ]

    def _names(self) -> Mapping[bytes, str]:
        return {each.topic_id: each.name or "" for each in self._client.metadata(list(self._topics)).topics}

    def _assign(self, assigned: Sequence[ConsumerGroupHeartbeatResponse.TopicPartitions]) -> bool:
        """Takes over an assignment. Returns whether it differs from the partitions that the reader has."""
        names = self._names()
        wanted = {
            (names[each.topic_id], index) for each in assigned if each.topic_id in names for index in each.partitions
        }
        read = self._reader.positions
        if wanted == set(read):
            return False
        for lost in set(read) - wanted:
            del read[lost]
            self._committed.pop(lost, None)
        added = wanted - set(read)
        if added:
            committed = self._offsets(added)
            self._committed |= committed
            missing = positions(self._client, dict.fromkeys(added - set(committed), self._reset))
            read.update({**missing, **committed})
        return True

    def _offsets(self, partitions: set[Partition]) -> dict[Partition, int]:
        """The committed offsets of these partitions; those without one are left out."""
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[index])
            for topic, index in partitions
        ]
        group = OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=self._group_id, member_id=self._member_id, member_epoch=self._epoch, topics=topics
        )
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        answer = self._client.ask_coordinator(self._group_id, request, version_max=_OFFSETS_BY_NAME)
        [found] = answer.groups
        refuse_error(found.error_code, f"cannot fetch the offsets of group {self._group_id}")
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in found.topics
            for each in topic.partitions
            if each.committed_offset >= 0
        }


def consume(
    client: Client, topics: Sequence[str], group_id: str | None, *, from_beginning: bool, until_end: bool
) -> Generator[Consumed]:
    """The records of topics as they arrive. Raises OperationFailed.

    Without a group: all partitions, from their start or their end. With one: those that the group assigns, from the committed
    offsets; where there are none, likewise. `until_end`: ends behind the records that the topics have now.
    """
    every = []
    for topic in client.metadata(list(topics)).topics:
        refuse_error(topic.error_code, f"cannot read topic {topic.name}")
        every += [(topic.name or "", each.partition_index) for each in topic.partitions]
    reset = EARLIEST if from_beginning else LATEST
    ends = positions(client, dict.fromkeys(every, LATEST)) if until_end else {}
    reader = Reader(client)
    member = None if group_id is None else Member(client, reader, group_id, topics, reset)
    if member is None:
        reader.positions |= positions(client, dict.fromkeys(every, reset))
    try:
        while True:
            if member is not None:
                member.poll()
            if until_end and reader.positions and all(at >= ends[each] for each, at in reader.positions.items()):
                return
            yield from reader.fetch()
    finally:
        if member is not None:
            member.leave()
