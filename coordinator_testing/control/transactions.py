"""Transactions: views, waiting for a state, and commands."""

from urllib.parse import quote

from msgspec import Struct

from coordinator_testing.control import steps
from coordinator_testing.control.command import command
from coordinator_testing.control.groups import Reloaded
from coordinator_testing.control.steps import NOT_FOUND, WITHIN_S, Steps, View


class Aborted(Struct, frozen=True):
    """A transaction that was aborted."""

    transactional_id: str
    aborted: bool


class TransactionCommands:
    """A transactional id, which need not exist yet."""

    id: str

    @property
    def _path(self) -> str:
        return f"/v1/transactions/{quote(self.id, safe='')}"

    @command
    def describe(self) -> Steps[View]:
        """State, producer and partitions."""
        return steps.ask(steps.get(self._path), View)

    @command
    def wait(self, state: str, *, timeout_s: float = WITHIN_S) -> Steps[View]:
        """Waits for a state, such as CompleteCommit. Raises NotReached."""
        return steps.wait(
            lambda _: steps.get(self._path),
            View,
            lambda view: bool(view["state"] == state),
            f"state {state} of transaction {self.id}",
            timeout_s,
            retried=(NOT_FOUND,),
        )

    @command
    def expire(self) -> Steps[Aborted]:
        """Aborts the open transaction, as its timeout does."""
        return steps.ask_until_available(steps.post(f"{self._path}/expire", {}), Aborted, WITHIN_S)

    @command
    def reload(self, *, for_ms: int = 0) -> Steps[Reloaded]:
        """A failover: the shard of this id discards its memory and loads its log, for at least this time."""
        return steps.ask_until_available(steps.post(f"{self._path}/reload", {"for_ms": for_ms}), Reloaded, WITHIN_S)
