"""The TLS context of a listener, made again when its files change."""

import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinator.config.cipher_suites import TLS_1_2, usable_versions
from coordinator.config.security import TlsConfig
from coordinator.security.principal import ANONYMOUS, MappingRules, Principal

_log = logging.getLogger(__name__)

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_Stamp = tuple[tuple[int, int, int] | None, ...]


class UnusableTls(Exception):
    """The certificates or the key cannot be used; the text says which setting and why, in one line."""


class TlsContext:
    """The present context of a listener. Connections keep the one with which they began."""

    def __init__(self, config: TlsConfig) -> None:
        """Raises UnusableTls, InvalidRules."""
        self._config = config
        self._rules = MappingRules(config.ssl_principal_mapping_rules or "DEFAULT")
        self._stamp = self._files()
        self.context = make_context(config)

    def principal(self, certificate: bytes | None) -> Principal:
        """The principal of a client with this certificate (DER), or without one. Raises NoRuleApplies."""
        return self._rules.principal(certificate) if certificate else ANONYMOUS

    def refresh(self, event: str, where: str = "") -> None:
        """Reads the files again if they have changed, for new connections; if they are not usable, the former context stays.

        `event`, `where`: for the log.
        """
        stamp, self._stamp = self._stamp, self._files()
        if stamp == self._stamp:
            return
        try:
            self.context = make_context(self._config)
        except UnusableTls as error:
            _log.error("event=%s_not_reloaded%s reason=%s", event, where, error)
        else:
            _log.info("event=%s_reloaded%s", event, where)

    def _files(self) -> _Stamp:
        return tuple(
            _stamp(path) for path in (self._config.ssl_keystore_location, self._config.ssl_truststore_location)
        )


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def make_context(config: TlsConfig) -> ssl.SSLContext:
    """A context for the server's side. Raises UnusableTls."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    usable = usable_versions(config.ssl_cipher_suites, config.ssl_enabled_protocols)
    versions = [_VERSIONS[name] for name in usable]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    with _setting("ssl.cipher.suites"):
        _set_suites(context, [name for name in config.ssl_cipher_suites if name in TLS_1_2])
    # Connections live long, so sessions are not worth their memory. OP_NO_TICKET is about TLS 1.2; with it alone OpenSSL keeps
    # two sessions for each handshake of TLS 1.3.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.num_tickets = 0
    with _setting("ssl.keystore"), _certificate_file(config) as path:
        context.load_cert_chain(path, password=str(config.ssl_key_password))
    if config.ssl_client_auth != "none":
        with _setting("ssl.truststore"):
            context.load_verify_locations(
                cafile=config.ssl_truststore_location or None, cadata=config.ssl_truststore_certificates or None
            )
        context.verify_mode = _VERIFY[config.ssl_client_auth]
    return context


def make_client_context(config: TlsConfig) -> ssl.SSLContext:
    """A context with which a worker connects to the same listener of another one. Raises UnusableTls.

    It trusts the authorities that sign clients' certificates, or those of the system; where clients present a certificate it
    presents that of its listener. The host in the certificate must be that of the address, as Kafka's clients want it.
    """
    with _setting("ssl.truststore"):
        context = ssl.create_default_context(
            cafile=config.ssl_truststore_location or None, cadata=config.ssl_truststore_certificates or None
        )
    if config.ssl_client_auth != "none":
        with _setting("ssl.keystore"), _certificate_file(config) as path:
            context.load_cert_chain(path, password=str.__str__(config.ssl_key_password))
    return context


def own_principal(config: TlsConfig) -> Principal:
    """Who a worker with this certificate is for another one. Raises UnusableTls, InvalidRules, NoRuleApplies."""
    if config.ssl_client_auth == "none":
        return ANONYMOUS
    with _setting("ssl.keystore"), _certificate_file(config) as path:
        text = Path(path).read_text(encoding="ascii")
        first = text[text.index(ssl.PEM_HEADER) : text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)]
        certificate = ssl.PEM_cert_to_DER_cert(first)
    return MappingRules(config.ssl_principal_mapping_rules or "DEFAULT").principal(certificate)


def _set_suites(context: ssl.SSLContext, names: list[str]) -> None:
    """Allows these suites of TLS 1.2, if there are any; with none the version is off or has the default.

    Raises ValueError: OpenSSL does not have one of them.
    """
    if not names:
        return
    every = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    every.set_ciphers("ALL")
    by_number = {cipher["id"] & 0xFFFF: cipher["name"] for cipher in every.get_ciphers()}
    missing = [name for name in names if TLS_1_2[name] not in by_number]
    if missing:
        raise ValueError(f"this machine's OpenSSL does not have {', '.join(missing)}")
    context.set_ciphers(":".join(by_number[TLS_1_2[name]] for name in names))


@contextmanager
def _setting(name: str) -> Iterator[None]:
    """Names the setting in errors. Raises UnusableTls."""
    try:
        yield
    except ssl.SSLError as error:
        raise UnusableTls(f"{name}: not usable PEM, or another key's certificate: {error.reason or error}") from error
    except OSError as error:
        raise UnusableTls(f"{name}: {error.strerror}: {error.filename}") from error
    except ValueError as error:
        raise UnusableTls(f"{name}: {error}") from error


@contextmanager
def _certificate_file(config: TlsConfig) -> Iterator[str]:
    """The path of a file with key and chain. OpenSSL reads them from files only, so texts are in one for a moment."""
    if config.ssl_keystore_location:
        Path(config.ssl_keystore_location).stat()  # its error names the file
        yield config.ssl_keystore_location
        return
    from tempfile import NamedTemporaryFile  # noqa: PLC0415 - it brings compression and random numbers, which few starts need

    with NamedTemporaryFile("w", suffix=".pem", encoding="ascii") as file:  # only its owner can read it
        file.write(f"{str.__str__(config.ssl_keystore_key)}\n{config.ssl_keystore_certificate_chain}\n")
        file.flush()
        yield file.name
