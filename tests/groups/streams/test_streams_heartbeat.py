"""StreamsGroupHeartbeat: epochs, tasks, statuses and refusals."""

import pytest

from coordinator.groups.streams.group import State
from coordinator.groups.streams.status import StatusCode
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import StreamsGroupHeartbeatRequest
from tests.groups.streams.streams_world import (
    DELAY_MS,
    INTERVAL_MS,
    PLAIN,
    STATEFUL,
    TWO_PARTS,
    StreamsHarness,
    Thread,
    active,
    part,
    settle,
    standby,
    statuses,
    topology,
)

ALL_OF_T = {"0": [0, 1, 2, 3]}


@pytest.fixture
def h():
    return StreamsHarness()


# --- joining ----------------------------------------------------------------------------------------------------------


def test_the_first_member_gets_every_task_at_once_without_an_initial_delay(h):
    request = h.arrive()
    assert (request.reply.member_epoch, active(request), standby(request)) == (2, ALL_OF_T, {})


def test_an_answer_has_the_intervals_and_the_recovery_lag(h):
    reply = h.arrive().reply
    assert (reply.heartbeat_interval_ms, reply.task_offset_interval_ms, reply.acceptable_recovery_lag) == (
        5_000,
        60_000,
        10_000,
    )


def test_the_records_of_a_first_join_are_in_kafkas_order(h):
    h.arrive()
    assert h.kinds() == ["19", "23", "17", "21", "20", "22"]


def test_with_an_initial_delay_members_join_at_epoch_1_with_a_status_and_no_tasks():
    h = StreamsHarness(group_streams_initial_rebalance_delay_ms=DELAY_MS)
    request = h.arrive()
    assert (request.reply.member_epoch, active(request), statuses(request)) == (1, {}, [StatusCode.ASSIGNMENT_DELAYED])
    assert h.streams().state is State.ASSIGNING


def test_one_target_serves_all_members_that_join_within_the_initial_delay():
    h = StreamsHarness(group_streams_initial_rebalance_delay_ms=DELAY_MS)
    h.arrive("a")
    h.arrive("b")
    h.advance(DELAY_MS)
    assert h.streams().target_epoch == h.streams().group_epoch == 3
    first, second = h.beat("a", 1), h.beat("b", 1)
    assert first.reply.member_epoch == second.reply.member_epoch == 3
    assert sorted(active(first)["0"] + active(second)["0"]) == [0, 1, 2, 3]


def test_a_crash_ends_the_initial_delay():
    h = StreamsHarness(group_streams_initial_rebalance_delay_ms=DELAY_MS)
    h.arrive()
    h.restart()
    request = h.beat("m", 1)
    assert (request.reply.member_epoch, active(request)) == (2, ALL_OF_T)


def test_an_emptied_group_starts_the_initial_delay_again():
    h = StreamsHarness(group_streams_initial_rebalance_delay_ms=DELAY_MS)
    h.arrive()
    h.advance(DELAY_MS)
    h.beat("m", -1)
    request = h.arrive("n")
    assert (request.reply.member_epoch, active(request), statuses(request)) == (3, {}, [StatusCode.ASSIGNMENT_DELAYED])


def test_tasks_are_sent_once(h):
    h.arrive()
    assert active(h.beat("m", 2, active=ALL_OF_T)) is None


def test_a_member_that_rejoins_receives_its_whole_assignment_in_its_epoch(h):
    h.arrive()
    request = h.arrive()
    assert (request.reply.member_epoch, active(request)) == (2, ALL_OF_T)


def test_a_new_target_is_not_computed_within_the_assignment_interval(h):
    h.arrive("a")
    request = h.arrive("b")
    assert (request.reply.member_epoch, active(request), statuses(request)) == (2, {}, [StatusCode.ASSIGNMENT_DELAYED])
    h.advance(INTERVAL_MS)
    assert h.beat("b", 2, active={}).reply.member_epoch == 3


def test_a_member_that_returns_within_the_interval_gets_another_epoch_than_it_left(h):
    h.arrive("a")
    h.arrive("b")
    h.advance(INTERVAL_MS)
    h.beat("b", 2)
    h.beat("b", -1)
    assert h.arrive("b").reply.member_epoch == 5


def test_a_task_moves_to_the_other_member_after_it_was_revoked(h):
    h.arrive("a")
    h.arrive("b")
    h.advance(INTERVAL_MS)
    assert active(h.beat("b", 2)) is None
    request = h.beat("a", 2)
    kept = active(request)["0"]
    assert (request.reply.member_epoch, len(kept)) == (2, 2)
    assert active(h.beat("b", 3)) is None
    assert h.beat("a", 2, active={"0": kept}).reply.member_epoch == 3
    assert active(h.beat("b", 3)) == {"0": [number for number in range(4) if number not in kept]}
    assert h.streams().state is State.STABLE


def test_a_stateful_task_has_a_standby_in_another_process():
    h = StreamsHarness(group_streams_num_standby_replicas=1)
    threads = [Thread(h, "a", process="p", sent=STATEFUL), Thread(h, "b", process="q", sent=STATEFUL)]
    settle(h, threads)
    first, second = threads
    assert first.copies == second.active
    assert second.copies == first.active
    assert len(first.active) == len(second.active) == 2


# --- topologies -------------------------------------------------------------------------------------------------------


def test_the_largest_source_topic_decides_the_number_of_tasks_of_a_subtopology(h):
    assert active(h.arrive(sent=TWO_PARTS)) == {"0": [0, 1, 2, 3], "1": [0, 1]}


def test_a_missing_source_topic_is_a_status_and_the_group_is_not_ready(h):
    request = h.arrive(sent=topology(part("0", ("nothing",))))
    assert (request.error, request.reply.member_epoch, active(request)) == (ErrorCode.NONE, 2, {})
    assert [(each.status_code, each.status_detail) for each in request.reply.status] == [
        (StatusCode.MISSING_SOURCE_TOPICS, "Source topics nothing are missing.")
    ]
    assert h.streams().state is State.NOT_READY


def test_the_group_becomes_ready_once_its_topics_exist(h):
    h.arrive(sent=topology(part("0", ("new",))))
    h.catalog.topics["new"] = 2
    h.advance(INTERVAL_MS)
    request = h.beat("m", 2, active={})
    assert (request.reply.member_epoch, active(request), statuses(request)) == (3, {"0": [0, 1]}, [])


def test_internal_topics_that_are_missing_are_named(h):
    request = h.arrive(sent=topology(part(changelogs=("c",))))
    assert statuses(request) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert [topic.name for topic in h.streams().soft.configured.internal_topics_to_create] == ["c"]


def test_a_source_topic_that_grows_makes_another_target(h):
    h.arrive()
    h.catalog.topics["t"] = 5
    h.advance(INTERVAL_MS)
    request = h.beat("m", 2, active=ALL_OF_T)
    assert (request.reply.member_epoch, active(request)) == (3, {"0": [0, 1, 2, 3, 4]})


def test_a_change_of_an_unrelated_topic_does_not_concern_the_group(h):
    h.arrive()
    h.catalog.topics["other"] = 5
    written = len(h.records)
    assert h.beat("m", 2, active=ALL_OF_T).reply.member_epoch == 2
    assert len(h.records) == written


def test_a_topology_that_is_behind_the_groups_is_reported_as_a_status(h):
    h.arrive("a", sent=topology(epoch=3))
    request = h.arrive("b", sent=topology(part("0", ("u",)), epoch=2))
    assert statuses(request)[0] == StatusCode.STALE_TOPOLOGY
    assert request.reply.status[0].status_detail == (
        "The member's topology epoch 2 is behind the group's topology epoch 3."
    )


@pytest.mark.parametrize("other", [topology(epoch=2), topology(part("0", ("u",)))])
def test_another_topology_than_the_groups_is_refused(h, other):
    h.arrive("a")
    request = h.arrive("b", sent=other)
    assert (request.error, request.reply.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Topology updates are not supported yet.",
    )


# --- statuses and endpoints --------------------------------------------------------------------------------------------


def test_a_shutdown_is_reported_to_all_members_until_the_group_is_empty(h):
    h.arrive("a")
    h.arrive("b")
    h.beat("a", -1, shutdown=True)
    assert StatusCode.SHUTDOWN_APPLICATION in statuses(h.beat("b", 2))
    h.beat("b", -1)
    assert StatusCode.SHUTDOWN_APPLICATION not in statuses(h.arrive("c"))


def test_members_with_an_endpoint_are_sent_the_partitions_of_all_endpoints(h):
    request = h.arrive(endpoint=("here", 1), seen_endpoints=-1)
    (entry,) = request.reply.partitions_by_user_endpoint
    assert (entry.user_endpoint.host, entry.user_endpoint.port) == ("here", 1)
    assert [(each.topic, each.partitions) for each in entry.active_partitions] == [("t", [0, 1, 2, 3])]
    assert entry.standby_partitions == []


def test_an_endpoint_in_a_group_whose_topics_are_missing_has_no_partitions(h):
    """Kafka 4.4.0 answers UNKNOWN_SERVER_ERROR."""
    request = h.arrive(sent=topology(part("0", ("nothing",))), endpoint=("here", 1), seen_endpoints=-1)
    (entry,) = request.reply.partitions_by_user_endpoint
    assert (entry.user_endpoint.host, entry.active_partitions, entry.standby_partitions) == ("here", [], [])
    assert statuses(request) == [StatusCode.MISSING_SOURCE_TOPICS]


def test_endpoints_are_sent_again_only_when_they_changed(h):
    h.arrive(endpoint=("here", 1))
    request = h.beat("m", 2, endpoint=("there", 2))
    epoch = request.reply.endpoint_information_epoch
    assert [each.user_endpoint.host for each in request.reply.partitions_by_user_endpoint] == ["there"]
    assert h.beat("m", 2, seen_endpoints=epoch).reply.partitions_by_user_endpoint is None


def test_task_offsets_are_kept_until_the_next_report(h):
    h.arrive()
    h.beat("m", 2, offsets=[("0", 1, 5)], end_offsets=[("0", 1, 9)])
    h.beat("m", 2, offsets=[("0", 1, 6)])
    kept = h.streams().soft.task_offsets["m"]
    assert (kept.offsets, kept.end_offsets) == ({"0": {1: 6}}, {"0": {1: 9}})


def test_a_duplicate_task_offset_is_refused(h):
    h.arrive()
    request = h.beat("m", 2, offsets=[("0", 1, 5), ("0", 1, 6)])
    assert (request.error, request.reply.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Task offsets contain a duplicate entry for subtopology 0 and partition 1.",
    )


@pytest.mark.parametrize(("version", "expected"), [(1, [StatusCode.MISSING_CLIENT_TAGS]), (0, [])])
def test_missing_client_tags_are_reported_to_clients_that_know_this_status(version, expected):
    h = StreamsHarness(group_streams_rack_aware_assignment_tags=("zone", "rack"))
    request = h.arrive(tags={"zone": "z"}, version=version)
    assert statuses(request) == expected
    assert all("[rack]" in each.status_detail for each in request.reply.status)


def test_another_number_of_standbys_makes_another_target(h):
    h.arrive(sent=STATEFUL)
    h.advance(INTERVAL_MS)
    h.restart(group_streams_num_standby_replicas=1)
    assert h.beat("m", 2, active=ALL_OF_T).reply.member_epoch == 3
    assert h.streams().assignment_configs == {"num.standby.replicas": "1"}


# --- heartbeats that say nothing --------------------------------------------------------------------------------------


def _steady(h):
    """A member whose last two heartbeats had no news; returns the heartbeat that it repeats."""
    h.arrive(tags={"zone": "z"})

    def again(**how):
        return h.beat("m", 2, **how)

    again(active=ALL_OF_T)
    again()
    assert "m" in h.streams().soft.cached_heartbeats
    return again


def test_a_heartbeat_without_news_is_answered_as_if_it_were_the_first(h):
    again = _steady(h)
    made_before = again().reply
    h.streams().soft.cached_heartbeats.clear()
    assert again().reply == made_before
    assert (made_before.member_epoch, made_before.status, made_before.active_tasks) == (2, [], None)


def test_a_heartbeat_without_news_keeps_the_session(h):
    again = _steady(h)
    for _ in range(3):
        h.advance(40_000)
        assert again().ok


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"shutdown": True}, lambda h: h.streams().soft.shutdown_by == "m"),
        ({"offsets": [("0", 0, 1)]}, lambda h: "m" in h.streams().soft.task_offsets),
        ({"process": "other"}, lambda h: h.member().process_id == "other"),
        ({"rack": "r"}, lambda h: h.member().rack_id == "r"),
        ({"tags": {}}, lambda h: h.member().client_tags == {}),
        ({"rebalance_ms": 5}, lambda h: h.member().rebalance_timeout_ms == 5),
        ({"endpoint": ("here", 1)}, lambda h: h.member().user_endpoint == ("here", 1)),
        ({"client_id": "other"}, lambda h: h.member().client_id == "other"),
        ({"instance": "other"}, lambda h: h.sent[-1].error is ErrorCode.UNKNOWN_MEMBER_ID),
        ({"active": {"9": [0]}}, lambda h: h.sent[-1].error is ErrorCode.INVALID_REQUEST),
        ({"seen_endpoints": 7}, lambda h: h.sent[-1].reply.partitions_by_user_endpoint == []),
        ({"sent": PLAIN}, lambda h: h.sent[-1].error is ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_heartbeat_with_news_is_not_answered_from_the_cache(h, how, what):
    again = _steady(h)
    again(**how)
    assert what(h)


def test_changes_of_the_group_reach_a_member_whose_heartbeats_have_no_news(h):
    again = _steady(h)
    h.catalog.topics["t"] = 5
    assert statuses(again()) == [StatusCode.ASSIGNMENT_DELAYED]
    h.advance(INTERVAL_MS)
    assert again().reply.member_epoch == 3


# --- epochs -----------------------------------------------------------------------------------------------------------


def _two_members(h):
    """Member `a` has reached epoch 3 with half of the tasks, which are returned."""
    h.arrive("a")
    h.arrive("b")
    h.advance(INTERVAL_MS)
    h.beat("b", 2)
    kept = active(h.beat("a", 2))
    h.beat("a", 2, active=kept)
    return kept


def test_the_previous_epoch_with_no_more_than_is_assigned_is_a_lost_answer(h):
    kept = _two_members(h)
    assert h.beat("a", 2, active=kept).reply.member_epoch == 3


@pytest.mark.parametrize("owned", [None, ALL_OF_T])
def test_the_previous_epoch_with_more_than_is_assigned_or_unknown_is_fenced(h, owned):
    _two_members(h)
    request = h.beat("a", 2, active=owned)
    assert request.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert request.reply.error_message == (
        "The streams group member has a smaller member epoch (2) than the one known by the group coordinator (3). "
        "The member must abandon all its partitions and rejoin."
    )


def test_a_greater_epoch_is_fenced(h):
    h.arrive()
    assert h.beat("m", 3).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_unknown_members_and_groups_are_refused(h):
    assert h.beat("m", 1).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert h.beat("m", -1).error is ErrorCode.GROUP_ID_NOT_FOUND
    h.arrive()
    assert h.beat("other", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.beat("other", -1).error is ErrorCode.UNKNOWN_MEMBER_ID


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"instance": ""}, "InstanceId can't be empty."),
        ({"rack": " "}, "RackId can't be empty."),
        ({"rebalance_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"active": {"0": [0]}}, "ActiveTasks must be empty when (re-)joining."),
        ({"standby": {"0": [0]}}, "StandbyTasks must be empty when (re-)joining."),
        ({"warmup": {"0": [0]}}, "WarmupTasks must be empty when (re-)joining."),
        ({"sent": None}, "Topology must be non-null when (re-)joining."),
    ],
)
def test_an_invalid_join_is_refused(h, how, text):
    request = h.arrive(**how)
    assert (request.error, request.reply.error_message) == (ErrorCode.INVALID_REQUEST, text)
    assert h.records == []


@pytest.mark.parametrize(
    ("epoch", "how", "text"),
    [
        (-2, {}, "InstanceId can't be null."),
        (-3, {}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        (2, {"sent": PLAIN}, "Topology can only be provided when (re-)joining."),
        (2, {"active": {"9": [0]}}, "Subtopology 9 does not exist in the topology."),
        (
            2,
            {"standby": {"0": [4]}},
            "Task 4 for subtopology 0 is invalid. Number of tasks for this subtopology: 4",
        ),
    ],
)
def test_an_invalid_heartbeat_is_refused(h, epoch, how, text):
    h.arrive()
    request = h.beat("m", epoch, **how)
    assert (request.error, request.reply.error_message) == (ErrorCode.INVALID_REQUEST, text)


def test_patterns_of_source_topics_are_refused_before_anything_else(h):
    sent = topology(StreamsGroupHeartbeatRequest.Subtopology("0", source_topic_regex=["t.*"]))
    request = h.arrive(member_id="", sent=sent)
    assert request.reply.error_message == "Regular expressions for source topics are not supported yet."


def test_one_kind_of_tasks_without_the_others_is_refused(h):
    h.arrive()
    from coordinator.groups.streams.heartbeat import streams_group_heartbeat
    from coordinator.requests import streams_group_heartbeat as heartbeat_api

    request = StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=2, active_tasks=[])
    sent = h.call(streams_group_heartbeat, request, 1, heartbeat_api.API)
    assert sent.reply.error_message == "If one task-type is non-null, all must be non-null."


def test_a_full_group_takes_no_newcomer():
    h = StreamsHarness(group_streams_max_size=1)
    h.arrive("a")
    request = h.arrive("b")
    assert (request.error, request.reply.error_message) == (
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        "The streams group has reached its maximum capacity of 1 members.",
    )
    assert h.arrive("a").ok
