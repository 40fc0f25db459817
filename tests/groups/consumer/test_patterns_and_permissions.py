"""The patterns of a consumer group find topics that one client may describe: the one whose request asked for the match."""

import pytest

from coordinator.groups.consumer.subscription import REFRESH_INTERVAL_MS
from tests.groups.consumer.consumer_world import ConsumerHarness

REFRESH_MS = 10_000


@pytest.fixture
def harness():
    return ConsumerHarness({"t": 1, "u": 1, "w": 1}, group_consumer_regex_refresh_interval_ms=REFRESH_MS)


def sees(harness, names):
    """The clients of the next requests may describe these topics."""
    harness.may_describe = set(names).__contains__


def found(harness):
    """Pattern -> the topics that it has found."""
    return {regex: set(resolved.topics) for regex, resolved in harness.consumer().regexes.items()}


def join(harness, member_id, regex):
    response = harness.beat(member_id=member_id, regex=regex, owned={}, rebalance_ms=60_000)
    assert response.ok
    return response.reply.member_epoch


def epoch_of(harness, member_id):
    return harness.member(member_id).member_epoch


def test_the_first_match_of_a_new_group_is_for_the_member_that_created_it(harness):
    sees(harness, "t")
    join(harness, "m", "t|u")
    sees(harness, "tu")
    harness.advance(0)
    assert found(harness) == {"t|u": {"t"}}


def test_a_match_is_for_all_patterns_of_the_group_in_the_name_of_one_member(harness):
    sees(harness, "tu")
    join(harness, "a", "t|u")
    harness.advance(0)
    sees(harness, "uw")
    join(harness, "b", "t|w")
    harness.advance(REFRESH_INTERVAL_MS)
    assert found(harness) == {"t|u": {"u"}, "t|w": {"w"}}


def test_a_calm_group_is_matched_again_after_the_interval_for_the_member_that_notices_it(harness):
    """Although nothing else happens in it, and its heartbeats have an answer that is kept."""
    sees(harness, "t")
    epoch = join(harness, "m", "t|u")
    harness.advance(0)
    for _ in range(4):
        epoch = harness.beat(epoch=epoch, owned={"t": [0]}).reply.member_epoch
    kept = harness.consumer().soft.cached_heartbeats
    assert "m" in kept
    sees(harness, "tu")
    harness.advance(REFRESH_MS - 1)
    harness.beat(epoch=epoch)
    harness.advance(0)
    assert found(harness) == {"t|u": {"t"}}
    harness.advance(1)
    harness.beat(epoch=epoch)
    harness.advance(0)
    assert found(harness) == {"t|u": {"t", "u"}}


def test_a_match_is_not_made_when_nobody_is_known_to_have_asked_for_it(harness):
    """The next heartbeat asks for it."""
    sees(harness, "t")
    epoch = join(harness, "m", "t|u")
    harness.consumer().drop_soft_state()
    harness.advance(0)
    assert found(harness) == {}
    harness.beat(epoch=epoch)
    harness.advance(REFRESH_INTERVAL_MS)
    assert found(harness) == {"t|u": {"t"}}


def test_a_topic_that_may_not_be_described_any_more_is_taken_from_the_members(harness):
    sees(harness, "tu")
    epoch = join(harness, "m", "t|u")
    harness.advance(0)
    response = harness.beat(epoch=epoch)
    assert harness.assigned(response) == {"t": [0], "u": [0]}
    epoch = harness.beat(epoch=response.reply.member_epoch, owned={"t": [0], "u": [0]}).reply.member_epoch
    sees(harness, "u")
    harness.advance(REFRESH_MS)
    harness.beat(epoch=epoch)
    harness.advance(0)
    assert harness.assigned(harness.beat(epoch=epoch)) == {"u": [0]}
