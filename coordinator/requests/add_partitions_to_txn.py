"""AddPartitionsToTxn (key 24): adds the partitions that a transaction is about to write to.

Up to v3 the request is a client's, about one transaction. v4 and v5 are batched: in Kafka brokers send them, to add partitions
or to verify that they were added (KIP-890); here any client may that an authorizer allows CLUSTER_ACTION. A partition that does
not exist, belongs to an internal topic, or to which the client may not write, fails its whole transaction: the other partitions
of the transaction are answered OPERATION_NOT_ATTEMPTED. Since v4 `__consumer_offsets` may be added; other internal topics are
refused when the producer is known to be the transaction's. v2 answers PRODUCER_FENCED, earlier versions INVALID_PRODUCER_EPOCH.
"""

from collections.abc import Collection, Sequence
from typing import Any

from coordinator.api import Api, Coordinator, Exchange, Permits, Server
from coordinator.api.error_families import TOPIC_ERRORS, TRANSACTION_ERRORS
from coordinator.api.guards import allowed_names
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from coordinator.requests.init_producer_id import translate_fenced
from coordinator.runtime.internal_request import DONE
from coordinator.runtime.result import Fact, Producer, Record, RequestContext, Result, Timer
from coordinator.security.access import CLUSTER_ACTION, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from coordinator.topics import names
from coordinator.topics.topics import Topics
from coordinator.transactions.add_partitions import Addition, add_partitions
from coordinator.transactions.state import Transactions
from coordinator.transactions.transaction import Partition
from coordinator.transactions.verify import verify_partitions

_BATCHED_SINCE = 4
_FENCED_SINCE = 2
_UNTOUCHED = names.INTERNAL - {names.CONSUMER_OFFSETS}
"""The topics that brokers do not add. (Kafka's may add every topic, and write its markers into it.)"""

_Result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
_Topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
_Partition = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
_Verdicts = dict[Partition, ErrorCode]


class _Requested:
    """One transaction of a request, and the answer to it."""

    __slots__ = ("addition", "answer", "topics", "verify_only")

    def __init__(
        self,
        transactional_id: str,
        producer: Producer,
        topics: Sequence[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic],
        *,
        verify_only: bool,
        batched: bool,
    ) -> None:
        self.topics = topics
        partitions = [(topic.name, index) for topic in topics for index in topic.partitions]
        self.addition = Addition(transactional_id, producer, list(dict.fromkeys(partitions)), 2 if batched else 0)
        self.verify_only = verify_only
        self.answer: list[_Topic] = []

    def answer_all(self, code: ErrorCode, api_version: int) -> None:
        """The same for all partitions. Then topics are named as in the request, also without partitions, as in Kafka."""
        code = translate_fenced(code, api_version, _FENCED_SINCE)
        self.answer = [
            _Topic(topic.name, [_Partition(index, code) for index in topic.partitions]) for topic in self.topics
        ]

    def answer_each(self, verdicts: _Verdicts) -> None:
        """Each partition, once."""
        topics: dict[str, _Topic] = {}
        for (topic, index), code in verdicts.items():
            topics.setdefault(topic, _Topic(topic, [])).results_by_partition.append(_Partition(index, code))
        self.answer = list(topics.values())

    def is_refused_by(self, topics: Topics, denied: Collection[str]) -> bool:
        """Whether some partition is missing or of a topic in `denied`; if so, sets the answer."""
        missing = {
            (topic, index): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for topic, index in self.addition.partitions
            if not 0 <= index < (topics.partition_count(topic) or 0)
        }
        return self._is_refused(missing | self._denied(denied))

    def would_write_markers_into(self, internal: Collection[str]) -> bool:
        """Whether the addition has partitions of these topics; if so, sets the answer."""
        return not self.verify_only and self._is_refused(self._denied(internal))

    def _denied(self, topics: Collection[str]) -> _Verdicts:
        return {each: ErrorCode.TOPIC_AUTHORIZATION_FAILED for each in self.addition.partitions if each[0] in topics}

    def _is_refused(self, wrong: _Verdicts) -> bool:
        if wrong:
            self.answer_each(dict.fromkeys(self.addition.partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | wrong)
        return bool(wrong)


def handle(server: Server, exchange: Exchange[AddPartitionsToTxnRequest]) -> None:
    _add(server, exchange, names.INTERNAL if exchange.api_version < _BATCHED_SINCE else ())


def guard(server: Server, exchange: Exchange[AddPartitionsToTxnRequest], permits: Permits) -> None:
    request = exchange.request
    if exchange.api_version >= _BATCHED_SINCE:
        if permits.allows(CLUSTER_ACTION):
            handle(server, exchange)
        else:
            exchange.reply(AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    permits.require(WRITE_TRANSACTIONAL_ID, request.v3_and_below_transactional_id)
    topics = {topic.name for topic in request.v3_and_below_topics} - names.INTERNAL
    denied = topics - allowed_names(permits, WRITE_TOPIC, sorted(topics))
    _add(server, exchange, names.INTERNAL | denied)


def _add(server: Server, exchange: Exchange[AddPartitionsToTxnRequest], denied: Collection[str]) -> None:
    requested = {each.addition.transactional_id: each for each in _requested(exchange.request, exchange.api_version)}
    possible = [name for name, each in requested.items() if not each.is_refused_by(server.topics, denied)]

    def operation(state: Transactions, ids: list[str], context: RequestContext, now_ms: int) -> Result:
        return _decide_one_by_one(state, [requested[name] for name in ids], context, now_ms)

    def refused(ids: list[str], error: ErrorCode) -> object:
        for name in ids:
            requested[name].answer_all(error, exchange.api_version)
        return DONE

    def combine(_parts: list[object]) -> AddPartitionsToTxnResponse:
        return _response(list(requested.values()), exchange.api_version)

    server.transactions.gather_by_group(possible, operation, exchange, combine, refused=refused)


def refuse(request: AddPartitionsToTxnRequest, error: KafkaError, api_version: int) -> AddPartitionsToTxnResponse:
    requested = _requested(request, api_version)
    for each in requested:
        each.answer_all(error.code, api_version)
    return _response(requested, api_version)


def _requested(request: AddPartitionsToTxnRequest, api_version: int) -> list[_Requested]:
    """The transactions of a request. If a transactional id occurs twice, the first entry counts."""
    if api_version < _BATCHED_SINCE:
        producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        topics = request.v3_and_below_topics
        return [_Requested(request.v3_and_below_transactional_id, producer, topics, verify_only=False, batched=False)]
    requested: dict[str, _Requested] = {}
    for each in request.transactions:
        producer = Producer(each.producer_id, each.producer_epoch)
        one = _Requested(each.transactional_id, producer, each.topics, verify_only=each.verify_only, batched=True)
        requested.setdefault(each.transactional_id, one)
    return list(requested.values())


def _decide_one_by_one(
    state: Transactions, requested: Sequence[_Requested], context: RequestContext, now_ms: int
) -> Result:
    """Decides the transactions of one shard; each gets its own answer."""
    records: list[Record] = []
    timers: list[Timer] = []
    facts: list[Fact] = []
    for each in requested:
        operation = verify_partitions if each.verify_only else add_partitions
        try:
            result = operation(state, each.addition, context, now_ms)
        except KafkaError as error:
            each.answer_all(error.code, context.api_version)
            continue
        if each.would_write_markers_into(_UNTOUCHED):
            continue
        records += result.records
        timers += result.timers
        facts += result.facts
        verdicts: Any = result.reply
        if each.verify_only:
            each.answer_each(verdicts)
        else:
            each.answer_all(ErrorCode.NONE, context.api_version)
    return Result(DONE, records, timers, facts=facts)


def _response(requested: Sequence[_Requested], api_version: int) -> AddPartitionsToTxnResponse:
    if api_version < _BATCHED_SINCE:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=requested[0].answer)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[_Result(each.addition.transactional_id, each.answer) for each in requested]
    )


API = Api(
    key=24,
    name="AddPartitionsToTxn",
    versions=(0, 5),
    access=(CLUSTER_ACTION, WRITE_TRANSACTIONAL_ID, WRITE_TOPIC),
    handle=handle,
    refuse=refuse,
    guard=guard,
    errors=TRANSACTION_ERRORS | TOPIC_ERRORS | {ErrorCode.OPERATION_NOT_ATTEMPTED},
    elements=("transactions.topics.partitions", "v3_and_below_topics.partitions"),
    coordinator=Coordinator.TRANSACTION,
)
