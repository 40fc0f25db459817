"""TxnOffsetCommit (key 28): the offsets that a transaction has consumed, as part of the transaction (KIP-98).

v2 adds leader epochs (KIP-320). v3 names the member and its generation or epoch, so that a zombie is fenced (KIP-447); where a
client cannot or does not name them, there is nothing to check. v4 understands TRANSACTION_ABORTABLE. v5 adds the group to the
transaction by itself, which before took AddOffsetsToTxn (both KIP-890). v6 names topics by id and answers STALE_MEMBER_EPOCH
and GROUP_ID_NOT_FOUND (KIP-1319).

Three things are checked in turn, as in Kafka: whether the topics exist and the client may read them (refused partitions come
first in the response); whether the group's partition of `__consumer_offsets` is part of the transaction; whether the group lets
the consumer and the producer pass (groups/offsets/commit_in_transaction.py).
"""

from collections.abc import Collection

from coordinator.api import HERE, Api, Coordinator, Exchange, Permits, Pieces, Server
from coordinator.api.error_families import COMMIT_ERRORS, TRANSACTION_ERRORS
from coordinator.api.guards import check_group_is_named
from coordinator.groups.commit_events import commit_facts
from coordinator.groups.offsets.commit_in_transaction import ANSWERS, VerifiedCommit, commit_in_transaction
from coordinator.groups.offsets.partial_commit import PartialCommit
from coordinator.groups.offsets.topic_existence import NONE_DENIED, fill_in_topics, split_commit
from coordinator.groups.offsets.validate_partitions import Validated, fail
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message, TxnOffsetCommitRequest
from coordinator.requests.offset_commit import RECORDED, denied_topics, is_large, prepare
from coordinator.runtime.result import Producer, Result
from coordinator.security.access import READ_GROUP, READ_TOPIC, WRITE_TRANSACTIONAL_ID

OFFSETS_TOPIC = "__consumer_offsets"
LOADING_SINCE = 2
"""COORDINATOR_LOAD_IN_PROGRESS is fatal to clients before Kafka 2.3 (KAFKA-7296)."""
ABORTABLE_SINCE = 4
ADDS_ITSELF_SINCE = 5
TOPIC_IDS_SINCE = 6

_FOR_CLIENTS = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""An error of the transaction's coordinator -> the error that a client of the group's coordinator gets."""


def handle(server: Server, exchange: Exchange[TxnOffsetCommitRequest]) -> None:
    request = exchange.request
    if is_large(request):
        exchange.run_in_slices(_commit_in_slices(server, exchange), even_if_lost=True)
        return
    fill_in_topics(request, server.topics, by_id=exchange.api_version >= TOPIC_IDS_SINCE)
    _commit_partly(server, exchange, NONE_DENIED)


def guard(server: Server, exchange: Exchange[TxnOffsetCommitRequest], permits: Permits) -> None:
    request = exchange.request
    permits.require(WRITE_TRANSACTIONAL_ID, request.transactional_id)
    permits.require(READ_GROUP, request.group_id)
    if is_large(request):
        exchange.run_in_slices(_commit_in_slices(server, exchange), even_if_lost=True)
        return
    fill_in_topics(request, server.topics, by_id=exchange.api_version >= TOPIC_IDS_SINCE)
    _commit_partly(server, exchange, denied_topics(request, permits))


def _commit_partly(server: Server, exchange: Exchange[TxnOffsetCommitRequest], denied: Collection[str]) -> None:
    by_id = exchange.api_version >= TOPIC_IDS_SINCE
    _commit(server, exchange, split_commit(exchange.request, server.topics, ANSWERS, by_id=by_id, denied=denied))


def _commit_in_slices(server: Server, exchange: Exchange[TxnOffsetCommitRequest]) -> Pieces:
    partial, validated = yield from prepare(
        server,
        exchange,
        ANSWERS,
        by_id=exchange.api_version >= TOPIC_IDS_SINCE,
        now_ms=server.topics.clock.wall_ms(),
        expire_timestamp_ms=None,
    )
    _commit(server, exchange, partial, validated)


def _commit(
    server: Server,
    exchange: Exchange[TxnOffsetCommitRequest],
    partial: PartialCommit,
    validated: Validated | None = None,
) -> None:
    """Has the group decide about what is left, if there is anything and the transaction includes the group."""
    request: TxnOffsetCommitRequest = partial.rest
    api_version = exchange.api_version
    exchange.with_request(partial)  # an error answers the partitions that are refused here as well

    def emit_decision(error: ErrorCode) -> None:
        """Puts a decision that the group did not make into its event log."""
        server.groups.run_internal(
            request.group_id,
            lambda state, _: Result(facts=commit_facts(state, request, exchange, error, refused=partial.refused)),
        )

    if not partial.rest.topics:
        if partial.refused:
            emit_decision(ErrorCode.NONE)
        exchange.reply(partial.answer())
        return
    check_group_is_named(request.group_id)
    adds = api_version >= ADDS_ITSELF_SINCE
    shard = server.groups.shard_of(request.group_id)
    needs_guard = server.verification.needs_guard and not adds
    open_guard = shard.state.offsets.pending.guard(request.producer_id) if needs_guard else None

    def verified(refused: dict[tuple[str, int], ErrorCode]) -> None:
        if refused:
            error = next(iter(refused.values()))
            error = _FOR_CLIENTS.get(error, error)
            emit_decision(error)
            exchange.refuse(error)
            return
        shard.submit(commit_in_transaction, exchange.with_request(VerifiedCommit(partial, open_guard, validated)))

    if not exchange.behaviours.txn_commits_are_verified:
        verified({})
        return
    server.verification.check(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        {OFFSETS_TOPIC: [shard.index]},
        adds,
        verified,
        abortable=api_version >= ABORTABLE_SINCE,
    )


def refuse(
    request: TxnOffsetCommitRequest | PartialCommit | VerifiedCommit, error: KafkaError, api_version: int
) -> Message:
    code = error.code
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < LOADING_SINCE:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if isinstance(request, VerifiedCommit):
        request = request.partial
    if isinstance(request, PartialCommit):
        return request.answer(fail(request.rest, ANSWERS, code))
    return fail(request, ANSWERS, code)


API = Api(
    key=28,
    name="TxnOffsetCommit",
    versions=(0, 6),
    access=(WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC),
    handle=handle,
    refuse=refuse,
    guard=guard,
    errors=COMMIT_ERRORS | TRANSACTION_ERRORS | {ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT},
    elements=("topics.partitions",),
    coordinator=Coordinator.GROUP,
    overlay=HERE,
    recorded=RECORDED,
)
