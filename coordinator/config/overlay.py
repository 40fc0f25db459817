"""The settings of a server in front of a real cluster (docs/scale-out.md). None of them is Kafka's."""

from dataclasses import dataclass, field
from typing import Any

from coordinator.config.parsers import MAYBE_TEXT, POSITIVE, SECRET, Parser, choice, integer
from coordinator.config.security import PLAIN, PLAINTEXT

TLS = ("SSL", "SASL_SSL")
SASL = ("SASL_PLAINTEXT", "SASL_SSL")
PORT_MAX = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayConfig:
    """The cluster behind this server, and how the server reaches it."""

    data_bootstrap_servers: tuple[str, ...] = ()
    """HOST:PORT of some brokers; empty: there is no cluster behind."""
    data_listener_port: int = 0
    data_metadata_refresh_ms: int = 1_000
    data_security_protocol: str = PLAINTEXT
    data_ssl_truststore_location: str = ""
    data_ssl_keystore_location: str = ""
    data_ssl_key_password: str = field(default="", repr=False)
    data_sasl_mechanism: str = PLAIN
    data_sasl_username: str = ""
    data_sasl_password: str = field(default="", repr=False)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The host and port of each bootstrap server."""
        return [split_address(each) for each in self.data_bootstrap_servers]


def split_address(text: str) -> tuple[str, int]:
    """The host and port of "host:port", with IPv6 in brackets. Raises ValueError."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) <= PORT_MAX:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def _read_addresses(value: Any, _is_text: bool) -> Any:
    texts = [each.strip() for each in value.split(",")] if isinstance(value, str) and value.strip() else value or ()
    if not isinstance(texts, list | tuple) or not all(isinstance(each, str) for each in texts):
        return None
    try:
        for each in texts:
            split_address(each)
    except ValueError:
        return None
    return tuple(texts)


def why_impossible(config: OverlayConfig) -> str | None:
    """What is wrong with values that are possible alone but not together; None: nothing."""
    if not config.data_bootstrap_servers:
        return "data.listener.port: set data.bootstrap.servers" if config.data_listener_port else None
    if config.data_security_protocol in SASL and not (config.data_sasl_username and config.data_sasl_password):
        return (
            f"data.security.protocol = {config.data_security_protocol}: set data.sasl.username and data.sasl.password"
        )
    if config.data_sasl_username and config.data_security_protocol not in SASL:
        return "data.sasl.username: set data.security.protocol to SASL_SSL or SASL_PLAINTEXT"
    if config.data_ssl_truststore_location and config.data_security_protocol not in TLS:
        return "data.ssl.truststore.location: set data.security.protocol to SSL or SASL_SSL"
    return None


_ADDRESSES = Parser(_read_addresses, "HOST:PORT, several separated by commas, or nothing")

# fmt: off
ROWS: tuple[tuple[str, type, Parser, str, str], ...] = (
    ("data.bootstrap.servers", OverlayConfig, _ADDRESSES, "",
     "Brokers of a Kafka cluster that has the topics, with data.plane=none. This server answers the APIs of groups and offsets,"
     " and forwards all others to the cluster. Clients connect to this server alone."),
    ("data.listener.port", OverlayConfig, integer(0, PORT_MAX), "",
     "The server listens for broker N of the cluster on this port plus N, with the host of its listener. 0: on the port of"
     " its listener plus 1 plus N, or on a free port if that one is taken. Several workers need the same port, other"
     " than 0."),
    ("data.metadata.refresh.ms", OverlayConfig, POSITIVE, "milliseconds",
     "How often the server asks the cluster for its brokers and topics."),
    ("data.security.protocol", OverlayConfig, choice(PLAINTEXT, *TLS, "SASL_PLAINTEXT"), "",
     "How the server connects to the cluster, for itself and for all its clients."),
    ("data.ssl.truststore.location", OverlayConfig, MAYBE_TEXT, "",
     "A PEM file with the authorities that sign the certificates of the cluster. Empty: the authorities of the system."),
    ("data.ssl.keystore.location", OverlayConfig, MAYBE_TEXT, "",
     "A PEM file with the private key and the certificate chain that the server shows to the cluster."),
    ("data.ssl.key.password", OverlayConfig, SECRET, "",
     "The password of that private key, if it is encrypted."),
    ("data.sasl.mechanism", OverlayConfig, choice(PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512"), "",
     "How the server proves to the cluster who it is."),
    ("data.sasl.username", OverlayConfig, MAYBE_TEXT, "",
     "The account of the server. The cluster sees all clients as this one."),
    ("data.sasl.password", OverlayConfig, SECRET, "",
     "Its password."),
)
# fmt: on
