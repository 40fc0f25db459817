"""Between the dispatcher and the APIs: lets fault rules act on requests and their answers, and records them.

A route is intercepted while an active rule or a recording is about its API (`Route.intercept`): its requests then come here, in
exchanges that pass their answers through here as well. Every other route is as if this package did not exist.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from coordinator.api.declaration import Api
from coordinator.api.dispatch import Dispatcher
from coordinator.api.exchange import NO_TEMPLATE, Exchange, NoTemplate, ReplyQueue
from coordinator.api.server import Server
from coordinator.rules.failure import Failure, plan
from coordinator.rules.faults import Fault, Faults
from coordinator.rules.matching import Hit, Seen
from coordinator.rules.passage import Clocks, InterceptedExchange, Passage
from coordinator.rules.recordings import Recordings
from coordinator.world.clock import Clock

_ERRORS = ("error", "coordinator")


class Interceptor:
    """The fault rules and recordings of a server."""

    exchange = InterceptedExchange

    def __init__(
        self,
        server: Server,
        apis: dict[int, Api[Any]],
        clock: Clock,
        clocks: Clocks,
        dispatchers: Callable[[], Iterable[Dispatcher]],
        queues: Callable[[], Iterable[ReplyQueue]],
    ) -> None:
        """`queues`: the connections that are open now."""
        self.faults = Faults(apis, clock, clocks.schedule, self._install)
        self.recordings = Recordings(apis, clock, self._install)
        self._clocks = clocks
        self._server = server
        self._clock = clock
        self._dispatchers = dispatchers
        self._queues = queues
        self._connections = Connections(queues)
        self._intercepted: frozenset[str] = frozenset()

    def handle(self, server: Server, exchange: Exchange[Any]) -> None:
        """Takes the place of the API's `handle`."""
        api = exchange.route.name
        seen = Seen(server, exchange)
        entries = self.recordings.begin(seen, self._connections.number)
        acting = self._acting(api, seen)
        if acting is None and not entries:
            exchange.route.own_handle(server, exchange)
            return
        assert isinstance(exchange, InterceptedExchange)
        passage = exchange.passage = Passage(self._clocks, seen, exchange, entries, acting)
        if acting is not None:
            fault, hit, _ = acting
            self.faults.count_act(fault, api, exchange.client_id, hit)
        passage.begin()

    def _acting(self, api: str, seen: Seen) -> tuple[Fault, Hit, Failure | None] | None:
        """The rule that acts on the request, on which part, and how the request fails if it does."""
        for fault in self.faults.asked_for(api):
            hit = fault.matcher.find(seen)
            if hit is None:
                continue
            action, failure = fault.rule.action, None
            if action.kind in _ERRORS:
                failure = plan(action, hit, fault.matcher, seen)
                if failure is None:
                    continue
            if fault.acts_on(self._key(fault, hit, seen), self._clock.monotonic_ms()):
                return fault, hit, failure
        return None

    def _key(self, fault: Fault, hit: Hit, seen: Seen) -> Hashable:
        per, named = fault.rule.match.per, hit.named
        if per == "member":
            return named.group, named.instance_id or named.member_id
        if per == "group":
            return named.group, named.transactional_id
        return self._connections.number(seen.exchange.queue) if per == "connection" else None

    def _install(self) -> None:
        """Intercepts the routes that rules and recordings are about, and no others."""
        wanted = self.faults.active_apis | self.recordings.active_apis
        if wanted == self._intercepted:
            return
        self._intercepted = wanted
        for dispatcher in self._dispatchers():
            dispatcher.intercept(wanted, self)
        for queue in self._queues():
            # A template answers without its route; another is learned when the route is free again.
            if not isinstance(queue.template, NoTemplate) and queue.template.route.name in wanted:
                queue.template = NO_TEMPLATE

    def intercept(self, dispatcher: Dispatcher) -> None:
        """Intercepts the routes of a listener that has just been opened."""
        dispatcher.intercept(self._intercepted, self)


class Connections:
    """Numbers the connections that send intercepted requests: 1, 2, 3 ..."""

    _FORGOTTEN_EVERY = 1_000

    def __init__(self, queues: Callable[[], Iterable[ReplyQueue]]) -> None:
        self._queues = queues
        self._numbers: dict[ReplyQueue, int] = {}
        self._last = 0

    def number(self, queue: ReplyQueue) -> int:
        number = self._numbers.get(queue)
        if number is None:
            self._last += 1
            number = self._numbers[queue] = self._last
            if not number % self._FORGOTTEN_EVERY:
                is_open = set(self._queues())
                self._numbers = {each: count for each, count in self._numbers.items() if each in is_open}
        return number
