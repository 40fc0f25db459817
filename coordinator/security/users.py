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
_MODULE = re.compile(r"\s*[\w.$]*PlainLoginModule\s+(?:required|requisite|sufficient|optional)\b")
_USER_OPTION = "user_"


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
    where = 'sasl.jaas.config: allowed: org.apache.kafka.common.security.plain.PlainLoginModule required user_NAME="..." ...;'
    match = _MODULE.match(text)
    if match is None:
        raise UnusableUsers(where)
    position, users = match.end(), dict[str, str]()
    while option := _OPTION.match(text, position):
        name, value = option[1], option[2]
        if name.startswith(_USER_OPTION):
            users[name.removeprefix(_USER_OPTION)] = (
                re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
            )
        position = option.end()
    if text[position:].strip() != ";":
        raise UnusableUsers(where)
    return users


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
