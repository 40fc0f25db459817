"""`Control`: performs the steps of commands in the calling thread."""

import time
from collections.abc import Generator
from typing import Self, TypeVar, Unpack

from httpx import Client, TransportError

from coordinator_testing.control import faults, recordings, steps
from coordinator_testing.control.brokers import BrokerCommands
from coordinator_testing.control.clock import ClockCommands
from coordinator_testing.control.errors import ControlUnreachable
from coordinator_testing.control.events import EventStream
from coordinator_testing.control.faults import FaultCommands
from coordinator_testing.control.groups import GroupCommands
from coordinator_testing.control.keywords import FaultKeywords, MatchKeywords
from coordinator_testing.control.recordings import RecordingCommands
from coordinator_testing.control.session import ControlCommands
from coordinator_testing.control.steps import HttpAnswer, HttpRequest, Pause, Steps, View
from coordinator_testing.control.transactions import TransactionCommands
from coordinator_testing.control.transport import NO_CREDENTIALS, Access, client_options, unreachable

T = TypeVar("T")


class Control(ControlCommands):
    __doc__ = ControlCommands.__doc__

    def __init__(
        self,
        url: str,
        scope: str | None = "",
        access: Access = NO_CREDENTIALS,
        *,
        answered_within_s: float = steps.ANSWERED_WITHIN_S,
    ) -> None:
        super().__init__(url, scope)
        self._answered_within_s = answered_within_s
        self._http = Client(**client_options(self.url, access))
        self.clock: Clock = Clock(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Undoes what the client set, as the end of a `with` does."""
        try:
            self.run(self.leave())
        finally:
            self.disconnect()

    def disconnect(self) -> None:
        """Closes the connections, and leaves what the client set as it is."""
        self._http.close()

    def fault(self, **rule: Unpack[FaultKeywords]) -> "Fault":
        """Sets a fault rule: the requests that it matches, one action, and how many times it acts (default: once)."""
        return Fault(self, self.run(faults.add(self.scope, rule)).id)

    def record(self, *, limit: int | None = None, **match: Unpack[MatchKeywords]) -> "Recording":
        """Records the requests that match, and their answers. `limit`: how many the server keeps at most."""
        return Recording(self, self.run(recordings.start(self.scope, limit, match)).id)

    def group(self, group_id: str) -> "Group":
        """A group, which need not exist yet."""
        return Group(self, group_id)

    def broker(self, broker_id: int) -> "Broker":
        """A broker of a server that is several."""
        return Broker(self, str(broker_id))

    def transaction(self, transactional_id: str) -> "Transaction":
        """A transactional id, which need not exist yet."""
        return Transaction(self, transactional_id)

    def events(
        self,
        group: str | None = None,
        *,
        after: int | str | None = None,
        limit: int | None = None,
        follow: bool = True,
        timeout_s: float | None = None,
    ) -> Generator[View, None, None]:
        """The events of docs/events.md and the faults that act, as they happen.

        `after` is an offset, or "now" for events from now on. The iterator ends after `limit` events, or without `follow` after
        the newest one. It raises NotReached if none comes for `timeout_s`. A broken connection is made again.
        """
        stream = EventStream(group, after, limit, follow=follow, patience_s=timeout_s)
        while not stream.is_over:
            try:
                yield from self._stream(stream)
                stream.on_end()
            except ControlUnreachable as error:
                stream.on_broken(error)
            if not stream.is_over:
                time.sleep(steps.RETRY_S)

    def _stream(self, stream: EventStream) -> Generator[View, None, None]:
        """The events of one connection."""
        try:
            with self._http.stream("GET", stream.PATH, **stream.options()) as response:
                if response.status_code >= 300:
                    raise steps.refusal(HttpAnswer(response.status_code, response.read()))
                for chunk in response.iter_bytes():
                    yield from stream.feed(chunk)
                    if stream.is_over:
                        return
        except TransportError as error:
            raise unreachable(self.url, error) from error

    def run(self, command: Steps[T]) -> T:
        """Performs the steps of a command and returns its result."""
        try:
            step = next(command)
            while True:
                try:
                    answer = self._perform(step)
                except ControlUnreachable as error:
                    step = command.throw(error)
                else:
                    step = command.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def _perform(self, step: HttpRequest | Pause) -> HttpAnswer | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            response = self._http.request(step.method, step.path, **step.options(self._answered_within_s))
        except TransportError as error:
            raise unreachable(self.url, error) from error
        return HttpAnswer(response.status_code, response.content)


class _Part:
    """Something of the server that has a name."""

    def __init__(self, control: Control, id: str) -> None:  # noqa: A002 - as the attribute
        self.id = id
        self._control = control

    def run(self, command: Steps[T]) -> T:
        return self._control.run(command)


class Fault(_Part, FaultCommands):
    __doc__ = FaultCommands.__doc__


class Group(_Part, GroupCommands):
    __doc__ = GroupCommands.__doc__


class Transaction(_Part, TransactionCommands):
    __doc__ = TransactionCommands.__doc__


class Broker(_Part, BrokerCommands):
    __doc__ = BrokerCommands.__doc__

    def __init__(self, control: Control, id: str) -> None:  # noqa: A002 - as the attribute
        super().__init__(control, id)
        self.made_down = control.made_down


class Recording(_Part, RecordingCommands):
    __doc__ = RecordingCommands.__doc__


class Clock(ClockCommands):
    __doc__ = ClockCommands.__doc__

    def __init__(self, control: Control) -> None:
        self._control = control

    def run(self, command: Steps[T]) -> T:
        return self._control.run(command)
