"""A real `coordinator serve` for tests: its own process, free ports, its own data folder, and several ways to end it.

A crash test is only honest against a process that really dies, so the server never runs in the test's interpreter. Each
process is stopped by its own pid, whatever the test did; the server's log is kept and shown when it does not start.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from coordinator_testing.throwaway_server import ThrowawayServer
from tests.support.ports import HeldPort
from tests.support.waiting import WITHIN_S

REPOSITORY = Path(__file__).resolve().parents[2]
TEST_CONFIG = REPOSITORY / "config" / "test.yaml"
TOPICS = [{"name": "events", "partitions": 1}, {"name": "orders", "partitions": 4}]
"""The topics that a server of the tests has from its first start on."""


class ServerProcess(ThrowawayServer):
    """One server. `.bootstrap` ("host:port"), `.admin` ("http://host:port") and `.pid` belong to the latest start.

    `settings` become `--set key=value` (as JSON unless the value is a string). Ports are chosen at the first start and
    kept across restarts (nobody else gets them while the server is dead), as is `.data_dir`. `config=None` starts with
    the built-in defaults.
    """

    ready_within_s = WITHIN_S
    stopped_within_s = 60.0

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, Any] | None = None,
        config: Path | None = TEST_CONFIG,
        arguments: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ):
        super().__init__(folder, config=config)
        self.settings = {**({"topics": TOPICS} if config == TEST_CONFIG else {}), **(settings or {})}
        self.arguments = arguments
        self._environment = dict(environment or {})
        self._held: list[HeldPort] = []

    @property
    def bootstrap(self) -> str:
        return self.bootstrap_servers

    @property
    def admin(self) -> str:
        return self.admin_url

    @property
    def pid(self) -> int:
        return self.ready["pid"]

    @property
    def listens_at(self) -> str:
        """Its own address, "host:port", whatever it advertises."""
        return self._held[0].address

    @property
    def admin_listens_at(self) -> str:
        """The address of admin HTTP, "host:port", also before the server is ready."""
        return self._held[1].address

    @property
    def host(self) -> str:
        return self.bootstrap.rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    @property
    def log(self) -> str:
        """Everything the server wrote to stderr so far, over all its starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def command(self) -> list[str]:
        self._arguments = [*self.arguments]
        for key, value in self.settings.items():
            self._arguments += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
        return super().command()

    def environment(self) -> dict[str, str]:
        return super().environment() | self._environment

    def hold_ports(self) -> None:
        """Chooses the ports, if that was not done before; a start does."""
        if not self._held:
            self._held = [HeldPort(int(address.rpartition(":")[2])) for address in (self._listen, self._admin)]
            self._listen, self._admin = self.listens_at, self.admin_listens_at

    def begin_to_start(self) -> subprocess.Popen[bytes]:
        assert not self.alive, "already started"
        self.hold_ports()
        return super().begin_to_start()

    def start_and_kill(self, after_s: float) -> None:
        """Starts the server and kills it after this time, whether it is ready or not."""
        self.begin_to_start()
        time.sleep(after_s)
        self.kill()

    def stop_and_kill(self, after_s: float) -> None:
        """Asks the server to stop and kills it after this time, whether it has stopped or not."""
        assert self.process is not None
        self.process.terminate()
        time.sleep(after_s)
        self.kill()

    def terminate(self) -> int:
        """SIGTERM; waits for the drain and returns the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self._wait()

    def restart(self, *, kill: bool = False) -> Self:
        """Stops the server if it still runs (by SIGKILL if `kill`), and starts it on the same ports and data folder."""
        if self.alive:
            if kill:
                self.kill()
            else:
                self.terminate()
        return self.start()

    def pause(self) -> None:
        """SIGSTOP: the process keeps its sockets and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """Ends the process if it runs, first gently and then by force; for clean-up, so it never fails."""
        for held in self._held:
            held.release()
        self._held.clear()
        if self.process is not None and self.alive:
            self.process.send_signal(signal.SIGCONT)
        super().stop()

    def __enter__(self) -> Self:
        return self if self.alive else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_together(servers: Iterable[ServerProcess]) -> None:
    """Starts several servers at the same time; returns when all are ready."""
    with ThreadPoolExecutor() as threads:
        list(threads.map(ServerProcess.start, servers))
