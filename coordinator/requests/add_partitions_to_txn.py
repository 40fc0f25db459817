"""AddPartitionsToTxn (key 24): the partitions that a transaction is about to write to.

Up to v3 it is the client's, about one transaction; v4 and 5 are between brokers, about many, to add partitions or to verify
that they were added (KIP-890). Any client may send them here. A partition that does not exist, or is the server's own, fails
its whole transaction: the others of it are answered OPERATION_NOT_ATTEMPTED. v2 knows PRODUCER_FENCED, before it is
INVALID_PRODUCER_EPOCH.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator.api.access import CLUSTER_ACTION, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from coordinator.requests.init_producer_id import fenced_as_known
from coordinator.runtime.internal_request import DONE
from coordinator.runtime.result import Fact, Producer, Record, RequestContext, Result
from coordinator.topics import names
from coordinator.transactions.add_partitions import Addition, add_partitions
from coordinator.transactions.transaction import Partition
from coordinator.transactions.verify import verify_partitions

_BATCHED_SINCE = 4
_FENCED_SINCE = 2

_Result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
_Topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
_Partition = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
_Verdicts = Mapping[Partition, ErrorCode]


class _Asked:
    """One transaction of a request."""

    __slots__ = ("addition", "verdicts", "verify_only")

    def __init__(
        self, transactional_id: str, producer: Producer, topics: Sequence[Any], *, verify_only: bool, batched: bool
    ) -> None:
        partitions = [(topic.name, index) for topic in topics for index in topic.partitions]
        self.addition = Addition(transactional_id, producer, list(dict.fromkeys(partitions)), 2 if batched else 0)
        self.verify_only = verify_only
        self.verdicts: _Verdicts = {}

    def refused_by(self, catalog: Any) -> bool:
        """Whether some partition cannot be written to; then the verdict stands."""
        wrong = {
            (topic, index): ErrorCode.TOPIC_AUTHORIZATION_FAILED
            if topic in names.INTERNAL
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for topic, index in self.addition.partitions
            if topic in names.INTERNAL or not 0 <= index < (catalog.partition_count(topic) or 0)
        }
        if wrong:
            self.verdicts = dict.fromkeys(self.addition.partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | wrong
        return bool(wrong)


def handle(server: Server, exchange: Exchange[AddPartitionsToTxnRequest]) -> None:
    asked = {each.addition.transactional_id: each for each in _transactions(exchange.request, exchange.api_version)}
    left = [name for name, each in asked.items() if not each.refused_by(server.topics)]

    def operation(state: Any, ids: list[str], context: RequestContext, now_ms: int) -> Result:
        return _answered_one_by_one(state, [asked[name] for name in ids], context, now_ms)

    def combine(_parts: list[Any]) -> AddPartitionsToTxnResponse:
        return _response(list(asked.values()), exchange.api_version)

    server.transactions.gather_by_group(left, operation, exchange, combine)


def refuse(request: AddPartitionsToTxnRequest, error: KafkaError, api_version: int) -> AddPartitionsToTxnResponse:
    asked = _transactions(request, api_version)
    for each in asked:
        each.verdicts = _all(each, error.code, api_version)
    return _response(asked, api_version)


def _transactions(request: AddPartitionsToTxnRequest, api_version: int) -> list[_Asked]:
    """Of an id that is named twice, the first counts."""
    if api_version < _BATCHED_SINCE:
        producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        topics = request.v3_and_below_topics
        return [_Asked(request.v3_and_below_transactional_id, producer, topics, verify_only=False, batched=False)]
    asked: dict[str, _Asked] = {}
    for each in request.transactions:
        producer = Producer(each.producer_id, each.producer_epoch)
        one = _Asked(each.transactional_id, producer, each.topics, verify_only=each.verify_only, batched=True)
        asked.setdefault(each.transactional_id, one)
    return list(asked.values())


def _answered_one_by_one(state: Any, asked: Sequence[_Asked], context: RequestContext, now_ms: int) -> Result:
    """Those of one shard, each with an answer of its own."""
    records: list[Record] = []
    facts: list[Fact] = []
    for each in asked:
        operation = verify_partitions if each.verify_only else add_partitions
        try:
            result = operation(state, each.addition, context, now_ms)
        except KafkaError as error:
            each.verdicts = _all(each, error.code, context.api_version)
            continue
        records += result.records
        facts += result.facts
        verdicts: Any = result.reply
        each.verdicts = verdicts if each.verify_only else _all(each, ErrorCode.NONE, context.api_version)
    return Result(DONE, records, facts=facts)


def _all(asked: _Asked, code: ErrorCode, api_version: int) -> _Verdicts:
    return dict.fromkeys(asked.addition.partitions, fenced_as_known(code, api_version, _FENCED_SINCE))


def _response(asked: Sequence[_Asked], api_version: int) -> AddPartitionsToTxnResponse:
    if api_version < _BATCHED_SINCE:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topics(asked[0].verdicts))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[_Result(each.addition.transactional_id, _topics(each.verdicts)) for each in asked]
    )


def _topics(verdicts: _Verdicts) -> list[_Topic]:
    topics: dict[str, _Topic] = {}
    for (topic, index), code in verdicts.items():
        topics.setdefault(topic, _Topic(topic, [])).results_by_partition.append(_Partition(index, code))
    return list(topics.values())


API = Api(
    key=24,
    name="AddPartitionsToTxn",
    versions=(0, 5),
    access=(CLUSTER_ACTION, WRITE_TRANSACTIONAL_ID, WRITE_TOPIC),
    handle=handle,
    refuse=refuse,
)
