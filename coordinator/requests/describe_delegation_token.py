"""DescribeDelegationToken (key 41): the tokens that the client may see (KIP-48; security/delegation_tokens.py).

A client sees those of which it is the owner, the requester or a renewer, with their passwords; others with DESCRIBE on the
token, or with DESCRIBE_TOKENS on its owner. A list of owners selects those of which one of them is one of the three.
"""

from coordinator.api import Api, Exchange, Overlay, Server
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DelegationTokenRecord,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from coordinator.requests.create_delegation_token import named
from coordinator.security.access import DESCRIBE_DELEGATION_TOKEN, DESCRIBE_TOKENS_OF_USER
from coordinator.security.delegation_tokens import is_of, principal_of
from coordinator.security.principal import Principal

_Token = DescribeDelegationTokenResponse.DescribedDelegationToken
_Renewer = DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer


def handle(server: Server, exchange: Exchange[DescribeDelegationTokenRequest]) -> None:
    tokens, client, owners = server.delegation_tokens, exchange.principal, exchange.request.owners
    tokens.check_request(client)
    tokens.check_enabled()
    wanted = None if owners is None else [Principal(each.principal_type, each.principal_name) for each in owners]
    permits = exchange.permits

    def is_shown(token: DelegationTokenRecord) -> bool:
        if wanted is not None and not any(is_of(token, owner) for owner in wanted):
            return False
        return (
            is_of(token, client)
            or permits.allows(DESCRIBE_DELEGATION_TOKEN, token.token_id)
            or permits.allows(DESCRIBE_TOKENS_OF_USER, token.owner)
        )

    exchange.reply(
        DescribeDelegationTokenResponse(
            tokens=[
                _described(token, tokens.hmac(token.token_id), exchange.api_version)
                for token in server.topics.registry.delegation_tokens.values()
                if is_shown(token)
            ]
        )
    )


def _described(token: DelegationTokenRecord, hmac: bytes, api_version: int) -> _Token:
    return _Token(
        **named(principal_of(token.owner), principal_of(token.requester), api_version),
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[_Renewer(*principal_of(each)) for each in token.renewers],
    )


_ERRORS = frozenset({
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
})  # fmt: skip

API = Api(
    key=41,
    name="DescribeDelegationToken",
    versions=(1, 3),
    access=(DESCRIBE_DELEGATION_TOKEN, DESCRIBE_TOKENS_OF_USER),
    handle=handle,
    writes=False,
    errors=_ERRORS,
    overlay=Overlay.HIDDEN,
)
