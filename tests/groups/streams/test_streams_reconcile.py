"""One step of a member towards its target: what it keeps, gives up, gets, and waits for."""

import pytest

from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.member import HeldTasks, MemberState, StreamsMember, TasksTuple
from coordinator.groups.streams.reconcile import reconcile

OWNS_NOTHING = TasksTuple()


def held(active=None, standby=(), warmup=()):
    """Tasks of subtopology 0: active ones with their epochs."""
    return HeldTasks(
        {"0": dict(active)} if active else {},
        {"0": frozenset(standby)} if standby else {},
        {"0": frozenset(warmup)} if warmup else {},
    )


def tasks(active=(), standby=(), warmup=()):
    return TasksTuple(*({"0": frozenset(each)} if each else {} for each in (active, standby, warmup)))


def member(member_id="m", *, epoch=5, previous=4, state=MemberState.STABLE, process="p", assigned=None, pending=None):
    return StreamsMember(
        member_id=member_id,
        process_id=process,
        member_epoch=epoch,
        previous_member_epoch=previous,
        state=state,
        assigned=assigned or held(),
        pending_revocation=pending or held(),
    )


def step(before, target, *others, owned=None, target_epoch=6):
    group = StreamsGroup("g")
    for each in (before, *others):
        group.put(each)
    return reconcile(before, target_epoch=target_epoch, target=target, owned=owned, group=group)


def test_a_member_that_has_reached_the_target_stays_as_it_is():
    before = member(epoch=6, assigned=held({0: 3}))
    assert step(before, tasks([0])) is before


def test_kept_tasks_keep_their_epoch_and_new_ones_have_the_targets():
    after = step(member(assigned=held({0: 3})), tasks([0, 1]))
    assert (after.member_epoch, after.previous_member_epoch, after.state) == (6, 5, MemberState.STABLE)
    assert after.assigned == held({0: 3, 1: 6})


def test_a_lost_task_must_be_revoked_before_the_member_reaches_the_epoch():
    after = step(member(assigned=held({0: 3, 1: 4})), tasks([0, 2]))
    assert (after.member_epoch, after.state) == (5, MemberState.UNREVOKED_TASKS)
    assert (after.assigned, after.pending_revocation) == (held({0: 3}), held({1: 4}))


@pytest.mark.parametrize("owned", [None, tasks([0, 1])])
def test_nothing_changes_until_the_member_reports_that_it_revoked_the_lost_task(owned):
    before = member(state=MemberState.UNREVOKED_TASKS, assigned=held({0: 3}), pending=held({1: 4}))
    assert step(before, tasks([0, 2]), owned=owned) is before


def test_a_task_owned_in_another_role_counts_as_revoked():
    before = member(state=MemberState.UNREVOKED_TASKS, assigned=held(standby=[1]), pending=held({1: 4}))
    assert step(before, tasks(standby=[1]), owned=tasks(standby=[1])).state is MemberState.STABLE


def test_after_revoking_a_member_gets_its_free_tasks_in_the_target_epoch():
    before = member(state=MemberState.UNREVOKED_TASKS, assigned=held({0: 3}), pending=held({1: 4}))
    after = step(before, tasks([0, 2]), owned=tasks([0]))
    assert (after.member_epoch, after.state) == (6, MemberState.STABLE)
    assert (after.assigned, after.pending_revocation) == (held({0: 3, 2: 6}), held())


def test_revoked_tasks_are_free_only_after_the_step():
    """Also for itself: a target that gives it back is reached with the next heartbeat."""
    before = member(state=MemberState.UNREVOKED_TASKS, assigned=held({0: 3}), pending=held({1: 4}))
    after = step(before, tasks([0, 1]), owned=tasks([0]))
    assert (after.state, after.assigned) == (MemberState.UNRELEASED_TASKS, held({0: 3}))


def test_a_later_target_that_revokes_more_tasks_raises_the_epoch_first():
    """A commit from before the first loss differs from one after it by its epoch."""
    before = member(state=MemberState.UNREVOKED_TASKS, assigned=held({0: 3}), pending=held({1: 4}))
    after = step(before, tasks([2]), owned=tasks([0]), target_epoch=9)
    assert (after.member_epoch, after.state) == (6, MemberState.UNREVOKED_TASKS)
    assert (after.assigned, after.pending_revocation) == (held(), held({0: 3}))


def test_a_member_that_owns_no_lost_task_reaches_the_epoch_at_once():
    after = step(member(assigned=held({0: 3})), tasks([1]), owned=OWNS_NOTHING)
    assert (after.member_epoch, after.assigned) == (6, held({1: 6}))


# --- others in the way ------------------------------------------------------------------------------------------------


def test_a_member_waits_in_the_target_epoch_for_an_active_task_of_another_member():
    after = step(member(), tasks([0, 1]), member("n", process="q", assigned=held({1: 2})))
    assert (after.member_epoch, after.state, after.assigned) == (6, MemberState.UNRELEASED_TASKS, held({0: 6}))


def test_an_active_task_that_another_member_must_revoke_is_not_free():
    other = member("n", process="q", state=MemberState.UNREVOKED_TASKS, pending=held({1: 2}))
    assert step(member(), tasks([1]), other).state is MemberState.UNRELEASED_TASKS


@pytest.mark.parametrize("other", [held(standby=[1]), held(warmup=[1])])
@pytest.mark.parametrize(("process", "state"), [("p", MemberState.UNRELEASED_TASKS), ("q", MemberState.STABLE)])
def test_a_copy_is_in_the_way_of_an_active_task_only_in_the_same_process(other, process, state):
    assert step(member(), tasks([1]), member("n", process=process, assigned=other)).state is state


@pytest.mark.parametrize("target", [tasks(standby=[1]), tasks(warmup=[1])])
@pytest.mark.parametrize("other", [held({1: 2}), held(standby=[1]), held(warmup=[1])])
@pytest.mark.parametrize(("process", "state"), [("p", MemberState.UNRELEASED_TASKS), ("q", MemberState.STABLE)])
def test_a_task_in_any_role_is_in_the_way_of_a_copy_only_in_the_same_process(target, other, process, state):
    assert step(member(), target, member("n", process=process, assigned=other)).state is state


def test_a_task_that_becomes_free_is_assigned_in_the_same_epoch():
    before = member(epoch=6, previous=5, state=MemberState.UNRELEASED_TASKS, assigned=held({0: 6}))
    after = step(before, tasks([0, 1]))
    assert (after.member_epoch, after.state, after.assigned) == (6, MemberState.STABLE, held({0: 6, 1: 6}))


def test_waiting_changes_nothing():
    before = member(epoch=6, previous=5, state=MemberState.UNRELEASED_TASKS, assigned=held({0: 6}))
    assert step(before, tasks([0, 1]), member("n", process="q", assigned=held({1: 2}))) is before


# --- a task that changes its role in one member -----------------------------------------------------------------------


def test_an_active_task_becomes_a_standby_while_the_active_one_is_revoked():
    after = step(member(assigned=held({0: 3})), tasks(standby=[0]), owned=tasks([0]))
    assert (after.state, after.assigned) == (MemberState.UNREVOKED_TASKS, held(standby=[0]))
    assert after.pending_revocation == held({0: 3})


def test_an_active_task_becomes_a_warm_up_only_after_it_was_revoked():
    after = step(member(assigned=held({0: 3})), tasks(warmup=[0]), owned=tasks([0]))
    assert (after.state, after.assigned) == (MemberState.UNREVOKED_TASKS, held())


def test_a_standby_becomes_active_in_one_step_if_the_active_task_is_free():
    after = step(member(assigned=held(standby=[0])), tasks([0]), owned=tasks(standby=[0]))
    assert (after.state, after.assigned) == (MemberState.STABLE, held({0: 6}))


@pytest.mark.parametrize("copy", [held(standby=[0]), held(warmup=[0])])
def test_a_copy_is_kept_until_the_active_task_is_free(copy):
    after = step(member(assigned=copy), tasks([0]), member("n", process="q", assigned=held({0: 2})))
    assert (after.member_epoch, after.state, after.assigned) == (6, MemberState.UNRELEASED_TASKS, copy)
    assert not after.pending_revocation


def test_a_copy_is_kept_while_another_task_is_revoked():
    after = step(member(assigned=held({1: 2}, standby=[0])), tasks([0]), owned=tasks([1], standby=[0]))
    assert (after.state, after.assigned) == (MemberState.UNREVOKED_TASKS, held(standby=[0]))
    assert after.pending_revocation == held({1: 2})


@pytest.mark.parametrize(
    ("before", "target", "after"),
    [
        (held(standby=[0]), tasks(warmup=[0]), held(warmup=[0])),
        (held(warmup=[0]), tasks(standby=[0]), held(standby=[0])),
    ],
)
def test_standbys_and_warm_ups_become_each_other_at_once(before, target, after):
    stepped = step(member(assigned=before), target, owned=TasksTuple(standby=before.standby, warmup=before.warmup))
    assert (stepped.state, stepped.assigned) == (MemberState.STABLE, after)


def test_a_lost_standby_must_be_revoked_too():
    after = step(member(assigned=held(standby=[0])), tasks(), owned=tasks(standby=[0]))
    assert (after.state, after.pending_revocation) == (MemberState.UNREVOKED_TASKS, held(standby=[0]))
