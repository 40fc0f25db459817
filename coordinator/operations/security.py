"""TLS and SASL of the commands that are clients.

SASL takes place on a connection after ApiVersions: SaslHandshake names the mechanism, and SaslAuthenticate carries its messages
(KIP-43, KIP-152).
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any

from coordinator.operations.scram import Scram, ScramFailed
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Message, SaslAuthenticateRequest, SaslHandshakeRequest

PLAIN = "PLAIN"
_SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class SecurityFailed(Exception):
    """The files are not usable, or the server refuses the user. The text is one line."""


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
class Sasl:
    """A user, and the mechanism that proves who it is."""

    mechanism: str
    user: str
    password: str

    def authenticate(self, ask: Callable[[Message], Any]) -> None:
        """Authenticates a connection; `ask` sends a request on it and returns the response. Raises SecurityFailed."""
        answer = ask(SaslHandshakeRequest(mechanism=self.mechanism))
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise SecurityFailed("this listener of the server has no SASL")
        if answer.error_code:
            known = ", ".join(sorted(answer.mechanisms)) or "none"
            raise SecurityFailed(f"the server does not accept {self.mechanism}; it accepts: {known}")

        def exchange(message: bytes) -> bytes:
            outcome = ask(SaslAuthenticateRequest(auth_bytes=message))
            if outcome.error_code:
                reason = outcome.error_message or ErrorCode(outcome.error_code).name
                raise SecurityFailed(f"the server refuses user {self.user}: {reason}")
            data: bytes = outcome.auth_bytes
            return data

        if self.mechanism == PLAIN:
            exchange(f"\0{self.user}\0{self.password}".encode())
            return
        scram = Scram(_SCRAM_HASHES[self.mechanism], self.user, self.password)
        try:
            challenge = exchange(scram.first())
            scram.verify(exchange(scram.final(challenge)))
        except (ScramFailed, ValueError) as error:
            raise SecurityFailed(f"{self.mechanism}: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How a client's connections are protected; by default not at all."""

    tls: Tls | None = None
    sasl: Sasl | None = None
