"""Invariants of several workers and their engine, checked from the inside.

- I1, I2, I4, I6, I16, I18, I23, I31 and I33 hold at each worker, for the shards that it serves (invariants.py). Here the log is
  what became durable in the engine, in that order.
- I36: what a worker serves is what the engine has. Once nothing is under way, the state of a shard in memory and its copy on
  disk equal a replay of the newest snapshot and the pieces behind it. The copy of its event log, if readers may have it, equals
  the newest pieces of that.
- I21, I22 and I24 hold for the events of all workers together, as the engine has them (event_log_invariants.py).
- I37: what a worker reports as durable is in the engine, by the claim that the worker has.
- I38: one owner is believed. When a worker takes a request for a shard, no other has taken one by a newer claim. That is what
  leases are for: the fence of the engine does not see reads. No worker claims what a living one has, so claims that end
  although their owner lives (the fault `claim`) are left out.
- I39, I40 and I41: see metadata_invariants.py, take_over_invariants.py and marker_invariants.py.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from coordinator.cluster.engine.engine import Claim
from coordinator.cluster.engine_writer import EngineWriter
from coordinator.groups.machine import GroupMachine
from coordinator.journal.turns import JournalWriter
from coordinator.runtime.shard import Shard, Status
from coordinator.server.composition import EVENTS_TOPIC, OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC, Server
from coordinator_lab.simulation import derived_state_invariants
from coordinator_lab.simulation.expiry import Appended, Expiry
from coordinator_lab.simulation.history import OnBroken
from coordinator_lab.simulation.invariants import Invariants, content_of, durable_state, read_batches
from coordinator_lab.simulation.marker_invariants import MarkerInvariants
from coordinator_lab.simulation.server_config import LOG_DIR
from coordinator_lab.simulation.share_invariants import ShareHistory
from coordinator_lab.simulation.shared_store import INVARIANT as ONE_WRITER
from coordinator_lab.simulation.shared_store import SharedStore

MEMORY = "I36 what a worker serves is what the engine has"
DURABLE = "I37 acknowledged is in the engine"
ONE_OWNER = "I38 one owner is believed"


class SharedInvariants(Invariants):
    """Checks all workers of a run."""

    def __init__(
        self,
        store: SharedStore,
        broken: OnBroken,
        expiry: Expiry,
        wall_ms: Callable[[], int],
        forced_epoch: Callable[[str], int],
        shares: ShareHistory,
    ) -> None:
        """As `Invariants`, for the workers of a store."""
        super().__init__(LOG_DIR, broken, expiry, wall_ms, forced_epoch, shares)
        self._store = store
        self._served: dict[str, int] = {}
        """Log -> the newest epoch by which a worker has taken a request for it."""
        self._newest: Server | None = None
        self.markers = MarkerInvariants(broken)
        store.on_appended = self._on_appended
        store.on_covered = self._covered

    def _on_appended(self, log: str, data: bytes) -> None:
        self.appended(f"{LOG_DIR}/{log}", data)
        self.markers.appended(log, data)

    # --- at each worker -----------------------------------------------------------------------------------------------

    def attach(self, server: Server) -> None:
        """Watches a server that has not started yet."""
        self._newest = server
        assert isinstance(server.journal, EngineWriter)
        for log, shard in shards_of(server):
            self._watch(server.journal, log, shard)

    def _watch(self, journal: EngineWriter, log: str, shard: Shard[Any]) -> None:
        submit, writer = shard.submit, shard._writer  # noqa: SLF001 - I38 and I37
        assert isinstance(writer, JournalWriter)
        on_durable = writer.on_durable

        def watched(operation: Any, request: Any) -> None:
            submit(operation, request)
            claim = journal.claim_of(shard.log)
            if claim is not None and shard.status is Status.ACTIVE:
                self._has_served(claim)

        def reported(end_offset: int) -> None:
            claim = journal.claim_of(shard.log)
            self._reported_durable(log, claim, end_offset)
            on_durable(end_offset)

        shard.submit = watched  # type: ignore[method-assign]
        writer.on_durable = reported

    def _has_served(self, claim: Claim) -> None:
        served = self._served.get(claim.log, 0)
        if claim.epoch < served and (claim.log, claim.epoch) not in self._store.stolen:
            self._broken(ONE_OWNER, f"{claim.log} is served by the claim {claim.epoch}, after it was by {served}")
        self._served[claim.log] = max(served, claim.epoch)

    def _reported_durable(self, log: str, claim: Claim | None, end_offset: int) -> None:
        ends = self._store.of(log).ends
        there = None if claim is None else ends.get(claim.epoch)
        if there != end_offset:
            self._broken(DURABLE, f"{log} is durable to {end_offset} by {claim}, and the engine has it to {there}")

    # --- as for one server --------------------------------------------------------------------------------------------

    def before_crash(self, server: Server) -> None:
        """The engine does not crash."""

    def after_start(self, server: Server) -> None:
        """Checks a worker that has taken its first shards."""
        self.check(server)
        self.check_events(server)

    def check_events(self, server: Server) -> set[int]:
        """Checks the event logs of the shards that a worker serves and of which nothing is under way; returns these shards."""
        shards = [shard for shard in server.groups.shards if self._has_events_at_rest(server, shard)]
        for shard in shards:
            self._check_events(server, shard)
        return {shard.index for shard in shards}

    def _has_events_at_rest(self, server: Server, shard: Shard[Any]) -> bool:
        """Whether a worker serves the shard and writes its events by the newest claims, and nothing of both is under way."""
        events, journal = shard.events, server.journal
        assert isinstance(journal, EngineWriter)
        if events is None or events.pending or not self._is_at_rest(server, f"{OFFSETS_TOPIC}-{shard.index}", shard):
            return False
        claim = journal.claim_of(events.log)
        return claim is not None and claim.epoch == self._store.of(claim.log).epoch

    def _check_events(self, server: Server, shard: Shard[GroupMachine]) -> None:
        events, name = shard.events, f"{EVENTS_TOPIC}-{shard.index}"
        assert events is not None
        self._event_logs.check_shared(shard, events, self._store.of(name).pieces)
        if server.topics.partition(EVENTS_TOPIC, shard.index) is not None:
            copy = b"".join(content_of(events.log, each) for each in events.log.segments)
            if copy != b"".join(self._store.logs[name].pieces.values()):
                self._broken(MEMORY, f"readers of {name} at worker {server.config.node_id} get something else")

    def check(self, server: Server) -> None:
        """Checks a running worker. Must be called between two callbacks."""
        derived_state_invariants.check(server, self._broken)
        for shard in server.groups.shards:
            log = f"{OFFSETS_TOPIC}-{shard.index}"
            if not self._is_at_rest(server, log, shard):
                continue
            self.checks += 1
            assert isinstance(shard.state, GroupMachine)
            live, appended = durable_state(shard.state), self._appended.get(shard.index, [])
            self._check_end(log, shard)
            self._compare(shard, live, "I1 replay equals live", self._on_disk(shard.log, appended), server)
            self._compare(shard, live, "I2 compaction is invisible", appended, server)
            self._compare(shard, live, MEMORY, self._in_engine(log), server)
        for transactions in server.transactions.shards:
            log = f"{TRANSACTIONS_TOPIC}-{transactions.index}"
            if self._is_at_rest(server, log, transactions):
                self.checks += 1
                self._check_end(log, transactions)

    def _is_at_rest(self, server: Server, log: str, shard: Shard[Any]) -> bool:
        """Whether a worker serves the shard by the newest claim, and nothing of it is under way."""
        journal = server.journal
        assert isinstance(journal, EngineWriter)
        claim = journal.claim_of(shard.log)
        return (
            claim is not None
            and claim.epoch == self._store.of(log).epoch
            and shard.status is Status.ACTIVE
            and not shard.has_unwritten
            and not journal.is_under_way(shard.log)
        )

    def _check_end(self, log: str, shard: Shard[Any]) -> None:
        there = self._store.of(log).end_offset
        if shard.log.end_offset != there:
            self._broken(MEMORY, f"{log} ends at {shard.log.end_offset}, and in the engine at {there}")

    def _in_engine(self, log: str) -> Iterable[Appended]:
        """The records of the newest snapshot and of the pieces behind it."""
        there = self._store.logs[log]
        return list(_records([*there.parts, *there.pieces.values()]))

    def _covered(self, log: str, upto: int, parts: Sequence[bytes]) -> None:
        topic, _, _ = log.rpartition("-")
        server = self._newest
        if topic != OFFSETS_TOPIC or server is None:
            return
        pieces = durable_state(self._replay(_records(self._store.of(log).pieces[:upto]), server))
        snapshot = durable_state(self._replay(_records(parts), server))
        if pieces != snapshot:
            self._broken(ONE_WRITER, f"a snapshot of {log} says {snapshot}, and the pieces before {upto} say {pieces}")


def _records(pieces: Iterable[bytes]) -> Iterable[Appended]:
    for piece in pieces:
        for _, records in read_batches(piece):
            yield from records


def shards_of(server: Server) -> Iterator[tuple[str, Shard[Any]]]:
    """The shards of a worker, with the names of their logs."""
    of_topics: dict[str, Sequence[Shard[Any]]] = {
        OFFSETS_TOPIC: server.groups.shards,
        TRANSACTIONS_TOPIC: server.transactions.shards,
        SHARE_TOPIC: server.share_states.router.shards,
    }
    for topic, shards in of_topics.items():
        for shard in shards:
            yield f"{topic}-{shard.index}", shard
