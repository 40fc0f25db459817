"""Our log is Kafka's: Kafka's own tool reads our segments, and our server takes over what a Kafka broker wrote."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

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
from tests.compatibility.members import ALL_TASKS, join_application
from tests.scenarios.conftest import wait_until_serving
from tests.support.catalog import Catalog
from tests.support.kafka_broker import KafkaBroker, dump_segments
from tests.support.ports import HeldPort
from tests.support.protocol_client import ProtocolMember, wait_for_correct_group
from tests.support.server_process import ServerProcess
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
    """Every classic group and its offsets, sorted."""
    with Connection(bootstrap) as link:
        names = sorted(group["group_id"] for group in link.call("ListGroups", 5, types_filter=["classic"])["groups"])
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
    (segment,) = sorted((server.data_dir / OFFSETS).glob("*.log"))
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


class Written(NamedTuple):
    """What a Kafka broker has written, and what its clients saw before it stopped."""

    folder: Path
    members: list[ProtocolMember]
    """Of a classic group. They cannot reach the broker any more, and go on."""
    classic: dict[str, Any]
    joined: dict[str, Any]
    """The answer to the member of the consumer group."""
    consumer_group: dict[str, Any]
    application_epoch: int
    streams_group: dict[str, Any]
    topic_ids: dict[str, bytes]
    """Of `SIZES`."""

    def copied(self, folder: Path, *logs: str) -> Path:
        """A folder for a server with some of the logs."""
        for log in logs:
            shutil.copytree(self.folder / log, folder / "data" / log)
        return folder


OFFSETS, METADATA = "__consumer_offsets-0", "__cluster_metadata-0"
SIZES = {"one": 1, "some.other_topic": 7}
SUBSCRIBERS = {"both": ["some.other_topic", "nowhere", "one"], "single": ["one"], "none": ["nowhere"]}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    kafka = KafkaBroker(tmp_path_factory.mktemp("kafka")).start()
    nowhere = HeldPort()
    members: list[ProtocolMember] = []
    try:
        wait_until_serving(kafka.bootstrap)
        members += make_history(kafka.bootstrap)
        with Connection(kafka.bootstrap) as link:
            wanted = [{"name": name, "num_partitions": count, "replication_factor": 1} for name, count in SIZES.items()]
            made = link.call("CreateTopics", 7, topics=wanted, timeout_ms=10_000)["topics"]
            for group, topics in SUBSCRIBERS.items():
                join_all(link, group, topics, sum(SIZES.get(name, 0) for name in topics))
            joined = join_all(link, "modern", ["t"], 3)
            commit_one(link, "modern", joined["member_epoch"])
            epoch = join_application(link)
            commit_one(link, "app", epoch)
            (consumer_group,) = link.call("ConsumerGroupDescribe", 1, group_ids=["modern"])["groups"]
            (streams_group,) = link.call("StreamsGroupDescribe", 1, group_ids=["app"])["groups"]
        classic = what_a_client_sees(kafka.bootstrap)
        for member in members:
            member.bootstrap = nowhere.address
        kafka.stop()
        ids = {topic["name"]: topic["topic_id"] for topic in made}
        yield Written(kafka.data_dir, members, classic, joined, consumer_group, epoch, streams_group, ids)
    finally:
        for member in members:
            member.die()
        kafka.stop()
        nowhere.release()


def join_all(link: Connection, group: str, topics: list[str], partitions: int) -> dict[str, Any]:
    """Joins until the member has all partitions: Kafka's coordinator learns of new topics a moment later."""
    while owned(joined := join_modern(link, group, topics)) != partitions:
        pass
    return joined


def commit_one(link: Connection, group: str, epoch: int) -> None:
    committed = [{"name": "t", "partitions": [{"partition_index": 1, "committed_offset": 5}]}]
    who = {"member_id": "m", "generation_id_or_member_epoch": epoch}
    answer = link.call("OffsetCommit", 9, group_id=group, **who, topics=committed)
    assert answer["topics"][0]["partitions"][0]["error_code"] == 0


def fetched(link: Connection, group: str) -> list[int]:
    found = link.call("OffsetFetch", 7, group_id=group, topics=None)["topics"]
    return [each["committed_offset"] for topic in found for each in topic["partitions"]]


def test_a_folder_that_kafka_wrote_has_the_same_groups_and_offsets_here(written: Written, tmp_path: Path) -> None:
    """Its members too: they continue in their generation against our server."""
    with ServerProcess(written.copied(tmp_path, OFFSETS)) as server:
        assert what_a_client_sees(server.bootstrap) == written.classic
        before = [(member.generation, member.assignment) for member in written.members]
        for member in written.members:
            member.bootstrap = server.bootstrap
        wait_for_correct_group(server.bootstrap, written.members)
        assert [(member.generation, member.assignment) for member in written.members] == before
        for member in written.members:
            member.die()


def test_a_consumer_group_of_kafka_goes_on_here_as_if_nothing_had_happened(written: Written, tmp_path: Path) -> None:
    """With its topics, whose ids are in Kafka's metadata log: the group's epoch and every assignment are unchanged."""
    epoch, owns = written.joined["member_epoch"], written.joined["assignment"]["topic_partitions"]
    with (
        ServerProcess(written.copied(tmp_path, METADATA, OFFSETS)) as server,
        Connection(server.bootstrap) as link,
    ):
        beat = {"group_id": "modern", "member_id": "m", "member_epoch": epoch}
        for what in ({"topic_partitions": owns}, {}):
            answer = link.call("ConsumerGroupHeartbeat", 1, **beat, **what)
            assert (answer["error_code"], answer["member_epoch"], answer["assignment"]) == (0, epoch, None)
        assert link.call("ConsumerGroupDescribe", 1, group_ids=["modern"])["groups"] == [written.consumer_group]
        assert fetched(link, "modern") == [5]


def test_a_streams_group_of_kafka_goes_on_here_as_if_nothing_had_happened(written: Written, tmp_path: Path) -> None:
    """With its topology and internal topics: epochs, tasks and offsets are unchanged, and so is the hash of its topics."""
    epoch = written.application_epoch
    with (
        ServerProcess(written.copied(tmp_path, METADATA, OFFSETS)) as server,
        Connection(server.bootstrap) as link,
    ):
        for what in (ALL_TASKS, {}):
            answer = link.call("StreamsGroupHeartbeat", 1, group_id="app", member_id="m", member_epoch=epoch, **what)
            assert (answer["error_code"], answer["member_epoch"], answer["status"]) == (0, epoch, [])
            assert answer["active_tasks"] is None
        assert link.call("StreamsGroupDescribe", 1, group_ids=["app"])["groups"] == [written.streams_group]
        assert written.streams_group["group_state"] == "Stable"
        assert fetched(link, "app") == [5]


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
        ours = sorted((server.data_dir / OFFSETS).glob("*.log"))
        kafka = KafkaBroker(tmp_path / "kafka")
        kafka.start()
        try:
            wait_until_serving(kafka.bootstrap)
        finally:
            kafka.stop()
        theirs = kafka.data_dir / OFFSETS
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
        shutil.copytree(theirs, again / "data" / OFFSETS)
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


def application(bootstrap: str) -> dict[str, Any]:
    """The streams group, as far as it does not depend on topics, which the broker lacks."""
    with Connection(bootstrap) as link:
        group: dict[str, Any]
        (group,) = link.call("StreamsGroupDescribe", 1, group_ids=["app"])["groups"]
    for part in group["topology"]["subtopologies"]:
        for topic in (*part["repartition_source_topics"], *part["state_changelog_topics"]):
            del topic["partitions"]
    return group


def test_the_hash_of_a_groups_topics_is_the_one_that_kafka_writes(written: Written) -> None:
    """Otherwise every group would rebalance when it moves to a server of the other kind."""
    records: list[dict[str, Any]] = []
    (folder,) = find_log_folders(written.folder / OFFSETS)
    log_dump(folder, records.append, lambda problem: pytest.fail(str(problem)))
    hashes = {
        each["key"]["group_id"]: each["value"]["metadata_hash"]
        for each in records
        if each["type"] == "ConsumerGroupMetadata" and each["key"]["group_id"] in SUBSCRIBERS and each["value"]
    }
    catalog = Catalog(SIZES, written.topic_ids)
    assert hashes == {group: hash_of(catalog, topics) for group, topics in SUBSCRIBERS.items()}


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
