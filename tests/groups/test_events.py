"""The events of groups, one by one, with their fields."""

import pytest

from coordinator.groups.commit_events import Verdict
from coordinator.groups.kinds import Kind
from coordinator.groups.offsets.commit import commit
from coordinator.groups.offsets.rewound import BY_ADMINISTRATOR, BY_CONSUMER, BY_MEMBER
from coordinator.groups.settings import ASSIGNMENT_EPOCH, FENCING_POLICIES, REVOCATION_EPOCH, STRICT
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import OffsetCommitRequest
from coordinator.protocol.subscription import Assignment, encode_assignment
from coordinator.requests import offset_commit
from tests.groups.consumer.consumer_world import (
    INTERVAL_MS,
    ChangeableSettings,
    Classic,
    ConsumerHarness,
    Modern,
    settle,
)
from tests.groups.harness import GroupHarness
from tests.groups.offsets.group_states import emptied_group
from tests.groups.offsets.offset_coordinator import OffsetCoordinator

ACCEPTS, REFUSES, CANNOT_SAY = Verdict.ACCEPTS, Verdict.REFUSES, Verdict.CANNOT_SAY
ALL = [("t", partition) for partition in range(4)]


def verdicts(event):
    return event.strict_verdict, event.revocation_epoch_verdict, event.assignment_epoch_verdict


def offsets(event):
    """(topic, partition) -> (offset, error, assignment epoch)."""
    return {
        (topic.topic_name, each.partition): (each.committed_offset, each.error_code, each.assignment_epoch)
        for topic in event.topics
        for each in topic.partitions
    }


def held(event):
    return {topic.topic_name: topic.partitions for topic in event.topics}


def halved(policy=REVOCATION_EPOCH):
    """Member a had t0 to t3 at epoch 2, and has t0 and t1 at epoch 3."""
    h = ConsumerHarness()
    h.groups.settings = ChangeableSettings(h.config)
    h.groups.settings.set("g", consumer_fencing_policy=policy)
    a, b = Modern(h, "a"), Modern(h, "b")
    settle(h, [a], 3)
    settle(h, [a, b], 10)
    assert h.member("a").member_epoch == 3
    return h


# --- commits ----------------------------------------------------------------------------------------------------------


def classic_commit(h, member_id, generation, *, instance=None, offset=7):
    topic = OffsetCommitRequest.OffsetCommitRequestTopic("t", h.catalog.topic_id("t") or bytes(16))
    topic.partitions = [OffsetCommitRequest.OffsetCommitRequestPartition(1, offset, -1, "")]
    request = OffsetCommitRequest("g", generation, member_id, instance, topics=[topic])
    h.call(commit, request, 9, offset_commit.API)
    return h.events_of("CommitDecided")[-1]


def test_a_classic_members_commit_has_its_generation_and_no_verdict():
    h = GroupHarness()
    (leader, _) = h.stable()
    event = classic_commit(h, leader, 1)
    assert (event.group_kind, event.member_id, event.generation_id_or_member_epoch) == (Kind.CLASSIC, leader, 1)
    assert (event.error_code, event.member_epoch, event.revocation_epoch) == (ErrorCode.NONE, 1, -1)
    assert event.policy == ""
    assert verdicts(event) == (CANNOT_SAY, CANNOT_SAY, CANNOT_SAY)
    assert event.client_id == "client"
    assert offsets(event) == {("t", 1): (7, 0, -1)}
    assert (event.producer_id, event.producer_epoch, event.transactional_id) == (-1, -1, None)


def test_a_refused_commit_of_a_classic_group_has_its_error():
    h = GroupHarness()
    (leader, _) = h.stable(static=True)
    for member_id, generation, instance, error, known in [
        (leader, 0, None, ErrorCode.ILLEGAL_GENERATION, 1),
        ("nobody", 1, None, ErrorCode.UNKNOWN_MEMBER_ID, -1),
        ("nobody", 1, "i0", ErrorCode.FENCED_INSTANCE_ID, -1),
    ]:
        event = classic_commit(h, member_id, generation, instance=instance)
        assert (event.error_code, event.member_epoch, event.group_instance_id) == (error, known, instance)
        assert offsets(event) == {("t", 1): (7, error, -1)}


def test_a_commit_without_a_member_has_an_event():
    coordinator = OffsetCoordinator()
    coordinator.topics.add("t", 2)
    coordinator.commit("g", {("t", 0): 5, ("t", 1): 6})
    (record,) = coordinator.shards[0].events
    assert record.key.group == "g"
    assert (record.value.member_id, record.value.generation_id_or_member_epoch, record.value.error_code) == ("", -1, 0)
    assert record.value.state_offset == 0
    assert record.value.time_ms == coordinator.now_ms
    assert offsets(record.value) == {("t", 0): (5, 0, -1), ("t", 1): (6, 0, -1)}


def test_partitions_refused_by_themselves_are_in_the_event():
    coordinator = OffsetCoordinator()
    coordinator.topics.add("t", 1)
    coordinator.commit("g", {("t", 0): 5, ("t", 9): 6, ("missing", 0): 7})
    coordinator.commit("g", {("t", 0): 8}, metadata="x" * 5000)
    first, second = (record.value for record in coordinator.shards[0].events)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert offsets(first) == {("t", 0): (5, 0, -1), ("t", 9): (6, unknown, -1), ("missing", 0): (7, unknown, -1)}
    assert offsets(second) == {("t", 0): (8, ErrorCode.OFFSET_METADATA_TOO_LARGE, -1)}


def test_a_refused_partition_is_an_event_also_beside_a_topic_without_partitions():
    coordinator = OffsetCoordinator(coordinator_events="refused")
    coordinator.topics.add("t", 1)
    topic, partition = (
        OffsetCommitRequest.OffsetCommitRequestTopic,
        OffsetCommitRequest.OffsetCommitRequestPartition(0, 8, -1, "x" * 5000),
    )
    coordinator.ask("OffsetCommit", 8, group_id="g", topics=[topic("t", partitions=[partition]), topic("t")])
    (record,) = coordinator.shards[0].events
    assert offsets(record.value) == {("t", 0): (8, ErrorCode.OFFSET_METADATA_TOO_LARGE, -1)}


def test_a_commit_of_missing_partitions_only_has_an_event():
    coordinator = OffsetCoordinator()
    coordinator.commit("g", {("missing", 0): 7}, member_id="m", generation=3)
    (record,) = coordinator.shards[0].events
    assert record.value.member_id == "m"
    assert offsets(record.value) == {("missing", 0): (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)}


@pytest.mark.parametrize(
    ("epoch", "partitions", "said"),
    [
        (3, [("t", 0)], (ACCEPTS, ACCEPTS, ACCEPTS)),
        (3, [("t", 3)], (ACCEPTS, ACCEPTS, ACCEPTS)),
        (2, [("t", 0)], (REFUSES, REFUSES, ACCEPTS)),
        (2, [("t", 0), ("t", 3)], (REFUSES, REFUSES, REFUSES)),
        (4, [("t", 0)], (REFUSES, REFUSES, REFUSES)),
        (-1, [("t", 0)], (REFUSES, REFUSES, REFUSES)),
    ],
)
@pytest.mark.parametrize("policy", FENCING_POLICIES)
def test_a_commit_to_a_consumer_group_has_the_verdict_of_each_policy(policy, epoch, partitions, said):
    h = halved(policy)
    before = h.member("a")
    errors = h.commit("g", "a", epoch, partitions)
    event = h.events_of("CommitDecided")[-1]
    assert (event.group_kind, event.policy) == (Kind.CONSUMER, policy)
    assert (event.member_epoch, event.revocation_epoch) == (before.member_epoch, before.revocation_epoch) == (3, 2)
    assert verdicts(event) == said
    in_force = said[FENCING_POLICIES.index(policy)]
    assert (in_force == ACCEPTS) == (event.error_code == 0) == (errors[0] is ErrorCode.NONE)
    assert {partition: since for (_, partition), (_, _, since) in offsets(event).items()} == {
        partition: 2 if partition < 2 else -1 for _, partition in partitions
    }


def test_revocation_epoch_accepts_an_earlier_epoch_if_nothing_was_lost_since():
    h = ConsumerHarness()
    a, b = Modern(h, "a"), Modern(h, "b", topics=("u",))
    settle(h, [a], 3)
    settle(h, [a, b], 10)
    h.commit("g", "a", 2, [("t", 0)])
    assert verdicts(h.events_of("CommitDecided")[-1]) == (REFUSES, ACCEPTS, ACCEPTS)


def test_every_policy_refuses_unknown_members_and_none_judges_an_old_version():
    h = halved()
    h.commit("g", "zombie", 3, [("t", 0)])
    event = h.events_of("CommitDecided")[-1]
    assert (event.error_code, event.member_epoch) == (ErrorCode.UNKNOWN_MEMBER_ID, -1)
    assert verdicts(event) == (REFUSES, REFUSES, REFUSES)
    h.commit("g", "a", 3, [("t", 0)], version=8)
    event = h.events_of("CommitDecided")[-1]
    assert event.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert verdicts(event) == (CANNOT_SAY, CANNOT_SAY, CANNOT_SAY)


def test_the_setting_selects_the_events():
    events = {}
    for setting in ("all", "refused", "none"):
        coordinator = OffsetCoordinator(coordinator_events=setting)
        coordinator.topics.add("t", 1)
        coordinator.commit("g", {("t", 0): 5})
        coordinator.commit("g", {("t", 0): 6, ("t", 1): 6})
        coordinator.commit("g", {("t", 0): 7}, member_id="m", generation=1)
        events[setting] = [next(iter(offsets(record.value).values()))[0] for record in coordinator.shards[0].events]
    assert events == {"all": [5, 6, 7], "refused": [6, 7], "none": []}


# --- members ----------------------------------------------------------------------------------------------------------


def test_joins_and_leaves_of_classic_members_have_events():
    h = GroupHarness()
    first = h.join_new_member(client_id="client")
    h.settle()
    (joined,) = h.events_of("MemberJoined")
    assert (joined.group_kind, joined.member_id, joined.epoch) == (Kind.CLASSIC, first, 1)
    assert (joined.client_id, joined.client_host, joined.group_instance_id) == ("client", "/127.0.0.1", None)
    h.leave("g", first, reason="shutting down")
    (left,) = h.events_of("MemberLeft")
    assert (left.member_id, left.epoch, left.reason) == (first, 1, "shutting down")


def test_a_silent_classic_member_expires():
    h = GroupHarness()
    (leader,) = h.stable(members=1)
    h.advance(30_000)
    (expired,) = h.events_of("MemberExpired")
    assert (expired.group_kind, expired.member_id, expired.epoch, expired.timeout) == (
        Kind.CLASSIC,
        leader,
        1,
        "session",
    )
    assert expired.timeout_ms == 30_000


def test_a_member_that_misses_the_rebalance_expires_and_its_wait_is_recorded():
    h = GroupHarness()
    leader, late = h.stable(rebalance_ms=5_000)
    h.join("g", leader, rebalance_ms=5_000)
    for _ in range(5):
        h.advance(1_000)
        h.heartbeat("g", late, 1)
    (expired,) = h.events_of("MemberExpired")
    assert (expired.member_id, expired.timeout, expired.timeout_ms) == (late, "rebalance", 5_000)
    h.settle()
    completed = h.events_of("RebalanceCompleted")[-1]
    waits = {each.member_id: each.waited_ms for each in completed.waited_for}
    assert waits == {leader: 0, late: 5_000}


@pytest.mark.parametrize("static", [False, True])
def test_fenced_requests_have_events(static):
    h = GroupHarness()
    leader, _ = h.stable(static=static)
    h.heartbeat("g", leader, 0)
    h.sync("g", "nobody", 1)
    h.join("g", "nobody")
    h.heartbeat("unheard-of", "nobody", 1)
    events = [(each.member_id, ErrorCode(each.error_code).name, each.api) for each in h.events_of("MemberFenced")]
    assert events == [
        (leader, "ILLEGAL_GENERATION", "Heartbeat"),
        ("nobody", "UNKNOWN_MEMBER_ID", "SyncGroup"),
        ("nobody", "UNKNOWN_MEMBER_ID", "JoinGroup"),
    ]
    assert len(h.events_of("MemberFenced", "unheard-of")) == 1


def test_a_static_member_that_returns_replaces_its_old_id():
    h = GroupHarness()
    _, follower = h.stable(static=True)
    new_id = h.join("g", instance="i1").reply.member_id
    (fenced,) = h.events_of("MemberFenced")
    assert (fenced.member_id, fenced.group_instance_id, fenced.error_code, fenced.api) == (
        follower,
        "i1",
        ErrorCode.FENCED_INSTANCE_ID,
        "JoinGroup",
    )
    joined = h.events_of("MemberJoined")[-1]
    assert (joined.member_id, joined.group_instance_id, joined.epoch) == (new_id, "i1", 1)


def test_joins_and_leaves_of_consumer_group_members_have_events():
    h = ConsumerHarness()
    a = Modern(h, "a", instance="i")
    a.beat()
    (joined,) = h.events_of("MemberJoined")
    assert (joined.group_kind, joined.member_id, joined.group_instance_id, joined.epoch) == (Kind.CONSUMER, "a", "i", 2)
    h.beat("g", "a", -2, instance="i")
    h.beat("g", "a2", 0, topics=["t"], owned={}, instance="i", rebalance_ms=1000)
    h.beat("g", "a2", -1, instance="i")
    away, gone = h.events_of("MemberLeft")
    assert (away.member_id, away.epoch) == ("a", -2)
    assert (gone.member_id, gone.epoch) == ("a2", 2)
    assert [each.member_id for each in h.events_of("MemberJoined")] == ["a", "a2"]
    assert h.events_of("MemberFenced") == []


def test_a_silent_consumer_member_expires_and_is_fenced_when_it_returns():
    h = ConsumerHarness()
    settle(h, [Modern(h, "a")], 3)
    h.advance(45_000)
    (expired,) = h.events_of("MemberExpired")
    assert (expired.group_kind, expired.member_id, expired.epoch, expired.timeout) == (Kind.CONSUMER, "a", 2, "session")
    assert expired.timeout_ms == 45_000
    h.beat("g", "a", 2)
    (fenced,) = h.events_of("MemberFenced")
    assert (fenced.member_id, fenced.epoch, fenced.error_code, fenced.api) == (
        "a",
        2,
        ErrorCode.UNKNOWN_MEMBER_ID,
        "ConsumerGroupHeartbeat",
    )


def test_a_wrong_epoch_has_an_event():
    h = halved()
    h.beat("g", "a", 9)
    (fenced,) = h.events_of("MemberFenced")
    assert (fenced.epoch, fenced.error_code) == (9, ErrorCode.FENCED_MEMBER_EPOCH)


# --- rebalances -------------------------------------------------------------------------------------------------------


def test_a_rebalance_of_a_classic_group_has_its_cause_and_its_end():
    h = GroupHarness()
    leader = h.join_new_member(reason="first of all")
    h.settle()
    other = h.join("g").reply.member_id
    h.join("g", other, reason="more lag")
    h.advance(2_000)
    h.join("g", leader)
    h.advance(500)
    h.settle()
    first, second = h.events_of("RebalanceStarted")
    assert (first.group_kind, first.epoch, first.cause, first.member_id, first.reason) == (
        Kind.CLASSIC,
        1,
        "a new member joins",
        leader,
        "first of all",
    )
    assert (second.epoch, second.member_id, second.reason) == (2, other, "more lag")
    completed = h.events_of("RebalanceCompleted")[-1]
    assert (completed.epoch, completed.cause, completed.member_id) == (2, "a new member joins", other)
    assert (completed.duration_ms, completed.members) == (2_500, 2)
    waits = {each.member_id: each.waited_ms for each in completed.waited_for}
    assert waits == {other: 0, leader: 2_500}, "2 s for its join and half a second for its assignment"


def test_a_classic_group_that_empties_has_completed_its_rebalance():
    h = GroupHarness()
    (leader,) = h.stable(members=1)
    h.leave("g", leader)
    completed = h.events_of("RebalanceCompleted")[-1]
    assert (completed.epoch, completed.members, completed.cause) == (2, 0, "a member left")


def test_a_rebalance_of_a_consumer_group_names_the_members_it_waited_for():
    h = ConsumerHarness()
    a, b = Modern(h, "a"), Modern(h, "b")
    settle(h, [a], 3)
    started_ms = h.now_ms
    settle(h, [a, b], 10)
    first, second = h.events_of("RebalanceStarted")
    assert (first.group_kind, first.epoch, first.cause, first.member_id) == (Kind.CONSUMER, 2, "a member joined", "a")
    assert (second.epoch, second.member_id, second.reason) == (3, "b", None)
    first, second = h.events_of("RebalanceCompleted")
    assert (first.epoch, first.duration_ms, first.members) == (2, 0, 1)
    assert (second.epoch, second.members, second.cause, second.member_id) == (3, 2, "a member joined", "b")
    waits = {each.member_id: each.waited_ms for each in second.waited_for}
    assert set(waits) == {"a", "b"}
    assert max(waits.values()) == second.duration_ms >= INTERVAL_MS
    assert second.time_ms - second.duration_ms >= started_ms


def test_a_superseded_epoch_completes_together_with_its_successor():
    h = ConsumerHarness()
    members = [Modern(h, name) for name in "abc"]
    for member in members:
        member.beat()
    settle(h, members, 10)
    assert [each.epoch for each in h.events_of("RebalanceStarted")] == [2, 3, 4]
    assert sorted(each.epoch for each in h.events_of("RebalanceCompleted")) == [2, 3, 4]


def test_a_consumer_group_that_empties_has_completed_its_rebalance():
    h = ConsumerHarness()
    settle(h, [Modern(h, "a")], 3)
    h.beat("g", "a", -1)
    completed = h.events_of("RebalanceCompleted")[-1]
    assert (completed.epoch, completed.members, completed.cause) == (3, 0, "a member left")


# --- assignments ------------------------------------------------------------------------------------------------------


def test_the_assignment_of_a_classic_members_sync_is_delivered():
    h = GroupHarness()
    leader = h.join_new_member()
    h.advance(0)
    assignment = encode_assignment(Assignment({"t": (0, 2)}, None, 1))
    h.sync("g", leader, 1, {leader: assignment})
    (delivered,) = h.events_of("AssignmentDelivered")
    assert (delivered.group_kind, delivered.member_id, delivered.epoch) == (Kind.CLASSIC, leader, 1)
    assert held(delivered) == {"t": [0, 2]}
    assert delivered.topics[0].topic_id == h.catalog.topic_id("t")
    assert delivered.assignment is None


def test_an_assignment_of_another_protocol_is_delivered_as_bytes():
    h = GroupHarness()
    h.stable(members=1)
    (delivered,) = h.events_of("AssignmentDelivered")
    assert (delivered.topics, delivered.assignment) == ([], b"A0")


def test_assignments_of_a_consumer_group_are_delivered_and_acknowledged_once():
    h = ConsumerHarness()
    a = Modern(h, "a")
    settle(h, [a], 5)
    (delivered,) = h.events_of("AssignmentDelivered")
    assert (delivered.group_kind, delivered.member_id, delivered.epoch) == (Kind.CONSUMER, "a", 2)
    assert held(delivered) == {"t": [0, 1, 2, 3]}
    (acknowledged,) = h.events_of("AssignmentAcknowledged")
    assert (acknowledged.member_id, acknowledged.epoch, held(acknowledged)) == ("a", 2, {"t": [0, 1, 2, 3]})
    a.says_all = True
    a.beat()
    a.says_all = True
    a.beat()
    assert len(h.events_of("AssignmentDelivered")) == len(h.events_of("AssignmentAcknowledged")) == 1


def test_a_revocation_is_delivered_and_acknowledged_in_the_old_epoch():
    h = halved()
    events = [(each.epoch, held(each)) for each in h.events_of("AssignmentDelivered") if each.member_id == "a"]
    assert events == [(2, {"t": [0, 1, 2, 3]}), (2, {"t": [0, 1]})]
    said = [(each.epoch, held(each)) for each in h.events_of("AssignmentAcknowledged") if each.member_id == "a"]
    assert said == [(2, {"t": [0, 1, 2, 3]}), (2, {"t": [0, 1]})]


# --- both kinds -------------------------------------------------------------------------------------------------------


def test_a_group_that_changes_its_kind_and_back_has_events():
    h = ConsumerHarness()
    old, new = Classic(h), Modern(h, "new")
    settle(h, [old], 6)
    settle(h, [old, new], 20)
    h.beat("g", "new", -1)
    up, down = h.events_of("GroupConverted")
    assert (up.from_kind, up.to_kind, up.member_id, up.members) == (Kind.CLASSIC, Kind.CONSUMER, "new", 1)
    assert (down.from_kind, down.to_kind, down.member_id, down.members) == (Kind.CONSUMER, Kind.CLASSIC, "new", 1)
    assert up.epoch < down.epoch
    kinds = [(each.group_kind, each.cause) for each in h.events_of("RebalanceStarted")]
    assert (Kind.CLASSIC, "the last member of the consumer protocol left") in kinds


def test_policies_are_named_as_in_the_settings():
    assert FENCING_POLICIES == (STRICT, REVOCATION_EPOCH, ASSIGNMENT_EPOCH)


# --- offsets that go back ---------------------------------------------------------------------------------------------


def rewound(record):
    value = record.value
    return value.cause, value.member_id, [
        (topic.topic_name, each.partition, each.previous_offset, each.committed_offset, each.owner_id)
        for topic in value.topics
        for each in topic.partitions
    ]  # fmt: skip


def test_a_member_that_takes_back_the_offset_of_another_one_is_named_with_the_owner():
    h = halved()
    topic = OffsetCommitRequest.OffsetCommitRequestTopic("t", h.catalog.topic_id("t"))
    for member_id, partition, offset in [("b", 3, 52), ("a", 3, 20), ("a", 0, 9), ("a", 0, 9), ("a", 0, 4)]:
        topic.partitions = [OffsetCommitRequest.OffsetCommitRequestPartition(partition, offset, -1, "")]
        h.call(commit, OffsetCommitRequest("g", 3, member_id, None, topics=[topic]), 9, offset_commit.API)
    found = [rewound(each) for each in h.events if each.key.NAME == "OffsetsRewoundKey"]
    assert found == [
        (BY_MEMBER, "a", [("t", 3, 52, 20, "b")]),
        (BY_MEMBER, "a", [("t", 0, 9, 4, "a")]),
    ]
    (first, _) = [each for each in h.facts if each.name == "offsets_rewound"]
    assert (first.fields["records"], first.fields["partitions"]) == (32, ["t-3: 52 -> 20"])


def test_in_a_classic_group_the_owner_is_the_member_that_the_leader_gave_the_partition_to():
    h = GroupHarness()
    (leader, follower) = h.stable(members=2)
    for member_id, partitions in ((leader, (0,)), (follower, (1,))):
        h.groups.by_id["g"].members[member_id].assignment = encode_assignment(Assignment({"t": partitions}, None, 3))
    classic_commit(h, leader, 1, offset=9)
    classic_commit(h, leader, 1, offset=7)
    (found,) = [rewound(each) for each in h.events if each.key.NAME == "OffsetsRewoundKey"]
    assert found == (BY_MEMBER, leader, [("t", 1, 9, 7, follower)])


def test_a_reset_is_an_operators_and_a_consumer_without_a_group_is_none():
    coordinator = OffsetCoordinator()
    coordinator.topics.add("topic", 2)
    emptied_group(coordinator, "empty")
    for group_id in ("simple", "empty"):
        coordinator.commit(group_id, {("topic", 0): 50, ("topic", 1): -1})
        coordinator.commit(group_id, {("topic", 0): 10, ("topic", 1): 5})
        coordinator.commit(group_id, {("topic", 0): 10, ("topic", 1): -1})
    found = [rewound(each) for each in coordinator.shards[0].events if each.key.NAME == "OffsetsRewoundKey"]
    step = [("topic", 0, 50, 10, None)]
    assert found == [(BY_CONSUMER, "", step), (BY_ADMINISTRATOR, "", step)]


def test_a_member_that_an_administrator_removes_by_its_instance_id_is_named_with_who_asked_for_it():
    h = GroupHarness()
    (leader, follower) = h.stable(members=2, static=True)
    h.leave("g", ("", "i1"), reason="scale down")
    started = h.events_of("RebalanceStarted")[-1]
    assert (started.cause, started.member_id) == ("an administrator removed a member", follower)
    assert started.reason == "scale down; asked for by , client on 127.0.0.1"
    h.leave("g", (leader, "i0"))
    assert h.events_of("MemberLeft")[-1].member_id == leader


def test_a_member_that_another_client_or_javas_admin_client_removes_was_removed_by_an_administrator():
    h = GroupHarness()
    mine, others = (h.join_new_member(client_id=each) for each in ("client", "billing"))
    h.leave("g", others)
    assert h.events_of("MemberLeft")[-1].reason == (
        "an administrator removed a member: no reason given; asked for by , client on 127.0.0.1"
    )
    h.leave("g", mine, reason="member was removed by an admin: too slow")
    assert h.events_of("MemberLeft")[-1].reason.startswith("an administrator removed a member: member was removed by")
