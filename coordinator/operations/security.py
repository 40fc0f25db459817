"""TLS and SASL of the commands that are clients."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from socket import socket

from coordinator.login.sasl import Sasl, SecurityFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How to verify the server, and how this client proves who it is. Files are PEM; no `ca` means that of the system."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def wrap(self, plain: socket, host: str) -> ssl.SSLSocket:
        """A socket on which the handshake is done. Raises SecurityFailed."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
            return context.wrap_socket(plain, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise SecurityFailed(f"the server's certificate is not trusted: {error.verify_message}") from error
        except OSError as error:
            raise SecurityFailed(f"TLS: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How a client's connections are protected; by default not at all."""

    tls: Tls | None = None
    sasl: Sasl | None = None
