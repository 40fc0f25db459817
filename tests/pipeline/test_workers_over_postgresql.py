"""A storm over workers that share a journal, one of which is killed in the middle, is audited as the same storm on one server.

The audit reads it in three ways: from the workers, from their journal, and from the data folder of the single server.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from tests.pipeline.group_activity import LONG_SESSIONS
from tests.pipeline.pipeline_rows import QUICK
from tests.support.server_process import ServerProcess, start_together
from tests.support.waiting import wait_until
from tests.support.wire import Connection, ConnectionClosed

pytest.importorskip("pyspark")
pytest.importorskip("asyncpg")

from coordinator import cli
from coordinator.client.blocking import UNPROTECTED
from coordinator.operations.cluster_mirror import copied_cluster
from pyspark_coordinator_log.jobs import audit, sources, tables

pytestmark = pytest.mark.usefixtures("quick_plans")

SHARDS = 3
PARTITIONS = 4
GROUPS = [f"group-{number}" for number in range(6)]
ELSEWHERE = {14, 15, 16}
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""
UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH = 25, 113
SETTINGS = LONG_SESSIONS | {
    "offsets.topic.num.partitions": SHARDS,
    "transaction.state.log.num.partitions": SHARDS,
    # A delayed assignment would come after the members look settled.
    "group.consumer.assignment.interval.ms": 0,
}


class Storm:
    """Members that join, leave, commit, and commit once too often. Every step waits for the one before."""

    def __init__(self, bootstrap: Callable[[], str]) -> None:
        """`bootstrap`: a server that lives."""
        self._bootstrap = bootstrap
        self.accepted = self.refused = 0
        with Connection(bootstrap()) as link:
            wanted = {"name": "t", "num_partitions": PARTITIONS, "replication_factor": 1}
            made = link.call("CreateTopics", 7, topics=[wanted], timeout_ms=10_000)
            assert made["topics"][0]["error_code"] == 0

    def ask(self, group: str, api: str, version: int, code: Callable[[dict[str, Any]], int], **fields: Any) -> Any:
        """The answer of the group's coordinator, when there is one."""
        answers: list[Any] = []

        def is_answered() -> bool:
            try:
                with Connection(self._bootstrap()) as link:
                    found = link.call("FindCoordinator", 2, key=group, key_type=0)
                if found["error_code"]:
                    return False
                with Connection(f"{found['host']}:{found['port']}") as link:
                    answers.append(link.call(api, version, group_id=group, **fields))
            except (OSError, ConnectionClosed):
                return False
            return code(answers[-1]) not in ELSEWHERE

        wait_until(is_answered, lambda: answers[-1:])
        return answers[-1]

    def beat(self, group: str, member: "Member", epoch: int) -> Any:
        owned = [{"topic_id": topic_id, "partitions": list(indexes)} for topic_id, indexes in member.owned.items()]
        return self.ask(
            group, "ConsumerGroupHeartbeat", 1, lambda answer: answer["error_code"], member_id=member.id,
            member_epoch=epoch, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"],
            subscribed_topic_regex=None, topic_partitions=owned,
        )  # fmt: skip

    def commit(self, group: str, member: "Member", epoch: int, expected: int = 0) -> None:
        index = next(index for indexes in (*member.owned.values(), [0]) for index in indexes)
        partition = {"partition_index": index, "committed_offset": 1 + self.accepted, "committed_metadata": ""}
        answer = self.ask(
            group, "OffsetCommit", 9, lambda answer: answer["topics"][0]["partitions"][0]["error_code"],
            generation_id_or_member_epoch=epoch, member_id=member.id, group_instance_id=None,
            topics=[{"name": "t", "partitions": [partition]}],
        )  # fmt: skip
        assert answer["topics"][0]["partitions"][0]["error_code"] == expected
        if expected:
            self.refused += 1
        else:
            self.accepted += 1

    def settle(self, group: str, *members: "Member") -> None:
        """Returns when the members have all partitions, and all the same epoch."""

        def is_settled() -> bool:
            for member in members:
                answer = self.beat(group, member, member.epoch)
                assert answer["error_code"] == 0
                member.epoch = answer["member_epoch"]
                if answer["assignment"] is not None:
                    assigned = answer["assignment"]["topic_partitions"]
                    member.owned = {each["topic_id"]: each["partitions"] for each in assigned}
            owned = sorted(index for each in members for indexes in each.owned.values() for index in indexes)
            return owned == list(range(PARTITIONS)) and len({each.epoch for each in members}) == 1

        wait_until(is_settled, group)
        for member in members:
            assert self.beat(group, member, member.epoch)["member_epoch"] == member.epoch

    def first_half(self) -> dict[str, list["Member"]]:
        members = {}
        for group in GROUPS:
            first, second = members[group] = [Member(f"{group}-first"), Member(f"{group}-second")]
            self.settle(group, first)
            self.commit(group, first, first.epoch)
            old = first.epoch
            self.settle(group, first, second)
            self.commit(group, first, old - 1, STALE_MEMBER_EPOCH)
            # Last, because its answer waits for the journal, which then has the events before it, too.
            self.commit(group, second, second.epoch)
        return members

    def second_half(self, members: dict[str, list["Member"]]) -> None:
        for group, (first, second) in members.items():
            self.commit(group, first, first.epoch)
            self.beat(group, second, -1)
            self.commit(group, second, second.epoch, UNKNOWN_MEMBER_ID)
            self.settle(group, first)
            self.commit(group, first, first.epoch)


class Member:
    def __init__(self, member_id: str) -> None:
        self.id = member_id
        self.epoch = 0
        self.owned: dict[Any, list[int]] = {}


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """The storm on one server, which is killed in the middle. Returns it, stopped, with the storm."""
    server = ServerProcess(tmp_path_factory.mktemp("single"), settings=SETTINGS).start()
    try:
        storm = Storm(lambda: server.bootstrap)
        members = storm.first_half()
        server.kill()
        server.start()
        storm.second_half(members)
    finally:
        server.stop()
    return server, storm


@pytest.fixture(scope="module")
def shared(tmp_path_factory, database):
    """The storm on two workers, one of which is killed in the middle. Returns the other one, with the storm."""
    folder = tmp_path_factory.mktemp("workers")
    settings = SETTINGS | {
        "journal.cluster": "audited", "journal.replication": "optional", "data.plane": "none",
        "journal.beat.timeout.ms": 8_000, "journal.append.timeout.ms": 30_000,
    }  # fmt: skip
    with ExitStack() as stack:
        workers = []
        for node_id in (1, 2):
            (folder / str(node_id)).mkdir()
            worker = ServerProcess(
                folder / str(node_id), settings=settings | {"node.id": node_id},
                arguments=("--journal", database.url()),
            )  # fmt: skip
            stack.callback(worker.stop)
            workers.append(worker)
        start_together(workers)
        wait_until(lambda: leaders(workers[1].bootstrap) == {1, 2}, "both have shards")
        storm = Storm(lambda: workers[1].bootstrap)
        wait_until(lambda: knows_topic(workers[0].bootstrap), "the other worker has the topic, too")
        members = storm.first_half()
        workers[0].kill()
        storm.second_half(members)
        yield workers[1], storm


def leaders(bootstrap: str) -> set[int]:
    """The workers that have shards."""
    with Connection(bootstrap) as link:
        found = link.call("Metadata", 8, topics=[{"name": "__consumer_offsets"}], allow_auto_topic_creation=False)
    return {each["leader_id"] for each in found["topics"][0]["partitions"]}


def knows_topic(bootstrap: str) -> bool:
    with Connection(bootstrap) as link:
        found = link.call("Metadata", 8, topics=[{"name": "t"}], allow_auto_topic_creation=False)
    return not found["topics"][0]["error_code"]


def audited(source: Any) -> tuple[dict[str, Any], dict[str, int]]:
    """The sums of an audit without the source's name, and the rebalances of each group."""
    derived = tables.Derived(source=source, keep=lambda _, made: made.localCheckpoint())
    found = audit.summary(derived)
    found.pop("log")
    return found, rebalances(derived)


def rebalances(derived: tables.Derived) -> dict[str, int]:
    return {row["group"]: row["count"] for row in derived.rebalances.groupBy("group").count().collect()}


@pytest.fixture(scope="module")
def control(spark, single):
    server, storm = single
    found = audited(sources.from_log(spark, str(server.data_dir), {}))
    assert found[0]["commits"]["accepted"] == storm.accepted
    assert found[0]["commits"]["refused"] == storm.refused
    return found


def test_the_audit_of_a_copy_of_the_journal_finds_what_it_finds_on_one_server(
    spark, shared, control, database, tmp_path, capsys
):
    """Commits, refusals and rebalances of both owners, no gap in the events, no broken invariant."""
    _, storm = shared
    journal = ("--journal", database.url(), "--journal-cluster", "audited")
    assert cli.main(["log", "check", *journal]) == 0
    assert cli.main(["log", "export", str(tmp_path / "copy"), *journal]) == 0
    assert f"{3 * SHARDS + 2} logs" in capsys.readouterr().out.splitlines()[-1]
    found = audited(sources.from_log(spark, str(tmp_path / "copy"), {}))
    assert found == control
    assert (found[0]["gaps"], found[0]["broken"]) == ([], {})
    assert found[0]["commits"]["accepted"] == storm.accepted


def test_the_audit_through_the_workers_finds_the_same(spark, shared, control):
    worker, _ = shared
    with copied_cluster(worker.bootstrap, 30, UNPROTECTED) as folder:
        derived = tables.Derived(source=sources.from_log(spark, str(folder), {}), keep=lambda _, made: made.cache())
        assert rebalances(derived) == control[1]
        found = derived.sums.commits()
    assert found.pop("by_event_alone") == found["decisions"]  # a consumer does not see how much was compacted
    assert found == {name: count for name, count in control[0]["commits"].items() if name != "by_event_alone"}


def test_groups_why_gives_the_same_reasons_everywhere(shared, single, database, tmp_path, capsys):
    def causes(*arguments: str) -> list[str]:
        assert cli.main(["groups", "why", GROUPS[0], *arguments]) == 0
        lines = capsys.readouterr().out.splitlines()
        start = next(place for place, line in enumerate(lines) if line.startswith("REBALANCES"))
        return [line.split(maxsplit=2)[0::2] for line in lines[start + 1 : lines.index("", start)]]

    journal = ("--journal", database.url(), "--journal-cluster", "audited")
    assert cli.main(["log", "export", str(tmp_path / "copy"), *journal]) == 0
    capsys.readouterr()
    found = causes("--log", str(single[0].data_dir))
    assert causes("--log", str(tmp_path / "copy")) == found
    assert causes("--journal", database.url(), "--journal-cluster", "audited") == found
    assert causes("--bootstrap", shared[0].bootstrap) == found


@pytest.mark.thorough
def test_the_audit_of_an_archive_that_followed_the_journal_finds_the_same(spark, shared, control, database, tmp_path):
    source = ("--journal", database.url(), "--journal-cluster", "audited", "--out", str(tmp_path))
    settings = [word for name, value in QUICK.items() for word in ("--conf", f"{name}={value}")]
    assert cli.main(["pipeline", "follow", "--once", *source, *settings]) == 0
    assert audited(sources.from_archive(spark, str(tmp_path / "archive"))) == control
    verdicts = spark.read.parquet(str(tmp_path / "tables" / "commit_verdicts"))
    assert verdicts.count() == control[0]["commits"]["decisions"]
