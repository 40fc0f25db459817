"""`coordinator exec`: runs a command beside a throw-away server.

The server has a session of its own, so Ctrl-C in the terminal reaches the command and not the server: the command can clean up
with the server still there. SIGTERM to this process is passed on to the command.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from coordinator_testing.throwaway_server import DidNotStart, ThrowawayServer

KILLED = 128
"""Added to the number of the signal that ended the command, as shells do."""


class NoSuchCommand(Exception):
    """The command does not exist. No server was started."""


class CannotRun(Exception):
    """The server did not start, or the command could not be executed."""


def run(
    command: Sequence[str], config: Path, settings: Sequence[str], log_path: Path | None, source: str | None = None
) -> int:
    """Runs the command and returns its exit code, as a shell would. Raises NoSuchCommand and CannotRun.

    `source`: as for ThrowawayServer.
    """
    if shutil.which(command[0]) is None:
        raise NoSuchCommand(f"there is no command {command[0]}")
    with _Signals() as signals, tempfile.TemporaryDirectory(prefix="coordinator-exec-") as folder:
        server = ThrowawayServer(
            Path(folder), settings, config=config, source=source, log_path=log_path, own_session=True
        )
        try:
            server.start()
            started = server.log_size()
            code = signals.run(command, {**os.environ, **addresses(server)})
            if code or not server.alive:
                what = "the server's log" if server.alive else "the server ended before the command; its log"
                log = server.log_since(started if server.alive else 0).strip() or "(empty)"
                sys.stderr.write(f"coordinator: {what}:\n{log}\n")
        except (DidNotStart, OSError) as error:
            raise CannotRun(str(error)) from error
        finally:
            server.stop()
    return code


def addresses(server: ThrowawayServer) -> dict[str, str]:
    """The variables in which a command finds the server. Quarkus and Spring Boot read those with KAFKA in their names."""
    names = ("BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS", "SPRING_KAFKA_BOOTSTRAP_SERVERS")
    return {**dict.fromkeys(names, server.bootstrap_servers), "ADMIN_URL": server.admin_url}


class _Signals:
    """SIGTERM goes on to the command; without one it ends this process. The terminal sends SIGINT to the command itself."""

    def __init__(self) -> None:
        self._runs = False
        """Whether there is a command. It may be about to start, and then `_child` is still None."""
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        """The signals that arrived while the command started."""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Runs the command to its end and returns its exit code."""
        self._runs = True
        self._child = subprocess.Popen(command, env=environment)  # noqa: S603 - the user's own command
        for number in self._early:
            self._child.send_signal(number)
        code = self._child.wait()
        return code if code >= 0 else KILLED - code

    def _on_signal(self, number: int, _frame: Any) -> None:
        if not self._runs:
            raise SystemExit(KILLED + number)
        if number == signal.SIGINT:
            return
        if self._child is None:
            self._early.append(number)
        else:
            self._child.send_signal(number)
