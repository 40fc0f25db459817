"""TxnOffsetCommit (key 28). The offsets that a transaction has consumed, as part of it (KIP-98).

v2 adds leader epochs (KIP-320). v3 names the member and its generation or epoch, so that a zombie is fenced (KIP-447);
before it, and where a client leaves them out, there is nothing to check. v4 understands TRANSACTION_ABORTABLE; v5 makes the
group part of the transaction by itself, where before AddOffsetsToTxn had to (both KIP-890); v6 names topics by id and
is told STALE_MEMBER_EPOCH and GROUP_ID_NOT_FOUND (KIP-1319).

Three are asked in turn, as in Kafka: the topics, whether they exist (refused partitions lead the answer); the transaction,
whether the group's partition of `__consumer_offsets` is part of it; the group (groups/offsets/commit_in_transaction.py).
"""

from typing import Any

from coordinator.api.access import READ_GROUP, READ_TOPIC, WRITE_TRANSACTIONAL_ID
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.api.topic_existence import Judged, all_exist, judge
from coordinator.groups.offsets.commit_in_transaction import ANSWERS, VerifiedCommit, commit_in_transaction
from coordinator.groups.offsets.validate_partitions import fail
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message, TxnOffsetCommitRequest
from coordinator.runtime.result import Producer, RequestContext, Result

OFFSETS_TOPIC = "__consumer_offsets"
LOADING_SINCE = 2
"""Clients before Kafka 2.3 die of COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
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
"""What a client of the group's coordinator is told of the transaction's."""


def handle(server: Server, exchange: Exchange[Any]) -> None:
    request: TxnOffsetCommitRequest = exchange.request
    api_version = exchange.api_version
    by_id = api_version >= TOPIC_IDS_SINCE
    # Also where all exist: what the group is asked is not the request alone.
    all_exist(request, server.topics, by_id=by_id)
    judged = exchange.request = judge(request, server.topics, ANSWERS, by_id=by_id)

    def told(error: ErrorCode) -> None:
        """Says what was decided without the group."""
        server.groups.run_internal(request.group_id, lambda state, _: Result(facts=judged.told(state, exchange, error)))

    if not judged.left.topics:
        if judged.refused:
            told(ErrorCode.NONE)
        exchange.reply(judged.answer)
        return
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    adds = api_version >= ADDS_ITSELF_SINCE
    shard = server.groups.shard_of(request.group_id)
    guard = None if adds else shard.state.offsets.pending.guard(request.producer_id)

    def verified(refused: dict[tuple[str, int], ErrorCode]) -> None:
        if refused:
            error = next(iter(refused.values()))
            error = _FOR_CLIENTS.get(error, error)
            told(error)
            exchange.refuse(error)
            return
        shard.submit(_commit(VerifiedCommit(judged.left, guard)), exchange)

    server.verification.check(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        {OFFSETS_TOPIC: [shard.index]},
        adds,
        verified,
        abortable=api_version >= ABORTABLE_SINCE,
    )


def _commit(verified: VerifiedCommit) -> Any:
    def commit(state: Any, judged: Judged, context: RequestContext, now_ms: int) -> Result:
        try:
            result = commit_in_transaction(state, verified, context, now_ms)
        except KafkaError as error:
            judged.complete(error.facts)
            raise
        if judged.refused:
            result.reply = judged.completed(result.reply)
            result.facts = judged.told(state, context, ErrorCode.NONE)
        return result

    return commit


def refuse(request: TxnOffsetCommitRequest | Judged, error: KafkaError, api_version: int) -> Message:
    code = error.code
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < LOADING_SINCE:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if isinstance(request, Judged):
        return request.completed(fail(request.left, ANSWERS, code))
    return fail(request, ANSWERS, code)


API = Api(
    key=28,
    name="TxnOffsetCommit",
    versions=(0, 6),
    access=(WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC),
    handle=handle,
    refuse=refuse,
)
