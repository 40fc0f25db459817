"""The events of one group, from a data folder, the journal of workers or a running server, without the commits.

A server is asked over the Kafka protocol for its topic `__coordinator_events`. What happened before the window is not read, so
the clients of members that joined earlier come from the description of the group.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from coordinator.client.reading import EARLIEST, FETCH_BY_NAME, LATEST, fetch_request, offsets_request
from coordinator.groups.group_events import EventReader, Found
from coordinator.groups.group_history import Client
from coordinator.log.batch import BatchHeader, whole_batches
from coordinator.operations.client import RETRY_S, Connection, OperationFailed, error_name, refuse_error
from coordinator.operations.client import Client as KafkaClient
from coordinator.operations.groups import find
from coordinator.operations.log_folders import LogFolder, Problem, SegmentFile, find_log_folders
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.java import positive_hash
from coordinator.topics.names import CONSUMER_OFFSETS, COORDINATOR_EVENTS

_FETCH_BYTES = 8 << 20
Batch = Callable[[bytes, int, BatchHeader], None]
"""`batch(data, position, header)`"""


# --- a data folder ----------------------------------------------------------------------------------------------------


def from_folder(path: Path, group_id: str, report: Callable[[Problem], None]) -> Found:
    """The events in a data folder, or in the folder of one event log. Raises NoLogFolder and OperationFailed."""
    reader = EventReader(group_id)
    read_folder(path, group_id, reader.batch, report)
    return reader.found(None)


def read_folder(path: Path, group_id: str, batch: Batch, report: Callable[[Problem], None]) -> None:
    """Calls `batch` for each batch of the event log that has a group's events. Raises NoLogFolder and OperationFailed."""
    folders = [each for each in find_log_folders(path) if each.topic == COORDINATOR_EVENTS]
    if not folders:
        raise OperationFailed(
            f"{path} has no event log ({COORDINATOR_EVENTS}-N): it is not the data folder of this server, "
            "or coordinator.events is none"
        )

    def visit(segment: SegmentFile, header: BatchHeader, position: int) -> None:
        batch(segment.batch(position, header), 0, header)

    for problem in _shard_of(folders, group_id).walk(visit):
        report(problem)


def _shard_of(folders: list[LogFolder], group_id: str) -> LogFolder:
    if len(folders) == 1:
        return folders[0]
    by_number = {int(each.name.rpartition("-")[2]): each for each in folders}
    number = positive_hash(group_id) % (max(by_number) + 1)
    if number not in by_number:
        raise OperationFailed(f"{COORDINATOR_EVENTS}-{number}, which has the events of {group_id}, is missing")
    return by_number[number]


# --- the journal of workers -------------------------------------------------------------------------------------------


def event_log_of(logs: Sequence[str], group_id: str) -> list[str]:
    """Of the logs of a journal, the one that has the events of a group. Raises OperationFailed."""
    parted = [log.rpartition("-") for log in logs]
    shards = 1 + max((int(number) for topic, _, number in parted if topic == CONSUMER_OFFSETS), default=0)
    wanted = f"{COORDINATOR_EVENTS}-{positive_hash(group_id) % shards}"
    if wanted in logs:
        return [wanted]
    if not any(topic == COORDINATOR_EVENTS for topic, _, _ in parted):
        raise OperationFailed(
            f"the journal has no event log ({COORDINATOR_EVENTS}-N): coordinator.events is none, or no worker serves groups yet"
        )
    raise OperationFailed(f"{wanted}, which has the events of {group_id}, is missing in the journal")


# --- a server ---------------------------------------------------------------------------------------------------------


class _Moved(OperationFailed):
    """The server has not got the log, or not yet."""


def from_server(client: KafkaClient, group_id: str, since_ms: int) -> Found:
    """The events of a server since a time; retries while another one takes the log over. Raises OperationFailed."""
    deadline = time.monotonic() + client.timeout_ms / 1000
    while True:
        try:
            return _from_leader(client, group_id, since_ms)
        except _Moved:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)


def _from_leader(client: KafkaClient, group_id: str, since_ms: int) -> Found:
    answer = client.metadata([COORDINATOR_EVENTS])
    [topic] = answer.topics
    if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise OperationFailed(
            f"an ACL must allow this user to READ the events of the server (topic {COORDINATOR_EVENTS})"
        )
    if topic.error_code or not topic.partitions:
        raise OperationFailed(
            f"the server has no events ({COORDINATOR_EVENTS}): it is a Kafka, or coordinator.events is none there"
        )
    number = positive_hash(group_id) % len(topic.partitions)
    leader = next(each.leader_id for each in topic.partitions if each.partition_index == number)
    addresses = [(each.host, each.port) for each in answer.brokers if each.node_id == leader]
    if not addresses:
        raise _Moved(f"no server has {COORDINATOR_EVENTS}-{number} at the moment")
    connection = client.to(addresses[0])
    reader = EventReader(group_id)
    start = _offset(connection, number, since_ms)
    for data, at, header in _batches(connection, number, _offset(connection, number, LATEST) if start < 0 else start):
        reader.batch(data, at, header)
    group = find(client, group_id)
    members = None if group is None else {m.member_id: Client(m.client_id, m.client_host) for m in group.members}
    found = reader.found(members)
    earliest = _offset(connection, number, EARLIEST)
    return found if start <= earliest else found._replace(first_ms=since_ms)


def _offset(connection: Connection, number: int, timestamp: int) -> int:
    """The offset for a timestamp; -1 if all events are older."""
    answer = connection.ask(offsets_request([(COORDINATOR_EVENTS, number, timestamp)]))
    [found] = answer.topics[0].partitions
    _refuse_error(found.error_code, f"cannot find the events in {COORDINATOR_EVENTS}-{number}")
    return found.offset


def _batches(connection: Connection, number: int, offset: int) -> Iterator[tuple[bytes, int, BatchHeader]]:
    """The complete batches from an offset to the end of the log."""
    end = -1
    while end < offset:
        end, data = offset, _fetched(connection, number, offset)
        for position, header in whole_batches(data, offset):
            offset = header.next_offset
            yield data, position, header


def _fetched(connection: Connection, number: int, offset: int) -> bytes:
    request = fetch_request([(COORDINATOR_EVENTS, number, offset)], 0, _FETCH_BYTES)
    answer = connection.ask(request, version_max=FETCH_BY_NAME)
    refuse_error(answer.error_code, f"cannot read {COORDINATOR_EVENTS}-{number}")
    [found] = answer.responses[0].partitions
    if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return b""
    _refuse_error(found.error_code, f"cannot read {COORDINATOR_EVENTS}-{number}")
    return found.records or b""


def _refuse_error(code: int, doing: str) -> None:
    if code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE):
        raise _Moved(f"{doing}: {error_name(code)}")
    refuse_error(code, doing)
