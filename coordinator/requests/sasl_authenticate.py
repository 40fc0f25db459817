"""SaslAuthenticate (key 36): a message of a SASL mechanism (KIP-152). v1 answers with the length of the session (KIP-368).

A connection that need not or must not authenticate now gets ILLEGAL_SASL_STATE.
"""

from coordinator.api import HERE, Api, Exchange, Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import SaslAuthenticateRequest

_NOT_NOW = "SaslAuthenticate request received after successful authentication"


def handle(server: Server, exchange: Exchange[SaslAuthenticateRequest]) -> None:
    if exchange.sasl is None:
        raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, _NOT_NOW)
    exchange.sasl.authenticate(exchange)


API = Api(
    key=36,
    name="SaslAuthenticate",
    versions=(0, 2),
    access=(),
    handle=handle,
    writes=False,
    errors=frozenset({ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.ILLEGAL_SASL_STATE}),
    quotas=frozenset(),
    overlay=HERE,
)
