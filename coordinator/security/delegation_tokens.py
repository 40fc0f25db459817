"""Delegation tokens: credentials that a user creates for programs, which expire (KIP-48, KIP-373).

A token is a record of the metadata log without a secret: the password is the HMAC of its id with `delegation.token.secret.key`,
so whoever reads the log cannot authenticate. A client authenticates by SCRAM with the id as its name and the extension
`tokenauth=true`, and then is the token's owner.

The operations decide as Kafka's DelegationTokenControlManager: each returns the record of the change, or raises KafkaError.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence

from coordinator.config.delegation_tokens import DelegationTokensConfig
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DelegationTokenRecord, RemoveDelegationTokenRecord
from coordinator.security.principal import ANONYMOUS, USER, Principal, TokenPrincipal
from coordinator.security.scram import ITERATIONS_MIN, Credential, Found, credential_of_password

TOKENS_MAX = 100_000
"""The most tokens that there can be. Kafka has no bound."""
_SALT_BYTES = 32

Kept = Mapping[str, DelegationTokenRecord]


def principal_of(text: str) -> Principal:
    """The principal of a text such as "User:alice"."""
    kind, _, name = text.partition(":")
    return Principal(kind, name)


def is_of(token: DelegationTokenRecord, principal: Principal) -> bool:
    """Whether a principal is the owner of a token, its requester or one of its renewers (`TokenInformation.ownerOrRenewer`)."""
    return str(principal) in (token.owner, token.requester, *token.renewers)


class DelegationTokens:
    """The tokens of a server."""

    def __init__(self, config: DelegationTokensConfig, kept: Kept, wall_ms: Callable[[], int]) -> None:
        """`kept`: the tokens of the metadata log, by id."""
        self._key = str.__str__(config.delegation_token_secret_key).encode()
        self._max_lifetime_ms = config.delegation_token_max_lifetime_ms
        self._expiry_time_ms = config.delegation_token_expiry_time_ms
        self._kept = kept
        self._wall_ms = wall_ms
        self._hmacs: dict[bytes, str] = {}
        """HMAC -> id, of the tokens that there were at the last look."""
        self._credentials: dict[tuple[str, str], Credential] = {}
        """By mechanism and id, of tokens with which clients have authenticated."""

    @property
    def is_enabled(self) -> bool:
        return bool(self._key)

    def check_request(self, principal: Principal) -> None:
        """Raises DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: who has not authenticated, or by a token, may not ask about tokens."""
        if principal == ANONYMOUS or isinstance(principal, TokenPrincipal):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)

    def check_enabled(self) -> None:
        """Raises DELEGATION_TOKEN_AUTH_DISABLED."""
        if not self.is_enabled:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def hmac(self, token_id: str) -> bytes:
        """The password of a token, which clients send in base64."""
        return hmac.digest(self._key, token_id.encode(), hashlib.sha512)

    # --- operations ---------------------------------------------------------------------------------------------------

    def creation(
        self, owner: Principal, requester: Principal, renewers: Sequence[Principal], max_lifetime_ms: int, uuid: bytes
    ) -> DelegationTokenRecord:
        """The record of a new token. A lifetime of 0 or less is the longest.

        Raises INVALID_PRINCIPAL_TYPE, DELEGATION_TOKEN_AUTH_DISABLED, POLICY_VIOLATION.
        """
        if any(each.kind != USER for each in renewers):
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        self.check_enabled()
        if len(self._kept) >= TOKENS_MAX:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        now_ms = self._wall_ms()
        lifetime_ms = self._max_lifetime_ms if max_lifetime_ms <= 0 else min(max_lifetime_ms, self._max_lifetime_ms)
        return DelegationTokenRecord(
            owner=str(owner),
            requester=str(requester),
            renewers=[str(each) for each in renewers],
            issue_timestamp=now_ms,
            max_timestamp=now_ms + lifetime_ms,
            expiration_timestamp=now_ms + min(lifetime_ms, self._expiry_time_ms),
            token_id=base64.urlsafe_b64encode(uuid).rstrip(b"=").decode(),
        )

    def renewal(self, password: bytes, period_ms: int, principal: Principal) -> tuple[DelegationTokenRecord, int]:
        """The record that renews a token, and until when (ms).

        For the period, if it is positive, at most for `delegation.token.expiry.time.ms`.

        Raises DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH.
        """
        self.check_enabled()
        token = self._find(password)
        self._check_alive(token)
        self._check_renewer(token, principal)
        record = self._expiring(token, min(period_ms, self._expiry_time_ms) if period_ms > 0 else self._expiry_time_ms)
        return record, record.expiration_timestamp

    def expiration(
        self, password: bytes, period_ms: int, principal: Principal
    ) -> tuple[DelegationTokenRecord | RemoveDelegationTokenRecord, int]:
        """The record that sets when a token expires, or removes it if the period is negative, and when that is (ms).

        Raises as `renewal`.
        """
        self.check_enabled()
        token = self._find(password)
        self._check_renewer(token, principal)
        if period_ms < 0:
            return RemoveDelegationTokenRecord(token_id=token.token_id), self._wall_ms()
        self._check_alive(token)
        record = self._expiring(token, period_ms)
        return record, record.expiration_timestamp

    def expired(self) -> list[RemoveDelegationTokenRecord]:
        """The records that remove the tokens which have expired."""
        now_ms = self._wall_ms()
        return [
            RemoveDelegationTokenRecord(token_id=token.token_id)
            for token in self._kept.values()
            if min(token.expiration_timestamp, token.max_timestamp) < now_ms
        ]

    # --- authentication -----------------------------------------------------------------------------------------------

    def find_credential(self, mechanism: str, token_id: str) -> Found | None:
        """The SCRAM credential of a token; None if there is none, or it has expired."""
        token = self._kept.get(token_id)
        if token is None or not self.is_enabled or token.expiration_timestamp <= self._wall_ms():
            self._credentials.pop((mechanism, token_id), None)
            return None
        made = self._credentials.get((mechanism, token_id))
        if made is None:
            password = base64.b64encode(self.hmac(token_id)).decode()
            salt = hmac.digest(self._key, f"{mechanism} salt {token_id}".encode(), hashlib.sha512)[:_SALT_BYTES]
            made = credential_of_password(mechanism, password, salt, ITERATIONS_MIN)
            self._credentials[mechanism, token_id] = made
        return Found(made, principal_of(token.owner).name, token.expiration_timestamp)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _find(self, password: bytes) -> DelegationTokenRecord:
        hmacs = self._hmacs
        if set(hmacs.values()) != self._kept.keys():
            known = {token_id: each for each, token_id in hmacs.items()}
            hmacs = self._hmacs = {known.get(token_id) or self.hmac(token_id): token_id for token_id in self._kept}
        token_id = hmacs.get(password)
        if token_id is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return self._kept[token_id]

    def _check_alive(self, token: DelegationTokenRecord) -> None:
        if min(token.expiration_timestamp, token.max_timestamp) < self._wall_ms():
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)

    def _check_renewer(self, token: DelegationTokenRecord, principal: Principal) -> None:
        if str(principal) not in (token.owner, *token.renewers):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)

    def _expiring(self, token: DelegationTokenRecord, period_ms: int) -> DelegationTokenRecord:
        expires_ms = min(token.max_timestamp, self._wall_ms() + period_ms)
        return DelegationTokenRecord(
            owner=token.owner,
            requester=token.requester,
            renewers=token.renewers,
            issue_timestamp=token.issue_timestamp,
            max_timestamp=token.max_timestamp,
            expiration_timestamp=expires_ms,
            token_id=token.token_id,
        )
