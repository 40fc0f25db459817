"""`AsyncControl`: performs the steps of commands on an event loop."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Self, TypeVar, Unpack

from httpx import AsyncClient, TransportError

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


class AsyncControl(ControlCommands):
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
        self._http = AsyncClient(**client_options(self.url, access))
        self.clock: AsyncClock = AsyncClock(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """As `Control.close`."""
        try:
            await self.run(self.leave())
        finally:
            await self.disconnect()

    async def disconnect(self) -> None:
        """As `Control.disconnect`."""
        await self._http.aclose()

    async def fault(self, **rule: Unpack[FaultKeywords]) -> "AsyncFault":
        """As `Control.fault`."""
        return AsyncFault(self, (await self.run(faults.add(self.scope, rule))).id)

    async def record(self, *, limit: int | None = None, **match: Unpack[MatchKeywords]) -> "AsyncRecording":
        """As `Control.record`."""
        return AsyncRecording(self, (await self.run(recordings.start(self.scope, limit, match))).id)

    def group(self, group_id: str) -> "AsyncGroup":
        """As `Control.group`."""
        return AsyncGroup(self, group_id)

    def broker(self, broker_id: int) -> "AsyncBroker":
        """As `Control.broker`."""
        return AsyncBroker(self, str(broker_id))

    def transaction(self, transactional_id: str) -> "AsyncTransaction":
        """As `Control.transaction`."""
        return AsyncTransaction(self, transactional_id)

    async def events(
        self,
        group: str | None = None,
        *,
        after: int | str | None = None,
        limit: int | None = None,
        follow: bool = True,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[View, None]:
        """As `Control.events`."""
        stream = EventStream(group, after, limit, follow=follow, patience_s=timeout_s)
        while not stream.is_over:
            try:
                async for event in self._stream(stream):
                    yield event
                stream.on_end()
            except ControlUnreachable as error:
                stream.on_broken(error)
            if not stream.is_over:
                await asyncio.sleep(steps.RETRY_S)

    async def _stream(self, stream: EventStream) -> AsyncGenerator[View, None]:
        """The events of one connection."""
        try:
            async with self._http.stream("GET", stream.PATH, **stream.options()) as response:
                if response.status_code >= 300:
                    raise steps.refusal(HttpAnswer(response.status_code, await response.aread()))
                async for chunk in response.aiter_bytes():
                    for event in stream.feed(chunk):
                        yield event
                    if stream.is_over:
                        return
        except TransportError as error:
            raise unreachable(self.url, error) from error

    async def run(self, command: Steps[T]) -> T:
        """Performs the steps of a command and returns its result."""
        try:
            step = next(command)
            while True:
                try:
                    answer = await self._perform(step)
                except ControlUnreachable as error:
                    step = command.throw(error)
                else:
                    step = command.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _perform(self, step: HttpRequest | Pause) -> HttpAnswer | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            response = await self._http.request(step.method, step.path, **step.options(self._answered_within_s))
        except TransportError as error:
            raise unreachable(self.url, error) from error
        return HttpAnswer(response.status_code, response.content)


class _Part:
    """Something of the server that has a name."""

    def __init__(self, control: AsyncControl, id: str) -> None:  # noqa: A002 - as the attribute
        self.id = id
        self._control = control

    async def run(self, command: Steps[T]) -> T:
        return await self._control.run(command)


class AsyncFault(_Part, FaultCommands):
    __doc__ = FaultCommands.__doc__


class AsyncGroup(_Part, GroupCommands):
    __doc__ = GroupCommands.__doc__


class AsyncTransaction(_Part, TransactionCommands):
    __doc__ = TransactionCommands.__doc__


class AsyncBroker(_Part, BrokerCommands):
    __doc__ = BrokerCommands.__doc__

    def __init__(self, control: AsyncControl, id: str) -> None:  # noqa: A002 - as the attribute
        super().__init__(control, id)
        self.made_down = control.made_down


class AsyncRecording(_Part, RecordingCommands):
    __doc__ = RecordingCommands.__doc__


class AsyncClock(ClockCommands):
    __doc__ = ClockCommands.__doc__

    def __init__(self, control: AsyncControl) -> None:
        self._control = control

    async def run(self, command: Steps[T]) -> T:
        return await self._control.run(command)
