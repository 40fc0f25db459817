"""The connection to a broker that belongs to one client connection, so that Kafka's order, fetch sessions and throttling hold.

Requests leave in the order in which they came, and a broker answers in the same order: the next response belongs to the oldest
request. It leaves to the client in the place of that request, in front of responses of this server to later ones.

    the client does not read       its connection handles no request (network/flow_control.py), and the broker's is not read
    memory is taken                a large response is not read any further, until there is some
    the broker does not read       the requests of this connection wait; those behind stay in the socket
    the broker is lost             the client's connection closes, as if the broker had closed it
    the client is lost             the broker's connection closes

On the main listener, where any broker serves, a lost broker concerns only clients that wait for it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from coordinator.api.exchange import Exchange, Parts
from coordinator.client.asynchronous import Link, ignore_loss
from coordinator.client.conversation import LinkFailed, Response
from coordinator.network.connection import Connection
from coordinator.protocol.codec import DecodeError
from coordinator.runtime.memory import COUNTED_BYTES, Memory

Rewrite = Callable[[bytes], bytes | Awaitable[bytes]]
"""Makes the response that the client gets; at once, or when a listener is open. Raises DecodeError."""


class ForwardedExchange(Exchange[None]):
    """A request whose response comes from a broker."""

    __slots__ = ("rewrite",)

    rewrite: Rewrite | None
    """None: the response passes as it is."""


class UpstreamConnection:
    """The connection to a broker on behalf of one client."""

    def __init__(
        self, client: Connection, open_link: Callable[[], Awaitable[Link]], memory: Memory, *, is_bound: bool
    ) -> None:
        """`is_bound`: the client means this broker; without the broker its connection has no use."""
        self._client = client
        self._open_link = open_link
        self._memory = memory
        self._is_bound = is_bound
        self._link: Link | None = None
        self._opening: asyncio.Task[None] | None = None
        self._unsent: deque[tuple[bytes, ForwardedExchange, bool]] = deque()
        self._waiting: deque[ForwardedExchange] = deque()
        self._silent: list[ForwardedExchange] = []
        """Requests without a response that wait until the broker takes more."""
        self._rewrites: set[asyncio.Task[None]] = set()
        self._reserved_bytes = 0
        """Memory for the large response that is arriving."""
        self._is_starved = False
        """Whether that response waits for memory."""
        self._is_closed = False

    # --- requests -----------------------------------------------------------------------------------------------------

    def forward(self, frame: bytes, exchange: ForwardedExchange, *, is_answered: bool) -> None:
        """Sends a request frame, without its size field. `is_answered`: the broker responds to it."""
        if self._link is not None and not self._link.is_lost:
            self._send(self._link, frame, exchange, is_answered=is_answered)
            return
        self._unsent.append((frame, exchange, is_answered))
        exchange.wait()  # what comes behind stays where it is until there is a connection
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())

    def _send(self, link: Link, frame: bytes, exchange: ForwardedExchange, *, is_answered: bool) -> None:
        if is_answered:
            self._waiting.append(exchange)
        link.send(len(frame).to_bytes(4), frame)
        if link.is_full:
            exchange.wait()
        if not is_answered:
            if link.is_full:
                self._silent.append(exchange)
            else:
                exchange.no_reply()

    async def _open(self) -> None:
        try:
            link = await self._open_link()
        except LinkFailed as error:
            self._opening = None
            self._client.refuse(f"no connection to the cluster: {error}")
            return
        self._opening = None
        if self._is_closed:
            link.close()
            return
        self._link = link
        link.on_response, link.on_lost, link.on_drained = self._answered, self._broker_lost, self._drained
        link.responses.large_bytes, link.responses.on_large = COUNTED_BYTES, self._reserve
        while self._unsent:
            frame, exchange, is_answered = self._unsent.popleft()
            self._send(link, frame, exchange, is_answered=is_answered)

    def _drained(self) -> None:
        silent, self._silent = self._silent, []
        for exchange in silent:
            exchange.no_reply()

    # --- responses ----------------------------------------------------------------------------------------------------

    def _answered(self, response: Response) -> None:
        self._give_back()
        exchange = self._waiting.popleft() if self._waiting else None
        if exchange is None or not _is_for(exchange, response):
            self._client.refuse("the broker sent a response without a request")
            self.close()
            return
        if exchange.rewrite is None:
            self._reply(exchange, response)
        else:
            self._rewrite(exchange, exchange.rewrite, b"".join(response))
        if self._client.is_blocked and self._link is not None:
            self._link.pause()

    def _rewrite(self, exchange: ForwardedExchange, rewrite: Rewrite, frame: bytes) -> None:
        try:
            changed = rewrite(frame)
        except DecodeError as error:
            self._refuse_response(exchange, error)
            return
        if isinstance(changed, bytes):
            self._reply(exchange, [changed])
            return
        task = asyncio.ensure_future(self._reply_later(exchange, changed))
        self._rewrites.add(task)
        task.add_done_callback(self._rewrites.discard)

    async def _reply_later(self, exchange: ForwardedExchange, changed: Awaitable[bytes]) -> None:
        try:
            self._reply(exchange, [await changed])
        except DecodeError as error:
            self._refuse_response(exchange, error)

    def _refuse_response(self, exchange: ForwardedExchange, error: DecodeError) -> None:
        self._client.refuse(f"the broker's response is not one to {exchange.route.name}: {error}")

    def _reply(self, exchange: ForwardedExchange, response: Response) -> None:
        exchange.route.answered += 1
        size = sum(map(len, response))
        if size > COUNTED_BYTES:
            self._client.count(size)
            exchange.send(Parts(size, response))
        else:
            exchange.send(response[0] if len(response) == 1 else b"".join(response))

    def client_reads(self) -> None:
        """Reads the broker's connection again, because the client reads."""
        if self._link is not None and not self._is_starved:
            self._link.resume()

    # --- memory -------------------------------------------------------------------------------------------------------

    def _reserve(self, size: int) -> None:
        """Takes memory for a large response, or stops reading until there is some."""
        if self._memory.has_room():
            self._take(size)
        elif self._link is not None:
            self._is_starved = True
            self._link.pause()
            self._memory.wait(self._has_memory)

    def _has_memory(self) -> None:
        self._is_starved = False
        if self._link is not None and not self._client.is_blocked:
            self._link.resume()

    def _take(self, size: int) -> None:
        self._memory.take(size)
        self._reserved_bytes = size

    def _give_back(self) -> None:
        self._memory.forget(self._has_memory)
        self._is_starved = False
        if self._reserved_bytes:
            self._memory.give_back(self._reserved_bytes)
            self._reserved_bytes = 0

    # --- the end ------------------------------------------------------------------------------------------------------

    def _broker_lost(self) -> None:
        self._give_back()
        self._link = None
        if self._is_bound or self._waiting or self._silent:
            self._client.refuse("the broker closed its connection")
        self._waiting.clear()

    def close(self) -> None:
        """Closes the connection to the broker, because the client's is gone."""
        self._is_closed = True
        self._give_back()
        for task in (*self._rewrites, *([self._opening] if self._opening is not None else [])):
            task.cancel()
        if self._link is not None:
            self._link.on_lost = ignore_loss
            self._link.close()
            self._link = None


def _is_for(exchange: Exchange[Any], response: Response) -> bool:
    head = response[0] if len(response[0]) >= 8 else b"".join(response)
    return int.from_bytes(head[4:8], signed=True) == exchange.correlation_id
