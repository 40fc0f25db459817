"""Classic groups become consumer groups, and back, with members of both; meanwhile no partition is read twice."""

import pytest

from coordinator.groups.classic.describe import describe_group
from coordinator.groups.classic.group import find_classic_group
from coordinator.groups.consumer.describe import describe_consumer_group
from coordinator.groups.consumer.group import find_consumer_group
from coordinator.groups.list_groups import list_groups
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.releases import Behaviours
from coordinator.protocol.subscription import Assignment, Subscription, encode_assignment, encode_subscription
from tests.groups.consumer.consumer_world import (
    INTERVAL_MS,
    Classic,
    ConsumerHarness,
    Modern,
    assert_one_owner,
    assert_sound,
    by_topic,
    settle,
)
from tests.groups.harness import subscription


def live(h, clients, rounds=25):
    for _ in range(rounds):
        for client in clients:
            client.beat()
            assert_one_owner(clients)
            assert_sound(h)
        h.advance(600)


@pytest.mark.parametrize("cooperative", [True, False])
def test_up_and_down_again_with_live_members(cooperative):
    h = ConsumerHarness()
    classics = [Classic(h, cooperative=cooperative), Classic(h, cooperative=cooperative)]
    live(h, classics)
    assert h.group().state.value == "Stable"
    generation = h.group().generation
    before = len(h.records)
    modern = Modern(h, "m")
    modern.beat()
    assert h.kinds(before)[:8] == ["-2", "5", "5", "3", "7", "7", "6", "8"]
    assert h.consumer().group_epoch == generation + 1
    everybody = [*classics, modern]
    live(h, everybody)
    assert sorted(len(client.owned) for client in everybody) == [1, 1, 2]
    assert h.consumer().state == "Stable"
    modern.leave()
    assert h.group().state.value == "PreparingRebalance"
    assert find_consumer_group(h.groups, "g") is None
    live(h, classics)
    assert h.group().state.value == "Stable"
    assert sorted(len(client.owned) for client in classics) == [2, 2]


def test_a_member_that_returns_before_the_others_joined_gets_nothing_that_they_hold():
    """Kafka 4.4 writes the target as the holdings of classic members, and then gives away what they are reading."""
    h = ConsumerHarness()
    classic = Classic(h)
    live(h, [classic])
    assert len(classic.owned) == 4
    first = Modern(h, "m1")
    first.beat()
    h.advance(INTERVAL_MS)
    first.beat()
    first.leave()
    second = Modern(h, "m2")
    for _ in range(6):
        second.beat()
        h.advance(INTERVAL_MS)
        assert_one_owner([classic, second])
    assert second.owned == set()
    live(h, [classic, second])
    assert sorted(len(client.owned) for client in (classic, second)) == [2, 2]


def test_an_upgrade_in_mid_rebalance_counts_claimed_partitions_as_held():
    h = ConsumerHarness()
    old = Classic(h)
    live(h, [old])
    joining = h.join(protocols={"a": subscription()})
    joining = h.join(member_id=joining.reply.member_id, protocols={"a": subscription()})
    assert joining.is_parked
    modern = Modern(h, "m")
    modern.beat()
    assert joining.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert modern.owned == set()
    assert len(h.member(old.id).assigned) == 1
    assert_one_owner([old, modern])


@pytest.mark.parametrize("kind", ["simple", "empty", "connect-empty"])
def test_a_group_without_members_is_replaced_and_its_offsets_stay(kind):
    h = ConsumerHarness()
    if kind == "simple":
        h.commit("g", "", -1, [("t", 0)])
    else:
        protocol_type = "consumer" if kind == "empty" else "connect"
        [member_id] = h.stable("g", 1, protocol_type=protocol_type)
        h.leave("g", member_id)
        h.commit("g", "", -1, [("t", 0)])
    before = len(h.records)
    assert h.join_modern().reply.member_epoch == 2
    assert h.kinds(before) == ["-2", "5", "3", "7", "6", "8"]
    assert find_classic_group(h.groups, "g") is None
    assert h.groups.offsets.get("g", "t", 0) is not None
    assert_sound(h)


@pytest.mark.parametrize(
    ("how", "config", "why"),
    [
        ({"protocol_type": "connect"}, {}, "the group does not use the consumer embedded protocol"),
        ({"protocols": {"range": b"\x01"}}, {}, "the embedded consumer protocol is malformed"),
        ({}, {"group_consumer_migration_policy": "downgrade"}, "online upgrade is disabled"),
        ({}, {"group_consumer_max_size": 0}, "the group size exceeds the consumer group maximum size"),
    ],
)
def test_what_cannot_be_upgraded_stays_as_it_is(how, config, why):
    h = ConsumerHarness(**config)
    h.stable("g", 1, **how)
    before = h.durable()
    request = h.join_modern()
    assert request.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert request.reply.error_message == f"Cannot upgrade classic group g to consumer group because {why}."
    assert h.durable() == before
    assert h.group().state.value == "Stable"


def test_an_assignor_that_adds_data_of_its_own_keeps_its_group_classic():
    h = ConsumerHarness()
    member_id = h.join_new_member()
    h.advance(0)
    h.sync("g", member_id, 1, {member_id: encode_assignment(Assignment({"t": (0,)}, b"own", 1))})
    request = h.join_modern()
    assert (request.error, "an unsupported custom assignor" in request.reply.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        True,
    )
    assert h.group().state.value == "Stable"


def test_an_upgrade_answers_whoever_waits_and_leaves_no_timer_of_the_classic_group():
    h = ConsumerHarness()
    _, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    waiting = h.sync("g", follower, 1)
    assert h.join().error is ErrorCode.MEMBER_ID_REQUIRED
    assert h.join_modern().ok
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert not [key for key in h.timers if key[0].startswith("classic")]


def test_an_upgraded_group_holds_nothing_of_a_topic_that_does_not_exist():
    h = ConsumerHarness()
    member_id = h.join_new_member(protocols={"range": subscription(("t", "u"))})
    h.advance(0)
    h.sync("g", member_id, 1, {member_id: encode_assignment(Assignment({"t": (0,), "u": (1,)}, None, 1))})
    h.catalog.remove("t")
    assert h.join_modern(topics=("u",)).ok
    assert h.member(member_id).assigned == {h.id_of("u"): {1: 1}}


def test_the_target_of_an_upgrade_has_no_time_so_the_next_one_does_not_wait_for_the_interval():
    h = ConsumerHarness()
    live(h, [Classic(h)])
    before = len(h.records)
    h.join_modern()
    (first, *_) = [
        record for record in h.records[before:] if record.key.NAME == "ConsumerGroupTargetAssignmentMetadataKey"
    ]
    assert (first.value.assignment_epoch, first.value.assignment_timestamp) == (1, 0)


def test_in_the_preview_the_first_member_gets_epoch_1_and_its_partitions_at_once():
    h = ConsumerHarness()
    h.behaviours = Behaviours(epochs_begin_at_0=True)
    request = h.join_modern()
    assert (request.reply.member_epoch, h.assigned(request)) == (1, {"t": [0, 1, 2, 3]})


def test_a_refused_join_does_not_disturb_the_rebalance_of_the_classic_group():
    h = ConsumerHarness()
    live(h, [Classic(h)])
    offer = {"a": subscription()}
    waiting = h.join(member_id=h.join(protocols=offer).reply.member_id, protocols=offer)
    assert h.join_modern(topics=None, regex="[").error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert waiting.is_parked
    assert h.group().state.value == "PreparingRebalance"


def test_a_classic_member_of_a_consumer_group():
    h = ConsumerHarness()
    modern = Modern(h, "m")
    settle(h, [modern], 4)
    request = h.join(protocols={"a": subscription()}, version=9)
    assert request.error is ErrorCode.MEMBER_ID_REQUIRED
    member_id = request.reply.member_id
    assert "client" not in member_id
    request = h.join(member_id=member_id, protocols={"a": subscription(version=1)}, version=9)
    reply = request.reply
    assert (reply.generation_id, reply.protocol_type, reply.protocol_name) == (3, "consumer", "a")
    assert (reply.leader, reply.members, reply.member_id) == ("", [], member_id)
    assert h.sync("g", member_id, 2, protocol_name="a").error is ErrorCode.ILLEGAL_GENERATION
    assert h.sync("g", member_id, 3, protocol_name="b").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    request = h.sync("g", member_id, 3, protocol_name="a")
    assert request.reply.assignment == b"\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff"
    assert h.heartbeat("g", member_id, 3).ok
    assert h.heartbeat("g", member_id, 4).error is ErrorCode.ILLEGAL_GENERATION
    assert h.heartbeat("g", "m", 2).error is ErrorCode.UNKNOWN_MEMBER_ID
    settle(h, [modern], 3)
    assert h.heartbeat("g", member_id, 3).error is ErrorCode.REBALANCE_IN_PROGRESS
    described = describe_consumer_group(h.groups, "g")
    assert sorted(member.member_type for member in described.members) == [0, 1]
    left = h.leave("g", member_id, "m")
    assert [each.error_code for each in left.reply.members] == [0, 0]
    assert h.consumer().state == "Empty"


@pytest.mark.parametrize(
    "how", [{"protocol_type": "connect"}, {"protocols": {"a": b"\x01"}}, {"protocols": [("a", b""), ("a", b"")]}]
)
def test_an_incompatible_classic_member_is_refused(how):
    h = ConsumerHarness()
    h.join_modern()
    assert h.join(version=3, **how).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_offers_a_protocol_that_all_classic_members_have():
    h = ConsumerHarness()
    settle(h, [Modern(h, "m"), Classic(h)], 4)
    assert h.join(version=3, protocols={"b": subscription()}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_leave_of_several_members_is_answered_for_each():
    h = ConsumerHarness()
    h.join_modern(member_id="m", instance="i")
    h.join_modern(member_id="n")
    before = len(h.records)
    strangers = h.leave("g", "stranger", ("", "j"), ("n", "i")).reply.members
    assert [each.error_code for each in strangers] == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert len(h.records) == before
    assert [each.error_code for each in h.leave("g", ("", "i"), "n", "n").reply.members] == [ErrorCode.NONE] * 3
    assert len(h.events_of("MemberLeft")) == 2
    assert h.consumer().state == "Empty"


def test_why_a_classic_member_left_a_consumer_group_is_in_its_event():
    h = ConsumerHarness()
    classic = Classic(h)
    settle(h, [Modern(h, "m"), classic], 4)
    h.leave("g", classic.id, reason="shutting down")
    left = h.events_of("MemberLeft")[-1]
    assert (left.member_id, left.reason) == (classic.id, "shutting down")


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("shutting down", "a member left"),
        ("member was removed by an admin: too slow", "an administrator removed a member"),
    ],
)
def test_a_rebalance_says_whether_a_member_left_or_an_administrator_removed_it(reason, cause):
    h = ConsumerHarness()
    classic = Classic(h)
    settle(h, [Modern(h, "m"), classic], 4)
    h.leave("g", classic.id, reason=reason)
    started = h.events_of("RebalanceStarted")[-1]
    assert (started.cause, started.reason is not None) == (cause, cause != "a member left")


def test_of_many_members_that_leave_together_the_log_names_ten():
    h = ConsumerHarness()
    ids = [f"m{number}" for number in range(11)]
    for member_id in ids:
        h.join_modern(member_id=member_id)
    h.leave("g", *ids)
    (left,) = h.facts_named("members_left")
    assert (left["count"], left["members"]) == (11, ids[:10])
    (target,) = [record for record in h.records if record.key.NAME == "ConsumerGroupTargetAssignmentMetadataKey"][-1:]
    assert target.value.assignment_timestamp == 0


def test_with_migration_disabled_neither_kind_takes_the_other():
    h = ConsumerHarness(group_consumer_migration_policy="disabled")
    h.join_modern()
    assert h.join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    h.stable("c", 1)
    assert h.join_modern("c").error is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_removed_classic_member_that_still_owns_partitions_is_refused():
    h = ConsumerHarness()
    h.join_modern()
    metadata = subscription(owned={"t": [0]}, generation=2)
    request = h.join(member_id="was-here-once", protocols={"a": metadata})
    assert (request.error, request.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


def test_a_join_to_an_empty_consumer_group_makes_a_classic_one_of_generation_1():
    h = ConsumerHarness()
    h.join_modern()
    h.beat(epoch=-1)
    assert h.join(member_id="m").error is ErrorCode.UNKNOWN_MEMBER_ID
    before = len(h.records)
    [member_id] = h.stable("g", 1)
    assert h.kinds(before)[:4] == ["-6", "-4", "-3", "2"]
    assert (h.group().generation, list(h.group().members)) == (1, [member_id])
    assert find_consumer_group(h.groups, "g") is None
    assert_sound(h)


def test_a_classic_member_that_does_not_rejoin_in_time_is_removed():
    h = ConsumerHarness()
    modern, classic = Modern(h, "m"), Classic(h)
    settle(h, [modern, classic], 15)
    assert h.heartbeat("g", classic.id, classic.generation).ok
    h.join_modern(member_id="n")
    h.advance(INTERVAL_MS)
    h.beat(member_id="n", epoch=h.member("n").member_epoch)
    assert h.sync("g", classic.id, classic.generation, protocol_name=None).error is ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(31):
        modern.beat()
        assert h.heartbeat("g", classic.id, classic.generation).error in (
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.UNKNOWN_MEMBER_ID,
        )
        h.advance(2_000)
    assert {"group_id": "g", "member_id": classic.id, "timeout": "join"} in h.facts_named("member_expired")


@pytest.mark.parametrize(("rebalance_ms", "within_ms"), [(20_000, 20_000), (-5, 0)])
def test_a_classic_member_that_does_not_sync_in_time_is_removed(rebalance_ms, within_ms):
    h = ConsumerHarness()
    h.join_modern()
    member_id = h.join(version=3, protocols={"a": subscription()}, rebalance_ms=rebalance_ms).reply.member_id
    if within_ms:
        h.advance(within_ms - 1)
    assert set(h.consumer().members) == {"m", member_id}
    h.advance(min(within_ms, 1))
    assert h.facts_named("member_expired") == [{"group_id": "g", "member_id": member_id, "timeout": "sync"}]


def test_a_group_becomes_classic_with_a_rebalance_unless_every_member_has_its_target():
    h = ConsumerHarness(topics={"t": 4, "u": 1})
    modern, first, second = Modern(h, "m", topics=("u",), instance="i"), Classic(h), Classic(h)
    settle(h, [modern, first, second], 15)
    h.leave("g", second.id)
    h.advance(INTERVAL_MS)
    modern.beat()
    modern.beat()
    assert h.member().member_epoch == h.consumer().target_epoch > h.member(first.id).member_epoch
    h.beat(epoch=-2, instance="i")
    assert h.join(instance="i", protocols={"a": subscription(("u",))}).ok
    assert h.group().state.value == "PreparingRebalance"


def test_a_classic_member_without_a_step_to_take_gets_a_rebalance_if_it_names_its_generation():
    h = ConsumerHarness()
    classic = Classic(h)
    settle(h, [Modern(h, "m"), classic], 15)
    epoch, again = (
        h.consumer().group_epoch,
        {"member_id": classic.id, "protocols": h.member(classic.id).classic.protocols},
    )
    assert h.join(**again).ok
    assert h.consumer().group_epoch == epoch
    assert h.join(generation=classic.generation, **again).ok
    assert h.consumer().group_epoch == epoch + 1


@pytest.mark.parametrize(
    ("was_classic", "comes_classic", "api"),
    [(True, True, "JoinGroup"), (False, True, "JoinGroup"), (True, False, "ConsumerGroupHeartbeat")],
)
def test_the_event_of_a_replaced_static_member_names_the_api_that_took_its_place(was_classic, comes_classic, api):
    h = ConsumerHarness()
    h.join_modern(member_id="other")

    def join(member_id, *, is_classic):
        if is_classic:
            return h.join(instance="i", protocols={"a": subscription()})
        return h.join_modern(member_id=member_id, instance="i")

    assert join("first", is_classic=was_classic).ok
    assert join("second", is_classic=comes_classic).ok
    assert h.events_of("MemberFenced")[-1].api == api


def test_a_classic_member_that_is_silent_since_the_upgrade_is_removed():
    """After its session, which is shorter than the time in which it has to join again."""
    h = ConsumerHarness()
    classic, modern = Classic(h), Modern(h, "m")
    live(h, [classic])
    modern.beat()
    timeout_ms = h.member(classic.id).classic.session_timeout_ms
    h.advance(timeout_ms - 1)
    assert set(h.consumer().members) == {classic.id, "m"}
    h.advance(1)
    assert list(h.consumer().members) == ["m"]


def test_a_member_that_does_not_rejoin_after_the_downgrade_is_removed():
    h = ConsumerHarness()
    modern, first, second = Modern(h, "m"), Classic(h), Classic(h)
    live(h, [modern, first, second])
    modern.leave()
    rejoined = h.join(member_id=first.id, protocols=dict(h.group().members[first.id].protocols))
    assert rejoined.is_parked
    for _ in range(9):
        h.heartbeat("g", second.id, second.generation)
        h.advance(7_000)
    assert rejoined.ok
    assert list(h.group().members) == [first.id]


def test_a_group_becomes_classic_although_a_subscription_under_its_protocol_cannot_be_read():
    """A member's first protocol is read when it joins; the group may come to use another one. Its assignment is version 0."""
    h = ConsumerHarness()
    h.join_modern()
    unread = h.join(version=3, protocols=[("a", subscription()), ("b", b"\x01")]).reply.member_id
    h.join(version=3, protocols=[("b", subscription())])
    h.beat(epoch=-1)
    assert h.group().protocol_name == "b"
    assert h.group().members[unread].assignment[:2] == b"\0\0"


def test_a_classic_member_keeps_the_rack_that_its_subscription_names():
    h = ConsumerHarness()
    h.join_modern()
    metadata = encode_subscription(Subscription(("t",), None, {}, -1, "rack", 3))
    member_id = h.join(version=3, protocols={"a": metadata}).reply.member_id
    assert h.member(member_id).rack_id == "rack"
    h.join(member_id=member_id, version=3, protocols={"a": subscription()})
    assert h.member(member_id).rack_id == "rack"


def test_a_static_member_that_turns_classic_beside_another_member_leaves_the_group_as_it_is():
    h = ConsumerHarness()
    settle(h, [Modern(h, "m", instance="i"), Modern(h, "n")], 4)
    h.beat(epoch=-2, instance="i")
    assert h.join(instance="i", protocols={"a": subscription()}).ok
    assert len(h.consumer().members) == 2


def test_a_static_member_that_returns_to_the_classic_protocol_takes_the_group_along():
    h = ConsumerHarness(group_consumer_max_size=1)
    modern = Modern(h, "m", instance="i")
    settle(h, [modern], 4)
    h.beat(epoch=-2, instance="i")
    request = h.join(instance="i", protocols={"a": subscription()}, version=9)
    assert request.ok
    assert h.group().state.value == "Stable"
    member_id = request.reply.member_id
    assert (h.events_of("MemberFenced")[-1].member_id, h.events_of("MemberJoined")[-1].member_id) == ("m", member_id)
    assert h.sync("g", member_id, request.reply.generation_id, protocol_name="a").ok
    assert_sound(h)


def test_a_member_that_turns_classic_and_stays_silent_is_removed():
    h = ConsumerHarness()
    settle(h, [Modern(h, "m", instance="i")], 4)
    assert h.join(member_id="m", instance="i", protocols={"a": subscription()}, session_ms=30_000, version=9).ok
    h.advance(29_999)
    assert list(h.group().members) == ["m"]
    h.advance(1)
    assert list(h.group().members) == []


def test_a_static_member_that_turns_classic_under_its_own_id_is_not_fenced_and_must_know_its_epoch():
    h = ConsumerHarness()
    settle(h, [Modern(h, "m", instance="i")], 4)
    turn = {"member_id": "m", "instance": "i", "protocols": {"a": subscription()}, "version": 9}
    epoch = h.member().member_epoch
    refused = h.join(generation=epoch - 1, **turn)
    assert (refused.error, refused.reply.member_id) == (ErrorCode.ILLEGAL_GENERATION, "m")
    joined, fenced = len(h.events_of("MemberJoined")), len(h.events_of("MemberFenced"))
    assert h.join(generation=epoch, **turn).reply.member_id == "m"
    assert list(h.group().members) == ["m"]
    assert h.group().subscribed_topics == {"t"}
    assert (len(h.events_of("MemberJoined")), len(h.events_of("MemberFenced"))) == (joined, fenced)
    assert h.sync("g", "m", epoch, instance="i", protocol_name="a").ok
    assert_sound(h)


def test_a_consumer_group_is_listed_and_described():
    h = ConsumerHarness()
    h.join_modern()
    assert describe_group(h.groups, "g", 6).error_message == "Group g is not a classic group."
    assert describe_group(h.groups, "g", 5).group_state == "Dead"
    assert describe_consumer_group(h.groups, "x").error_message == "Group x not found."
    h.stable("c", 1)
    assert describe_consumer_group(h.groups, "c").error_message == "Group c is not a consumer group."
    assert describe_consumer_group(h.groups, "").error_code == ErrorCode.INVALID_GROUP_ID
    assert [each.group_id for each in list_groups(h.groups, ["stable"], ["CONSUMER"])] == ["g"]
    assert [each.group_id for each in list_groups(h.groups, [], ["classic"])] == ["c"]
    assert list_groups(h.groups, ["Empty"], []) == []


# --- a crash at every record boundary ---------------------------------------------------------------------------------


def story(h):
    """A join, a revocation, an upgrade, a classic member among others, a downgrade; yields the members after each step."""
    classic = Classic(h)
    yield from steps(h, [classic], 6)
    modern = Modern(h, "m1")
    yield from steps(h, [classic, modern], 8)
    other = Modern(h, "m2", topics=("t", "u"))
    yield from steps(h, [classic, modern, other], 8)
    modern.leave()
    yield [classic, other]
    other.leave()
    yield [classic]
    yield from steps(h, [classic], 3)


def steps(h, clients, count):
    for _ in range(count):
        for client in clients:
            client.beat()
            yield clients
        h.advance(INTERVAL_MS)


def test_from_a_crash_at_any_record_the_same_clients_converge():
    """The crash may also be inside an operation, though its records are one batch, which is written as a whole or not at all.

    There is one exception: a member that is gone without a new group epoch would leave its partitions to nobody.
    """
    h = ConsumerHarness()
    lengths = [len(h.records) for _ in story(h)]
    total = lengths[-1]
    for cut in range(1, total):
        h = ConsumerHarness()
        clients = next(clients for clients in story(h) if len(h.records) >= cut)
        if h.kinds(cut - 1)[:2] == ["-5", "3"]:
            continue
        del h.records[cut:]
        h.restart()
        for client in clients:
            if isinstance(client, Classic) and client.waiting is not None:
                client.waiting = None
        for _ in range(75):
            for client in clients:
                client.beat()
            assert_one_owner(clients)
            h.advance(INTERVAL_MS)
        wanted = {(name, p) for client in clients for name in client.topics for p in range(h.catalog.topics[name])}
        assert {pair for client in clients for pair in client.owned} == wanted, cut
        assert h.groups.by_id.get("g").state.value == "Stable"
        assert_sound(h)


@pytest.mark.parametrize("resumed", [False, True])
def test_a_group_whose_generation_has_no_assignment_is_converted_before_and_after_a_crash(resumed):
    """Every member keeps what its last assignment gave it, and the record of the generation goes with the group."""
    h = ConsumerHarness()
    classics = [Classic(h, cooperative=True), Classic(h, cooperative=True)]
    live(h, classics)
    held = {client.id: set(client.owned) for client in classics}
    for client in classics:
        changed = {h.group().protocol_name: subscription(["t", "u"], by_topic(client.owned))}
        h.join(member_id=client.id, protocols=changed)
    generation = h.group().generation
    assert h.group().state.value == "CompletingRebalance"
    if resumed:
        h.restart()
    before = len(h.records)
    Modern(h, "m").beat()
    keys = [record.key.NAME for record in h.records[before:] if record.value is None]
    assert keys[:2] == ["ClassicGroupGenerationKey", "GroupMetadataKey"]
    assert h.consumer().group_epoch == generation + 1
    for member_id, partitions in held.items():
        assigned = h.consumer().members[member_id].assigned
        assert {("t", each) for which in assigned.values() for each in which} == partitions
    h.restart()
    assert find_consumer_group(h.groups, "g").group_epoch == generation + 1


def test_a_group_that_became_classic_keeps_its_first_generation_over_a_crash():
    h = ConsumerHarness()
    classics = [Classic(h, cooperative=True), Classic(h, cooperative=True)]
    modern = Modern(h, "m")
    live(h, [*classics, modern])
    modern.leave()
    for client in classics:
        member = h.group().members[client.id]
        h.join(member_id=client.id, protocols=dict(member.protocols))
    generation = h.group().generation
    assert (h.group().state.value, generation) == ("CompletingRebalance", h.group().stored.generation + 1)
    h.restart()
    assert (h.group().state.value, h.group().generation) == ("CompletingRebalance", generation)
    assert all(h.heartbeat("g", client.id, generation).ok for client in classics)
