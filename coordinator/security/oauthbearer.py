"""OAUTHBEARER (RFC 7628, KIP-255, KIP-768): the client sends a token of an issuer (Kafka: `OAuthBearerSaslServer`)."""

import json
import re
from typing import Protocol

from coordinator.security.mechanism import AuthenticationFailed

_FIRST = re.compile(r"n,(?:a=(?P<authzid>(?:[^=,\x00]|=2C|=3D)+))?,\x01(?P<pairs>.*)\x01\x01?", re.DOTALL)
_AUTH = re.compile(r"(?P<scheme>[\w]+)[ ]+(?P<token>[-_.+/=a-zA-Z0-9]+)[ ]*")
_EXTENSION = re.compile(r"[A-Za-z]+")
KVSEP = "\x01"


class InvalidToken(Exception):
    """The token is refused. The text is for the server's log."""


class VerifiedToken(Protocol):
    """A token that may be trusted."""

    @property
    def user(self) -> str: ...
    @property
    def expires_ms(self) -> int | None: ...


class TokenVerifier(Protocol):
    """Verifies tokens (security/tokens.py)."""

    def verify(self, token: str) -> VerifiedToken:
        """Raises InvalidToken."""


class OAuthBearer:
    """One authentication. A token that is refused gets a JSON error, which the client acknowledges before it fails."""

    def __init__(self, verifier: TokenVerifier) -> None:
        self.user: str | None = None
        self.expires_ms: int | None = None
        self.refusal = ""
        self.by_token = False
        self._verifier = verifier
        self._error = ""

    def evaluate(self, message: bytes) -> bytes:
        """Raises AuthenticationFailed."""
        if message == b"\x01" and self._error:
            raise AuthenticationFailed(self._error)
        acts_as, token = _first_message(message)
        try:
            verified = self._verifier.verify(token)
        except InvalidToken as error:
            self.refusal = f"OAUTHBEARER: {error}"
            self._error = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
            return self._error.encode()
        if acts_as and acts_as != verified.user:
            raise AuthenticationFailed(
                f"Authentication failed: Client requested an authorization id ({acts_as}) that is different from the token's"
                f" principal name ({verified.user})"
            )
        self.user, self.expires_ms = verified.user, verified.expires_ms
        return b""


def _first_message(message: bytes) -> tuple[str, str]:
    """The authorization id, possibly empty, and the token. Raises AuthenticationFailed."""
    match = _FIRST.fullmatch(message.decode("utf-8", "replace"))
    if match is None:
        raise AuthenticationFailed
    pairs = dict(pair.partition("=")[::2] for pair in match["pairs"].split(KVSEP) if pair)
    auth = _AUTH.fullmatch(pairs.pop("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer" or not all(map(_EXTENSION.fullmatch, pairs)):
        raise AuthenticationFailed
    name = (match["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return name, auth["token"]
