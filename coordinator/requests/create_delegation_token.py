"""CreateDelegationToken (key 38): creates a token for the client, or for another user (KIP-48; security/delegation_tokens.py).

v3 names the owner (KIP-373): a client that is not the owner needs CREATE_TOKENS on it. As in Kafka, an error names both.
"""

from typing import Any

from coordinator.api import Api, Exchange, Overlay, Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DelegationTokenRecord,
)
from coordinator.security.access import CREATE_TOKENS_OF_USER
from coordinator.security.delegation_tokens import principal_of
from coordinator.security.principal import ANONYMOUS, Principal

_NO_TIME = -1
_REQUESTER_SINCE = 3
_NOBODY = Principal("", "")


def handle(server: Server, exchange: Exchange[CreateDelegationTokenRequest]) -> None:
    requester, owner = exchange.principal, _owner(exchange)
    try:
        server.delegation_tokens.check_request(requester)
        _check_owner(exchange, owner)
        renewers = [Principal(each.principal_type, each.principal_name) for each in exchange.request.renewers]
        uuid = bytes.fromhex(server.entropy.uuid().replace("-", ""))
        lifetime_ms = exchange.request.max_lifetime_ms
        record = server.delegation_tokens.creation(owner, requester, renewers, lifetime_ms, uuid)
    except KafkaError as error:
        exchange.reply(_failed(error.code, owner, requester, exchange.api_version))
        return

    def done(code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            exchange.reply(_created(record, server.delegation_tokens.hmac(record.token_id), exchange.api_version))
        else:
            exchange.reply(_failed(code, owner, requester, exchange.api_version))

    server.topics.metadata.in_turn(lambda: server.topics.metadata.commit([record], done), done)


def _owner(exchange: Exchange[CreateDelegationTokenRequest]) -> Principal:
    """The owner that the request names, else the client. A name without a type is an error of Kafka's own."""
    kind, name = exchange.request.owner_principal_type, exchange.request.owner_principal_name
    if not name:
        return exchange.principal
    if kind is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return Principal(kind, name)


def _check_owner(exchange: Exchange[CreateDelegationTokenRequest], owner: Principal) -> None:
    if owner != exchange.principal and not exchange.permits.allows(CREATE_TOKENS_OF_USER, str(owner)):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


def _created(record: DelegationTokenRecord, hmac: bytes, api_version: int) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        **named(principal_of(record.owner), principal_of(record.requester), api_version),
        issue_timestamp_ms=record.issue_timestamp,
        expiry_timestamp_ms=record.expiration_timestamp,
        max_timestamp_ms=record.max_timestamp,
        token_id=record.token_id,
        hmac=hmac,
    )


def named(owner: Principal, requester: Principal, api_version: int) -> dict[str, Any]:
    """The owner and the requester of a token as fields of a response; older versions have no requester."""
    requester = requester if api_version >= _REQUESTER_SINCE else _NOBODY
    return {
        "principal_type": owner.kind,
        "principal_name": owner.name,
        "token_requester_principal_type": requester.kind,
        "token_requester_principal_name": requester.name,
    }


def _failed(code: ErrorCode, owner: Principal, requester: Principal, api_version: int) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=code,
        **named(owner, requester, api_version),
        issue_timestamp_ms=_NO_TIME,
        expiry_timestamp_ms=_NO_TIME,
        max_timestamp_ms=_NO_TIME,
    )


def refuse(
    _request: CreateDelegationTokenRequest, error: KafkaError, api_version: int
) -> CreateDelegationTokenResponse:
    return _failed(error.code, ANONYMOUS, ANONYMOUS, api_version)


_ERRORS = frozenset({
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, ErrorCode.INVALID_PRINCIPAL_TYPE, ErrorCode.POLICY_VIOLATION,
    ErrorCode.NOT_CONTROLLER,
})  # fmt: skip

API = Api(
    key=38,
    name="CreateDelegationToken",
    versions=(1, 3),
    access=(CREATE_TOKENS_OF_USER,),
    handle=handle,
    refuse=refuse,
    errors=_ERRORS,
    overlay=Overlay.HIDDEN,
)
