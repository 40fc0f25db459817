"""A source that is a running server, read over the Kafka protocol."""

import time
from collections.abc import Callable, Iterator, Mapping

from coordinator.client.login.tls import Security
from coordinator.client.reading import EARLIEST, FETCH_BY_NAME, LATEST, fetch_request
from coordinator.groups.group_configs import RESOURCE_TYPE
from coordinator.log.batch import BatchHeader, CorruptBatch, verify, whole_batches
from coordinator.operations import groups, topics
from coordinator.operations.client import RETRY_S, Client, OperationFailed, error_name, refuse_error
from coordinator.operations.fork import ForkFailed
from coordinator.operations.fork.source import OffsetRange, SourceTopic, SourceTopics, Visit
from coordinator.operations.json_values import parse_topic_id
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeConfigsRequest,
    ListConfigResourcesRequest,
)
from coordinator.topics.names import INTERNAL

FETCH_BYTES = 4 << 20
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_WITH_TYPES = 1
"""The first version of ListConfigResources that lists resources of a type."""
_SOURCE_GROUP = 8
"""The source of a config that the group itself has, in DescribeConfigs."""


class NetworkSource:
    """A running server. An internal topic is read up to the end that it has when `partitions` is first called for it."""

    def __init__(self, bootstrap: str, timeout_s: float, security: Security) -> None:
        """Raises ForkFailed."""
        self.name = bootstrap
        self._connect: Callable[[], Client] = lambda: Client(bootstrap, timeout_s, security)
        self._timeout_s = timeout_s
        try:
            self._client = self._connect()
        except OperationFailed as error:
            raise ForkFailed(str(error)) from error
        self._ranges: dict[str, dict[int, OffsetRange]] = {}

    def partition_count(self, topic: str) -> int | None:
        """As many as `partitions` has."""
        return len(self.partitions(topic))

    def partitions(self, topic: str) -> Mapping[int, int]:
        """The partitions of an internal topic with the offsets that each spans."""
        if topic not in self._ranges:
            try:
                if self._ranges:
                    # The connections may have been idle for long.
                    self._client.close()
                    self._client = self._connect()
                self._ranges[topic] = self._find_ranges(topic)
            except OperationFailed as error:
                raise ForkFailed(str(error)) from error
        return {index: end - start for index, (start, end) in sorted(self._ranges[topic].items())}

    def close(self) -> None:
        self._client.close()

    def cluster_id(self) -> str:
        """The id of the cluster. Raises ForkFailed."""
        try:
            return self._client.metadata().cluster_id or ""
        except OperationFailed as error:
            raise ForkFailed(str(error)) from error

    def end_offset(self, topic: str, index: int) -> int:
        """Where a partition of `partitions` ended."""
        return self._ranges[topic][index].end

    def read(self, topic: str, index: int, visit: Visit, advance: Callable[[int], object], *, since: int = 0) -> None:
        """Visits the batches of a partition from an offset on, fetched from its leader."""
        try:
            self._read(topic, index, visit, advance, since)
        except OperationFailed as error:
            raise ForkFailed(str(error)) from error

    def _find_ranges(self, topic: str) -> dict[int, OffsetRange]:
        [found] = self._client.metadata([topic]).topics
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return {}
        refuse_error(found.error_code, f"cannot look up {topic} of {self.name}")
        keys = [(topic, each.partition_index) for each in found.partitions]
        starts = groups.positions(self._client, dict.fromkeys(keys, EARLIEST))
        ends = groups.positions(self._client, dict.fromkeys(keys, LATEST))
        return {key[1]: OffsetRange(starts[key], ends[key]) for key in keys}

    def _read(self, topic: str, index: int, visit: Visit, advance: Callable[[int], object], since: int) -> None:
        where = f"{self.name}: {topic}-{index}"
        start, end = self._ranges[topic][index]
        position = max(start, since)
        deadline = time.monotonic() + self._timeout_s
        while position < end:
            before = position
            records = self._fetch(topic, index, position)
            for at, header in _batches(records, where, position):
                if header.base_offset >= end:
                    position = end
                    break
                visit(records, at, header, where)
                position = header.next_offset
            if position > before:
                advance(position - before)
                deadline = time.monotonic() + self._timeout_s
            elif time.monotonic() > deadline:
                raise OperationFailed(f"{where}: no records from offset {position} on, although the log ends at {end}")

    def _fetch(self, topic: str, index: int, offset: int) -> bytes:
        """Batches from an offset on; none if the partition has moved to another leader."""
        key = topic, index
        leader = groups.leaders(self._client, [topic], [key])[key]
        request = fetch_request([(*key, offset)], 100, FETCH_BYTES)
        answer = self._client.to(leader).ask(request, version_max=FETCH_BY_NAME)
        refuse_error(answer.error_code, f"cannot fetch {topic}-{index} of {self.name}")
        [found] = answer.responses[0].partitions
        if found.error_code in _MOVED:
            time.sleep(RETRY_S)
            return b""
        refuse_error(found.error_code, f"cannot fetch {topic}-{index} of {self.name} at offset {offset}")
        return found.records or b""

    def read_topics(self) -> SourceTopics:
        """All topics that the user may see, with the ends that they have now."""
        try:
            # The connections may have been idle for long.
            with self._connect() as client:
                return _read_topics(client)
        except OperationFailed as error:
            raise ForkFailed(str(error)) from error


def _batches(records: bytes, where: str, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each complete batch that reaches beyond an offset. The last one may be incomplete."""
    try:
        for at, header in whole_batches(records, offset):
            verify(records, at, header)
            yield at, header
    except CorruptBatch as error:
        raise ForkFailed(f"{where}: the batch after offset {offset - 1}: {error}") from error


def _read_topics(client: Client) -> SourceTopics:
    listed = [each.name for each in topics.list_topics(client) if not each.internal and each.name not in INTERNAL]
    found = {}
    for described in topics.describe(client, listed) if listed else ():
        found[described.name] = SourceTopic(
            name=described.name,
            topic_id=None if described.topic_id is None else parse_topic_id(described.topic_id),
            partitions=len(described.partitions),
            configs={name: value for name, value in described.configs.items() if value is not None},
            ranges={
                each.partition: OffsetRange(each.start, each.end)
                for each in described.partitions
                if each.start is not None and each.end is not None
            },
        )
    configs, notes = _group_configs(client)
    return SourceTopics(topics=found, is_complete=True, group_configs=configs, notes=notes)


def _group_configs(client: Client) -> tuple[dict[str, dict[str, str]], tuple[str, ...]]:
    """The configs that groups have themselves, and what could not be read of them."""
    connection = client.any()
    if connection.version_of(ListConfigResourcesRequest) < _WITH_TYPES:
        return {}, ("left out, configs of groups: the server is older than Kafka 4.1 and does not list them",)
    request = ListConfigResourcesRequest(resource_types=[RESOURCE_TYPE])
    listed = connection.ask(request)
    if listed.error_code:
        return {}, (f"left out, configs of groups: {error_name(listed.error_code)}",)
    wanted = [
        DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=RESOURCE_TYPE, resource_name=each.resource_name, configuration_keys=None
        )
        for each in listed.config_resources
    ]
    if not wanted:
        return {}, ()
    answer = connection.ask(DescribeConfigsRequest(resources=wanted))
    configs = {}
    for each in answer.results:
        refuse_error(each.error_code, f"cannot describe the configs of group {each.resource_name}", each.error_message)
        own = [entry for entry in each.configs if entry.config_source == _SOURCE_GROUP]
        configs[each.resource_name] = {entry.name: entry.value for entry in own if entry.value is not None}
    return {group_id: own for group_id, own in configs.items() if own}, ()
