"""The client's side of SCRAM (RFC 5802, RFC 7677), as Kafka uses it: without channel binding, names without SASLprep."""

import base64
import hashlib
import hmac
import secrets

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 1_000_000
"""Kafka's lower bound; the upper one keeps a hostile server from occupying this client."""


class ScramFailed(Exception):
    """The server's message is not valid, or it does not know the password itself."""


class Scram:
    """One authentication: `first()`, then `final(challenge)`, then `verify(outcome)`."""

    def __init__(self, hash_name: str, user: str, password: str, nonce: str | None = None) -> None:
        self._hash_name = hash_name
        self._password = password.encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._first_bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        """The client-first-message."""
        return f"n,,{self._first_bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """The client-final-message. Raises ScramFailed."""
        fields = _fields(challenge)
        nonce, iterations = fields.get("r", ""), fields.get("i", "")
        if not nonce.startswith(self._nonce) or not iterations.isdecimal():
            raise ScramFailed("the challenge is not one of SCRAM")
        if not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
            raise ScramFailed(f"{iterations} iterations are not between {ITERATIONS_MIN} and {ITERATIONS_MAX}")
        salt = base64.b64decode(fields.get("s", ""))
        salted = hashlib.pbkdf2_hmac(self._hash_name, self._password, salt, int(iterations))
        without_proof = f"c=biws,r={nonce}"
        signed = f"{self._first_bare},{challenge.decode()},{without_proof}".encode()
        client_key = self._mac(salted, b"Client Key")
        signature = self._mac(hashlib.new(self._hash_name, client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = self._mac(self._mac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, outcome: bytes) -> None:
        """Raises ScramFailed unless the server has proved that it knows the password."""
        fields = _fields(outcome)
        if not hmac.compare_digest(base64.b64decode(fields.get("v", "")), self._server_signature):
            raise ScramFailed(fields.get("e", "the server does not know the password"))

    def _mac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash_name)


def _fields(message: bytes) -> dict[str, str]:
    """The attributes of "a=x,b=y"."""
    pairs = (part.partition("=") for part in message.decode("utf-8", "replace").split(","))
    return {name: value for name, _, value in pairs}
