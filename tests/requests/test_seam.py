"""The seam between the API files and the server is typed: every handler names its request, and uses one protocol."""

import inspect
import typing

import pytest

from coordinator import requests
from coordinator.api.declaration import supported_apis
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol import messages
from coordinator.protocol.errors import ErrorCode, KafkaError

APIS = {api.name: api for api in supported_apis(requests).values()}


@pytest.mark.parametrize("name", sorted(APIS))
def test_a_handler_takes_the_server_and_an_exchange_of_its_request(name):
    hints = typing.get_type_hints(APIS[name].handle)
    server, exchange = hints["server"], hints["exchange"]
    assert server is Server
    assert typing.get_origin(exchange) is Exchange
    (request,) = typing.get_args(exchange)
    expected = messages.message_class(f"{name}Request")
    if inspect.ismethod(APIS[name].handle):
        expected = typing.Any  # it answers requests of several APIs
    assert request in (expected, expected | None)


@pytest.mark.parametrize("name", sorted(APIS))
def test_a_refusal_is_the_response_of_the_api_in_every_version(name):
    api, request = APIS[name], messages.message_class(f"{name}Request")()
    for version in range(api.versions[0], api.versions[1] + 1):
        refused = api.refusal(request, KafkaError(ErrorCode.INVALID_REQUEST), version)
        assert type(refused) is messages.message_class(f"{name}Response")
