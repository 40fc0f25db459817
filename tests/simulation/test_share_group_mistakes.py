"""The simulation catches known mistakes in share groups, in the state of share partitions and in their leaders."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from coordinator.groups.share.initialized import StatePartitions
from coordinator.groups.share.update import ShareUpdate
from coordinator.share_state import machine as state_machine
from coordinator.share_state import questions, snapshots, state, write
from coordinator.share_state.batches import NO_BATCHES
from coordinator.share_state.share_state import Batch
from coordinator.topics.share import leader, machine
from coordinator.topics.share.dead_letters import DeadLetters
from coordinator.topics.share.in_flight import RecordState, Span
from coordinator.topics.share.leader import ShareLeader
from coordinator.topics.share.machine import ShareMachine
from coordinator_lab.simulation.plan import draw
from tests.support.mistakes import assert_breaks

pytestmark = pytest.mark.long

Patch = Callable[[pytest.MonkeyPatch], None]


def accepted_records_are_given_back(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(machine._STATE_AFTER, machine.ACCEPT, RecordState.AVAILABLE)


def acknowledgements_are_answered_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    persist = ShareLeader._persist

    def answer_at_once(self: ShareLeader, transitions: Any, limits: Any, done: Any) -> None:
        done(None)
        persist(self, transitions, limits, lambda _: None)

    patch.setattr(ShareLeader, "_persist", answer_at_once)


def locks_keep_nobody_away(patch: pytest.MonkeyPatch) -> None:
    def is_available(span: Span) -> bool:
        return span.state in {RecordState.AVAILABLE, RecordState.ACQUIRED} and span.transition is None

    patch.setattr(Span, "is_available", property(is_available))


def locks_end_early(patch: pytest.MonkeyPatch) -> None:
    acquire = ShareMachine.acquire

    def acquire_for_less(self: ShareMachine, wanted: Any, offset: int, fetched: Any, limits: Any, now_ms: int) -> Any:
        return acquire(self, wanted, offset, fetched, limits._replace(lock_ms=limits.lock_ms // 3), now_ms)

    patch.setattr(ShareMachine, "acquire", acquire_for_less)


def anybody_acknowledges(patch: pytest.MonkeyPatch) -> None:
    for check in ("_check", "_check_whole"):
        patch.setattr(machine, check, lambda span, member_id: None)


def deliveries_have_no_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Span, "given_back", lambda self, limit: RecordState.AVAILABLE)


def delivery_counts_are_not_stored(patch: pytest.MonkeyPatch) -> None:
    def persisted(transitions: Any) -> list[Batch]:
        return [Batch(each.first_offset, each.last_offset, each.state, 1) for each in transitions]

    patch.setattr(leader, "persisted", persisted)


def the_start_passes_records_that_are_held(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Span, "is_done", property(lambda self: self.state is not RecordState.AVAILABLE))


def aborted_records_are_delivered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine, "_without", lambda acquired, aborted: acquired)


def any_state_epoch_may_write(patch: pytest.MonkeyPatch) -> None:
    real = questions.Write
    patch.setattr(questions, "Write", lambda key, _, *rest: real(key, 2**31 - 1, *rest))


def snapshots_lack_what_is_acknowledged(patch: pytest.MonkeyPatch) -> None:
    real = write.snapshot_record
    patch.setattr(write, "snapshot_record", lambda key, state: real(key, state._replace(batches=NO_BATCHES)))


def updates_do_not_keep_the_earlier_ones(patch: pytest.MonkeyPatch) -> None:
    """As if the log were compacted: the last record of a share partition counts."""
    real = state.merged
    patch.setattr(state, "merged", lambda batches, added, start_offset: real(NO_BATCHES, added, start_offset))


def states_are_pruned_that_are_needed(patch: pytest.MonkeyPatch) -> None:
    real = snapshots.prune

    def prune(states: Any, now_ms: int) -> Any:
        for kept in states.by_key.values():
            kept.snapshot_offset = states.last_offset
        return real(states, now_ms)

    patch.setitem(state_machine.FIRE, snapshots.PRUNE[0], prune)  # type: ignore[arg-type]


def states_are_made_again(patch: pytest.MonkeyPatch) -> None:
    """The partitions that have a state are asked for, too."""
    real = StatePartitions.missing

    def missing(self: StatePartitions, *given: Any) -> Any:
        return real(replace(self, initialized={}), *given)

    patch.setattr(StatePartitions, "missing", missing)


def timers_outlive_their_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShareUpdate, "disarm_all_of", lambda self, member_id: None)


def dead_letters_are_not_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DeadLetters, "write", lambda self, dead, done: done())


def dead_letters_are_archived_by_the_next_leader(patch: pytest.MonkeyPatch) -> None:
    """As by a server without dead-letter queues."""
    real, archiving = ShareMachine._load, RecordState.ARCHIVING

    def load(self: ShareMachine, batches: Iterable[Batch]) -> None:
        taken = [
            each._replace(delivery_state=RecordState.ARCHIVED) if each.delivery_state == archiving else each
            for each in batches
        ]
        real(self, taken)

    patch.setattr(ShareMachine, "_load", load)


KILLS = {"kill_s": 3.0, "downtime_s": 0.1}
MISTAKES: Mapping[Patch, tuple[str, Mapping[str, Any]]] = {
    accepted_records_are_given_back: ("I44", {}),
    acknowledgements_are_answered_before_they_are_durable: (
        "I4[46]", {"power_s": 3.0, "fsync_s": 0.2, "durability": "fsync", "downtime_s": 0.1},
    ),
    locks_keep_nobody_away: ("I4[56]", {}),
    locks_end_early: ("I45", {}),
    anybody_acknowledges: ("I4[45]", {}),
    deliveries_have_no_limit: ("I46", {}),
    delivery_counts_are_not_stored: ("I4[67]", KILLS),
    the_start_passes_records_that_are_held: ("I47", {}),
    aborted_records_are_delivered: ("I10", {"accountants": 3}),
    any_state_epoch_may_write: ("I4[79]", {}),
    snapshots_lack_what_is_acknowledged: ("I4[46]", {}),
    updates_do_not_keep_the_earlier_ones: ("I48", {}),
    states_are_pruned_that_are_needed: ("I48", KILLS | {"segment_bytes": 4_096}),
    states_are_made_again: ("I4[467]", {}),
    timers_outlive_their_members: ("I16", {}),
    dead_letters_are_not_written: ("I50", {}),
    dead_letters_are_archived_by_the_next_leader: ("I47", KILLS),
}  # fmt: skip
"""The mistake -> the promises of which one breaks, and changes to the plan under which it can show."""
SHARE_GROUPS = {
    "share_groups": 2, "members": 3, "groups": 1, "consumer_groups": 0, "mixed_groups": 0, "streams_groups": 0,
    "accountants": 0, "counters": 0, "hunts": 0, "think_s": 0.3, "acts_s": 0.0, "rules_s": 0.0, "quotas_s": 0.0,
}  # fmt: skip


SLOW = (anybody_acknowledges,)
"""They need many seeds."""


@pytest.mark.parametrize(
    "mistake",
    [pytest.param(each, id=each.__name__, marks=pytest.mark.thorough if each in SLOW else ()) for each in MISTAKES],
)
def test_a_known_mistake_in_share_groups_is_caught(mistake: Patch, monkeypatch: pytest.MonkeyPatch):
    promises, changes = MISTAKES[mistake]
    mistake(monkeypatch)
    how = SHARE_GROUPS | changes
    assert_breaks(mistake, promises, (replace(draw(seed, 20.0), **how) for seed in range(1, 11)))
