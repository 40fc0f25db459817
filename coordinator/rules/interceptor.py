"""Between the dispatcher and the APIs: lets fault rules act on requests and their answers, and records them.

The layer is in a route while an active rule or a recording is about its API (api/route.py). Every other route is as if this
package did not exist.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange, LayeredExchange, ReplyQueue
from coordinator.api.recognition import forget_templates
from coordinator.api.route import RULES, Handle, Routes
from coordinator.api.server import Server
from coordinator.rules import responses
from coordinator.rules.failure import plan
from coordinator.rules.faults import Fault, Faults
from coordinator.rules.matching import Hit, Seen
from coordinator.rules.passage import Acting, Clocks, Passage, answer_late
from coordinator.rules.recordings import Recordings
from coordinator.world.clock import Clock


class Interceptor:
    """The fault rules and recordings of a server, as a layer."""

    has_answers = True

    def __init__(
        self,
        server: Server,
        apis: dict[int, Api[Any]],
        clock: Clock,
        clocks: Clocks,
        dispatchers: Callable[[], Iterable[Routes]],
        queues: Callable[[], Iterable[ReplyQueue]],
    ) -> None:
        """`queues`: the connections that are open now."""
        self.faults = Faults(apis, clock, clocks.schedule, self._install, self._act_in_progress)
        self.recordings = Recordings(apis, clock, self._install)
        self._clocks = clocks
        self._server = server
        self._clock = clock
        self._dispatchers = dispatchers
        self._queues = queues
        self._connections = Connections(queues)
        self._intercepted: frozenset[str] = frozenset()

    def concerns(self, api: Api[Any]) -> bool:
        return api.name in self._intercepted

    def around(self, api: Api[Any], handle: Handle) -> Handle:
        def intercepted(server: Server, exchange: Exchange[Any]) -> None:
            seen = Seen(server, exchange)
            entries = self.recordings.begin(seen, self._connections.number)
            acting = self._acting(api.name, seen)
            if acting is None and not entries:
                handle(server, exchange)
                return
            assert isinstance(exchange, LayeredExchange)
            passage = Passage(self._clocks, seen, exchange.pass_on, handle, entries, acting)
            exchange.join(passage)
            passage.begin()

        return intercepted

    def needs_all(self, _queue: ReplyQueue, _client_id: str | None) -> bool:
        return True

    def _acting(self, api: str, seen: Seen) -> Acting | None:
        """The rule that acts on the request, on which part, and how the request fails if it does."""
        return next(filter(None, (self._acts(fault, seen) for fault in self.faults.asked_for(api))), None)

    def _acts(self, fault: Fault, seen: Seen) -> Acting | None:
        """Counts the request if the rule matches; what the rule does to it, if it does anything."""
        hit, action, route = fault.matcher.find(seen), fault.rule.action, seen.exchange.route
        if hit is None or (action.answer is not None and not responses.fits(route, action.answer)):
            return None
        failure = None
        if action.error is not None or action.coordinator is not None or action.instead:
            failure = plan(action, hit, fault.matcher, seen)
            if failure is None:
                return None
        acts = fault.acts_on(self._key(fault, hit, seen), self._clock.monotonic_ms())
        if not fault.active:  # it has used up its extent, or another worker has
            self.faults.update()
        if not acts:
            return None
        self.faults.count_act(fault, route.name, seen.exchange.client_id, hit)
        return None if action.observe else Acting(fault, failure)

    def _act_in_progress(self, fault: Fault) -> None:
        """Applies a rule to the answers of requests that wait in the server and came before it."""
        for exchange in [each for queue in self._queues() for each in queue.exchanges]:
            if isinstance(exchange, Exchange) and exchange.payload is None and exchange.route.name in fault.apis:
                seen = Seen(self._server, exchange)
                acting = self._acts(fault, seen) if fault.active else None
                if acting is not None:
                    answer_late(self._clocks, seen, acting)

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
            dispatcher.put(RULES, self)
        forget_templates(self._queues(), self.concerns)

    def intercept(self, dispatcher: Routes) -> None:
        """Intercepts the routes of a listener that has just been opened."""
        dispatcher.put(RULES, self)


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
