"""The sticky assignor: every active task once, copies in other processes, even loads, few moves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.groups.streams.configure import ConfiguredSubtopology
from coordinator.groups.streams.sticky import GroupSpec, MemberSpec, assign
from coordinator.groups.streams.topology import InternalTopic


def subtopology(number_of_tasks, *, is_stateful=True):
    return ConfiguredSubtopology(
        number_of_tasks=number_of_tasks,
        source_topics=("t",),
        repartition_source_topics=(),
        repartition_sink_topics=(),
        state_changelog_topics=(InternalTopic("c", number_of_tasks, 0),) if is_stateful else (),
    )


def tasks(assigned):
    return {(each, number) for each, numbers in assigned.items() for number in numbers}


def with_answer(group, answer, *, without=()):
    """The group once its members hold what they were assigned; some have left."""
    return GroupSpec(
        members={
            member_id: MemberSpec(
                process_id=member.process_id, active=answer[member_id].active, standby=answer[member_id].standby
            )
            for member_id, member in group.members.items()
            if member_id not in without
        },
        subtopologies=group.subtopologies,
        num_standby_replicas=group.num_standby_replicas,
    )


def group(members, subtopologies, replicas=0):
    """`members`: member id -> its process, or its spec."""
    return GroupSpec(
        members={
            member_id: MemberSpec(process_id=each) if isinstance(each, str) else each
            for member_id, each in members.items()
        },
        subtopologies=subtopologies,
        num_standby_replicas=replicas,
    )


@st.composite
def groups(draw):
    parts = {
        str(place): subtopology(draw(st.integers(1, 6)), is_stateful=draw(st.booleans()))
        for place in range(draw(st.integers(1, 3)))
    }
    ids = draw(st.lists(st.text("abcxyz", min_size=1, max_size=3), min_size=1, max_size=6, unique=True))
    every = [(each, number) for each, part in parts.items() for number in range(part.number_of_tasks + 1)]
    active, standby, offsets = ({member_id: {} for member_id in ids} for _ in range(3))
    for each, number in every:
        owner = draw(st.none() | st.sampled_from(ids))
        if owner is not None:
            active[owner].setdefault(each, set()).add(number)
        for member_id in draw(st.sets(st.sampled_from(ids), max_size=2)):
            standby[member_id].setdefault(each, set()).add(number)
        for member_id in draw(st.sets(st.sampled_from(ids), max_size=2)):
            offsets[member_id].setdefault(each, {})[number] = draw(st.integers(0, 5))
    return GroupSpec(
        members={
            member_id: MemberSpec(
                process_id=draw(st.sampled_from("pqr")),
                active=active[member_id],
                standby=standby[member_id],
                task_offsets=offsets[member_id],
            )
            for member_id in ids
        },
        subtopologies=parts,
        num_standby_replicas=draw(st.integers(0, 2)),
    )


@pytest.mark.long
@settings(max_examples=80)
@given(groups())
def test_every_active_task_is_given_once(group):
    given_out = [task for each in assign(group).values() for task in tasks(each.active)]
    assert sorted(given_out) == [
        (each, number) for each, part in group.subtopologies.items() for number in range(part.number_of_tasks)
    ]


@pytest.mark.long
@settings(max_examples=80)
@given(groups())
def test_stateful_tasks_have_as_many_copies_as_fit_into_different_processes(group):
    answer = assign(group)
    processes = {member.process_id for member in group.members.values()}
    holders = {}
    for member_id, each in answer.items():
        for task in [*tasks(each.active), *tasks(each.standby)]:
            holders.setdefault(task, []).append(group.members[member_id].process_id)
        assert not each.warmup
    for (each, _), places in holders.items():
        assert len(places) == len(set(places))
        copies = group.num_standby_replicas if group.subtopologies[each].is_stateful else 0
        assert len(places) == min(1 + copies, len(processes))


@pytest.mark.long
@settings(max_examples=50)
@given(groups(), st.randoms(use_true_random=False))
def test_the_order_in_which_members_are_listed_does_not_matter(group, random):
    members = list(group.members.items())
    random.shuffle(members)
    other = GroupSpec(
        members=dict(members), subtopologies=group.subtopologies, num_standby_replicas=group.num_standby_replicas
    )
    assert assign(other) == assign(group)


@pytest.mark.long
@settings(max_examples=50)
@given(groups())
def test_members_keep_the_active_tasks_that_they_hold(group):
    answer = assign(group)
    loads = [len(tasks(each.active)) for each in answer.values()]
    again = assign(with_answer(group, answer))
    if max(loads) - min(loads) <= 1:
        assert all(again[member_id].active == each.active for member_id, each in answer.items())


@settings(max_examples=50)
@given(st.integers(1, 6), st.integers(1, 12))
def test_members_of_processes_of_one_size_have_equal_numbers_of_tasks(members, number_of_tasks):
    answer = assign(group({f"m{each}": f"p{each}" for each in range(members)}, {"0": subtopology(number_of_tasks)}))
    loads = [len(tasks(each.active)) for each in answer.values()]
    assert max(loads) - min(loads) <= 1


def test_a_process_gets_tasks_for_each_of_its_members():
    answer = assign(group({"a": "p", "b": "p", "c": "p", "d": "q"}, {"0": subtopology(8)}))
    assert {member_id: len(tasks(each.active)) for member_id, each in answer.items()} == dict.fromkeys("abcd", 2)


def test_a_new_member_takes_only_its_share():
    before = group({"a": "p", "b": "q"}, {"0": subtopology(6)})
    had = assign(before)
    after = group(
        {**{each: MemberSpec(process_id=each, active=had[each].active) for each in "ab"}, "c": "r"},
        {"0": subtopology(6)},
    )
    answer = assign(after)
    assert all(tasks(answer[each].active) < tasks(had[each].active) for each in "ab")
    assert [len(tasks(answer[each].active)) for each in "abc"] == [2, 2, 2]


def test_a_member_with_a_copy_takes_over_when_the_owner_is_gone():
    group_ = group({"a": "p", "b": "q", "c": "r"}, {"0": subtopology(3)}, replicas=1)
    answer = assign(group_)
    heir = next(each for each in "bc" if tasks(answer[each].standby) & tasks(answer["a"].active))
    again = assign(with_answer(group_, answer, without="a"))
    assert tasks(answer["a"].active) <= tasks(again[heir].active)


def test_the_member_that_reports_the_most_state_gets_the_active_task():
    members = {
        "a": MemberSpec(process_id="p", task_offsets={"0": {0: 5}}),
        "b": MemberSpec(process_id="q", task_offsets={"0": {0: 7}}),
        "c": MemberSpec(process_id="r"),
    }
    answer = assign(group(members, {"0": subtopology(1)}))
    assert answer["b"].active == {"0": {0}}


def test_a_standby_is_preferred_to_reported_state():
    members = {
        "a": MemberSpec(process_id="p", task_offsets={"0": {0: 900}}),
        "b": MemberSpec(process_id="q", standby={"0": {0}}, task_offsets={"0": {0: 7}}),
    }
    assert assign(group(members, {"0": subtopology(1)}))["b"].active == {"0": {0}}


def test_a_member_that_was_active_becomes_the_standby():
    members = {
        "a": MemberSpec(process_id="p", active={"0": {0, 1}}),
        "b": MemberSpec(process_id="q"),
    }
    answer = assign(group(members, {"0": subtopology(2)}, replicas=1))
    assert answer["a"].active == {"0": {0}}
    assert answer["a"].standby == {"0": {1}}
    assert answer["b"].active == {"0": {1}}
    assert answer["b"].standby == {"0": {0}}


def test_stateless_tasks_have_no_copies():
    answer = assign(group({"a": "p", "b": "q"}, {"0": subtopology(2, is_stateful=False)}, replicas=1))
    assert not any(each.standby for each in answer.values())


def test_there_are_no_more_copies_than_processes():
    answer = assign(group({"a": "p", "b": "p"}, {"0": subtopology(2)}, replicas=2))
    assert not any(each.standby for each in answer.values())


def test_tasks_that_no_longer_exist_are_not_assigned():
    members = {"a": MemberSpec(process_id="p", active={"0": {0, 5}, "9": {0}}, standby={"9": {1}})}
    assert tasks(assign(group(members, {"0": subtopology(1)}))["a"].active) == {("0", 0)}


def test_a_group_without_members_gets_nothing():
    assert assign(group({}, {"0": subtopology(2)})) == {}


@pytest.mark.parametrize("replicas", [0, 1, 2])
def test_a_first_assignment_gives_ranges_in_the_order_of_the_ids(replicas):
    answer = assign(group({"a": "p", "b": "q"}, {"0": subtopology(2), "1": subtopology(2)}, replicas=replicas))
    assert answer["a"].active == {"0": {0}, "1": {0}}
    assert answer["b"].active == {"0": {1}, "1": {1}}
    if replicas:
        assert answer["a"].standby == {"0": {1}, "1": {1}}
        assert answer["b"].standby == {"0": {0}, "1": {0}}
