"""RenewDelegationToken (key 39): prolongs the life of a token (KIP-48; security/delegation_tokens.py).

Its owner and its renewers may do it. The longest period, and the one for 0 or less, is `delegation.token.expiry.time.ms`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from coordinator.api import Api, Exchange, Overlay, Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message, RenewDelegationTokenRequest, RenewDelegationTokenResponse

NO_TIME = -1


def handle(server: Server, exchange: Exchange[RenewDelegationTokenRequest]) -> None:
    request, principal = exchange.request, exchange.principal
    renew = partial(server.delegation_tokens.renewal, request.hmac, request.renew_period_ms, principal)
    set_expiry(server, exchange, renew, RenewDelegationTokenResponse)


def set_expiry(
    server: Server, exchange: Exchange[Any], decide: Callable[[], tuple[Message, int]], response: Callable[..., Message]
) -> None:
    """Writes the record that `decide` returns with its time of expiry, and answers this time. `decide` raises KafkaError."""
    server.delegation_tokens.check_request(exchange.principal)

    def change() -> None:
        try:
            record, expires_ms = decide()
        except KafkaError as error:
            exchange.reply(response(error_code=error.code))  # without a time, as by Kafka's controller
            return

        def done(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                exchange.reply(response(expiry_timestamp_ms=expires_ms))
            else:
                exchange.refuse(code)

        server.topics.metadata.commit([record], done)

    server.topics.metadata.in_turn(change, exchange.refuse)


def refuse(_request: RenewDelegationTokenRequest, error: KafkaError, _api_version: int) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NO_TIME)


ERRORS = frozenset({
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
    errors=ERRORS,
    overlay=Overlay.HIDDEN,
)
