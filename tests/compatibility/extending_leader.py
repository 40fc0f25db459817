"""The leader of a group of real clients, on raw frames: it decides who gets what, and uses the extensions for leaders."""

import time
from typing import Any

from tests.scenarios.functions import assignment, subscription
from tests.support.waiting import WITHIN_S
from tests.support.wire import Connection, Values

NONE, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 0, 27, 79
PAUSE_S = 0.02
Shares = dict[str, list[int]]
"""Client id of a member -> its partitions of the topic."""


class ExtendingLeader:
    """The first member of a group. `names`: member id -> client id, for the members of the generation."""

    def __init__(self, bootstrap: str, group: str, topic: str, protocols: tuple[str, ...]):
        self.group, self.topic, self.protocols = group, topic, protocols
        self.link = Connection(bootstrap, "leader")
        self.member_id = ""
        self.generation = -1
        self.protocol = ""
        self.names: dict[str, str] = {}

    def join(self) -> None:
        """Joins, and returns with the members of the generation, which has no assignment yet."""
        metadata = subscription(self.topic)
        answer: Values = {"error_code": MEMBER_ID_REQUIRED, "member_id": self.member_id}
        while answer["error_code"] == MEMBER_ID_REQUIRED:
            self.member_id = answer["member_id"]
            answer = self.link.call(
                "JoinGroup", 9, group_id=self.group, session_timeout_ms=300_000, rebalance_timeout_ms=300_000,
                member_id=self.member_id, protocol_type="consumer",
                protocols=[{"name": name, "metadata": metadata} for name in self.protocols],
            )  # fmt: skip
        assert answer["error_code"] == NONE, answer
        assert answer["leader"] == self.member_id
        self.generation, self.protocol = answer["generation_id"], answer["protocol_name"]
        (described,) = self.link.call("DescribeGroups", 5, groups=[self.group])["groups"]
        ours = {each["member_id"] for each in answer["members"]}  # a later one may have joined before it was described
        self.names = {
            each["member_id"]: each["client_id"] for each in described["members"] if each["member_id"] in ours
        }

    def sync(self, shares: Shares, **extension: Any) -> Values:
        """Sends the assignments: nothing for members that `shares` does not name."""
        assignments = [
            {"member_id": member_id, "assignment": assignment({self.topic: shares.get(name, [])})}
            for member_id, name in self.names.items()
        ]
        return self._sync(assignments=assignments, **extension)

    def fail(self, error: int, message: str) -> Values:
        return self._sync(assignments=[], error_code=error, error_message=message)

    def _sync(self, **fields: Any) -> Values:
        return self.link.call(
            "SyncGroup", 5, group_id=self.group, generation_id=self.generation, member_id=self.member_id,
            protocol_type="consumer", protocol_name=self.protocol, within_s=WITHIN_S, **fields,
        )  # fmt: skip

    def beat(self) -> int:
        answer = self.link.call(
            "Heartbeat", 4, group_id=self.group, generation_id=self.generation, member_id=self.member_id
        )
        error: int = answer["error_code"]
        return error

    def wait_for_rebalance(self) -> None:
        deadline = time.monotonic() + WITHIN_S
        while self.beat() == NONE:
            assert time.monotonic() < deadline, "nobody joined"
            time.sleep(PAUSE_S)

    def gather(self, *names: str) -> None:
        """Leads generations without assignments until these clients are members, and returns before the last is assigned."""
        while not set(names) <= set(self.names.values()):
            self.sync({})
            self.wait_for_rebalance()
            self.join()
