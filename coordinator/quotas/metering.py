"""Counts the requests of clients that have quotas, and lets those wait that exceed them (quotas/).

The layer is in a route while a quota that can concern its API exists (api/route.py). Every other route is as if this module
did not exist. The requests of a client that has no limit pass.

A limited client's requests are handled one at a time, as Kafka handles those of every connection: what it sends next is not
handled before its answer, and the wait that follows, are known. The answer leaves at once and has the time; then the connection
is muted for as long (KIP-219). Fault rules and recordings come before: what leaves in the end is counted.

Clients wait by their own clocks, so rates and waits go by the machine's, which no test can stop.
"""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator.api.declaration import Api, QuotaType
from coordinator.api.exchange import Exchange, LayeredExchange, Parts, ReplyQueue
from coordinator.api.muting import mute
from coordinator.api.payloads import throttled
from coordinator.api.route import Handle
from coordinator.api.server import Server
from coordinator.api.sliced_work import Pieces
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message
from coordinator.quotas.enforcement import Budget, ClientQuotas
from coordinator.world.clock import Clock
from coordinator.world.schedule import Schedule

_log = logging.getLogger(__name__)

Payload = bytes | Parts

_SIZE_BYTES = 4
_OVER = object()


class Wait(NamedTuple):
    """For how long a client has to wait, and because of which quota."""

    throttle_ms: int
    kind: QuotaType


class Metering:
    """The layer of quotas."""

    def __init__(self, quotas: ClientQuotas, clock: Clock, schedule: Schedule) -> None:
        """`schedule`: by the machine's clock."""
        self.quotas = quotas
        self.clock = clock
        self.schedule = schedule
        self.subscribers: list[Callable[[Exchange[Any], Wait], None]] = []
        """Called with each request whose client has to wait, when it has its answer."""

    has_answers = True

    def concerns(self, api: Api[Any]) -> bool:
        return any(map(self.quotas.limits, api.quotas))

    def around(self, _api: Api[Any], handle: Handle) -> Handle:
        def metered(server: Server, exchange: Exchange[Any]) -> None:
            queue = exchange.queue
            budget = self.quotas.budget(queue.principal.name, exchange.client_id)
            if budget is None or queue.sasl is not None:
                handle(server, exchange)
                return
            assert isinstance(exchange, LayeredExchange)
            meter = exchange.meter = Meter(self, exchange, budget)
            exchange.join(meter)
            exchange.wait()
            meter.limit_fetch()
            try:
                handle(server, exchange)
            finally:
                meter.handled()

        return metered

    def needs_all(self, queue: ReplyQueue, client_id: str | None) -> bool:
        return self.quotas.budget(queue.principal.name, client_id) is not None


class Meter:
    """One request of a client that has a limit."""

    __slots__ = (
        "_began_ns", "_budget", "_busy_ns", "_exchange", "_frame_bytes", "_metering", "_waits", "_was_admitted",
    )  # fmt: skip

    def __init__(self, metering: Metering, exchange: LayeredExchange[Any], budget: Budget) -> None:
        self._metering = metering
        self._exchange = exchange
        self._budget = budget
        self._frame_bytes = exchange.queue.frame_bytes
        self._began_ns = metering.clock.work_ns()
        self._busy_ns: int | None = None
        self._waits: list[Wait] = []
        self._was_admitted = False

    def handled(self) -> None:
        """The handler has returned; the request may still wait for its answer, which takes none of the server's time."""
        self._busy_ns = self._metering.clock.work_ns() - self._began_ns

    def timed(self, pieces: Pieces) -> Pieces:
        """The same pieces of work; the time of those that are done after the handler has returned counts as well."""
        work_ns = self._metering.clock.work_ns
        while True:
            began_ns = work_ns()
            is_over = next(pieces, _OVER) is _OVER
            if self._busy_ns is not None:
                self._busy_ns += work_ns() - began_ns
            if is_over:
                return
            yield

    def limit_fetch(self) -> None:
        """Lets a Fetch return no more than its client may have in all windows: with more it would never get anything."""
        exchange, share = self._exchange, self._budget.fetch
        if QuotaType.FETCH in exchange.route.api.quotas and share is not None:
            # The order matters for a limit that is no number.
            most = min(exchange.request.max_bytes, self._metering.quotas.fetch.most_at_once(share.limit))
            exchange.request.max_bytes = int(most)

    def admit(self, response: Message) -> bool:
        """Counts the answer to a Fetch; returns whether the client may have it. If not, it does not count."""
        self._was_admitted = True
        size_bytes = _SIZE_BYTES + sum(map(len, self._exchange.route.encode_parts(response)))
        self._count_request()
        share = self._budget.fetch
        if share is not None:
            self._count_bytes(QuotaType.FETCH, size_bytes)
            if self._waits:
                quotas = self._metering.quotas
                quotas.fetch.take_back(share.account, size_bytes, self._metering.clock.machine_ms())
                quotas.throttling.bytes[QuotaType.FETCH] -= size_bytes
        return not self._waits

    def count_mutation(self, partitions: int) -> None:
        """Counts partitions that are created or deleted. Raises THROTTLING_QUOTA_EXCEEDED."""
        route = self._exchange.route
        is_strict = route.version >= route.api.mutations_strict_since
        throttle_ms = self._mutation_throttle_ms(partitions, is_strict=is_strict)
        if throttle_ms:
            self._waits.append(Wait(throttle_ms, QuotaType.CONTROLLER_MUTATION))
            if is_strict:
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    def allows_mutation(self, partitions: int) -> bool:
        """Counts partitions that are created on the way, unless the client would have to wait."""
        return not self._mutation_throttle_ms(partitions, is_strict=True)

    def _mutation_throttle_ms(self, partitions: int, *, is_strict: bool) -> int:
        """For how long the client would have to wait because of these partitions, which count unless it is strict."""
        share = self._budget.mutation
        if share is None:
            return 0
        return self._metering.quotas.mutation.record(
            share.account, share.limit, partitions, self._metering.clock.machine_ms(), is_strict=is_strict
        )

    def answer(self, payload: Payload) -> None:
        """Counts what is counted with the answer, which says the longest wait, and lets the client wait."""
        exchange = self._exchange
        exchange.meter = None
        if QuotaType.PRODUCE in exchange.route.api.quotas:
            self._count_bytes(QuotaType.PRODUCE, self._frame_bytes)
        if not self._was_admitted and payload:
            # Time does not count where there is no answer, as in Kafka.
            self._count_request()
        wait = max(self._waits, default=None)
        if wait is None:
            exchange.pass_on(payload)
        else:
            exchange.pass_on(throttled(exchange.route, exchange.correlation_id, payload, wait.throttle_ms))
            self.throttle(wait)

    def abandon(self) -> None:
        """Nothing is counted for a client that is gone."""

    def throttle(self, wait: Wait) -> None:
        """Lets what the client sends next wait."""
        exchange = self._exchange
        mute(exchange.queue, self._metering.schedule, wait.throttle_ms)
        self._metering.quotas.throttling.count(wait.kind, wait.throttle_ms)
        for subscriber in self._metering.subscribers:
            subscriber(exchange, wait)
        _log.debug(
            "event=client_throttled quota=%s api=%s user=%s client=%s throttle_ms=%d",
            wait.kind, exchange.route.name, exchange.queue.principal.name, exchange.client_id, wait.throttle_ms,
        )  # fmt: skip

    def _count_bytes(self, kind: QuotaType, size_bytes: int) -> None:
        quotas = self._metering.quotas
        is_produce = kind is QuotaType.PRODUCE
        share, quota = (self._budget.produce, quotas.produce) if is_produce else (self._budget.fetch, quotas.fetch)
        if share is None:
            return
        quotas.throttling.bytes[kind] += size_bytes
        throttle_ms = quota.record(share.account, share.limit, size_bytes, self._metering.clock.machine_ms())
        if throttle_ms:
            self._waits.append(Wait(throttle_ms, kind))

    def _count_request(self) -> None:
        share = self._budget.request
        if share is None:
            return
        metering = self._metering
        busy_ns = self._busy_ns if self._busy_ns is not None else metering.clock.work_ns() - self._began_ns
        throttle_ms = metering.quotas.request_throttle_ms(share, busy_ns, metering.clock.machine_ms())
        if throttle_ms:
            self._waits.append(Wait(throttle_ms, QuotaType.REQUEST))
