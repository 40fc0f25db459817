"""DeleteShareGroupOffsets (key 92): deletes the states that a share group without members has for topics (KIP-932).

When it reads such a topic again, it begins where `share.auto.offset.reset` says. Topics that the client may not read come first
in the response, and those that have nothing to delete last.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from coordinator.api import Api, Coordinator, Exchange, Overlay, Server, denial
from coordinator.api.error_families import GROUP_ERRORS, TOPIC_ERRORS
from coordinator.api.guards import allowed_names, serves
from coordinator.api.permits import WORDS
from coordinator.groups.kinds import Kind
from coordinator.groups.share.offsets import Deleted, Deleting, Deletion, begin_deletion, complete_deletion
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from coordinator.runtime.internal_request import InternalRequest
from coordinator.security.access import DELETE_GROUP, READ_TOPIC, ResourceType
from coordinator.share_state.coordinator import ask_in_pieces
from coordinator.share_state.share_state import SharePartition
from coordinator.share_state.state import UNKNOWN_PARTITION

_Topic = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic
_NO_ID = bytes(16)
_NOTHING = "There is no offset information to delete."


def handle(server: Server, exchange: Exchange[DeleteShareGroupOffsetsRequest]) -> None:
    request = exchange.request
    if not serves(server, Kind.SHARE):
        exchange.refuse(ErrorCode.UNSUPPORTED_VERSION)
        return
    if not exchange.permits.allows(DELETE_GROUP, request.group_id):
        raise denial(ResourceType.GROUP)
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
    _Delete(server, exchange).begin()


class _Delete:
    """The work on one request."""

    def __init__(self, server: Server, exchange: Exchange[DeleteShareGroupOffsetsRequest]) -> None:
        self._server = server
        self._exchange = exchange
        self._group_id = exchange.request.group_id
        self._first: list[_Topic] = []
        self._last: list[_Topic] = []
        self._names: dict[bytes, str] = {}
        self._unknown: list[str] = []
        self._deleted: list[bytes] = []

    def begin(self) -> None:
        names = list(dict.fromkeys(each.topic_name for each in self._exchange.request.topics))
        allowed = allowed_names(self._exchange.permits, READ_TOPIC, names)
        topics = self._server.topics
        wanted: dict[bytes, tuple[str, int]] = {}
        for name in names:
            topic_id = topics.topic_id(name)
            if name not in allowed:
                text = WORDS[ResourceType.TOPIC]
                self._first.append(_Topic(name, _NO_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED, text))
            elif topic_id is None:
                self._unknown.append(name)
            else:
                wanted[topic_id] = name, topics.partition_count(name) or 0
                self._names[topic_id] = name
        request = InternalRequest(Deletion(self._group_id, wanted), self._begun)
        self._server.groups.submit(self._group_id, begin_deletion, request)

    def _begun(self, reply: Deleting | KafkaError) -> None:
        if isinstance(reply, KafkaError):
            self._exchange.fail(reply)
            return
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if reply.has_states:
            texts = dict.fromkeys(self._unknown, UNKNOWN_PARTITION)
            texts |= {self._names[topic_id]: _NOTHING for topic_id in reply.without_state}
            asked = dict.fromkeys(each.topic_name for each in self._exchange.request.topics)
            self._last += [_Topic(name, _NO_ID, code, texts[name]) for name in asked if name in texts]
        delete = self._server.share_states.delete
        asks = {
            (topic_id, index): partial(delete, SharePartition(self._group_id, topic_id, index))
            for topic_id, topic in reply.topics.items()
            for index in sorted(topic.partitions)
        }
        self._exchange.run_in_slices(ask_in_pieces(asks, self._answered), even_if_lost=True)

    def _answered(self, errors: Mapping[tuple[bytes, int], ErrorCode]) -> None:
        by_topic: dict[bytes, ErrorCode] = {}
        for (topic_id, _), error in errors.items():
            by_topic[topic_id] = by_topic.get(topic_id) or error
        for topic_id, error in by_topic.items():
            if error:
                self._last.append(_Topic(self._names[topic_id], topic_id, error))
            else:
                self._deleted.append(topic_id)
        if not self._deleted:
            self._reply(None)
            return
        deleted = Deleted(self._group_id, self._deleted)
        self._server.groups.submit(self._group_id, complete_deletion, InternalRequest(deleted, self._reply))

    def _reply(self, _reply: Any) -> None:
        """The states are gone, whatever became of the group's note of it."""
        deleted = [_Topic(self._names[topic_id], topic_id) for topic_id in self._deleted]
        self._exchange.reply(DeleteShareGroupOffsetsResponse(responses=[*self._first, *deleted, *self._last]))


API = Api(
    key=92,
    name="DeleteShareGroupOffsets",
    versions=(0, 0),
    access=(DELETE_GROUP, READ_TOPIC),
    handle=handle,
    errors=GROUP_ERRORS | TOPIC_ERRORS | {ErrorCode.NON_EMPTY_GROUP},
    elements=("topics",),
    coordinator=Coordinator.GROUP,
    overlay=Overlay.HIDDEN,
)
