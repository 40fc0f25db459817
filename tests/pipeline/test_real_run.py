"""A log that real clients made through a real server: the tables' rebalances and owners are those of the clients' callbacks.

Members come, leave and are killed, one at a time; after each the test waits until all partitions have an owner again, and
notes what every client says it owns. PIPELINE_REBALANCES=200 in the environment makes it a long run.
"""

import os
import time
from typing import Any

import pytest
from compatibility.members import CLIENTS, Program, shared, wait_for_all
from pipeline.pipeline_rows import quick
from server_process import ServerProcess

pytest.importorskip("pyspark")

from coordinator.pipeline import evidence, report, tables


@pytest.fixture(scope="module", autouse=True)
def _quick(spark):
    with quick(spark):
        yield


FEW = 7
REBALANCES = int(os.environ.get("PIPELINE_REBALANCES", str(FEW)))
TOPIC, PARTITIONS = "orders", 4
"""One that config/test.yaml declares."""
SETTLED_S = 0.3


class Run:
    """A group's life, and what its members saw."""

    def __init__(self, bootstrap: str, folder: Any, protocol: str) -> None:
        self.bootstrap, self.folder, self.protocol = bootstrap, folder, protocol
        self.group = f"{protocol}-group"
        self.members: list[Program] = []
        self.causes: list[str] = []
        self.seen: list[tuple[int, dict[int, str]]] = []
        """(moment, partition -> client)."""
        self.names = 0

    def come(self) -> None:
        self.names += 1
        member = Program(CLIENTS["confluent"], self.bootstrap, self.folder)
        member.join(self.group, [TOPIC], name=f"{self.protocol}-{self.names}", protocol=self.protocol,
                    session_timeout_ms=6_000, heartbeat_ms=500)  # fmt: skip
        self.members.append(member)
        self.settle("joined")

    def leave(self) -> None:
        member = self.members.pop(1)
        member.call("leave")
        member.stop()
        self.settle("left")

    def die(self) -> None:
        self.members.pop(1).kill()
        self.settle("timed out")

    def settle(self, cause: str) -> None:
        self.causes.append(cause)
        wanted = {(TOPIC, partition) for partition in range(PARTITIONS)}
        wait_for_all(self.members, lambda: shared(self.members, wanted), "every partition to have one owner")
        time.sleep(SETTLED_S)
        owners = {partition: member.name for member in self.members for _, partition in member.owned}
        self.seen.append((int(time.time() * 1000), owners))

    def live(self, rebalances: int) -> None:
        self.come()
        while len(self.causes) < rebalances:
            if len(self.members) < 3:
                self.come()
            elif len(self.causes) % 3:
                self.leave()
            else:
                self.die()

    def end(self) -> None:
        for member in self.members:
            member.stop()


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Any:
    folder = tmp_path_factory.mktemp("real-run")
    settings = {"group.consumer.session.timeout.ms": 6_000,
                "group.consumer.min.session.timeout.ms": 500, "group.consumer.heartbeat.interval.ms": 500,
                "group.consumer.min.heartbeat.interval.ms": 100}  # fmt: skip
    runs = []
    with ServerProcess(folder, settings=settings) as server:
        try:
            for protocol in ("classic", "consumer"):
                runs.append(Run(server.bootstrap, folder, protocol))
                runs[-1].live(REBALANCES)
        finally:
            for each in runs:
                each.end()
        server.terminate()
        yield folder / "data", runs


def test_rebalances_causes_and_owners_are_what_the_clients_saw(spark, lived, tmp_path):
    data, runs = lived
    derived = tables.Derived(
        evidence=evidence.from_log(spark, str(data), {}), keep=lambda _, made: made.localCheckpoint()
    )
    moves, owned = derived.rebalances.collect(), derived.ownership_intervals.collect()
    clients = {row["member_id"]: row["client_id"] for row in derived.member_intervals.collect()}
    for run in runs:
        until_ms = run.seen[-1][0]
        seen = [
            row
            for row in moves
            if row["group"] == run.group and row["offset"] is not None and row["time_ms"] <= until_ms
        ]
        seen.sort(key=lambda row: row["offset"])
        causes = [next(word for word in ("join", "left", "timed out") if word in row["cause"]) for row in seen]
        assert causes == [{"joined": "join"}.get(cause, cause) for cause in run.causes]
        assert all(row["completed"] and row["duration_ms"] is not None for row in seen)
        for moment, owners in run.seen:
            here = [row for row in owned if row["group"] == run.group and row["from_ms"] <= moment
                    and (row["to_ms"] is None or row["to_ms"] > moment)]  # fmt: skip
            assert {row["partition"]: clients[row["member_id"]] for row in here} == owners
    assert derived.invariants_broken.isEmpty()
    assert derived.event_gaps.isEmpty()
    if REBALANCES > FEW:
        pages = list(report.write(derived, tmp_path, "a real run", lambda _: None))
        for run in runs:
            text = next(page for page in pages if run.group in page.name).read_text()
            assert f"<dd>{sum(row['group'] == run.group for row in moves):,}</dd>" in text
