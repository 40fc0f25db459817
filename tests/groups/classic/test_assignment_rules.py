"""The rules of a leader's assignments, compared with a naive model."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.groups.classic.assignment_rules import (
    HOLDERS_NAMED_MAX,
    NO_SUBSCRIBER,
    NOT_REVOKED,
    PARTITIONS_NAMED_MAX,
    RULES,
    TWO_MEMBERS,
    find_violations,
)

partitions = st.dictionaries(st.sampled_from("tu"), st.lists(st.integers(0, 3), max_size=4).map(tuple), max_size=2)
by_member = st.dictionaries(st.sampled_from("abcd"), partitions, max_size=4)
subscriptions = st.none() | st.frozensets(st.sampled_from("tu"))


def pairs(each):
    return {(topic, index) for topic, indexes in each.items() for index in indexes}


def naive(assignments, subscribed, claims):
    """Rule -> partition -> (the members that it was assigned to, its owner)."""
    given_to = {member: pairs(each) for member, each in assignments.items()}
    claimed_by = {member: pairs(each) for member, each in claims.items()}
    expected = {rule: {} for rule in RULES}
    for partition in set().union(*given_to.values()):
        holders = {member for member, each in given_to.items() if partition in each}
        claimants = {member for member, each in claimed_by.items() if partition in each}
        if len(holders) > 1:
            expected[TWO_MEMBERS][partition] = (holders, None)
        if subscribed is not None and partition[0] not in subscribed:
            expected[NO_SUBSCRIBER][partition] = (holders, None)
        if len(claimants) == 1 and not claimants & holders:
            expected[NOT_REVOKED][partition] = (holders, next(iter(claimants)))
    return {rule: found for rule, found in expected.items() if found}


@pytest.mark.long
@given(by_member, subscriptions, by_member)
def test_the_violations_are_those_of_a_naive_model(assignments, subscribed, claims):
    found = find_violations(assignments, subscribed, claims.items())
    assert [each.rule for each in found] == [rule for rule in RULES if rule in {each.rule for each in found}]
    assert {
        each.rule: {(p.topic, p.partition): (set(p.member_ids), p.owner_id) for p in each.partitions} for each in found
    } == naive(assignments, subscribed, claims)
    assert all(each.size == len(each.partitions) for each in found)


def test_a_partition_that_one_member_is_given_twice_has_one_owner():
    assert find_violations({"a": {"t": (0, 0)}}, frozenset("t"), [("a", {"t": (0,)})]) == ()


def test_a_violation_names_a_few_partitions_and_members_and_counts_all_partitions():
    everything = {"t": tuple(range(1_000))}
    (found,) = find_violations({f"m{i:02}": everything for i in range(50)}, frozenset("t"), [])
    assert (found.rule, found.size, len(found.partitions)) == (TWO_MEMBERS, 1_000, PARTITIONS_NAMED_MAX)
    assert Counter(len(each.member_ids) for each in found.partitions) == {HOLDERS_NAMED_MAX: PARTITIONS_NAMED_MAX}
    assert [each.partition for each in found.partitions] == list(range(10))
