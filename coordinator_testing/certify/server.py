"""The server of a certification: one process, with a listener for every instance that runs at the same time.

So every recorded request says by its listener which instance sent it. Events that run at the same time use different listeners.
Where the server is several brokers, each has its own port of a listener: that of the first one, and those that follow.
"""

import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from coordinator.config.paths import CONFIGS
from coordinator.protocol.releases import NEWEST
from coordinator_testing.throwaway_server import DidNotStart, ThrowawayServer

SETTINGS = ("admin.connections=1000", "group.share.min.record.lock.duration.ms=1000")
"""Every event reads the recordings of its instances and waits for conditions at the same time. Locks that end soon are for the
groups that ask for them.
"""

STARTS_MAX = 5
RACKS = ("a", "b", "c")
"""The racks of the brokers, in their order."""
USER = ("certify", "certify-password")
"""Name and password of the instances, where they authenticate."""
SASL_SESSION_MS = 12_000
"""Longer than 10 s: kafkajs authenticates again so long before the end of its session."""


class CertificationServer:
    """The server and its listeners. `bootstrap` is that of the stage itself, which is not recorded."""

    def __init__(
        self,
        folder: Path,
        listeners: int,
        topic_delay_ms: int = 0,
        brokers: int = 1,
        release: str = NEWEST,
        *,
        has_sasl: bool = False,
    ) -> None:
        """`release`: of Kafka, which the instances see. The stage itself always sees the newest, and need not authenticate."""
        self._folder = folder
        self._brokers = brokers
        own = (f"topic.visibility.delay.ms={topic_delay_ms}", f"nodes={brokers}", f"emulate={release}")
        racks = (f"nodes.racks={','.join(RACKS)}",) if brokers > 1 else ()
        self._settings = (*SETTINGS, *own, *racks)
        self._has_sasl = has_sasl
        self._make(listeners)

    def _make(self, listeners: int) -> None:
        self.listeners = _free_addresses(listeners, self._brokers)
        config = self._folder / "server.yaml"
        test = yaml.safe_load((CONFIGS / "test.yaml").read_text())
        stage = {"address": "127.0.0.1:0", "emulate": NEWEST}
        own = self._sasl() if self._has_sasl else {"listeners": [{"address": each} for each in self.listeners]}
        config.write_text(yaml.safe_dump({**test, **own, "listeners": [stage, *own["listeners"]]}))
        self._server = ThrowawayServer(self._folder, self._settings, config=config, own_session=True)

    def _sasl(self) -> dict[str, Any]:
        """Settings by which the listeners of the instances ask for a name and a password."""
        users = self._folder / "users"
        users.write_text(":".join(USER))
        names = [f"INSTANCE_{number}" for number in range(len(self.listeners))]
        return {
            "listeners": [{"address": f"{name}://{each}"} for name, each in zip(names, self.listeners, strict=True)],
            "listener.security.protocol.map": ",".join(f"{name}:SASL_PLAINTEXT" for name in names),
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.users.file": str(users),
            "connections.max.reauth.ms": SASL_SESSION_MS,
        }

    @property
    def bootstrap(self) -> str:
        return self._server.bootstrap_servers

    def addresses(self, listener: str) -> Sequence[str]:
        """A listener's address at each broker."""
        host, _, port = listener.rpartition(":")
        return [f"{host}:{int(port) + number}" for number in range(self._brokers)]

    @property
    def admin_url(self) -> str:
        return self._server.admin_url

    def start(self) -> None:
        """Raises DidNotStart."""
        for _ in range(STARTS_MAX - 1):
            try:
                self._server.start()
            except DidNotStart as error:
                if "cannot listen" not in str(error):
                    raise
            else:
                return
            self._make(len(self.listeners))  # somebody has taken a port meanwhile
        self._server.start()

    def kill_and_start(self) -> None:
        """SIGKILL, then a new start on the same ports and data."""
        self._server.kill()
        self._server.start()

    def restart(self) -> None:
        """An orderly stop, and a new start on the same ports and data."""
        self._server.restart()

    def stop(self) -> None:
        self._server.stop()


def _free_addresses(count: int, brokers: int) -> Sequence[str]:
    """Addresses whose port, and those that follow for the other brokers, were free a moment ago."""
    found: list[str] = []
    with ExitStack() as stack:
        while len(found) < count:
            first = stack.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                for number in range(1, brokers):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port + number))
            except (OSError, OverflowError):
                continue
            found.append(f"127.0.0.1:{port}")
    return tuple(found)
