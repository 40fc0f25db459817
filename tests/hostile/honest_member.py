"""A member that works beside hostile clients, and what the server uses meanwhile."""

import re
import threading
import time
import urllib.request
import uuid
from pathlib import Path
from typing import Self

from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection

MIB = 1024 * 1024


class HonestMember:
    """The only member of a group, which sends heartbeats until `stop`."""

    def __init__(self, bootstrap: str):
        self.answers = 0
        self.worst_s = 0.0
        """The longest time that a heartbeat took."""
        self.failure: BaseException | None = None
        self._over = False
        self._link = Connection(bootstrap, "honest")
        group = f"honest-{uuid.uuid4()}"
        asked = {"group_id": group, "session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000}
        asked |= {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
        member_id = self._link.call("JoinGroup", 5, **asked, member_id="")["member_id"]
        generation = self._link.call("JoinGroup", 5, **asked, member_id=member_id)["generation_id"]
        self._identity = {"group_id": group, "generation_id": generation, "member_id": member_id}
        assert self._link.call("SyncGroup", 3, **self._identity, assignments=[])["error_code"] == 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join()
        self._link.close()
        if self.failure is not None:
            raise self.failure

    def is_served(self) -> None:
        """Waits until ten more heartbeats have been answered."""
        wanted = self.answers + 10
        wait_until(lambda: self.answers >= wanted or not self._thread.is_alive(), "the honest member to be served")
        assert self.answers >= wanted, f"the honest member was not served: {self.failure!r}"

    def _run(self) -> None:
        try:
            while not self._over:
                asked = time.monotonic()
                assert self._link.call("Heartbeat", 4, **self._identity)["error_code"] == 0
                self.worst_s = max(self.worst_s, time.monotonic() - asked)
                self.answers += 1
                time.sleep(0.005)  # enough to notice if it is not served, without loading the server
        except BaseException as error:
            self.failure = error


def resident_bytes(server: ServerProcess) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s*(\d+) kB", status)[1]) * 1024


def metric(server: ServerProcess, line: str) -> float:
    with urllib.request.urlopen(f"{server.admin}/metrics", timeout=30) as answer:
        found = re.search(rf"^{re.escape(line)} (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0
