"""Raw connections to the coordinator of a group or transactional id, whichever of several workers that is."""

from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection

GROUP, TRANSACTION = 0, 1


class Coordinator(Connection):
    """A connection to the coordinator of a group or transactional id."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.bootstrap = bootstrap


def coordinator_of(server: ServerProcess, key: str, key_type: int = GROUP) -> Coordinator:
    """The server that FindCoordinator names."""

    def ask() -> list[str]:
        with Connection(server.bootstrap) as link:
            (found,) = link.call("FindCoordinator", 4, key_type=key_type, coordinator_keys=[key])["coordinators"]
        return [] if found["error_code"] else [f"{found['host']}:{found['port']}"]

    return Coordinator(wait_until(ask)[0])
