"""Requests with which a client reads logs: pages of records, and where partitions begin and end."""

from collections.abc import Iterable

from coordinator.protocol.messages import FetchRequest, ListOffsetsRequest

FETCH_BY_NAME = 12
"""The newest version of Fetch that has the names of topics."""
EARLIEST, LATEST = -2, -1
"""The timestamps of ListOffsets for the start and the end of a log."""


def fetch_request(
    wanted: Iterable[tuple[str, int, int]],
    wait_ms: int,
    bytes_max: int,
    partition_bytes_max: int | None = None,
    isolation_level: int = 0,
) -> FetchRequest:
    """The records of partitions (topic, number) from these offsets on. `partition_bytes_max`: None for `bytes_max`."""
    topics: dict[str, FetchRequest.FetchTopic] = {}
    for topic, number, offset in wanted:
        partition = FetchRequest.FetchPartition(
            partition=number, fetch_offset=offset, partition_max_bytes=partition_bytes_max or bytes_max
        )
        topics.setdefault(topic, FetchRequest.FetchTopic(topic=topic, partitions=[])).partitions.append(partition)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=bytes_max,
        isolation_level=isolation_level,
        session_epoch=-1,
        topics=list(topics.values()),
    )


def offsets_request(wanted: Iterable[tuple[str, int, int]]) -> ListOffsetsRequest:
    """The offsets of partitions (topic, number) for these timestamps."""
    topics: dict[str, ListOffsetsRequest.ListOffsetsTopic] = {}
    for topic, number, timestamp in wanted:
        partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=number, timestamp=timestamp)
        topics.setdefault(topic, ListOffsetsRequest.ListOffsetsTopic(topic, [])).partitions.append(partition)
    return ListOffsetsRequest(replica_id=-1, topics=list(topics.values()))
