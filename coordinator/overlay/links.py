"""Connections to the brokers of one cluster, with the one account that this server has (KIP-43, KIP-152)."""

from coordinator.client.asynchronous import Client, Link, connect
from coordinator.client.login.sasl import Sasl
from coordinator.client.login.tls import Security, Tls
from coordinator.config.overlay import SASL, TLS, OverlayConfig

Address = tuple[str, int]

CLIENT_ID = "coordinator-overlay"
RESPONSE_BYTES_MAX = (1 << 31) - 1
"""Brokers are trusted: a client may ask them for a response of any size."""


def security_of(config: OverlayConfig) -> Security:
    """How the settings of the overlay say that connections are protected."""
    protocol = config.data_security_protocol
    sasl = Sasl(
        mechanism=config.data_sasl_mechanism,
        user=config.data_sasl_username,
        password=str.__str__(config.data_sasl_password),
    )
    tls = Tls(
        ca=config.data_ssl_truststore_location or None,
        certificate=config.data_ssl_keystore_location or None,
        password=str.__str__(config.data_ssl_key_password) or None,
    )
    return Security(tls=tls if protocol in TLS else None, sasl=sasl if protocol in SASL else None)


class Links:
    """Opens connections to the brokers of one cluster."""

    def __init__(self, security: Security, client_id: str = CLIENT_ID) -> None:
        """Raises SecurityFailed if the files of TLS are not usable."""
        self._sasl = security.sasl
        self._tls = None if security.tls is None else security.tls.context()
        self._client_id = client_id

    async def open(self, address: Address) -> Link:
        """A connection that is ready for requests of clients. Raises LinkFailed."""
        return (await self.client(address, asks_versions=self._sasl is not None)).release()

    async def client(self, address: Address, *, asks_versions: bool = True) -> Client:
        """A connection for requests of this server. Raises LinkFailed."""
        return await connect(
            *address,
            self._client_id,
            tls=self._tls,
            sasl=self._sasl,
            asks_versions=asks_versions,
            response_bytes_max=RESPONSE_BYTES_MAX,
        )
