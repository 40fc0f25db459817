"""Fetch: see topics/fetch.py. A request that waits for data is dropped when its connection closes."""

from typing import Any

from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import FetchRequest, FetchResponse
from coordinator.requests.api import Access, Api, Operation, Resource
from coordinator.requests.exchange import Exchange
from coordinator.topics.fetch import Fetch


def handle(server: Any, exchange: Exchange) -> None:
    fetch = Fetch(server.topics, exchange.request, exchange.api_version, exchange.reply)
    if exchange.payload is None:
        exchange.on_close = fetch.cancel


def refuse(_request: FetchRequest, error: KafkaError, _api_version: int) -> FetchResponse:
    return FetchResponse(error_code=error.code)


API = Api(
    key=1,
    name="Fetch",
    versions=(4, 18),
    access=Access(Operation.READ, Resource.TOPIC),
    handle=handle,
    refuse=refuse,
    writes=False,
)
