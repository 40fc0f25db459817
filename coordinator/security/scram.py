"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677; Kafka: `ScramSaslServer`), by the library scramp.

Kafka refuses an unknown user at its first message, which shows that there is no such user. Here an unknown user gets a salt as
any other does (scram_users.py), and is refused at the second message.

A client may authenticate with a delegation token (KIP-48): the extension `tokenauth=true` says that the name is the id of one.
"""

import hashlib
import hmac
import re
from typing import NamedTuple, Protocol

from coordinator.security.mechanism import AuthenticationFailed

ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 16_384
"""Kafka's bounds (ScramMechanism, ScramControlManager)."""
CODES = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""Kafka's codes of the mechanisms."""
HASHES = {"SCRAM-SHA-256": hashlib.sha256, "SCRAM-SHA-512": hashlib.sha512}


_EXTENSION = "tokenauth"
_WITH_EXTENSIONS = re.compile(r"(n,[^,]*,)(n=[^,]*,r=[^,]*)((?:,[A-Za-z]+=[^,]*)+)")
"""A first message: its header, what the library knows of it, and extensions such as Kafka's `tokenauth=true`."""


class Credential(NamedTuple):
    """What a server keeps of a password (Kafka: `ScramCredential`)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class Found(NamedTuple):
    """What a first message leads to."""

    credential: Credential
    user: str | None
    """Who the client is if it knows the password; None if no password is right."""
    expires_ms: int | None = None
    """When the credential expires, in wall-clock ms; None if never."""


class FindCredential(Protocol):
    """Finds the credential of a user, or of a token by its id."""

    def __call__(self, name: str, *, is_token: bool) -> Found: ...


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

    refusal = ""

    def __init__(self, mechanism: str, find: FindCredential) -> None:
        self.user: str | None = None
        self.by_token = False
        """Whether the client names a delegation token instead of a user."""
        self._find = find
        self._found: Found | None = None
        import scramp  # noqa: PLC0415 - 5 MiB that a server without SASL does not need; listener_security.py imports it early

        scramp.core.Salt.MIN_LENGTH = 1  # Kafka's clients choose the salts
        self._refused = scramp.ScramException
        self._server = scramp.ScramMechanism(mechanism).make_server(self._credential)
        self._has_first = False

    @property
    def expires_ms(self) -> int | None:
        return None if self._found is None else self._found.expires_ms

    def evaluate(self, message: bytes) -> bytes:
        """Raises AuthenticationFailed."""
        if self.user is not None:
            raise AuthenticationFailed
        try:
            text = message.decode()
            if not self._has_first:
                self._has_first = True
                self._begin(text)
                return str(self._server.get_server_first()).encode()
            self._server.set_client_final(text)
            answer = str(self._server.get_server_final()).encode()
        except (self._refused, ValueError) as error:
            raise AuthenticationFailed from error
        if self._found is None or self._found.user is None:
            raise AuthenticationFailed
        self.user = self._found.user
        return answer

    def _begin(self, text: str) -> None:
        found = _WITH_EXTENSIONS.fullmatch(text)
        extensions = dict(part.split("=", 1) for part in found[3][1:].split(",")) if found is not None else {}
        if found is None or _EXTENSION not in extensions:
            self._server.set_client_first(text)
            return
        self.by_token = extensions[_EXTENSION].lower() == "true"
        self._server.set_client_first(found[1] + found[2])
        # The library knows extensions of one letter only. The proof is about the message with them.
        self._server.client_first_bare = found[2] + found[3]

    def _credential(self, name: str) -> Credential:
        self._found = self._find(name, is_token=self.by_token)
        return self._found.credential
