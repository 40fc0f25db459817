"""Static members of streams groups: leaving for a while, coming back, and being replaced."""

import pytest

from coordinator.protocol.errors import ErrorCode
from tests.groups.streams.streams_world import INTERVAL_MS, SESSION_MS, StreamsHarness, active

ALL_OF_T = {"0": [0, 1, 2, 3]}


@pytest.fixture
def h():
    h = StreamsHarness()
    h.arrive("a", instance="i", process="p")
    return h


def test_the_instance_id_of_a_live_member_is_not_available(h):
    request = h.arrive("b", instance="i", process="p")
    assert (request.error, request.reply.error_message) == (
        ErrorCode.UNRELEASED_INSTANCE_ID,
        "Static member b with instance id i cannot join the group because the instance id is owned by a member.",
    )


def test_a_member_that_leaves_for_a_while_keeps_its_tasks(h):
    request = h.beat("a", -2, instance="i")
    assert (request.error, request.reply.member_epoch) == (ErrorCode.NONE, -2)
    away = h.member("a")
    assert away.assigned.active == {"0": dict.fromkeys(range(4), 2)}
    assert h.streams().group_epoch == 2


def test_a_successor_has_its_tasks_at_once_in_the_same_group_epoch(h):
    h.beat("a", -2, instance="i")
    request = h.arrive("b", instance="i", process="p")
    assert (request.reply.member_epoch, active(request), h.streams().group_epoch) == (2, ALL_OF_T, 2)
    assert h.streams().members.keys() == {"b"}
    assert h.streams().target.keys() == {"b"}


def test_a_static_member_may_return_under_its_own_id(h):
    """Kafka 4.4.0 gives it no tasks then, and nobody processes them until the next rebalance."""
    h.beat("a", -2, instance="i")
    request = h.arrive("a", instance="i", process="p")
    assert (request.reply.member_epoch, active(request)) == (2, ALL_OF_T)


def test_a_successor_in_another_process_makes_another_target(h):
    h.advance(INTERVAL_MS)
    h.beat("a", -2, instance="i")
    request = h.arrive("b", instance="i", process="q")
    assert (request.reply.member_epoch, active(request)) == (3, ALL_OF_T)


def test_another_client_id_of_a_static_member_makes_no_other_target(h):
    h.beat("a", 2, instance="i", client_id="other")
    assert h.member("a").client_id == "other"
    assert h.streams().group_epoch == 2


def test_another_client_id_of_a_dynamic_member_makes_another_target(h):
    h.advance(INTERVAL_MS)
    h.arrive("b")
    h.beat("b", 3, client_id="other")
    assert h.streams().group_epoch == 4


def test_a_replaced_member_id_stays_fenced(h):
    h.beat("a", -2, instance="i")
    h.arrive("b", instance="i", process="p")
    assert h.beat("a", 2, instance="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert h.beat("a", -1, instance="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert h.beat("a", 2).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_id_that_nobody_has_is_unknown(h):
    assert h.beat("a", 2, instance="other").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_return_within_its_session_is_removed(h):
    h.beat("a", -2, instance="i")
    h.advance(SESSION_MS)
    assert h.streams().members == {}
    assert h.streams().static_members == {}


def test_a_full_group_takes_the_successor_of_a_member():
    h = StreamsHarness(group_streams_max_size=1)
    h.arrive("a", instance="i", process="p")
    h.beat("a", -2, instance="i")
    assert h.arrive("b", instance="i", process="p").ok
