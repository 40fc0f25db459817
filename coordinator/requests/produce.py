"""Produce (key 0): appends records to partitions (topics/produce.py says what is validated and when the response leaves).

With acks=0 there is no response, so the only way to report an error is to close the connection. Kafka does the same, and the
producer then refreshes its metadata. v0-2 are advertised (api_versions.py says why) but not supported: a request of these
versions closes the connection, as in Kafka 4. v13 names topics by id (KIP-516).
"""

from typing import Any

from coordinator.api import Api, Exchange, Forwarded, Permits, Pieces, QuotaType, Server
from coordinator.api.declaration import Fields, Recorded, Seen
from coordinator.api.error_families import APPEND_ERRORS
from coordinator.api.leader_hints import add_leader_hints
from coordinator.api.payloads import batches_in, error_name
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ProduceRequest, ProduceResponse
from coordinator.runtime.memory import COUNTED_BYTES
from coordinator.security.access import CLUSTER_ACTION, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from coordinator.topics.allowed import IsAllowed, everything
from coordinator.topics.names import COORDINATOR_EVENTS
from coordinator.topics.produce import has_transactional_batches, produce, refusal

_HINTS_SINCE = 10


def handle(server: Server, exchange: Exchange[ProduceRequest]) -> None:
    _produce(server, exchange, None)


def guard(server: Server, exchange: Exchange[ProduceRequest], permits: Permits) -> None:
    """The transactional id first, for the whole request, then each topic."""
    _produce(server, exchange, permits)


def _produce(server: Server, exchange: Exchange[ProduceRequest], permits: Permits | None) -> None:
    request = exchange.request
    size = sum(len(data.records or b"") for topic in request.topic_data for data in topic.partition_data)
    counted_bytes = size if size > COUNTED_BYTES else 0
    replied = False

    def reply(response: ProduceResponse, failed: bool) -> None:
        nonlocal replied
        replied = True
        if counted_bytes:
            server.memory.give_back(counted_bytes)
        if failed and exchange.api_version >= _HINTS_SINCE:
            add_leader_hints(server, exchange, response, lambda topic: topic.partition_responses, "index")
        if request.acks != 0:
            exchange.reply(response)
        elif failed:
            exchange.close("a batch sent with acks=0 was refused")
        else:
            exchange.no_reply()

    def run(pieces: Pieces) -> None:
        exchange.run_in_slices(pieces, even_if_lost=True)

    def wait() -> None:
        if not replied:
            exchange.wait()

    if counted_bytes:
        server.memory.take(counted_bytes)
    try:
        is_allowed = everything if permits is None else _writable(request, permits)
        produce(server.topics, request, exchange.api_version, server.verification.check, reply, run, wait, is_allowed)
    except KafkaError:
        if counted_bytes:
            server.memory.give_back(counted_bytes)
        if request.acks:
            raise
        exchange.close("a request sent with acks=0 was refused")


def _writable(request: ProduceRequest, permits: Permits) -> IsAllowed:
    """Which topics the client may write to. Raises TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""
    if request.transactional_id is not None and has_transactional_batches(request):
        permits.require(WRITE_TRANSACTIONAL_ID, request.transactional_id)

    def is_allowed(name: str) -> bool:
        if name == COORDINATOR_EVENTS:
            return permits.allows(CLUSTER_ACTION)  # only workers write there
        return permits.allows(WRITE_TOPIC, name)

    return is_allowed


def refuse(request: ProduceRequest, error: KafkaError, _api_version: int) -> ProduceResponse:
    return refusal(request, error)


def _recorded_request(seen: Seen, request: Any) -> Fields:
    return {
        "transactional_id": request.transactional_id,
        "acks": request.acks,
        "timeout_ms": request.timeout_ms,
        "partitions": [
            {
                "topic": seen.topic(topic),
                "partition": data.index,
                "count": sum(header.record_count for header in batches_in(data.records)),
                "bytes": len(data.records or b""),
            }
            for topic in request.topic_data
            for data in topic.partition_data
        ],
    }


def _recorded_response(seen: Seen, response: Any) -> Fields:
    counts = {
        (seen.topic(topic), data.index): sum(header.record_count for header in batches_in(data.records))
        for topic in getattr(seen.request, "topic_data", ())
        for data in topic.partition_data
    }
    return {
        "throttle_time_ms": response.throttle_time_ms,
        "partitions": [
            {
                "topic": seen.topic(topic),
                "partition": data.index,
                "base_offset": data.base_offset,
                "count": 0 if data.error_code else counts.get((seen.topic(topic), data.index), 0),
                "error": error_name(data.error_code),
            }
            for topic in response.responses
            for data in topic.partition_responses
        ],
    }


_ERRORS = APPEND_ERRORS | {
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_TIMESTAMP, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.POLICY_VIOLATION,
}  # fmt: skip

API = Api(
    key=0,
    name="Produce",
    versions=(3, 13),
    access=(WRITE_TRANSACTIONAL_ID, WRITE_TOPIC, CLUSTER_ACTION),
    handle=handle,
    refuse=refuse,
    guard=guard,
    errors=_ERRORS,
    elements=("topic_data.partition_data",),
    quotas=frozenset({QuotaType.REQUEST, QuotaType.PRODUCE}),
    overlay=Forwarded(last=13),
    recorded=Recorded(_recorded_request, _recorded_response),
)
