"""The server of a certification: one process, with a listener for every instance that runs at the same time.

So every recorded request says by its listener which instance sent it. Events that run at the same time use different listeners.
"""

import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import yaml

from coordinator.config.paths import CONFIGS
from coordinator_testing.throwaway_server import DidNotStart, ThrowawayServer

SETTINGS = ("admin.connections=1000",)
"""Every event reads the recordings of its instances and waits for conditions at the same time."""

STARTS_MAX = 5


class CertificationServer:
    """The server and its listeners. `bootstrap` is that of the stage itself, which is not recorded."""

    def __init__(self, folder: Path, listeners: int) -> None:
        self._folder = folder
        self._make(listeners)

    def _make(self, listeners: int) -> None:
        self.listeners = _free_addresses(listeners)
        config = self._folder / "server.yaml"
        test = yaml.safe_load((CONFIGS / "test.yaml").read_text())
        own = {"listeners": [{"address": each} for each in ("127.0.0.1:0", *self.listeners)]}
        config.write_text(yaml.safe_dump({**test, **own}))
        self._server = ThrowawayServer(self._folder, SETTINGS, config=config, own_session=True)

    @property
    def bootstrap(self) -> str:
        return self._server.bootstrap_servers

    @property
    def admin_url(self) -> str:
        return self._server.admin_url

    def start(self) -> None:
        """Raises DidNotStart."""
        for _ in range(STARTS_MAX - 1):
            try:
                return self._server.start()
            except DidNotStart as error:
                if "cannot listen" not in str(error):
                    raise
            self._make(len(self.listeners))  # somebody has taken a port meanwhile
        return self._server.start()

    def kill_and_start(self) -> None:
        """SIGKILL, then a new start on the same ports and data."""
        self._server.kill()
        self._server.start()

    def restart(self) -> None:
        """An orderly stop, and a new start on the same ports and data."""
        self._server.restart()

    def stop(self) -> None:
        self._server.stop()


def _free_addresses(count: int) -> Sequence[str]:
    """Addresses with ports that were free a moment ago."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return tuple(f"127.0.0.1:{each.getsockname()[1]}" for each in sockets)
