"""Verifies the tokens of OAUTHBEARER: signed ones (Kafka: `BrokerJwtValidator`) by the library PyJWT, and unsecured ones.

The keys come from a JWKS document. It is read in a thread, at the start and again from time to time; a token that names a key
which is not in it is refused, and makes the server read the document sooner (Kafka: `RefreshingHttpsJwks`).
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import jwt

from coordinator.config.security import SaslConfig
from coordinator.security.oauthbearer import InvalidToken
from coordinator.world.clock import Clock

_log = logging.getLogger(__name__)

_ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
"""Signatures by type of key. A shared secret (HS256) has no place in a JWKS document, and `none` is no signature."""
_SECONDS_MAX = 1 << 50
FETCH_S = 10.0
DOCUMENT_BYTES_MAX = 1 << 20
RETRY_MS = 10_000
"""The least time between two readings of the document that tokens or failures cause."""


class Token(NamedTuple):
    """A token that may be trusted."""

    user: str
    expires_ms: int | None


class UnusableKeys(Exception):
    """The JWKS document cannot be read or has no usable key; the text is one line."""


def fetch(url: str) -> dict[str | None, jwt.PyJWK]:
    """The keys of a JWKS document by key id. Blocks. Raises UnusableKeys."""
    try:
        keys = jwt.PyJWKSet.from_json(_read(url)).keys
    except (OSError, ValueError, jwt.PyJWTError) as error:
        raise UnusableKeys(f"sasl.oauthbearer.jwks.endpoint.url: {url}: {error}") from error
    return {key.key_id: key for key in keys}


def _read(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Path(unquote(parts.path)).read_text(encoding="utf-8")
    if parts.scheme not in ("http", "https"):
        raise ValueError("allowed: https://, http:// or file://")
    import httpx  # noqa: PLC0415 - slow to import, and only such servers need it

    try:
        with httpx.stream("GET", url, timeout=FETCH_S) as response:
            response.raise_for_status()
            body = b""
            for piece in response.iter_bytes():
                body += piece
                if len(body) > DOCUMENT_BYTES_MAX:
                    raise ValueError(f"the document has more than {DOCUMENT_BYTES_MAX} bytes")
    except httpx.HTTPError as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    return body.decode()


class Keys:
    """The keys of a JWKS document. All its methods run on the loop, except the constructor."""

    def __init__(
        self,
        url: str,
        refresh_ms: int,
        now_ms: Callable[[], int],
        run_in_thread: Callable[[Callable[[], Any], Callable[[Any], None]], None],
    ) -> None:
        """Reads the document. Raises UnusableKeys."""
        self.by_id = fetch(url)
        self._url = url
        self._refresh_ms = refresh_ms
        self._now_ms = now_ms
        self._run_in_thread = run_in_thread
        self._read_ms = now_ms()
        self._is_reading = False

    def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """The key with this id; without an id, the only key there is."""
        self.refresh(self._refresh_ms)
        if key_id is None and len(self.by_id) == 1:
            return next(iter(self.by_id.values()))
        found = self.by_id.get(key_id)
        if found is None:
            self.refresh(min(RETRY_MS, self._refresh_ms))
        return found

    def refresh(self, after_ms: int) -> None:
        """Reads the document again, if the last reading was longer ago."""
        if not self._is_reading and self._now_ms() - self._read_ms >= after_ms:
            self._is_reading = True
            self._run_in_thread(lambda: fetch(self._url), self._fetched)

    def _fetched(self, outcome: Any) -> None:
        self._is_reading = False
        self._read_ms = self._now_ms()
        if isinstance(outcome, UnusableKeys):
            # The former keys stay, and the next token tries again.
            self._read_ms -= max(0, self._refresh_ms - RETRY_MS)
            _log.warning("event=jwks_not_read reason=%s", outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            self.by_id = outcome


class _Claims:
    """What signed and unsecured tokens have in common."""

    def __init__(self, config: SaslConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock

    def token(self, claims: Mapping[str, Any]) -> Token:
        """Raises InvalidToken."""
        config = self._config
        now_s, skew_s = self._clock.wall_ms() / 1000, config.sasl_oauthbearer_clock_skew_seconds
        expires_s = _number(claims, "exp")
        if expires_s <= now_s - skew_s:
            raise InvalidToken("the token has expired")
        if _number(claims, "iat") > now_s + skew_s or _number(claims, "nbf", default=0) > now_s + skew_s:
            raise InvalidToken("the token is not valid yet")
        user = claims.get(config.sasl_oauthbearer_sub_claim_name)
        if not isinstance(user, str) or not user.strip():
            raise InvalidToken(f"the token has no claim {config.sasl_oauthbearer_sub_claim_name}")
        scopes = _scopes(claims.get(config.sasl_oauthbearer_scope_claim_name))
        missing = set(config.sasl_oauthbearer_required_scope).difference(scopes)
        if missing:
            raise InvalidToken(f"the token lacks the scope {min(missing)}")
        return Token(user, int(expires_s * 1000))


def _number(claims: Mapping[str, Any], name: str, default: float | None = None) -> float:
    value = claims.get(name, default)
    # Infinity and NaN are numbers to Python's JSON; they are no times.
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < _SECONDS_MAX:
        raise InvalidToken(f"the token has no time {name}")
    return float(value)


def _scopes(value: Any) -> Iterable[str]:
    """Scopes are one text with spaces (RFC 8693) or a list."""
    if isinstance(value, str):
        return value.split()
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else ()


class SignedTokens:
    """Verifies tokens by their signature, issuer, audience, times and scopes."""

    def __init__(self, config: SaslConfig, keys: Keys, clock: Clock) -> None:
        self._config = config
        self._keys = keys
        self._claims = _Claims(config, clock)

    def verify(self, token: str) -> Token:
        """Raises InvalidToken."""
        config = self._config
        try:
            header = jwt.get_unverified_header(token)
            key = self._keys.find(header.get("kid"))
            if key is None:
                raise InvalidToken("the token names an unknown key")
            claims = jwt.decode(
                token,
                key.key,
                algorithms=_ALGORITHMS.get(key.key_type or "", ()),
                audience=config.sasl_oauthbearer_expected_audience or None,
                issuer=config.sasl_oauthbearer_expected_issuer or None,
                # The times are compared with the server's own clock, below.
                options={"verify_exp": False, "verify_nbf": False, "verify_iat": False},
            )
        except (
            jwt.PyJWTError,
            ValueError,
            TypeError,
            RecursionError,
        ) as error:  # the last one: JSON that is nested deeply
            raise InvalidToken(str(error)) from error
        return self._claims.token(claims)


class UnsecuredTokens:
    """Takes tokens without a signature at their word (Kafka: `OAuthBearerUnsecuredValidatorCallbackHandler`)."""

    def __init__(self, config: SaslConfig, clock: Clock) -> None:
        self._claims = _Claims(config, clock)

    def verify(self, token: str) -> Token:
        """Raises InvalidToken."""
        header, _, rest = token.partition(".")
        payload, _, signature = rest.partition(".")
        if signature or _decoded(header).get("alg") != "none":
            raise InvalidToken("the token is not an unsecured one")
        return self._claims.token(_decoded(payload))


def _decoded(part: str) -> dict[str, Any]:
    try:
        found = json.loads(jwt.utils.base64url_decode(part))
    except (ValueError, RecursionError) as error:  # the latter: JSON that is nested deeply
        raise InvalidToken("the token is malformed") from error
    if not isinstance(found, dict):
        raise InvalidToken("the token is malformed")
    return found
