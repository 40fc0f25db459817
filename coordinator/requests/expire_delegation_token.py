"""ExpireDelegationToken (key 40): sets when a token expires, or removes it (KIP-48; security/delegation_tokens.py).

Its owner and its renewers may do it. A negative period removes the token at once.
"""

from coordinator.api.declaration import Api, Overlay
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

_NO_TIME = -1


def handle(server: Server, exchange: Exchange[ExpireDelegationTokenRequest]) -> None:
    server.delegation_tokens.check_request(exchange.principal)
    server.topics.metadata.in_turn(lambda: _expire(server, exchange), exchange.refuse)


def _expire(server: Server, exchange: Exchange[ExpireDelegationTokenRequest]) -> None:
    request, tokens = exchange.request, server.delegation_tokens
    try:
        record, expires_ms = tokens.expiration(request.hmac, request.expiry_time_period_ms, exchange.principal)
    except KafkaError as error:
        exchange.reply(ExpireDelegationTokenResponse(error_code=error.code))  # without a time, as by Kafka's controller
        return

    def done(code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            exchange.reply(ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms))
        else:
            exchange.refuse(code)

    server.topics.metadata.commit([record], done)


def refuse(
    _request: ExpireDelegationTokenRequest, error: KafkaError, _api_version: int
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=_NO_TIME)


_ERRORS = frozenset({
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, ErrorCode.DELEGATION_TOKEN_EXPIRED,
    ErrorCode.NOT_CONTROLLER,
})  # fmt: skip

API = Api(
    key=40,
    name="ExpireDelegationToken",
    versions=(1, 2),
    access=(),
    handle=handle,
    refuse=refuse,
    errors=_ERRORS,
    overlay=Overlay.HIDDEN,
)
