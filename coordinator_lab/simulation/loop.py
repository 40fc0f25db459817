"""A deterministic asyncio loop with simulated time.

When nothing is ready, the loop does not wait but advances its clock to the next timer. A minute of timeouts takes
milliseconds, and the same seed gives the same run, callback for callback. Three things that a real loop leaves open are
decided here:

- Timers due at the same instant have no defined order in asyncio (nor in uvloop). Here the seed decides the order, so that
  a run is repeatable and different seeds try different orders.
- Threads and executors would bring in real time and nondeterminism; both are refused.
- If nothing is ready and no timer is set, a real loop would wait forever. Here that is a finding (`Deadlock`), and so is a
  loop that runs callbacks without end while its clock stands still (`Livelock`).

Every callback belongs to the `Process` in whose context it was scheduled, or to none (clients, network). A killed process
never runs again, not even its `finally` blocks, as after SIGKILL. A paused process (SIGSTOP) runs everything that came due
meanwhile when it resumes. A process has the clock of its machine, which may be slower or faster than the world's.
"""

import asyncio
import logging
from asyncio import base_events
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from inspect import CORO_CREATED, getcoroutinestate
from random import Random
from typing import Any, NoReturn, Protocol
from warnings import catch_warnings, simplefilter

CALLBACKS_AT_ONE_INSTANT_MAX = 200_000


class Deadlock(Exception):
    """Nothing is ready and no timer is set, but the run has not ended."""


class Livelock(Exception):
    """Callbacks run without end while time stands still."""


class ForeignThread(Exception):
    """Something tried to use a thread."""


class Process:
    """The callbacks that are killed and paused together: those scheduled in `context`, directly or indirectly."""

    def __init__(self, name: str, host: str = "", *, rate: float = 1.0, zero_s: float = 0.0) -> None:
        """`host`: the address from which its connections come. `rate`: how many seconds of its machine pass in one of the
        world; `zero_s`: what its clock showed when the world began.
        """
        self.name = name
        self.rate = rate
        self.zero_s = zero_s
        self.host = host
        self.alive = True
        self.paused = False
        self.held: list[asyncio.Handle] = []
        """Callbacks that came due during a pause."""
        self.tasks: list[asyncio.Task[Any]] = []
        """All tasks, referenced so that the garbage collector does not finalize those of a dead process."""
        self.context = copy_context()
        self.context.run(_OWNER.set, self)


_OWNER: ContextVar[Process | None] = ContextVar("process", default=None)


def current_process() -> Process | None:
    """The process in whose context the caller runs."""
    return _OWNER.get()


class ListeningNetwork(Protocol):
    """The part of `SimulatedNetwork` that `create_server` and `create_connection` need."""

    def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, context: Context) -> Any: ...

    async def connect(self, factory: Callable[[], Any], host: str, port: int, client_host: str) -> Any: ...


class _Handle(asyncio.Handle):
    __slots__ = ("owner",)

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: "SimulatedLoop", context: Context
    ) -> None:
        super().__init__(callback, args, loop, context)
        self.owner = context.get(_OWNER)


class _Timer(asyncio.TimerHandle):
    __slots__ = ("owner",)

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: "SimulatedLoop",
        context: Context,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self.owner = context.get(_OWNER)


class SimulatedLoop(base_events.BaseEventLoop):
    """The loop. `random` decides the order of timers that are due at the same time."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.network: ListeningNetwork | None = None
        self.callbacks = 0
        """Callbacks run so far."""
        self._random = random
        self._now_s = 0.0
        self._heap: list[tuple[float, float, int, _Timer]] = []
        self._soon: list[Any] = []
        self._sequence = 0
        self._since_time_moved = 0

    # --- time ---------------------------------------------------------------------------------------------------------

    def world_s(self) -> float:
        """The time of the world, whoever asks."""
        return self._now_s

    def time(self) -> float:
        """The time by the clock of the machine on which the caller's process runs; outside of processes that of the world."""
        process = _OWNER.get()
        return self._now_s if process is None else self._now_s * process.rate + process.zero_s

    def _in_world(self, when: float) -> float:
        process = _OWNER.get()
        if process is None or (process.rate == 1.0 and not process.zero_s):
            return when
        return (when - process.zero_s) / process.rate

    def call_at(  # type: ignore[override]  # the stub's TypeVarTuple says no more than this
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at_world(self._in_world(when), callback, *args, context=context)

    def call_at_world(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As `call_at`, by the clock of the world."""
        timer = _Timer(when, callback, args, self, copy_context() if context is None else context)
        self._sequence += 1
        heappush(self._heap, (when, self._random.random(), self._sequence, timer))
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        process = _OWNER.get()
        world_delay = delay if process is None else delay / process.rate
        return self.call_at_world(self._now_s + world_delay, callback, *args, context=context)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, copy_context() if context is None else context)
        self._soon.append(handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Does nothing: a cancelled timer stays in the heap until its time comes."""

    def _run_once(self) -> None:
        heap = self._heap
        while heap and heap[0][3].cancelled():
            heappop(heap)
        if not self._soon and not self._stopping:  # type: ignore[attr-defined]
            if not heap:
                raise Deadlock(f"at {self._now_s:.3f} s nothing is ready and no timer is set")
            if heap[0][0] > self._now_s:
                self._now_s = heap[0][0]
                self._since_time_moved = 0
        while heap and heap[0][0] <= self._now_s:
            timer = heappop(heap)[3]
            if not timer.cancelled():
                self._soon.append(timer)
        ready, self._soon = self._soon, []
        self.callbacks += len(ready)
        self._since_time_moved += len(ready)
        if self._since_time_moved > CALLBACKS_AT_ONE_INSTANT_MAX:
            raise Livelock(f"{self._since_time_moved} callbacks at {self._now_s:.3f} s")
        for handle in ready:
            self._run_handle(handle)

    def _run_handle(self, handle: Any) -> None:
        if handle.cancelled():
            return
        owner = handle.owner
        if owner is not None:
            if not owner.alive:
                return
            if owner.paused:
                owner.held.append(handle)
                return
        handle._run()  # noqa: SLF001 - a loop must run its handles

    # --- processes ----------------------------------------------------------------------------------------------------

    def spawn(self, process: Process, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs a coroutine as part of a process."""
        return self.create_task(coroutine, context=process.context)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        context = copy_context() if context is None else context
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        owner = context.get(_OWNER)
        if owner is not None:
            owner.tasks.append(task)
            task.add_done_callback(owner.tasks.remove, context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - a dead process does not finish
        return task

    def kill(self, process: Process) -> None:
        """Ends a process: none of its callbacks runs any more."""
        process.alive = False
        process.held.clear()
        with catch_warnings():
            simplefilter("ignore", RuntimeWarning)  # a coroutine that is an argument of one that never runs
            for task in process.tasks:
                coroutine: Any = task.get_coro()
                if getcoroutinestate(coroutine) == CORO_CREATED:
                    coroutine.close()  # one that never runs would be reported as forgotten

    def resume(self, process: Process) -> None:
        """Ends a pause: the held callbacks run in the order in which they came due."""
        process.paused = False
        held, process.held = process.held, []
        self._soon.extend(held)

    # --- the outside --------------------------------------------------------------------------------------------------

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        start_serving: bool = True,
        **_options: Any,
    ) -> Any:
        """Listens on the simulated network. Raises OSError if the address is in use."""
        assert self.network is not None
        listener = self.network.listen(protocol_factory, host, port, copy_context())
        listener.is_serving = start_serving
        return listener

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **_options: Any
    ) -> Any:
        """Connects over the simulated network, from the host of the process. Raises ConnectionRefusedError."""
        process = current_process()
        assert self.network is not None
        assert process is not None
        return await self.network.connect(protocol_factory, host, port, process.host)

    def call_soon_threadsafe(self, *_args: Any, **_options: Any) -> NoReturn:  # type: ignore[override]
        raise ForeignThread("call_soon_threadsafe")

    def run_in_executor(self, *_args: Any) -> NoReturn:  # type: ignore[override]
        raise ForeignThread("run_in_executor")

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        """Leaves generators of dead processes alone: when they are finalized depends on the garbage collector."""
        self._asyncgens.discard(agen)  # type: ignore[attr-defined]

    def close(self) -> None:
        self._soon.clear()
        self._heap.clear()
        super().close()

    def finalize(self) -> None:
        """Ends the coroutines that stand still, most of them of dead processes, after the loop was closed.

        Else the garbage collector does it in the middle of other work, and what they log then is of no use: a dead process
        logs nothing.
        """
        disabled = logging.root.manager.disable
        logging.disable()
        try:
            for task in asyncio.all_tasks(self):
                coroutine: Any = task.get_coro()
                with suppress(Exception):
                    coroutine.close()
        finally:
            logging.disable(disabled)
