"""ExpireDelegationToken (key 40): sets when a token expires, or removes it (KIP-48; security/delegation_tokens.py).

Its owner and its renewers may do it. A negative period removes the token at once.
"""

from functools import partial

from coordinator.api import Api, Exchange, Overlay, Server
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from coordinator.requests.renew_delegation_token import ERRORS, NO_TIME, set_expiry


def handle(server: Server, exchange: Exchange[ExpireDelegationTokenRequest]) -> None:
    request, principal = exchange.request, exchange.principal
    expire = partial(server.delegation_tokens.expiration, request.hmac, request.expiry_time_period_ms, principal)
    set_expiry(server, exchange, expire, ExpireDelegationTokenResponse)


def refuse(
    _request: ExpireDelegationTokenRequest, error: KafkaError, _api_version: int
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NO_TIME)


API = Api(
    key=40,
    name="ExpireDelegationToken",
    versions=(1, 2),
    access=(),
    handle=handle,
    refuse=refuse,
    errors=ERRORS,
    overlay=Overlay.HIDDEN,
)
