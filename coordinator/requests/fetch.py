"""Fetch (key 1): reads records (topics/fetch.py). v13 names topics by id (KIP-516).

A request that waits for data is cancelled when its connection closes.
"""

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import FetchRequest, FetchResponse
from coordinator.security.access import CLUSTER_ACTION, READ_TOPIC
from coordinator.topics.fetch import IDS_SINCE, Fetch, refusal


def handle(server: Server, exchange: Exchange[FetchRequest]) -> None:
    fetch = Fetch(
        server.topics, exchange.request, exchange.api_version, exchange.reply_in_parts, exchange.run_in_slices,
        exchange.admits,
    )  # fmt: skip
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
    writes=False,
)
