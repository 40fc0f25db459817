"""AlterShareGroupOffsets (key 91): sets where the share partitions of a group without members start (KIP-932).

A group that does not exist is created. Partitions start again: nothing is known of the records behind their new start. Topics
that the client may not read or that do not exist come first in the response. A negative partition of a topic fails the request.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import partial
from typing import Any

from coordinator.api import Api, Coordinator, Exchange, Overlay, Server, denial
from coordinator.api.error_families import GROUP_ERRORS, TOPIC_ERRORS
from coordinator.api.guards import allowed_names, serves
from coordinator.api.permits import WORDS
from coordinator.groups.kinds import Kind
from coordinator.groups.share.deliveries import AlteredBy
from coordinator.groups.share.offsets import Alteration, Altered, begin_alteration, complete_alteration, topics_of
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from coordinator.runtime.internal_request import InternalRequest
from coordinator.security.access import READ_GROUP, READ_TOPIC, ResourceType
from coordinator.share_state.coordinator import ask_in_pieces
from coordinator.share_state.share_state import SharePartition
from coordinator.share_state.state import UNKNOWN_PARTITION

_AskedPartition = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition
_Topic = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic
_Partition = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition
_NO_ID = bytes(16)


def handle(server: Server, exchange: Exchange[AlterShareGroupOffsetsRequest]) -> None:
    request = exchange.request
    if not serves(server, Kind.SHARE):
        exchange.refuse(ErrorCode.UNSUPPORTED_VERSION)
        return
    if not exchange.permits.allows(READ_GROUP, request.group_id):
        raise denial(ResourceType.GROUP)
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
    _Alter(server, exchange).begin()


class _Alter:
    """The work on one request."""

    def __init__(self, server: Server, exchange: Exchange[AlterShareGroupOffsetsRequest]) -> None:
        self._server = server
        self._exchange = exchange
        self._group_id = exchange.request.group_id
        self._refused: list[_Topic] = []
        self._topics: dict[bytes, _Topic] = {}
        """The answer, by topic id."""
        self._names: dict[bytes, str] = {}
        self._offsets: dict[tuple[bytes, int], int] = {}

    def begin(self) -> None:
        topics: dict[str, list[_AskedPartition]] = {}
        for topic in self._exchange.request.topics:
            topics.setdefault(topic.topic_name, []).extend(topic.partitions)
        allowed = allowed_names(self._exchange.permits, READ_TOPIC, topics)
        for name, partitions in topics.items():
            topic_id = self._server.topics.topic_id(name)
            if name not in allowed:
                self._refuse(
                    name, partitions, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, WORDS[ResourceType.TOPIC]
                )
            elif topic_id is None:
                self._refuse(name, partitions, topic_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_PARTITION)
            else:
                self._take(name, partitions, topic_id)
        wanted = Alteration(self._group_id, topics_of(list(self._offsets), self._names))
        self._server.groups.submit(self._group_id, begin_alteration, InternalRequest(wanted, self._begun))

    def _refuse(
        self, name: str, partitions: list[_AskedPartition], topic_id: bytes | None, error: ErrorCode, text: str
    ) -> None:
        if partitions:
            refused = [_Partition(each.partition_index, error, text) for each in partitions]
            self._refused.append(_Topic(name, topic_id or _NO_ID, refused))

    def _take(self, name: str, partitions: list[_AskedPartition], topic_id: bytes) -> None:
        count = self._server.topics.partition_count(name) or 0
        answer = self._topics[topic_id] = _Topic(name, topic_id)
        self._names[topic_id] = name
        for each in partitions:
            if each.partition_index < 0:
                # Kafka's broker refuses to ask the share coordinator.
                place = f"{self._group_id} {urlsafe_b64encode(topic_id).decode().rstrip('=')} {each.partition_index}"
                text = f"Initialize share group parameters has invalid partitionId - {place}"
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
            if each.partition_index < count:
                answer.partitions.append(_Partition(each.partition_index))
                self._offsets[topic_id, each.partition_index] = each.start_offset
            else:
                answer.partitions.append(
                    _Partition(each.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_PARTITION)
                )

    def _begun(self, reply: int | KafkaError) -> None:
        if isinstance(reply, KafkaError):
            self._exchange.fail(reply)
            return
        initialize = self._server.share_states.initialize
        asks = {
            key: partial(initialize, SharePartition(self._group_id, *key), reply, start_offset)
            for key, start_offset in self._offsets.items()
        }
        self._exchange.run_in_slices(ask_in_pieces(asks, self._initialized), even_if_lost=True)

    def _initialized(self, errors: Mapping[tuple[bytes, int], ErrorCode]) -> None:
        failed = {key: error for key, error in errors.items() if error}
        for topic_id, topic in self._topics.items():
            for each in topic.partitions:
                if each.error_code == ErrorCode.NONE:
                    each.error_code = failed.get((topic_id, each.partition_index), ErrorCode.NONE)
        if not errors:
            self._reply(None)
            return
        altered = Altered(
            self._group_id,
            done=topics_of([key for key in errors if key not in failed], self._names),
            failed=topics_of(list(failed), self._names),
            error=next(iter(failed.values()), ErrorCode.NONE),
            start_offsets=self._offsets,
            by=AlteredBy(str(self._exchange.principal), self._exchange.client_id),
        )
        self._server.groups.submit(self._group_id, complete_alteration, InternalRequest(altered, self._reply))

    def _reply(self, _reply: Any) -> None:
        """The offsets are altered, whatever became of the group's note of it."""
        self._exchange.reply(AlterShareGroupOffsetsResponse(responses=[*self._refused, *self._topics.values()]))


API = Api(
    key=91,
    name="AlterShareGroupOffsets",
    versions=(0, 0),
    access=(READ_GROUP, READ_TOPIC),
    handle=handle,
    errors=GROUP_ERRORS | TOPIC_ERRORS | {ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_MAX_SIZE_REACHED},
    elements=("topics.partitions",),
    coordinator=Coordinator.GROUP,
    overlay=Overlay.HIDDEN,
)
