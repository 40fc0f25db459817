"""Fault rules: set, wait until they have acted, release what they hold, clear."""

from typing import TypedDict, Unpack
from urllib.parse import quote

from coordinator.rules.model import Cleared, FaultList, FaultStatus, Released, ReleaseRequest
from coordinator_testing.control import keywords, steps
from coordinator_testing.control.command import command
from coordinator_testing.control.keywords import FaultKeywords
from coordinator_testing.control.steps import WITHIN_S, HttpRequest, Steps

PATH = "/v1/faults"


class FaultProgress(TypedDict, total=False):
    """What to wait for: all of these numbers, or more."""

    acted: int
    matched: int
    held: int


class FaultCommands:
    """A fault rule that this client has set."""

    id: str

    @property
    def _path(self) -> str:
        return f"{PATH}/{quote(self.id, safe='')}"

    @command
    def status(self) -> Steps[FaultStatus]:
        """The rule, and how many times it has matched and acted."""
        return steps.ask(steps.get(self._path), FaultStatus)

    @command
    def wait(self, *, timeout_s: float = WITHIN_S, **until: Unpack[FaultProgress]) -> Steps[FaultStatus]:
        """Waits until the rule has acted or matched this many times, or holds this many requests. Raises NotReached."""
        conditions = [f"{name}:{count}" for name, count in until.items()]
        if not conditions:
            raise TypeError("wait() needs acted, matched or held")

        def request(waits_ms: int) -> HttpRequest:
            # The server waits for one condition; the others are looked at when it is true.
            return steps.get(self._path, {"until": conditions[0], "timeout_ms": waits_ms}, waits_ms=waits_ms)

        def reached(found: FaultStatus) -> bool:
            return all(getattr(found, name) >= count for name, count in until.items())

        return steps.wait(request, FaultStatus, reached, f"{' and '.join(conditions)} of fault {self.id}", timeout_s)

    @command
    def release(self, count: int | None = None) -> Steps[int]:
        """Releases requests that the rule holds: this many, the oldest first, or all. Returns their number."""
        answer = yield from steps.ask(steps.post(f"{self._path}/release", ReleaseRequest(count=count)), Released)
        return answer.released

    @command
    def clear(self) -> Steps[None]:
        """Removes the rule, and releases what it holds."""
        yield from steps.ask(steps.delete(self._path), Cleared)


def add(scope: str | None, rule: FaultKeywords) -> Steps[FaultStatus]:
    """Sets the rule that these keywords describe."""
    return steps.ask(steps.post(PATH, keywords.rule(scope, rule)), FaultStatus)


def listed(scope: str | None) -> Steps[list[FaultStatus]]:
    """The rules of a scope, or all."""
    answer = yield from steps.ask(steps.get(PATH, {"scope": scope}), FaultList)
    return answer.faults


def clear_all(scope: str | None) -> Steps[int]:
    """Removes the rules of a scope, or all, and releases what they hold. Returns their number."""
    answer = yield from steps.ask(
        steps.delete(PATH, {"scope": scope} if scope is not None else {"all": "true"}), Cleared
    )
    return answer.cleared
