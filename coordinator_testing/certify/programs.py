"""The instances of the program under certification: processes that the stage starts, stops, kills and pauses.

Each is in a session of its own, so that signals reach a shell's children too, and Ctrl-C of the terminal reaches none. What it
prints is kept in a file per instance. Where a line on stdout is a testimony, stdout is a terminal, so that the standard library
of the program's language writes each line at once.
"""

import asyncio
import os
import signal
import threading
import time
import tty
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from coordinator_testing.certify.case import InstanceHistory, ProcessRun

STOPPED_WITHIN_S = 15.0
_READ_BYTES = 1 << 16


def now_ms() -> int:
    """The wall clock, in milliseconds."""
    return time.time_ns() // 1_000_000


class Instance:
    """One instance of the program. It has a listener of the server to itself, so its requests are known by their listener."""

    def __init__(
        self, history: InstanceHistory, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> None:
        self.history = history
        self.log = log
        self.environment = dict(environment)
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._paused_ms: int | None = None
        self.on_line: Callable[[int, int, bytes], None] | None = None
        """Called in a thread for each line on stdout: with the index of the instance, the time, and the line."""

    @property
    def index(self) -> int:
        return self.history.index

    @property
    def listener(self) -> str:
        """The address that its requests come to: "host:port"."""
        return self.history.listener

    @property
    def runs(self) -> bool:
        """Whether its process has not ended. A paused one runs."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Starts a process. Raises OSError if the command cannot be executed."""
        assert not self.runs
        # Before the process exists: its first request separates its connections from those of the process before.
        started_ms = now_ms()
        with ExitStack() as stack:
            log = stack.enter_context(self.log.open("ab"))
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log if self.on_line is None else self._terminal(stack),
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        run = ProcessRun(pid=self._process.pid, started_ms=started_ms)
        self.history.runs.append(run)
        self._watch = asyncio.create_task(self._note_end(self._process, run))

    def _terminal(self, stack: ExitStack) -> int:
        """The program's end of a new terminal, whose other end is read until the program has closed it.

        A thread reads it: it notes when a line was written, and the loop may be busy with recordings then.
        """
        read, write = os.openpty()
        stack.callback(os.close, write)
        tty.setraw(write)  # or it would turn each end of a line into two characters
        threading.Thread(target=self._read_lines, args=(read,), daemon=True).start()
        return write

    def _read_lines(self, terminal: int) -> None:
        assert self.on_line is not None
        rest = b""
        with (
            os.fdopen(terminal, "rb", buffering=0) as stdout,
            self.log.open("ab", buffering=0) as log,
            suppress(OSError),  # EIO: the program has closed its end
        ):
            while data := stdout.read(_READ_BYTES):
                time_ms = now_ms()
                log.write(data)
                *lines, rest = (rest + data).split(b"\n")
                for each in lines:
                    self.on_line(self.index, time_ms, each)

    async def ends(self) -> int | None:
        """Waits until its process has ended; returns the exit code."""
        await self._watched()
        return self.history.runs[-1].exit_code

    async def stop(self, within_s: float = STOPPED_WITHIN_S) -> bool:
        """SIGTERM, and SIGKILL if that does not end it in time. Returns whether it ended in time."""
        self.resume()
        self._end(signal.SIGTERM)
        in_time = True
        if self._process is not None:
            try:
                await asyncio.wait_for(self._process.wait(), within_s)
            except TimeoutError:
                in_time = False
                await self.kill()
        await self._watched()
        return in_time

    async def kill(self) -> None:
        """SIGKILL: it can neither commit nor leave its group."""
        self._end(signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()
        await self._watched()

    def pause(self) -> None:
        """SIGSTOP: it does nothing, and its connections stay open."""
        self._signal(signal.SIGSTOP)
        self._paused_ms = now_ms()

    def resume(self) -> None:
        """SIGCONT, if it is paused."""
        if self._paused_ms is not None:
            self._signal(signal.SIGCONT)
            self.history.pauses.append((self._paused_ms, now_ms()))
            self._paused_ms = None

    def printed(self, bytes_max: int = 20_000) -> str:
        """The end of what it printed."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - bytes_max))
            return log.read().decode(errors="replace")

    def _end(self, number: signal.Signals) -> None:
        if self.runs:
            self.history.runs[-1].ended_by = "stage"
            self._signal(number)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.runs:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    async def _note_end(self, process: asyncio.subprocess.Process, run: ProcessRun) -> None:
        run.exit_code = await process.wait()
        run.ended_ms = now_ms()
        run.ended_by = run.ended_by or "itself"

    async def _watched(self) -> None:
        if self._watch is not None:
            await asyncio.shield(self._watch)  # whoever stops waiting must not stop the watch
