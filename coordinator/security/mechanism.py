"""What the SASL mechanisms share (RFC 4422): one authentication, message by message."""

from collections.abc import Callable
from typing import Protocol


class AuthenticationFailed(Exception):
    """The client is not who it says it is. The text, if any, is for the client; without one it gets the common text, so that it
    does not learn whether there is such a user."""


class Mechanism(Protocol):
    """The server's side of one authentication."""

    @property
    def user(self) -> str | None:
        """The name of the user who has proved to be it; None until then."""

    @property
    def by_token(self) -> bool:
        """Whether the user has proved it by a delegation token."""

    @property
    def expires_ms(self) -> int | None:
        """Until when (wall clock, ms) the credential is valid; None: for ever."""

    @property
    def refusal(self) -> str:
        """Why the client is refused, for the server's log, if the client only has to acknowledge that it is; else empty."""

    def evaluate(self, message: bytes) -> bytes:
        """The answer to the client's next message. Raises AuthenticationFailed."""


MakeMechanism = Callable[[], Mechanism]
