"""Stands before the dispatcher of a connection with SASL, and lets through what the client may ask (security/authenticator.py).

Once a client is authenticated and has no end of its session, the connection calls the dispatcher directly. A session that ends
needs a look at each request: the one that comes too late closes the connection (KIP-368).
"""

from collections.abc import Callable
from typing import Any

from coordinator.api.exchange import Exchange, ReplyQueue
from coordinator.api.route import Route
from coordinator.network.dispatch import RefusedFrame
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from coordinator.security.authenticator import API_VERSIONS, Authenticator, SaslState
from coordinator.security.mechanism import AuthenticationFailed
from coordinator.world.schedule import Schedule

Dispatch = Callable[[bytes, ReplyQueue], None]
SESSIONS_SINCE = 1
"""The version of SaslAuthenticate from which clients know that their session ends."""


class SaslGate:
    """The way of one connection to the dispatcher."""

    __slots__ = (
        "_authenticator", "_delay_ms", "_dispatch", "_first_route", "_on_failure", "_schedule", "_versions_max",
    )  # fmt: skip

    def __init__(
        self,
        dispatch: Dispatch,
        authenticator: Authenticator,
        schedule: Schedule,
        delay_ms: int,
        versions_max: int,
        on_failure: Callable[[], None],
    ) -> None:
        """`versions_max`: of ApiVersions; a client that asks with a later one tries again. `delay_ms`: how long a client that
        failed waits for its answer. `on_failure` counts it.
        """
        self._dispatch = dispatch
        self._authenticator = authenticator
        self._schedule = schedule
        self._delay_ms = delay_ms
        self._versions_max = versions_max
        self._on_failure = on_failure
        self._first_route: Route | None = None
        """That of the last SaslHandshake, for answers to messages without a header."""

    def dispatch(self, frame: bytes, queue: ReplyQueue) -> None:
        """Handles a request, or a bare message. Raises RefusedFrame for what the client may not send now."""
        authenticator = self._authenticator
        if authenticator.state is SaslState.TOKENS and not authenticator.sends_headers:
            self._bare_message(frame, queue)
            return
        api_key = int.from_bytes(frame[:2])
        if authenticator.state is SaslState.COMPLETE:
            self._dispatch_authenticated(api_key, frame, queue)
            return
        if not authenticator.allows(api_key):
            self._on_failure()
            raise RefusedFrame(f"a request with API key {api_key} before the client was authenticated")
        self._dispatch(frame, queue)
        if api_key == API_VERSIONS and int.from_bytes(frame[2:4]) <= self._versions_max:
            authenticator.versions_answered()

    def _dispatch_authenticated(self, api_key: int, frame: bytes, queue: ReplyQueue) -> None:
        authenticator = self._authenticator
        if authenticator.begins_again(api_key):
            queue.sasl = self
        elif authenticator.is_over():
            raise RefusedFrame("the session has ended, and the client has not authenticated again")
        self._dispatch(frame, queue)

    def handshake(self, exchange: Exchange[SaslHandshakeRequest]) -> None:
        """Answers a SaslHandshake."""
        self._first_route = exchange.route
        authenticator = self._authenticator
        error = authenticator.handshake(exchange.request.mechanism, exchange.api_version)
        answer = SaslHandshakeResponse(error_code=error, mechanisms=authenticator.mechanisms)
        if error:
            self._fail(
                exchange, lambda: exchange.reply(answer), f"unsupported SASL mechanism {exchange.request.mechanism}"
            )
        else:
            exchange.reply(answer)

    def authenticate(self, exchange: Exchange[SaslAuthenticateRequest]) -> None:
        """Answers a SaslAuthenticate."""
        try:
            answer = self._authenticator.evaluate(exchange.request.auth_bytes)
        except AuthenticationFailed as error:
            refusal = KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))
            self._fail(exchange, lambda: exchange.reply(exchange.refusal(refusal)), str(error))
            return
        self._pass(exchange)
        if answer.refusal:
            # Clients need not acknowledge it: some close the connection.
            self._on_failure()
            exchange.warn(answer.refusal)
        exchange.reply(
            SaslAuthenticateResponse(auth_bytes=answer.message, session_lifetime_ms=answer.session_ms)
            if exchange.api_version >= SESSIONS_SINCE
            else SaslAuthenticateResponse(auth_bytes=answer.message)
        )

    def _bare_message(self, message: bytes, queue: ReplyQueue) -> None:
        assert self._first_route is not None
        exchange: Exchange[Any] = Exchange(self._first_route, queue, None, 0, None)
        queue.exchanges.append(exchange)
        try:
            answer = self._authenticator.evaluate(message).message
        except AuthenticationFailed as error:
            self._fail(exchange, exchange.no_reply, str(error))
            return
        self._pass(exchange)
        exchange.send(len(answer).to_bytes(4) + answer)

    def _pass(self, exchange: Exchange[Any]) -> None:
        """Lets an authenticated client through."""
        authenticator = self._authenticator
        if authenticator.state is SaslState.COMPLETE:
            has_end = authenticator.has_session_end
            exchange.authenticated(authenticator.principal, self.dispatch if has_end else self._dispatch)

    def _fail(self, exchange: Exchange[Any], reply: Callable[[], None], reason: str) -> None:
        """Answers later, which slows down guesses, and closes the connection (`connection.failed.authentication.delay.ms`)."""
        self._on_failure()
        exchange.wait()

        def end() -> None:
            if not exchange.is_over:
                reply()
                exchange.close(reason)

        self._schedule(self._delay_ms, end)
