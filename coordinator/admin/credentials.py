"""Who may use admin HTTP: everybody where only this machine reaches it, else those with the token or a client certificate.

    listens on       credentials set    a request without them may
    loopback         no                 do everything
    loopback         yes                do what `admin.anonymous` allows
    more             yes                do what `admin.anonymous` allows
    more             no                 do what `admin.anonymous` allows; with `none` the server does not start

The health checks need no credentials anywhere: they say only whether the server works, and probes have nowhere to keep a
secret.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping
from pathlib import Path

from coordinator.config.loopback import is_loopback
from coordinator.config.settings import AdminConfig

NONE, READ, ALL = "none", "read", "all"
TOKEN_CHARS_MIN = 16


class UnusableToken(Exception):
    """The token cannot be used; the text says which setting and why."""


def read_token(config: AdminConfig) -> str:
    """The token of the configuration; empty if there is none. Raises UnusableToken."""
    setting, token = "admin.token", str.__str__(config.admin_token)
    if config.admin_token_file:
        setting = "admin.token.file"
        try:
            token = Path(config.admin_token_file).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UnusableToken(f"{setting}: {error}") from error
    elif not token:
        return ""
    if len(token) < TOKEN_CHARS_MIN or not token.isascii() or not token.isprintable() or " " in token:
        raise UnusableToken(
            f"{setting}: a token has at least {TOKEN_CHARS_MIN} printable ASCII characters without spaces"
        )
    return token


class Credentials:
    """Decides who a request is from, and what one from nobody may do."""

    def __init__(self, config: AdminConfig, token: str) -> None:
        self._token = token.encode()
        self.are_set = bool(token or config.admin_ssl_truststore_location)
        is_private = is_loopback(config.host) and not self.are_set
        self._anonymous = ALL if is_private else config.admin_anonymous

    def are_in(self, headers: Mapping[str, str], *, has_certificate: bool) -> bool:
        """Whether a request has valid credentials."""
        return has_certificate or bool(self._token and hmac.compare_digest(_presented(headers), self._token))

    def allow_anonymous(self, *, changes: bool) -> bool:
        """Whether a request without credentials may do this. `changes`: it does more than to read views."""
        return self._anonymous == ALL or (self._anonymous == READ and not changes)


def _presented(headers: Mapping[str, str]) -> bytes:
    """The token of a request: as bearer, or as the password of any user, which is how browsers ask for it."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("latin-1")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""
