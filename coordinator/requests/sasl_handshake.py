"""SaslHandshake (key 17): a client names the SASL mechanism with which it authenticates (KIP-43).

A connection that need not or must not authenticate now gets ILLEGAL_SASL_STATE. After v0 the next messages come without a
header, after v1 in SaslAuthenticate.
"""

from coordinator.api import HERE, Api, Exchange, Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import SaslHandshakeRequest


def handle(server: Server, exchange: Exchange[SaslHandshakeRequest]) -> None:
    if exchange.sasl is None:
        raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE)
    exchange.sasl.handshake(exchange)


API = Api(
    key=17,
    name="SaslHandshake",
    versions=(0, 1),
    access=(),
    handle=handle,
    writes=False,
    errors=frozenset({ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.ILLEGAL_SASL_STATE}),
    quotas=frozenset(),
    overlay=HERE,
)
