"""The log of a real server with real clients: rebalances and owners match the clients' callbacks.

Members join, leave and are killed, one at a time. After each step the test waits until every partition has an owner again and
notes what each client reports. At the end an administrator evicts all members. PIPELINE_REBALANCES=200 in the environment makes
it a long run.
"""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import pytest

from tests.compatibility.members import CLIENTS, Program, shared, wait_for_all
from tests.support.admin_client import act, view
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

pytest.importorskip("pyspark")

from pyspark_coordinator_log.jobs import report, sources, tables
from pyspark_coordinator_log.jobs.times import clock

pytestmark = pytest.mark.usefixtures("quick_plans")


REBALANCES = int(os.environ.get("PIPELINE_REBALANCES", "7"))
JOINED, LEFT, TIMED_OUT = "join", "left", "timed out"
"""Words in the causes of rebalances."""
TOPIC, PARTITIONS = "orders", 4
"""One of the topics that the servers of the tests have."""


class GroupLife:
    """The life of a group, and what its members saw."""

    def __init__(self, bootstrap: str, folder: Any, protocol: str) -> None:
        self.bootstrap, self.folder, self.protocol = bootstrap, folder, protocol
        self.group = f"{protocol}-group"
        self.members: list[Program] = []
        self.causes: list[str] = []
        self.seen: list[tuple[int, dict[int, str]]] = []
        """(time, partition -> client)."""
        self.names = 0

    def come(self) -> None:
        self.names += 1
        member = Program(CLIENTS["confluent"], self.bootstrap, self.folder)
        member.join(self.group, [TOPIC], name=f"{self.protocol}-{self.names}", protocol=self.protocol,
                    session_timeout_ms=6_000, heartbeat_ms=500)  # fmt: skip
        self.members.append(member)
        self.settle(JOINED)

    def leave(self) -> None:
        member = self.members.pop(1)
        member.call("leave")
        member.stop()
        self.settle(LEFT)

    def die(self) -> None:
        self.members.pop(1).kill()
        self.settle(TIMED_OUT)

    def settle(self, cause: str) -> None:
        self.causes.append(cause)
        wanted = {(TOPIC, partition) for partition in range(PARTITIONS)}
        wait_for_all(self.members, lambda: shared(self.members, wanted), "every partition to have one owner")
        # The last member may not have acknowledged its assignment yet; only then is the rebalance complete for the server.
        wait_for_all(self.members, self._is_stable, "the group to be stable")
        owners = {partition: member.name for member in self.members for _, partition in member.owned}
        self.seen.append((int(time.time() * 1000), owners))

    def _is_stable(self) -> bool:
        with Connection(self.bootstrap) as link:
            groups = link.call("ListGroups", 4, states_filter=[])["groups"]
        return {group["group_id"]: group["group_state"] for group in groups}[self.group].lower() == "stable"

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
def real_runs(tmp_path_factory) -> Any:
    folder = tmp_path_factory.mktemp("real-run")
    settings = {"admin.control.enable": True, "group.consumer.session.timeout.ms": 6_000,
                "group.consumer.min.session.timeout.ms": 500, "group.consumer.heartbeat.interval.ms": 500,
                "group.consumer.min.heartbeat.interval.ms": 100}  # fmt: skip
    with ServerProcess(folder, settings=settings) as server, ThreadPoolExecutor() as pool:
        runs = [GroupLife(server.bootstrap, folder, protocol) for protocol in ("classic", "consumer")]
        try:
            list(pool.map(lambda each: each.live(REBALANCES), runs))
            for group in (each.group for each in runs):
                for member in view(server, f"/v1/groups/{group}")["members"]:
                    act(server, f"/v1/groups/{group}/members/{quote(member['member_id'], safe='')}/evict")
        finally:
            for each in runs:
                each.end()
        server.terminate()
        yield folder / "data", runs


class Page(HTMLParser):
    """The content of a group's page: `figures` (name -> text), table `rows`, the data of its `timeline`."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.figures: dict[str, str] = {}
        self.rows: list[list[str]] = []
        self.timeline: dict[str, Any] = {}
        self._open: list[str] = []
        self._is_timeline = False
        self._name = ""
        self.feed(text)

    def handle_starttag(self, name: str, attributes: Any) -> None:
        if name not in {"meta", "link", "br"}:
            self._open.append(name)
        self._is_timeline = name == "script" and ("type", "application/json") in attributes
        if name == "tr":
            self.rows.append([])
        elif name == "td":
            self.rows[-1].append("")

    def handle_endtag(self, name: str) -> None:
        assert self._open.pop() == name

    def handle_startendtag(self, name: str, attributes: Any) -> None:
        """Has no content."""

    def handle_data(self, text: str) -> None:
        if self._is_timeline and self._open[-1] == "script":
            self.timeline = json.loads(text)
        match self._open[-2:]:
            case [_, "dt"]:
                self._name = text
            case [_, "dd"]:
                self.figures[self._name] = text
        if "td" in self._open:
            self.rows[-1][-1] += text

    def rebalances(self) -> list[tuple[str, str]]:
        """(time, cause) of each rebalance, in order."""
        return sorted((row[0], row[2]) for row in self.rows if len(row) == 11)

    def owners(self, moment_ms: int) -> dict[int, str]:
        """The client that owns each partition in the timeline."""
        clients = {member["member_id"]: member["client_id"] for member in self.timeline["members"]}
        return {
            each["partition"]: clients[each["member_id"]]
            for each in self.timeline["ownership"]
            if each["from_ms"] <= moment_ms and (each["to_ms"] is None or each["to_ms"] > moment_ms)
        }


def test_rebalances_causes_and_owners_match_the_clients(spark, real_runs, tmp_path):
    """In the tables and in the report made of them: how many, why, and who owned what at each moment."""
    data, runs = real_runs
    derived = tables.Derived(source=sources.from_log(spark, str(data), {}), keep=lambda _, made: made.localCheckpoint())
    moves, owned = derived.rebalances.collect(), derived.ownership_intervals.collect()
    clients = {row["member_id"]: row["client_id"] for row in derived.member_intervals.collect()}
    assert derived.invariants_broken.isEmpty()
    assert derived.event_gaps.isEmpty()
    pages = list(report.write(derived, tmp_path, "a real run", lambda _: None))
    for run in runs:
        until_ms = run.seen[-1][0]
        page = Page(next(page for page in pages if run.group in page.name).read_text())
        mine = [row for row in moves if row["group"] == run.group]
        seen = [row for row in mine if row["offset"] is not None and row["time_ms"] <= until_ms]
        seen.sort(key=lambda row: row["offset"])
        assert [cause_of(row["cause"]) for row in seen] == run.causes
        assert all(row["completed"] and row["duration_ms"] is not None for row in seen)
        listed = page.rebalances()
        assert page.figures["rebalances"] == f"{len(mine):,}"
        assert len(listed) == len(mine)
        assert [cause_of(cause) for when, cause in listed if when and when <= clock(until_ms)] == run.causes
        for moment, owners in run.seen:
            here = [row for row in owned if row["group"] == run.group and row["from_ms"] <= moment
                    and (row["to_ms"] is None or row["to_ms"] > moment)]  # fmt: skip
            assert {row["partition"]: clients[row["member_id"]] for row in here} == owners
            assert page.owners(moment) == owners


def cause_of(text: str) -> str:
    return next(word for word in (JOINED, LEFT, TIMED_OUT) if word in text)
