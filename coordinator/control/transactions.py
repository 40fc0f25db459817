"""Views of transactions."""

from urllib.parse import quote

from coordinator.control import steps
from coordinator.control.command import command
from coordinator.control.steps import NOT_FOUND, WITHIN_S, Steps, View


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
