"""Views of streams groups: lists, descriptions, everything for people; and how such a group ends."""

import json

import pytest

from coordinator.groups.classic.describe import describe_group
from coordinator.groups.consumer.describe import describe_consumer_group
from coordinator.groups.delete_groups import delete_groups
from coordinator.groups.list_groups import list_groups
from coordinator.groups.machine import GroupMachine
from coordinator.groups.offsets.delete import delete
from coordinator.groups.settings import GroupsConfig
from coordinator.groups.streams.configure import configure
from coordinator.groups.streams.describe import describe_streams_group, details
from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.member import Endpoint, HeldTasks, MemberState, StreamsMember, TasksTuple
from coordinator.groups.streams.soft_state import TaskOffsets
from coordinator.groups.streams.topology import InternalTopic, Subtopology, Topology
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import OffsetCommitKey, OffsetCommitValue, OffsetDeleteRequest
from coordinator.runtime.result import Record
from tests.groups.harness import SentRequest
from tests.support.catalog import Catalog

TOPOLOGY = Topology(
    3,
    {
        "1": Subtopology(
            source_topics=("u",),
            repartition_source_topics=(InternalTopic("rp", 0, 0),),
            state_changelog_topics=(InternalTopic("log", 0, 0, (("cleanup.policy", "compact"),)),),
        ),
        "0": Subtopology(source_topics=("t",), repartition_sink_topics=("rp",)),
    },
)
NOBODY = SentRequest(None, 0, "admin", "127.0.0.1", "")


def member(member_id: str, **fields: object) -> StreamsMember:
    return StreamsMember(
        **{  # type: ignore[arg-type]
            "member_id": member_id, "process_id": "p", "client_id": "c", "client_host": "/h", "topology_epoch": 3,
            "member_epoch": 7, **fields,
        }
    )  # fmt: skip


def committed(topic: str) -> Record:
    return Record(OffsetCommitKey("g", topic, 0), OffsetCommitValue(offset=5))


@pytest.fixture
def groups():
    """One shard with a streams group of two members: `a` must give up what `b` should have."""
    groups = GroupMachine(GroupsConfig(), Catalog({"t": 4, "u": 2, "rp": 4, "log": 4}))
    group = groups.by_id["g"] = StreamsGroup("g")
    group.topology = TOPOLOGY
    group.soft.configured = configure(TOPOLOGY, groups.catalog)
    group.group_epoch, group.validated_topology_epoch = 7, 3
    group.set_target_epoch(7, 1_000)
    group.target = {"a": TasksTuple(active={"0": frozenset({1, 0})}), "b": TasksTuple(active={"1": frozenset({2})})}
    group.put(
        member(
            "a",
            member_epoch=6,
            state=MemberState.UNREVOKED_TASKS,
            instance_id="i",
            rack_id="r",
            user_endpoint=Endpoint("here", 8080),
            client_tags={"zone": "z"},
            assigned=HeldTasks(active={"0": {1: 6, 0: 5}}, standby={"1": frozenset({3})}),
            pending_revocation=HeldTasks(active={"1": {2: 4}}),
        )
    )
    group.put(member("b", state=MemberState.UNRELEASED_TASKS))
    group.soft.task_offsets["a"] = TaskOffsets({"1": {2: 50, 0: 40}}, {"1": {2: 60}})
    return groups


def described(groups, group_id="g", *, wants_description=False):
    return describe_streams_group(groups, group_id, wants_description=wants_description)


def test_a_group_is_described_with_its_topology_as_the_topics_allow_it(groups):
    group = described(groups)
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Reconciling", 7, 7)
    assert (group.assignor_name, group.topology.epoch) == ("sticky", 3)
    first, second = group.topology.subtopologies
    assert (first.subtopology_id, first.source_topics, first.repartition_sink_topics) == ("0", ["t"], ["rp"])
    (repartition,), (changelog,) = second.repartition_source_topics, second.state_changelog_topics
    assert (repartition.name, repartition.partitions) == ("rp", 4)
    assert (changelog.name, changelog.partitions) == ("log", 4)
    assert [(each.key, each.value) for each in changelog.topic_configs] == [("cleanup.policy", "compact")]


@pytest.mark.parametrize("topics", [None, {"t": 4}])
def test_without_its_topics_the_topology_is_described_as_the_client_sent_it(groups, topics):
    group = groups.by_id["g"]
    group.soft.configured = None if topics is None else configure(TOPOLOGY, Catalog(topics))
    first, second = described(groups).topology.subtopologies
    assert (first.subtopology_id, first.source_topics) == ("0", ["t"])
    assert second.repartition_source_topics[0].partitions == 0


def test_a_member_is_described_without_the_tasks_that_it_must_revoke(groups):
    a, b = described(groups).members
    assert (a.member_id, a.member_epoch, a.instance_id, a.rack_id) == ("a", 6, "i", "r")
    assert (a.client_id, a.client_host, a.topology_epoch, a.process_id) == ("c", "/h", 3, "p")
    assert (a.user_endpoint.host, a.user_endpoint.port, b.user_endpoint) == ("here", 8080, None)
    assert [(each.key, each.value) for each in a.client_tags] == [("zone", "z")]
    assert [(each.subtopology_id, each.partitions) for each in a.assignment.active_tasks] == [("0", [0, 1])]
    assert [(each.subtopology_id, each.partitions) for each in a.assignment.standby_tasks] == [("1", [3])]
    assert [(each.subtopology_id, each.partitions) for each in b.target_assignment.active_tasks] == [("1", [2])]
    assert b.assignment.active_tasks == []
    assert [(each.partition, each.offset) for each in a.task_offsets] == [(0, 40), (2, 50)]
    assert [(each.partition, each.offset) for each in a.task_end_offsets] == [(2, 60)]
    assert not a.is_classic


def test_a_description_of_the_topology_is_not_stored_here(groups):
    assert described(groups).topology_description_status == 0
    request = described(groups, wants_description=True)
    assert (request.topology_description_status, request.topology_description) == (1, None)


def test_each_kind_of_group_is_described_by_its_own_request(groups):
    groups.get_or_simple("simple")
    assert described(groups, "x").error_message == "Group x not found."
    assert described(groups, "simple").error_message == "Group simple is not a streams group."
    assert described(groups, "").error_code == ErrorCode.INVALID_GROUP_ID
    assert describe_consumer_group(groups, "g").error_message == "Group g is not a consumer group."
    assert describe_group(groups, "g", 6).error_message == "Group g is not a classic group."


@pytest.mark.parametrize(
    ("states", "types", "is_found"),
    [
        ((), (), True),
        ((), ("Streams",), True),
        ((), ("consumer",), False),
        (("RECONCILING",), (), True),
        (("Stable",), (), False),
    ],
)
def test_lists_can_be_filtered(groups, states, types, is_found):
    (found,) = list_groups(groups, states, types) or [None]
    assert (found is not None) == is_found
    if found:
        assert (found.group_id, found.protocol_type, found.group_state, found.group_type) == (
            "g", "streams", "Reconciling", "streams",
        )  # fmt: skip


@pytest.mark.parametrize("name", ["NotReady", "not_ready", "notready", "NOT_READY"])
def test_a_group_that_is_not_ready_is_found_by_either_spelling_of_that_state(groups, name):
    groups.by_id["g"].validated_topology_epoch = -1
    assert [group.group_state for group in list_groups(groups, [name], [])] == ["NotReady"]


def test_the_details_show_waiting_members_and_pending_revocations(groups):
    view = json.loads(json.dumps(details(groups, groups.by_id["g"])))
    a, b = view["members"]
    assert (view["kind"], view["state"], view["waiting_for"]) == ("streams", "Reconciling", ["a", "b"])
    assert view["subtopologies"]["1"]["number_of_tasks"] == 4
    assert a["pending_revocation"] == {"active": {"1": {"2": 4}}, "standby": {}, "warmup": {}}
    assert (a["state"], a["waits_for"], a["user_endpoint"]) == ("UNREVOKED_TASKS", [], "here:8080")
    assert (b["state"], b["waits_for"]) == ("UNRELEASED_TASKS", ["a"])


def test_the_details_show_the_problem_with_the_topics(groups):
    groups.by_id["g"].soft.configured = configure(TOPOLOGY, Catalog({"u": 2}))
    view = details(groups, groups.by_id["g"])
    assert view["topics_problem"] == {"code": "MISSING_SOURCE_TOPICS", "detail": "Source topics t are missing."}
    assert view["subtopologies"]["0"]["number_of_tasks"] is None


def test_only_a_group_without_members_is_deleted_and_its_offsets_with_it(groups):
    groups.replay(committed("t"))
    assert delete_groups(groups, ["g"], NOBODY, 0).reply.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    for member_id in ("a", "b"):
        groups.by_id["g"].drop(member_id)
    result = delete_groups(groups, ["g"], NOBODY, 0)
    assert result.reply.results[0].error_code == ErrorCode.NONE
    assert [record.key.NAME for record in result.records] == [
        "OffsetCommitKey",
        "StreamsGroupTargetAssignmentMetadataKey",
        "StreamsGroupMetadataKey",
        "StreamsGroupTopologyKey",
    ]
    for record in result.records:
        groups.replay(record)
    assert groups.by_id.get("g") is None


def test_offsets_of_topics_that_the_topology_reads_are_not_deleted_under_its_members(groups):
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    partition = OffsetDeleteRequest.OffsetDeleteRequestPartition
    request = OffsetDeleteRequest("g", [topic(name, [partition(0)]) for name in ("t", "rp", "other")])
    for name in ("t", "rp", "other"):
        groups.replay(committed(name))

    def codes():
        result = delete(groups, request, NOBODY, 0)
        return [ErrorCode(topic.partitions[0].error_code).name for topic in result.reply.topics], len(result.records)

    assert codes() == (["GROUP_SUBSCRIBED_TO_TOPIC", "GROUP_SUBSCRIBED_TO_TOPIC", "NONE"], 1)
    for member_id in ("a", "b"):
        groups.by_id["g"].drop(member_id)
    assert codes() == (["NONE", "NONE", "NONE"], 3)
