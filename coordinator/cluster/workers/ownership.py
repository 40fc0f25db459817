"""Keeps this worker alive in the engine's eyes, takes the shards that it should have, and gives those that others should.

    beat    six times in the engine's time-out; the lease is renewed with each. The answer shows whether a report was missed
    look    twice a second and when the engine reports a change, such as a worker that is dead. Only then it is asked who lives
            and who has what: an idle worker costs its engine nothing but beats
    take    shards without a living owner: all are claimed together, and the shortest logs are replayed first
    copy    the logs that this worker should have and another has; what is copied it marks
    give    shards of this worker that another should have and has copied: a few together, and the next ones when that has them
    release what the engine says that this worker has, although it lost the claim, if another should have it
    leave   when clients cannot reach this worker: every shard, in order; it comes back when they can. Likewise for a while when
            its disk takes no copy of a log, if there are others, who would wait for it otherwise
    move    when an operator asks: this worker is marked as wanting a shard, so the other gives it, and gets another in exchange
    drain   before an orderly stop, or when an operator asks: this worker is marked as leaving, so the others should have its
            shards, and it gives them
    yield   when the lease is over (the engine cannot be reached, or this process was stopped): every shard, at once

A worker that comes back after that has no claims any more. It beats, looks and takes like a new one.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from coordinator.cluster.engine.engine import Claim, Engine, EngineUnavailable, Fenced, Owner, Worker
from coordinator.cluster.workers.assignment import assign
from coordinator.cluster.workers.cluster import NAMED_MS, Workers
from coordinator.cluster.workers.lease import Lease
from coordinator.cluster.workers.reachability import Reachability
from coordinator.cluster.workers.replay_turns import ReplayTurns
from coordinator.cluster.workers.take_over import SharedShard
from coordinator.cluster.workers.tasks import end
from coordinator.runtime.shard import Status

_log = logging.getLogger(__name__)

LOOK_S = 0.5
"""How often a worker looks at what it knows if the engine reports no change."""
PAUSE_S_MIN = 0.01
"""Between two beats: clocks differ."""
TAKING_S = 0.05
"""How long it does not look again while it takes several shards, each of which is a change."""
UNFIT_MS = 10_000
"""How long a worker stays away whose disk takes no copy of a log."""
COPIED_AT_ONCE = 2
"""Logs that are copied at the same time."""
GIVEN_AT_ONCE = 8
"""Shards that this worker has released and nobody has taken yet, unless it releases all of them."""
PATIENCE_MS = 2_000
"""How long a worker waits for another to copy a log that it should have."""
DRAIN_S = 5.0
"""How long an orderly stop waits for the others to take the shards. Docker kills after 10 s what has not stopped."""
DRAIN_POLL_S = 0.01


class TakeOver(NamedTuple):
    """A shard that this worker has taken."""

    log: str
    records: int
    ms: int
    """From the claim until requests were served."""


class Ownership:
    """The shards of one worker. `start` begins, `stop` gives everything back."""

    def __init__(
        self,
        engine: Engine,
        worker: Worker,
        shards: Mapping[str, Sequence[SharedShard]],
        cluster: Workers,
        lease: Lease,
        turns: ReplayTurns,
        *,
        beat_ms: int,
        dead_after_ms: int,
        now_ms: Callable[[], int],
        on_taken: Callable[[TakeOver], None],
    ) -> None:
        """`shards`: by topic; each topic is spread evenly. `on_taken` is called when a shard is loaded."""
        self._engine = engine
        self._worker = worker
        self._topics = shards
        self._shards = {shard.name: shard for topic in shards.values() for shard in topic}
        self._cluster = cluster
        self._lease = lease
        self._beat_s = self._pause_s = beat_ms / 1000
        """`_pause_s`: until the next beat. It comes early when another worker is dead by then, which its answer shows."""
        self._now_ms = now_ms
        self._on_taken = on_taken
        self._changed = asyncio.Event()
        self._is_outdated = True
        """Whether the engine may have other workers or owners than this worker knows."""
        self._first_round = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._moves: dict[str, asyncio.Task[None]] = {}
        self._reachability = Reachability(cluster, self._on_reachability, dead_after_ms)
        self._turns = turns
        self._unfit_until_ms = 0
        """Until when this worker stays away from shards, because it could not take one."""
        self._given: set[str] = set()
        """The logs that were released, until somebody has them."""
        self._due: dict[str, int] = {}
        """Log of this worker -> since when another should have it."""
        self._copies: dict[str, asyncio.Task[None]] = {}
        """Logs that are being copied."""
        self._term = 0
        """Grows when the lease is over: what was claimed in an earlier term may be another worker's."""
        lease.on_over = self._yield
        engine.on_change = self._ask_again
        cluster.me = worker

    # --- start and stop -----------------------------------------------------------------------------------------------

    async def enter(self) -> None:
        """Lives from now on, and knows the others, so that clients can be answered. Raises EngineUnavailable."""
        await self._beat()
        await self._see()
        self._cluster.expected = self._wanted()

    async def start(self) -> None:
        """Goes on to beat, and returns when the first shards that this worker should have are loaded."""
        self._tasks = [
            asyncio.create_task(self._beat_forever()),
            asyncio.create_task(self._look_on_change()),
            asyncio.create_task(self._reachability.run()),
        ]
        await self._first_round.wait()

    async def stop(self) -> None:
        """Gives every shard to the others, what they do not take in time all at once, and leaves."""
        await self._drain()
        await end([*self._tasks, *self._moves.values(), *self._copies.values()])
        try:
            await self._give([each for each in self._shards.values() if each.is_held], "the server stops")
            await self._engine.leave(self._worker)
        except EngineUnavailable as error:
            _log.warning("event=not_released reason=%s", error)

    async def mark(self, *, is_leaving: bool | None = None, wants: str = "") -> None:
        """Gives the shards to the others from now on, while there are some, or takes a share again; or wants a log.

        Raises EngineUnavailable. Then the next beat says it.
        """
        wanted, leaving = self._worker.wants, self._worker.is_leaving if is_leaving is None else is_leaving
        if wants:
            wanted[wants] = 1 + max(each.wants.get(wants, 0) for each in (self._worker, *self._cluster.living))
        ready = [name for name, shard in self._shards.items() if shard.continues(self._cluster.owners.get(name))]
        self._worker = self._cluster.me = self._worker.marked(is_leaving=leaving, wants=wanted, ready=ready)
        await self._beat()
        self._changed.set()

    async def _drain(self) -> None:
        """Gives the shards to the others while there are some, so that each shard is silent for one take-over only."""
        with suppress(EngineUnavailable, TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await self.mark(is_leaving=True)
                while self._has_successor and (self._cluster.held or self._moves):  # noqa: ASYNC110 - once per process
                    await asyncio.sleep(DRAIN_POLL_S)

    @property
    def _has_successor(self) -> bool:
        """Whether another worker can take the shards of this one, which can still give them in order."""
        others = any(each.id != self._worker.id and not each.is_leaving for each in self._cluster.living)
        return others and not self._is_away and not self._lease.is_over

    # --- beats --------------------------------------------------------------------------------------------------------

    @property
    def _is_away(self) -> bool:
        """Whether others should have the shards, although this worker runs."""
        has_others = any(each.id != self._worker.id for each in self._cluster.living)
        is_unfit = has_others and self._now_ms() < self._unfit_until_ms
        return self._reachability.is_cut_off or is_unfit

    async def _beat(self) -> None:
        if self._is_away:
            return
        began_ms = self._now_ms()
        summary = await self._engine.beat(self._worker)
        if self._cluster.has_missed(summary):
            self._ask_again()
        self._pause_s = self._beat_s if summary.death_ms is None else min(self._beat_s, summary.death_ms / 1000)
        if self._lease.is_over:
            # Before it is renewed: this process may have been stopped, and others may have had its shards meanwhile.
            self._yield()
            self._ask_again()
        self._lease.renew(began_ms)

    async def _beat_forever(self) -> None:
        while True:
            pause_s, self._pause_s = self._pause_s, self._beat_s
            await asyncio.sleep(max(pause_s, PAUSE_S_MIN))
            try:
                async with asyncio.timeout(2 * self._beat_s):
                    await self._beat()
            except Exception as error:  # noqa: BLE001 - an engine that refuses today may be fit tomorrow
                _log.warning("event=beat_failed reason=%s", str(error) or "the engine did not answer in time")
            if self._lease.is_over:
                self._yield()

    def _on_reachability(self) -> None:
        is_cut_off = self._reachability.is_cut_off
        _log.log(
            logging.ERROR if is_cut_off else logging.INFO, "event=reachability clients_can_connect=%s", not is_cut_off
        )
        self._changed.set()

    def _yield(self) -> None:
        """Serves nothing any more: others may have the shards."""
        self._term += 1
        held = [shard for shard in self._shards.values() if shard.is_held]
        if held:
            _log.error("event=lease_over shards=%d", len(held))
            self._cluster.expected = self._wanted()
        for shard in held:
            shard.drop("the engine has not taken a beat in time")
        self._cluster.held.clear()

    # --- looks --------------------------------------------------------------------------------------------------------

    def _ask_again(self) -> None:
        self._is_outdated = True
        self._changed.set()

    async def _look_on_change(self) -> None:
        while True:
            try:
                await self._look()
            except EngineUnavailable as error:
                self._is_outdated = True
                _log.warning("event=look_failed reason=%s", error)
            except Exception:  # noqa: BLE001 - the next look may succeed
                self._is_outdated = True
                _log.exception("event=look_failed")
            if len(self._moves) > 1:
                await asyncio.sleep(TAKING_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._changed.wait()
            self._changed.clear()

    async def _see(self) -> None:
        """Takes over from the engine who lives and who owns what."""
        self._is_outdated = False
        # In this order: whoever has claimed a log has beaten before, so an owner that lives is among the living.
        owners = await self._engine.owners()
        living = await self._engine.workers()
        seen = await self._engine.workers(NAMED_MS)
        if living != self._cluster.living:
            _log.info("event=workers_living nodes=%s", ",".join(str(worker.node_id) for worker in living))
        claimed = [log for log, owner in owners.items() if owner.worker and owner != self._cluster.owners.get(log)]
        self._cluster.owners = owners
        self._cluster.update(living, seen)
        for log in claimed:
            self._cluster.on_claimed(log)
        self._cluster.on_seen()

    async def _look(self) -> None:
        # An append may have ended claims.
        self._cluster.held = {name for name, shard in self._shards.items() if shard.is_held}
        # Those who died are forgotten after a time that no engine reports. A worker that is away does not beat.
        if self._is_outdated or self._cluster.silent or self._is_away:
            await self._see()
        self._drop_fenced()
        wanted = self._cluster.expected = self._wanted()
        if self._is_away:
            await self._leave()
            return
        if self._lease.is_over:
            return
        self._take_missing(wanted)
        self._release_lost(wanted)
        self._give_some(wanted)
        await self._copy_some(wanted)
        if not self._moves:
            self._first_round.set()

    async def _leave(self) -> None:
        """Gives every shard to the others, and is none of the living until this worker is fit again."""
        is_cut_off = self._reachability.is_cut_off
        reason = "clients cannot connect" if is_cut_off else "the disk takes no copy of a log"
        self._move(sorted(self._cluster.held - self._moves.keys()), self._give, reason)
        await self._engine.leave(self._worker)

    def _drop_fenced(self) -> None:
        """Drops shards of which the engine has a newer claim. Without an append this worker would not learn it."""
        for log, owner in self._cluster.owners.items():
            shard = self._shards.get(log)
            claim = None if shard is None else shard.claim
            if shard is not None and claim is not None and claim.epoch < owner.epoch:
                _log.warning("event=shard_fenced log=%s", log)
                shard.drop("another worker has claimed the log")
                self._cluster.held.discard(log)

    def _wanted(self) -> dict[str, str]:
        """Log -> id of the worker that should have it. This one should have none while it may not serve any.

        Empty if all workers are leaving.
        """
        cluster, mine = self._cluster, self._worker.id
        workers = {worker.id: worker for worker in cluster.living if not worker.is_leaving}
        if self._reachability.is_cut_off or self._lease.is_over or self._worker.is_leaving:
            workers.pop(mine, None)
        else:
            workers[mine] = self._worker
        owners = {
            log: owner.worker.id
            for log, owner in cluster.owners.items()
            if owner.worker is not None and owner.worker.id in workers
        }
        owners |= dict.fromkeys(cluster.held, mine)
        marks = sorted((number, log, each.id) for each in workers.values() for log, number in each.wants.items())
        moved = {log: worker_id for _, log, worker_id in marks}
        wanted: dict[str, str] = {}
        for shards in self._topics.values():
            # A worker keeps what comes first, so it gives another one for a shard that was moved to it.
            logs = sorted((shard.name for shard in shards), key=lambda log: log not in moved)
            wanted |= assign(logs, owners | moved, list(workers.values()))
        return wanted

    def _take_missing(self, wanted: Mapping[str, str]) -> None:
        logs = [
            log
            for log, worker_id in wanted.items()
            if worker_id == self._worker.id and log not in self._moves and not self._shards[log].is_held
            if self._cluster.owner_of(log) in {None, self._worker}
        ]
        self._move(logs, self._claim, self._cluster.owners)

    def _release_lost(self, wanted: Mapping[str, str]) -> None:
        """Releases what this worker has in the engine only, because it lost the claim, and what another should have now."""
        mine = self._worker.id
        claims = [
            Claim(log, owner.epoch, 0, 0)
            for log, owner in self._cluster.owners.items()
            if owner.worker is not None and owner.worker.id == mine and wanted.get(log, mine) != mine
            if not self._shards[log].is_held and log not in self._moves
        ]
        self._move([claim.log for claim in claims], lambda _shards: self._engine.release(claims))

    def _give_some(self, wanted: Mapping[str, str]) -> None:
        mine, owners = self._worker.id, self._cluster.owners

        free = {
            log for log, worker_id in wanted.items() if worker_id != mine and log in owners and not owners[log].worker
        }
        self._given &= free | self._moves.keys()
        now_ms, held = self._now_ms(), sorted(self._cluster.held - self._moves.keys())
        self._due = {log: self._due.get(log, now_ms) for log in held if wanted.get(log, mine) != mine}
        copied = {worker.id: worker.ready for worker in self._cluster.living}
        late_ms = now_ms - PATIENCE_MS
        due = [log for log, since_ms in self._due.items() if since_ms <= late_ms or log in copied.get(wanted[log], ())]
        lacking = [log for log in held if log not in self._due and self._shards[log].lacks_events]
        for logs, reason in (due, "another worker should have it"), (lacking, "its event log is to be taken, too"):
            some = logs[: GIVEN_AT_ONCE - len(self._given)]
            self._given.update(some)
            self._move(some, self._give, reason)

    async def _copy_some(self, wanted: Mapping[str, str]) -> None:
        """Copies what others have and this worker should have, and lets them know. Raises EngineUnavailable."""
        cluster, owners = self._cluster, self._cluster.owners
        logs = [
            log
            for log, worker_id in wanted.items()
            if worker_id == self._worker.id and cluster.owner_of(log) not in {None, self._worker}
            if log not in self._moves and not self._shards[log].continues(owners[log])
        ]
        missing = [log for log in logs if log not in self._copies]
        for log in missing[: COPIED_AT_ONCE - len(self._copies)]:
            self._copies[log] = asyncio.create_task(self._copy(self._shards[log], owners[log].epoch))
        ready = {name for name, shard in self._shards.items() if shard.continues(owners.get(name))}
        if len(ready - self._worker.ready) >= (1 if not logs else GIVEN_AT_ONCE) or (not ready and self._worker.ready):
            await self.mark()

    async def _copy(self, shard: SharedShard, epoch: int) -> None:
        try:
            await self._turns.idle.wait()
            await shard.copy(self._engine, epoch)
        except Exception as error:  # noqa: BLE001 - who gives the shard does not wait for ever
            _log.warning("event=shard_not_copied log=%s reason=%s", shard.name, error)
            await asyncio.sleep(LOOK_S)
        finally:
            del self._copies[shard.name]
            self._changed.set()

    # --- moves --------------------------------------------------------------------------------------------------------

    def _move(self, logs: Sequence[str], move: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        """Runs `move(shards, ...)`, if there are some."""
        if not logs:
            return
        task = asyncio.create_task(move([self._shards[log] for log in logs], *arguments))
        self._moves |= dict.fromkeys(logs, task)

        def done(ended: asyncio.Task[None]) -> None:
            for log in logs:
                if self._moves.get(log) is ended:
                    del self._moves[log]
            self._is_outdated = True
            error = None if ended.cancelled() else ended.exception()
            if error is None:
                self._changed.set()
            else:
                reason = (
                    "another worker was quicker" if isinstance(error, Fenced) else f"{type(error).__name__}: {error}"
                )
                _log.warning("event=shard_not_moved log=%s reason=%s", ",".join(logs), reason)
                if isinstance(error, OSError):
                    self._unfit_until_ms = self._now_ms() + UNFIT_MS
                    self._changed.set()

        task.add_done_callback(done)

    async def _claim(self, shards: Sequence[SharedShard], owners: Mapping[str, Owner]) -> None:
        """Claims the logs of shards in two round trips, and begins to take those that it has got.

        `owners`: who is to be replaced, all of the same moment. So of two workers that claim at the same time, only one gets
        both logs of a shard. Until they are replayed, requests get COORDINATOR_LOAD_IN_PROGRESS.
        """
        began_ms, term = self._now_ms(), self._term
        await end(self._copies.get(shard.name) for shard in shards)
        with self._turns.taking():
            states = await self._claim_all([shard.name for shard in shards], owners)
            claimed = [shard for shard in shards if isinstance(states[shard.name], Claim)]
            for shard in claimed:
                if not shard.continues(owners.get(shard.name)):
                    shard.copied_epoch = 0
                shard.shard.await_log()
                self._cluster.held.add(shard.name)
            try:
                events = await self._claim_all([shard.events_name for shard in claimed if shard.events_name], owners)
            except BaseException:
                for shard in claimed:
                    shard.drop("the event log could not be claimed")
                raise
            for log, state in sorted(states.items(), key=lambda each: getattr(each[1], "tail", 0)):
                self._move([log], self._take, state, events.get(self._shards[log].events_name), began_ms, term)
            await asyncio.sleep(0)  # so that all are being taken

    async def _claim_all(self, logs: Sequence[str], owners: Mapping[str, Owner]) -> dict[str, Claim | BaseException]:
        seen = {log: owners[log].epoch if log in owners else 0 for log in logs}
        return await self._engine.claim_all(self._worker.marked(), seen) if seen else {}

    async def _take(
        self,
        shards: Sequence[SharedShard],
        state: Claim | BaseException,
        events: Claim | BaseException | None,
        began_ms: int,
        term: int,
    ) -> None:
        """Replays a shard. `state`, `events`: the claims of its logs, or why this worker has none."""
        if isinstance(state, BaseException):
            raise state
        [shard] = shards
        try:
            with self._turns.taking(), self._cluster.replaying(state.tail):
                async with self._turns.replaying:
                    await shard.replay(self._engine, state, events)
                    if term != self._term:
                        shard.drop("the lease was over while the shard was taken")
                        return
                    while shard.shard.status is Status.LOADING:  # noqa: ASYNC110 - a load goes on in slices
                        await asyncio.sleep(0.001)
        except BaseException as error:
            shard.drop(f"the log cannot be read: {error!r}")
            raise
        taken = TakeOver(shard.name, shard.shard.loaded.records, self._now_ms() - began_ms)
        _log.info("event=shard_taken log=%s records=%d ms=%d", *taken)
        self._on_taken(taken)

    async def _give(self, shards: Sequence[SharedShard], reason: str) -> None:
        given = await asyncio.gather(*(shard.give(reason) for shard in shards))
        self._cluster.held.difference_update(shard.name for shard in shards)
        claims = [claim for claims in given for claim in claims]
        if claims:
            await self._engine.release(claims)
            _log.info("event=shards_given logs=%s", ",".join(claim.log for claim in claims))
