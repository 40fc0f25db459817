"""I13: a target is complete, disjoint, within subscriptions, balanced and sticky, and the same for the same group."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.groups.assignors.assignor import AssignorError, GroupSpec, MemberSpec, run
from coordinator.groups.assignors.range import RangeAssignor
from coordinator.groups.assignors.uniform import UniformAssignor

UNIFORM, RANGE = UniformAssignor(), RangeAssignor()


def topic(number):
    return number.to_bytes(16, "big")


def member(topics, assigned=None, instance=None):
    return MemberSpec(
        instance_id=instance,
        rack_id=None,
        topics=frozenset(map(topic, topics)),
        assigned={topic(each): frozenset(parts) for each, parts in (assigned or {}).items()},
    )


def spec(members, partitions):
    return GroupSpec(members=members, partitions={topic(each): count for each, count in partitions.items()})


def sizes(answer):
    return sorted(sum(map(len, partitions.values())) for partitions in answer.values())


def moved(group, answer):
    """Partitions that a member had, still subscribes to, and has lost."""
    return sum(
        len(parts - answer[member_id].get(topic_id, frozenset()))
        for member_id, each in group.members.items()
        for topic_id, parts in each.assigned.items()
        if topic_id in each.topics
    )


@st.composite
def groups(draw, *, uniform=False):
    topics = draw(st.dictionaries(st.integers(0, 5), st.integers(1, 12), min_size=1, max_size=5))
    ids = draw(st.lists(st.text("abcxyz", min_size=1, max_size=3), min_size=1, max_size=7, unique=True))
    shared = draw(st.sets(st.sampled_from(sorted(topics))))
    members, free = {}, {each: set(range(count)) for each, count in topics.items()}
    for member_id in ids:
        wanted = shared if uniform else draw(st.sets(st.sampled_from(sorted(topics))))
        assigned = {}
        for each in sorted(topics):
            some = draw(st.sets(st.sampled_from(sorted(free[each])))) if free[each] else set()
            free[each] -= some
            if some:
                assigned[each] = some
        instance = draw(st.none() | st.just(f"i-{member_id}"))
        members[member_id] = member(wanted, assigned, instance)
    return GroupSpec(
        members=members,
        partitions={
            topic(each): count
            for each, count in topics.items()
            if any(topic(each) in m.topics for m in members.values())
        },
    )


@pytest.mark.long
@settings(max_examples=60)
@given(groups(), st.sampled_from([UNIFORM, RANGE]))
def test_every_subscribed_partition_is_given_once_and_to_a_subscriber(group, assignor):
    answer = run("a", assignor, group)
    given_out = [(t, p) for partitions in answer.values() for t, parts in partitions.items() for p in parts]
    wanted = [(t, p) for t, count in group.partitions.items() for p in range(count)]
    assert sorted(given_out) == sorted(wanted)
    assert all(t in group.members[m].topics for m, partitions in answer.items() for t in partitions)


@pytest.mark.long
@settings(max_examples=50)
@given(groups(), st.sampled_from([UNIFORM, RANGE]), st.randoms(use_true_random=False))
def test_the_order_in_which_members_and_topics_are_listed_does_not_matter(group, assignor, random):
    members, partitions = list(group.members.items()), list(group.partitions.items())
    random.shuffle(members)
    random.shuffle(partitions)
    assert run("a", assignor, group) == run(
        "a", assignor, GroupSpec(members=dict(members), partitions=dict(partitions))
    )


@pytest.mark.long
@settings(max_examples=60)
@given(groups(uniform=True))
def test_uniform_differs_by_one_at_most_and_moves_no_more_than_that_takes(group):
    answer = run("uniform", UNIFORM, group)
    loads = sizes(answer)
    assert loads[-1] - loads[0] <= 1
    total, count = sum(loads), len(loads)
    quota, longer = divmod(total, count)
    held = sorted(
        (sum(len(parts) for t, parts in m.assigned.items() if t in m.topics) for m in group.members.values()),
        reverse=True,
    )
    must_move = sum(max(0, had - quota - (place < longer)) for place, had in enumerate(held))
    assert moved(group, answer) == must_move


@pytest.mark.long
@settings(max_examples=50)
@given(groups())
def test_uniform_leaves_no_partition_that_a_much_emptier_subscriber_could_take(group):
    answer = run("uniform", UNIFORM, group)
    load = {m: sum(map(len, partitions.values())) for m, partitions in answer.items()}
    for giver, partitions in answer.items():
        for topic_id in partitions:
            for taker, each in group.members.items():
                if topic_id in each.topics:
                    assert load[giver] - load[taker] <= 1


@pytest.mark.long
@settings(max_examples=50)
@given(groups())
def test_uniform_changes_nothing_when_called_again(group):
    answer = run("uniform", UNIFORM, group)
    again = GroupSpec(
        members={
            m: MemberSpec(instance_id=None, rack_id=None, topics=each.topics, assigned=answer[m])
            for m, each in group.members.items()
        },
        partitions=group.partitions,
    )
    assert run("uniform", UNIFORM, again) == answer


def test_uniform_splits_a_topic_between_two_the_first_keeps_the_lower_half():
    group = spec({"a": member([1], {1: {0, 1, 2, 3}}), "b": member([1])}, {1: 4})
    assert run("uniform", UNIFORM, group) == {"a": {topic(1): {0, 1}}, "b": {topic(1): {2, 3}}}


def test_range_gives_the_same_ranges_of_equal_topics_and_longer_ones_first():
    group = spec({m: member([1, 2]) for m in "abc"}, {1: 4, 2: 4})
    answer = run("range", RANGE, group)
    assert answer["a"] == {topic(1): {0, 1}, topic(2): {0, 1}}
    assert answer["b"] == {topic(1): {2}, topic(2): {2}}
    assert answer["c"] == {topic(1): {3}, topic(2): {3}}


def test_range_puts_members_with_an_instance_id_first():
    group = spec({"a": member([1]), "b": member([1], instance="z"), "c": member([1], instance="y")}, {1: 3})
    answer = run("range", RANGE, group)
    assert [answer[m][topic(1)] for m in "cba"] == [{0}, {1}, {2}]


def test_members_without_a_subscription_get_nothing():
    group = spec({"a": member([]), "b": member([])}, {})
    assert run("uniform", UNIFORM, group) == run("range", RANGE, group) == {"a": {}, "b": {}}


@pytest.mark.parametrize(
    "answer",
    [
        {"stranger": {topic(1): {0}}},
        {"a": {topic(2): {0}}},
        {"a": {topic(1): {0}}, "b": {topic(1): {0}}},
        {"a": {topic(1): {4}}},
        {"a": {topic(1): {-1}}},
    ],
)
def test_an_impossible_answer_is_refused(answer):
    class Wrong:
        def assign(self, group):
            return answer

    with pytest.raises(AssignorError):
        run("wrong", Wrong(), spec({"a": member([1]), "b": member([1])}, {1: 4}))


def test_an_assignor_that_fails_is_an_assignor_error():
    class Failing:
        def assign(self, group):
            raise ZeroDivisionError

    with pytest.raises(AssignorError, match="mine: ZeroDivisionError"):
        run("mine", Failing(), spec({"a": member([1])}, {1: 4}))


def test_a_large_group_is_balanced_and_stays_so_with_few_moves_after_a_leave():
    partitions = dict.fromkeys(range(10), 10_000)
    group = spec({f"m{i:04}": member(range(10)) for i in range(1_000)}, partitions)
    answer = run("uniform", UNIFORM, group)
    again = spec({}, partitions)
    members = {
        m: MemberSpec(instance_id=None, rack_id=None, topics=frozenset(again.partitions), assigned=answer[m])
        for m in list(answer)[1:]
    }
    after_leave = run("uniform", UNIFORM, GroupSpec(members=members, partitions=again.partitions))
    assert {size(assigned) for assigned in answer.values()} == {100}
    assert {size(assigned) for assigned in after_leave.values()} == {100, 101}
    for name, assigned in after_leave.items():
        for topic, kept in answer[name].items():
            assert set(kept) <= set(assigned[topic])


def size(assigned):
    return sum(map(len, assigned.values()))
