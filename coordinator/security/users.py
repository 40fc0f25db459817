"""The users of PLAIN: a file with a line NAME:PASSWORD for each, or Kafka's JAAS configuration.

Passwords are kept as keyed digests, so that a dump of the memory does not show them, and all comparisons take the same time.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

_OPTION = re.compile(r"""\s*([A-Za-z0-9_.-]+)\s*=\s*("(?:\\.|[^"\\])*"|[^\s;"]+)""")
_MODULE = re.compile(r"\s*[\w.$]*?(Plain|Scram)LoginModule\s+(?:required|requisite|sufficient|optional)\b")
USER_OPTION = "user_"


class UnusableUsers(ValueError):
    """The file or the JAAS configuration is malformed. The text names the place and shows no password."""


def read_users_file(path: str) -> dict[str, str]:
    """Name -> password. Empty lines and lines that begin with # count nothing. Raises UnusableUsers."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableUsers(f"sasl.users.file: {path}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from error
    users: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not colon or not name or not password:
            raise UnusableUsers(f"sasl.users.file: {path}: line {number}: allowed: NAME:PASSWORD")
        if name in users:
            raise UnusableUsers(f"sasl.users.file: {path}: line {number}: {name} occurs twice")
        users[name] = password
    return users


def read_jaas(text: str) -> dict[str, str]:
    """The users of `PlainLoginModule required user_NAME="PASSWORD" ...;`. Raises UnusableUsers."""
    options = _options(text, "Plain", 'user_NAME="..." ...')
    return {name.removeprefix(USER_OPTION): value for name, value in options.items() if name.startswith(USER_OPTION)}


def read_login(text: str, module: str) -> tuple[str, str] | None:
    """Who a broker is for others, and its password: `username="..." password="..."` of a login module, if it has them.

    `module`: Plain or Scram. Raises UnusableUsers.
    """
    options = _options(text, module, 'username="..." password="..."')
    user, password = options.get("username"), options.get("password")
    return None if user is None or password is None else (user, password)


def _options(text: str, module: str, example: str) -> dict[str, str]:
    """The options of a JAAS configuration with one login module. Raises UnusableUsers."""
    name = f"org.apache.kafka.common.security.{module.lower()}.{module}LoginModule"
    where = f"sasl.jaas.config: allowed: {name} required {example};"
    match = _MODULE.match(text)
    if match is None or match[1] != module:
        raise UnusableUsers(where)
    position, options = match.end(), dict[str, str]()
    while option := _OPTION.match(text, position):
        value = option[2]
        options[option[1]] = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
        position = option.end()
    if text[position:].strip() != ";":
        raise UnusableUsers(where)
    return options


class Passwords:
    """Verifies passwords."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._key = secrets.token_bytes(32)
        self._digests = {name: self._digest(password) for name, password in users.items()}
        self._nobody = secrets.token_bytes(32)

    def verify(self, user: str, password: str) -> bool:
        """Whether this is the user's password. An unknown user takes as long."""
        return hmac.compare_digest(self._digests.get(user, self._nobody), self._digest(password))

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode("utf-8", "surrogatepass"), hashlib.sha256)
