"""A server process that lives as long as a test run: free ports, its data in a folder that its owner deletes.

The pytest plugin and `coordinator exec` start one. It is a process and not a thread, because client libraries block, and
because tests can kill and restart it.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from coordinator.config.paths import CONFIGS

READY_WITHIN_S = 30.0
FORKED_WITHIN_S = 600.0
"""The same for a server that copies another one first."""
STOPPED_WITHIN_S = 10.0
LOG_BYTES_SHOWN = 20_000
OWN_VARIABLES = ("COORDINATOR_", "KAFKA_")
"""Prefixes of variables that this server does not get, because a developer has them for other servers."""


class DidNotStart(Exception):
    """The server ended or was not ready in time. The text has its log."""


class ThrowawayServer:
    """A server process with data and log in a folder. It gets free ports and keeps them when it restarts."""

    def __init__(
        self,
        folder: Path,
        settings: Sequence[str],
        *,
        config: Path = CONFIGS / "test.yaml",
        source: str | None = None,
        log_path: Path | None = None,
        own_session: bool = False,
    ) -> None:
        """`source`: the folder or HOST:PORT whose groups and offsets the server has at its first start."""
        self._source = source
        self.log_path = log_path or folder / "server.log"
        self._config = config
        self._own_session = own_session
        """Keeps the signals of the terminal, such as that of Ctrl-C, from the server."""
        self._data_dir = folder / "data"
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: dict[str, Any] = {}
        self._listen = self._admin = "127.0.0.1:0"

    @property
    def bootstrap_servers(self) -> str:
        """The value of `bootstrap.servers`: "host:port"."""
        return str(self._ready["bootstrap"])

    @property
    def admin_url(self) -> str:
        """The base URL of /metrics, /health/ready and /v1/groups: "http://host:port"."""
        return str(self._ready["admin"])

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the server and waits until it is ready. Raises DidNotStart."""
        # -P: the current folder is somebody's project, whose modules must not take the place of others.
        command = [sys.executable, "-P", "-m", "coordinator", "serve", "--config", str(self._config)]
        command += ["--listen", self._listen, "--admin", self._admin, "--data-dir", str(self._data_dir)]
        for setting in self._settings:
            command += ["--set", setting]
        ready_within_s = READY_WITHIN_S
        if self._source is not None and not self._data_dir.exists():
            command += ["--from", self._source]
            ready_within_s = FORKED_WITHIN_S
        environment = {name: text for name, text in os.environ.items() if not name.startswith(OWN_VARIABLES)}
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter and this module
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=self._own_session,
            )
        assert self._process.stdout is not None
        line = read_line(self._process.stdout, ready_within_s)
        if not line.endswith(b"\n"):
            self.stop()
            raise DidNotStart(f"the server did not become ready:\n{self.log_since(0)}")
        self._ready = json.loads(line)
        self._listen = self.bootstrap_servers
        self._admin = self.admin_url.removeprefix("http://")

    def kill(self) -> None:
        """Kills the server with SIGKILL, like a crash."""
        if self._process is not None:
            self._process.kill()
            self._wait()

    def restart(self) -> None:
        """Stops the server if it is running, and starts it on the same ports with the same data."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """Stops the server with SIGTERM, if it is running."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._wait()

    def log_size(self) -> int:
        """The current size of the log in bytes, for `log_since`."""
        return self.log_path.stat().st_size if self.log_path.exists() else 0

    def log_since(self, position: int) -> str:
        """The log after this position, or its end if that is long."""
        with self.log_path.open("rb") as log:
            log.seek(max(position, self.log_size() - LOG_BYTES_SHOWN))
            return log.read().decode(errors="replace")

    def _wait(self) -> None:
        assert self._process is not None
        self._process.wait(STOPPED_WITHIN_S)
        if self._process.stdout is not None:
            self._process.stdout.close()


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
