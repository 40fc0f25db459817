"""A leader replaces the assignments of its generation; nobody notices but the members whose assignment changes."""

from typing import Any

import pytest

from coordinator.groups.fence import NO_FENCE
from coordinator.groups.fencing import RESYNCED, fence_commit_in_transaction
from coordinator.groups.offsets.commit import commit
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetCommitRequest, TxnOffsetCommitRequest
from coordinator.protocol.subscription import Assignment, Subscription, encode_assignment, encode_subscription
from tests.groups.harness import GroupHarness, SentRequest, subscription

REBALANCE_MS = 60_000


def assignment(*partitions: int) -> bytes:
    return encode_assignment(Assignment({"t": partitions}, None, 1))


def resync(
    h: GroupHarness, leader: str, assignments: dict[str, bytes], generation: int = 1, **more: Any
) -> SentRequest:
    number = more.pop("number", h.group().resyncs + 1)
    return h.sync("g", leader, generation, assignments, resync=number, **more)


def started(members: int = 3, **options: Any) -> tuple[GroupHarness, list[str], SentRequest]:
    """A group whose leader moves something from the first follower to itself; the request is parked."""
    h = GroupHarness()
    ids = h.stable(members=members, **options)
    given = {ids[0]: b"more", ids[1]: b"less", **dict.fromkeys(ids[2:], b"A2")}
    group = h.group()
    request = resync(h, ids[0], given, protocol_type=group.protocol_type, protocol_name=group.protocol_name)
    assert request.is_parked
    return h, ids, request


def fetch(h: GroupHarness, member_id: str, generation: int = 1) -> SentRequest:
    """What a plain client does that is called: it joins again, and asks for its assignment."""
    group = h.group()
    member = group.members[member_id]
    joined = h.join(
        "g", member_id, instance=member.group_instance_id, protocols=member.protocols, protocol_type=group.protocol_type
    )
    assert joined.reply.generation_id == generation
    return h.sync("g", member_id, generation, protocol_type=group.protocol_type, protocol_name=group.protocol_name)


def held(h: GroupHarness) -> list[bytes]:
    return [member.assignment for member in h.group().members.values()]


# --- the barrier ------------------------------------------------------------------------------------------------------


def test_the_new_assignments_take_effect_when_every_member_that_they_change_has_asked():
    h, ids, leading = started()
    assert held(h) == [b"A0", b"A1", b"A2"]
    following = fetch(h, ids[1])
    assert (following.reply.assignment, following.reply.resynced) == (b"less", 0)
    assert (leading.reply.assignment, leading.reply.resynced) == (b"more", 1)
    assert [each.assignment for each in h.group().stored.members] == [b"more", b"less", b"A2"]
    assert (h.group().state.value, h.group().generation, h.group().stored.generation) == ("Stable", 1, 1)


def test_only_members_whose_assignment_changes_are_called_to_rejoin_until_they_have_asked():
    h, ids, _ = started()
    assert [h.heartbeat("g", each, 1).error.name for each in ids] == ["NONE", "REBALANCE_IN_PROGRESS", "NONE"]
    assert fetch(h, ids[2]).reply.assignment == b"A2"
    fetch(h, ids[1])
    assert [h.heartbeat("g", each, 1).error.name for each in ids] == ["NONE"] * 3


def test_a_called_member_that_asked_is_called_no_more_while_another_is_awaited():
    h = GroupHarness()
    ids = h.stable(members=3)
    leading = resync(h, ids[0], {ids[0]: b"A0", ids[1]: b"x", ids[2]: b"y"})
    first = fetch(h, ids[1])
    assert first.is_parked
    assert [h.heartbeat("g", each, 1).error.name for each in ids[1:]] == ["NONE", "REBALANCE_IN_PROGRESS"]
    fetch(h, ids[2])
    assert (leading.reply.assignment, first.reply.assignment) == (b"A0", b"x")


def test_a_resync_that_changes_only_the_leaders_assignment_completes_at_once():
    h = GroupHarness()
    leader, follower = h.stable()
    assert resync(h, leader, {leader: b"other", follower: b"A1"}).reply.assignment == b"other"
    assert h.group().stored.members[0].assignment == b"other"


def test_a_resync_that_changes_nothing_calls_nobody_and_counts():
    h = GroupHarness()
    leader, follower = h.stable()
    reply = resync(h, leader, {leader: b"A0", follower: b"A1"}).reply
    assert (reply.assignment, reply.resynced, h.group().resyncs) == (b"A0", 1, 1)
    assert h.heartbeat("g", follower, 1).ok


@pytest.mark.parametrize("restarted", [False, True], ids=["live", "after a crash"])
def test_resyncs_are_numbered_so_that_a_late_one_does_not_undo_a_later_one(restarted):
    h, ids, _ = started()
    fetch(h, ids[1])
    if restarted:
        h.restart()
    given = {ids[0]: b"A0", ids[1]: b"A1", ids[2]: b"A2"}
    for number in (1, 3, -1):
        late = resync(h, ids[0], given, number=number)
        assert late.reply.error_message == "the next resync of the generation is number 2"
    assert held(h) == [b"more", b"less", b"A2"]
    assert h.sync("g", ids[0], 1).reply.resynced == 1, "a leader that does not know the number asks"
    assert resync(h, ids[0], given, number=2).is_parked


@pytest.mark.parametrize("stale", ["a member is missing", "a member is gone"])
def test_a_resync_names_exactly_the_members_because_static_ones_may_have_new_ids(stale):
    h = GroupHarness()
    leader, follower = h.stable()
    given = {leader: b"all"} if stale == "a member is missing" else {leader: b"x", follower: b"y", "gone": b"z"}
    refused = resync(h, leader, given)
    assert refused.reply.error_message == "a resync has an assignment for each member and no other"
    assert h.heartbeat("g", follower, 1).ok
    assert held(h) == [b"A0", b"A1"]


def test_without_the_field_a_second_assignment_of_the_leader_is_ignored():
    h = GroupHarness()
    leader, follower = h.stable()
    assert h.sync("g", leader, 1, {leader: b"x", follower: b"y"}).reply.assignment == b"A0"
    assert held(h) == [b"A0", b"A1"]


def test_in_completing_rebalance_the_field_means_nothing():
    h = GroupHarness()
    leader, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    assert resync(h, leader, {leader: b"L", follower: b"F"}).reply.assignment == b"L"


def test_a_sync_without_a_join_is_no_consent_because_it_may_be_older_than_the_resync():
    h, ids, leading = started()
    assert h.sync("g", ids[1], 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.heartbeat("g", ids[1], 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert leading.is_parked
    h.join("g", ids[1])
    assert h.heartbeat("g", ids[1], 1).ok, "between JoinGroup and SyncGroup a heartbeat must not make it join once more"
    assert h.sync("g", ids[1], 1).reply.assignment == b"less"
    assert leading.ok


def test_a_member_that_has_joined_and_not_asked_yet_need_not_join_once_more():
    h = GroupHarness()
    leader, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    h.sync("g", leader, 1, {leader: b"A0", follower: b"A1"})
    leading = resync(h, leader, {leader: b"A0", follower: b"x"})
    assert h.heartbeat("g", follower, 1).ok
    again = resync(h, leader, {leader: b"A0", follower: b"y"})
    assert leading.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.sync("g", follower, 1).reply.assignment == b"y"
    assert again.ok


# --- plain followers --------------------------------------------------------------------------------------------------


def test_a_plain_follower_joins_again_and_gets_the_current_generation():
    h, ids, leading = started()
    joined = h.join("g", ids[1])
    assert (joined.reply.generation_id, joined.reply.leader, joined.reply.members) == (1, ids[0], [])
    assert fetch(h, ids[1]).reply.assignment == b"less"
    assert leading.ok


@pytest.mark.parametrize(
    ("name", "user_data"),
    [("range", (b"same", b"same")), ("sticky", (b"1", b"2")), ("cooperative-sticky", (b"1", b"2"))],
)
def test_what_a_follower_says_about_the_past_causes_no_rebalance(name, user_data):
    before, after = (
        encode_subscription(Subscription(("t",), data, owned, generation, None, 3))
        for data, owned, generation in zip(user_data, ({}, {"t": (0,)}), (-1, 1), strict=True)
    )
    h, ids, leading = started(protocols={name: before})
    assert h.join("g", ids[1], protocols={name: after}).reply.generation_id == 1
    assert fetch(h, ids[1]).reply.assignment == b"less"
    assert h.group().stored.members[1].subscription == after
    # a lost response: the same again changes nothing either
    assert h.join("g", ids[1], protocols={name: after}).reply.generation_id == 1
    assert leading.ok


@pytest.mark.parametrize(
    "offered",
    [
        {"range": subscription(("t", "other"))},
        {"range": subscription(), "sticky": subscription()},
        {"range": encode_subscription(Subscription(("t",), b"user data", {}, -1, None, 3))},
        {"range": encode_subscription(Subscription(("t",), None, {}, -1, "rack", 3))},
        {"range": b"nonsense"},
    ],
    ids=["topics", "protocols", "user data", "rack", "nonsense"],
)
def test_a_follower_that_asks_for_something_else_starts_a_rebalance_which_aborts_the_resync(offered):
    h, ids, leading = started()
    assert h.join("g", ids[1], protocols=offered).is_parked
    assert leading.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.group().state.value == "PreparingRebalance"
    assert held(h) == [b"A0", b"A1", b"A2"]


def test_metadata_that_are_no_subscription_must_be_equal():
    h, ids, leading = started(protocol_type="connect", protocols={"x": b"1"})
    assert h.join("g", ids[1], protocol_type="connect", protocols={"x": b"1"}).reply.generation_id == 1
    assert h.join("g", ids[1], protocol_type="connect", protocols={"x": b"2"}).is_parked
    assert leading.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_called_follower_that_names_its_generation_gets_it_again_and_not_a_rebalance():
    h, ids, _ = started()
    assert h.join("g", ids[1], generation=1).reply.generation_id == 1
    assert h.group().state.value == "Stable"


# --- who may, and when ------------------------------------------------------------------------------------------------


def test_only_the_leader_may_resync():
    h = GroupHarness()
    leader, follower = h.stable()
    refused = resync(h, follower, {leader: b"x", follower: b"y"})
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert refused.reply.error_message == "only the leader may resync or say that it cannot assign"
    assert held(h) == [b"A0", b"A1"]


@pytest.mark.parametrize(("generation", "error"), [(0, "ILLEGAL_GENERATION"), (2, "ILLEGAL_GENERATION")])
def test_a_resync_of_another_generation_is_refused(generation, error):
    h = GroupHarness()
    leader, _ = h.stable()
    assert resync(h, leader, {leader: b"x"}, generation).error.name == error


def test_a_resync_while_the_group_waits_for_joins_is_refused():
    h = GroupHarness()
    leader, _ = h.stable()
    h.join("g")
    h.join_new_member()
    assert resync(h, leader, {leader: b"x"}).error is ErrorCode.REBALANCE_IN_PROGRESS


# --- rebalances and timers in between ---------------------------------------------------------------------------------


@pytest.mark.parametrize("event", ["join", "leave", "leader joins"])
def test_a_rebalance_aborts_the_resync_and_everybody_who_waits_is_answered(event):
    h = GroupHarness()
    ids = h.stable(members=4)
    leading = resync(h, ids[0], {ids[0]: b"A0", ids[1]: b"x", ids[2]: b"y", ids[3]: b"A3"})
    following = fetch(h, ids[1])
    if event == "join":
        h.join_new_member()
    elif event == "leave":
        h.leave("g", ids[3])
    else:
        h.join("g", ids[0])
    assert [leading.error.name, following.error.name] == ["REBALANCE_IN_PROGRESS"] * 2
    assert h.group().resync is None
    assert h.facts_named("resync_aborted") == [{"group_id": "g", "generation": 1}]
    assert ("classic-resync", "g") not in h.timers
    h.settle()


def test_a_member_that_does_not_ask_in_time_is_removed_and_a_rebalance_follows():
    h, ids, leading = started(session_ms=REBALANCE_MS * 3)
    h.advance(REBALANCE_MS)
    assert leading.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert ids[1] not in h.group().members
    assert h.facts_named("rebalance_started")[-1]["cause"] == "members did not follow a resync in time"
    h.settle()


def test_the_session_of_a_member_that_waits_in_a_resync_does_not_run_out():
    h = GroupHarness()
    ids = h.stable(members=3, session_ms=1_000)
    leading = resync(h, ids[0], {ids[0]: b"A0", ids[1]: b"x", ids[2]: b"y"})
    fetch(h, ids[1])
    for _ in range(4):
        h.advance(900)
        h.heartbeat("g", ids[2], 1)
    fetch(h, ids[2])
    assert leading.ok
    h.advance(900)
    assert len(h.group().members) == 3
    h.advance(200)
    assert not h.group().members


def test_the_session_of_a_member_starts_again_when_a_rebalance_ends_its_wait():
    h = GroupHarness()
    ids = h.stable(members=3, session_ms=1_000)
    resync(h, ids[0], {ids[0]: b"A0", ids[1]: b"x", ids[2]: b"y"})
    fetch(h, ids[1])
    h.advance(900)
    h.leave("g", ids[2])
    h.advance(900)
    assert list(h.group().members) == ids[:2]
    h.advance(200)
    assert not h.group().members


def test_the_leaders_next_resync_replaces_the_one_that_waits():
    h = GroupHarness()
    ids = h.stable(members=3)
    first = resync(h, ids[0], {ids[0]: b"A0", ids[1]: b"x", ids[2]: b"y"})
    follower = fetch(h, ids[1])
    second = resync(h, ids[0], {ids[0]: b"A0", ids[1]: b"A1", ids[2]: b"z"})
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert follower.reply.assignment == b"A1", "it keeps what it has and need not wait"
    assert second.is_parked
    assert fetch(h, ids[2]).reply.assignment == b"z"
    assert second.ok


def test_a_member_that_has_asked_waits_for_the_next_resync_if_that_changes_its_assignment_too():
    h = GroupHarness()
    ids = h.stable(members=3)
    resync(h, ids[0], {ids[0]: b"A0", ids[1]: b"x", ids[2]: b"y"})
    follower = fetch(h, ids[1])
    resync(h, ids[0], {ids[0]: b"A0", ids[1]: b"z", ids[2]: b"y"})
    assert follower.is_parked
    fetch(h, ids[2])
    assert follower.reply.assignment == b"z"


def test_a_follower_that_offers_another_protocol_starts_a_rebalance():
    same = subscription()
    h, ids, leading = started(protocols={"range": same, "sticky": same})
    assert h.join("g", ids[1], protocols={"range": same, "another": same}).is_parked
    assert leading.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_called_member_that_the_next_resync_spares_is_not_removed():
    h, ids, _ = started(session_ms=REBALANCE_MS * 3)
    resync(h, ids[0], {ids[0]: b"A0", ids[1]: b"A1", ids[2]: b"A2"})
    assert h.heartbeat("g", ids[1], 1).ok
    h.advance(REBALANCE_MS)
    assert len(h.group().members) == 3


# --- static members ---------------------------------------------------------------------------------------------------


def test_a_static_follower_that_comes_back_gets_the_resynced_assignment():
    h, _ids, leading = started(static=True)
    back = h.join("g", "", instance="i1").reply
    assert (back.error_code, back.generation_id) == (ErrorCode.NONE, 1)
    assert leading.is_parked
    assert h.heartbeat("g", back.member_id, 1, instance="i1").ok
    assert h.sync("g", back.member_id, 1, instance="i1").reply.assignment == b"less"
    assert leading.ok


def test_a_static_follower_that_comes_back_after_it_asked_asks_again():
    h = GroupHarness()
    ids = h.stable(members=3, static=True)
    leading = resync(h, ids[0], {ids[0]: b"A0", ids[1]: b"x", ids[2]: b"y"})
    old = fetch(h, ids[1])
    new_id = h.join("g", "", instance="i1").reply.member_id
    assert old.error is ErrorCode.FENCED_INSTANCE_ID
    fetch(h, ids[2])
    assert leading.is_parked
    assert h.sync("g", new_id, 1).reply.assignment == b"x"
    assert leading.ok


def test_a_static_follower_that_comes_back_late_has_all_of_the_time_to_ask():
    h = GroupHarness()
    ids = h.stable(members=3, static=True, session_ms=REBALANCE_MS * 3)
    leading = resync(h, ids[0], {ids[0]: b"A0", ids[1]: b"x", ids[2]: b"A2"})
    h.advance(REBALANCE_MS - 1)
    new_id = h.join("g", "", instance="i1", session_ms=REBALANCE_MS * 3).reply.member_id
    h.advance(REBALANCE_MS - 1)
    assert leading.is_parked
    assert h.sync("g", new_id, 1, instance="i1").reply.assignment == b"x"
    assert leading.ok


def test_a_static_leader_that_comes_back_knows_of_no_resync_so_everybody_keeps_what_they_have():
    h = GroupHarness()
    ids = h.stable(members=3, static=True)
    leading = resync(h, ids[0], {ids[0]: b"A0", ids[1]: b"x", ids[2]: b"y"})
    following = fetch(h, ids[1])
    h.join("g", "", instance="i0")
    assert leading.error is ErrorCode.FENCED_INSTANCE_ID
    assert following.reply.assignment == b"A1"
    assert h.heartbeat("g", ids[2], 1).ok
    assert h.facts_named("resync_aborted") == [{"group_id": "g", "generation": 1}]
    assert ("classic-resync", "g") not in h.timers


# --- commits ----------------------------------------------------------------------------------------------------------


def commit_error(h: GroupHarness, member_id: str, partition: int, generation: int = 1) -> str:
    Topic = OffsetCommitRequest.OffsetCommitRequestTopic
    Partition = OffsetCommitRequest.OffsetCommitRequestPartition
    request = OffsetCommitRequest(
        group_id="g", member_id=member_id, generation_id_or_member_epoch=generation,
        topics=[Topic(name="t", partitions=[Partition(partition_index=partition, committed_offset=1)])],
    )  # fmt: skip
    try:
        h.call(commit, request, 8)
    except KafkaError as error:
        return error.code.name
    return "NONE"


def txn_commit_error(h: GroupHarness, member_id: str, partition: int) -> str:
    Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    Partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
    request = TxnOffsetCommitRequest(
        group_id="g", member_id=member_id, generation_id_or_member_epoch=1, transactional_id="p",
        topics=[Topic(name="t", partitions=[Partition(partition_index=partition, committed_offset=1)])],
    )  # fmt: skip
    try:
        fence_commit_in_transaction(h.groups, request, SentRequest(None, 5, "", "", ""))
    except KafkaError as error:
        return error.code.name
    return "NONE"


def moved() -> tuple[GroupHarness, str, str]:
    """A group whose leader moves partition 1 from the follower to itself; the resync waits for the follower."""
    h = GroupHarness()
    leader, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    h.sync("g", leader, 1, {leader: assignment(0), follower: assignment(1, 2)})
    fetch(h, follower)
    resync(h, leader, {leader: assignment(0, 1), follower: assignment(2)})
    return h, leader, follower


def test_until_a_resync_completes_a_member_commits_what_it_is_about_to_lose():
    h, _, follower = moved()
    assert [commit_error(h, follower, 1), txn_commit_error(h, follower, 1)] == ["NONE", "NONE"]


@pytest.mark.parametrize("restarted", [False, True], ids=["live", "after a crash"])
def test_a_partition_lost_in_a_resync_is_not_committed_with_the_same_generation(restarted):
    h, leader, follower = moved()
    fetch(h, follower)
    if restarted:
        h.restart()
    assert [commit_error(h, follower, each) for each in (1, 2, 3)] == ["ILLEGAL_GENERATION", "NONE", "NONE"]
    assert [txn_commit_error(h, follower, each) for each in (1, 2)] == ["ILLEGAL_GENERATION", "NONE"]
    assert [commit_error(h, leader, each) for each in (0, 1)] == ["NONE", "NONE"]
    assert h.groups.counters.fenced[RESYNCED] == 2


def test_an_assignment_that_cannot_be_read_hides_no_loss_of_another_member():
    h = GroupHarness()
    leader, _, follower = ids = [h.join_new_member() for _ in range(3)]
    h.advance(0)
    before = dict(zip(ids, (assignment(0), b"unreadable", assignment(1, 2)), strict=True))
    h.sync("g", leader, 1, before)
    resync(h, leader, {**before, leader: assignment(0, 1), follower: assignment(2)})
    fetch(h, follower)
    assert [commit_error(h, follower, each) for each in (1, 2)] == ["ILLEGAL_GENERATION", "NONE"]


def test_a_generation_that_was_not_resynced_lets_its_members_commit_everything():
    h, leader, follower = moved()
    fetch(h, follower)
    h.join("g", leader)
    h.join("g", follower)
    h.sync("g", leader, 2, {leader: assignment(0, 1), follower: assignment(2)})
    h.sync("g", follower, 2)
    assert [commit_error(h, follower, each, 2) for each in (1, 2)] == ["NONE", "NONE"]
    assert h.group().fence is NO_FENCE, "the record of the resync is deleted"


def test_a_static_member_that_comes_back_to_a_resynced_generation_commits_what_is_assigned_to_it():
    h = GroupHarness()
    leader, follower = h.stable(static=True)
    resync(h, leader, {leader: assignment(0, 1), follower: assignment(2)})
    fetch(h, follower)
    new_id = h.join("g", "", instance="i1").reply.member_id
    for _ in range(2):
        assert [commit_error(h, new_id, each) for each in (1, 2)] == ["NONE", "NONE"], "its id has lost nothing"
        assert commit_error(h, follower, 2) == "UNKNOWN_MEMBER_ID"
        h.restart()


def resync_now(h: GroupHarness, leader: str, follower: str, *partitions: int) -> SentRequest:
    """A resync by which the follower has these partitions, and the leader the others of 0 to 2."""
    others = [each for each in range(3) if each not in partitions]
    leading = resync(h, leader, {leader: assignment(*others), follower: assignment(*partitions)})
    if leading.is_parked:
        fetch(h, follower)
    return leading


@pytest.mark.parametrize("restarted", [False, True], ids=["live", "after a crash"])
def test_what_a_cooperative_member_gives_up_it_may_commit_until_another_one_has_it(restarted):
    h, leader, follower = moved()
    fetch(h, follower)
    leading = resync(h, leader, {leader: assignment(0, 1), follower: assignment()})
    fetch(h, follower)
    assert leading.ok
    if restarted:
        h.restart()
    assert commit_error(h, follower, 2) == "NONE", "nobody else was told of it"
    assert resync_now(h, leader, follower).ok
    assert [commit_error(h, follower, 2), txn_commit_error(h, follower, 2)] == ["ILLEGAL_GENERATION"] * 2


@pytest.mark.parametrize("restarted", [False, True], ids=["live", "after a crash"])
def test_a_resync_that_gives_a_member_back_what_it_lost_starts_a_rebalance(restarted):
    h, leader, follower = moved()
    fetch(h, follower)
    if restarted:
        h.restart()
    assert resync_now(h, leader, follower, 1, 2).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.group().state.value == "PreparingRebalance"
    assert commit_error(h, follower, 1) == "ILLEGAL_GENERATION"


def test_a_member_gets_back_what_a_resync_took_from_it_and_gave_to_nobody():
    h, leader, follower = moved()
    fetch(h, follower)
    for theirs in (assignment(), assignment(2)):
        leading = resync(h, leader, {leader: assignment(0, 1), follower: theirs})
        fetch(h, follower)
        assert leading.ok
    assert [commit_error(h, follower, each) for each in (1, 2)] == ["ILLEGAL_GENERATION", "NONE"]


@pytest.mark.parametrize(("taken", "error"), [(100_000, "NONE"), (100_001, "REBALANCE_IN_PROGRESS")])
def test_a_resync_that_takes_more_than_a_fence_remembers_starts_a_rebalance(taken, error):
    h = GroupHarness()
    leader, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    h.sync("g", leader, 1, {leader: b"", follower: assignment(*range(taken))})
    fetch(h, follower)
    leading = resync(h, leader, {leader: assignment(), follower: assignment()})
    if leading.is_parked:
        fetch(h, follower)
    assert leading.error.name == error


TOO_LARGE = "the assignments are too large for a resync"


@pytest.mark.parametrize(("size", "message"), [(2 << 20, None), ((2 << 20) + 1, TOO_LARGE)])
def test_a_resync_has_at_most_two_mebibytes_of_assignments(size, message):
    h = GroupHarness()
    leader, follower = h.stable()
    request = resync(h, leader, {leader: bytes(size - 2), follower: b"A1"})
    assert request.reply.error_message == message
    assert request.error is (ErrorCode.INVALID_REQUEST if message else ErrorCode.NONE)


@pytest.mark.parametrize(("room", "message"), [(1_023, None), (1_022, TOO_LARGE)])
def test_a_resync_that_no_group_may_hold_is_refused(room, message):
    h = GroupHarness()
    leader, follower = h.stable()
    h.restart(limit_group_bytes=h.group().held_bytes + room)
    assert resync(h, leader, {leader: bytes(1_021), follower: b"A1"}).reply.error_message == message


# --- the log and the events -------------------------------------------------------------------------------------------


def test_a_crash_at_any_record_keeps_all_of_a_resync_or_nothing():
    h, ids, _ = started()
    before = h.durable()
    fetch(h, ids[1])
    cut = [h.durable(h.records[:end]) for end in h.batch_ends[-2:]]
    assert cut == [before, h.durable()]


def test_a_crash_while_a_resync_waits_loses_it_and_members_keep_what_they_have():
    h, ids, _ = started()
    h.restart()
    assert [h.heartbeat("g", each, 1).error.name for each in ids] == ["NONE"] * 3
    assert h.join("g", ids[1]).reply.generation_id == 1
    assert fetch(h, ids[1]).reply.assignment == b"A1"


def test_a_deleted_group_leaves_no_record_of_its_resync():
    h, _leader, follower = moved()
    fetch(h, follower)
    records, _ = h.groups.end(h.group())
    assert sorted((record.key.NAME, record.value) for record in records) == [
        ("ClassicGroupResyncKey", None),
        ("GroupMetadataKey", None),
    ]


def test_the_event_log_says_that_the_group_was_resynced_and_who_received_what():
    h, leader, follower = moved()
    h.advance(250)
    fetch(h, follower)
    (event,) = h.events_of("GroupResynced")
    assert (event.epoch, event.member_id, event.members, event.changed, event.duration_ms) == (1, leader, 2, 2, 250)
    assert [(each.member_id, each.waited_ms) for each in event.waited_for] == [(follower, 250)]
    begun = {"group_id": "g", "generation": 1}
    assert h.facts_named("resync_started") == [{**begun, "changing": 2, "awaited": 1}]
    assert h.facts_named("group_resynced") == [{**begun, "changed": 2, "took_ms": 250}]
    received = {each.member_id: each.topics[0].partitions for each in h.events_of("AssignmentDelivered")[-2:]}
    assert received == {leader: [0, 1], follower: [2]}


def test_a_member_whose_assignment_stays_is_delivered_nothing():
    h, ids, _ = started()
    before = len(h.events_of("AssignmentDelivered"))
    fetch(h, ids[1])
    assert [each.member_id for each in h.events_of("AssignmentDelivered")[before:]] == ids[:2]


# --- validation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["off", "report", "refuse"])
def test_a_resync_is_validated_before_any_member_hears_of_it(policy):
    h = GroupHarness(group_classic_validate_assignments=policy)
    leader, follower = h.stable()
    request = resync(h, leader, {leader: assignment(0, 1), follower: assignment(1)})
    assert len(h.facts_named("assignment_invalid")) == (policy != "off")
    if policy == "refuse":
        assert (request.error, request.reply.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "the assignments are invalid",
        )
        assert h.heartbeat("g", follower, 1).ok
        assert held(h) == [b"A0", b"A1"]
    else:
        fetch(h, follower)
        assert request.ok


def test_in_a_cooperative_group_a_resync_takes_a_partition_away_before_another_gives_it():
    h = GroupHarness(group_classic_validate_assignments="refuse")
    name = "cooperative-sticky"
    leader, follower = h.stable(protocols={name: subscription()})
    for given, error in (
        ({leader: assignment(0), follower: assignment(1)}, "NONE"),
        ({leader: assignment(0, 1), follower: assignment()}, "INVALID_REQUEST"),
        ({leader: assignment(0), follower: assignment()}, "NONE"),
        ({leader: assignment(0, 1), follower: assignment()}, "NONE"),
    ):
        request = resync(h, leader, given, protocol_name=name)
        fetch(h, follower)
        assert request.error.name == error
