"""The passage of one intercepted request through its API: what its rule does to it, and to its answer."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from coordinator.api.exchange import Exchange
from coordinator.api.muting import mute
from coordinator.api.payloads import decoded, encoded, throttled
from coordinator.api.route import Handle
from coordinator.rules import outlet
from coordinator.rules.failure import Failure
from coordinator.rules.faults import Fault
from coordinator.rules.matching import Seen
from coordinator.rules.model import Direction, Fields
from coordinator.rules.outlet import Outlet, Payload
from coordinator.rules.recordings import Pending
from coordinator.rules.responses import change, merge
from coordinator.world.schedule import Schedule

_log = logging.getLogger(__name__)


class Clocks(NamedTuple):
    """How a rule waits."""

    schedule: Schedule
    """By the clock of the protocol, which a test may stop: for delays."""
    machine_schedule: Schedule
    """For throttling: clients wait by their own clocks."""


class Acting(NamedTuple):
    """The rule that acts on a request."""

    fault: Fault
    failure: Failure | None
    """How the request fails, if it does."""


class Passage:
    """One request on which a rule acts, or that is recorded."""

    __slots__ = (
        "_clocks", "_entries", "_exchange", "_failure", "_fault", "_handle_inside", "_is_answered", "_pass_on", "_seen",
    )  # fmt: skip

    def __init__(
        self,
        clocks: Clocks,
        seen: Seen,
        pass_on: Callable[[Payload], None],
        handle: Handle | None,
        entries: list[Pending],
        acting: Acting | None,
    ) -> None:
        """`pass_on` gives the answer to the client. `handle`: None if the API has the request already."""
        self._clocks = clocks
        self._seen = seen
        self._exchange = seen.exchange
        self._pass_on = pass_on
        self._handle_inside = handle
        self._entries = entries
        self._fault = None if acting is None else acting.fault
        self._failure = None if acting is None else acting.failure
        self._is_answered = False
        """Whether the API, or the rule in its place, has given its answer."""
        if self._fault is not None:
            for entry in entries:
                entry.acted(self._fault.id)

    def begin(self) -> None:
        """What the rule does before the API has the request."""
        if self._fault is None:
            self._handle()
        else:
            self._exchange.wait()  # as in Kafka, which handles one request of a connection at a time
            self._wait(self._fault, "request", self._act)

    def answer(self, payload: Payload) -> None:
        """What the rule does to the answer, which is durable."""
        if self._is_answered or self._exchange.is_over:
            return
        self._is_answered = True
        if self._failure is not None and self._failure.rest is not None:
            changed = self._with_failure(self._failure, payload)
            if changed is None:
                self._lose(None)
                return
            payload = changed
        if self._fault is None:
            self._give(payload)
        else:
            self._wait(self._fault, "answer", partial(self._leave, self._fault, payload))

    def abandon(self) -> None:
        """The connection is gone."""
        if self._fault is not None:
            self._fault.forget(self)
        self._record("closed", None)

    def _wait(self, fault: Fault, what: Direction, go_on: Callable[[], None]) -> None:
        """Goes on when the rule lets the request, or its answer."""
        action = fault.rule.action
        is_delayed = action.delay_ms is not None and (action.when == "after") is (what == "answer")
        if is_delayed:
            go_on = partial(fault.delay, self, self._clocks.schedule, action.delay_ms or 0, go_on)
        if action.hold == what:
            fault.hold(self, go_on)
        else:
            go_on()

    # --- before the API -----------------------------------------------------------------------------------------------

    def _act(self) -> None:
        if self._failure is not None:
            self._fail(self._failure)
        elif self._fault is not None and self._fault.rule.action.lose == "request":
            self._lose(None)
        else:
            self._handle()

    def _handle(self) -> None:
        exchange = self._exchange
        if not exchange.is_over and self._handle_inside is not None:
            try:
                self._handle_inside(self._seen.server, exchange)
            except Exception as error:  # noqa: BLE001 - one failed request must not take the connection down
                exchange.fail(error)

    def _fail(self, failure: Failure) -> None:
        """Answers the error. A Produce with acks=0 expects no answer: its connection closes, as in Kafka."""
        exchange = self._exchange
        if failure.rest is not None:
            exchange.with_request(failure.rest)
            self._handle()
        elif getattr(self._seen.request, "acks", None) == 0:
            self._lose(None)
        else:
            exchange.reply(failure.refusal)

    def _with_failure(self, failure: Failure, payload: Payload) -> Payload | None:
        """The answer to the part that the API had, together with the error; None if there is no answer."""
        exchange = self._exchange
        message = decoded(exchange.route, payload)
        if message is None:
            return None
        if failure.patch is not None:
            failure.patch(message)
        else:
            merge(message, failure.refusal)
        return encoded(exchange.route, exchange.correlation_id, message)

    # --- behind the API -----------------------------------------------------------------------------------------------

    def _leave(self, fault: Fault, payload: Payload) -> None:
        """What the rule does to an answer that has waited long enough."""
        action, exchange = fault.rule.action, self._exchange
        if action.lose is not None:
            self._lose(payload)
            return
        if action.answer is not None:
            try:
                payload = self._changed(action.answer, payload)
            except Exception:  # noqa: BLE001 - neither this client nor what the rule holds besides may wait for ever
                _log.exception("event=answer_not_changed fault=%s api=%s", fault.id, exchange.route.name)
                self._lose(payload)
                return
        if action.throttle_ms is not None:
            payload = throttled(exchange.route, exchange.correlation_id, payload, action.throttle_ms)
        outlet.put(exchange, fault, self._clocks.schedule)
        self._give(payload)
        if action.throttle_ms is not None:  # Kafka mutes the channel
            mute(exchange.queue, self._clocks.machine_schedule, action.throttle_ms)

    def _changed(self, answer: Fields, payload: Payload) -> Payload:
        """The answer with fields of the rule's own."""
        exchange = self._exchange
        message = decoded(exchange.route, payload)
        if message is None:
            return payload
        change(exchange.route, message, answer)
        return encoded(exchange.route, exchange.correlation_id, message)

    def _give(self, payload: Payload) -> None:
        if not self._exchange.is_over:
            self._record("answered", payload)
            self._pass_on(payload)

    def _lose(self, payload: Payload | None) -> None:
        """Closes the connection without the answer."""
        self._is_answered = True
        self._record("lost", payload)
        self._exchange.queue.cut()

    def _record(self, outcome: Any, payload: Payload | None) -> None:
        entries, self._entries = self._entries, []
        if entries:
            message = None if payload is None else decoded(self._exchange.route, payload)
            for entry in entries:
                entry.finish(outcome, message)


def answer_late(clocks: Clocks, seen: Seen, acting: Acting) -> None:
    """Lets a rule have the answer of a request that the API has had since before the rule was set."""
    exchange: Exchange[Any] = seen.exchange
    passage = Passage(clocks, seen, lambda payload: Outlet.give(exchange, payload), None, [], acting)
    Outlet(exchange, passage.answer)
    on_close = exchange.on_close

    def closed() -> None:
        passage.abandon()
        if on_close is not None:
            on_close()

    exchange.on_close = closed
