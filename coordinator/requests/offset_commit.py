"""OffsetCommit (key 8). A consumer, or an administrator for it, says how far it has read.

v5 leaves the retention to the broker; v6 adds leader epochs (KIP-320); v7 the instance id (KIP-345); v9 is for consumer
groups, too (KIP-848), and answers GROUP_ID_NOT_FOUND; v10 names topics by id.

Whether the topics exist is asked first (judged_commit.py).
"""

from typing import Any

from coordinator.api.access import READ_GROUP, READ_TOPIC
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.api.topic_existence import Judged, all_exist, judge
from coordinator.groups.offsets.commit import ANSWERS, commit
from coordinator.groups.offsets.commit_again import CommitForm, commit_again, inverted
from coordinator.groups.offsets.validate_partitions import fail
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.form import Filled
from coordinator.protocol.messages import Message, OffsetCommitRequest
from coordinator.runtime.result import RequestContext, Result

LEADER_EPOCHS_SINCE = 6
TOPIC_IDS_SINCE = 10


def handle(server: Server, exchange: Exchange[Any]) -> None:
    request = exchange.request
    if type(request) is Filled:
        form: CommitForm = request.content
        if form.catalog_version == server.topics.version or _prepare(form, server.topics, exchange):
            server.groups.submit(form.group_id, commit_again, exchange)
            return
        request = exchange.request = form.message(request.numbers)
    by_id = exchange.api_version >= TOPIC_IDS_SINCE
    if all_exist(request, server.topics, by_id=by_id):
        server.groups.submit(request.group_id, commit, exchange)
        return
    judged = judge(request, server.topics, ANSWERS, by_id=by_id)
    if not judged.left.topics:
        if judged.refused:
            server.groups.run_internal(
                request.group_id,
                lambda state, _: Result(facts=judged.told(state, exchange, ErrorCode.NONE)),
            )
        exchange.reply(judged.answer)
        return
    exchange.request = judged
    server.groups.submit(request.group_id, _commit_rest, exchange)


def _prepare(form: CommitForm, topics: Any, exchange: Any) -> bool:
    """Makes ready a form whose topics were not looked up yet, or may have changed; False if not all of them are there."""
    exist = all_exist(form.request, topics, by_id=exchange.api_version >= TOPIC_IDS_SINCE)
    if exist:
        form.prepare(topics, exchange.route.encode)
    return exist


def form(request: OffsetCommitRequest, api_version: int) -> tuple[Message, CommitForm] | None:
    """Of a commit of offsets and leader epochs only."""
    if api_version < LEADER_EPOCHS_SINCE or any(
        each.committed_metadata for topic in request.topics for each in topic.partitions
    ):
        return None
    return inverted(request), CommitForm(request)


def refuse(request: OffsetCommitRequest | Judged | Filled, error: KafkaError, api_version: int) -> Message:
    if isinstance(request, Filled):
        return fail(request.content.request, ANSWERS, error.code)
    if isinstance(request, Judged):
        return request.completed(fail(request.left, ANSWERS, error.code))
    return fail(request, ANSWERS, error.code)


def _commit_rest(state: Any, judged: Judged, context: RequestContext, now_ms: int) -> Result:
    try:
        result = commit(state, judged.left, context, now_ms)
    except KafkaError as error:
        judged.complete(error.facts)
        raise
    result.reply = judged.completed(result.reply)
    result.facts = judged.told(state, context, ErrorCode.NONE)
    return result


API = Api(
    key=8,
    name="OffsetCommit",
    versions=(2, 10),
    access=(READ_GROUP, READ_TOPIC),
    handle=handle,
    refuse=refuse,
    form=form,
)
