"""EndTxn (key 26): commits or aborts a transaction (transactions/end.py).

v2 answers PRODUCER_FENCED, earlier versions INVALID_PRODUCER_EPOCH. v5 is for clients of transaction.version 2: the response
carries the producer id and epoch of the next transaction (KIP-890).
"""

from functools import partial
from operator import attrgetter

from coordinator.api import Api, Coordinator, Exchange, Server
from coordinator.api.error_families import TRANSACTION_ERRORS
from coordinator.api.guards import guarded_by
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import EndTxnRequest, EndTxnResponse
from coordinator.requests.init_producer_id import translate_fenced
from coordinator.security.access import WRITE_TRANSACTIONAL_ID
from coordinator.transactions.end import end

_FENCED_SINCE = 2


def handle(server: Server, exchange: Exchange[EndTxnRequest]) -> None:
    request = exchange.request
    server.producer_ids.ready(partial(server.transactions.submit, request.transactional_id, end, exchange))


def refuse(_request: EndTxnRequest, error: KafkaError, api_version: int) -> EndTxnResponse:
    return EndTxnResponse(error_code=translate_fenced(error.code, api_version, _FENCED_SINCE))


API = Api(
    key=26,
    name="EndTxn",
    versions=(0, 5),
    access=(WRITE_TRANSACTIONAL_ID,),
    handle=handle,
    refuse=refuse,
    guard=guarded_by(WRITE_TRANSACTIONAL_ID, attrgetter("transactional_id"), handle),
    errors=TRANSACTION_ERRORS,
    coordinator=Coordinator.TRANSACTION,
)
