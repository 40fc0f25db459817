"""Between an answer and its connection: what a rule does to the bytes, when every layer has had the message."""

from collections.abc import Callable
from typing import Any, cast

from coordinator.api.exchange import Exchange, Parts, ReplyQueue
from coordinator.rules.faults import Fault
from coordinator.world.schedule import Schedule

SIZE_BYTES = 4
TICK_MS = 100
"""A slow answer leaves in pieces, one in this time."""
Payload = bytes | Parts


class Outlet:
    """Stands for the connection of one request, and takes its answer in place of the connection."""

    def __init__(self, exchange: Exchange[Any], take: Callable[[Payload], None]) -> None:
        """`take` has the answer, once, and calls `give` or closes the connection."""
        self._exchange = exchange
        self._queue = exchange.queue
        self._take = take
        exchange.queue = cast(ReplyQueue, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def ready(self) -> None:
        """The answer has been given (called by the exchange)."""
        exchange = self._exchange
        payload, exchange.payload, exchange.queue = exchange.payload, None, self._queue
        assert payload is not None
        self._take(payload)

    @staticmethod
    def give(exchange: Exchange[Any], payload: Payload) -> None:
        """Gives the connection an answer that has been counted and timed."""
        exchange.payload = payload
        exchange.on_close = None
        exchange.queue.ready()


def put(exchange: Exchange[Any], fault: Fault, schedule: Schedule) -> None:
    """Lets the answer, which comes next, leave as the rule says: damaged, slowly, as the last one."""
    action = fault.rule.action
    closes = action.close is not None or action.cut_after is not None
    if action.bytes_per_s is None and action.flip_bits is None and action.size is None and action.cut_after is None:
        if closes:
            exchange.queue.cut(exchange)
        return

    def leave(payload: Payload) -> None:
        frame = _damaged(fault, payload if isinstance(payload, bytes) else b"".join(payload.parts))
        if action.bytes_per_s is not None:
            _trickle(exchange, fault, schedule, frame, closes=closes)
            return
        if closes:
            exchange.queue.cut(exchange)
        Outlet.give(exchange, frame)

    Outlet(exchange, leave)


def _damaged(fault: Fault, payload: bytes) -> bytes:
    action, frame = fault.rule.action, bytearray(payload)
    if action.flip_bits is not None and len(frame) > SIZE_BYTES:
        first, end = SIZE_BYTES * 8, len(frame) * 8
        for bit in fault.random.sample(range(first, end), min(action.flip_bits, end - first)):
            frame[bit >> 3] ^= 1 << (bit & 7)
    if action.size is not None and frame:
        frame[:SIZE_BYTES] = action.size.to_bytes(SIZE_BYTES, signed=True)
    return bytes(frame[: action.cut_after])


class _Rest:
    """What has not left yet of a slow answer; in the queue of its connection behind what has."""

    def __init__(self, abandon: Callable[["_Rest"], None]) -> None:
        self.payload: bytes | None = None
        self._abandon = abandon

    def abandon(self) -> None:
        """The connection is gone."""
        self._abandon(self)


def _trickle(exchange: Exchange[Any], fault: Fault, schedule: Schedule, frame: bytes, *, closes: bool) -> None:
    """Gives the answer in pieces, at the rate of the rule; the rest at once when the rule is cleared."""
    queue = exchange.queue
    rate = max(1, (fault.rule.action.bytes_per_s or 1) * TICK_MS // 1000)
    tick_ms = max(TICK_MS, rate * 1000 // (fault.rule.action.bytes_per_s or 1))

    def leave(place: Any, left: bytes) -> None:
        now, later = (left, b"") if fault.is_cleared else (left[:rate], left[rate:])
        if later:
            rest = _Rest(fault.forget)
            queue.exchanges.insert(queue.exchanges.index(place) + 1, cast(Exchange[Any], rest))
            fault.delay(rest, schedule, tick_ms, lambda: leave(rest, later))
        elif closes:
            queue.cut(place)
        place.payload = now
        queue.ready()

    leave(exchange, frame)
