"""The state of one connection with SASL (KIP-43, KIP-152, KIP-368; Kafka: `SaslServerAuthenticator`).

    INITIAL     ApiVersions or SaslHandshake
    VERSIONS    ApiVersions was answered: SaslHandshake
    TOKENS      the mechanism is known: SaslAuthenticate; after a SaslHandshake v0, messages without a header
    COMPLETE    every API, and SaslHandshake to authenticate again
    FAILED      nothing

Before COMPLETE the key of a request is checked before anything else of it is decoded. Authenticating again keeps the mechanism
and the principal.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode
from coordinator.security.mechanism import AuthenticationFailed, MakeMechanism, Mechanism
from coordinator.security.principal import ANONYMOUS, USER, Principal, TokenPrincipal
from coordinator.world.clock import Clock

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
REAUTHENTICATION_MS_MIN = 1_000
"""The least time between two authentications after the first (Kafka: MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS of KafkaChannel)."""


class SaslState(Enum):
    """Where the authentication is."""

    INITIAL = auto()
    VERSIONS = auto()
    TOKENS = auto()
    COMPLETE = auto()
    FAILED = auto()


class Answer(NamedTuple):
    """The answer to a message."""

    message: bytes
    session_ms: int
    """How long the client may go on before it authenticates again; 0: for ever, or the authentication is not complete."""
    refusal: str = ""
    """Why the client is refused, for the server's log; empty if it is not."""


class MechanismSetup(NamedTuple):
    """A mechanism of a listener."""

    make: MakeMechanism
    session_ms_max: int
    """connections.max.reauth.ms; 0: none."""


_ALLOWED = {
    SaslState.INITIAL: (API_VERSIONS, SASL_HANDSHAKE),
    SaslState.VERSIONS: (SASL_HANDSHAKE,),
    SaslState.TOKENS: (SASL_AUTHENTICATE,),
    SaslState.FAILED: (),
}


class Authenticator:
    """The authentication of one connection."""

    __slots__ = (
        "_began_again_ms", "_clock", "_ends_ms", "_mechanism", "_name", "_setups",
        "principal", "sends_headers", "state",
    )  # fmt: skip

    def __init__(self, setups: Mapping[str, MechanismSetup], clock: Clock) -> None:
        self.principal = ANONYMOUS
        self.state = SaslState.INITIAL
        self.sends_headers = True
        """Whether the client's messages are in SaslAuthenticate requests."""
        self._setups = setups
        self._clock = clock
        self._name = ""
        self._mechanism: Mechanism | None = None
        self._began_again_ms: int | None = None
        self._ends_ms: int | None = None

    @property
    def mechanisms(self) -> list[str]:
        """The names of the enabled mechanisms."""
        return list(self._setups)

    @property
    def has_session_end(self) -> bool:
        """Whether the client must authenticate again some time."""
        return self._ends_ms is not None

    def allows(self, api_key: int) -> bool:
        """Whether a request may be decoded now."""
        return self.state is SaslState.COMPLETE or api_key in _ALLOWED[self.state]

    def versions_answered(self) -> None:
        """Notes that the client has got its one answer to ApiVersions."""
        self.state = SaslState.VERSIONS

    def is_over(self) -> bool:
        """Whether the session has ended, so that the connection must close at the next request."""
        return self._ends_ms is not None and self._clock.monotonic_ms() >= self._ends_ms

    def begins_again(self, api_key: int) -> bool:
        """Whether a request of an authenticated client begins another authentication, which is noted."""
        if api_key != SASL_HANDSHAKE or self._ends_ms is None:
            return False
        now_ms, last_ms = self._clock.monotonic_ms(), self._began_again_ms
        if last_ms is not None and now_ms - last_ms < REAUTHENTICATION_MS_MIN:
            return False
        self._began_again_ms = now_ms
        return True

    def handshake(self, name: str, version: int) -> ErrorCode:
        """Begins with a mechanism. UNSUPPORTED_SASL_MECHANISM ends the authentication."""
        self.sends_headers = version >= 1
        if name not in self._setups:
            self.state = SaslState.FAILED
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        if self._name and name != self._name:
            self._mechanism = None
        else:
            self._name = name
            self._mechanism = self._setups[name].make()
        self.state = SaslState.TOKENS
        return ErrorCode.NONE

    def evaluate(self, message: bytes) -> Answer:
        """The answer to the client's next message. Raises AuthenticationFailed with a text for the client."""
        try:
            return self._evaluate(message)
        except AuthenticationFailed as error:
            again = "" if self.principal is ANONYMOUS else "re-"
            common = f"{again}authentication due to invalid credentials with SASL mechanism {self._name}"
            self.state = SaslState.FAILED
            raise AuthenticationFailed(str(error) or f"Authentication failed during {common}") from error

    def _evaluate(self, message: bytes) -> Answer:
        mechanism = self._mechanism
        if mechanism is None:
            raise AuthenticationFailed(
                f"another SASL mechanism is not supported for re-authentication of mechanism '{self._name}'"
            )
        answer = mechanism.evaluate(message)
        if mechanism.user is None:
            return Answer(answer, 0, mechanism.refusal)
        self._complete((TokenPrincipal if mechanism.by_token else Principal)(USER, mechanism.user))
        return Answer(answer, self._begin_session(mechanism.expires_ms))

    def _complete(self, principal: Principal) -> None:
        if self.principal is not ANONYMOUS and principal != self.principal:
            old, new = self.principal, principal
            raise AuthenticationFailed(
                f"Cannot change principals during re-authentication from {old.kind}.{old.name}: {new.kind}.{new.name}"
            )
        self.principal = principal
        self.state = SaslState.COMPLETE
        self._mechanism = None

    def _begin_session(self, expires_ms: int | None) -> int:
        """The length (ms) of the session that begins: that of the credential or the setting, whichever is shorter."""
        lengths = [self._setups[self._name].session_ms_max] if self._setups[self._name].session_ms_max else []
        if expires_ms is not None:
            lengths.append(max(0, expires_ms - self._clock.wall_ms()))
        self._ends_ms = self._clock.monotonic_ms() + min(lengths) if lengths else None
        return min(lengths, default=0)
