"""What a `kafka://` address says: the brokers to begin with, and how connections to them are protected."""

import ssl
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from coordinator.client.login.sasl import MECHANISMS, Sasl, SecurityFailed
from coordinator.client.login.tls import Tls
from coordinator.cluster.engine.address import EngineAddress

PORT = 9092
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OPTIONS = (
    "security.protocol",
    "sasl.mechanism",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
)  # fmt: skip
"""The names are librdkafka's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAddress:
    """Where the cluster is, and what its listeners ask for."""

    brokers: tuple[tuple[str, int], ...]
    tls: ssl.SSLContext | None = None
    sasl: Sasl | None = None

    def __repr__(self) -> str:
        return f"ClusterAddress({self.brokers})"


def cluster_address(address: EngineAddress) -> ClusterAddress:
    """Reads an address. Raises: ValueError, if it is not valid or a file of it cannot be used."""
    url = urlsplit(address.reveal())
    if url.path.strip("/"):
        raise ValueError(f"{url.path} is not part of an address of brokers: kafka://HOST:PORT,HOST:PORT?OPTION=VALUE")
    brokers = tuple((host, port or PORT) for host, port in address.hosts())
    if not brokers or not all(host for host, _ in brokers):
        raise ValueError("the address names no broker: kafka://HOST:PORT,HOST:PORT")
    options = _options(url.query)
    account = url.netloc.rpartition("@")[0]
    user, _, password = (unquote(part) for part in account.partition(":"))
    protocol = options.get("security.protocol") or ("SASL_SSL" if account else "PLAINTEXT")
    _one_of("security.protocol", protocol, PROTOCOLS)
    has_sasl, has_tls = protocol.startswith("SASL"), protocol.endswith("SSL")
    if has_sasl != bool(account):
        raise ValueError(
            f"security.protocol={protocol} and the account do not fit: kafka://USER:PASSWORD@HOST:PORT is for SASL"
        )
    mechanism = options.get("sasl.mechanism", "SCRAM-SHA-512")
    _one_of("sasl.mechanism", mechanism, MECHANISMS)
    return ClusterAddress(
        brokers=brokers,
        tls=_tls(options) if has_tls else None,
        sasl=Sasl(mechanism=mechanism, user=user, password=password) if has_sasl else None,
    )


def _options(query: str) -> dict[str, str]:
    options = {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
    for name in options:
        _one_of("an option of the address", name, OPTIONS)
    return options


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {value}; allowed: {', '.join(allowed)}")


def _tls(options: dict[str, str]) -> ssl.SSLContext:
    certificate, key = options.get("ssl.certificate.location"), options.get("ssl.key.location")
    try:
        return Tls(ca=options.get("ssl.ca.location"), certificate=certificate, key=key).context()
    except SecurityFailed as error:
        raise ValueError(f"the files of TLS cannot be used: {error}") from None
