"""What a group's patterns match is found outside its shard, and may arrive when the group has changed."""

import pytest

from coordinator.groups.consumer.subscription import REFRESH_INTERVAL_MS
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.patterns import match_at_once
from tests.groups.consumer.consumer_world import ConsumerHarness


class LateMatcher:
    """Answers when the test says so."""

    def __init__(self):
        self.asked = []

    def __call__(self, patterns, names, version, done, is_wanted, may_see=None):
        self.asked.append((tuple(patterns), tuple(names), version, done, is_wanted, may_see))

    def answer(self):
        asked, self.asked = self.asked, []
        for question in asked:
            match_at_once(*question)


@pytest.fixture
def harness():
    return ConsumerHarness({"t": 1, "u": 1})


@pytest.fixture
def matcher(harness):
    harness.groups.match_patterns = LateMatcher()
    return harness.groups.match_patterns


def join(harness, member_id, regex):
    return harness.beat(member_id=member_id, regex=regex, owned={}, rebalance_ms=60_000)


def found(harness):
    return {regex: set(resolved.topics) for regex, resolved in harness.consumer().regexes.items()}


def test_patterns_that_came_and_went_during_a_match_are_left_alone(harness, matcher):
    epoch = join(harness, "m", "t").reply.member_epoch
    harness.advance(0)
    harness.beat(member_id="m", epoch=epoch, regex="u", owned={})
    matcher.answer()
    assert found(harness) == {}
    harness.advance(REFRESH_INTERVAL_MS)
    matcher.answer()
    assert found(harness) == {"u": {"u"}}


def test_a_topic_that_is_created_during_a_match_is_found_by_the_next(harness, matcher):
    epoch = join(harness, "m", ".*").reply.member_epoch
    harness.advance(0)
    harness.catalog.add("v", 1)
    matcher.answer()
    assert found(harness) == {".*": {"t", "u"}}
    harness.beat(member_id="m", epoch=epoch)
    harness.advance(REFRESH_INTERVAL_MS)
    matcher.answer()
    assert found(harness) == {".*": {"t", "u", "v"}}


def test_a_group_has_one_match_under_way_however_many_heartbeats_it_gets(harness, matcher):
    epoch = join(harness, "m", ".*").reply.member_epoch
    for _ in range(10):
        harness.beat(member_id="m", epoch=epoch)
        harness.advance(REFRESH_INTERVAL_MS)
    assert len(matcher.asked) == 1


def test_a_group_that_is_gone_when_its_match_arrives_stays_gone(harness, matcher):
    join(harness, "m", ".*")
    harness.advance(0)
    harness.beat(member_id="m", epoch=-1)
    written = len(harness.records)
    matcher.answer()
    assert len(harness.records) == written


def test_a_match_is_replayed_from_the_log_and_not_repeated(harness, matcher):
    join(harness, "m", "t")
    harness.advance(0)
    matcher.answer()
    harness.restart()
    assert found(harness) == {"t": {"t"}}


def test_a_pattern_is_refused_that_would_be_too_much_work_for_the_topics():
    harness = ConsumerHarness({f"topic-{number}": 1 for number in range(100)}, limit_pattern_work=10_000)
    assert join(harness, "m", "topic-.*").ok
    refused = join(harness, "n", "(.?){100}")
    assert refused.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.reply.error_message.endswith("it takes more work than limit.pattern.work allows.")
    assert list(harness.consumer().members) == ["m"]


def test_a_match_is_wanted_while_the_group_has_members_with_patterns(harness, matcher):
    epoch = join(harness, "m", "t").reply.member_epoch
    harness.advance(0)
    (*_, is_wanted, _may_see) = matcher.asked[0]
    assert is_wanted()
    harness.beat(member_id="m", epoch=epoch, regex="", topics=["u"], owned={})
    assert not is_wanted()
    matcher.answer()
    harness.beat(member_id="m", epoch=harness.member("m").member_epoch, regex="t", topics=[], owned={})
    harness.advance(REFRESH_INTERVAL_MS)
    assert len(matcher.asked) == 1
