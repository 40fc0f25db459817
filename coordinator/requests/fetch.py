"""Fetch (key 1): reads records (topics/fetch.py). v13 names topics by id (KIP-516).

A request that waits for data is cancelled when its connection closes.
"""

from functools import cache

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.guards import PIECE_NAMES
from coordinator.api.permits import Permits
from coordinator.api.server import Server
from coordinator.api.sliced_work import Pieces
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import FetchRequest, FetchResponse
from coordinator.security.access import CLUSTER_ACTION, READ_TOPIC
from coordinator.topics.fetch import IDS_SINCE, Fetch, IsDenied, refusal


def handle(server: Server, exchange: Exchange[FetchRequest]) -> None:
    _fetch(server, exchange, None)


def guard(server: Server, exchange: Exchange[FetchRequest], permits: Permits) -> None:
    """A follower needs the right of a broker, which is about all topics; a consumer needs one for each topic."""
    request = exchange.request
    is_denied = cache(lambda name: name is not None and not permits.allows(READ_TOPIC, name))
    if request.replica_id >= 0 or request.replica_state.replica_id >= 0:
        denied = not permits.allows(CLUSTER_ACTION)
        _fetch(server, exchange, lambda _name: denied)
    elif len(request.topics) <= PIECE_NAMES:
        _fetch(server, exchange, is_denied)
    else:
        exchange.run_in_slices(_ask_and_fetch(server, exchange, is_denied))


def _ask_and_fetch(server: Server, exchange: Exchange[FetchRequest], is_denied: IsDenied) -> Pieces:
    """`is_denied` remembers what it has said."""
    by_id = exchange.api_version >= IDS_SINCE
    for number, topic in enumerate(exchange.request.topics, 1):
        is_denied(server.topics.topic_name(topic.topic_id) if by_id else topic.topic)
        if not number % PIECE_NAMES:
            yield
    _fetch(server, exchange, is_denied)


def _fetch(server: Server, exchange: Exchange[FetchRequest], is_denied: IsDenied | None) -> None:
    fetch = Fetch(
        server.topics,
        exchange.request,
        exchange.api_version,
        exchange.reply_in_parts,
        exchange.run_in_slices,
        is_denied,
        exchange.admits,
    )
    if exchange.payload is None:
        exchange.on_close = fetch.cancel


def refuse(request: FetchRequest, error: KafkaError, api_version: int) -> FetchResponse:
    response = FetchResponse(error_code=error.code, session_id=request.session_id)
    if api_version < IDS_SINCE:
        response.responses = [
            FetchResponse.FetchableTopicResponse(
                topic=topic.topic, partitions=[refusal(each.partition, error.code) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    return response


API = Api(
    key=1,
    name="Fetch",
    versions=(4, 18),
    access=(CLUSTER_ACTION, READ_TOPIC),
    handle=handle,
    refuse=refuse,
    guard=guard,
    writes=False,
)
