"""An administrator forces rebalances of groups of real clients that read and commit: no commit is lost, none is doubled.

Each library runs a group of every protocol that it has, with two members. Commits are in flight when the rebalance is forced,
so some fail or find nothing to commit, as in any rebalance, and records are read again. But what is committed stays committed,
and is not read again.
"""

import http.client
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.compatibility.members import CLIENTS, Client, ClientError, Partition, Program, shared, wait_for_all
from tests.support.admin_client import view
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection

PARTITIONS, FORCED = 4, 2
SETTINGS = {
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.assignment.interval.ms": 0,
}
Start = Callable[[Client, ServerProcess], Program]


@dataclass
class LiveGroup:
    """A group with its members and its own topic."""

    server: ServerProcess
    name: str
    topic: str
    members: list[Program]
    marks: list[tuple[list[int], list[int]]] = field(default_factory=list)
    """After each forced rebalance: the committed offsets, and how many records each member had read."""

    @property
    def partitions(self) -> set[Partition]:
        return {(self.topic, partition) for partition in range(PARTITIONS)}

    def join(self, **how: Any) -> None:
        for member, name in zip(self.members, "ab", strict=True):
            member.join(self.name, [self.topic], name=name, heartbeat_ms=100, **how)
        self.settle(1)

    def settle(self, epoch: int) -> None:
        """Waits until the members share the partitions in this epoch or a later one."""

        def settled() -> bool:
            if not shared(self.members, self.partitions):
                return False
            shown = view(self.server, f"/v1/groups/{self.name}")
            return shown["state"] == "Stable" and shown["generation"] >= epoch

        wait_until(settled, lambda: f"{self.name} to settle:\n" + "\n".join(map(str, self.members)), 60)

    def produce(self, prefix: str) -> list[str]:
        values = [f"{prefix}-{partition}-{number}" for partition in range(PARTITIONS) for number in range(3)]
        for partition in range(PARTITIONS):
            mine = values[3 * partition : 3 * partition + 3]
            self.members[0].call("produce", topic=self.topic, values=mine, partition=partition)
        wait_for_all(self.members, lambda: set(values) <= set(self.read()), f"records {prefix} of {self.name}")
        return values

    def read(self) -> list[str]:
        return [value for member in self.members for value in member.values()]

    def force(self) -> int:
        """Forces a rebalance; returns the generation or epoch to which it leads."""
        connection = http.client.HTTPConnection(self.server.admin.removeprefix("http://"), timeout=60)
        body = json.dumps({"reason": "a test of live clients"})
        connection.request("POST", f"/v1/groups/{self.name}/rebalance", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        assert (response.status, answer.get("started")) == (200, True), answer
        epoch: int = answer["epoch"]
        return epoch

    def committed(self) -> list[int]:
        topics = [{"name": self.topic, "partition_indexes": list(range(PARTITIONS))}]
        with Connection(self.server.bootstrap) as link:
            answer = link.call(
                "OffsetFetch", 8, groups=[{"group_id": self.name, "topics": topics}], require_stable=True
            )
        (topic,) = answer["groups"][0]["topics"]
        return [partition["committed_offset"] for partition in topic["partitions"]]

    def records_seen(self) -> list[int]:
        """How many records each member has read so far. Programs report in order, so a result comes after earlier records."""
        for member in self.members:
            member.call("committed", partitions=[[self.topic, 0]])
        return [len(member.records) for member in self.members]

    def round(self, prefix: str) -> None:
        """Records are read, and a rebalance is forced while they are committed."""
        self.produce(prefix)
        before = self.committed()
        commits = [(member, member.send("commit")) for member in self.members]
        epoch = self.force()
        for member, number in commits:
            with suppress(ClientError):
                member.wait_for_result(number)
        self.settle(epoch)
        after = self.committed()
        assert all(late >= early for late, early in zip(after, before, strict=True)), (before, after)
        self.marks.append((after, self.records_seen()))

    def assert_nothing_committed_was_read_again(self) -> None:
        for committed, seen in self.marks:
            for member, count in zip(self.members, seen, strict=True):
                again = [record for record in member.records[count:] if record[2] < committed[record[1]]]
                assert not again, f"{member.name} of {self.name} read records again that were committed: {again}"


@pytest.mark.parametrize(
    ("library", "protocols"),
    [
        ("confluent", ("classic", "consumer")),
        ("kafka_python", ("classic",)),
        pytest.param("java", ("classic", "consumer"), marks=pytest.mark.java),
    ],
)
def test_forced_rebalances_of_live_groups_lose_and_double_no_commit(
    library: str,
    protocols: tuple[str, ...],
    coordinator_process: Callable[..., ServerProcess],
    start: Start,
    make_topic: Callable[..., str],
) -> None:
    server = coordinator_process(settings=SETTINGS)
    groups = [
        LiveGroup(
            server,
            f"live-{each}",
            make_topic(server, PARTITIONS, each),
            [start(CLIENTS[library], server) for _ in "ab"],
        )
        for each in protocols
    ]
    for group, protocol in zip(groups, protocols, strict=True):
        group.join(**({"protocol": "consumer"} if protocol == "consumer" else {}))
    for time in range(FORCED):
        for group in groups:
            group.round(f"{group.name}-{time}")
    for group in groups:
        group.produce("last")
        for member in group.members:
            member.call("commit")
        assert group.committed() == [3 * (FORCED + 1)] * PARTITIONS
        group.assert_nothing_committed_was_read_again()
        causes = [each["cause"] for each in view(server, f"/v1/groups/{group.name}")["rebalances"]]
        assert causes.count("an administrator forced a rebalance") == FORCED
