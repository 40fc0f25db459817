"""The transactional ids of one shard as a state machine: what runs after a load and when a timer fires.

transactions.loaded(now_ms)       every record was read: delivery of decided transactions continues, timers start
transactions.fire(key, now_ms)    a timer fired
"""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator.protocol.messages import TransactionLogKey
from coordinator.runtime.result import Result, Timer, TimerKey
from coordinator.transactions import expire, timeouts
from coordinator.transactions.state import Transactions

RECORD_KEYS: tuple[str, ...] = (TransactionLogKey.NAME,)
"""The key messages that occur in this log."""


class TransactionMachine(Transactions):
    """The transactional ids of one shard, with everything that happens without a request."""

    __slots__ = ()

    def loaded(self, now_ms: int) -> Result:
        """The log is replayed: continues the delivery of decided transactions, and arms the timers."""
        del now_ms
        config = self.config
        return Result(
            timers=[
                *((timeouts.check_timer(self),) if self.ongoing else ()),
                Timer(expire.TIMER, config.transaction_remove_expired_transaction_cleanup_interval_ms),
            ],
            after=[self.delivery(transaction) for transaction in self.prepared.values()],
        )

    def scope_of(self, request: Any) -> str | None:
        """Operations may set `last_epochs` of the transactional id."""
        return getattr(request, "transactional_id", None)

    def scope_of_timer(self, key: TimerKey) -> None:
        """Timers serve all transactional ids."""

    def restore(self, scope: str | None, now_ms: int) -> None:
        """Only a load brings `last_epochs` back."""

    def fire(self, key: TimerKey, now_ms: int) -> Result:
        """Runs the operation of a timer."""
        return FIRE[key[0]](self, now_ms)


FIRE: Mapping[Any, Callable[[Transactions, int], Result]] = {
    timeouts.TIMER[0]: timeouts.abort_timed_out,
    expire.TIMER[0]: expire.remove_expired,
}
"""First item of a timer's key -> the operation that runs when it fires."""
