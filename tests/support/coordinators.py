"""Raw connections to the coordinator of a group or transactional id, whichever of several workers that is."""

from typing import Any

from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection

GROUP, TRANSACTION = 0, 1
OF_TRANSACTIONS = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn")
"""The APIs that the coordinator of a transactional id serves."""


class Coordinator(Connection):
    """A connection to the coordinator of a group or transactional id."""

    def __init__(self, bootstrap: str, client_id: str | None = "test") -> None:
        super().__init__(bootstrap, client_id)
        self.bootstrap = bootstrap


def coordinator_of(
    server: ServerProcess | str, key: str, key_type: int = GROUP, client_id: str | None = "test"
) -> Coordinator:
    """The server that FindCoordinator names. `server`: one of them, or the address of one."""
    bootstrap = server if isinstance(server, str) else server.bootstrap

    def ask() -> list[str]:
        with Connection(bootstrap) as link:
            found = link.call("FindCoordinator", 2, key_type=key_type, key=key)  # all releases have this version
        return [] if found["error_code"] else [f"{found['host']}:{found['port']}"]

    return Coordinator(wait_until(ask)[0], client_id)


class Route:
    """What a client of one group and one transactional id has: a connection to the coordinator of each.

    It sends a request when the one before it is answered.
    """

    def __init__(self, bootstrap: str, group: str, transactional_id: str, client_id: str) -> None:
        self._link = self._groups = coordinator_of(bootstrap, group, GROUP, client_id)
        self._transactions = coordinator_of(bootstrap, transactional_id, TRANSACTION, client_id)

    @property
    def unanswered(self) -> list[tuple[str, int, int]]:
        return self._link.unanswered

    def send(self, api: str, version: int, values: dict[str, Any]) -> None:
        self._link = self._transactions if api in OF_TRANSACTIONS else self._groups
        self._link.send(api, version, values)

    def receive(self, within_s: float) -> dict[str, Any]:
        return self._link.receive(within_s)

    def call(self, api: str, version: int, **values: Any) -> dict[str, Any]:
        return self._groups.call(api, version, **values)

    def close(self) -> None:
        self._groups.close()
        self._transactions.close()
