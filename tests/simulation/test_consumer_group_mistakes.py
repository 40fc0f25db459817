"""The simulation catches known mistakes in consumer groups, and failing plans are shrunk."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from coordinator.cli import main
from coordinator.groups.consumer import reconcile, update
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.update import ConsumerUpdate
from coordinator.groups.migration import classic_members, downgrade
from coordinator.groups.settings import ASSIGNMENT_EPOCH
from coordinator_lab.simulation import simulator
from coordinator_lab.simulation.epoch_invariants import EpochsOfMembers
from coordinator_lab.simulation.plan import Plan, draw
from coordinator_lab.simulation.shrink import shrink
from coordinator_lab.simulation.simulator import Report
from tests.support.mistakes import Patch, assert_breaks, shown_by

pytestmark = pytest.mark.long

RETURNS = {"statics": 1.0, "think_s": 0.1}
"""Static members leave for a while and return, often."""


def assigned_before_it_is_revoked(patch: pytest.MonkeyPatch) -> None:
    """Every partition counts as free."""
    real = reconcile.reconcile

    def step(member: Any, **how: Any) -> Any:
        return real(member, **how | {"is_free": lambda topic_id, partition: True})

    patch.setattr(update, "reconcile", step)


@shown_by(18)
def revocation_is_not_awaited(patch: pytest.MonkeyPatch) -> None:
    """A member that must revoke partitions is assumed to have done so."""
    patch.setattr(reconcile, "_owns_any", lambda owned, held: False)


def timers_outlive_their_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerUpdate, "disarm_all_of", lambda self, member_id: None)


def revoked_partitions_stay_owned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "_disown", lambda self, held, member_id: None)


def a_clock_set_back_delays_assignments(patch: pytest.MonkeyPatch) -> None:
    """Found by this simulation; Kafka behaves the same."""

    def target_stands(self: ConsumerGroup, interval_ms: int, now_ms: int) -> bool:
        return self.target_timestamp_ms > 0 and now_ms < self.target_timestamp_ms + interval_ms

    patch.setattr(ConsumerGroup, "target_stands", target_stands)


@shown_by(5)
def a_downgrade_forgets_owners(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(downgrade, "_assignment", lambda *_: b"")


def classic_members_are_not_asked_to_rejoin(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(classic_members, "_must_join", lambda *_: False)


def a_member_that_returns_begins_again(patch: pytest.MonkeyPatch) -> None:
    """Its revocation epoch and assignment epochs are 0, as in Kafka and in older versions."""

    def enter(before: Any, target_epoch: int, after: Any) -> Any:
        assigned = {topic_id: dict.fromkeys(held, 0) for topic_id, held in after.assigned.items()}
        return replace(after, assigned=assigned, revocation_epoch=0)

    patch.setattr(reconcile, "_enter", enter)


def refused_commits_are_accepted_after_a_return(patch: pytest.MonkeyPatch) -> None:
    """The same, where nobody looks at the records themselves."""
    patch.setattr(EpochsOfMembers, "see", lambda self, offset, record: None)
    a_member_that_returns_begins_again(patch)


MISTAKES: Mapping[Patch, tuple[str, Mapping[str, Any]]] = {
    assigned_before_it_is_revoked: ("I(8|42)", {}),
    revocation_is_not_awaited: ("I8", {}),
    timers_outlive_their_members: ("I16", {}),
    revoked_partitions_stay_owned: ("I18", {}),
    a_clock_set_back_delays_assignments: ("I12", {"clock_jump_s": 5.0, "assignment_interval_ms": 1_000}),
    a_downgrade_forgets_owners: ("I(8|42)", {"mixed_groups": 3, "consumer_groups": 0}),
    classic_members_are_not_asked_to_rejoin: ("I12", {"mixed_groups": 2, "consumer_groups": 0}),
    a_member_that_returns_begins_again: ("I23", RETURNS),
    refused_commits_are_accepted_after_a_return: ("I24", RETURNS | {"fencing_policy": ASSIGNMENT_EPOCH}),
}
"""The mistake -> the promises of which one breaks, and changes to the plan under which it can show."""


SLOW = (
    refused_commits_are_accepted_after_a_return,
    a_downgrade_forgets_owners,
    a_clock_set_back_delays_assignments,
    classic_members_are_not_asked_to_rejoin,
)
"""They need many seeds."""


@pytest.mark.parametrize(
    "mistake",
    [pytest.param(each, id=each.__name__, marks=pytest.mark.thorough if each in SLOW else ()) for each in MISTAKES],
)
def test_a_known_mistake_in_consumer_groups_is_caught(mistake: Patch, monkeypatch: pytest.MonkeyPatch):
    promises, changes = MISTAKES[mistake]
    how = {
        "consumer_groups": 2, "mixed_groups": 0, "members": 3, "think_s": 0.3, "acts_s": 0.0, "rules_s": 0.0,
        "quotas_s": 0.0, "share_groups": 0, **changes,
    }  # fmt: skip
    mistake(monkeypatch)
    assert_breaks(mistake, promises, (replace(draw(seed, 40.0), **how) for seed in range(1, 21)))


# --- shrinking --------------------------------------------------------------------------------------------------------


def test_a_failing_plan_is_shrunk():
    """Here a run fails if the plan kills servers, has a consumer group of two and lasts more than ten seconds."""

    def run(plan: Plan) -> Report:
        breaks = plan.kill_s and plan.consumer_groups and plan.members >= 2 and plan.span_s > 10
        return Report(plan, broken="I8 single owner: of this plan" if breaks else None, seconds=plan.span_s)

    plan = replace(draw(6, 40.0), consumer_groups=2, members=5, kill_s=9.0, cut_s=3.0, short_writes=True)
    steps: list[Report] = []
    best = shrink(plan, run, steps.append)
    assert steps[-1] is best
    small = best.plan
    assert (small.kill_s, small.cut_s, small.short_writes, small.shards) == (9.0, 0.0, False, 1)
    assert (small.consumer_groups, small.groups, small.members) == (1, 1, 2)
    assert 10 < small.span_s <= 20


def test_a_failing_run_can_be_repeated_from_its_printed_plan(monkeypatch: pytest.MonkeyPatch):
    timers_outlive_their_members(monkeypatch)
    first = simulator.run(replace(draw(6, 20.0), consumer_groups=2, members=3, think_s=0.3))
    assert first.broken is not None
    again = simulator.run(Plan.parse(str(first.plan)))
    assert (again.trace, again.broken) == (first.trace, first.broken)


def test_a_printed_plan_can_be_passed_to_the_command(capsys: pytest.CaptureFixture[str]):
    plan = replace(draw(3, 5.0), members=1)
    assert Plan.parse(str(plan)) == plan
    assert main(["simulate", "--plan", str(plan)]) == 0
    assert f"plan: {plan}" in capsys.readouterr().out
    with pytest.raises(ValueError, match="no_such_fault"):
        Plan.parse("seed=1 no_such_fault=2")
    assert main(["simulate", "--plan", "members=1"]) == 2
