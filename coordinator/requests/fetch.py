"""Fetch: see topics/fetch.py. A request that waits for data is dropped when its connection closes."""

from typing import Any

from coordinator.api.declaration import Access, Api, Operation, Resource
from coordinator.api.exchange import Exchange
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import FetchRequest, FetchResponse
from coordinator.topics.fetch import IDS_SINCE, Fetch, refusal


def handle(server: Any, exchange: Exchange) -> None:
    fetch = Fetch(server.topics, exchange.request, exchange.api_version, exchange.reply_in_parts)
    if exchange.payload is None:
        exchange.on_close = fetch.cancel


def refuse(request: FetchRequest, error: KafkaError, api_version: int) -> FetchResponse:
    response = FetchResponse(error_code=error.code, session_id=request.session_id)
    if api_version < IDS_SINCE:
        response.responses = [
            FetchResponse.FetchableTopicResponse(
                topic=topic.topic, partitions=[refusal(asked.partition, error.code) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    return response


API = Api(
    key=1,
    name="Fetch",
    versions=(4, 18),
    access=Access(Operation.READ, Resource.TOPIC),
    handle=handle,
    refuse=refuse,
    writes=False,
)
