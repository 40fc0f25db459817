"""The credentials of one SCRAM mechanism: of users in the metadata log, of users in a file, of tokens, and made-up ones.

An unknown user gets a made-up credential that no password fits, so that the server's first message does not show who exists:

    salt          an HMAC of the name. The key is kept, so that a restart changes neither these salts nor those of the file
    its length and characters, and the iterations
                  those of a credential that there is. If there are several kinds, the HMAC chooses one for each name

The key is in the metadata log, as the salt of a credential without a name, which no client can set. So all workers have it.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import NamedTuple

from coordinator.protocol.messages import UserScramCredentialRecord
from coordinator.security.scram import CODES, ITERATIONS_MIN, Credential, Found, credential_of_password

Kept = Mapping[tuple[str, int], UserScramCredentialRecord]
SALT_BYTES = 32
KEY = ("", 0)
"""The place of the key among the credentials, by name and mechanism."""
_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"
"""The characters of the salts that Kafka's clients choose."""


def key_record(key: bytes) -> UserScramCredentialRecord:
    """The record that keeps the key."""
    name, mechanism = KEY
    return UserScramCredentialRecord(name=name, mechanism=mechanism, salt=key)


class _Kind(NamedTuple):
    """What a client can see of a credential without its password."""

    salt_bytes: int
    iterations: int
    has_digits: bool
    """Whether the salt has characters of `_DIGITS` only."""


_OF_FILE = _Kind(SALT_BYTES, ITERATIONS_MIN, has_digits=False)


class ScramUsers:
    """Finds credentials."""

    def __init__(
        self,
        mechanism: str,
        kept: Kept,
        passwords: Mapping[str, str],
        spare_key: bytes,
        find_token: Callable[[str], Found | None] = lambda _: None,
    ) -> None:
        """`kept`: the credentials of the metadata log. `passwords`: by user. `spare_key`: used until the log has the key."""
        self._mechanism = mechanism
        self._code = CODES[mechanism]
        self._kept = kept
        self._passwords = passwords
        self._spare_key = spare_key
        self._find_token = find_token
        self._of_file: dict[str, Credential] = {}
        self._kinds: list[_Kind] = [_OF_FILE]
        self._kinds_of: tuple[int, UserScramCredentialRecord | None] = 0, None
        """The number of credentials, and the last one, when `_kinds` were collected."""

    def find(self, name: str, *, is_token: bool) -> Found:
        """The credential of a user, or of the delegation token with this id."""
        if is_token:
            return self._find_token(name) or Found(self._made_up(f"token {name}", _OF_FILE), None)
        record = self._kept.get((name, self._code))
        if record is not None:
            return Found(Credential(record.salt, record.stored_key, record.server_key, record.iterations), name)
        password = self._passwords.get(name)
        if password is not None:
            if name not in self._of_file:
                salt = self._salt(name, _OF_FILE)
                self._of_file[name] = credential_of_password(self._mechanism, password, salt, ITERATIONS_MIN)
            return Found(self._of_file[name], name)
        kinds = self._present_kinds()
        return Found(self._made_up(name, kinds[self._digest("kind", name)[0] % len(kinds)]), None)

    def _made_up(self, name: str, kind: _Kind) -> Credential:
        return Credential(
            self._salt(name, kind), self._digest("stored", name), self._digest("server", name), kind.iterations
        )

    def _salt(self, name: str, kind: _Kind) -> bytes:
        salt = b"".join(self._digest(f"salt {part}", name) for part in range(-(-kind.salt_bytes // 64)))
        if kind.has_digits:
            salt = bytes(_DIGITS[each % len(_DIGITS)] for each in salt)
        return salt[: kind.salt_bytes]

    def _digest(self, what: str, name: str) -> bytes:
        kept = self._kept.get(KEY)
        key = self._spare_key if kept is None else kept.salt
        size = 64 if what.startswith("salt") else hashlib.new(self._hash).digest_size
        return hmac.digest(key, f"{self._mechanism} {what} {name}".encode(), hashlib.sha512)[:size]

    @property
    def _hash(self) -> str:
        return "sha256" if self._mechanism.endswith("256") else "sha512"

    def _present_kinds(self) -> list[_Kind]:
        """The kinds of the credentials that there are. Collected again after a change: the last record is then another one."""
        last = next(reversed(self._kept.values()), None) if self._kept else None  # type: ignore[call-overload]
        if self._kinds_of != (len(self._kept), last):
            found = {_kind(each) for (name, code), each in self._kept.items() if name and code == self._code}
            self._kinds = sorted(found | {_OF_FILE} if self._passwords or not found else found)
            self._kinds_of = len(self._kept), last
        return self._kinds


def _kind(record: UserScramCredentialRecord) -> _Kind:
    return _Kind(len(record.salt), record.iterations, all(each in _DIGITS for each in record.salt))
