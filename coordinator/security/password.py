"""PLAIN (RFC 4616): the client sends its password (Kafka: `PlainSaslServer`, whose texts these are)."""

from coordinator.security.mechanism import AuthenticationFailed
from coordinator.security.users import Passwords


class Plain:
    """One authentication."""

    expires_ms: int | None = None
    refusal = ""
    by_token = False

    def __init__(self, passwords: Passwords) -> None:
        self.user: str | None = None
        self._passwords = passwords

    def evaluate(self, message: bytes) -> bytes:
        """Raises AuthenticationFailed."""
        fields = message.decode("utf-8", "replace").split("\0", 3)
        if len(fields) != 3:
            raise AuthenticationFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(fields)}")
        acts_as, user, password = fields
        for name, value in (("username", user), ("password", password)):
            if not value:
                raise AuthenticationFailed(f"Authentication failed: {name} not specified")
        if not self._passwords.verify(user, password):
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        if acts_as and acts_as != user:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        return b""
