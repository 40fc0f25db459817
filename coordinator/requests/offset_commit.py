"""OffsetCommit (key 8): a consumer, or an administrator on its behalf, stores how far it has read.

v5 leaves the retention to the broker. v6 adds leader epochs (KIP-320), v7 the instance id (KIP-345). v9 serves consumer groups
as well (KIP-848) and answers GROUP_ID_NOT_FOUND. v10 names topics by id.

Partitions that do not exist, or whose topic the client may not read, are refused here; the group decides about the rest
(groups/offsets/commit.py).
"""

from collections.abc import Collection

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.permits import Permits
from coordinator.api.server import Server
from coordinator.api.topic_existence import NONE_DENIED, denied_topics, fill_in_topics, split_commit
from coordinator.groups.commit_events import commit_facts
from coordinator.groups.offsets.commit import ANSWERS, commit, commit_rest
from coordinator.groups.offsets.partial_commit import PartialCommit
from coordinator.groups.offsets.validate_partitions import fail
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message, OffsetCommitRequest
from coordinator.runtime.result import Result
from coordinator.security.access import READ_GROUP, READ_TOPIC

TOPIC_IDS_SINCE = 10


def handle(server: Server, exchange: Exchange[OffsetCommitRequest]) -> None:
    request = exchange.request
    by_id = exchange.api_version >= TOPIC_IDS_SINCE
    if fill_in_topics(request, server.topics, by_id=by_id):
        server.groups.submit(request.group_id, commit, exchange)
    else:
        _commit_partly(server, exchange, NONE_DENIED)


def guard(server: Server, exchange: Exchange[OffsetCommitRequest], permits: Permits) -> None:
    request = exchange.request
    permits.require(READ_GROUP, request.group_id)
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
    """Refuses some partitions, and has the group decide about the others, if there are any."""
    request = exchange.request
    by_id = exchange.api_version >= TOPIC_IDS_SINCE
    partial = split_commit(request, server.topics, ANSWERS, by_id=by_id, denied=denied)
    if partial.rest.topics:
        server.groups.submit(request.group_id, commit_rest, exchange.with_request(partial))
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
