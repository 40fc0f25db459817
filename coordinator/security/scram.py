"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677; Kafka: `ScramSaslServer`), by the library scramp.

Kafka refuses an unknown user at its first message, which shows that there is no such user. Here an unknown user gets a salt as
any other does, and is refused at the second message.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import NamedTuple

from coordinator.security.mechanism import AuthenticationFailed

ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 16_384
"""Kafka's bounds (ScramMechanism, ScramControlManager)."""
CODES = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""Kafka's codes of the mechanisms."""
HASHES = {"SCRAM-SHA-256": hashlib.sha256, "SCRAM-SHA-512": hashlib.sha512}


class Credential(NamedTuple):
    """What a server keeps of a password (Kafka: `ScramCredential`)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


FindCredential = Callable[[str], Credential | None]


def credential_of_password(mechanism: str, password: str, salt: bytes, iterations: int) -> Credential:
    """The credential that verifies this password; computing it takes milliseconds."""
    hash_name = HASHES[mechanism]().name
    return credential_of_salted(
        mechanism, hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations), salt, iterations
    )


def credential_of_salted(mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> Credential:
    """The credential of a password that a client has salted, as in AlterUserScramCredentials."""
    make = HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", make)
    server_key = hmac.digest(salted_password, b"Server Key", make)
    return Credential(salt, make(client_key).digest(), server_key, iterations)


class Scram:
    """One authentication."""

    expires_ms: int | None = None
    refusal = ""
    _key = secrets.token_bytes(32)
    """Makes the salts of unknown users."""

    def __init__(self, mechanism: str, find: FindCredential) -> None:
        self.user: str | None = None
        self._name = mechanism
        self._find = find
        self._claimed = ""
        self._is_known = False
        import scramp  # noqa: PLC0415 - 5 MiB that a server without SASL does not need; listener_security.py imports it early

        scramp.core.Salt.MIN_LENGTH = 1  # Kafka's clients choose the salts
        self._refused = scramp.ScramException
        self._server = scramp.ScramMechanism(mechanism).make_server(self._credential)
        self._has_first = False

    def evaluate(self, message: bytes) -> bytes:
        """Raises AuthenticationFailed."""
        if self.user is not None:
            raise AuthenticationFailed
        try:
            text = message.decode()
            if not self._has_first:
                self._has_first = True
                self._server.set_client_first(text)
                return str(self._server.get_server_first()).encode()
            self._server.set_client_final(text)
            answer = str(self._server.get_server_final()).encode()
        except (self._refused, ValueError) as error:
            raise AuthenticationFailed from error
        if not self._is_known:
            raise AuthenticationFailed
        self.user = self._claimed
        return answer

    def _credential(self, user: str) -> Credential:
        self._claimed = user
        found = self._find(user)
        self._is_known = found is not None
        return found or self._of_nobody(user)

    def _of_nobody(self, user: str) -> Credential:
        """A credential that no password fits."""
        make = HASHES[self._name]
        salt, stored, server = (hmac.digest(self._key, f"{part}{user}".encode(), make) for part in "abc")
        return Credential(salt, stored, server, ITERATIONS_MIN)
