"""Sends records to a topic over the Kafka protocol, as `coordinator topics produce` does.

Each input that is available at once becomes one batch per partition, acknowledged by all in-sync replicas. A batch whose
response is lost is not sent again, because a producer without an id could write it twice.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from coordinator.client.blocking import Address
from coordinator.log.batch_builder import encode_batch
from coordinator.log.record import LogRecord
from coordinator.operations.client import RETRY_S, Client, OperationFailed, refuse_error
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import MetadataRequest, ProduceRequest

Headers = tuple[tuple[str, bytes | None], ...]
ALL_IN_SYNC = -1
_BY_NAME = 12
"""The newest version of Produce that has topic names."""


class Record(NamedTuple):
    """A record to send. `partition` is None if the key chooses it; a value of None is a tombstone."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


class Producer:
    """Sends records to one topic, which the server may create on first use. Raises OperationFailed."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._leaders = _leaders(client, topic)
        self._turns = count()

    def send(self, records: Iterable[Record]) -> int:
        """Sends records and returns how many. A server that refuses one batch may have accepted others."""
        by_partition: dict[int, list[Record]] = {}
        keyless = next(self._turns) % len(self._leaders)
        for record in records:
            by_partition.setdefault(self._partition(record, keyless), []).append(record)
        for partition, batch in by_partition.items():
            self._send(partition, batch)
        return sum(map(len, by_partition.values()))

    def _partition(self, record: Record, keyless: int) -> int:
        """The partition that the record names, or the one that Java's default partitioner chooses.

        Records without a key stay together until the next call, as in KIP-480.
        """
        if record.partition is not None:
            if record.partition not in self._leaders:
                raise OperationFailed(f"topic {self._topic} has no partition {record.partition}")
            return record.partition
        chosen = keyless if record.key is None else (murmur2(record.key) & 0x7FFF_FFFF) % len(self._leaders)
        return sorted(self._leaders)[chosen]

    def _send(self, partition: int, records: Sequence[Record]) -> None:
        now_ms = time.time_ns() // 1_000_000
        batch = encode_batch(
            [LogRecord(i, now_ms, each.key, each.value, each.headers) for i, each in enumerate(records)]
        )
        data = ProduceRequest.PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            acks=ALL_IN_SYNC,
            timeout_ms=self._client.timeout_ms,
            topic_data=[ProduceRequest.TopicProduceData(name=self._topic, partition_data=[data])],
        )
        answer = self._client.ask_leader(self._leaders[partition], request, version_max=_BY_NAME)
        [outcome] = answer.responses[0].partition_responses
        refuse_error(outcome.error_code, f"cannot write to {self._topic}-{partition}", outcome.error_message)


def _leaders(client: Client, topic: str) -> Mapping[int, Address]:
    """The leader of each partition. A topic that the server has just created may have none for a moment."""
    deadline = time.monotonic() + client.timeout_ms / 1000
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
    while True:
        answer = client.any().ask(request)
        brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        [found] = answer.topics
        leaders = {each.partition_index: brokers.get(each.leader_id) for each in found.partitions}
        known = {partition: leader for partition, leader in leaders.items() if leader is not None}
        if not found.error_code and known and len(known) == len(leaders):
            return known
        is_new = found.error_code in {
            ErrorCode.NONE,
            ErrorCode.LEADER_NOT_AVAILABLE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        if not is_new or time.monotonic() > deadline:
            refuse_error(found.error_code or ErrorCode.LEADER_NOT_AVAILABLE, f"cannot write to topic {topic}")
        time.sleep(RETRY_S)


def murmur2(key: bytes) -> int:
    """The 32-bit hash with which Java's producer chooses a partition (Kafka: `Utils.murmur2`), unsigned."""
    multiplier, mask = 0x5BD1E995, 0xFFFF_FFFF
    hashed = 0x9747B28C ^ len(key)
    end = len(key) & ~3
    for position in range(0, end, 4):
        word = int.from_bytes(key[position : position + 4], "little") * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        hashed = hashed * multiplier & mask ^ word
    if end < len(key):
        hashed = (hashed ^ int.from_bytes(key[end:], "little")) * multiplier & mask
    hashed = (hashed ^ hashed >> 13) * multiplier & mask
    return hashed ^ hashed >> 15
