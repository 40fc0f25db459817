"""ConsumerGroupHeartbeat: epochs, answers, errors and records are those of Kafka 4.4."""

import pytest

from coordinator.protocol.errors import ErrorCode
from tests.groups.consumer.consumer_world import INTERVAL_MS, SESSION_MS, ConsumerHarness, Modern, settle


def test_the_first_member_gets_epoch_2_and_everything_at_once():
    h = ConsumerHarness()
    request = h.join_modern()
    assert (request.error, request.reply.member_epoch, request.reply.heartbeat_interval_ms) == (
        ErrorCode.NONE,
        2,
        5_000,
    )
    assert h.assigned(request) == {"t": [0, 1, 2, 3]}
    assert h.kinds() == ["5", "3", "7", "6", "8"]


@pytest.mark.parametrize("how", [{"topics": ()}, {"topics": None, "regex": ""}])
def test_a_first_member_without_a_subscription_gets_epoch_1(how):
    h = ConsumerHarness()
    request = h.join_modern(**how)
    assert (request.reply.member_epoch, h.assigned(request)) == (1, {})
    assert h.kinds() == ["5", "8"]


def test_a_subscription_to_a_missing_topic_still_gives_epoch_2():
    h = ConsumerHarness()
    request = h.join_modern(topics=("missing",))
    assert (request.reply.member_epoch, h.assigned(request)) == (2, {})


def test_emptying_a_group_raises_its_epoch_and_the_target_follows():
    h = ConsumerHarness()
    h.join_modern()
    before = len(h.records)
    assert h.beat(epoch=-1).reply.member_epoch == -1
    assert h.kinds(before) == ["-8", "-7", "-5", "3", "6"]
    assert (h.consumer().group_epoch, h.consumer().target_epoch, h.consumer().state) == (3, 3, "Empty")
    assert h.join_modern(member_id="n").reply.member_epoch == 4


def test_within_the_assignment_interval_a_joiner_gets_the_old_epoch_and_nothing():
    h = ConsumerHarness()
    h.join_modern(member_id="a")
    request = h.join_modern(member_id="b")
    assert (request.reply.member_epoch, h.assigned(request)) == (2, {})
    assert h.consumer().state == "Assigning"
    h.advance(INTERVAL_MS)
    request = h.beat(member_id="a", epoch=2)
    assert (request.reply.member_epoch, h.assigned(request)) == (2, {"t": [0, 1]})


def test_a_wall_clock_that_is_set_back_does_not_delay_the_next_assignment():
    h = ConsumerHarness(group_consumer_assignment_interval_ms=1_000)
    h.join_modern(member_id="a")
    h.now_ms -= 3_600_000
    assert h.join_modern(member_id="b").reply.member_epoch == 3
    assert h.assigned(h.beat(member_id="a", epoch=2)) == {"t": [0, 1]}


def test_a_partition_moves_only_after_it_was_revoked():
    h = ConsumerHarness()
    h.join_modern(member_id="a")
    h.advance(INTERVAL_MS)
    assert h.assigned(h.join_modern(member_id="b")) == {}
    assert h.assigned(h.beat(member_id="a", epoch=2)) == {"t": [0, 1]}
    assert h.assigned(h.beat(member_id="b", epoch=3)) is None
    assert h.beat(member_id="a", epoch=2, owned={"t": [0, 1, 2, 3]}).reply.member_epoch == 2
    request = h.beat(member_id="a", epoch=2, owned={"t": [0, 1]})
    assert (request.reply.member_epoch, request.reply.assignment) == (3, None)
    request = h.beat(member_id="b", epoch=3)
    assert (request.reply.member_epoch, h.assigned(request)) == (3, {"t": [2, 3]})


def test_a_full_heartbeat_is_answered_with_the_assignment_again():
    h = ConsumerHarness()
    h.join_modern()
    assert h.assigned(h.beat(epoch=2)) is None
    assert h.assigned(h.beat(epoch=2, owned={"t": [0]})) is None
    full = h.beat(epoch=2, topics=("t",), owned={"t": [0, 1, 2, 3]}, rebalance_ms=60_000)
    assert h.assigned(full) == {"t": [0, 1, 2, 3]}
    assert h.assigned(h.join_modern()) == {"t": [0, 1, 2, 3]}
    assert h.consumer().group_epoch == 2


def test_the_answer_to_a_member_without_news_is_built_once_and_writes_nothing():
    h = ConsumerHarness()
    h.join_modern()
    h.beat(epoch=2)
    before = len(h.records)
    from coordinator.groups.consumer.heartbeat import consumer_group_heartbeat
    from coordinator.protocol.messages import ConsumerGroupHeartbeatRequest

    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=2)
    first = consumer_group_heartbeat(h.groups, request, h.sent[0], h.now_ms)
    assert consumer_group_heartbeat(h.groups, request, h.sent[0], h.now_ms) is first
    assert len(h.records) == before
    assert [timer.delay_ms for timer in first.timers] == [SESSION_MS]


def test_a_lost_answer_is_repeated_to_a_member_that_owns_no_more_than_its_assignment():
    h = ConsumerHarness()
    h.join_modern(member_id="a")
    h.advance(INTERVAL_MS)
    h.join_modern(member_id="b")
    h.beat(member_id="a", epoch=2)
    assert h.beat(member_id="a", epoch=2, owned={"t": [0, 1]}).reply.member_epoch == 3
    assert h.beat(member_id="a", epoch=2, owned={"t": [0, 1]}).reply.member_epoch == 3
    assert h.beat(member_id="a", epoch=2, owned={}).ok
    for owned in (None, {"t": [0, 1, 2]}):
        assert h.beat(member_id="a", epoch=2, owned=owned).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_wrong_epochs_are_fenced_in_kafkas_words():
    h = ConsumerHarness()
    h.join_modern()
    request = h.beat(epoch=3)
    assert request.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert request.reply.error_message == (
        "The consumer group member has a greater member epoch (3) than the one known by the group coordinator (2). "
        "The member must abandon all its partitions and rejoin."
    )
    assert (request.reply.member_id, request.reply.member_epoch, request.reply.heartbeat_interval_ms) == (None, 0, 0)
    assert "smaller member epoch (1)" in h.beat(epoch=1, owned={}).reply.error_message


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"member_id": ""}, "INVALID_REQUEST", "MemberId can't be empty."),
        ({"group_id": ""}, "INVALID_REQUEST", "GroupId can't be empty."),
        ({"instance": ""}, "INVALID_REQUEST", "InstanceId can't be empty."),
        ({"rack": ""}, "INVALID_REQUEST", "RackId can't be empty."),
        ({"rebalance_ms": -1}, "INVALID_REQUEST", "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "INVALID_REQUEST", "TopicPartitions must be empty when (re-)joining."),
        ({"owned": {"t": [0]}}, "INVALID_REQUEST", "TopicPartitions must be empty when (re-)joining."),
        (
            {"topics": None},
            "INVALID_REQUEST",
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (
            {"assignor": "nope"},
            "UNSUPPORTED_ASSIGNOR",
            "ServerAssignor nope is not supported. Supported assignors: uniform, range.",
        ),
        (
            {"regex": "[a"},
            "INVALID_REGULAR_EXPRESSION",
            "SubscribedTopicRegex `[a` is not a valid regular expression: missing closing ].",
        ),
        (
            {"regex": "a(?=b)"},
            "INVALID_REGULAR_EXPRESSION",
            "SubscribedTopicRegex `a(?=b)` is not a valid regular expression: invalid or unsupported Perl syntax.",
        ),
    ],
)
def test_an_invalid_join_leaves_no_trace(how, error, message):
    h = ConsumerHarness()
    request = h.join_modern(**how)
    assert (request.error.name, request.reply.error_message) == (error, message)
    assert h.records == []
    assert h.groups.by_id == {}


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"epoch": 1}, "GROUP_ID_NOT_FOUND", "Consumer group x not found."),
        ({"epoch": -1}, "GROUP_ID_NOT_FOUND", "Group x not found."),
        ({"epoch": -2}, "INVALID_REQUEST", "InstanceId can't be null."),
        ({"epoch": -3}, "INVALID_REQUEST", "MemberEpoch is invalid."),
        (
            {"group_id": "g", "member_id": "n", "epoch": 2},
            "UNKNOWN_MEMBER_ID",
            "Member n is not a member of group g.",
        ),
        (
            {"group_id": "g", "member_id": "n", "epoch": -1},
            "UNKNOWN_MEMBER_ID",
            "Member n is not a member of group g.",
        ),
        ({"group_id": "c", "epoch": 1}, "GROUP_ID_NOT_FOUND", "Group c is not a consumer group."),
        ({"group_id": "c", "epoch": -1}, "GROUP_ID_NOT_FOUND", "Group c is not a consumer group."),
    ],
)
def test_an_unknown_member_or_group_is_refused(how, error, message):
    h = ConsumerHarness()
    h.join_modern()
    h.stable("c", 1)
    request = h.beat(**({"group_id": "x"} | how))
    assert (request.error.name, request.reply.error_message) == (error, message)


def test_in_version_0_the_server_creates_the_member_id():
    h = ConsumerHarness()
    request = h.join_modern(member_id="", version=0)
    assert request.ok
    assert request.reply.member_id in h.consumer().members
    assert "-" not in request.reply.member_id[:1]


def test_a_full_group_rejects_new_members():
    h = ConsumerHarness(group_consumer_max_size=1)
    h.join_modern(instance="i")
    request = h.join_modern(member_id="n")
    assert request.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert request.reply.error_message == "The consumer group has reached its maximum capacity of 1 members."
    assert h.beat(epoch=2, instance="i").ok
    h.beat(epoch=-2, instance="i")
    assert h.join_modern(member_id="n", instance="i").ok


def test_a_silent_member_is_removed_and_its_partitions_are_reassigned():
    h = ConsumerHarness()
    a, b = Modern(h, "a"), Modern(h, "b")
    settle(h, [a, b], 10)
    settle(h, [b], 80)
    assert h.facts_named("member_expired")[0]["member_id"] == "a"
    assert len(b.owned) == 4


def test_a_member_that_does_not_revoke_within_its_rebalance_timeout_is_removed():
    h = ConsumerHarness()
    h.join_modern(member_id="a", rebalance_ms=5_000)
    h.advance(INTERVAL_MS)
    h.join_modern(member_id="b")
    for _ in range(5):
        h.beat(member_id="a", epoch=2, owned={"t": [0, 1, 2, 3]})
        h.advance(1_000)
    assert h.facts_named("member_expired") == [{"group_id": "g", "member_id": "a", "timeout": "rebalance"}]


def test_the_rebalance_timeout_begins_when_the_member_is_asked_to_revoke():
    h = ConsumerHarness()
    h.join_modern(member_id="a", rebalance_ms=7_000)
    h.advance(30_000)
    h.join_modern(member_id="b")
    assert h.assigned(h.beat(member_id="a", epoch=2, owned={"t": [0, 1, 2, 3]})) == {"t": [0, 1]}
    h.advance(6_999)
    assert set(h.consumer().members) == {"a", "b"}
    h.advance(1)
    assert set(h.consumer().members) == {"b"}


def test_created_grown_and_deleted_topics_take_effect_at_the_next_heartbeat():
    h = ConsumerHarness({})
    assert h.join_modern(topics=("n",)).reply.member_epoch == 2
    h.advance(INTERVAL_MS)
    h.catalog.topics["n"] = 1
    assert h.assigned(h.beat(epoch=2)) == {"n": [0]}
    h.advance(INTERVAL_MS)
    h.catalog.topics["n"] = 2
    request = h.beat(epoch=3)
    assert (request.reply.member_epoch, h.assigned(request)) == (4, {"n": [0, 1]})
    h.advance(INTERVAL_MS)
    del h.catalog.topics["n"]
    assert h.assigned(h.beat(epoch=4)) == {}


def test_a_topic_without_subscribers_does_not_raise_the_epoch():
    h = ConsumerHarness()
    h.join_modern()
    h.catalog.topics["other"] = 3
    assert h.beat(epoch=2).reply.member_epoch == 2
    assert h.consumer().group_epoch == 2


def test_a_pattern_is_matched_behind_the_heartbeat_and_again_for_new_topics():
    h = ConsumerHarness({"t1": 1, "x": 1})
    request = h.join_modern(topics=None, regex="t.*")
    assert (request.reply.member_epoch, h.assigned(request)) == (1, {})
    h.advance(0)
    assert h.kinds()[-2:] == ["16", "3"]
    request = h.beat(epoch=1)
    assert (request.reply.member_epoch, h.assigned(request)) == (2, {"t1": [0]})
    h.catalog.topics["t2"] = 1
    h.beat(epoch=2)
    h.advance(INTERVAL_MS)
    assert h.assigned(h.beat(epoch=2)) == {"t1": [0], "t2": [0]}


def test_a_pattern_without_members_is_removed():
    h = ConsumerHarness()
    h.join_modern(topics=None, regex="t.*")
    h.advance(0)
    before = len(h.records)
    h.beat(epoch=1, topics=("t",), regex="")
    assert "-16" in h.kinds(before)
    assert h.consumer().regexes == {}


def test_a_pattern_ends_with_the_last_member_that_had_it():
    h = ConsumerHarness()
    for member_id in ("m", "n"):
        h.join_modern(member_id=member_id, topics=None, regex="t.*")
        h.advance(0)
    h.beat(member_id="m", epoch=-1)
    assert set(h.consumer().regexes) == {"t.*"}
    before = len(h.records)
    h.beat(member_id="n", epoch=-1)
    assert h.kinds(before).count("-16") == 1
    assert h.consumer().regexes == {}


def test_what_the_member_of_an_unmatched_pattern_leaves_to_others_gets_a_reader():
    h = ConsumerHarness({"t": 2})
    h.join_modern(topics=None, regex="t")
    h.advance(0)
    h.join_modern(member_id="n")
    h.advance(INTERVAL_MS)
    h.beat(epoch=1)
    epoch = h.consumer().group_epoch
    h.beat(epoch=h.member().member_epoch, regex="nothing")
    h.advance(INTERVAL_MS)
    assert h.consumer().group_epoch == epoch + 1


def test_a_pattern_must_match_the_whole_name():
    h = ConsumerHarness({"t": 1, "tt": 1})
    h.join_modern(topics=None, regex="t")
    h.advance(0)
    assert h.assigned(h.beat(epoch=1)) == {"t": [0]}


def test_another_preferred_assignor_raises_the_epoch_and_another_rack_does_not():
    h = ConsumerHarness()
    h.join_modern()
    h.advance(INTERVAL_MS)
    h.beat(epoch=2, rebalance_ms=31_000)
    h.beat(epoch=2, rack="r1")
    h.beat(epoch=2, assignor="uniform")
    assert h.consumer().group_epoch == 2
    assert h.beat(epoch=2, assignor="range").reply.member_epoch == 3


def test_a_failing_assignor_fails_only_the_heartbeat():
    h = ConsumerHarness()

    class Failing:
        def assign(self, group):
            raise ValueError("no")

    h.groups.assignors = {"mine": Failing()}
    request = h.join_modern()
    assert request.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (
        "Failed to compute a new target assignment for epoch 2: assignor mine: ValueError: no"
        in request.reply.error_message
    )
    assert h.records == []


# --- static members ---------------------------------------------------------------------------------------------------


def test_an_instance_id_is_taken_over_after_its_holder_left_for_a_while():
    h = ConsumerHarness()
    h.join_modern(member_id="a", instance="i")
    request = h.join_modern(member_id="b", instance="i")
    assert request.error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert request.reply.error_message == (
        "Static member b with instance id i cannot join the group because the instance id is owned by a member."
    )
    request = h.beat(member_id="a", epoch=-2, instance="i")
    assert (request.reply.member_epoch, h.consumer().state) == (-2, "Reconciling")
    request = h.join_modern(member_id="b", instance="i")
    assert (request.reply.member_epoch, h.assigned(request)) == (2, {"t": [0, 1, 2, 3]})
    assert h.consumer().group_epoch == 2
    for epoch in (2, -1):
        request = h.beat(member_id="a", epoch=epoch, instance="i")
        assert request.error is ErrorCode.FENCED_INSTANCE_ID
    assert request.reply.error_message == "Static member a with instance id i was fenced by member b."
    assert h.beat(member_id="b", epoch=2).ok
    request = h.beat(member_id="b", epoch=2, instance="other")
    assert (request.error.name, request.reply.error_message) == ("UNKNOWN_MEMBER_ID", "Instance id other is unknown.")


def test_who_takes_over_an_instance_id_with_more_topics_shares_nothing_with_its_predecessor():
    h = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    h.join_modern(member_id="a", instance="i")
    h.beat(member_id="a", epoch=-2, instance="i")
    request = h.join_modern(member_id="b", instance="i", topics=("t", "u"))
    assert h.assigned(request) == {"t": [0, 1, 2, 3], "u": [0, 1]}


def test_a_member_that_stays_away_too_long_is_removed():
    h = ConsumerHarness()
    h.join_modern(instance="i")
    h.beat(epoch=-2, instance="i")
    h.advance(SESSION_MS)
    assert h.consumer().members == {}


# --- settings of one group --------------------------------------------------------------------------------------------


def test_settings_of_a_group_are_in_force_at_its_next_heartbeat():
    from tests.groups.consumer.consumer_world import ChangeableSettings

    h = ConsumerHarness()
    h.groups.settings = ChangeableSettings(h.config)
    h.join_modern()
    h.beat(epoch=2)
    h.groups.settings.set("g", consumer_heartbeat_interval_ms="6000", consumer_session_timeout_ms="50000")
    assert h.beat(epoch=2).reply.heartbeat_interval_ms == 6_000
    h.advance(49_000)
    assert h.beat(epoch=2).ok
    h.groups.settings.set("g", consumer_assignment_interval_ms="0")
    h.join_modern(member_id="b")
    assert h.join_modern(member_id="c").reply.member_epoch == 4


def test_a_restart_keeps_members_epochs_and_assignments_without_a_rebalance():
    h = ConsumerHarness()
    a, b = Modern(h, "a"), Modern(h, "b", instance="i")
    settle(h, [a, b], 10)
    before = len(h.records)
    h.restart()
    settle(h, [a, b], 5)
    assert len(h.records) == before
    assert a.fenced == b.fenced == 0


def test_the_causes_of_rebalances_and_the_members_waited_for_are_kept_and_emitted():
    h = ConsumerHarness()
    a, b = Modern(h, "a"), Modern(h, "b")
    settle(h, [a], 3)
    settle(h, [a, b], 10)
    rebalance = h.consumer().soft.rebalances[-1]
    assert (rebalance.cause, rebalance.member_id) == ("a member joined", "b")
    assert max(rebalance.waits.values()) == rebalance.ended_ms - rebalance.assigned_ms
    assert rebalance.started_ms <= rebalance.assigned_ms <= rebalance.ended_ms
    assert h.facts_named("rebalance_started")[-1]["cause"] == "a member joined"
    assert [fact["members_changed"] for fact in h.facts_named("target_assigned")] == [1, 2]
    assert h.facts_named("rebalance_ended")[-1]["waited_longest_for"] in ("a", "b")
    group = h.consumer()
    assert group.last_rebalance == (rebalance.started_ms, rebalance.ended_ms, "a member joined", "b")
    assert [each.cause for each in group.past_rebalances] == [each.cause for each in group.soft.rebalances]
    h.restart()
    assert (h.consumer().last_rebalance, h.consumer().past_rebalances) == (None, [])


def test_what_a_member_no_longer_subscribes_to_goes_to_the_others():
    h = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    a, b = Modern(h, "a"), Modern(h, "b")
    settle(h, [a, b])
    h.beat(member_id="a", epoch=a.epoch, topics=("u",))
    parts = {
        member_id: {key: set(part) for key, part in each.items()} for member_id, each in h.consumer().target.items()
    }
    assert parts == {"a": {h.id_of("u"): {0, 1}}, "b": {h.id_of("t"): {0, 1, 2, 3}}}


def test_a_member_in_an_unknown_state_must_start_again_without_partitions():
    """Its record was written by a newer Kafka."""
    h = ConsumerHarness()
    h.join_modern()
    h.records[-1].value.state = 99
    h.restart()
    h.advance(INTERVAL_MS)
    h.join_modern(member_id="n")
    assert h.beat(epoch=2).error is ErrorCode.FENCED_MEMBER_EPOCH
    request = h.join_modern()
    assert (request.error, request.reply.member_epoch) == (ErrorCode.NONE, 3)


def test_what_a_member_unsubscribed_and_gave_up_in_its_targets_epoch_stays_its_own_until_the_next_target():
    """Else nothing would distinguish its commits before the loss from those after it."""
    h = ConsumerHarness()
    h.join_modern(topics=("t", "u"))
    epoch, rest = h.member().member_epoch, {"t": [0, 1, 2, 3]}
    h.beat(epoch=epoch, topics=("t",), owned=rest | {"u": [0, 1]})
    assert h.beat(epoch=epoch, owned=rest).reply.member_epoch == epoch
    assert h.member().pending_revocation == {h.id_of("u"): {0: epoch, 1: epoch}}
    assert h.commit("g", "m", epoch, [("u", 0)]) == [ErrorCode.NONE]
    h.advance(INTERVAL_MS)
    assert h.beat(epoch=epoch, owned=rest).reply.member_epoch == epoch + 1
    assert h.member().pending_revocation == {}
