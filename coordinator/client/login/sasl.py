"""The client's side of SASL: of commands, of workers that ask each other, and of servers that use a Kafka cluster.

SASL takes place on a connection before other requests: SaslHandshake names the mechanism, and SaslAuthenticate carries its
messages (KIP-43, KIP-152).
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from coordinator.client.login.scram import Scram, ScramFailed
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Request, SaslAuthenticateRequest, SaslHandshakeRequest

PLAIN = "PLAIN"
_SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = (PLAIN, *_SCRAM_HASHES)
VERSIONS = {"SaslHandshakeRequest": 1, "SaslAuthenticateRequest": 0}
"""From version 1 of SaslAuthenticate on, a server may expect that the client authenticates again later (KIP-368)."""

Dialog = Generator[Request[Any], Any, None]
"""Yields requests, and gets the response to each."""


class SecurityFailed(Exception):
    """The files are not usable, or the server refuses the user. The text is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sasl:
    """A user, and the mechanism that proves who it is."""

    mechanism: str
    user: str
    password: str = field(repr=False)

    def authenticate(self, ask: Callable[[Request[Any]], Any]) -> None:
        """Authenticates a connection; `ask` sends a request on it and returns the response. Raises SecurityFailed."""
        dialog = self.dialog()
        request = next(dialog, None)
        while request is not None:
            response = ask(request)
            try:
                request = dialog.send(response)
            except StopIteration:
                return

    async def authenticate_async(self, ask: Callable[[Request[Any]], Awaitable[Any]]) -> None:
        """As `authenticate`, on an event loop."""
        dialog = self.dialog()
        request = next(dialog, None)
        while request is not None:
            response = await ask(request)
            try:
                request = dialog.send(response)
            except StopIteration:
                return

    def dialog(self) -> Dialog:
        """The requests that authenticate a connection. Raises SecurityFailed."""
        answer = yield SaslHandshakeRequest(mechanism=self.mechanism)
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise SecurityFailed("this listener of the server has no SASL")
        if answer.error_code:
            known = ", ".join(sorted(answer.mechanisms)) or "none"
            raise SecurityFailed(f"the server does not accept {self.mechanism}; it accepts: {known}")
        if self.mechanism == PLAIN:
            yield from self._exchange(f"\0{self.user}\0{self.password}".encode())
            return
        scram = Scram(_SCRAM_HASHES[self.mechanism], self.user, self.password)
        try:
            challenge = yield from self._exchange(scram.first())
            scram.verify((yield from self._exchange(scram.final(challenge))))
        except (ScramFailed, ValueError) as error:
            raise SecurityFailed(f"{self.mechanism}: {error}") from error

    def _exchange(self, message: bytes) -> Generator[Request[Any], Any, bytes]:
        outcome = yield SaslAuthenticateRequest(auth_bytes=message)
        if outcome.error_code:
            reason = outcome.error_message or ErrorCode(outcome.error_code).name
            raise SecurityFailed(f"the server refuses user {self.user}: {reason}")
        data: bytes = outcome.auth_bytes
        return data
