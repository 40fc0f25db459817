"""OffsetCommit (key 8): a consumer, or an administrator on its behalf, stores how far it has read.

v5 leaves the retention to the broker. v6 adds leader epochs (KIP-320), v7 the instance id (KIP-345). v9 serves consumer groups
as well (KIP-848) and answers GROUP_ID_NOT_FOUND. v10 names topics by id.

Partitions that do not exist, or whose topic the client may not read, are refused here; the group decides about the rest
(groups/offsets/commit.py).
"""

from collections.abc import Collection

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.large_commit import is_large, prepare
from coordinator.api.permits import Permits
from coordinator.api.server import Server
from coordinator.api.sliced_work import Pieces
from coordinator.api.topic_existence import NONE_DENIED, denied_topics, fill_in_topics, split_commit
from coordinator.groups.commit_events import commit_facts
from coordinator.groups.offsets.commit import ANSWERS, commit, commit_rest, expire_timestamp_ms
from coordinator.groups.offsets.partial_commit import PartialCommit
from coordinator.groups.offsets.validate_partitions import Validated, fail
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message, OffsetCommitRequest
from coordinator.runtime.result import RequestContext, Result
from coordinator.security.access import READ_GROUP, READ_TOPIC

TOPIC_IDS_SINCE = 10


def handle(server: Server, exchange: Exchange[OffsetCommitRequest]) -> None:
    request = exchange.request
    by_id = exchange.api_version >= TOPIC_IDS_SINCE
    if is_large(request):
        exchange.run_in_slices(_commit_in_slices(server, exchange), even_if_lost=True)
    elif fill_in_topics(request, server.topics, by_id=by_id):
        server.groups.submit(request.group_id, commit, exchange)
    else:
        _commit_partly(server, exchange, NONE_DENIED)


def guard(server: Server, exchange: Exchange[OffsetCommitRequest], permits: Permits) -> None:
    request = exchange.request
    permits.require(READ_GROUP, request.group_id)
    if is_large(request):
        exchange.run_in_slices(_commit_in_slices(server, exchange), even_if_lost=True)
        return
    all_exist = fill_in_topics(request, server.topics, by_id=exchange.api_version >= TOPIC_IDS_SINCE)
    denied = denied_topics(request, permits)
    if all_exist and not denied:
        server.groups.submit(request.group_id, commit, exchange)
    else:
        _commit_partly(server, exchange, denied)


def permits_all(request: OffsetCommitRequest, permits: Permits) -> bool:
    """Whether `guard` would let all of a request pass. Nothing is audited: else it is asked about it."""
    return permits.allows(READ_GROUP, request.group_id, quiet=True) and all(
        permits.allows(READ_TOPIC, topic.name, quiet=True) for topic in request.topics
    )


def _commit_partly(server: Server, exchange: Exchange[OffsetCommitRequest], denied: Collection[str]) -> None:
    """Refuses some partitions, and has the group decide about the others."""
    by_id = exchange.api_version >= TOPIC_IDS_SINCE
    _submit(server, exchange, split_commit(exchange.request, server.topics, ANSWERS, by_id=by_id, denied=denied))


def _commit_in_slices(server: Server, exchange: Exchange[OffsetCommitRequest]) -> Pieces:
    request, now_ms = exchange.request, server.topics.clock.wall_ms()
    partial, validated = yield from prepare(
        server,
        exchange,
        ANSWERS,
        by_id=exchange.api_version >= TOPIC_IDS_SINCE,
        now_ms=now_ms,
        expire_timestamp_ms=expire_timestamp_ms(request, now_ms),
    )
    _submit(server, exchange, partial, validated)


def _submit(
    server: Server,
    exchange: Exchange[OffsetCommitRequest],
    partial: PartialCommit,
    validated: Validated | None = None,
) -> None:
    """Has the group decide about what is left, if there is anything."""
    request: OffsetCommitRequest = partial.rest

    def commit_what_is_left(groups: Groups, partial: PartialCommit, context: RequestContext, now_ms: int) -> Result:
        return commit_rest(groups, partial, context, now_ms, validated)

    if request.topics:
        server.groups.submit(request.group_id, commit_what_is_left, exchange.with_request(partial))
        return
    if partial.refused:
        server.groups.run_internal(
            request.group_id,
            lambda state, _: Result(
                facts=commit_facts(state, request, exchange, ErrorCode.NONE, refused=partial.refused)
            ),
        )
    exchange.reply(partial.answer())


def refuse(request: OffsetCommitRequest | PartialCommit, error: KafkaError, api_version: int) -> Message:
    if isinstance(request, PartialCommit):
        return request.answer(fail(request.rest, ANSWERS, error.code))
    return fail(request, ANSWERS, error.code)


API = Api(
    key=8,
    name="OffsetCommit",
    versions=(2, 10),
    access=(READ_GROUP, READ_TOPIC),
    handle=handle,
    refuse=refuse,
    guard=guard,
)
