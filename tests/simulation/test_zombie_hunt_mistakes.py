"""Zombie hunts catch known mistakes in who may commit what (I42, I43), most of them at the seams between kinds of groups."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from coordinator.fastpath import repeated_commit
from coordinator.groups import fencing
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.fence import NO_FENCE, Fence
from coordinator.groups.migration import downgrade
from coordinator.groups.offsets import commit_in_transaction
from coordinator.groups.settings import STRICT
from coordinator.groups.streams.committer import StreamsCommitter
from coordinator.groups.streams.group import StreamsGroup
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import TxnOffsetCommitRequest
from coordinator_lab.simulation.plan import draw
from tests.support.mistakes import Patch, assert_breaks, shown_by

pytestmark = pytest.mark.long

SEEDS = 50

SAFETY, LIVENESS, REFUSED = "I42", "I43", "I24"
HUNT: Mapping[str, Any] = {
    "hunts": 2, "policy_changes": False, "kill_s": 8.0, "downtime_s": 0.1, "rules_s": 0.0, "quotas_s": 0.0, "accountants": 0,
    "counters": 0, "think_s": 0.3,
}  # fmt: skip
_NO_GROUPS = {"groups": 1, "consumer_groups": 0, "streams_groups": 0, "mixed_groups": 0, "share_groups": 0}
MIXED: Mapping[str, Any] = _NO_GROUPS | {"mixed_groups": 3, "members": 3, "mixed_resyncs": 0.3}
RESYNCED: Mapping[str, Any] = MIXED | {
    "mixed_resyncs": 0.5, "session_ms": 12_000, "initial_rebalance_delay_ms": 0, "cut_s": 0.0, "stall_s": 0.0,
    "half_open_s": 0.0, "pause_s": 0.0, "power_s": 0.0, "eio_s": 0.0, "full_s": 0.0, "slow_disk_s": 0.0, "stop_s": 0.0,
    "clock_jump_s": 0.0, "acts_s": 0.0, "forced_s": 0.0, "network_delay_s": 0.002, "fsync_s": 0.0005,
}  # fmt: skip
"""Nothing but kills disturbs the groups: leaders resync, then members of the other protocol convert the group."""
CLASSIC: Mapping[str, Any] = _NO_GROUPS | {"groups": 2, "members": 3, "resyncs": 0.3}
CONSUMER: Mapping[str, Any] = _NO_GROUPS | {"consumer_groups": 2, "members": 3}
STREAMS: Mapping[str, Any] = _NO_GROUPS | {"streams_groups": 2, "members": 3}


def a_resync_takes_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fence, "resynced", lambda fence, epoch, *_: Fence(epoch, fence.at(epoch).resyncs + 1, {}, {}))


def the_generation_of_a_classic_group_is_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    real = fencing.fence_epoch

    def fence_epoch(groups: Any, committer: Any, policies: Any, *rest: Any, **named: Any) -> None:
        if policies is not None:
            real(groups, committer, policies, *rest, **named)

    patch.setattr(fencing, "fence_epoch", fence_epoch)


def every_earlier_epoch_is_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fencing, "stale_because", lambda *_: None)


def no_earlier_epoch_is_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        fencing, "stale_because", lambda member, epoch, *_: None if epoch == member.member_epoch else fencing.BEHIND
    )


@shown_by(3)
def partitions_were_assigned_long_ago(patch: pytest.MonkeyPatch) -> None:
    real = ConsumerMember.assignment_epoch
    patch.setattr(ConsumerMember, "assignment_epoch", lambda *given: real(*given) and 1)


@shown_by(3)
def tasks_were_assigned_long_ago(patch: pytest.MonkeyPatch) -> None:
    real = StreamsCommitter.assignment_epoch
    patch.setattr(StreamsCommitter, "assignment_epoch", lambda *given: real(*given) and 1)


def the_generation_after_a_conversion_is_a_former_one(patch: pytest.MonkeyPatch) -> None:
    real = downgrade._downgrade

    def again(update: Any, *rest: Any) -> None:
        update.group_epoch -= 1
        real(update, *rest)
        update.group_epoch += 1

    patch.setattr(downgrade, "_downgrade", again)


def a_conversion_forgets_the_fence(patch: pytest.MonkeyPatch) -> None:
    """A group that is upgraded after a resync keeps its generation as its epoch."""
    patch.setattr(Fence, "converted", lambda *_: NO_FENCE)


def commits_in_transactions_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit_in_transaction, "fence_commit_in_transaction", lambda *_: None)


def a_resync_takes_nothing_from_transactions(patch: pytest.MonkeyPatch) -> None:
    real = fencing.fence_epoch

    def fence_epoch(groups: Any, committer: Any, policies: Any, request: Any, *, fence: Fence, stale: Any) -> None:
        takes = not isinstance(request, TxnOffsetCommitRequest)
        real(groups, committer, policies, request, fence=fence if takes else NO_FENCE, stale=stale)

    patch.setattr(fencing, "fence_epoch", fence_epoch)


def repeated_commits_have_any_epoch(patch: pytest.MonkeyPatch) -> None:
    """Those that take the fast path."""
    real = fencing.fence_commit

    def fence_commit(*given: Any) -> Any:
        try:
            return real(*given)
        except KafkaError as error:
            if error.code not in {ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH}:
                raise
            return fencing.NO_GROUP, ()

    patch.setattr(repeated_commit, "fence_commit", fence_commit)


@shown_by(4)
def no_member_commits_in_transactions(patch: pytest.MonkeyPatch) -> None:
    def fence_commit_in_transaction(*_: Any) -> None:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    patch.setattr(commit_in_transaction, "fence_commit_in_transaction", fence_commit_in_transaction)


def _remember_committers(patch: pytest.MonkeyPatch, kind: type[Any]) -> None:
    real, known = kind.find_committer, {}

    def find_committer(self: Any, member_id: str, catalog: Any) -> Any:
        found = real(self, member_id, catalog)
        if found is not None:
            known[self.group_id, member_id] = found
        return known.get((self.group_id, member_id))

    patch.setattr(kind, "find_committer", find_committer)


def a_consumer_commits_after_its_static_successor_came(patch: pytest.MonkeyPatch) -> None:
    _remember_committers(patch, ConsumerGroup)


def a_streams_thread_commits_after_its_static_successor_came(patch: pytest.MonkeyPatch) -> None:
    _remember_committers(patch, StreamsGroup)


def a_change_of_policy_ends_the_fence(patch: pytest.MonkeyPatch) -> None:
    real = fencing.stale_because
    patch.setattr(
        fencing,
        "stale_because",
        lambda *given: real(*given) if given[-1].fencing_policy == STRICT else None,
    )


MISTAKES: Mapping[Patch, tuple[Mapping[str, Any], str]] = {
    a_resync_takes_nothing: (CLASSIC, SAFETY),
    the_generation_of_a_classic_group_is_not_looked_at: (CLASSIC, SAFETY),
    every_earlier_epoch_is_accepted: (CONSUMER, SAFETY),
    no_earlier_epoch_is_accepted: (CONSUMER | {"fencing_policy": "assignment-epoch"}, LIVENESS),
    partitions_were_assigned_long_ago: (CONSUMER | {"fencing_policy": "assignment-epoch"}, f"{SAFETY}|{REFUSED}"),
    tasks_were_assigned_long_ago: (STREAMS | {"fencing_policy": "assignment-epoch"}, SAFETY),
    the_generation_after_a_conversion_is_a_former_one: (MIXED, SAFETY),
    a_conversion_forgets_the_fence: (RESYNCED, SAFETY),
    commits_in_transactions_are_not_fenced: (CONSUMER | {"workers": 3}, SAFETY),
    a_resync_takes_nothing_from_transactions: (CLASSIC, SAFETY),
    repeated_commits_have_any_epoch: (CONSUMER, SAFETY),
    no_member_commits_in_transactions: (CONSUMER, LIVENESS),
    a_consumer_commits_after_its_static_successor_came: (CONSUMER | {"statics": 1.0}, SAFETY),
    a_streams_thread_commits_after_its_static_successor_came: (STREAMS | {"statics": 1.0}, SAFETY),
    a_change_of_policy_ends_the_fence: (CONSUMER | {"fencing_policy": STRICT, "policy_changes": True}, SAFETY),
}
"""The mistake -> the groups of the run, and the promises of which one breaks."""


SLOW = (tasks_were_assigned_long_ago,)
"""It needs many seeds."""


@pytest.mark.parametrize(
    "mistake",
    [pytest.param(each, id=each.__name__, marks=pytest.mark.thorough if each in SLOW else ()) for each in MISTAKES],
)
def test_a_known_mistake_about_commits_is_hunted_down(mistake: Patch, monkeypatch: pytest.MonkeyPatch):
    mistake(monkeypatch)
    changes, promises = MISTAKES[mistake]
    how = HUNT | changes
    assert_breaks(mistake, promises, (replace(draw(seed, 40.0), **how) for seed in range(1, SEEDS + 1)))
