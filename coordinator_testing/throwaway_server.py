"""A server process that lives as long as a test run: free ports, its data in a folder that its owner deletes.

The pytest plugin and `coordinator exec` start one. It is a process and not a thread, because client libraries block, and
because tests can kill and restart it.
"""

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Self

from coordinator.config.paths import CONFIGS

FORKED_WITHIN_S = 600.0
"""How long a server that copies another one first has until it is ready."""
LOG_BYTES_SHOWN = 20_000
OWN_VARIABLES = ("COORDINATOR_", "KAFKA_")
"""Prefixes of variables that this server does not get, because a developer has them for other servers."""


class DidNotStart(Exception):
    """The server ended or was not ready in time. The text has its log."""


class ThrowawayServer:
    """A server process with data and log in a folder. It gets free ports and keeps them when it restarts."""

    ready_within_s = 30.0
    stopped_within_s = 10.0
    """How long a server has to stop; then it is killed."""

    def __init__(
        self,
        folder: Path,
        settings: Sequence[str] = (),
        *,
        config: Path | None = CONFIGS / "test.yaml",
        source: str | None = None,
        log_path: Path | None = None,
        own_session: bool = False,
    ) -> None:
        """`source`: the folder or HOST:PORT whose groups and offsets the server has at its first start."""
        self.folder = folder
        self.data_dir = folder / "data"
        self.log_path = log_path or folder / "server.log"
        self.config = config
        self.process: subprocess.Popen[bytes] | None = None
        self.ready: dict[str, Any] = {}
        """The line that the server prints when it is ready."""
        self._source = source
        self._own_session = own_session
        """Keeps the signals of the terminal, such as that of Ctrl-C, from the server."""
        self._arguments = [part for setting in settings for part in ("--set", setting)]
        self._listen = self._admin = "127.0.0.1:0"

    @property
    def bootstrap_servers(self) -> str:
        """The value of `bootstrap.servers`: "host:port", of several brokers separated by commas."""
        return str(self.ready["bootstrap"])

    @property
    def admin_url(self) -> str:
        """The base URL of /metrics, /health/ready and /v1/groups: "http://host:port"."""
        return str(self.ready["admin"])

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def _forks(self) -> bool:
        return self._source is not None and not self.data_dir.exists()

    def command(self) -> list[str]:
        """What is executed at the next start."""
        # -P: the current folder is somebody's project, whose modules must not take the place of others.
        command = [sys.executable, "-P", "-m", "coordinator", "serve"]
        if self.config is not None:
            command += ["--config", str(self.config)]
        if self._forks:
            command += ["--from", str(self._source)]
        return [
            *command, "--listen", self._listen, "--admin", self._admin, "--data-dir", str(self.data_dir),
            *self._arguments,
        ]  # fmt: skip

    def environment(self) -> dict[str, str]:
        """The variables that the server gets."""
        return {name: text for name, text in os.environ.items() if not name.startswith(OWN_VARIABLES)}

    def start(self) -> Self:
        """Starts the server and waits until it is ready. Raises DidNotStart."""
        ready_within_s = FORKED_WITHIN_S if self._forks else self.ready_within_s
        process = self.begin_to_start()
        assert process.stdout is not None
        line = read_line(process.stdout, ready_within_s)
        if not line.endswith(b"\n"):
            self.stop()
            raise DidNotStart(f"the server did not become ready:\n{self.log_since(0)}")
        self.ready = json.loads(line)
        self._listen = self.bootstrap_servers.partition(",")[0]
        self._admin = self.admin_url.removeprefix("http://")
        return self

    def begin_to_start(self) -> subprocess.Popen[bytes]:
        """Starts the server and does not wait until it is ready."""
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - this interpreter and this module
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self.environment(),
                start_new_session=self._own_session,
            )
        return self.process

    def kill(self) -> None:
        """Kills the server with SIGKILL, like a crash; returns when the process is gone."""
        if self.process is not None:
            self.process.kill()
            self._wait()

    def restart(self) -> Self:
        """Stops the server if it is running, and starts it on the same ports with the same data."""
        self.stop()
        return self.start()

    def stop(self) -> None:
        """Stops the server with SIGTERM, if it is running."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(self.stopped_within_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self._wait()

    def log_size(self) -> int:
        """The current size of the log in bytes, for `log_since`."""
        return self.log_path.stat().st_size if self.log_path.exists() else 0

    def log_since(self, position: int) -> str:
        """The log after this position, or its end if that is long."""
        with self.log_path.open("rb") as log:
            log.seek(max(position, self.log_size() - LOG_BYTES_SHOWN))
            return log.read().decode(errors="replace")

    def _wait(self) -> int:
        """The exit code, when the process is gone."""
        assert self.process is not None
        code = self.process.wait(self.stopped_within_s)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


def read_line(stream: IO[bytes], within_s: float) -> bytes:
    """A line from a pipe; without a line break if the time is up or the pipe ends earlier."""
    deadline = time.monotonic() + within_s
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not line.endswith(b"\n") and selector.select(max(0.0, deadline - time.monotonic())):
            piece = os.read(stream.fileno(), 4096)
            if not piece:
                break
            line += piece
    return line
