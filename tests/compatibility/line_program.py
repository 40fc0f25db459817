"""Programs that report one line for each thing that they did, until a test lets them end."""

import subprocess
from collections import deque
from collections.abc import Callable

from tests.support.background import Background

LINES_SHOWN = 60
"""Of what a program logged last, if it does not go on."""
ENDS_WITHIN_S = 90.0
REPEATED = "|TERMINATE|"
"""librdkafka logs it all the time while it forgets a broker."""


class LineProgram:
    """A running program. `on_line` is called with each line of its output, in a thread of its own."""

    def __init__(self, command: list[str], on_line: Callable[[str], None]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.on_line = on_line
        self.errors: deque[str] = deque(maxlen=LINES_SHOWN)
        self.threads = [Background(self._read), Background(self._read_errors)]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.on_line(line)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if REPEATED not in line:
                self.errors.append(line)

    def check_alive(self) -> None:
        """Fails with what the program logged if it has ended."""
        assert self.process.poll() is None, "".join(self.errors)

    def end(self) -> None:
        """Lets it finish what it does."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.process.wait(ENDS_WITHIN_S)
        self._finish()

    def kill(self) -> None:
        """Kills it if it runs, and forgets it."""
        self.process.kill()
        self.process.wait()
        self._finish()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def _finish(self) -> None:
        for thread in self.threads:
            thread.finish()
