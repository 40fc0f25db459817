"""ShareFetch (key 78): a member acquires records, and says what became of earlier ones (KIP-932; topics/share/).

v2 knows `ShareAcquireMode`, and renews locks (KIP-1206, KIP-1222): such a request fetches nothing.

A request fetches when its acknowledgements are durable: it may get what they give back, and nothing is acquired that would have
to wait for them. The response has both. A request that ends its session fetches nothing, and the member gives back the rest. A
client that has no session because there are too many is refused when the time has passed that it was ready to wait, so that it
does not ask in a loop.
"""

from collections.abc import Iterator, Mapping
from copy import copy
from functools import cache
from typing import Any, TypeVar

from coordinator.api import Api, Exchange, Overlay, Permits, QuotaType, Server
from coordinator.api.declaration import ErrorPlaces, IsHit, Patched, Seen
from coordinator.api.error_families import COORDINATOR_ERRORS, LEADER_ERRORS
from coordinator.api.leader_hints import add_leader_hints
from coordinator.api.share_acknowledgements import (
    Acknowledge,
    IsDenied,
    Results,
    check_member,
    is_enabled,
    session_key,
)
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ShareFetchRequest, ShareFetchResponse
from coordinator.security.access import READ_GROUP, READ_TOPIC
from coordinator.topics.share.fetch import Data, FetchWanted, ShareFetch, refusal, rotated
from coordinator.topics.share.machine import Wanted
from coordinator.topics.share.sessions import FINAL, INITIAL, PartitionKey, ShareSession, next_epoch

T = TypeVar("T")

_RENEWS_SINCE = 2
_RECORD_LIMIT = 1
"""The acquire mode in which a request never gets more records than it asks for."""
_ZERO_TO_RENEW = (
    ("max_bytes", "maxBytes"), ("min_bytes", "minBytes"), ("max_records", "maxRecords"), ("max_wait_ms", "maxWaitMs"),
)  # fmt: skip


def handle(server: Server, exchange: Exchange[ShareFetchRequest]) -> None:
    _Handling(server, exchange, lambda _name: False).begin()


def guard(server: Server, exchange: Exchange[ShareFetchRequest], permits: Permits) -> None:
    """The member needs a right to the group; what it may not read is refused by partition."""
    request = exchange.request
    if is_enabled(server) and request.group_id is not None:
        permits.require(READ_GROUP, request.group_id)
    _Handling(server, exchange, cache(lambda name: name is None or not permits.allows(READ_TOPIC, name))).begin()


class _Handling:
    """One request until it is answered."""

    def __init__(self, server: Server, exchange: Exchange[ShareFetchRequest], is_denied: IsDenied) -> None:
        self._server = server
        self._exchange = exchange
        self._request = exchange.request
        self._is_denied = is_denied
        self._manager = server.share_partitions
        self._acknowledged: Results = {}
        self._session: ShareSession

    @property
    def _renews(self) -> bool:
        return self._exchange.api_version >= _RENEWS_SINCE and self._request.is_renew_ack

    def begin(self) -> None:
        """Raises the errors of the whole request."""
        check_member(self._server, self._request)
        self._check_renewal()
        request = self._request
        named = [
            PartitionKey(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions
        ]
        has_acknowledgements = any(
            each.acknowledgement_batches for topic in request.topics for each in topic.partitions
        )
        try:
            self._session = self._manager.fetch_session(
                session_key(request),
                request.share_session_epoch,
                named,
                [
                    PartitionKey(topic.topic_id, index)
                    for topic in request.forgotten_topics_data
                    for index in topic.partitions
                ],
                self._exchange.queue,
                has_acknowledgements=has_acknowledgements,
            )
        except KafkaError as error:
            if error.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED or request.max_wait_ms <= 0:
                raise
            self._refuse_later(error)
            return
        if has_acknowledgements:
            acknowledge = Acknowledge(self._server, self._exchange, request.topics, self._is_denied)
            acknowledge.begin(self._on_acknowledged)
        else:
            self._on_acknowledged({})

    def _check_renewal(self) -> None:
        if not self._renews:
            return
        wrong = [name for field, name in _ZERO_TO_RENEW if getattr(self._request, field)]
        if wrong:
            text = "".join(f"{name} must be set to 0, " for name in wrong)
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{text}if isRenewAck is true.")

    def _refuse_later(self, error: KafkaError) -> None:
        timer = self._server.topics.schedule(self._request.max_wait_ms, lambda: self._exchange.fail(error))
        self._exchange.on_close = timer.cancel

    # --- fetching -----------------------------------------------------------------------------------------------------

    def _on_acknowledged(self, results: Results) -> None:
        self._acknowledged = results
        if self._exchange.is_over:
            return  # nobody would get the records
        if self._renews or self._request.share_session_epoch == FINAL:
            self._reply({})
        else:
            self._fetch(self._session)

    def _fetch(self, session: ShareSession) -> None:
        request, topics = self._request, self._server.topics
        refused: dict[PartitionKey, Data] = {}
        readable: list[PartitionKey] = []
        for key in session.partitions:
            name = topics.topic_name(key.topic_id)
            if key in session.unknown:
                refused[key] = refusal(key.partition, ErrorCode.UNKNOWN_TOPIC_ID)
            elif name is None:
                refused[key] = refusal(key.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif self._is_denied(name):
                refused[key] = refusal(key.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            else:
                readable.append(key)
        if not readable:
            self._reply(refused)
            return
        bytes_max = max(0, min(request.max_bytes, topics.config.fetch_max_bytes))
        fetch = ShareFetch(
            self._manager,
            FetchWanted(
                request.group_id or "",
                Wanted(
                    request.member_id or "",
                    request.max_records,
                    request.batch_size,
                    request.share_acquire_mode == _RECORD_LIMIT,
                ),
                request.max_wait_ms,
                min(request.min_bytes, bytes_max),
                bytes_max,
            ),
            rotated(readable, request.share_session_epoch),
            lambda found: self._reply({**found, **refused}),
            self._exchange.run_in_slices,
            self._admits,
        )
        if not fetch.is_done:
            self._exchange.on_close = fetch.cancel

    def _admits(self, found: Mapping[PartitionKey, Data]) -> bool:
        admits = self._exchange.admits
        return admits is None or admits(_response(found))

    # --- the response -------------------------------------------------------------------------------------------------

    def _reply(self, found: Mapping[PartitionKey, Data]) -> None:
        request, session = self._request, self._session
        error = ErrorCode.NONE
        if request.share_session_epoch not in {INITIAL, FINAL}:
            if session.epoch != next_epoch(request.share_session_epoch):
                # A later request of the session arrived while this one waited.
                error, found = ErrorCode.INVALID_SHARE_SESSION_EPOCH, {}
            found = {
                key: data
                for key, data in found.items()
                if session.is_news(key, data.error_code, has_records=bool(data.records))
            }
        response = _response(found)
        response.error_code = error
        response.acquisition_lock_timeout_ms = self._manager.settings_of(session.key.group_id).limits.lock_ms
        _add_acknowledged(response, self._acknowledged)
        if request.share_session_epoch == FINAL:
            self._manager.end_session(session.key)
        add_leader_hints(
            self._server,
            self._exchange,
            response,
            lambda topic: topic.partitions,
            "partition_index",
            of_one_broker=True,
        )
        self._exchange.reply_in_parts(response)


def _response(found: Mapping[PartitionKey, Data]) -> ShareFetchResponse:
    topics: dict[bytes, list[Data]] = {}
    for key, data in found.items():
        topics.setdefault(key.topic_id, []).append(data)
    return ShareFetchResponse(
        responses=[ShareFetchResponse.ShareFetchableTopicResponse(*each) for each in topics.items()]
    )


def _add_acknowledged(response: ShareFetchResponse, results: Results) -> None:
    """Adds what became of the acknowledgements: to the partitions that are there, and behind them."""
    for data, error in _partitions_in(response, results):
        if error is not None:
            data.acknowledge_error_code = error.code
            data.acknowledge_error_message = error.message or None


def _partitions_in(response: ShareFetchResponse, wanted: Mapping[PartitionKey, T]) -> Iterator[tuple[Data, T]]:
    """These partitions of the response, to which those are added that it lacks, with what is given for each."""
    topics = {topic.topic_id: topic for topic in response.responses}
    for key, given in wanted.items():
        topic = topics.get(key.topic_id)
        if topic is None:
            topic = topics[key.topic_id] = ShareFetchResponse.ShareFetchableTopicResponse(key.topic_id)
            response.responses.append(topic)
        data = next((each for each in topic.partitions if each.partition_index == key.partition), None)
        if data is None:
            data = Data(partition_index=key.partition, records=b"")
            topic.partitions.append(data)
        yield data, given


def refuse(request: ShareFetchRequest, error: KafkaError, api_version: int) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=error.code)


def _explicit(request: ShareFetchRequest, version: int, server: Server) -> ShareFetchRequest:
    """The request with the partitions of its session that it does not name again."""
    found: dict[PartitionKey, ShareFetchRequest.FetchPartition] = {}
    if request.share_session_epoch not in {INITIAL, FINAL}:
        partition = ShareFetchRequest.FetchPartition
        found |= {
            key: partition(key.partition)
            for key in server.share_partitions.sessions.partitions_of(session_key(request))
        }
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                found.pop(PartitionKey(forgotten.topic_id, index), None)
    for topic in request.topics:
        found |= {PartitionKey(topic.topic_id, each.partition_index): each for each in topic.partitions}
    topics: dict[bytes, list[ShareFetchRequest.FetchPartition]] = {}
    for key, each in found.items():
        topics.setdefault(key.topic_id, []).append(each)
    explicit = copy(request)
    explicit.topics = [ShareFetchRequest.FetchTopic(*each) for each in topics.items()]
    return explicit


def _patch(seen: Seen, is_hit: IsHit, code: ErrorCode) -> Patched | None:
    """Puts the error of a rule into the partitions. No partition gives out records, and acknowledgements are handled."""
    hit = [
        PartitionKey(topic.topic_id, each.partition_index)
        for topic in seen.explicit.topics
        for each in topic.partitions
        if is_hit(seen.request.group_id, seen.topic(topic), each.partition_index)
    ]
    if not hit:
        return None
    request = copy(seen.request)
    # What would be acquired now could not be given to the member.
    request.max_records = request.max_wait_ms = 0

    def patch(response: Any) -> None:
        if response.error_code:
            return  # refused as a whole: no acknowledgement was handled, and a partition would say that they all were
        for data, _ in _partitions_in(response, dict.fromkeys(hit)):
            data.error_code = code

    return Patched(request, patch)


_SESSION_ERRORS = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)

API = Api(
    key=78,
    name="ShareFetch",
    versions=(1, 2),
    access=(READ_GROUP, READ_TOPIC),
    handle=handle,
    refuse=refuse,
    guard=guard,
    errors=LEADER_ERRORS
    | COORDINATOR_ERRORS
    | {
        *_SESSION_ERRORS,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_RECORD_STATE,
        ErrorCode.CORRUPT_MESSAGE,
    },
    elements=("topics.partitions",),
    quotas=frozenset({QuotaType.REQUEST, QuotaType.FETCH}),
    overlay=Overlay.HIDDEN,
    places=ErrorPlaces(of_whole=_SESSION_ERRORS | {ErrorCode.GROUP_AUTHORIZATION_FAILED}, patch=_patch),
    explicit=_explicit,
)
