"""What ShareFetch and ShareAcknowledge share: who may send them, and the acknowledgements in them (Kafka: KafkaApis).

Acknowledgements are checked before anything is done, each partition for itself: batches ascend, an array of types has one for
all records or one for each, and only a request that says so renews locks.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.config.features import serves
from coordinator.groups.kinds import Kind
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.topics.share.machine import GAP, REJECT, RENEW, Acknowledgement
from coordinator.topics.share.sessions import PartitionKey, SessionKey

_MEMBER_ID_LENGTH_MAX = 36
_RENEWS_SINCE = 2

IsDenied = Callable[[str | None], bool]
"""Whether the member may not read the topic of this name."""
Results = dict[PartitionKey, KafkaError | None]


def is_enabled(server: Server) -> bool:
    return serves(server.config, server.topics.registry, Kind.SHARE)


def check_member(server: Server, request: Any) -> None:
    """Raises UNSUPPORTED_VERSION if there are no share groups, and INVALID_REQUEST for ids that no client sends."""
    if not is_enabled(server):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if request.group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not request.member_id or len(request.member_id) > _MEMBER_ID_LENGTH_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")


def session_key(request: Any) -> SessionKey:
    return SessionKey(request.group_id, request.member_id)


class Acknowledge:
    """The acknowledgements of one request."""

    def __init__(self, server: Server, exchange: Exchange[Any], topics: Iterable[Any], is_denied: IsDenied) -> None:
        self._server = server
        self._key = session_key(exchange.request)
        self._topics = topics
        self._is_denied = is_denied
        self._type_max = RENEW if exchange.api_version >= _RENEWS_SINCE else REJECT
        self._renews = exchange.api_version >= _RENEWS_SINCE and exchange.request.is_renew_ack

    def begin(self, done: Callable[[Results], None]) -> None:
        """Calls `done` with the result of each partition, when all are known.

        Errors: UNKNOWN_TOPIC_ID, INVALID_REQUEST, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, and those of
        `ShareManager.acknowledge`.
        """
        results: Results = {}
        empty: list[PartitionKey] = []
        acknowledgements: dict[PartitionKey, Sequence[Acknowledgement]] = {}
        for topic in self._topics:
            name = self._server.topics.topic_name(topic.topic_id)
            for each in topic.partitions:
                key = PartitionKey(topic.topic_id, each.partition_index)
                error = self._error(name, each)
                if error is not ErrorCode.NONE:
                    results[key] = KafkaError(error)
                elif each.acknowledgement_batches:
                    acknowledgements[key] = [
                        Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                        for batch in each.acknowledgement_batches
                    ]
                else:
                    empty.append(key)

        def acknowledged(found: Results) -> None:
            # As in Kafka, partitions without acknowledgements are answered only beside others.
            done({**found, **results, **(dict.fromkeys(empty) if found else {})})

        self._server.share_partitions.acknowledge(self._key, acknowledgements, acknowledged)

    def _error(self, name: str | None, partition: Any) -> ErrorCode:
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not self._are_valid(partition.acknowledgement_batches):
            return ErrorCode.INVALID_REQUEST
        if self._is_denied(name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partitions = self._server.topics.partition_count(name) or 0
        return ErrorCode.NONE if 0 <= partition.partition_index < partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _are_valid(self, batches: Iterable[Any]) -> bool:
        previous = -1
        for batch in batches:
            types = batch.acknowledge_types
            if not previous <= batch.first_offset <= batch.last_offset or not types:
                return False
            if len(types) > 1 and batch.last_offset - batch.first_offset != len(types) - 1:
                return False
            if not all(GAP <= kind <= self._type_max for kind in types) or (RENEW in types and not self._renews):
                return False
            previous = batch.last_offset
        return True
