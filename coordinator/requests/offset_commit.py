"""OffsetCommit (key 8): a consumer, or an administrator on its behalf, stores how far it has read.

v5 leaves the retention to the broker. v6 adds leader epochs (KIP-320), v7 the instance id (KIP-345). v9 serves consumer groups
as well (KIP-848) and answers GROUP_ID_NOT_FOUND. v10 names topics by id.

Partitions that do not exist are refused here; the group decides about the rest (groups/offsets/commit.py).
"""

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.api.topic_existence import fill_in_topics, split_by_existence
from coordinator.groups.commit_events import commit_facts
from coordinator.groups.offsets.commit import ANSWERS, commit, commit_existing
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
        return
    partial = split_by_existence(request, server.topics, ANSWERS, by_id=by_id)
    if partial.existing.topics:
        server.groups.submit(request.group_id, commit_existing, exchange.with_request(partial))
        return
    if partial.missing:
        server.groups.run_internal(
            request.group_id,
            lambda state, _: Result(
                facts=commit_facts(state, request, exchange, ErrorCode.NONE, missing=partial.missing)
            ),
        )
    exchange.reply(partial.answer())


def refuse(request: OffsetCommitRequest | PartialCommit, error: KafkaError, api_version: int) -> Message:
    if isinstance(request, PartialCommit):
        return request.answer(fail(request.existing, ANSWERS, error.code))
    return fail(request, ANSWERS, error.code)


API = Api(
    key=8,
    name="OffsetCommit",
    versions=(2, 10),
    access=(READ_GROUP, READ_TOPIC),
    handle=handle,
    refuse=refuse,
)
