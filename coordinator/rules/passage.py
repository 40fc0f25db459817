"""The passage of one intercepted request through its API: what its rule does to it, and to its answer."""

from functools import partial
from typing import Any, NamedTuple

from coordinator.api.exchange import LayeredExchange, Parts
from coordinator.api.muting import mute
from coordinator.api.payloads import decoded, encoded, throttled
from coordinator.api.route import Handle
from coordinator.rules.failure import Failure
from coordinator.rules.faults import Fault
from coordinator.rules.matching import Hit, Seen
from coordinator.rules.model import Action
from coordinator.rules.recordings import Pending
from coordinator.rules.responses import merge
from coordinator.world.schedule import Schedule

Payload = bytes | Parts


class Clocks(NamedTuple):
    """How a rule waits."""

    schedule: Schedule
    """By the clock of the protocol, which a test may stop: for delays."""
    machine_schedule: Schedule
    """For throttling: clients wait by their own clocks."""


class Passage:
    """One request on which a rule acts, or that is recorded."""

    __slots__ = ("_clocks", "_entries", "_exchange", "_failure", "_fault", "_handle_inside", "_is_answered", "_seen")

    def __init__(
        self,
        clocks: Clocks,
        seen: Seen,
        exchange: LayeredExchange[Any],
        handle: Handle,
        entries: list[Pending],
        acting: tuple[Fault, Hit, Failure | None] | None,
    ) -> None:
        self._clocks = clocks
        self._seen = seen
        self._exchange = exchange
        self._handle_inside = handle
        self._entries = entries
        self._fault: Fault | None = None
        self._failure: Failure | None = None
        self._is_answered = False
        """Whether the API, or the rule in its place, has given its answer."""
        if acting is not None:
            self._fault, _, self._failure = acting
            for entry in entries:
                entry.acted(self._fault.id)

    def begin(self) -> None:
        """What the rule does before the API has the request."""
        fault = self._fault
        if fault is None:
            self._handle()
        elif self._failure is not None:
            self._fail(self._failure)
        elif fault.rule.action.lose == "request":
            self._lose(None)
        else:
            self._exchange.wait()  # as in Kafka, which handles one request of a connection at a time
            action = fault.rule.action
            if action.hold == "request":
                fault.hold(self, self._handle)
            elif action.delay_ms is not None and action.when != "after":
                fault.delay(self, self._clocks.schedule, action.delay_ms, self._handle)
            else:
                self._handle()

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
            self._on_answer(self._fault, self._fault.rule.action, payload)

    def abandon(self) -> None:
        """The connection is gone."""
        if self._fault is not None:
            self._fault.forget(self)
        self._record("closed", None)

    # --- before the API -----------------------------------------------------------------------------------------------

    def _handle(self) -> None:
        exchange = self._exchange
        if not exchange.is_over:
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

    def _on_answer(self, fault: Fault, action: Action, payload: Payload) -> None:
        give = partial(self._give, payload)
        if action.lose is not None:
            self._lose(payload)
        elif action.hold == "answer":
            fault.hold(self, give)
        elif action.delay_ms is not None and action.when == "after":
            fault.delay(self, self._clocks.schedule, action.delay_ms, give)
        elif action.close:
            self._exchange.queue.cut(self._exchange)
            give()
        elif action.throttle_ms is not None:
            self._throttle(action.throttle_ms, payload)
        else:
            give()

    def _throttle(self, throttle_ms: int, payload: Payload) -> None:
        """Says so in the answer, and lets the requests behind it wait (Kafka mutes the channel)."""
        exchange = self._exchange
        self._give(throttled(exchange.route, exchange.correlation_id, payload, throttle_ms))
        mute(exchange.queue, self._clocks.machine_schedule, throttle_ms)

    def _give(self, payload: Payload) -> None:
        if not self._exchange.is_over:
            self._record("answered", payload)
            self._exchange.pass_on(payload)

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
