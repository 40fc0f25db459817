"""The client's side of TLS: which servers it trusts, and how it proves who it is."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket

from coordinator.client.login.sasl import Sasl, SecurityFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How to verify the server, and how this client proves who it is. Files are PEM; without a `ca` it trusts the system's."""

    ca: Path | str | None = None
    certificate: Path | str | None = None
    key: Path | str | None = None
    """None: the file of the certificate has it."""
    password: str | None = field(default=None, repr=False)
    """The password of an encrypted key."""

    def context(self) -> ssl.SSLContext:
        """The settings of TLS connections. Raises SecurityFailed, if a file is not usable."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key, self.password)
        except (OSError, ValueError) as error:
            raise SecurityFailed(f"TLS: {getattr(error, 'strerror', None) or error}") from error
        return context

    def wrap(self, plain: socket, host: str) -> ssl.SSLSocket:
        """A socket on which the handshake is done. Raises SecurityFailed."""
        try:
            return self.context().wrap_socket(plain, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise SecurityFailed(f"the server's certificate is not trusted: {error.verify_message}") from error
        except OSError as error:
            raise SecurityFailed(f"TLS: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How a client's connections are protected; by default not at all."""

    tls: Tls | None = None
    sasl: Sasl | None = None
