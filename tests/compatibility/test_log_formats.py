"""Our log is Kafka's: Kafka's own tool reads our segments, and our server takes over what a Kafka broker wrote."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.subscription import metadata_hash
from coordinator.groups.fence import NO_FENCE
from coordinator.operations.log_dump import dump as log_dump
from coordinator.operations.log_folders import find_log_folders
from coordinator.protocol.errors import ErrorCode
from coordinator_testing.control import Control
from tests.compatibility.extending_leader import ExtendingLeader
from tests.scenarios.conftest import wait_until_serving
from tests.support.catalog import Catalog
from tests.support.kafka_broker import KafkaBroker, dump_segments
from tests.support.protocol_client import ProtocolMember, wait_for_correct_group
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection, commit

pytestmark = pytest.mark.java


def make_history(bootstrap: str) -> list[ProtocolMember]:
    """Creates a topic, a group of two members with offsets, an emptied, a simple and a static group, and a deleted
    offset.
    """
    with Connection(bootstrap, "history") as link:
        wanted = {"name": "t", "num_partitions": 3, "replication_factor": 1}
        link.call("CreateTopics", 4, topics=[wanted], timeout_ms=10_000)
        while link.call("Metadata", 4, topics=[{"name": "t"}], allow_auto_topic_creation=False)["topics"][0][
            "error_code"
        ]:
            pass
        members = [ProtocolMember(bootstrap, "pair", name, 4, session_ms=60_000).start() for name in "ab"]
        wait_for_correct_group(bootstrap, members)
        first = members[0]
        commit(link, "pair", {0: 5, 1: 6}, generation_id_or_member_epoch=first.generation, member_id=first.member_id)
        commit(link, "simple", {0: 1, 2: 3})
        commit(link, "simple", {0: 2})
        link.call("OffsetDelete", 0, group_id="simple", topics=[{"name": "t", "partitions": [{"partition_index": 2}]}])
        commit(link, "gone", {0: 9})
        link.call("DeleteGroups", 2, groups_names=["gone"])
        for group, instance in (("static", "i"), ("emptied", None)):
            who = {"group_instance_id": instance} if instance else {}
            joined = link.call(
                "JoinGroup", 5 if instance else 3, group_id=group, session_timeout_ms=60_000, rebalance_timeout_ms=60_000,
                protocol_type="consumer", protocols=[{"name": "range", "metadata": b"\x00\x00"}], **who,
            )  # fmt: skip
            mine = [{"member_id": joined["member_id"], "assignment": b"mine"}]
            sync = {"group_id": group, "generation_id": 1, "member_id": joined["member_id"], "assignments": mine}
            assert link.call("SyncGroup", 3, **sync, group_instance_id=instance)["error_code"] == 0
            if instance is None:
                link.call("LeaveGroup", 1, group_id=group, member_id=joined["member_id"])
    return members


class Halted:
    """A group of one static member that is Stable in generation 1 and whose generation 2 was formed and not assigned."""

    JOIN: ClassVar[dict[str, Any]] = {
        "group_id": "halted", "session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\x00\x00"}], "group_instance_id": "h",
    }  # fmt: skip

    def __init__(self, link: Connection) -> None:
        self.member_id = link.call("JoinGroup", 5, **self.JOIN)["member_id"]
        assert self.sync(link, 1, b"first") == 0
        assert self.join(link) == 2

    def join(self, link: Connection) -> int:
        answer = link.call("JoinGroup", 5, **self.JOIN, member_id=self.member_id)
        assert answer["error_code"] == 0
        generation: int = answer["generation_id"]
        return generation

    def sync(self, link: Connection, generation: int, assignment: bytes) -> int:
        mine = [{"member_id": self.member_id, "assignment": assignment}]
        answer = link.call("SyncGroup", 3, **self._who(generation), assignments=mine)
        code: int = answer["error_code"]
        return code

    def heartbeat(self, link: Connection, generation: int) -> int:
        code: int = link.call("Heartbeat", 3, **self._who(generation))["error_code"]
        return code

    def assignment(self, link: Connection) -> tuple[str, bytes]:
        (group,) = link.call("DescribeGroups", 5, groups=["halted"])["groups"]
        (member,) = group["members"]
        assert member["member_id"] == self.member_id
        return group["group_state"], member["member_assignment"]

    def _who(self, generation: int) -> dict[str, Any]:
        return {
            "group_id": "halted", "generation_id": generation, "member_id": self.member_id, "group_instance_id": "h",
        }  # fmt: skip


def what_a_client_sees(bootstrap: str) -> dict[str, Any]:
    """Every group and its offsets, sorted."""
    with Connection(bootstrap) as link:
        names = sorted(group["group_id"] for group in link.call("ListGroups", 5)["groups"])
        described = link.call("DescribeGroups", 5, groups=names)["groups"]
        for group in described:
            group["members"].sort(key=lambda member: member["member_id"])
        offsets = {name: link.call("OffsetFetch", 7, group_id=name, topics=None) for name in names}
        for answer in offsets.values():
            for topic in answer["topics"]:
                topic["partitions"].sort(key=lambda partition: partition["partition_index"])
    return {"groups": described, "offsets": offsets}


def test_kafkas_own_tool_reads_our_segments(coordinator_process: Callable[..., ServerProcess]) -> None:
    server = coordinator_process()
    members = make_history(server.bootstrap)
    with Connection(server.bootstrap) as link:
        join_modern(link, "modern", ["t"])
        halted = Halted(link)
        join_application(link)
    for member in members:
        member.die()
    server.terminate()
    (segment,) = sorted((server.data_dir / "__consumer_offsets-0").glob("*.log"))
    said = dump_segments(segment, options=("--offsets-decoder", "--print-data-log"))
    assert "isvalid: true" in said
    assert "isvalid: false" not in said
    for record in (
        '"group":"pair"', '"group":"static"', '"groupInstanceId":"i"', '"group":"simple","topic":"t","partition":0',
        '"groupId":"modern","memberId":"m"', '"memberEpoch":2',
        '"groupId":"app","memberId":"m"', '"subtopologyId":"1"', '"processId":"p"', '"activeTasks":[{"subtopologyId":"0"',
        '"metadata":"note 2"', '"protocolType":"consumer"', f'"memberId":"{members[0].member_id}"',
    ):  # fmt: skip
        assert record in said, f"{record} is missing in\n{said[-3000:]}"
    assert halted.member_id in said
    # Forming generations are skipped: what follows them is shown, and they are in the segment.
    assert segment.read_bytes().count(FORMING) == 3, "two records and a tombstone"
    assert "payload: null" in said or "payload:null" in said or "<DELETE>" in said, "no tombstone"


def test_a_folder_that_kafka_wrote_has_the_same_groups_and_offsets_here(tmp_path: Path) -> None:
    """Its members too: they continue in their generation against our server."""
    kafka = KafkaBroker(tmp_path / "kafka")
    kafka.start()
    try:
        wait_until_serving(kafka.bootstrap)
        members = make_history(kafka.bootstrap)
        wanted = what_a_client_sees(kafka.bootstrap)
    finally:
        kafka.stop()
    folder = tmp_path / "ours"
    shutil.copytree(kafka.data_dir / "__consumer_offsets-0", folder / "data" / "__consumer_offsets-0")
    with ServerProcess(folder) as server:
        seen = what_a_client_sees(server.bootstrap)
        assert seen["offsets"] == wanted["offsets"]
        assert seen["groups"] == wanted["groups"]
        before = [(member.generation, member.assignment) for member in members]
        for member in members:
            member.bootstrap = server.bootstrap
        wait_for_correct_group(server.bootstrap, members)
        assert [(member.generation, member.assignment) for member in members] == before
        for member in members:
            member.die()


def test_a_consumer_group_of_kafka_goes_on_here_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """With its topics, whose ids are in Kafka's metadata log: the group's epoch and every assignment are unchanged."""
    kafka = KafkaBroker(tmp_path / "kafka").start()
    try:
        wait_until_serving(kafka.bootstrap)
        with Connection(kafka.bootstrap) as link:
            wanted = {"name": "t", "num_partitions": 3, "replication_factor": 1}
            link.call("CreateTopics", 7, topics=[wanted], timeout_ms=10_000)
            while owned(joined := join_modern(link, "modern", ["t"])) != 3:
                pass
            committed = [{"name": "t", "partitions": [{"partition_index": 1, "committed_offset": 5}]}]
            who = {"member_id": "m", "generation_id_or_member_epoch": joined["member_epoch"]}
            answer = link.call("OffsetCommit", 9, group_id="modern", **who, topics=committed)
            assert answer["topics"][0]["partitions"][0]["error_code"] == 0
            (before,) = link.call("ConsumerGroupDescribe", 1, group_ids=["modern"])["groups"]
    finally:
        kafka.stop()
    folder = tmp_path / "ours"
    for log in ("__cluster_metadata-0", "__consumer_offsets-0"):
        shutil.copytree(kafka.data_dir / log, folder / "data" / log)
    with ServerProcess(folder) as server, Connection(server.bootstrap) as link:
        owns = joined["assignment"]["topic_partitions"]
        beat = {"group_id": "modern", "member_id": "m", "member_epoch": joined["member_epoch"]}
        for what in ({"topic_partitions": owns}, {}):
            answer = link.call("ConsumerGroupHeartbeat", 1, **beat, **what)
            assert (answer["error_code"], answer["member_epoch"]) == (0, joined["member_epoch"])
            assert answer["assignment"] is None
        (after,) = link.call("ConsumerGroupDescribe", 1, group_ids=["modern"])["groups"]
        assert after == before
        found = link.call("OffsetFetch", 7, group_id="modern", topics=None)["topics"]
        assert [each["committed_offset"] for topic in found for each in topic["partitions"]] == [5]


def test_a_streams_group_of_kafka_goes_on_here_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """With its topology and internal topics: epochs, tasks and offsets are unchanged, and so is the hash of its topics."""
    kafka = KafkaBroker(tmp_path / "kafka").start()
    try:
        wait_until_serving(kafka.bootstrap)
        with Connection(kafka.bootstrap) as link:
            wanted = {"name": "t", "num_partitions": 3, "replication_factor": 1}
            link.call("CreateTopics", 7, topics=[wanted], timeout_ms=10_000)
            epoch = join_application(link)
            committed = [{"name": "t", "partitions": [{"partition_index": 1, "committed_offset": 5}]}]
            who = {"member_id": "m", "generation_id_or_member_epoch": epoch}
            answer = link.call("OffsetCommit", 9, group_id="app", **who, topics=committed)
            assert answer["topics"][0]["partitions"][0]["error_code"] == 0
            (before,) = link.call("StreamsGroupDescribe", 1, group_ids=["app"])["groups"]
    finally:
        kafka.stop()
    folder = tmp_path / "ours"
    for log in ("__cluster_metadata-0", "__consumer_offsets-0"):
        shutil.copytree(kafka.data_dir / log, folder / "data" / log)
    with ServerProcess(folder) as server, Connection(server.bootstrap) as link:
        for what in (ALL_TASKS, {}):
            answer = link.call(
                "StreamsGroupHeartbeat", 1, group_id="app", member_id="m", member_epoch=epoch, **what
            )  # fmt: skip
            assert (answer["error_code"], answer["member_epoch"], answer["status"]) == (0, epoch, [])
            assert answer["active_tasks"] is None
        (after,) = link.call("StreamsGroupDescribe", 1, group_ids=["app"])["groups"]
        assert after == before
        assert after["group_state"] == "Stable"
        found = link.call("OffsetFetch", 7, group_id="app", topics=None)["topics"]
        assert [each["committed_offset"] for topic in found for each in topic["partitions"]] == [5]


def test_a_kafka_broker_serves_the_groups_of_our_log(tmp_path: Path) -> None:
    """Groups of all kinds, their members, generations, assignments and epochs, despite the extra field RevocationEpoch.

    A group whose leader resynced has its last assignments there; Kafka skips the record that says so.
    A group without an assignment for its last generation is in the generation before, as after a crash of that broker. What the
    broker then writes stands when the log comes back to us, although it has left our record of the forming generation there.
    """
    (tmp_path / "ours").mkdir()
    with ServerProcess(tmp_path / "ours") as server:
        members = make_history(server.bootstrap)
        with Connection(server.bootstrap) as link:
            join_modern(link, "modern", ["t"])
            join_application(link)
            lead_static_lives(link)
            halted = Halted(link)
            assert halted.assignment(link) == ("CompletingRebalance", b"first")
        leader = ExtendingLeader(server.bootstrap, "resynced", "t", ("range",))
        leader.join()
        leader.sync({"leader": [0]})
        assert leader.sync({"leader": [0, 1]}, resync=1)["resynced"] == 1
        leader.link.close()
        wanted = classic_groups(server.bootstrap), modern_groups(server.bootstrap), application(server.bootstrap)
        assert wanted[2]["group_state"] == "Stable"
        for member in members:
            member.die()
        # Kafka skips the record of a rebalance from outside: the group is Stable there.
        with Control(server.admin) as control:
            assert control.group("pair").rebalance("a test").started
        server.terminate()
        ours = sorted((server.data_dir / "__consumer_offsets-0").glob("*.log"))
        kafka = KafkaBroker(tmp_path / "kafka")
        kafka.start()
        try:
            wait_until_serving(kafka.bootstrap)
        finally:
            kafka.stop()
        theirs = kafka.data_dir / "__consumer_offsets-0"
        for file in theirs.iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", ".kafka_cleanshutdown"):
            (kafka.data_dir / name).unlink(missing_ok=True)
        for segment in ours:
            shutil.copy(segment, theirs)
        kafka.start()
        try:
            wait_until_serving(kafka.bootstrap)
            seen = classic_groups(kafka.bootstrap), modern_groups(kafka.bootstrap), application(kafka.bootstrap)
            assert seen == wanted
            with Connection(kafka.bootstrap) as link:
                assert halted.assignment(link) == ("Stable", b"first")
                assert halted.heartbeat(link, 2) == ErrorCode.ILLEGAL_GENERATION
                assert halted.heartbeat(link, 1) == 0
                assert halted.join(link) == 2, "Kafka gives the number out again"
                assert halted.sync(link, 2, b"of Kafka") == 0
        finally:
            kafka.stop()
        again = tmp_path / "again"
        shutil.copytree(theirs, again / "data" / "__consumer_offsets-0")
        assert any(FORMING in segment.read_bytes() for segment in theirs.glob("*.log"))
    with ServerProcess(again) as server, Connection(server.bootstrap) as link:
        assert halted.assignment(link) == ("Stable", b"of Kafka")
        assert halted.heartbeat(link, 2) == 0


FORMING = b"\x07\xd0\x00\x06halted"
"""The key of the group's forming generation: record type 2000 and the group."""


def classic_groups(bootstrap: str) -> list[dict[str, Any]]:
    names = {"pair", "static", "emptied", "resynced"}
    return [group for group in what_a_client_sees(bootstrap)["groups"] if group["group_id"] in names]


def lead_static_lives(link: Connection) -> None:
    """Static members that leave temporarily: one stays away, one returns under its member id, one under another and back."""
    for group, returns in (("away", ()), ("back", ("m",)), ("replaced", ("n", "m"))):
        about = {"group_id": group, "instance_id": "i"}
        joining = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
        calls = [("m", 0)]
        for member_id in returns:
            calls += [(calls[-1][0], -2), (member_id, 0)]
        if not returns:
            calls.append(("m", -2))
        for member_id, epoch in calls:
            what = joining if epoch == 0 else {}
            answer = link.call("ConsumerGroupHeartbeat", 1, **about, member_id=member_id, member_epoch=epoch, **what)
            assert answer["error_code"] == 0


def modern_groups(bootstrap: str) -> list[tuple[Any, ...]]:
    """State and epochs; each server has its own mapping of topic ids."""
    with Connection(bootstrap) as link:
        names = ["modern", "away", "back", "replaced"]
        groups = link.call("ConsumerGroupDescribe", 1, group_ids=names)["groups"]
    return [
        (
            group["group_state"], group["group_epoch"], group["assignment_epoch"],
            [(member["member_id"], member["instance_id"], member["member_epoch"], member["member_type"])
             for member in group["members"]],
        )
        for group in groups
    ]  # fmt: skip


TOPOLOGY = {
    "epoch": 1,
    "subtopologies": [
        {"subtopology_id": "0", "source_topics": ["t"], "repartition_sink_topics": ["app-repartition"]},
        {
            "subtopology_id": "1",
            "repartition_source_topics": [{"name": "app-repartition", "topic_configs": []}],
            "state_changelog_topics": [
                {"name": "app-changelog", "topic_configs": [{"key": "cleanup.policy", "value": "compact"}]}
            ],
        },
    ],
}
NO_TASKS: dict[str, list[Any]] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
ALL_TASKS = NO_TASKS | {"active_tasks": [{"subtopology_id": each, "partitions": [0, 1, 2]} for each in ("0", "1")]}


def join_application(link: Connection) -> int:
    """Creates a streams group of one member that has all tasks; returns its epoch."""
    settings = {"streams.initial.rebalance.delay.ms": "0", "streams.assignment.interval.ms": "0"}
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in settings.items()]
    link.call(
        "IncrementalAlterConfigs", 1,
        resources=[{"resource_type": 32, "resource_name": "app", "configs": configs}],
    )  # fmt: skip
    about = {"group_id": "app", "member_id": "m"}
    joining = {"rebalance_timeout_ms": 60_000, "process_id": "p", "topology": TOPOLOGY, **NO_TASKS}
    answers: list[Any] = []

    def has_all() -> bool:
        # The request is repeated until the internal topics exist.
        answer = link.call("StreamsGroupHeartbeat", 1, **about, member_epoch=0, **joining)
        answers.append(answer)
        return answer["active_tasks"] == ALL_TASKS["active_tasks"] and not answer["status"]

    wait_until(has_all, "all tasks")
    epoch: int = answers[-1]["member_epoch"]
    assert link.call("StreamsGroupHeartbeat", 1, **about, member_epoch=epoch, **ALL_TASKS)["error_code"] == 0
    return epoch


def application(bootstrap: str) -> dict[str, Any]:
    """The streams group, as far as it does not depend on topics, which the broker lacks."""
    with Connection(bootstrap) as link:
        group: dict[str, Any]
        (group,) = link.call("StreamsGroupDescribe", 1, group_ids=["app"])["groups"]
    for part in group["topology"]["subtopologies"]:
        for topic in (*part["repartition_source_topics"], *part["state_changelog_topics"]):
            del topic["partitions"]
    return group


def test_the_hash_of_a_groups_topics_is_the_one_that_kafka_writes(tmp_path: Path) -> None:
    """Otherwise every group would rebalance when it moves to a server of the other kind."""
    sizes = {"one": 1, "some.other_topic": 7}
    groups = {"both": ["some.other_topic", "nowhere", "one"], "single": ["one"], "none": ["nowhere"]}
    kafka = KafkaBroker(tmp_path / "kafka").start()
    try:
        wait_until_serving(kafka.bootstrap)
        with Connection(kafka.bootstrap) as link:
            wanted = [{"name": name, "num_partitions": count, "replication_factor": 1} for name, count in sizes.items()]
            made = link.call("CreateTopics", 7, topics=wanted, timeout_ms=10_000)
            ids = {topic["name"]: topic["topic_id"] for topic in made["topics"]}
            for group, topics in groups.items():
                # Kafka's coordinator learns of new topics a moment later.
                while owned(join_modern(link, group, topics)) != sum(sizes.get(name, 0) for name in topics):
                    pass
    finally:
        kafka.stop()
    written: list[dict[str, Any]] = []
    (folder,) = find_log_folders(kafka.data_dir / "__consumer_offsets-0")
    log_dump(folder, written.append, lambda problem: pytest.fail(str(problem)))
    hashes = {
        each["key"]["group_id"]: each["value"]["metadata_hash"]
        for each in written
        if each["type"] == "ConsumerGroupMetadata" and each["value"]
    }
    catalog = Catalog(sizes, ids)
    assert hashes == {group: hash_of(catalog, topics) for group, topics in groups.items()}


def join_modern(link: Connection, group: str, topics: list[str]) -> dict[str, Any]:
    answer = link.call(
        "ConsumerGroupHeartbeat", 1, group_id=group, member_id="m", member_epoch=0,
        rebalance_timeout_ms=60_000, subscribed_topic_names=topics, topic_partitions=[],
    )  # fmt: skip
    assert answer["error_code"] == 0, answer
    return answer


def owned(answer: dict[str, Any]) -> int:
    return sum(len(topic["partitions"]) for topic in answer["assignment"]["topic_partitions"])


def hash_of(catalog: Any, topics: list[str]) -> int:
    group = ConsumerGroup("g", NO_FENCE)
    group.put(ConsumerMember(member_id="m", topics=frozenset(topics)))
    return metadata_hash(group, set(), set(), catalog, is_known=False)
