"""The simulation catches known mistakes in streams groups."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from coordinator.groups.settings import ASSIGNMENT_EPOCH
from coordinator.groups.streams import heartbeat, reconcile
from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.update import StreamsUpdate
from coordinator_lab.simulation.epoch_invariants import EpochsOfMembers
from coordinator_lab.simulation.plan import draw
from tests.support.mistakes import Patch, assert_breaks, shown_by

pytestmark = pytest.mark.long

RETURNS = {"statics": 1.0, "think_s": 0.1}
"""Static members leave for a while and return, often."""


def assigned_before_it_is_revoked(patch: pytest.MonkeyPatch) -> None:
    """Every active task counts as free."""
    patch.setattr(StreamsGroup, "owner", lambda self, subtopology_id, number: None)


@shown_by(13)
def revocation_is_not_awaited(patch: pytest.MonkeyPatch) -> None:
    """A member that must revoke tasks is assumed to have done so."""
    patch.setattr(reconcile, "_has_given_up", lambda owned, tasks: True)


def revoked_tasks_stay_owned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamsGroup, "_disown", lambda self, subtopology_id, numbers, member_id: None)


def a_process_has_a_task_twice(patch: pytest.MonkeyPatch) -> None:
    """The tasks of the other threads of a process are ignored."""
    for asked in ("runs_in", "has_standby"):
        patch.setattr(StreamsGroup, asked, lambda self, subtopology_id, number, process_id: False)


def timers_outlive_their_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamsUpdate, "disarm_all_of", lambda self, member_id: None)


@shown_by(4)
def assigned_tasks_are_sent_only_once(patch: pytest.MonkeyPatch) -> None:
    """Found by this simulation; Kafka behaves the same."""
    patch.setattr(heartbeat, "_lacks_some", lambda request, member: False)


def a_member_that_returns_begins_again(patch: pytest.MonkeyPatch) -> None:
    """Its revocation epoch and the assignment epochs of its tasks are 0, as in Kafka."""

    def enter(before: Any, after: Any, target_epoch: int) -> Any:
        active = {each: dict.fromkeys(numbers, 0) for each, numbers in after.assigned.active.items()}
        return replace(after, assigned=replace(after.assigned, active=active), revocation_epoch=0)

    patch.setattr(reconcile, "_enter", enter)


def refused_commits_are_accepted_after_a_return(patch: pytest.MonkeyPatch) -> None:
    """The same, where nobody looks at the records themselves."""
    patch.setattr(EpochsOfMembers, "see", lambda self, offset, record: None)
    a_member_that_returns_begins_again(patch)


MISTAKES: Mapping[Patch, tuple[str, Mapping[str, Any]]] = {
    assigned_before_it_is_revoked: ("I(8|42)", {}),
    revocation_is_not_awaited: ("I8", {}),
    revoked_tasks_stay_owned: ("I18", {}),
    a_process_has_a_task_twice: ("I8", {"num_standby_replicas": 1, "members": 5}),
    timers_outlive_their_members: ("I16", {}),
    a_member_that_returns_begins_again: ("I23", RETURNS),
    refused_commits_are_accepted_after_a_return: ("I24", RETURNS | {"fencing_policy": ASSIGNMENT_EPOCH}),
    assigned_tasks_are_sent_only_once: ("I12", {"kill_s": 5.0, "cut_s": 0.5, "members": 2}),
}
"""The mistake -> the promises of which one breaks, and changes to the plan under which it can show."""


SLOW = (refused_commits_are_accepted_after_a_return,)
"""It needs many seeds."""


@pytest.mark.parametrize(
    "mistake",
    [pytest.param(each, id=each.__name__, marks=pytest.mark.thorough if each in SLOW else ()) for each in MISTAKES],
)
def test_a_known_mistake_in_streams_groups_is_caught(mistake: Patch, monkeypatch: pytest.MonkeyPatch):
    promises, changes = MISTAKES[mistake]
    how = {
        "streams_groups": 2, "consumer_groups": 0, "mixed_groups": 0, "groups": 1, "members": 3, "think_s": 0.3,
        "accountants": 0, "counters": 0, "acts_s": 0.0, "rules_s": 0.0, "quotas_s": 0.0, "share_groups": 0,
        **changes,
    }  # fmt: skip
    mistake(monkeypatch)
    assert_breaks(mistake, promises, (replace(draw(seed, 40.0), **how) for seed in range(1, 21)))
