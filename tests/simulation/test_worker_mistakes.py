"""Mistakes in how workers share an engine are found by the simulation of several workers."""

from dataclasses import replace

import pytest

from coordinator.cluster.engine.engine import Claim
from coordinator.cluster.engine_writer import EngineWriter
from coordinator.cluster.sharing import Sharing
from coordinator.cluster.workers.cluster import Workers
from coordinator.cluster.workers.lease import Lease
from coordinator.cluster.workers.ownership import Ownership
from coordinator.cluster.workers.peers import Peers
from coordinator.cluster.workers.shared_events import _OlderSegments
from coordinator.cluster.workers.take_over import SharedShard
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import UserScramCredentialRecord
from coordinator.runtime import event_log
from coordinator.topics.metadata_log import MetadataLog
from coordinator.topics.registry import Registry
from coordinator.transactions.marker_delivery import MarkerDelivery
from coordinator_lab.simulation import simulator
from coordinator_lab.simulation.memory_engine import MemoryEngine, MemoryStore
from coordinator_lab.simulation.plan import draw
from tests.support.mistakes import assert_breaks

pytestmark = pytest.mark.long

SEEDS = range(1, 7)
SECONDS = 30.0
FAULTS = {
    "kill_s": 6.0, "pause_s": 5.0, "engine_faults": 0.05, "engine_cut_s": 6.0, "snapshot_s": 1.0,
    "power_s": 0.0, "acts_s": 0.0, "rules_s": 0.0, "quotas_s": 0.0, "full_s": 0.0, "eio_s": 0.0, "metadata_s": 0.0,
    "claim_s": 0.0, "move_s": 0.0,
}  # fmt: skip
METADATA = {
    "kill_s": 0.0, "pause_s": 0.0, "engine_faults": 0.0, "engine_cut_s": 1.0, "groups": 1, "members": 1, "counters": 0,
    "metadata_s": 0.05, "metadata_pieces": 1,
}  # fmt: skip
"""Changes to the plan under which mistakes in the metadata can show."""

LEASES = {"pause_s": 1.0, "engine_cut_s": 2.0, "kill_s": 0.0, "engine_faults": 0.0, "think_s": 0.3}
STEPS = LEASES | {"clock_step_s": 0.05, "pause_s": 0.4, "engine_cut_s": 0.0, "think_s": 0.1}
EVENTS = {
    "claim_s": 1.0, "engine_delay_s": 0.1, "engine_faults": 0.0, "kill_s": 0.0, "pause_s": 0.0, "think_s": 0.1, "shards": 1,
    "groups": 3, "members": 3, "counters": 0, "consumer_groups": 0, "mixed_groups": 0, "streams_groups": 0,
}  # fmt: skip
"""Here old owners often append events of what never takes effect."""

TRANSACTIONS = {"counters": 2, "groups": 1, "members": 1, "think_s": 0.1, "shards": 3, "engine_faults": 0.0}


def an_append_is_not_fenced(patch):
    def append(self, pieces):
        for claim, _, data in pieces:
            log = self.logs[claim.log]
            log.pieces[log.next_sequence] = data
        return frozenset()

    patch.setattr(MemoryStore, "append", append)


def a_claim_does_not_raise_the_epoch(patch):
    claim = MemoryStore.claim

    def same_epoch(self, name, worker, seen):
        before = self.logs[name].epoch if name in self.logs else 0
        claimed = claim(self, name, worker, seen)
        if claimed is not None and before:
            self.logs[name].epoch = before
            claimed = claimed._replace(epoch=before)
        return claimed

    patch.setattr(MemoryStore, "claim", same_epoch)


def a_lease_never_ends(patch):
    patch.setattr(Lease, "is_over", property(lambda _self: False))


def leases_go_by_the_wall_clock(patch):
    make = Sharing.make_journal

    def make_journal(self, *parts):
        self._lease._now_ms = self._clock.wall_ms
        return make(self, *parts)

    renew = Lease.renew
    patch.setattr(Sharing, "make_journal", make_journal)
    patch.setattr(Lease, "renew", lambda self, _began_ms: renew(self, self._now_ms()))


def an_unknown_outcome_is_a_success(patch):
    appended = EngineWriter._appended

    def hopeful(self, outcome, began_ms):
        appended(self, outcome if isinstance(outcome, frozenset) else frozenset(), began_ms)

    patch.setattr(EngineWriter, "_appended", hopeful)


def a_snapshot_stands_for_one_piece_too_many(patch):
    cover = MemoryStore.cover

    def too_many(self, claim, upto, parts):
        return cover(self, claim, min(upto + 1, self.logs[claim.log].next_sequence), parts)

    patch.setattr(MemoryStore, "cover", too_many)


def a_replay_ignores_the_snapshot(patch):
    read = MemoryEngine.read

    async def without_snapshot(self, log: str, claim: Claim | None = None):
        parts = len(self._store.logs[log].parts)
        async for each in read(self, log, claim):
            if parts:
                parts -= 1
            else:
                yield each

    patch.setattr(MemoryEngine, "read", without_snapshot)


def a_shard_forgets_what_it_has_replayed(patch):
    async def nothing(self, _engine, _claim):
        self.log.begin_again()

    patch.setattr(SharedShard, "_replay", nothing)


def a_worker_that_was_away_keeps_what_was_removed(patch):
    patch.setattr(Registry, "removals", lambda _self, _later: iter(()))


def compaction_forgets_users(patch):
    snapshot = Registry.snapshot

    def without_users(self, node_id):
        for records in snapshot(self, node_id):
            if not isinstance(records[0], UserScramCredentialRecord):
                yield records

    patch.setattr(Registry, "snapshot", without_users)


def users_are_acknowledged_and_not_written(patch):
    commit = MetadataLog.commit

    def forgetful(self, records, done, on_durable=None):
        if isinstance(records[0], UserScramCredentialRecord):
            done(ErrorCode.NONE)
        else:
            commit(self, records, done, on_durable)

    patch.setattr(MetadataLog, "commit", forgetful)


def a_worker_that_is_behind_has_nothing_to_remove(patch):
    patch.setattr(MetadataLog, "when_current", lambda self, operation, _refuse: self.when_leading(operation))


def workers_that_died_live_on(patch):
    living = MemoryStore.living
    patch.setattr(MemoryStore, "living", lambda self, since: living(self, since - 20))


def a_take_over_is_not_tried_again(patch):
    take_missing = Ownership._take_missing
    tried = set()

    def once(self, wanted):
        take_missing(self, {log: worker for log, worker in wanted.items() if (id(self), log) not in tried})
        tried.update((id(self), log) for log in self._moves)

    patch.setattr(Ownership, "_take_missing", once)


def a_beat_does_not_show_what_was_missed(patch):
    patch.setattr(Workers, "has_missed", lambda _self, _summary: False)


def markers_for_other_workers_are_not_awaited(patch):
    def nobody(self, marker, topic, index, done):
        done(ErrorCode.NONE)

    patch.setattr(Peers, "write_marker", nobody)


def markers_have_the_epoch_of_the_next_transaction(patch):
    deliver = MarkerDelivery.deliver

    def deliver_next(self, transactional_id, marker, remaining):
        deliver(self, transactional_id, marker._replace(producer_epoch=marker.producer_epoch + 1), remaining)

    patch.setattr(MarkerDelivery, "deliver", deliver_next)


def markers_for_other_workers_say_the_opposite(patch):
    write = Peers.write_marker

    def write_opposite(self, marker, *rest):
        write(self, marker._replace(commit=not marker.commit), *rest)

    patch.setattr(Peers, "write_marker", write_opposite)


def one_shard_of_several_gets_no_marker(patch):
    deliver = MarkerDelivery.deliver

    def deliver_most(self, transactional_id, marker, remaining):
        if len(remaining) > 1:
            remaining.remove(max(remaining))
        deliver(self, transactional_id, marker, remaining)

    patch.setattr(MarkerDelivery, "deliver", deliver_most)


def undone_events_are_not_declared(patch):
    patch.setattr(event_log, "_is_undone", lambda _value, _state_offset: False)


def an_event_too_many_is_declared_undone(patch):
    read_tail = event_log.read_tail

    def one_more(*parts):
        tail = read_tail(*parts)
        if tail.undone_from > 0:
            tail.undone_from -= 1
        return tail

    patch.setattr(event_log, "read_tail", one_more)


def the_copy_of_an_event_log_lacks_a_piece(patch):
    add = _OlderSegments.add

    async def most(self, sequence, data):
        if sequence != 1:
            await add(self, sequence, data)

    patch.setattr(_OlderSegments, "add", most)


def plans(changes):
    """Six seeds. Faults are frequent, so that half a minute suffices."""
    return (replace(draw(seed, SECONDS, 3), **FAULTS | changes) for seed in SEEDS)


@pytest.mark.parametrize(
    ("mistake", "promises", "changes"),
    [
        (an_append_is_not_fenced, "I(35|37)", {}),
        (a_claim_does_not_raise_the_epoch, "I35", {}),
        (a_lease_never_ends, "I38", LEASES),
        (leases_go_by_the_wall_clock, "I38", STEPS),
        (an_unknown_outcome_is_a_success, "I37", {}),
        (a_snapshot_stands_for_one_piece_too_many, "I(2|35|36)", {}),
        (a_replay_ignores_the_snapshot, "I(2|5|7|35|36)", {}),
        (a_shard_forgets_what_it_has_replayed, "I(2|5|35|36)", {}),
        (a_worker_that_was_away_keeps_what_was_removed, "I39|errors are ones", METADATA),
        (compaction_forgets_users, "I39|errors are ones", METADATA),
        (users_are_acknowledged_and_not_written, "I39|errors are ones", METADATA),
        (a_worker_that_is_behind_has_nothing_to_remove, "I39|errors are ones", METADATA),
        (workers_that_died_live_on, "I40", {"engine_faults": 0.0}),
        (a_take_over_is_not_tried_again, "I40", {"engine_faults": 0.0}),
        (a_beat_does_not_show_what_was_missed, "I(12|39|40)", {"lost_notifications": 1.0}),
        (markers_for_other_workers_are_not_awaited, "I41", TRANSACTIONS),
        (markers_have_the_epoch_of_the_next_transaction, "I41", TRANSACTIONS),
        (markers_for_other_workers_say_the_opposite, "I41", TRANSACTIONS),
        (one_shard_of_several_gets_no_marker, "I41", TRANSACTIONS),
        (undone_events_are_not_declared, "I21", EVENTS),
        (an_event_too_many_is_declared_undone, "I22", EVENTS),
        (the_copy_of_an_event_log_lacks_a_piece, "I36", EVENTS),
    ],
)
def test_a_known_mistake_of_workers_is_caught(mistake, promises, changes, monkeypatch):
    mistake(monkeypatch)
    assert_breaks(mistake, promises, plans(changes))


@pytest.mark.parametrize("changes", [{}, METADATA])
def test_these_faults_break_nothing_without_a_mistake(changes):
    assert simulator.run(next(plans(changes))).broken is None
