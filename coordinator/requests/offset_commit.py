"""OffsetCommit (key 8): a consumer, or an administrator on its behalf, stores how far it has read.

v5 leaves the retention to the broker. v6 adds leader epochs (KIP-320), v7 the instance id (KIP-345). v9 serves consumer groups
as well (KIP-848) and answers GROUP_ID_NOT_FOUND. v10 names topics by id.

Partitions that do not exist, or whose topic the client may not read, are refused here; the group decides about the rest
(groups/offsets/commit.py).
"""

from collections.abc import Collection, Generator
from operator import itemgetter
from typing import Any

from coordinator.api import HERE, Api, Coordinator, Exchange, Permits, Pieces, Server
from coordinator.api.declaration import Fields, Recorded, Seen
from coordinator.api.error_families import COMMIT_ERRORS
from coordinator.api.guards import allowed_in_pieces
from coordinator.api.payloads import error_name
from coordinator.groups.commit_events import commit_facts
from coordinator.groups.offsets.commit import ANSWERS, commit, commit_rest, expire_timestamp_ms
from coordinator.groups.offsets.partial_commit import PartialCommit
from coordinator.groups.offsets.topic_existence import NONE_DENIED, Commit, fill_in_topics, split_commit
from coordinator.groups.offsets.validate_partitions import Answers, Validated, fail, validate_in_pieces
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message, OffsetCommitRequest
from coordinator.runtime.result import RequestContext, Result
from coordinator.security.access import READ_GROUP, READ_TOPIC

TOPIC_IDS_SINCE = 10
LARGE_ELEMENTS = 1_000
"""Topics and partitions of a commit that takes about a millisecond. A larger one is prepared in slices."""


def denied_topics(request: Commit, permits: Permits) -> Collection[str]:
    """The names of the topics of a request that the client may not read. Topics were filled in."""
    names = dict.fromkeys([topic.name for topic in request.topics])
    return [name for name in names if not permits.allows(READ_TOPIC, name)]


def is_large(request: Commit) -> bool:
    """Whether the commit is to be prepared in slices."""
    elements = len(request.topics)
    for topic in request.topics:
        elements += len(topic.partitions)
    return elements > LARGE_ELEMENTS


def prepare(
    server: Server,
    exchange: Exchange[Any],
    answers: Answers,
    *,
    by_id: bool,
    now_ms: int,
    expire_timestamp_ms: int | None,
) -> Generator[None, None, tuple[PartialCommit, Validated]]:
    """Refuses and validates partitions of a large commit, some in each step. What is left is for the group.

    The group decides about the whole commit, and its records are one batch: that takes place at once. So the offsets have the
    time at which this began. A topic that is deleted meanwhile is committed as if the group had been asked first, as in Kafka.
    """
    request = exchange.request
    yield  # decoding has taken some milliseconds
    fill_in_topics(request, server.topics, by_id=by_id)
    yield
    names = list(dict.fromkeys(topic.name for topic in request.topics))
    allowed = yield from allowed_in_pieces(exchange.permits, READ_TOPIC, names)
    denied = set(names) - allowed
    partial = split_commit(request, server.topics, answers, by_id=by_id, denied=denied)
    exchange.with_request(partial)  # an error answers the partitions that are refused here as well
    yield
    metadata_max = server.groups.shard_of(request.group_id).state.config.offset_metadata_max_bytes
    validated = yield from validate_in_pieces(partial.rest, answers, metadata_max, now_ms, expire_timestamp_ms)
    return partial, validated


def handle(server: Server, exchange: Exchange[OffsetCommitRequest]) -> None:
    request, by_id = exchange.request, exchange.api_version >= TOPIC_IDS_SINCE
    if fill_in_topics(request, server.topics, by_id=by_id, elements_max=LARGE_ELEMENTS):
        server.groups.submit(request.group_id, commit, exchange)
    elif is_large(request):
        exchange.run_in_slices(_commit_in_slices(server, exchange), even_if_lost=True)
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
    if not partial.rest.topics:
        _submit(server, exchange, partial)
        return

    def commit_validated(groups: Groups, partial: PartialCommit, context: RequestContext, now_ms: int) -> Result:
        return commit_rest(groups, partial, context, now_ms, validated)

    # Unlike the decision the answer need not be encoded at once.
    yield from server.groups.gather_of_group(
        request.group_id,
        [partial],
        commit_validated,
        exchange,
        itemgetter(0),
        refused=lambda _, error: KafkaError(error),
    )


def _submit(server: Server, exchange: Exchange[OffsetCommitRequest], partial: PartialCommit) -> None:
    """Has the group decide about what is left, if there is anything."""
    request: OffsetCommitRequest = partial.rest
    if request.topics:
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


def _recorded_request(seen: Seen, request: Any) -> Fields:
    return {
        **_committer(request),
        "partitions": [
            {
                "topic": seen.topic(topic),
                "partition": each.partition_index,
                "offset": each.committed_offset,
                "leader_epoch": each.committed_leader_epoch,
                "metadata": each.committed_metadata,
            }
            for topic in request.topics
            for each in topic.partitions
        ],
    }


def _recorded_response(seen: Seen, response: Any) -> Fields:
    return {
        "throttle_time_ms": response.throttle_time_ms,
        "partitions": [
            {"topic": seen.topic(topic), "partition": each.partition_index, "error": error_name(each.error_code)}
            for topic in response.topics
            for each in topic.partitions
        ],
    }


def _committer(request: Any) -> Fields:
    """Who commits: the fields that the request has."""
    named = {
        "transactional_id": "transactional_id",
        "group_id": "group_id",
        "producer_id": "producer_id",
        "producer_epoch": "producer_epoch",
        "member_id": "member_id",
        "group_instance_id": "group_instance_id",
        "generation_id_or_member_epoch": "epoch",
    }
    return {to: getattr(request, name) for name, to in named.items() if name in type(request).__slots__}


RECORDED = Recorded(_recorded_request, _recorded_response)
"""Of TxnOffsetCommit, too."""


API = Api(
    key=8,
    name="OffsetCommit",
    versions=(2, 10),
    access=(READ_GROUP, READ_TOPIC),
    handle=handle,
    refuse=refuse,
    guard=guard,
    errors=COMMIT_ERRORS,
    elements=("topics.partitions",),
    coordinator=Coordinator.GROUP,
    overlay=HERE,
    recorded=RECORDED,
)
