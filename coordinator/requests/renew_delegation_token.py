"""RenewDelegationToken (key 39): prolongs the life of a token (KIP-48; security/delegation_tokens.py).

Its owner and its renewers may do it. The longest period, and the one for 0 or less, is `delegation.token.expiry.time.ms`.
"""

from coordinator.api.declaration import Api, Overlay
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import RenewDelegationTokenRequest, RenewDelegationTokenResponse

_NO_TIME = -1


def handle(server: Server, exchange: Exchange[RenewDelegationTokenRequest]) -> None:
    server.delegation_tokens.check_request(exchange.principal)
    server.topics.metadata.in_turn(lambda: _renew(server, exchange), exchange.refuse)


def _renew(server: Server, exchange: Exchange[RenewDelegationTokenRequest]) -> None:
    request, tokens = exchange.request, server.delegation_tokens
    try:
        record = tokens.renewal(request.hmac, request.renew_period_ms, exchange.principal)
        expires_ms = record.expiration_timestamp
    except KafkaError as error:
        exchange.reply(RenewDelegationTokenResponse(error_code=error.code))  # without a time, as by Kafka's controller
        return

    def done(code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            exchange.reply(RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms))
        else:
            exchange.refuse(code)

    server.topics.metadata.commit([record], done)


def refuse(_request: RenewDelegationTokenRequest, error: KafkaError, _api_version: int) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=_NO_TIME)


_ERRORS = frozenset({
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, ErrorCode.DELEGATION_TOKEN_EXPIRED,
    ErrorCode.NOT_CONTROLLER,
})  # fmt: skip

API = Api(
    key=39,
    name="RenewDelegationToken",
    versions=(1, 2),
    access=(),
    handle=handle,
    refuse=refuse,
    errors=_ERRORS,
    overlay=Overlay.HIDDEN,
)
